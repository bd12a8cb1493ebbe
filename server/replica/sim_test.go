package replica

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"sort"
	"strings"
	"testing"
	"time"

	"github.com/zkserver/zkserver/election"
	"github.com/zkserver/zkserver/server/peer"
	"github.com/zkserver/zkserver/zab"
	"github.com/zkserver/zkserver/znode"
)

// simulation is some Machines with a disk, a tree and links each, stepped in a fixed order: the same script gives the
// same output.
type simulation struct {
	t       *testing.T
	n       int
	nodes   []*simNode // by id-1; nil while down
	disks   []*simDisk
	links   map[[2]int]*simLink
	next    uint64
	now     time.Duration
	conns   map[uint32]*simConn
	seqs    []uint64 // of each process
	snaps   map[string]*simSnap
	out     bytes.Buffer
	process zab.ID
	limit   uint32 // of the counter; zero: the usual
	redial  map[[2]int]time.Duration
}

// simDisk is what survives a crash.
type simDisk struct {
	hard     zab.HardState
	base     zab.Zxid
	commit   zab.Zxid
	log      []zab.Entry
	epochs   []zab.EpochEnd
	ensemble zab.ID
	state    *znode.Tree // as of applied, exact
	applied  zab.Zxid
}

func (d *simDisk) last() zab.Zxid {
	if n := len(d.log); n > 0 {
		return d.log[n-1].Zxid
	}
	return d.base
}

// simSnap is a snapshot on its way.
type simSnap struct {
	zxid  zab.Zxid
	nodes []znode.NodeRecord
	ses   []znode.Session
	sums  znode.Digests
}

// simNode is one running Machine.
type simNode struct {
	id      int
	m       *Machine
	tree    *znode.Tree
	process zab.ID
	in      []Input
	persist []persist
	deliver []work
	syncs   []Synced
	lease   time.Duration
	held    map[string]bool // "disk", "apply"
	snaps   map[zab.Link]*simSnap
	born    time.Duration
}

func (x *simNode) RLock() *znode.Tree { return x.tree }
func (x *simNode) RUnlock()           {}

// simLink is a pair's link with a queue in each direction.
type simLink struct {
	inc  uint64
	msgs map[int][]peer.Message // by receiver
	held map[int]bool           // by receiver
}

// simConn is a client connection as session.Conn would keep it.
type simConn struct {
	num      uint32
	server   int
	session  int64
	password []byte
	ticket   znode.Ticket
	closed   bool
	name     string
	ops      map[uint64]string
}

func newSimulation(t *testing.T, n int, limit uint32) *simulation {
	s := &simulation{t: t, n: n, limit: limit, links: map[[2]int]*simLink{}, redial: map[[2]int]time.Duration{}, conns: map[uint32]*simConn{}, snaps: map[string]*simSnap{}, process: 100}
	s.disks, s.nodes, s.seqs = make([]*simDisk, n), make([]*simNode, n), make([]uint64, n)
	for i := range n {
		s.disks[i] = &simDisk{state: znode.NewTree(znode.Options{})}
		s.boot(i + 1)
	}
	return s
}

func (s *simulation) printf(format string, args ...any) { fmt.Fprintf(&s.out, format+"\n", args...) }

// copyTree makes an equal tree, as loading a stored state does.
func copyTree(t *znode.Tree) *znode.Tree {
	return takeSnap(t).tree()
}

func takeSnap(t *znode.Tree) *simSnap {
	sn := &simSnap{zxid: zab.Zxid(t.Applied()), sums: t.Digests()}
	t.Walk(func(r znode.NodeRecord) bool { sn.nodes = append(sn.nodes, r); return true })
	t.Sessions(func(x znode.Session) bool { sn.ses = append(sn.ses, x); return true })
	return sn
}

func (sn *simSnap) tree() *znode.Tree {
	t := znode.NewTree(znode.Options{})
	for _, r := range sn.nodes {
		if err := t.Load(r); err != nil {
			panic(err)
		}
	}
	for _, x := range sn.ses {
		if err := t.LoadSession(x); err != nil {
			panic(err)
		}
	}
	if err := t.Loaded(int64(sn.zxid), sn.sums); err != nil {
		panic(err)
	}
	return t
}

