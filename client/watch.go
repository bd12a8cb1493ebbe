package client

import (
	"maps"
	"slices"

	"github.com/zkserver/zkserver/proto/jute"
)

// Watch is one watch on a path: it fires once. C gets exactly one Event and is then closed; it has room for it, so
// that nothing waits for the reader and nothing is dropped. The Event is EventLost when the session ends first.
//
// A watch outlives reconnects. Many watches on one path cost the server one; each takes memory here until it fires
// or Stop is called.
type Watch struct {
	C <-chan Event // gets the one event

	c    *Client
	ch   chan Event
	kind watchKind
	path string // the server's
	set  bool   // registered; under Client.mu
	over bool   // ch is closed; under Client.mu
}

type watchKind uint8

// The lists of setWatches. Those before oneShots are of a Watch, the others of a PersistentWatch.
const (
	watchData watchKind = iota
	watchExist
	watchChild
	oneShots
	watchNode = oneShots + watchKind(WatchNode)
	watchTree = oneShots + watchKind(WatchTree)
	allLists  = watchTree + 1
)

type watchTable [oneShots]map[string][]*Watch

// watchLists are the lists of one setWatches.
type watchLists struct {
	zxid  int64
	paths [allLists][]string
}

// op is the older one where it will do.
func (l *watchLists) op() jute.OpCode {
	if len(l.paths[watchNode])+len(l.paths[watchTree]) > 0 {
		return jute.OpSetWatches2
	}
	return jute.OpSetWatches
}

// watchBatch bounds the paths of one setWatches, in bytes, far below a server's limit of a request.
const watchBatch = 128 << 10

func newWatch(c *Client, op jute.OpCode) *Watch {
	ch := make(chan Event, 1)
	w := &Watch{C: ch, c: c, ch: ch}
	if op == jute.OpGetChildren2 {
		w.kind = watchChild
	}
	return w
}

// Stop drops the watch and closes C, without an event if none has come. The server's own watch stays until it fires;
// its event is then ignored.
func (w *Watch) Stop() {
	w.c.mu.Lock()
	defer w.c.mu.Unlock()
	if w.set {
		t := w.c.watches[w.kind]
		list := t[w.path]
		if i := slices.Index(list, w); i >= 0 {
			list = slices.Delete(list, i, i+1)
		}
		if len(list) == 0 {
			delete(t, w.path)
		} else {
			t[w.path] = list
		}
		w.set = false
	}
	w.end()
}

func (w *Watch) end() {
	if !w.over {
		w.over = true
		close(w.ch)
	}
}

// register notes a watch that the server has armed. With Client.mu held.
func (c *Client) register(w *Watch, path string) {
	if w.over {
		return
	}
	w.path, w.set = path, true
	if c.watches[w.kind] == nil {
		c.watches[w.kind] = make(map[string][]*Watch)
	}
	c.watches[w.kind][path] = append(c.watches[w.kind][path], w)
}

// fire delivers an event of the server's.
func (c *Client) fire(t EventType, path string, zxid int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	ev := Event{Type: t, Path: c.callerPath(path), Zxid: zxid}
	c.overhear(ev)
	switch t {
	case EventCreated, EventDataChanged:
		c.fireList(watchData, path, ev)
		c.fireList(watchExist, path, ev)
	case EventDeleted:
		c.fireList(watchData, path, ev)
		c.fireList(watchExist, path, ev)
		c.fireList(watchChild, path, ev)
	case EventChildrenChanged:
		c.fireList(watchChild, path, ev)
	}
	c.tell(WatchNode, path, ev)
	if t != EventChildrenChanged && len(c.staying[WatchTree]) > 0 {
		for p := path; ; p = parent(p) {
			c.tell(WatchTree, p, ev)
			if p == "/" {
				break
			}
		}
	}
}

func (c *Client) fireList(k watchKind, path string, ev Event) {
	list := c.watches[k][path]
	if list == nil {
		return
	}
	delete(c.watches[k], path)
	for _, w := range list {
		w.set = false
		w.ch <- ev
		w.end()
	}
}

// rearmed takes the answer to a setWatches: a refusal ends the watches named. With Client.mu held.
func (c *Client) rearmed(l *watchLists, code Code) {
	why := &Error{Op: "setWatches", Code: code}
	for k := range oneShots {
		for _, p := range l.paths[k] {
			if code != OK {
				c.fireList(k, p, Event{Type: EventLost, Path: c.callerPath(p), Err: why})
			}
		}
	}
	for k := oneShots; k < allLists; k++ {
		for _, p := range l.paths[k] {
			ev := Event{Type: EventRearmed, Path: c.callerPath(p), Zxid: -1}
			if code != OK {
				ev = Event{Type: EventLost, Path: ev.Path, Err: why}
			}
			c.tell(WatchMode(k-oneShots), p, ev)
		}
	}
}

// loseAllWatches ends all watches. With Client.mu held.
func (c *Client) loseAllWatches(why error) {
	for k := range oneShots {
		for p := range c.watches[k] {
			c.fireList(k, p, Event{Type: EventLost, Path: c.callerPath(p), Err: why})
		}
	}
	for mode, table := range c.staying {
		for p := range table {
			c.tell(WatchMode(mode), p, Event{Type: EventLost, Path: c.callerPath(p), Err: why})
		}
	}
}

// rearm lists all watches in batches for setWatches, in path order. With Client.mu held.
func (c *Client) rearm() []*watchLists {
	var all []*watchLists
	size := watchBatch
	for k := range allLists {
		var paths []string
		if k < oneShots {
			paths = slices.Collect(maps.Keys(c.watches[k]))
		} else {
			paths = c.armed(WatchMode(k - oneShots))
		}
		slices.Sort(paths)
		for _, p := range paths {
			if n := 4 + len(p); size+n > watchBatch {
				all = append(all, &watchLists{zxid: c.lastZxid})
				size = n
			} else {
				size += n
			}
			l := all[len(all)-1]
			l.paths[k] = append(l.paths[k], p)
		}
	}
	return all
}
