package check

import (
	"slices"
	"strings"
)

type watchKind uint8

const (
	watchData watchKind = iota
	watchChild
	watchPersistent
	watchRecursive
)

// watch is one that a connection has armed. next is the first change of its path (recursive: of all) not yet looked at.
type watch struct {
	kind watchKind
	path string
	next int
}

// caught is an event that came before the reply to a setWatches.
type caught struct {
	kind Kind
	path string
}

func (w *watch) wants(k Kind) bool {
	switch w.kind {
	case watchData:
		return k == Created || k == Deleted || k == Data
	case watchChild:
		return k == Children || k == Deleted
	case watchPersistent:
		return true
	}
	return k != Children
}

func under(root, p string) bool {
	return root == "/" || p == root || strings.HasPrefix(p, root) && p[len(root)] == '/'
}

// list is what a watch looks at.
func (c *Checker) list(w *watch) []change {
	if w.kind == watchRecursive {
		return c.changes
	}
	if p := c.paths[w.path]; p != nil {
		return p.changes
	}
	return nil
}

// due is the next change that a watch must report, as far as the history goes; nil if there is none.
func (c *Checker) due(w *watch) *change {
	l := c.list(w)
	for ; w.next < len(l); w.next++ {
		ch := &l[w.next]
		if w.wants(ch.kind) && (w.kind != watchRecursive || under(w.path, ch.path)) {
			return ch
		}
	}
	return nil
}

// arm: a watch was set by a reply at z.
func (c *Checker) arm(x *conn, kind watchKind, path string, z uint64) {
	for i := range x.watches {
		if x.watches[i].kind == kind && x.watches[i].path == path {
			return
		}
	}
	w := watch{kind: kind, path: path}
	l := c.list(&w)
	for w.next = len(l); w.next > 0 && l[w.next-1].zxid > z; w.next-- {
	}
	x.watches = append(x.watches, w)
}

func (c *Checker) disarm(x *conn, path string, ok bool) {
	found := false
	keep := x.watches[:0]
	for _, w := range x.watches {
		if w.path == path {
			found = true
		} else {
			keep = append(keep, w)
		}
	}
	x.watches = keep
	if found != ok {
		c.fail("I9", "client %d: removeWatches of %s answered ok=%v; armed: %v", x.client, path, ok, found)
	}
}

// missed checks that a client that is shown z has been told of all that its watches saw up to z.
func (c *Checker) missed(x *conn, z uint64) {
	for i := range x.watches {
		w := &x.watches[i]
		if ch := c.due(w); ch != nil && ch.zxid <= z {
			c.fail("S8", "client %d, connection %d: shown %s, not told of change %d of %s at %s", x.client, x.ordinal, Zx(z), ch.kind, ch.path, Zx(ch.zxid))
			return
		}
	}
}

// Event: a client has been told of a change. zxid is zero for one made by setWatches.
func (c *Checker) Event(k int, z uint64, kind Kind, path string) {
	x := c.conns[k]
	if z == 0 {
		if !slices.ContainsFunc(x.queue[x.head:], func(r request) bool { return r.kind == SetWatches }) {
			c.fail("I9", "client %d, connection %d: told of change %d of %s by a setWatches that is not under way", x.client, x.ordinal, kind, path)
		}
		x.caught = append(x.caught, caught{kind, path})
		return
	}
	s := c.session(x.session)
	if z < s.shown {
		c.fail("S2", "client %d: event of %s at %s after %s had been shown", x.client, path, Zx(z), Zx(s.shown))
	}
	told := false
	keep := x.watches[:0]
	for i := range x.watches {
		w := x.watches[i]
		ch := c.due(&w)
		if ch == nil || ch.zxid != z || ch.kind != kind || ch.path != path {
			keep = append(keep, w)
			continue
		}
		told = true
		if w.kind == watchPersistent || w.kind == watchRecursive {
			w.next++
			keep = append(keep, w)
		}
	}
	x.watches = keep
	if !told {
		c.fail("I9", "client %d, connection %d: told of change %d of %s at %s, for which no watch is armed", x.client, x.ordinal, kind, path, Zx(z))
	}
	// What is before this event must have been told; other events of the same transaction may follow.
	s.shown, x.shown, c.shown = max(s.shown, z), max(x.shown, z), max(c.shown, z)
	c.missed(x, z-1)
}

// caughtUp: a setWatches was answered at z. Each path of its lists is either armed or has been reported, as the rules of
// the catch-up say.
func (c *Checker) caughtUp(x *conn, l *Lists, z uint64) {
	got := map[caught]int{}
	for _, e := range x.caught {
		got[e]++
	}
	x.caught = x.caught[:0]
	expect := func(e caught) {
		if got[e] == 0 {
			c.fail("S8", "client %d: setWatches at %s since %s does not report change %d of %s", x.client, Zx(z), Zx(l.Since), e.kind, e.path)
		}
		got[e]--
	}
	state := func(p string) *version { // nil: it is not there
		if h := c.paths[p]; h != nil {
			if v := h.at(z); v != nil && v.exists {
				return v
			}
		}
		return nil
	}
	there := func(paths []string, kind watchKind, event Kind, changed func(*version) uint64) {
		for _, p := range paths {
			switch v := state(p); {
			case v == nil:
				expect(caught{Deleted, p})
			case changed(v) > l.Since:
				expect(caught{event, p})
			default:
				c.arm(x, kind, p, z)
			}
		}
	}
	there(l.Data, watchData, Data, func(v *version) uint64 { return v.Mzxid })
	there(l.Child, watchChild, Children, func(v *version) uint64 { return v.Pzxid })
	for _, p := range l.Exist {
		if state(p) != nil {
			expect(caught{Created, p})
		} else {
			c.arm(x, watchData, p, z)
		}
	}
	for _, p := range l.Persistent {
		c.arm(x, watchPersistent, p, z)
	}
	for _, p := range l.Recursive {
		c.arm(x, watchRecursive, p, z)
	}
	for e, n := range got {
		if n > 0 {
			c.fail("I9", "client %d: setWatches at %s reports change %d of %s, for which there is no reason", x.client, Zx(z), e.kind, e.path)
		}
	}
}
