package znode

import (
	"cmp"
	"slices"
)

// record is the pending state of one path: absolute, as the transaction zxid leaves it.
type record struct {
	meta
	zxid int64
	gone bool // the node does not exist
}

// pendingSession is the pending state of one session.
type pendingSession struct {
	Session
	zxid int64
	gone bool // closing
}

// pendingNode is an ephemeral that a pending transaction created.
type pendingNode struct {
	path string
	zxid int64
}

// touched names what a transaction changed: a path, or a session if there is no path. owner: the session whose list of
// pending ephemerals got the path.
type touched struct {
	zxid  int64
	path  string
	owner int64
}

// overlay is what is prepared and not yet known to be applied, over the tree.
//
// Invariant: for a path or session without a record here, the tree holds what the last prepared transaction leaves, but
// for the nodes of closing sessions (standing); the tree may be ahead of the records that are still here, never behind
// those that were dropped.
type overlay struct {
	tree       *Tree
	nodes      map[string]*record
	sessions   map[int64]*pendingSession
	ended      map[int64]int64         // closing sessions: the zxid of their end
	ephemerals map[int64][]pendingNode // by owner, zxids ascending
	queue      []touched               // zxids ascending
	head       int                     // of queue
	sums       Digests                 // after the last prepared transaction, while anything is pending

	quotas        map[string]*pendingQuota
	quotaLen      int // no key of quotas is longer
	charges       []charge
	touchedQuotas []string // by the present transaction

	digester
	buf  []byte    // for findACL
	free []*record // dropped ones, for reuse

	// While a multi is prepared, undo holds what its first touch of each record replaced.
	layered bool
	undo    []undone
}

type undone struct {
	path string
	rec  *record
	old  record
	had  bool
}

// maxFree bounds the records kept for reuse.
const maxFree = 4096

func newOverlay(t *Tree) overlay {
	return overlay{
		tree: t, nodes: make(map[string]*record),
		sessions: make(map[int64]*pendingSession), ended: make(map[int64]int64), ephemerals: make(map[int64][]pendingNode),
	}
}

// begin starts a transaction: with nothing pending the tree is the state it is prepared against.
func (o *overlay) begin() {
	if o.pending() == 0 {
		o.sums = o.tree.sums
	}
}

func (o *overlay) pending() int { return len(o.queue) - o.head }

// find gives the pending or applied state of a path, or nil. It must not be changed.
func (o *overlay) find(path string) *meta {
	if r := o.nodes[path]; r != nil {
		if r.gone {
			return nil
		}
		return &r.meta
	}
	if n := o.standing(path); n != nil {
		return &n.meta
	}
	return nil
}

// standing gives a node of the tree, unless its session is closing: at the end of a session with tens of thousands of
// nodes they get no records.
func (o *overlay) standing(path string) *node {
	n := o.tree.nodes[path]
	if n != nil && n.czxid < o.ended[n.owner] {
		return nil
	}
	return n
}

// touch gives the record of a path for a transaction to change.
func (o *overlay) touch(path string, zxid int64) *record {
	r := o.nodes[path]
	had := r != nil
	if !had {
		r = o.newRecord()
		r.gone = true
		if n := o.standing(path); n != nil {
			r.meta, r.gone = n.meta, false
		}
		o.nodes[path] = r
	}
	if r.zxid != zxid {
		if o.layered {
			o.undo = append(o.undo, undone{path: path, rec: r, old: *r, had: had})
		}
		r.zxid = zxid
		o.queue = append(o.queue, touched{zxid: zxid, path: path})
	}
	return r
}

func (o *overlay) newRecord() *record {
	if n := len(o.free); n > 0 {
		r := o.free[n-1]
		o.free = o.free[:n-1]
		return r
	}
	return new(record)
}

func (o *overlay) drop(path string, r *record) {
	delete(o.nodes, path)
	if len(o.free) < maxFree {
		*r = record{}
		o.free = append(o.free, r)
	}
}

// change runs f on the record of an existing node and keeps the sums.
func (o *overlay) change(path string, zxid int64, f func(*meta)) {
	r := o.touch(path, zxid)
	o.sums.sub(o.digestOf(path, &r.meta))
	f(&r.meta)
	o.sums.add(o.digestOf(path, &r.meta))
}

// create puts a node under its parent, whose create counter becomes counter.
func (o *overlay) create(path, parent string, m *meta, counter int32, zxid int64) {
	o.change(parent, zxid, func(p *meta) {
		p.children++
		if counter > p.counter {
			p.counter, p.pzxid = counter, zxid
		}
	})
	r := o.touch(path, zxid)
	r.meta, r.gone = *m, false
	o.sums.add(o.digestOf(path, m))
	if o.tree.opts.ownerKind(m.owner) == ownerSession {
		o.ephemerals[m.owner] = append(o.ephemerals[m.owner], pendingNode{path: path, zxid: zxid})
		o.queue = append(o.queue, touched{zxid: zxid, path: path, owner: m.owner})
	}
}

