package recipe

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/zkserver/zkserver/client"
)

// field has the recipes at work, all at the same time, while the servers go and come back. What is lost or done twice is
// seen at the end.
type field struct {
	*testing.T
	ctx  context.Context
	dial func(context.Context) (*client.Client, error)
	root string
	wg   sync.WaitGroup

	mu    sync.Mutex
	steps map[string]int
	moved chan struct{} // closed at the next step
	put   int
	had   map[string]int   // items that were had for sure, by data
	doubt map[string]bool  // items that may have been had
	works map[string]*Hold // of the partitioner, by name
}

func newField(t *testing.T, ctx context.Context, root string, dial func(context.Context) (*client.Client, error)) *field {
	return &field{
		T: t, ctx: ctx, dial: dial, root: root,
		steps: make(map[string]int), moved: make(chan struct{}), had: make(map[string]int), doubt: make(map[string]bool), works: make(map[string]*Hold),
	}
}

func (f *field) did(what string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.steps[what]++
	close(f.moved)
	f.moved = make(chan struct{})
}

// each waits until every kind of work has gone on for so many steps.
func (f *field) each(n int) {
	f.Helper()
	f.mu.Lock()
	from := maps.Clone(f.steps)
	f.mu.Unlock()
	for {
		f.mu.Lock()
		slow := ""
		for _, what := range []string{"count", "value", "put", "take", "claim", "round", "pass", "multi", "read", "write", "kept", "member", "instance"} {
			if f.steps[what]-from[what] < n {
				slow = what
			}
		}
		moved := f.moved
		f.mu.Unlock()
		if slow == "" {
			return
		}
		select {
		case <-moved:
		case <-f.ctx.Done():
			f.Fatalf("%s does not go on: %v, and before %v", slow, f.steps, from)
		}
	}
}

// work repeats something, by a client of its own, until ctx ends.
func (f *field) work(ctx context.Context, what string, do func(ctx context.Context, c *client.Client) error) {
	f.wg.Go(func() {
		c, err := f.dial(f.ctx)
		if err != nil {
			f.Error(err)
			return
		}
		defer func() { _ = c.Close() }() // the servers may be away
		for ctx.Err() == nil {
			if err := do(ctx, c); err == nil {
				f.did(what)
			} else if ctx.Err() == nil {
				f.Errorf("%s: %v", what, err)
				return
			}
		}
	})
}

// keep runs something in as many sessions as it takes, and repeats what depends on it.
func (f *field) keep(ctx context.Context, what string, run func(context.Context, *client.Client) error, do func(ctx context.Context, n int) error) {
	f.wg.Go(func() {
		if err := Sessions(ctx, f.dial, run); ctx.Err() == nil {
			f.Errorf("%s: %v", what, err)
		}
	})
	f.wg.Go(func() {
		for n := 1; ctx.Err() == nil; n++ {
			if err := do(ctx, n); err == nil {
				f.did(what)
			} else if ctx.Err() == nil {
				f.Errorf("%s: %v", what, err)
				return
			}
		}
	})
}

// seen waits until a cache shows something.
func seen(ctx context.Context, c *Cache, is func() bool) error {
	for range c.Watch(ctx) {
		if is() {
			return nil
		}
	}
	return ctx.Err()
}

// inside is who has a lock.
type inside struct{ readers, writers []*Hold }

// alone looks at who has the lock beside a Hold, and releases it.
func (f *field) alone(h *Hold, err error, in *inside, writes bool) error {
	if errors.Is(err, client.ErrLost) {
		return nil // of a multi-lock, while it waited for the second: this machine stood still
	}
	if err != nil {
		return err
	}
	live := func(all []*Hold) int {
		return len(slices.DeleteFunc(slices.Clone(all), func(h *Hold) bool { return h.Context().Err() != nil }))
	}
	f.mu.Lock()
	if h.Context().Err() == nil && (live(in.writers) > 0 || writes && live(in.readers) > 0) {
		f.Errorf("%s has somebody beside it", h.Path())
	}
	mine := &in.readers
	if writes {
		mine = &in.writers
	}
	*mine = append(*mine, h)
	f.mu.Unlock()
	if err := context.Cause(h.Context()); err != nil && !errors.Is(err, client.ErrLost) {
		return err
	}
	err = h.Release(f.ctx)
	f.mu.Lock()
	defer f.mu.Unlock()
	*mine = slices.DeleteFunc(*mine, func(old *Hold) bool { return old == h })
	return err
}

