package zab

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"sort"
	"strings"
	"time"
)

// cluster is a model of everything around the cores: disks with an ordered queue of ops and a synced watermark, links
// that lose only a suffix, trees that are applied to. Every effect of a core is a separate event, in an order that the
// test chooses. The invariants of part C of the specification are checked on ghost state at each of them.
type cluster struct {
	members  []Member
	opts     Options
	nodes    map[ServerID]*node
	ids      []ServerID
	links    map[[2]ServerID]*pipe // by ordered pair
	inc      uint64
	dirs     map[string][]Entry // received snapshots
	moves    []*transfer
	installs int
	ghost    ghost
	out      strings.Builder
	trace    bool
	rand     *rand.Rand
	faults   []string // broken invariants
	// mutate disables rules of the host or of the core, to see that the checks notice (tests only).
	ungated bool
	lazy    bool
	frozen  bool // snapshots do not arrive
	watch   func(n *node, in Input, take func())
}

type node struct {
	c       *cluster
	id      ServerID
	core    *Core
	up      bool
	dead    string   // why it must not be restarted
	disk    image    // durable
	issued  image    // with everything issued
	queue   []queued // ops issued, not synced
	tree    []Entry  // applied, from the beginning of time
	deliver Zxid     // told to apply
	stuck   bool     // the disk completes nothing
	loading uint64   // op of a switch whose tree is still to be loaded
	gated   []Gated
	gen     uint64
	reads   []ReadRange
	wants   []NeedSnapshot
	serving bool
	lease   time.Duration
	now     time.Duration
	look    Reason
	next    ServerID // suggested successor
	syncs   map[uint64]Zxid
	commits Zxid
}

// image is what the log store holds.
type image struct {
	hard     HardState
	ensemble ID
	base     Zxid
	log      []Entry
	commit   Zxid
	epochs   history
	tree     []Entry // of the state store at the last flush or switch
	needSnap bool
}

type queued struct {
	op  PersistOp
	gen uint64
}

type pipe struct {
	up      bool
	link    Link // as the receiver names it: peer = sender
	queue   []Message
	blocked bool
}

type transfer struct {
	from, to ServerID
	inc      uint64
	zxid     Zxid
	tree     []Entry
}

func (im *image) last() Zxid {
	if n := len(im.log); n > 0 {
		return im.log[n-1].Zxid
	}
	return im.base
}

func (im image) clone() image {
	im.log = slices.Clone(im.log)
	im.epochs = slices.Clone(im.epochs)
	return im
}

func (im *image) has(z Zxid) bool { return im.epochs.contains(z) }

func zx(z Zxid) string { return fmt.Sprintf("%d:%d", z.Epoch(), z.Counter()) }

func newCluster(members []Member, o Options, seed uint64) *cluster {
	c := &cluster{
		members: members, opts: o, nodes: map[ServerID]*node{}, links: map[[2]ServerID]*pipe{}, dirs: map[string][]Entry{},
		rand:  rand.New(rand.NewPCG(seed, 1)),
		ghost: ghost{proposed: map[Zxid]string{}, leader: map[Epoch]ServerID{}},
	}
	for _, m := range members {
		c.ids = append(c.ids, m.ID)
		c.nodes[m.ID] = &node{c: c, id: m.ID, syncs: map[uint64]Zxid{}}
	}
	for _, a := range c.ids {
		for _, b := range c.ids {
			if a != b {
				c.links[[2]ServerID{a, b}] = &pipe{}
			}
		}
	}
	return c
}

func (c *cluster) fault(n *node, format string, args ...any) {
	c.faults = append(c.faults, fmt.Sprintf("server %d: ", n.id)+fmt.Sprintf(format, args...))
}

func (c *cluster) logf(format string, args ...any) { fmt.Fprintf(&c.out, format+"\n", args...) }