// boot starts a server from its disk.
func (s *simulation) boot(id int) {
	d := s.disks[id-1]
	s.process++
	x := &simNode{id: id, process: s.process, born: s.now, held: map[string]bool{}, snaps: map[zab.Link]*simSnap{}}
	x.tree = copyTree(d.state)
	delivered := max(d.commit, d.applied)
	for _, e := range d.log {
		if e.Zxid > d.applied && e.Zxid <= delivered {
			t, err := znode.DecodeTxn(e.Data)
			if err != nil {
				s.t.Fatal(err)
			}
			x.tree.Apply(t, &znode.Applied{})
		}
	}
	d.state, d.applied = copyTree(x.tree), delivered
	ms := members(s.n)
	v := zab.NewVerifier(ms)
	pw := byte(id)
	m, err := NewMachine(Boot{
		Zab: zab.Boot{
			Self: zab.ServerID(id), Members: ms, Verifier: v, Hard: d.hard, Base: d.base, Last: d.last(),
			Committed: d.commit, Delivered: delivered, Epochs: slices.Clone(d.epochs), Ensemble: d.ensemble,
			Instance: zab.ID(1000 + id), Rand: rand.New(rand.NewPCG(uint64(s.process), 1)),
			Options: zab.Options{
				InitLimit: 3 * time.Second, SyncLimit: 5 * time.Second, SilenceLimit: time.Second,
				Heartbeat: 50 * time.Millisecond, Lease: 600 * time.Millisecond,
				CounterLimit: s.limit,
			},
		},
		Election: election.Boot{
			Self: zab.ServerID(id), Members: ms, Verifier: v, ConfigSum: zab.ConfigSum(ms),
			Rand: rand.New(rand.NewPCG(uint64(s.process), 2)),
		},
		Tree: x, Process: x.process, Random: func(b []byte) {
			for i := range b {
				b[i] = pw
			}
			pw += 16
		},
		MinSessionTimeout: 4 * time.Second, SilenceLimit: time.Second,
		Reap: Reap{Interval: 500 * time.Millisecond, NeverUsed: 5 * time.Second, PerMinute: 300},
	})
	if err != nil {
		s.t.Fatal(err)
	}
	x.m = m
	s.nodes[id-1], s.seqs[id-1] = x, 0
	for o := 1; o <= s.n; o++ {
		if o != id && s.nodes[o-1] != nil {
			s.connect(id, o)
		}
	}
}

func key(a, b int) [2]int { return [2]int{min(a, b), max(a, b)} }

func (s *simulation) connect(a, b int) {
	s.next++
	l := &simLink{inc: s.next, msgs: map[int][]peer.Message{}, held: map[int]bool{}}
	s.links[key(a, b)] = l
	for _, p := range [][2]int{{a, b}, {b, a}} {
		x := s.nodes[p[0]-1]
		x.in = append(x.in, LinkUp{Link: zab.Link{Peer: zab.ServerID(p[1]), Incarnation: l.inc}, RTT: time.Millisecond})
	}
}

func (s *simulation) cut(a, b int) {
	l := s.links[key(a, b)]
	if l == nil {
		return
	}
	delete(s.links, key(a, b))
	for _, p := range [][2]int{{a, b}, {b, a}} {
		if x := s.nodes[p[0]-1]; x != nil {
			x.in = append(x.in, LinkDown{Link: zab.Link{Peer: zab.ServerID(p[1]), Incarnation: l.inc}, Refused: true})
		}
	}
}

// crash ends a server at once; what was not synced is gone, its connections are cut.
func (s *simulation) crash(id int) {
	s.nodes[id-1] = nil
	for o := 1; o <= s.n; o++ {
		if o != id {
			s.cut(id, o)
		}
	}
	for _, c := range s.sortedConns() {
		if c.server == id && !c.closed {
			c.closed = true
		}
	}
}

func (s *simulation) sortedConns() []*simConn {
	var out []*simConn
	for _, c := range s.conns {
		out = append(out, c)
	}
	sort.Slice(out, func(i, j int) bool { return out[i].num < out[j].num })
	return out
}

// run lets everything happen that can, with as many quanta as said.
func (s *simulation) run(quanta int) {
	for range quanta {
		s.drain()
		s.now += zab.QuantumLength
		s.dial()
		for _, x := range s.nodes {
			if x != nil {
				x.in = append(x.in, Quantum{Now: s.now - x.born})
			}
		}
	}
	s.drain()
}

// dial makes the links again that a server has cut.
func (s *simulation) dial() {
	for a := 1; a <= s.n; a++ {
		for b := a + 1; b <= s.n; b++ {
			at, ok := s.redial[key(a, b)]
			if !ok || s.now < at {
				continue
			}
			delete(s.redial, key(a, b))
			if s.nodes[a-1] != nil && s.nodes[b-1] != nil && s.links[key(a, b)] == nil {
				s.connect(a, b)
			}
		}
	}
}

