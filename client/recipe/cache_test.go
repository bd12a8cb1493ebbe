package recipe

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/zkserver/zkserver/client"
)

// What waits for a slow reader is put together.
func TestListener(t *testing.T) {
	c := newCache("/t", everything)
	node := func(p string, zxid int64) CacheNode {
		return CacheNode{Path: p, Stat: client.Stat{Czxid: 1, Mzxid: zxid}}
	}
	c.set(node("/t", 1))
	c.set(node("/t/old", 2))
	l := c.listen()
	c.sync(true)
	c.set(node("/t/new", 3))
	c.set(node("/t/new", 4)) // still added
	c.set(node("/t/passing", 5))
	c.remove("/t/passing") // never told of
	c.sync(false)
	c.set(node("/t/old", 6)) // still added
	c.remove("/t/none")
	var got []string
	for {
		ev, ok := l.next(&c.mu)
		if !ok {
			break
		}
		got = append(got, fmt.Sprint(ev.Change, " ", ev.Node.Path, " ", ev.Node.Stat.Mzxid))
	}
	want := []string{"added /t 1", "added /t/old 6", "added /t/new 4", "stale  0"}
	if !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
	c.set(node("/t/old", 7))
	c.remove("/t/old")
	c.set(node("/t/old", 8)) // updated at once
	c.remove("/t")
	got = nil
	for {
		ev, ok := l.next(&c.mu)
		if !ok {
			break
		}
		got = append(got, fmt.Sprint(ev.Change, " ", ev.Node.Path))
	}
	if want := []string{"removed /t/old", "removed /t/new", "removed /t"}; !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
	if n := len(c.Nodes()) + len(c.below); n != 0 {
		t.Errorf("%d are left", n)
	}
}

// Who watches, or waits for the picture, is woken by what it waits for, and by nothing else.
func TestCacheWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCache("/t", 1)
		ctx, cancel := context.WithCancel(t.Context())
		var told []CacheChange
		var ended, synced error
		waits := true
		go func() {
			for ev, err := range c.Watch(ctx) {
				told, ended = append(told, ev.Change), err
			}
		}()
		go func() { synced, waits = c.WaitSynced(ctx), false }()
		c.set(CacheNode{Path: "/t"})
		synctest.Wait()
		if !slices.Equal(told, []CacheChange{CacheAdded}) || !waits {
			t.Errorf("told %v, waits %v", told, waits)
		}
		c.sync(true)
		c.sync(true)
		synctest.Wait()
		if !slices.Equal(told, []CacheChange{CacheAdded, CacheSynced}) || waits || synced != nil {
			t.Errorf("told %v, waits %v, %v", told, waits, synced)
		}
		cancel()
		synctest.Wait()
		if !errors.Is(ended, context.Canceled) || len(c.listeners) != 0 {
			t.Errorf("ended by %v, %d listeners", ended, len(c.listeners))
		}
	})
}

// kinds are the caches, with what they show of a tree.
var kinds = map[string]func(string) *Cache{"node": NewNodeCache, "children": NewChildrenCache, "tree": NewTreeCache}

// truth reads what a cache has to show.
func (e *env) truth(c *client.Client, cache *Cache) map[string]CacheNode {
	e.Helper()
	all := make(map[string]CacheNode)
	var walk func(p string)
	walk = func(p string) {
		if cache.level(p) < 0 {
			return
		}
		data, st, err := c.Get(e.ctx, p)
		if errors.Is(err, client.ErrNoNode) {
			return
		}
		e.ok(err)
		all[p] = CacheNode{Path: p, Data: data, Stat: st}
		names, _, err := c.Children(e.ctx, p)
		e.ok(err)
		for _, n := range names {
			walk(child(p, n))
		}
	}
	walk(cache.root)
	return all
}