// start boots a node from its disk, as a process does.
func (c *cluster) start(n *node) error {
	n.issued = n.disk.clone()
	applied := Zxid(0)
	if k := len(n.disk.tree); k > 0 {
		applied = n.disk.tree[k-1].Zxid
	}
	// A restart applies up to the stored commit point and no further.
	n.tree = slices.Clone(n.disk.tree)
	delivered := max(n.disk.commit, applied)
	b := Boot{
		Self: n.id, Members: c.members, Hard: n.disk.hard, Base: n.disk.base, Last: n.disk.last(), Committed: n.disk.commit,
		Delivered: delivered, Epochs: n.disk.epochs, Ensemble: n.disk.ensemble, Instance: ID(n.id), NeedSnap: n.disk.needSnap,
		Rand: rand.New(rand.NewPCG(uint64(n.id), 7)), Options: c.opts,
	}
	core, err := New(b)
	if err != nil {
		return err
	}
	n.core, n.up, n.queue, n.gated, n.reads, n.wants = core, true, nil, nil, nil, nil
	n.loading = 0
	n.gen, n.deliver, n.serving, n.lease, n.next, n.look, n.commits = 0, delivered, false, 0, 0, "", delivered
	n.syncs = map[uint64]Zxid{}
	if !n.disk.needSnap {
		n.apply(-1)
	}
	core.Step(Quantum{Now: n.now})
	n.take()
	return nil
}

// crash keeps the first keep queued ops; those are durable although nobody heard of it.
func (c *cluster) crash(n *node, keep int) {
	for i, q := range n.queue {
		if i >= keep {
			break
		}
		n.disk.perform(n, q.op)
	}
	n.up, n.core, n.serving = false, nil, false
	for _, o := range c.ids {
		c.disconnect(n.id, o)
	}
	c.moves = slices.DeleteFunc(c.moves, func(t *transfer) bool { return t.from == n.id || t.to == n.id })
}

func (c *cluster) connect(a, b ServerID) {
	x, y := c.nodes[a], c.nodes[b]
	if a == b || !x.up || !y.up || c.links[[2]ServerID{a, b}].up {
		return
	}
	c.inc++
	*c.links[[2]ServerID{a, b}] = pipe{up: true, link: Link{Peer: a, Incarnation: c.inc}}
	*c.links[[2]ServerID{b, a}] = pipe{up: true, link: Link{Peer: b, Incarnation: c.inc}}
	x.step(LinkUp{Link{Peer: b, Incarnation: c.inc}})
	y.step(LinkUp{Link{Peer: a, Incarnation: c.inc}})
}

// relink replaces a link by a newer one, without the older being reported as down.
func (c *cluster) relink(a, b ServerID) {
	if a == b || !c.links[[2]ServerID{a, b}].up {
		return
	}
	old := c.links[[2]ServerID{a, b}].link.Incarnation
	*c.links[[2]ServerID{a, b}] = pipe{}
	*c.links[[2]ServerID{b, a}] = pipe{}
	c.moves = slices.DeleteFunc(c.moves, func(t *transfer) bool { return t.inc == old })
	c.connect(a, b)
}

func (c *cluster) disconnect(a, b ServerID) {
	if a == b || !c.links[[2]ServerID{a, b}].up {
		return
	}
	inc := c.links[[2]ServerID{a, b}].link.Incarnation
	*c.links[[2]ServerID{a, b}] = pipe{}
	*c.links[[2]ServerID{b, a}] = pipe{}
	c.moves = slices.DeleteFunc(c.moves, func(t *transfer) bool { return t.inc == inc })
	if c.nodes[a].up {
		c.nodes[a].step(LinkDown{Link{Peer: b, Incarnation: inc}})
	}
	if c.nodes[b].up {
		c.nodes[b].step(LinkDown{Link{Peer: a, Incarnation: inc}})
	}
}

// step gives one input and performs the batch.
func (n *node) step(in Input) {
	if !n.up {
		return
	}
	if w := n.c.watch; w != nil {
		w(n, in, n.take)
		return
	}
	n.core.Step(in)
	if !n.c.lazy || n.c.rand.IntN(3) == 0 { // a lazy host steps many inputs before it looks
		n.take()
	}
}