// drain goes round until nothing moves any more.
func (s *simulation) drain() {
	rounds := 0
	for moved := true; moved; rounds++ {
		moved = false
		if rounds > 5000 {
			s.t.Fatalf("no end of messages without time passing:\n%s", s.out.String())
		}
		for _, x := range s.nodes {
			if x != nil {
				moved = s.turn(x) || moved
			}
		}
	}
}

// turn does one round of all of a server's threads.
func (s *simulation) turn(x *simNode) bool {
	moved := false
	for o := 1; o <= s.n; o++ {
		l := s.links[key(x.id, o)]
		if o == x.id || l == nil || l.held[x.id] || len(l.msgs[x.id]) == 0 {
			continue
		}
		msgs := l.msgs[x.id]
		l.msgs[x.id] = nil
		x.in = append(x.in, Received{Link: zab.Link{Peer: zab.ServerID(o), Incarnation: l.inc}, Msgs: msgs})
	}
	if len(x.in) > 0 {
		moved = true
		in := x.in
		x.in = nil
		x.m.Step(Clock{WallMs: 1_700_000_000_000 + s.now.Milliseconds()})
		for _, i := range in {
			x.m.Step(i)
		}
		e, any := x.m.Ready()
		x.lease = e.Lease
		if any {
			s.perform(x, &e)
		}
		if s.nodes[x.id-1] != x {
			return true
		}
	}
	if len(x.persist) > 0 && !x.held["disk"] {
		moved = true
		ps := x.persist
		x.persist = nil
		for _, p := range ps {
			for _, op := range p.ops {
				s.write(x, op)
			}
			x.in = append(x.in, Persisted{Seq: p.ops[len(p.ops)-1].Seq, Gen: p.gen})
		}
	}
	if len(x.deliver) > 0 && !x.held["apply"] {
		moved = true
		ws := x.deliver
		x.deliver = nil
		for _, w := range ws {
			s.apply(x, w)
		}
	}
	return moved
}

// write executes an op, as the store does.
func (s *simulation) write(x *simNode, op zab.PersistOp) {
	d := s.disks[x.id-1]
	if in := op.Install; in != nil {
		keep := d.log[:0:0]
		for _, e := range d.log {
			if e.Zxid > in.Zxid && e.Zxid <= in.Common {
				keep = append(keep, e)
			}
		}
		d.log, d.base, d.epochs = keep, in.Zxid, slices.Clone(in.Epochs)
		d.state, d.applied = s.snaps[in.Dir].tree(), in.Zxid
		x.tree = copyTree(d.state)
		x.in = append(x.in, Applied{Zxid: in.Zxid})
		s.printf("s%d: snapshot %s installed", x.id, zx(in.Zxid))
	}
	if op.Truncate != nil {
		for len(d.log) > 0 && d.log[len(d.log)-1].Zxid > *op.Truncate {
			d.log = d.log[:len(d.log)-1]
		}
		for len(d.epochs) > 0 && d.epochs[len(d.epochs)-1].Last > *op.Truncate {
			n := len(d.epochs) - 1
			if n > 0 && d.epochs[n-1].Last >= *op.Truncate || d.epochs[n].Epoch > op.Truncate.Epoch() {
				d.epochs = d.epochs[:n]
			} else {
				d.epochs[n].Last = *op.Truncate
			}
		}
	}
	for _, e := range op.Append {
		d.log = append(d.log, zab.Entry{Zxid: e.Zxid, Data: e.Data})
		if n := len(d.epochs); n > 0 && d.epochs[n-1].Epoch == e.Zxid.Epoch() {
			d.epochs[n-1].Last = e.Zxid
		} else {
			d.epochs = append(d.epochs, zab.EpochEnd{Epoch: e.Zxid.Epoch(), Last: e.Zxid})
		}
	}
	d.commit = max(d.commit, op.Commit)
	if op.Hard != nil {
		d.hard = *op.Hard
	}
	if op.Ensemble != 0 || op.Unstamp {
		d.ensemble = op.Ensemble
	}
}