// shows waits until a cache shows what is there.
func (e *env) shows(c *client.Client, cache *Cache) {
	e.Helper()
	e.ok(c.Sync(e.ctx, "/"))
	want := e.truth(c, cache)
	e.until("the picture", cache, func() bool {
		got := cache.Nodes()
		same := cache.Synced() && len(got) == len(want)
		for _, n := range got {
			w := want[n.Path]
			same = same && bytes.Equal(n.Data, w.Data) && n.Stat.Mzxid == w.Stat.Mzxid && n.Stat.Czxid == w.Stat.Czxid
		}
		return same
	})
}

// change makes one change of the tree, drawn.
func (s *storm) change(c *client.Client) {
	s.e.Helper()
	path := "/t"
	for range s.rnd.IntN(4) {
		path += "/" + string(rune('a'+s.rnd.IntN(3)))
	}
	err := do(s.e.ctx, c, func() (err error) {
		switch s.rnd.IntN(5) {
		case 0, 1:
			_, err = c.Create(s.e.ctx, path, []byte("new"), client.Persistent)
		case 2:
			_, err = c.Set(s.e.ctx, path, []byte(fmt.Sprint(s.rnd.IntN(100))), client.AnyVersion)
		case 3:
			err = c.Delete(s.e.ctx, path, client.AnyVersion)
		case 4: // made anew, its version as it was
			if err = c.Delete(s.e.ctx, path, client.AnyVersion); err == nil {
				_, err = c.Create(s.e.ctx, path, []byte("anew"), client.Persistent)
			}
		}
		return err
	})
	switch client.CodeOf(err) {
	case client.OK, client.ErrNoNode, client.ErrNodeExists, client.ErrNotEmpty:
	default:
		s.e.Fatal(err)
	}
}

// follower is a reader of a cache's events, who has to end with the same picture, and is told when it is complete.
type follower struct {
	mu     sync.Mutex
	nodes  map[string]CacheNode
	synced bool
	found  []string
	moved  chan struct{}
}

func follow(ctx context.Context, c *Cache) *follower {
	f := &follower{nodes: make(map[string]CacheNode), moved: make(chan struct{}, 1)}
	go func() { // ends with ctx
		for ev, err := range c.Watch(ctx) {
			if err != nil {
				return
			}
			f.take(ev)
		}
	}()
	return f
}

func (f *follower) take(ev CacheEvent) {
	f.mu.Lock()
	defer f.mu.Unlock()
	_, known := f.nodes[ev.Node.Path]
	if node := ev.Change <= CacheRemoved; node && known == (ev.Change == CacheAdded) {
		f.found = append(f.found, fmt.Sprintf("%v of %s", ev.Change, ev.Node.Path))
	}
	switch ev.Change {
	case CacheRemoved:
		delete(f.nodes, ev.Node.Path)
	case CacheSynced, CacheStale:
		f.synced = ev.Change == CacheSynced
	default:
		f.nodes[ev.Node.Path] = ev.Node
	}
	select {
	case f.moved <- struct{}{}:
	default:
	}
}

// agrees waits until the reader has the cache's picture.
func (f *follower) agrees(e *env, c *Cache) {
	e.Helper()
	for {
		f.mu.Lock()
		same := f.synced && len(f.nodes) == len(c.Nodes())
		for p, n := range f.nodes {
			got, ok := c.Get(p)
			same = same && ok && got.Stat.Mzxid == n.Stat.Mzxid && bytes.Equal(got.Data, n.Data)
		}
		f.mu.Unlock()
		if same {
			break
		}
		select {
		case <-f.moved:
		case <-e.ctx.Done():
			e.Fatal("the events do not make the picture")
		}
	}
	for _, w := range f.found {
		e.Error(w)
	}
}

