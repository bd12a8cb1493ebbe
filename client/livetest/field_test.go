package livetest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/zkserver/zkserver/client"
	"github.com/zkserver/zkserver/client/recipe"
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
	had   map[string]int          // items that were had for sure, by data
	doubt map[string]bool         // items that may have been had
	works map[string]*recipe.Hold // of the partitioner, by name
}

func newField(t *testing.T, ctx context.Context, root string, dial func(context.Context) (*client.Client, error)) *field {
	return &field{
		T: t, ctx: ctx, dial: dial, root: root,
		steps: make(map[string]int), moved: make(chan struct{}), had: make(map[string]int), doubt: make(map[string]bool), works: make(map[string]*recipe.Hold),
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
		for _, what := range []string{"count", "put", "take", "claim", "round", "pass", "kept"} {
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

// start starts it all.
func (f *field) start(ctx context.Context) {
	for range 2 {
		f.work(ctx, "count", func(ctx context.Context, c *client.Client) error {
			// Of a count that is given up nobody knows: none is.
			_, err := recipe.NewCounter(c, f.root+"/counter", recipe.Int64, recipe.Options{}).Add(f.ctx, 1)
			return err
		})
		f.work(ctx, "round", func(ctx context.Context, c *client.Client) error {
			stay, err := recipe.NewDoubleBarrier(c, f.root+"/rounds", 2, recipe.Options{}).Enter(ctx)
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
		return recipe.NewQueue(c, f.root+"/queue", recipe.Options{}).Put(f.ctx, []byte(id), recipe.DefaultPriority)
	})
	f.work(ctx, "take", func(ctx context.Context, c *client.Client) error {
		item, err := recipe.NewQueue(c, f.root+"/queue", recipe.Options{}).Take(ctx)
		if err == nil || client.MaybeApplied(err) {
			f.has(item, err)
		}
		return err
	})
	f.work(ctx, "claim", func(ctx context.Context, c *client.Client) error {
		claim, err := recipe.NewQueue(c, f.root+"/queue", recipe.Options{}).Claim(ctx)
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
		b := recipe.NewBarrier(c, f.root+"/barrier", recipe.Options{})
		if err := b.Set(ctx); err != nil {
			return err
		}
		waits := make(chan error, 1)
		go func() { waits <- b.Wait(ctx) }()
		return errors.Join(b.Remove(ctx), <-waits)
	})
	node := recipe.NewKeptNode(f.root+"/kept/node", nil, recipe.Options{})
	n := 0
	f.work(ctx, "kept", func(ctx context.Context, c *client.Client) error {
		if n++; n == 1 {
			f.wg.Go(func() {
				if err := node.Run(ctx, c); ctx.Err() == nil {
					f.Errorf("kept node: %v", err)
				}
			})
		}
		node.Set(fmt.Append(nil, n))
		return node.Wait(ctx)
	})
	for i := range 2 {
		p := recipe.NewPartitioner(f.root+"/shared", fmt.Sprint("member-", i), []string{"a", "b", "c"}, recipe.Options{})
		f.wg.Go(func() {
			err := recipe.Sessions(ctx, f.dial, func(ctx context.Context, c *client.Client) error {
				return p.Run(ctx, c, f.share)
			})
			if ctx.Err() == nil {
				f.Errorf("partitioner: %v", err)
			}
		})
	}
}

func (f *field) has(item recipe.Item, err error) {
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

func (f *field) share(name string, h *recipe.Hold) error {
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
	defer closeClient(f.T, admin)
	if _, err := admin.Create(f.ctx, f.root, nil, client.Persistent); err != nil {
		f.Fatal(err)
	}
	cache := recipe.NewTreeCache(f.root)
	cctx, end := context.WithCancel(f.ctx)
	var cached sync.WaitGroup
	cached.Go(func() { _ = recipe.Sessions(cctx, f.dial, cache.Run) })
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

func (f *field) compare(admin *client.Client, cache *recipe.Cache) {
	f.Helper()
	if n, err := recipe.NewCounter(admin, f.root+"/counter", recipe.Int64, recipe.Options{}).Get(f.ctx); err != nil || int(n) != f.steps["count"] {
		f.Errorf("counted to %d, %v: %d have counted", n, err, f.steps["count"])
	}
	q := recipe.NewQueue(admin, f.root+"/queue", recipe.Options{})
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

// The leader of an ensemble goes and comes back, again and again, under all recipes: what was counted, put and taken is
// there once, and the work goes on: 20 times on each wire.
func TestRecipesThroughElections(t *testing.T) {
	if os.Getenv("ZKSERVER_FULL") == "" {
		t.Skip("ZKSERVER_FULL is not set")
	}
	e := startEnsemble(t, 3)
	for _, w := range wires {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
		f := newField(t, ctx, "/field-"+w.String(), func(ctx context.Context) (*client.Client, error) {
			return client.Dial(ctx, strings.Join(e.addrs, ","), client.Options{Wire: w, SessionTimeout: 30 * time.Second, BackoffMax: 200 * time.Millisecond})
		})
		f.run(20, func(int) {
			leader := e.leader(ctx)
			e.stop(leader)
			f.each(1)
			e.start(leader)
			e.serves(leader)
		})
		cancel()
	}
}

// leader is the server that says that it leads.
func (e *ensemble) leader(ctx context.Context) int {
	e.t.Helper()
	for ctx.Err() == nil {
		for i, addr := range e.addrs {
			conn, err := net.Dial("tcp", addr)
			if err != nil {
				continue
			}
			_, _ = io.WriteString(conn, "srvr")
			text, _ := io.ReadAll(conn)
			_ = conn.Close()
			if strings.Contains(string(text), "Mode: leader") {
				return i
			}
		}
	}
	e.t.Fatal("nobody leads")
	return 0
}

// TestFieldApache has the recipes at work against the Apache ZooKeeper server that ZK_APACHE (host:port) names, through a
// connection that is cut again and again.
func TestFieldApache(t *testing.T) {
	addr := os.Getenv("ZK_APACHE")
	if addr == "" {
		t.Skip("ZK_APACHE is not set")
	}
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
	defer cancel()
	cut := &cutter{to: addr}
	cut.start(t)
	f := newField(t, ctx, fmt.Sprintf("/field-%d", time.Now().UnixNano()), func(ctx context.Context) (*client.Client, error) {
		return client.Dial(ctx, cut.addr, client.Options{SessionTimeout: 10 * time.Second, BackoffMax: 50 * time.Millisecond})
	})
	f.run(5, func(int) {
		cut.block(true)
		cut.block(false)
	})
}
