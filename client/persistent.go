package client

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/zkserver/zkserver/proto/jute"
)

// PersistentWatch is a watch that stays: it tells every change while there is a connection, in the order of the
// transactions. Make it with AddWatch.
//
// C holds Options.WatchRoom events for a reader that is slow. When it is full, the watch ends: nothing is left out in
// the middle, the last Event is EventLost with ErrWatchOverflow. After a reconnect there is one EventRearmed: what
// happened in between is not told, so whoever keeps a picture of the tree reads it again. When the session ends, or
// Remove or RemoveWatches ends the watch, the last Event is EventLost. After the last one C is closed.
type PersistentWatch struct {
	C <-chan Event // what happened, in the server's order

	c    *Client
	ch   chan Event
	mode WatchMode
	path string // the server's

	// Under Client.mu:
	armed bool
	over  bool
}

// staying are the watches of one path and mode. Those wanted are armed or being armed: as long as there are any the
// server's watch is not removed.
type staying struct {
	armed  []*PersistentWatch
	wanted int
}

// AddWatch watches a node or a whole tree until Remove. The node need not exist, and may be removed and made again.
// Many such watches of one path cost the server one. Errors: ErrUnimplemented from servers before 3.6 (which also drop
// the connection).
func (c *Client) AddWatch(ctx context.Context, path string, mode WatchMode) (*PersistentWatch, error) {
	if mode != WatchNode && mode != WatchTree {
		return nil, badArgument("addWatch", path, fmt.Errorf("unknown mode %d", mode))
	}
	ch := make(chan Event, c.o.WatchRoom+1)
	w := &PersistentWatch{C: ch, c: c, ch: ch, mode: mode, path: c.serverPath(path)}
	_, err := c.roundTrip(ctx, "addWatch", path, &call{req: request{op: jute.OpAddWatch, number: int32(mode)}, stays: w})
	if err != nil {
		return nil, err
	}
	return w, nil
}

// Remove ends the watch here at once, and at the server as soon as nobody else here has one like it. An error says that
// the server could not be asked; the events it goes on sending are ignored.
func (w *PersistentWatch) Remove(ctx context.Context) error {
	c := w.c
	c.mu.Lock()
	last := c.drop(w, ErrWatchRemoved)
	var cl *call
	if last && c.conn != nil {
		cl = c.removal(w)
		cl.done = make(chan struct{})
		if code, _ := c.enqueueLocked(cl); code != OK {
			cl = nil
		}
	}
	c.mu.Unlock()
	if cl == nil {
		return nil // others still watch, or the connection is gone and the server's watch with it
	}
	select {
	case <-cl.done:
		if cl.code == OK || cl.code == ErrNoWatcher || cl.code == ErrConnectionLoss {
			return nil
		}
		return &Error{Op: "removeWatches", Path: c.callerPath(w.path), Code: cl.code, Cause: cl.err}
	case <-ctx.Done():
		return &Error{Op: "removeWatches", Path: c.callerPath(w.path), Code: ErrOperationTimeout, Cause: ctx.Err()}
	}
}

// RemoveWatches removes this connection's watches of a path and kind from the server, and ends those here: their last
// Event is EventLost with ErrWatchRemoved. Errors: ErrNoWatcher when the server has none.
func (c *Client) RemoveWatches(ctx context.Context, path string, t WatcherType) error {
	_, err := c.do(ctx, "removeWatches", path, &request{op: jute.OpRemoveWatches, number: int32(t)})
	return err
}

// CheckWatches asks whether this connection has watches of a path and kind at the server. Errors: ErrNoWatcher when it
// has none, ErrBadArguments or ErrMarshalling for an unknown kind.
func (c *Client) CheckWatches(ctx context.Context, path string, t WatcherType) error {
	_, err := c.do(ctx, "checkWatches", path, &request{op: jute.OpCheckWatches, number: int32(t)})
	return err
}

// want notes that a watch is about to be armed. With Client.mu held, in the critical section that queues the request.
func (c *Client) want(w *PersistentWatch) {
	t := &c.staying[w.mode]
	if *t == nil {
		*t = make(map[string]*staying)
	}
	s := (*t)[w.path]
	if s == nil {
		s = &staying{}
		(*t)[w.path] = s
	}
	s.wanted++
}