// G8: a tree changes in a storm that ends sessions too. Every cache shows it in the end, and says so, and its events lead
// to the same picture.
func TestCachesInStorms(t *testing.T) {
	inStorms(t, func(e *env, s *storm) {
		admin := e.dial()
		var all []*Cache
		var readers []*follower
		var clients []<-chan *client.Client
		ctx, cancel := context.WithCancel(e.ctx)
		defer cancel()
		for _, make := range kinds {
			c := make("/t")
			ch, _ := e.sessions(c.Run)
			all, readers, clients = append(all, c), append(readers, follow(ctx, c)), append(clients, ch)
		}
		s.blow(8, func() {
			for range 10 {
				s.change(admin)
			}
			if who := s.rnd.IntN(2 * len(clients)); who < len(clients) {
				select {
				case c := <-clients[who]:
					s.expire(c)
				default:
				}
			}
			if s.rnd.IntN(3) == 0 {
				for i, c := range all {
					e.shows(admin, c)
					readers[i].agrees(e, c)
				}
			}
		})
		for i, c := range all {
			e.shows(admin, c)
			readers[i].agrees(e, c)
		}
		e.Logf("%d nodes, %d replies lost", len(all[0].Nodes()), e.s.LostReplies())
	})
}

// A server without persistent watches, which says so, or closes: one-shot watches do, in a storm too.
func TestCachesOfOldServers(t *testing.T) {
	for _, old := range []string{"answers", "closes"} {
		t.Run(old, func(t *testing.T) {
			inStorms(t, func(e *env, s *storm) {
				if e.wire == client.GRPC {
					e.Skip("there are no old servers on this wire")
				}
				admin := e.dial()
				for kind, make := range kinds {
					spy := &spy{old: old}
					c, cache := e.dialWith(client.Options{DialContext: spy.dial}), make("/t")
					end := e.run(func(ctx context.Context) error { return cache.Run(ctx, c) })
					e.ok(cache.WaitSynced(e.ctx))
					want := map[string]int{"answers": 1, "closes": losses}[old]
					if n := spy.count(opAddWatch); n != want {
						e.Errorf("%s: asked for a persistent watch %d times", kind, n)
					}
					s.blow(4, func() {
						for range 8 {
							s.change(admin)
						}
						e.shows(admin, cache)
					})
					if err := end(); !errors.Is(err, context.Canceled) {
						e.Errorf("%s: ended by %v", kind, err)
					}
				}
			})
		})
	}
}

// C10, G8: what happened during an outage is seen, what has not changed is not read again, and the end of the outage is
// told.
func TestCacheAfterAnOutage(t *testing.T) {
	onBothWires(t, func(e *env) {
		const n = 200
		spy := &spy{gate: gate{}, raw: e.wire == client.GRPC}
		c, admin := e.dialWith(client.Options{DialContext: spy.dial}), e.dial()
		e.ok(ensure(e.ctx, admin, "/t", nil, nil))
		for i := range n {
			_, err := admin.Create(e.ctx, fmt.Sprintf("/t/n%03d", i), []byte("x"), client.Persistent)
			e.ok(err)
		}
		cache := NewTreeCache("/t")
		over := make(chan error, 1)
		go func() { over <- cache.Run(e.ctx, c) }()
		e.ok(cache.WaitSynced(e.ctx))
		before, _ := cache.Get("/t/n007")
		reads, all := spy.count(opGetData), spy.total()

		spy.shut()
		e.s.Cut()
		e.until("stale", cache, func() bool { return !cache.Synced() })
		_, err := admin.Create(e.ctx, "/t/more", nil, client.Persistent)
		for passing(err) || errors.Is(err, client.ErrNoNode) {
			_, err = admin.Create(e.ctx, "/t/more", nil, client.Persistent)
		}
		if err != nil && !errors.Is(err, client.ErrNodeExists) {
			e.Fatal(err)
		}
		e.ok(remove(e.ctx, admin, "/t/n003"))
		_, err = admin.Set(e.ctx, "/t/n005", []byte("y"), client.AnyVersion)
		e.ok(err)
		e.ok(remove(e.ctx, admin, "/t/n007"))
		_, err = admin.Create(e.ctx, "/t/n007", []byte("x"), client.Persistent) // the same data and version
		e.ok(err)
		if got, ok := cache.Get("/t/n007"); !ok || got.Stat != before.Stat || len(cache.Nodes()) != n+1 {
			e.Errorf("during the outage %+v, %d nodes", got, len(cache.Nodes()))
		}
		next, stop := iter.Pull2(cache.Watch(e.ctx))
		defer stop()
		for range n + 1 {
			if ev, _, _ := next(); ev.Change != CacheAdded {
				e.Errorf("%v of %s", ev.Change, ev.Node.Path)
			}
		}
		spy.open()
		changes := map[string]CacheChange{"/t/more": CacheAdded, "/t/n003": CacheRemoved, "/t/n005": CacheUpdated, "/t/n007": CacheUpdated}
		for {
			ev, err, _ := next()
			e.ok(err)
			if ev.Change == CacheSynced {
				break
			}
			if changes[ev.Node.Path] != ev.Change {
				e.Errorf("%v of %s", ev.Change, ev.Node.Path)
			}
			delete(changes, ev.Node.Path)
		}
		if len(changes) != 0 {
			e.Errorf("not told: %v", changes)
		}
		e.shows(admin, cache)
		if e.wire == client.ZooKeeper {
			if r, k := spy.count(opGetData)-reads, spy.total()-all; r > 10 || k > n+30 {
				e.Errorf("after the outage %d reads, %d requests", r, k)
			}
		}
		e.ok(e.s.Expire(c.Session()))
		e.until("stale", cache, func() bool { return !cache.Synced() })
		if err := <-over; !errors.Is(err, client.ErrSessionExpired) {
			e.Errorf("ended by %v", err)
		}
		if len(cache.Nodes()) != n+1 {
			e.Errorf("%d nodes after the session", len(cache.Nodes()))
		}
	})
}