// apply does what the applier does.
func (s *simulation) apply(x *simNode, w work) {
	es := w.deliver.Entries
	if w.deliver.Upto != 0 {
		var gap []zab.Entry
		for _, e := range s.disks[x.id-1].log {
			if e.Zxid > w.deliver.After && e.Zxid <= w.deliver.Held {
				gap = append(gap, e)
			}
		}
		es = append(gap, es...)
	}
	rep := Applied{Zxid: w.deliver.Upto}
	for _, e := range es {
		t, err := znode.DecodeTxn(e.Data)
		if err != nil {
			s.t.Fatal(err)
		}
		if t.Zxid <= x.tree.Applied() {
			continue
		}
		var a znode.Applied
		x.tree.Apply(t, &a)
		if a.DigestMismatch {
			s.t.Fatalf("server %d: digest mismatch at %#x", x.id, t.Zxid)
		}
		if t.Origin.Instance == uint64(x.process) && t.Origin.Server == uint64(x.id) {
			rep.Own = append(rep.Own, t.Origin.Seq)
			s.complete(x, t, &a, &rep)
		}
		for _, c := range s.sortedConns() {
			if a.Ended != 0 && c.server == x.id && c.session == a.Ended && !c.closed {
				s.shut(x, c, "session ended")
			}
		}
		s.releaseSyncs(x)
	}
	if w.deliver.Upto != 0 {
		x.in = append(x.in, rep)
	}
	for _, ans := range w.answers {
		switch ans := ans.(type) {
		case Attached:
			s.attached(ans)
		case Synced:
			x.syncs = append(x.syncs, ans)
		}
	}
	s.releaseSyncs(x)
}

func (s *simulation) releaseSyncs(x *simNode) {
	for len(x.syncs) > 0 && int64(x.syncs[0].Index) <= x.tree.Applied() {
		if c := s.conns[x.syncs[0].Conn]; c != nil && !c.closed {
			s.printf("%s: sync done", c.name)
		}
		x.syncs = x.syncs[1:]
	}
}

func (s *simulation) complete(x *simNode, t *znode.Txn, a *znode.Applied, rep *Applied) {
	c := s.conns[t.Origin.Conn]
	if t.Type == znode.OpCreateSession && !t.Failed() {
		ses := znode.Session{ID: t.Session, Timeout: t.Timeout, Password: t.Password, Ticket: t.Ticket}
		rep.Created = append(rep.Created, Created{Conn: t.Origin.Conn, Session: ses})
		if c != nil && !c.closed {
			c.session, c.password, c.ticket = t.Session, t.Password[:], t.Ticket
			s.printf("%s: session %s", c.name, ses36(t.Session))
		}
		return
	}
	if c == nil || c.closed {
		return
	}
	op := c.ops[t.Origin.Seq]
	res := "ok"
	if a.Result.Code != znode.OK {
		res = fmt.Sprintf("error %d", a.Result.Code)
	} else if a.Result.Path != "" {
		res = a.Result.Path
	}
	s.printf("%s: %s: %s %s", c.name, op, res, zx(zab.Zxid(a.Zxid)))
	if a.Ended != 0 && a.Ended == c.session {
		c.closed = true
	}
}

// cutLog makes the state durable up to what is applied and drops the log up to there.
func (s *simulation) cutLog(id int) {
	x, d := s.nodes[id-1], s.disks[id-1]
	z := zab.Zxid(x.tree.Applied())
	d.state, d.applied, d.base = copyTree(x.tree), z, z
	for len(d.log) > 0 && d.log[0].Zxid <= z {
		d.log = d.log[1:]
	}
	s.push(id, Core{zab.LogBase{Base: z}})
}

func (s *simulation) attached(a Attached) {
	c := s.conns[a.Conn]
	if c == nil || c.closed {
		return
	}
	switch {
	case !a.Valid:
		s.printf("%s: refused", c.name)
		c.closed = !a.Again
	case a.Again:
		s.printf("%s: confirmed", c.name)
	default:
		c.session, c.password, c.ticket = a.Session, a.Password[:], a.Ticket
		s.printf("%s: has session %s", c.name, ses36(a.Session))
	}
}

