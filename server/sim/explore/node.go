package explore

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"time"

	"github.com/zkserver/zkserver/zab"
)

// servers is the size of the ensemble.
const servers = 3

// disk is what the log store of a server holds. Its slices are never written to.
type disk struct {
	hard     zab.HardState
	ensemble zab.ID
	base     zab.Zxid
	log      []zab.Zxid // (base, last]
	commit   zab.Zxid
	epochs   []zab.EpochEnd
	state    []zab.Zxid // applied sequence below the log: of an installed snapshot
}

func (d *disk) last() zab.Zxid {
	if n := len(d.log); n > 0 {
		return d.log[n-1]
	}
	return d.base
}

// has reports whether z is in the history.
func (d *disk) has(z zab.Zxid) bool {
	return z == 0 || slices.Contains(d.log, z) || slices.Contains(d.state, z)
}

// node is one server: core, disk, what was issued to the disk and is not durable, what waits for that, and the tree.
// Nodes are immutable once interned.
type node struct {
	core  *zab.Core
	disk  disk
	queue []zab.PersistOp
	gated []zab.Gated
	gen   uint64
	tree  []zab.Zxid // applied, from the beginning of time
	told  zab.Zxid   // to be applied
	load  uint64     // op of a snapshot switch; the tree is loaded once it is durable
	at    time.Duration
	draws uint64 // ensemble ids drawn
	facts facts
}

// facts are what the world asks of a node, computed once.
type facts struct {
	role      zab.Role
	phase     string
	leader    int // index, -1 for none
	epoch     zab.Epoch
	committed zab.Zxid
	learners  uint8 // indices of a leader's learners
	alive     uint8 // those that talk with it: one that has only greeted says nothing more
	synced    uint8
	next      zab.Zxid // zxid of the next proposal, zero if it may not propose
	barrier   bool
	accepted  zab.Epoch
	current   zab.Epoch
	last      zab.Zxid
	stamped   bool
}

// input is what a node consumes; it names servers by index.
type input struct {
	kind kind
	peer int // sender, peer of the link, leader
	arg  int // message, number of kept ops
	flag bool
}

type kind uint8

const (
	deliver kind = iota
	persist
	linkUp
	linkDown
	elected
	propose
	stepDown
	crash // keeps arg ops; flag: the state is flushed as far as the log is durable
	snapshot
	snapshotSent
	tick
	handOver
)

func (in input) key(node uint32) uint64 {
	k := uint64(node)<<28 | uint64(in.kind)<<24 | uint64(in.peer)<<20 | uint64(in.arg)<<1
	if in.flag {
		k |= 1
	}
	return k
}

// outcome of a step. It is the same each time a node takes an input, so it is computed once.
type outcome struct {
	node    uint32
	sends   []sent
	cuts    uint8 // peers whose link this server ends
	streams []stream
	fault   string
}

type sent struct {
	to  int
	msg uint16
}

// stream is a snapshot on its way: the first n transactions of the sender's tree.
type stream struct {
	to   int
	zxid zab.Zxid
	n    int
}

func id(i int) zab.ServerID { return zab.ServerID(i + 1) }

func link(i int) zab.Link { return zab.Link{Peer: id(i), Incarnation: 1} }

func (c *Config) boot(i int, d disk, applied zab.Zxid) (*zab.Core, error) {
	members := make([]zab.Member, servers)
	for j := range members {
		members[j] = zab.Member{ID: id(j)}
	}
	return zab.New(zab.Boot{
		Self: id(i), Members: members, Hard: d.hard, Base: d.base, Last: d.last(), Committed: d.commit,
		Delivered: max(d.commit, applied, d.base), Epochs: d.epochs, Ensemble: d.ensemble,
		Rand: rand.New(c.draws),
		Options: zab.Options{
			InitLimit: forever, SyncLimit: forever, SilenceLimit: forever, Heartbeat: heartbeat, HandOverLimit: forever,
			CounterLimit: c.CounterLimit,
		},
	})
}

// forever: no deadline of a core passes by itself. What a deadline would do is an event of the world.
const (
	forever   = 1 << 52 * time.Nanosecond
	heartbeat = 100 * time.Millisecond
)