// start starts it all.
func (f *field) start(ctx context.Context) {
	for range 2 {
		f.work(ctx, "count", func(ctx context.Context, c *client.Client) error {
			// Of a count that is given up nobody knows: none is.
			_, err := NewCounter(c, f.root+"/counter", Int64, Options{}).Add(f.ctx, 1)
			return err
		})
		f.work(ctx, "round", func(ctx context.Context, c *client.Client) error {
			stay, err := NewDoubleBarrier(c, f.root+"/rounds", 2, Options{}).Enter(ctx)
			if err != nil {
				return err
			}
			if err := stay.Context().Err(); err != nil {
				return err
			}
			return stay.Leave(ctx)
		})
	}
	f.work(ctx, "put", func(ctx context.Context, c *client.Client) error {
		f.mu.Lock()
		id := fmt.Sprint(f.put)
		f.put++
		f.mu.Unlock()
		return NewQueue(c, f.root+"/queue", Options{}).Put(f.ctx, []byte(id), DefaultPriority)
	})
	f.work(ctx, "take", func(ctx context.Context, c *client.Client) error {
		item, err := NewQueue(c, f.root+"/queue", Options{}).Take(ctx)
		if err == nil || client.MaybeApplied(err) {
			f.has(item, err)
		}
		return err
	})
	f.work(ctx, "claim", func(ctx context.Context, c *client.Client) error {
		claim, err := NewQueue(c, f.root+"/queue", Options{}).Claim(ctx)
		if err != nil {
			return err
		}
		err = claim.Finish(f.ctx)
		if err == nil || client.MaybeApplied(err) {
			f.has(claim.Item(), err)
		}
		return err
	})
	f.work(ctx, "pass", func(ctx context.Context, c *client.Client) error {
		b := NewBarrier(c, f.root+"/barrier", Options{})
		if err := b.Set(ctx); err != nil {
			return err
		}
		waits := make(chan error, 1)
		go func() { waits <- b.Wait(ctx) }()
		return errors.Join(b.Remove(ctx), <-waits)
	})
	f.work(ctx, "value", func(_ context.Context, c *client.Client) error {
		_, err := NewValue(c, f.root+"/value", Options{}).Update(f.ctx, func(old []byte) ([]byte, error) { return append(old, 'x'), nil })
		return err
	})
	var multi, rw inside
	for range 2 {
		f.work(ctx, "multi", func(ctx context.Context, c *client.Client) error {
			h, err := NewMultiLock(c, []string{f.root + "/m1", f.root + "/m2"}, Options{}).Lock(ctx)
			return f.alone(h, err, &multi, true)
		})
		f.work(ctx, "read", func(ctx context.Context, c *client.Client) error {
			h, err := NewRWMutex(c, f.root+"/rw", Options{}).RLock(ctx)
			return f.alone(h, err, &rw, false)
		})
	}
	f.work(ctx, "write", func(ctx context.Context, c *client.Client) error {
		h, err := NewRWMutex(c, f.root+"/rw", Options{}).Lock(ctx)
		return f.alone(h, err, &rw, true)
	})
	node := NewKeptNode(f.root+"/kept/node", nil, Options{})
	f.keep(ctx, "kept", node.Run, func(ctx context.Context, n int) error {
		node.Set(fmt.Append(nil, n))
		return node.Wait(ctx)
	})
	group := NewGroup(f.root+"/group", "me", nil, Options{})
	f.keep(ctx, "member", group.Run, func(ctx context.Context, n int) error {
		group.SetData(fmt.Append(nil, n))
		return seen(ctx, group.Cache(), func() bool {
			m := group.Members()
			return len(m) == 1 && string(m[0].Data) == fmt.Sprint(n)
		})
	})
	instance, err := NewRegistration(f.root+"/services", Instance{Service: "s", ID: "me"}, Options{})
	if err != nil {
		f.Fatal(err)
	}
	service := NewService(f.root+"/services", "s")
	both := func(ctx context.Context, c *client.Client) error { return Together(ctx, c, instance.Run, service.Run) }
	f.keep(ctx, "instance", both, func(ctx context.Context, n int) error {
		if err := instance.Update(func(in *Instance) { in.Port = n }); err != nil {
			return err
		}
		return seen(ctx, service.Cache(), func() bool {
			in, ok := service.Pick()
			return ok && in.Port == n
		})
	})
	for i := range 2 {
		p := NewPartitioner(f.root+"/shared", fmt.Sprint("member-", i), []string{"a", "b", "c"}, Options{})
		f.wg.Go(func() {
			err := Sessions(ctx, f.dial, func(ctx context.Context, c *client.Client) error {
				return p.Run(ctx, c, f.share)
			})
			if ctx.Err() == nil {
				f.Errorf("partitioner: %v", err)
			}
		})
	}
}

func (f *field) has(item Item, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	id := string(item.Data)
	if err != nil {
		f.doubt[id] = true // it was given up
		return
	}
	if f.had[id]++; f.had[id] > 1 {
		f.Errorf("item %s was had twice", id)
	}
}

func (f *field) share(name string, h *Hold) error {
	f.mu.Lock()
	if old := f.works[name]; h.Context().Err() == nil && old != nil && (old.Context().Err() == nil || old.Token() >= h.Token()) {
		f.Errorf("%s has two, or a token goes back", name)
	}
	f.works[name] = h
	f.mu.Unlock()
	<-h.Context().Done()
	return nil
}