// A burst that the watch has no room for is read all the same; and so it is when somebody removes the watch.
func TestCacheOverflow(t *testing.T) {
	onBothWires(t, func(e *env) {
		c, admin := e.dialWith(client.Options{WatchRoom: 4}), e.dial()
		cache := NewChildrenCache("/t")
		end := e.run(func(ctx context.Context) error { return cache.Run(ctx, c) })
		e.ok(cache.WaitSynced(e.ctx))
		e.ok(ensure(e.ctx, admin, "/t", nil, nil))
		var wg sync.WaitGroup
		for i := range 200 {
			wg.Go(func() { _, _ = admin.Create(e.ctx, fmt.Sprintf("/t/n%d", i), nil, client.Persistent) })
		}
		wg.Wait()
		e.shows(admin, cache)
		e.ok(c.RemoveWatches(e.ctx, "/t", client.WatchersAny))
		_, err := admin.Create(e.ctx, "/t/last", nil, client.Persistent)
		e.ok(err)
		e.shows(admin, cache)
		if err := end(); !errors.Is(err, context.Canceled) {
			e.Errorf("ended by %v", err)
		}
		for c.CheckWatches(e.ctx, "/t", client.WatchersAny) == nil {
			e.ok(e.ctx.Err()) // it is asked to go
		}
	})
}

// A node that may not be read is left out; the root of the tree is a root like others.
func TestCacheOfAll(t *testing.T) {
	onBothWires(t, func(e *env) {
		c, admin := e.dial(), e.dialWith(client.Options{Auth: []client.Auth{{Scheme: "digest", Data: []byte("a:b")}}})
		_, err := admin.Create(e.ctx, "/secret", nil, client.Persistent, client.CreatorACL()...)
		e.ok(err)
		cache := NewTreeCache("/")
		_ = e.run(func(ctx context.Context) error { return cache.Run(ctx, c) })
		e.ok(cache.WaitSynced(e.ctx))
		_, err = admin.Create(e.ctx, "/open", nil, client.Persistent)
		e.ok(err)
		e.until("/open", cache, func() bool { _, ok := cache.Get("/open"); return ok })
		if _, ok := cache.Get("/secret"); ok {
			e.Error("what may not be read is there")
		}
		var names []string
		for _, n := range cache.Children("/") {
			names = append(names, n.Path)
		}
		if got := strings.Join(names, " "); got != "/open /zookeeper" {
			e.Errorf("children %s", got)
		}
	})
}