// draws is the source of ensemble ids: the server that steps, and how often it has drawn.
type draws struct {
	server zab.ServerID
	n      uint64
}

func (d *draws) Uint64() uint64 { d.n++; return uint64(d.server)<<8 | d.n }

// reborn is the server as it starts from its disk.
func (e *Explorer) reborn(i int, d disk, applied zab.Zxid, drawn uint64) (*node, string) {
	core, err := e.cfg.boot(i, d, applied)
	if err != nil {
		return nil, "start: " + err.Error()
	}
	n := &node{core: core, disk: d, tree: slices.Clone(d.state), draws: drawn, told: max(d.commit, applied, d.base)}
	if f := e.apply(n); f != "" {
		return nil, f
	}
	out := &outcome{}
	e.take(n, out)
	return n, out.fault
}

// step lets a node take an input.
func (e *Explorer) step(i int, was *node, in input) (to *node, out *outcome) {
	n := *was
	to, out = &n, &outcome{}
	n.core = was.core.Clone()
	defer func() {
		n.draws = e.cfg.draws.n
		if r := recover(); r != nil {
			out.fault = fmt.Sprintf("panic: %v", r)
		}
	}()
	*e.cfg.draws = draws{server: id(i), n: n.draws}
	switch in.kind {
	case deliver:
		n.core.Step(zab.Received{Link: link(in.peer), Msg: e.messages[in.arg].msg})
	case persist:
		op := n.queue[0]
		n.queue = n.queue[1:]
		if out.fault = n.disk.perform(op); out.fault != "" {
			return to, out
		}
		if op.Install != nil {
			k, _ := strconv.Atoi(op.Install.Dir)
			n.disk.state = e.states[k]
		}
		kept := n.gated[:0:0]
		for _, g := range n.gated {
			if g.Seq <= op.Seq {
				e.send(&n, out, g.Outbound)
			} else {
				kept = append(kept, g)
			}
		}
		n.gated = kept
		n.core.Step(zab.Persisted{Seq: op.Seq, Gen: n.gen})
	case linkUp:
		n.core.Step(zab.LinkUp{Link: link(in.peer)})
	case linkDown:
		n.ungate(in.peer)
		n.core.Step(zab.LinkDown{Link: link(in.peer)})
	case elected:
		n.core.Step(zab.Elected{Leader: id(in.peer)})
	case propose:
		z, _ := n.core.NextZxid()
		run := make([]zab.Entry, in.arg)
		for k := range run {
			run[k].Zxid = z + zab.Zxid(k)
		}
		n.core.Step(zab.Propose{Entries: run})
	case stepDown:
		n.core.Step(zab.StepDown{Reason: zab.ReasonInitTimeout})
	case snapshot:
		n.core.Step(zab.SnapshotReceived{Link: link(in.peer), Zxid: e.states[in.arg][len(e.states[in.arg])-1], Dir: fmt.Sprint(in.arg)})
	case snapshotSent:
		n.core.Step(zab.SnapshotSent{Link: link(in.peer)})
	case tick:
		n.at += heartbeat
		n.core.Step(zab.Quantum{Now: n.at})
	case handOver:
		n.core.Step(zab.HandOver{})
	case crash:
		return e.crash(i, was, in, out)
	}
	e.take(&n, out)
	return to, out
}

// crash keeps a prefix of what was issued to the disk and starts again from it. Links are new: whatever was on the old
// ones is gone.
func (e *Explorer) crash(i int, was *node, in input, out *outcome) (*node, *outcome) {
	d := was.disk
	for _, op := range was.queue[:in.arg] {
		if out.fault = d.perform(op); out.fault != "" {
			return was, out
		}
		if op.Install != nil {
			k, _ := strconv.Atoi(op.Install.Dir)
			d.state = e.states[k]
		}
	}
	applied := zab.Zxid(0)
	if in.flag { // the state was flushed as far as the log is durable
		for _, z := range was.tree {
			if d.has(z) {
				applied = z
			}
		}
	}
	n, fault := e.reborn(i, d, applied, was.draws)
	if out.fault = fault; fault != "" {
		return was, out
	}
	return n, out
}

