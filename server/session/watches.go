package session

import (
	"hash/maphash"
	"sync"

	"github.com/zkserver/zkserver/znode"
	"github.com/zkserver/zkserver/znode/watch"
)

// watchShards spreads the arming of watches, which many connections do at once under the tree's read lock.
const watchShards = 32

// watchStep is how many paths of a setWatches are worked off under one lock (the lock budget, architecture 6e).
const watchStep = 128

// shards are the watch tables, by the hash of the path.
type shards struct {
	seed  maphash.Seed
	shard [watchShards]struct {
		mu    sync.Mutex
		table *watch.Table
		_     [40]byte // a cache line each
	}
}

func (s *shards) init() {
	s.seed = maphash.MakeSeed()
	for i := range s.shard {
		s.shard[i].table = watch.NewTable()
	}
}

func (s *shards) index(path string) int {
	if path == "" {
		path = "/" // reads take the empty path for the root
	}
	return int(maphash.String(s.seed, path) % watchShards)
}

// add arms a one-shot watch. Under the tree's read or write lock: together with the read that it belongs to.
func (s *shards) add(kind watch.Kind, path string, c *Conn) {
	if path == "" {
		path = "/"
	}
	c.watches.Store(true)
	sh := &s.shard[s.index(path)]
	sh.mu.Lock()
	if !c.Ended() { // else Release has removed, or will remove, what it had
		sh.table.Add(kind, path, watch.Watcher(c.num))
	}
	sh.mu.Unlock()
}

// fire takes the watchers to tell of an event.
func (s *shards) fire(ev *znode.Event, out []watch.Watcher) []watch.Watcher {
	sh := &s.shard[s.index(ev.Path)]
	sh.mu.Lock()
	out = sh.table.Fire(ev, out)
	sh.mu.Unlock()
	return out
}

// remove forgets a connection that has ended.
func (s *shards) remove(c *Conn) {
	if !c.watches.Load() {
		return
	}
	for i := range s.shard {
		sh := &s.shard[i]
		sh.mu.Lock()
		sh.table.Remove(watch.Watcher(c.num))
		sh.mu.Unlock()
	}
}

// WatchCount is the number of watches of all connections.
func (h *Hub) WatchCount() (n int) {
	for i := range h.watches.shard {
		sh := &h.watches.shard[i]
		sh.mu.Lock()
		w, _, _ := sh.table.Count()
		sh.mu.Unlock()
		n += w
	}
	return n
}

// Watch is one watch of a session's connection.
type Watch struct {
	Path    string
	Session int64
	Conn    uint32
}

// WatchList lists all watches, shard by shard: no lock is held over all of it.
func (h *Hub) WatchList() []Watch {
	var out []Watch
	for i := range h.watches.shard {
		sh := &h.watches.shard[i]
		sh.mu.Lock()
		sh.table.Each(func(path string, _ watch.Kind, w watch.Watcher) bool {
			out = append(out, Watch{Path: path, Conn: uint32(w)})
			return true
		})
		sh.mu.Unlock()
	}
	for i := range out {
		if c := h.conn(out[i].Conn); c != nil {
			out[i].Session = c.Session()
		}
	}
	return out
}

// WatchSummary is what wchs prints.
type WatchSummary struct{ Watches, Paths, Connections int }

// Watches counts the watches of all connections, their paths and who holds them.
func (h *Hub) Watches() WatchSummary {
	paths, conns := map[string]struct{}{}, map[uint32]struct{}{}
	list := h.WatchList()
	for i := range list {
		paths[list[i].Path] = struct{}{}
		conns[list[i].Conn] = struct{}{}
	}
	return WatchSummary{Watches: len(list), Paths: len(paths), Connections: len(conns)}
}

// steps walks the lists of a setWatches in their order.
type steps struct {
	lists *SetWatches
	list  int
	at    int
}

func (s *steps) of(list int) []string {
	switch list {
	case 0:
		return s.lists.Data
	case 1:
		return s.lists.Exist
	case 2:
		return s.lists.Child
	}
	return nil
}

func (s *steps) done() bool {
	for s.list < 3 && s.at >= len(s.of(s.list)) {
		s.list, s.at = s.list+1, 0
	}
	return s.list >= 3
}

// setWatches works off up to watchStep paths: each is either armed or reported, under the one lock that the caller
// holds (interleavings 23). Events made here carry zxid -1 and are not checked for READ.
func (c *Conn) setWatches(t *znode.Tree, s *steps) {
	for n := 0; n < watchStep && !s.done(); n++ {
		path := s.of(s.list)[s.at]
		list, kind := watch.DataList, watch.Data
		switch s.list {
		case 1:
			list = watch.ExistList
		case 2:
			list, kind = watch.ChildList, watch.Child
		}
		s.at++
		exists, mzxid, pzxid := t.WatchState(path)
		ev, arm := watch.CatchUp(list, exists, mzxid, pzxid, s.lists.RelativeZxid)
		if arm {
			c.hub.watches.add(kind, path, c)
			continue
		}
		c.out.mu.Lock()
		if b := c.out.room(&c.hub.buffers); b != nil {
			b.b = c.wire.AppendEvent(b.b, -1, ev, path)
			c.out.stats.Sent++
		}
		c.out.mu.Unlock()
	}
}

// setWatchesInSteps runs a setWatches on the connection's goroutine, releasing the tree's lock between the steps and waiting for a
// client that does not read what it missed.
func (c *Conn) setWatchesInSteps(r *Request, rep *Reply) error {
	b := c.hub.backend
	var sums tally
	defer func() { c.hub.stats.add(&sums) }()
	for s := (steps{lists: r.Lists}); ; {
		t := b.RLock()
		c.setWatches(t, &s)
		done := s.done()
		if done {
			*rep = Reply{Op: r.Op, Xid: r.Xid, Zxid: t.Applied()}
			c.queue(rep, c.heard, b.Now(), &sums)
		}
		b.RUnlock()
		if done {
			return nil
		}
		c.flush()
		if err := c.throttle(); err != nil {
			return err
		}
	}
}