// unwant takes back want and reports whether it was the last of its path and mode. With Client.mu held.
func (c *Client) unwant(w *PersistentWatch) (last bool) {
	s := c.staying[w.mode][w.path]
	if s == nil {
		return false
	}
	s.wanted--
	if s.wanted == 0 {
		delete(c.staying[w.mode], w.path)
	}
	return s.wanted == 0
}

// drop ends a watch, with a last event, and reports whether it was the last of its path and mode. With Client.mu held.
func (c *Client) drop(w *PersistentWatch, why error) (last bool) {
	if w.over {
		return false
	}
	w.over = true
	if w.armed {
		s := c.staying[w.mode][w.path]
		if i := slices.Index(s.armed, w); i >= 0 {
			s.armed = slices.Delete(s.armed, i, i+1)
		}
		last = c.unwant(w)
	}
	w.ch <- Event{Type: EventLost, Path: c.callerPath(w.path), Err: why} // there is always room for it
	close(w.ch)
	return last
}

// removal is the request that takes a watch from the server. In the critical section that found it to be the last, it
// is queued behind every request that armed it, and ahead of every later one.
func (c *Client) removal(w *PersistentWatch) *call {
	cl := &call{req: request{op: jute.OpRemoveWatches, path: w.path, number: int32(WatchersNode) + int32(w.mode)}}
	if err := c.encode(cl); err != nil {
		panic("client: " + err.Error()) // its path was encoded before
	}
	return cl
}

// removeQuietly queues a removal that nobody waits for. With Client.mu held.
func (c *Client) removeQuietly(w *PersistentWatch) {
	if c.conn != nil {
		c.queue = append(c.queue, c.removal(w))
		c.wakeWriter()
	}
}

// settleStaying takes the answer to an addWatch. With Client.mu held.
func (c *Client) settleStaying(cl *call) {
	w := cl.stays
	if cl.code == OK && !cl.abandoned {
		w.armed = true
		s := c.staying[w.mode][w.path]
		s.armed = append(s.armed, w)
		return
	}
	if c.unwant(w) && cl.code == OK {
		c.removeQuietly(w) // the caller has given up
	}
}

// tell gives an event to the watches of a path. With Client.mu held.
func (c *Client) tell(mode WatchMode, path string, ev Event) {
	s := c.staying[mode][path]
	if s == nil {
		return
	}
	for _, w := range slices.Clone(s.armed) {
		switch {
		case ev.Type == EventLost:
			c.drop(w, ev.Err)
		case len(w.ch) < cap(w.ch)-1:
			w.ch <- ev
		default:
			if c.drop(w, &Error{Op: "watch", Path: c.callerPath(path), Code: ErrWatchOverflow}) {
				c.removeQuietly(w)
			}
		}
	}
}

// armed are the paths with watches of a mode. With Client.mu held.
func (c *Client) armed(mode WatchMode) []string {
	var paths []string
	for p, s := range c.staying[mode] {
		if len(s.armed) > 0 {
			paths = append(paths, p)
		}
	}
	return paths
}

// removed ends the watches here that a removeWatches took from the server. With Client.mu held.
func (c *Client) removed(path string, t WatcherType) {
	lost := Event{Type: EventLost, Path: c.callerPath(path), Err: &Error{Op: "watch", Path: c.callerPath(path), Code: ErrWatchRemoved}}
	any := t == WatchersAny
	if any || t == WatchersData {
		c.fireList(watchData, path, lost)
		c.fireList(watchExist, path, lost)
	}
	if any || t == WatchersChildren {
		c.fireList(watchChild, path, lost)
	}
	if any || t == WatchersNode {
		c.tell(WatchNode, path, lost)
	}
	if any || t == WatchersTree {
		c.tell(WatchTree, path, lost)
	}
}

// parent is the path above, "/" for the root and for what is no path.
func parent(p string) string {
	if i := strings.LastIndexByte(p, '/'); i > 0 {
		return p[:i]
	}
	return "/"
}