// take performs what the core asks for, as far as it is immediate: the tree applies at once what is delivered, and a
// read of the log is answered at once.
func (e *Explorer) take(n *node, out *outcome) {
	for out.fault == "" {
		b, ok := n.core.Ready()
		if !ok {
			break
		}
		if b.Gen != n.gen {
			n.gen, n.gated = b.Gen, nil
		}
		for _, op := range b.Persist {
			n.queue = append(slices.Clip(n.queue), op)
			if op.Truncate != nil && len(n.tree) > 0 && n.tree[len(n.tree)-1] > *op.Truncate {
				out.fault = fmt.Sprintf("I4: truncates to %s below its tree at %s", zx(*op.Truncate), zx(n.tree[len(n.tree)-1]))
			}
			if op.Install != nil {
				n.tree, n.told, n.load = nil, op.Install.Zxid, op.Seq
			}
		}
		for _, o := range b.Send {
			e.send(n, out, o)
		}
		if len(b.SendWhen) > 0 {
			n.gated = append(slices.Clip(n.gated), b.SendWhen...)
		}
		if b.Deliver != 0 {
			n.told = b.Deliver
		}
		if f := e.apply(n); f != "" {
			out.fault = f
		}
		for _, r := range b.Reads {
			in := zab.LogRead{ID: r.ID, Link: r.Link, After: r.After, Missing: r.After < n.disk.base}
			for _, z := range n.disk.log {
				if z > r.After && z <= r.Upto {
					in.Entries = append(in.Entries, zab.Entry{Zxid: z})
				}
			}
			n.core.Step(in)
		}
		for _, ev := range b.Events {
			e.event(n, ev, out)
		}
	}
	n.facts = factsOf(n)
}

// ungate drops what waits for the disk to leave on a link that is gone.
func (n *node) ungate(peer int) {
	n.gated = slices.DeleteFunc(slices.Clone(n.gated), func(g zab.Gated) bool { return g.Link.Peer == id(peer) })
}

func (e *Explorer) event(n *node, ev zab.Event, out *outcome) {
	switch ev := ev.(type) {
	case zab.CutLink:
		n.ungate(int(ev.Link.Peer) - 1)
		out.cuts |= 1 << (ev.Link.Peer - 1)
		switch ev.Reason {
		case zab.ReasonBadMessage, zab.ReasonGap, zab.ReasonTables, zab.ReasonLogCut: // among servers that keep to the rules
			out.fault = fmt.Sprintf("ends its link with %d: %s %s", ev.Link.Peer, ev.Reason, ev.Detail)
		}
	case zab.Fatal:
		out.fault = fmt.Sprintf("stops for the operator: %s %s", ev.Reason, ev.Detail)
	case zab.Alarm:
		out.fault = fmt.Sprintf("alarm: %s %s", ev.Reason, ev.Detail)
	case zab.NeedSnapshot:
		if len(n.tree) > 0 {
			n.core.Step(zab.SnapshotReady{Link: ev.Link, Zxid: n.tree[len(n.tree)-1]})
		}
	case zab.StreamSnapshot:
		out.streams = append(out.streams, stream{to: int(ev.Link.Peer) - 1, zxid: ev.Zxid, n: slices.Index(n.tree, ev.Zxid) + 1})
	}
}

// apply moves the tree up to what was delivered.
func (e *Explorer) apply(n *node) string {
	if n.load != 0 {
		if slices.ContainsFunc(n.queue, func(op zab.PersistOp) bool { return op.Seq == n.load }) {
			return ""
		}
		n.tree, n.load = slices.Clone(n.disk.state), 0
	}
	at := zab.Zxid(0)
	if k := len(n.tree); k > 0 {
		at = n.tree[k-1]
	}
	if at >= n.told {
		return ""
	}
	for _, z := range n.issued() {
		if z > at && z <= n.told {
			n.tree = append(slices.Clip(n.tree), z)
			at = z
		}
	}
	if at < n.told {
		return fmt.Sprintf("I4: delivers %s, its log has %s", zx(n.told), zx(at))
	}
	n.core.Step(zab.Applied{Zxid: at})
	return ""
}