// run starts the work, and a cache of it all; disturb is called as often as told. Then it compares.
func (f *field) run(times int, disturb func(i int)) {
	f.Helper()
	admin, err := f.dial(f.ctx)
	if err != nil {
		f.Fatal(err)
	}
	defer func() { _ = admin.Close() }()
	if _, err := admin.Create(f.ctx, f.root, nil, client.Persistent); err != nil {
		f.Fatal(err)
	}
	cache := NewTreeCache(f.root)
	cctx, end := context.WithCancel(f.ctx)
	var cached sync.WaitGroup
	cached.Go(func() { _ = Sessions(cctx, f.dial, cache.Run) })
	defer cached.Wait()
	defer end()

	ctx, stop := context.WithCancel(f.ctx)
	f.start(ctx)
	f.each(1)
	for i := range times {
		disturb(i)
		f.each(1)
	}
	f.mu.Lock()
	for _, name := range []string{"a", "b", "c"} {
		if h := f.works[name]; h == nil {
			f.Errorf("nobody has worked on %s", name)
		}
	}
	f.mu.Unlock()
	stop()
	f.wg.Wait()
	f.compare(admin, cache)
}

func (f *field) compare(admin *client.Client, cache *Cache) {
	f.Helper()
	if n, err := NewCounter(admin, f.root+"/counter", Int64, Options{}).Get(f.ctx); err != nil || int(n) != f.steps["count"] {
		f.Errorf("counted to %d, %v: %d have counted", n, err, f.steps["count"])
	}
	if text, _, err := NewValue(admin, f.root+"/value", Options{}).Get(f.ctx); err != nil || len(text) != f.steps["value"] {
		f.Errorf("the value has grown to %d, %v: by %d updates", len(text), err, f.steps["value"])
	}
	q := NewQueue(admin, f.root+"/queue", Options{})
	for {
		n, err := q.Len(f.ctx)
		if err != nil {
			f.Fatal(err)
		}
		if n == 0 {
			break
		}
		item, err := q.Take(f.ctx)
		if err != nil {
			f.Fatal(err)
		}
		f.has(item, nil)
	}
	for i := range f.put {
		if id := fmt.Sprint(i); f.had[id] == 0 && !f.doubt[id] {
			f.Errorf("item %s is lost", id)
		}
	}
	// The cache shows what is there. Ephemerals go as sessions end, so both are asked again.
	for range cache.Watch(f.ctx) {
		want, err := f.paths(admin, f.root)
		if err != nil {
			f.Fatal(err)
		}
		var got []string
		for _, n := range cache.Nodes() {
			got = append(got, n.Path)
		}
		slices.Sort(want)
		if cache.Synced() && slices.Equal(got, want) {
			break
		}
	}
	if err := f.ctx.Err(); err != nil {
		f.Errorf("the cache does not show what is there: %v", err)
	}
	f.Logf("steps %v", f.steps)
}

func (f *field) paths(c *client.Client, path string) ([]string, error) {
	names, _, err := c.Children(f.ctx, path)
	if errors.Is(err, client.ErrNoNode) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	all := []string{path}
	for _, n := range names {
		below, err := f.paths(c, path+"/"+n)
		if err != nil {
			return nil, err
		}
		all = append(all, below...)
	}
	return all, nil
}

// The leader of an ensemble of three processes is killed and comes back, again and again, under all recipes but the election
// and the simple locks (TestFailovers): what was counted, put and taken is there once, and the work goes on.
// ZKSERVER_FULL=1 kills it 20 times on each wire.
func TestRecipesThroughKills(t *testing.T) {
	t.Parallel()
	kills := 1
	if os.Getenv("ZKSERVER_FULL") != "" {
		kills = 20
	}
	e := startEnsemble(t)
	for _, w := range []client.Wire{client.ZooKeeper, client.GRPC} {
		t.Run(w.String(), func(t *testing.T) {
			ctx, cancel := context.WithTimeout(context.Background(), patience+time.Duration(kills)*10*time.Second)
			defer cancel()
			f := newField(t, ctx, "/field-"+w.String(), func(ctx context.Context) (*client.Client, error) {
				return client.Dial(ctx, e.connect(), client.Options{Wire: w, SessionTimeout: 30 * time.Second, BackoffMax: tick / 2})
			})
			f.run(kills, func(int) {
				leader := e.leader(ctx)
				e.kill(leader)
				f.each(1)
				e.start(leader)
				e.serves(leader)
			})
		})
	}
}

// TestFieldApache has the recipes at work against the Apache ZooKeeper server that ZK_APACHE (host:port) names, by
// connections that are cut again and again.
func TestFieldApache(t *testing.T) {
	addr := os.Getenv("ZK_APACHE")
	if addr == "" {
		t.Skip("ZK_APACHE is not set")
	}
	ctx, cancel := context.WithTimeout(context.Background(), 3*patience)
	defer cancel()
	net := &frozen{factor: 1}
	f := newField(t, ctx, fmt.Sprintf("/field-%d", time.Now().UnixNano()), func(ctx context.Context) (*client.Client, error) {
		return client.Dial(ctx, addr, client.Options{SessionTimeout: 10 * time.Second, BackoffMax: 50 * time.Millisecond, DialContext: net.dial})
	})
	f.run(5, func(int) { net.cut() })
}
