package check

import (
	"sort"
	"strings"
)

// Kind of a change, as watches see it. The numbers are those of the events on the wire.
type Kind uint8

// Kinds.
const (
	Created  Kind = 1
	Deleted  Kind = 2
	Data     Kind = 3
	Children Kind = 4
	ACLs     Kind = 5 // no watch sees it
)

// change is one change of the history, as watches see it.
type change struct {
	zxid uint64
	kind Kind
	path string
}

// path is the history of one path.
type path struct {
	versions []version
	changes  []change
	kids     int
	kidSum   uint64
}

// version is what a path held from zxid on.
type version struct {
	zxid   uint64
	exists bool
	Node
	kids   int
	kidSum uint64
}

// Node is what a read shows of a node.
type Node struct {
	Data         uint64 // hash
	Mzxid        uint64
	Czxid        uint64
	Pzxid        uint64
	Version      int32
	Cversion     int32
	Owner        int64
	Kids         int
	KidSum       uint64 // sum of the hashes of the names
	NoKidsInRead bool   // the read says nothing of them
	NoData       bool
}

func (p *path) at(z uint64) *version {
	i := sort.Search(len(p.versions), func(i int) bool { return p.versions[i].zxid > z })
	if i == 0 {
		return nil
	}
	return &p.versions[i-1]
}

// Did says what the transaction just applied for the first time was.
type Did struct {
	Zxid     uint64
	Conn     int // of the request; -1: of nobody (expiry, reaper)
	Xid      int32
	Code     int32 // not zero: refused
	Session  int64
	New      bool // it made the session
	End      bool // it ended the session
	Ticket   [2]uint64
	Changes  []Change
	Affected []Affected
}

// Change is one mutation, in order.
type Change struct {
	Kind Kind
	Path string
}

// Affected is a path with what it holds after the transaction.
type Affected struct {
	Path   string
	Exists bool
	Node   Node
}

func split(p string) (parent, name string) {
	i := strings.LastIndexByte(p, '/')
	if i == 0 {
		return "/", p[1:]
	}
	return p[:i], p[i+1:]
}

func (c *Checker) path(p string) *path {
	x := c.paths[p]
	if x == nil {
		x = &path{}
		c.paths[p] = x
	}
	return x
}

// NameHash is what a child's name adds to KidSum.
func NameHash(name string) uint64 {
	h := uint64(14695981039346656037)
	for i := 0; i < len(name); i++ {
		h = (h ^ uint64(name[i])) * 1099511628211
	}
	return mix(h, uint64(len(name)))
}

// Did takes what a transaction was.
func (c *Checker) Did(d *Did) {
	t := c.find(d.Zxid)
	t.conn, t.xid, t.code = d.Conn, d.Xid, d.Code
	c.did(d)
	if d.Code != 0 {
		if len(d.Changes)+len(d.Affected) > 0 {
			c.fail("I7", "%s was refused and changed %d paths", Zx(d.Zxid), len(d.Affected))
		}
		return
	}
	note := func(k Kind, p string) {
		ch := change{zxid: d.Zxid, kind: k, path: p}
		c.changes = append(c.changes, ch)
		x := c.path(p)
		x.changes = append(x.changes, ch)
	}
	for _, ch := range d.Changes {
		if ch.Kind == ACLs {
			continue
		}
		note(ch.Kind, ch.Path)
		if ch.Kind == Data {
			continue
		}
		parent, name := split(ch.Path)
		p := c.path(parent)
		if ch.Kind == Created {
			p.kids++
			p.kidSum += NameHash(name)
		} else {
			p.kids--
			p.kidSum -= NameHash(name)
		}
		note(Children, parent)
	}
	for i := range d.Affected {
		a := &d.Affected[i]
		p := c.path(a.Path)
		c.own(p, a)
		p.versions = append(p.versions, version{zxid: d.Zxid, exists: a.Exists, Node: a.Node, kids: p.kids, kidSum: p.kidSum})
	}
	if d.End {
		if left := len(c.owned[d.Session]); left > 0 {
			c.fail("S5", "session %x ended at %s and left %d ephemerals", d.Session, Zx(d.Zxid), left)
		}
	}
}

// own keeps who owns which ephemeral.
func (c *Checker) own(p *path, a *Affected) {
	if n := len(p.versions); n > 0 && p.versions[n-1].exists && p.versions[n-1].Owner != 0 {
		delete(c.owned[p.versions[n-1].Owner], a.Path)
	}
	if !a.Exists || a.Node.Owner == 0 {
		return
	}
	m := c.owned[a.Node.Owner]
	if m == nil {
		m = map[string]bool{}
		c.owned[a.Node.Owner] = m
	}
	m[a.Path] = true
}

// shows compares what a read showed with the history at z.
func (c *Checker) shows(r *request, z uint64, exists bool, n *Node) {
	p := c.paths[r.path]
	var v *version
	if p != nil {
		v = p.at(z)
	}
	there := v != nil && v.exists
	if there != exists {
		c.fail("I8", "read of %s at %s says exists=%v, history says %v", r.path, Zx(z), exists, there)
		return
	}
	if !exists {
		return
	}
	if n == nil {
		c.fail("I8", "read of %s at %s says nothing", r.path, Zx(z))
		return
	}
	w := v.Node
	if n.Mzxid != w.Mzxid || n.Czxid != w.Czxid || n.Pzxid != w.Pzxid || n.Version != w.Version || n.Cversion != w.Cversion || n.Owner != w.Owner {
		c.fail("I8", "read of %s at %s shows %+v, history has %+v", r.path, Zx(z), *n, w)
		return
	}
	if !n.NoData && n.Data != w.Data {
		c.fail("I8", "read of %s at %s shows other data than the history", r.path, Zx(z))
	}
	if !n.NoKidsInRead && (n.Kids != v.kids || n.KidSum != v.kidSum) {
		c.fail("I8", "read of %s at %s shows %d children, history has %d (or others)", r.path, Zx(z), n.Kids, v.kids)
	}
}
