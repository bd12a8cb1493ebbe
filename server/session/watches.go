package session

import (
	"hash/maphash"
	"sync"
	"sync/atomic"

	"github.com/zkserver/zkserver/znode"
	"github.com/zkserver/zkserver/znode/watch"
)

// watchShards spreads the arming of watches, which many connections do at once under the tree's read lock.
const watchShards = 32

// watchStep is how many paths of a setWatches are worked off under one lock (the lock budget, architecture 6e).
const watchStep = 128

// shards are the watch tables, by the hash of the path, and the recursive watches, which are few and apart: an event
// looks for them at all ancestors of its path, and only if there are any.
type shards struct {
	seed  maphash.Seed
	shard [watchShards]struct {
		mu    sync.Mutex
		table *watch.Table
		_     [40]byte // a cache line each
	}
	subMu     sync.RWMutex
	sub       *watch.Subtree
	recursive atomic.Int64 // watches in sub
}

func (s *shards) init() {
	s.seed = maphash.MakeSeed()
	for i := range s.shard {
		s.shard[i].table = watch.NewTable()
	}
	s.sub = watch.NewSubtree()
}

func (s *shards) index(path string) int { return int(maphash.String(s.seed, path) % watchShards) }

// add arms a watch. Under the tree's read or write lock: together with the read that it belongs to. Paths are plain
// text here, as in ZooKeeper: what is armed at a path that no node can have stays without effect.
func (s *shards) add(kind watch.Kind, path string, c *Conn) {
	c.watches.Store(true)
	if kind == watch.Recursive {
		s.subMu.Lock()
		if !c.Ended() { // as below
			s.sub.Add(path, watch.Watcher(c.num))
		}
		s.count()
		s.subMu.Unlock()
		return
	}
	sh := &s.shard[s.index(path)]
	sh.mu.Lock()
	if !c.Ended() { // else Release has removed, or will remove, what it had
		sh.table.Add(kind, path, watch.Watcher(c.num))
	}
	sh.mu.Unlock()
}

func (s *shards) count() {
	n, _, _ := s.sub.Count()
	s.recursive.Store(int64(n))
}

// take looks for watches of a connection at a path and, if disarm is set, removes them. False: there is none.
func (s *shards) take(kinds []watch.Kind, path string, c *Conn, disarm bool) (found bool) {
	w := watch.Watcher(c.num)
	sh := &s.shard[s.index(path)]
	for _, kind := range kinds {
		there := false
		switch {
		case kind == watch.Recursive:
			s.subMu.Lock()
			if there = s.sub.Armed(path, w); disarm {
				s.sub.Disarm(path, w)
				s.count()
			}
			s.subMu.Unlock()
		default:
			sh.mu.Lock()
			if there = sh.table.Armed(kind, path, w); disarm {
				sh.table.Disarm(kind, path, w)
			}
			sh.mu.Unlock()
		}
		found = found || there
	}
	return found
}

// fire takes the watchers to tell of an event, each once.
func (s *shards) fire(ev *znode.Event, out []watch.Watcher) []watch.Watcher {
	from := len(out)
	sh := &s.shard[s.index(ev.Path)]
	sh.mu.Lock()
	out = sh.table.Fire(ev, out)
	sh.mu.Unlock()
	if s.recursive.Load() > 0 { // armed under the tree's lock, which the applier holds: none can be missed
		s.subMu.RLock()
		out = s.sub.Match(ev, out, from)
		s.subMu.RUnlock()
	}
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
	s.subMu.Lock()
	s.sub.Remove(watch.Watcher(c.num))
	s.count()
	s.subMu.Unlock()
}

// watcherTypes are the kinds that each watcher type of checkWatches and removeWatches means: an exact kind, or any (3).
var watcherTypes = map[int32][]watch.Kind{
	1: {watch.Child},
	2: {watch.Data},
	3: {watch.Data, watch.Child, watch.Persistent, watch.Recursive},
	4: {watch.Persistent},
	5: {watch.Recursive},
}