// issued is the log with everything that was issued.
func (n *node) issued() []zab.Zxid {
	if len(n.queue) == 0 {
		return n.disk.log
	}
	d := n.disk
	for _, op := range n.queue {
		d.change(op)
	}
	return d.log
}

// send puts a message on its way, checking what it promises against the disk (I1, Z12).
func (e *Explorer) send(n *node, out *outcome, o zab.Outbound) {
	d := &n.disk
	switch m := o.Msg.(type) {
	case *zab.Ack:
		if !d.has(m.Durable) {
			out.fault = fmt.Sprintf("I6: ack of %s, its disk ends at %s", zx(m.Durable), zx(d.last()))
		}
	case *zab.AckNewLeader:
		if !d.has(m.HistoryEnd) || d.hard.Current != m.Epoch || d.ensemble == 0 {
			out.fault = fmt.Sprintf("I1: AckNewLeader %d %s, its disk %v %s", m.Epoch, zx(m.HistoryEnd), d.hard, zx(d.last()))
		}
	case *zab.LeaderInfo:
		if d.hard.Accepted < m.Epoch {
			out.fault = fmt.Sprintf("I1: LeaderInfo %d, its disk %v", m.Epoch, d.hard)
		}
	case *zab.AckEpoch:
		if d.hard.Accepted < m.Epoch || d.last() != m.Last || d.hard.Current != m.Current {
			out.fault = fmt.Sprintf("I1: AckEpoch %d (%d, %s), its disk %v %s", m.Epoch, m.Current, zx(m.Last), d.hard, zx(d.last()))
		}
	case *zab.Ping, *zab.Pong:
		if e.cfg.still() {
			return
		}
	}
	out.sends = append(out.sends, sent{to: int(o.Link.Peer) - 1, msg: e.message(o.Msg)})
}

// change does to the log what an op says, without looking at it twice.
func (d *disk) change(op zab.PersistOp) {
	if in := op.Install; in != nil {
		kept := d.log[:0:0]
		for _, z := range d.log {
			if z > in.Zxid && z <= in.Common {
				kept = append(kept, z)
			}
		}
		d.log, d.base, d.epochs = kept, in.Zxid, in.Epochs
	}
	if op.Truncate != nil {
		k := len(d.log)
		for k > 0 && d.log[k-1] > *op.Truncate {
			k--
		}
		d.log = d.log[:k:k]
		d.epochs = tableOf(d.epochs, *op.Truncate)
	}
	for _, en := range op.Append {
		d.log = append(slices.Clip(d.log), en.Zxid)
		d.epochs = tableOf(d.epochs, en.Zxid)
	}
}

// tableOf is an epoch table cut at z, or continued with it.
func tableOf(t []zab.EpochEnd, z zab.Zxid) []zab.EpochEnd {
	k := len(t)
	for k > 0 && t[k-1].Epoch >= z.Epoch() {
		k--
	}
	t = slices.Clip(t[:k:k])
	if z != 0 {
		t = append(t, zab.EpochEnd{Epoch: z.Epoch(), Last: z})
	}
	return t
}

// perform makes an op durable and checks what the disk holds then.
func (d *disk) perform(op zab.PersistOp) string {
	last := d.last()
	if op.Install != nil {
		last = max(op.Install.Zxid, op.Install.Common)
	}
	if op.Truncate != nil {
		last = *op.Truncate
	}
	for _, en := range op.Append {
		if en.Zxid != last+1 && (en.Zxid.Epoch() <= last.Epoch() || en.Zxid.Counter() != 1) {
			return fmt.Sprintf("I5: stores %s behind %s", zx(en.Zxid), zx(last))
		}
		last = en.Zxid
	}
	d.change(op)
	if op.Truncate != nil && op.Append == nil && d.last() != *op.Truncate {
		return fmt.Sprintf("I5: truncating to %s leaves %s", zx(*op.Truncate), zx(d.last()))
	}
	if op.Hard != nil {
		if op.Hard.Accepted < d.hard.Accepted || op.Hard.Current < d.hard.Current {
			return fmt.Sprintf("I1: epochs %v after %v", *op.Hard, d.hard)
		}
		d.hard = *op.Hard
	}
	if op.Unstamp {
		d.ensemble = 0
	}
	if op.Ensemble != 0 {
		d.ensemble = op.Ensemble
	}
	d.commit = max(d.commit, op.Commit)
	if d.last().Epoch() > d.hard.Current || d.hard.Current > d.hard.Accepted {
		return fmt.Sprintf("I1: the log ends at %s, epochs %v", zx(d.last()), d.hard)
	}
	return ""
}