// perform does what the loop does.
func (s *simulation) perform(x *simNode, e *Effects) {
	if e.Fatal != nil {
		s.printf("s%d: fatal: %s", x.id, e.Fatal.Reason)
		s.crash(x.id)
		return
	}
	if e.CloseAll != "" {
		for _, c := range s.sortedConns() {
			if c.server == x.id && !c.closed {
				s.shut(x, c, string(e.CloseAll))
			}
		}
	}
	for _, cl := range e.Close {
		if c := s.conns[cl.Conn]; c != nil && !c.closed {
			s.shut(x, c, string(cl.Reason))
		}
	}
	for _, ev := range e.Evict {
		for _, c := range s.sortedConns() {
			if c.server == x.id && !c.closed && c.session == ev.Session && ticketLess(c.ticket, nodeTicket(ev.Below)) {
				s.shut(x, c, "evicted")
			}
		}
	}
	if len(e.Persist) > 0 {
		x.persist = append(x.persist, persist{gen: e.Gen, ops: e.Persist})
	}
	for _, o := range e.Send {
		s.send(x, o)
	}
	if e.Deliver.Upto != 0 || len(e.Answers) > 0 {
		x.deliver = append(x.deliver, work{deliver: e.Deliver, answers: e.Answers})
	}
	for _, rd := range e.Reads {
		in := zab.LogRead{ID: rd.ID, Link: rd.Link, After: rd.After}
		d := s.disks[x.id-1]
		in.Missing = rd.After < d.base
		for _, en := range d.log {
			if !in.Missing && en.Zxid > rd.After && en.Zxid <= rd.Upto {
				in.Entries = append(in.Entries, en)
			}
		}
		x.in = append(x.in, Core{in})
	}
	for _, ev := range e.Snapshots {
		s.snapshot(x, ev)
	}
	for _, c := range e.Cut {
		if l := s.links[key(x.id, int(c.Link.Peer))]; l != nil && l.inc == c.Link.Incarnation {
			s.cut(x.id, int(c.Link.Peer))
			s.redial[key(x.id, int(c.Link.Peer))] = s.now + 50*time.Millisecond
		}
	}
	for _, n := range e.Notices {
		switch n := n.(type) {
		case zab.RoleChanged:
			if n.Epoch == 0 {
				s.printf("s%d: %s", x.id, n.Role)
			}
		case zab.Serving:
			if n.On {
				s.printf("s%d: serves in epoch %d", x.id, n.Epoch)
			}
		case Left:
			s.printf("s%d: left", x.id)
		}
	}
}

func (s *simulation) shut(x *simNode, c *simConn, reason string) {
	c.closed = true
	s.printf("%s: closed: %s", c.name, reason)
	x.in = append(x.in, Detach{Conn: c.num})
}

func (s *simulation) send(x *simNode, o Outbound) {
	l := s.links[key(x.id, int(o.Link.Peer))]
	if l == nil || l.inc != o.Link.Incarnation {
		return
	}
	msgs := []peer.Message{o.Msg}
	if err := DecodeForwards(msgs); err != nil {
		s.t.Fatal(err)
	}
	if m, ok := o.Msg.(*zab.Append); ok {
		c := *m
		c.Entries = nil
		for _, e := range m.Entries {
			c.Entries = append(c.Entries, zab.Entry{Zxid: e.Zxid, Data: e.Data})
		}
		msgs[0] = &c
	}
	l.msgs[int(o.Link.Peer)] = append(l.msgs[int(o.Link.Peer)], msgs...)
}

func (s *simulation) snapshot(x *simNode, ev zab.Event) {
	switch ev := ev.(type) {
	case zab.NeedSnapshot:
		sn := takeSnap(x.tree)
		x.snaps[ev.Link] = sn
		x.in = append(x.in, Core{zab.SnapshotReady{Link: ev.Link, Zxid: sn.zxid}})
	case zab.StreamSnapshot:
		sn, to := x.snaps[ev.Link], s.nodes[ev.Link.Peer-1]
		dir := fmt.Sprintf("snap%d", len(s.snaps))
		s.snaps[dir] = sn
		link := zab.Link{Peer: zab.ServerID(x.id), Incarnation: ev.Link.Incarnation}
		to.in = append(to.in, Core{zab.SnapshotReceived{Link: link, Zxid: sn.zxid, Dir: dir}})
		x.in = append(x.in, Core{zab.SnapshotSent{Link: ev.Link}})
	}
}

func zx(z zab.Zxid) string { return fmt.Sprintf("%d:%d", z.Epoch(), z.Counter()) }

// ses36 names a session by its server and its number there.
func ses36(id int64) string { return fmt.Sprintf("%d.%d", id>>56, id&0xffff) }

func (s *simulation) flushOutput() string {
	out := s.out.String()
	s.out.Reset()
	if out == "" {
		return "-\n"
	}
	return out
}

// check compares all servers that are up and have applied the same (I11).
func (s *simulation) check() {
	var ref *simNode
	for _, x := range s.nodes {
		if x == nil {
			continue
		}
		if ref != nil && ref.tree.Applied() == x.tree.Applied() && ref.tree.Digests() != x.tree.Digests() {
			s.t.Fatalf("servers %d and %d differ at %#x", ref.id, x.id, x.tree.Applied())
		}
		ref = x
	}
}

func paths(t *znode.Tree) string {
	var out []string
	t.Walk(func(r znode.NodeRecord) bool {
		if r.Path != "/" && !strings.HasPrefix(r.Path, "/zookeeper") {
			p := r.Path
			if len(r.Data) > 0 {
				p += "=" + string(r.Data)
			}
			out = append(out, p)
		}
		return true
	})
	return strings.Join(out, " ")
}