// watchOp runs addWatch, checkWatches or removeWatches, under the tree's lock.
func (c *Conn) watchOp(r *Request) znode.Code {
	if r.Op == znode.OpAddWatch {
		switch r.Mode {
		case 0:
			c.hub.watches.add(watch.Persistent, r.Path, c)
		case 1:
			c.hub.watches.add(watch.Recursive, r.Path, c)
		default:
			return znode.MarshallingError
		}
		return znode.OK
	}
	kinds, known := watcherTypes[r.Mode]
	switch {
	case !known:
		return znode.MarshallingError
	case !c.hub.watches.take(kinds, r.Path, c, r.Op == znode.OpRemoveWatches):
		return znode.NoWatcher
	}
	return znode.OK
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
	return n + int(h.watches.recursive.Load())
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
	h.watches.subMu.RLock()
	h.watches.sub.Each(func(path string, w watch.Watcher) bool {
		out = append(out, Watch{Path: path, Conn: uint32(w)})
		return true
	})
	h.watches.subMu.RUnlock()
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

// outcome is the answer once all lists are worked off.
func (l *SetWatches) outcome() znode.Code {
	if l.Null {
		return znode.MarshallingError
	}
	return znode.OK
}

// steps walks the lists of a setWatches in their order: data, exist, child, persistent, recursive.
type steps struct {
	lists *SetWatches
	list  int
	at    int
}

// stepLists is the number of lists.
const stepLists = 5

func (s *steps) of(list int) []string {
	l := s.lists
	return [stepLists][]string{l.Data, l.Exist, l.Child, l.Persistent, l.Recursive}[list]
}

func (s *steps) done() bool {
	for s.list < stepLists && s.at >= len(s.of(s.list)) {
		s.list, s.at = s.list+1, 0
	}
	return s.list >= stepLists
}

// setWatches works off up to watchStep paths: each is either armed or reported, under the one lock that the caller
// holds (interleavings 23). Events made here carry zxid -1 and are not checked for READ. Watches that stay are armed
// only: what they missed is not reported.
func (c *Conn) setWatches(t *znode.Tree, s *steps) {
	for n := 0; n < watchStep && !s.done(); n++ {
		path := s.of(s.list)[s.at]
		s.at++
		switch s.list {
		case 0:
			c.catchUp(t, watch.DataList, path, s.lists.RelativeZxid)
		case 1:
			c.catchUp(t, watch.ExistList, path, s.lists.RelativeZxid)
		case 2:
			c.catchUp(t, watch.ChildList, path, s.lists.RelativeZxid)
		case 3:
			c.hub.watches.add(watch.Persistent, path, c)
		default:
			c.hub.watches.add(watch.Recursive, path, c)
		}
	}
}

func (c *Conn) catchUp(t *znode.Tree, list watch.List, path string, rel int64) {
	exists, mzxid, pzxid := t.WatchState(path)
	ev, arm := watch.CatchUp(list, exists, mzxid, pzxid, rel)
	if arm {
		c.hub.watches.add(list.Kind(), path, c)
		return
	}
	c.out.mu.Lock()
	switch {
	case c.out.ended:
	case c.out.overEvents(): // a setWatches that was parked: one that was not waits for its client
		c.out.drop(c.hub.pools)
		c.Close(ReasonSlow)
	case c.out.crowded():
		frame := c.wire.AppendEvent(nil, -1, ev, path)
		c.out.delay(lateItem{frame: frame, size: len(frame)})
		c.out.stats.Sent++
	default:
		b := c.out.room(c.hub.pools, len(path))
		b.b = c.wire.AppendEvent(b.b, -1, ev, path)
		c.out.stats.Sent++
	}
	c.out.mu.Unlock()
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
			*rep = Reply{Op: r.Op, Xid: r.Xid, Zxid: t.Applied(), Err: r.Lists.outcome()}
			c.queue(rep, c.heard.Load(), b.Now(), &sums)
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