// take performs what the core asks for, as far as it is immediate.
func (n *node) take() {
	c := n.c
	b, ok := n.core.Ready()
	if !ok {
		return
	}
	if b.Gen != n.gen {
		n.gen, n.gated = b.Gen, nil // promises of an older generation never leave
	}
	for _, op := range b.Persist {
		n.issued.perform(n, op)
		n.queue = append(n.queue, queued{op, b.Gen})
		if op.Install != nil {
			n.loading, n.deliver, n.tree = op.Seq, op.Install.Zxid, nil
		}
		if op.Truncate != nil && len(n.tree) > 0 && n.tree[len(n.tree)-1].Zxid > *op.Truncate {
			c.fault(n, "Z15: truncate to %s below the tree at %s", zx(*op.Truncate), zx(n.tree[len(n.tree)-1].Zxid))
		}
	}
	for _, s := range b.Send {
		n.send(s)
	}
	for _, g := range b.SendWhen {
		if c.ungated {
			n.send(g.Outbound)
		} else {
			n.gated = append(n.gated, g)
		}
	}
	if b.Deliver != 0 {
		if n.loading > 0 && n.queueHas(n.loading) {
			c.fault(n, "delivered %s before the switch is durable", zx(b.Deliver))
		}
		n.deliver = b.Deliver
	}
	n.reads = append(n.reads, b.Reads...)
	n.lease = b.Lease
	var cuts []CutLink
	for _, e := range b.Events {
		n.event(e, &cuts)
	}
	n.observe()
	for _, e := range cuts {
		if p := c.links[[2]ServerID{e.Link.Peer, n.id}]; p.up && p.link == e.Link {
			c.disconnect(n.id, e.Link.Peer)
		}
	}
}

func (n *node) event(e Event, cuts *[]CutLink) {
	c := n.c
	switch e := e.(type) {
	case RoleChanged:
		text := fmt.Sprintf("%d: %v", n.id, e.Role)
		if e.Role == Looking {
			n.next, n.look = e.Leader, e.Reason
		}
		if e.Leader != 0 && e.Leader != n.id {
			text += fmt.Sprintf(" %d", e.Leader)
		}
		if e.Epoch != 0 {
			text += fmt.Sprintf(" epoch %d", e.Epoch)
		}
		if e.Reason != "" {
			text += fmt.Sprintf(" (%s)", e.Reason)
		}
		c.logf("%s", text)
	case Serving:
		n.serving = e.On
		c.logf("%d: serving=%v", n.id, e.On)
	case SyncDone:
		if !e.Lost && e.Index < n.syncs[e.ID] {
			c.fault(n, "C.3: sync %d answered with %s, committed before it %s", e.ID, zx(e.Index), zx(n.syncs[e.ID]))
		}
		if e.Lost {
			c.logf("%d: sync %d lost", n.id, e.ID)
		} else {
			c.logf("%d: sync %d at %s", n.id, e.ID, zx(e.Index))
		}
	case NeedSnapshot:
		n.wants = append(n.wants, e)
		c.logf("%d: needs a snapshot for %d, at %s or later", n.id, e.Link.Peer, zx(e.Min))
	case StreamSnapshot:
		i := sort.Search(len(n.tree), func(i int) bool { return n.tree[i].Zxid > e.Zxid })
		c.moves = append(c.moves, &transfer{from: n.id, to: e.Link.Peer, inc: e.Link.Incarnation, zxid: e.Zxid, tree: slices.Clone(n.tree[:i])})
		c.logf("%d: streams a snapshot at %s to %d", n.id, zx(e.Zxid), e.Link.Peer)
	case CancelSnapshot:
		if !c.lazy || c.rand.IntN(2) == 0 { // else what was done already is still reported
			c.moves = slices.DeleteFunc(c.moves, func(t *transfer) bool {
				return t.inc == e.Link.Incarnation && (t.from == n.id || t.to == n.id)
			})
		}
		c.logf("%d: cancels the snapshot with %d", n.id, e.Link.Peer)
	case CutLink:
		*cuts = append(*cuts, e)
		c.logf("%d: cuts the link with %d (%s) %s", n.id, e.Link.Peer, e.Reason, e.Detail)
	case Campaign:
		c.logf("%d: told to campaign after epoch %d", n.id, e.Epoch)
	case HandedOver:
		c.logf("%d: handed over to %d", n.id, e.To)
	case HandOverGivenUp:
		c.logf("%d: hand-over given up", n.id)
	case Fatal:
		n.dead = string(e.Reason)
		c.logf("%d: FATAL %s: %s", n.id, e.Reason, e.Detail)
	case Alarm:
		c.logf("%d: ALARM at %d: %s: %s", n.id, e.Peer, e.Reason, e.Detail)
	}
}