func factsOf(n *node) facts {
	s := n.core.Status()
	f := facts{
		role: s.Role, phase: s.Phase, leader: int(s.Leader) - 1, epoch: s.Epoch, committed: s.Committed,
		barrier: n.core.BarrierPassed(), accepted: s.Hard.Accepted, current: s.Hard.Current, last: s.Last,
		stamped: s.Ensemble != 0,
	}
	for _, x := range s.Learners {
		f.learners |= 1 << (x.ID - 1)
		if x.State != "greeted" {
			f.alive |= 1 << (x.ID - 1)
		}
		if x.State == "up to date" || x.State == "synced" {
			f.synced |= 1 << (x.ID - 1)
		}
	}
	if z, ok := n.core.NextZxid(); ok {
		f.next = z
	}
	return f
}

func zx(z zab.Zxid) string { return fmt.Sprintf("%d:%d", z.Epoch(), z.Counter()) }

// names are the dumps' translation under a renaming of the servers, and of the ensemble ids that they have drawn.
func names(p [servers]int) zab.Names {
	return zab.Names{
		Server: func(s zab.ServerID) zab.ServerID { return id(p[s-1]) },
		ID: func(i zab.ID) uint64 {
			if s := i >> 8; s != 0 {
				return uint64(p[s-1]+1)<<8 | uint64(i&0xff)
			}
			return uint64(i)
		},
	}
}

// dump is the node under a renaming.
func (n *node) dump(dst []byte, na zab.Names) []byte {
	dst = n.core.AppendState(dst, na)
	put := func(vs ...uint64) {
		for _, v := range vs {
			dst = binary.AppendUvarint(dst, v)
		}
	}
	d := &n.disk
	put(uint64(d.hard.Accepted), uint64(d.hard.Current), uint64(d.base), uint64(d.commit), uint64(len(d.log)))
	if d.ensemble != 0 {
		put(na.ID(d.ensemble))
	}
	for _, z := range d.log {
		put(uint64(z))
	}
	put(n.draws, uint64(len(d.state)), uint64(len(n.tree)), uint64(n.told))
	for _, z := range n.tree {
		put(uint64(z))
	}
	put(uint64(len(n.queue)))
	first := uint64(0)
	if len(n.queue) > 0 {
		first = n.queue[0].Seq
	}
	for _, op := range n.queue {
		put(op.Seq-first, uint64(op.Commit), uint64(len(op.Append)))
		for _, en := range op.Append {
			put(uint64(en.Zxid))
		}
		if op.Hard != nil {
			put(1, uint64(op.Hard.Accepted), uint64(op.Hard.Current))
		}
		if op.Ensemble != 0 {
			put(2, na.ID(op.Ensemble))
		}
		if op.Unstamp {
			put(3)
		}
		if op.Truncate != nil {
			put(4, uint64(*op.Truncate))
		}
		if op.Install != nil {
			put(5, uint64(op.Install.Zxid), uint64(op.Install.Common))
		}
		put(0)
	}
	put(uint64(len(n.gated)))
	// Gates of different links may stand in any order.
	for to := range servers {
		for _, g := range n.gated {
			if int(na.Server(g.Link.Peer)) == to+1 {
				put(uint64(to), g.Seq-first)
				dst = zab.AppendMessage(dst, g.Msg, na)
			}
		}
	}
	return dst
}

func hash64(b []byte) uint64 {
	s := sha256.Sum256(b)
	return binary.LittleEndian.Uint64(s[:8])
}