// remove takes a node away.
func (o *overlay) remove(path string, zxid int64) {
	r := o.touch(path, zxid)
	o.sums.sub(o.digestOf(path, &r.meta))
	o.charge(path, -1, -int64(max(r.size, 0)), nil)
	r.meta, r.gone = meta{}, true
	parent, _ := split(path)
	o.change(parent, zxid, func(p *meta) {
		p.children--
		p.pzxid = max(p.pzxid, zxid)
	})
}

// session gives a session as the last prepared transaction leaves it, or nil.
func (o *overlay) session(id int64) *Session {
	if s := o.sessions[id]; s != nil {
		if s.gone {
			return nil
		}
		return &s.Session
	}
	return o.tree.sessions[id]
}

func (o *overlay) setSession(s Session, gone bool, zxid int64) {
	o.sessions[s.ID] = &pendingSession{Session: s, gone: gone, zxid: zxid}
	o.queue = append(o.queue, touched{zxid: zxid, owner: s.ID})
	if gone {
		o.sums.State -= s.stateHash()
	} else {
		o.sums.State += s.stateHash()
	}
}

// removeSession takes a session's nodes and the session away. The order is of no consequence but to quotas, which see
// it as the tree will: by path.
func (o *overlay) removeSession(s Session, zxid int64) {
	parents := map[string]int32{} // of nodes that get no record
	for path := range o.tree.ephemerals[s.ID] {
		if o.nodes[path] != nil {
			o.removeOwned(path, s.ID, zxid)
			continue
		}
		n := o.standing(path)
		if n == nil {
			continue
		}
		o.sums.sub(o.digestOf(path, &n.meta))
		o.charge(path, -1, -int64(max(n.size, 0)), nil)
		parent, _ := split(path)
		parents[parent]++
	}
	for parent, n := range parents {
		o.change(parent, zxid, func(p *meta) {
			p.children -= n
			p.pzxid = max(p.pzxid, zxid)
		})
	}
	for _, p := range o.ephemerals[s.ID] {
		o.removeOwned(p.path, s.ID, zxid)
	}
	slices.SortFunc(o.charges, func(a, b charge) int { return cmp.Compare(a.path, b.path) })
	o.ended[s.ID] = zxid
	o.setSession(s, true, zxid)
}

// removeOwned skips what a pending transaction deleted, or gave to another session.
func (o *overlay) removeOwned(path string, owner, zxid int64) {
	if m := o.find(path); m != nil && m.owner == owner {
		o.remove(path, zxid)
	}
}

// applied drops the records of transactions up to zxid.
func (o *overlay) applied(zxid int64) {
	if len(o.quotas) > 0 {
		o.dropQuotas(zxid)
	}
	for o.head < len(o.queue) && o.queue[o.head].zxid <= zxid {
		t := &o.queue[o.head]
		switch {
		case t.path == "":
			if s := o.sessions[t.owner]; s != nil && s.zxid <= zxid {
				delete(o.sessions, t.owner)
			}
			if o.ended[t.owner] <= zxid {
				delete(o.ended, t.owner)
			}
		case t.owner != 0:
			o.dropEphemeral(t.owner)
		default:
			if r := o.nodes[t.path]; r != nil && r.zxid <= zxid {
				o.drop(t.path, r)
			}
		}
		*t = touched{}
		o.head++
	}
	if o.head == len(o.queue) {
		o.queue, o.head = o.queue[:0], 0
	} else if o.head > len(o.queue)/2 && o.head > 1024 {
		n := copy(o.queue, o.queue[o.head:])
		clear(o.queue[n:])
		o.queue, o.head = o.queue[:n], 0
	}
}

// dropEphemeral drops the oldest pending ephemeral of a session.
func (o *overlay) dropEphemeral(owner int64) {
	if list := o.ephemerals[owner]; len(list) > 1 {
		o.ephemerals[owner] = list[1:]
	} else {
		delete(o.ephemerals, owner)
	}
}

// layer is where a multi begins, to return to if it fails.
type layer struct {
	queued int
	sums   Digests
}

func (o *overlay) pushLayer() layer {
	o.layered = true
	return layer{queued: len(o.queue), sums: o.sums}
}

func (o *overlay) keepLayer() {
	o.layered = false
	clear(o.undo)
	o.undo = o.undo[:0]
}

// dropLayer undoes everything since pushLayer.
func (o *overlay) dropLayer(l layer) {
	for i := range o.undo {
		u := &o.undo[i]
		if u.had {
			*u.rec = u.old
		} else {
			o.drop(u.path, u.rec)
		}
	}
	for i := len(o.queue) - 1; i >= l.queued; i-- {
		if t := &o.queue[i]; t.path != "" && t.owner != 0 {
			list := o.ephemerals[t.owner]
			if list = list[:len(list)-1]; len(list) > 0 {
				o.ephemerals[t.owner] = list
			} else {
				delete(o.ephemerals, t.owner)
			}
		}
	}
	o.dropCharges()
	clear(o.queue[l.queued:])
	o.queue, o.sums = o.queue[:l.queued], l.sums
	o.keepLayer()
}