// send puts a message on a link, checking what it promises against the disk (Z12).
func (n *node) send(o Outbound) {
	c := n.c
	switch m := o.Msg.(type) {
	case *Ack:
		if !n.disk.has(m.Durable) {
			c.fault(n, "Z12: ack of %s, disk %s", zx(m.Durable), zx(n.disk.last()))
		}
	case *AckNewLeader:
		if !n.disk.has(m.HistoryEnd) || n.disk.hard.Current != m.Epoch || n.disk.ensemble == 0 {
			c.fault(n, "Z12: AckNewLeader %d %s, disk %v %s", m.Epoch, zx(m.HistoryEnd), n.disk.hard, zx(n.disk.last()))
		}
	case *LeaderInfo:
		if n.disk.hard.Accepted < m.Epoch {
			c.fault(n, "Z12: LeaderInfo %d, disk %v", m.Epoch, n.disk.hard)
		}
	case *AckEpoch:
		if n.disk.hard.Accepted < m.Epoch || n.disk.last() != m.Last {
			c.fault(n, "Z12: AckEpoch %d %s, disk %v %s", m.Epoch, zx(m.Last), n.disk.hard, zx(n.disk.last()))
		}
	}
	p := c.links[[2]ServerID{n.id, o.Link.Peer}]
	if p == nil || !p.up || p.link.Incarnation != o.Link.Incarnation {
		return
	}
	p.queue = append(p.queue, o.Msg)
}

// receive delivers the next message of the link from a to b.
func (c *cluster) receive(a, b ServerID) bool {
	p := c.links[[2]ServerID{a, b}]
	if !p.up || p.blocked || len(p.queue) == 0 {
		return false
	}
	m := p.queue[0]
	p.queue = p.queue[1:]
	if c.trace {
		c.logf("%d->%d %s", a, b, describe(m))
	}
	c.nodes[b].step(Received{Link: p.link, Msg: m})
	return true
}

// sync makes queued ops durable, up to seq (0: all), and says so.
func (n *node) sync(upto uint64) bool {
	var last *queued
	for !n.stuck && len(n.queue) > 0 && (upto == 0 || n.queue[0].op.Seq <= upto) {
		q := n.queue[0]
		n.queue = n.queue[1:]
		n.disk.perform(n, q.op)
		last = &q
	}
	if last == nil {
		return false
	}
	n.release(last.op.Seq)
	n.step(Persisted{Seq: last.op.Seq, Gen: last.gen})
	return true
}

func (n *node) release(seq uint64) {
	kept := n.gated[:0:0]
	for _, g := range n.gated {
		if g.Seq <= seq {
			n.send(g.Outbound)
		} else {
			kept = append(kept, g)
		}
	}
	n.gated = kept
}

// apply moves the tree up to max entries towards what was delivered.
func (n *node) apply(limit int) bool {
	c := n.c
	if n.disk.needSnap || n.loading > 0 && n.queueHas(n.loading) {
		return false
	}
	if n.loading > 0 {
		n.tree, n.loading = slices.Clone(n.disk.tree), 0 // a switch: the tree is loaded from the state
	}
	at := Zxid(0)
	if k := len(n.tree); k > 0 {
		at = n.tree[k-1].Zxid
	}
	done := false
	i := sort.Search(len(n.issued.log), func(i int) bool { return n.issued.log[i].Zxid > at })
	for ; i < len(n.issued.log) && limit != 0; i++ {
		e := n.issued.log[i]
		if e.Zxid > n.deliver {
			break
		}
		n.tree = append(n.tree, e)
		done, at = true, e.Zxid
		limit--
		c.delivered(n, len(n.tree)-1, e)
	}
	if at < n.deliver && limit != 0 {
		c.fault(n, "Z15: delivered %s, the log has %s", zx(n.deliver), zx(at))
	}
	if done && n.core != nil {
		n.step(Applied{at})
	}
	return done
}

// propose appends k entries on a leader.
func (c *cluster) propose(n *node, k int) bool {
	if !n.up {
		return false
	}
	z, ok := n.core.NextZxid()
	if !ok {
		return false
	}
	var es []Entry
	prev := n.core.LastLogged()
	for range k {
		e := Entry{Zxid: z, Data: []byte("@" + zx(prev) + " x")}
		if old, ok := c.ghost.proposed[z]; ok {
			c.fault(n, "Z3: proposed %s again, before %q", zx(z), old)
		}
		c.ghost.proposed[z] = string(e.Data)
		es = append(es, e)
		prev, z = z, z+1
	}
	n.step(Propose{es})
	return true
}

func (c *cluster) askSync(n *node, id uint64) {
	n.syncs[id] = c.ghost.maxCom
	n.step(SyncRead{id})
}

func (n *node) queueHas(seq uint64) bool {
	return slices.ContainsFunc(n.queue, func(q queued) bool { return q.op.Seq == seq })
}

// answerReads serves log reads from the durable log.
func (n *node) answerReads() bool {
	reads := n.reads
	n.reads = nil
	for _, r := range reads {
		in := LogRead{ID: r.ID, Link: r.Link, After: r.After, Missing: r.After < n.disk.base}
		bytes := 0
		for _, e := range n.disk.log {
			if e.Zxid <= r.After || e.Zxid > r.Upto || bytes > 0 && bytes+sizeOf(&e) > r.Bytes {
				continue
			}
			bytes += sizeOf(&e)
			in.Entries = append(in.Entries, e)
		}
		n.step(in)
	}
	return len(reads) > 0
}

// offerSnapshots answers NeedSnapshot at the zxid of the tree, at least min.
func (n *node) offerSnapshots(at func(min, applied Zxid) Zxid) bool {
	wants := n.wants
	n.wants = nil
	did := false
	for _, w := range wants {
		applied := Zxid(0)
		if k := len(n.tree); k > 0 {
			applied = n.tree[k-1].Zxid
		}
		if applied < w.Min {
			n.wants = append(n.wants, w)
			continue
		}
		did = true
		n.step(SnapshotReady{Link: w.Link, Zxid: at(w.Min, applied)})
	}
	return did
}

// move completes a snapshot transfer: the receiver has it whole and synced.
func (c *cluster) move(t *transfer, ok bool) {
	c.moves = slices.DeleteFunc(c.moves, func(x *transfer) bool { return x == t })
	from, to := c.nodes[t.from], c.nodes[t.to]
	if ok {
		c.installs++
		dir := fmt.Sprintf("state.%s.%d", zx(t.zxid), len(c.dirs))
		c.dirs[dir] = t.tree
		to.step(SnapshotReceived{Link: Link{Peer: t.from, Incarnation: t.inc}, Zxid: t.zxid, Dir: dir})
	}
	from.step(SnapshotSent{Link: Link{Peer: t.to, Incarnation: t.inc}, Failed: !ok})
}

// flushState makes the tree durable in the state store, as far as the durable log covers it (interleavings 4).
func (n *node) flushState() {
	if n.disk.needSnap || n.loading > 0 || len(n.tree) == 0 {
		return
	}
	k := sort.Search(len(n.tree), func(i int) bool { return n.tree[i].Zxid > n.disk.last() })
	if k > len(n.disk.tree) {
		n.disk.tree = slices.Clone(n.tree[:k])
		n.issued.tree = n.disk.tree
	}
}

// cutLog cuts the log behind the durable state, and behind the learners unless a limit of its size overrules them.
func (n *node) cutLog(to Zxid, overrule bool) {
	if st := n.core.Status(); !overrule {
		to = min(to, st.MinCursor())
	}
	if k := len(n.disk.tree); k == 0 || len(n.queue) > 0 {
		return
	} else if z := min(to, n.disk.tree[k-1].Zxid); z > n.disk.base && n.disk.has(z) {
		for _, im := range []*image{&n.disk, &n.issued} {
			i := sort.Search(len(im.log), func(i int) bool { return im.log[i].Zxid > z })
			im.log, im.base = slices.Clone(im.log[i:]), z
		}
		n.step(LogBase{z})
	}
}

// settle runs everything that can run without time passing.
func (c *cluster) settle() {
	c.lazy = false
	for range 100000 {
		did := false
		for _, id := range c.ids {
			if n := c.nodes[id]; n.up {
				n.take()
			}
		}
		for _, a := range c.ids {
			for _, b := range c.ids {
				for a != b && c.receive(a, b) {
					did = true
				}
			}
		}
		for _, id := range c.ids {
			n := c.nodes[id]
			if !n.up {
				continue
			}
			did = n.sync(0) || did
			did = n.answerReads() || did
			did = n.offerSnapshots(func(_, applied Zxid) Zxid { return applied }) || did
			did = n.apply(-1) || did
		}
		for _, t := range slices.Clone(c.moves) {
			if c.frozen {
				break
			}
			c.move(t, true)
			did = true
		}
		if !did {
			return
		}
	}
	c.faults = append(c.faults, "never quiet")
}

// tick lets time pass at a node.
func (n *node) tick(d, late time.Duration) {
	n.now += d
	n.step(Quantum{Now: n.now, Late: late})
}
