package sim

import (
	"fmt"
	"math"
	"math/rand/v2"
	"time"

	"github.com/zkserver/zkserver/election"
	"github.com/zkserver/zkserver/server/peer"
	"github.com/zkserver/zkserver/server/replica"
	"github.com/zkserver/zkserver/server/session"
	"github.com/zkserver/zkserver/server/sim/check"
	"github.com/zkserver/zkserver/zab"
	"github.com/zkserver/zkserver/znode"
)

// server is one server: its disk, and while it runs the process with the threads that replica.Replica has, each as
// events of their own.
type server struct {
	w      *World
	i      int
	id     zab.ServerID
	rnd    rng
	disk   *disk
	up     bool
	gen    uint32 // of the process
	lost   bool   // its disk was lost, or has never been filled, and it has not joined since
	dead   string // refused to go on; the operator's matter
	misled bool   // its voter list is not that of the others
	away   bool   // stopped on purpose until a boot that is on the agenda

	// clock
	began     int64 // real time that local0 belongs to
	local0    int64
	rate      int64 // local time in thousandths of real time
	wallOff   int64 // ms
	paused    int64 // until
	pausedSum int64 // local time spent paused since the start

	// the process
	process      zab.ID
	m            *replica.Machine
	hub          *session.Hub
	tree         *znode.Tree
	dirty        replica.Dirty
	apply        replica.ApplyStep
	wire         wire
	inbox        []replica.Input
	spare        []replica.Input
	seq          uint64 // of origins
	quanta       int
	ticked       time.Duration // the last tick, and the last collection of touches
	touchedAt    time.Duration
	loopSlow     int64 // until when the loop gets little time,
	loopLag      int64 // and how late it may be
	lastQ        int64 // local time of the last quantum
	watch        replica.SyncWatch
	lease        int64
	contact      contact
	waits        waits
	role         zab.Role
	epoch        zab.Epoch
	leader       zab.ServerID
	roles        []check.Role // since it last sent something
	serving      bool
	servingSince int64
	leaving      bool
	roleGen      uint64                    // of the Machine's role
	links        map[zab.ServerID]zab.Link // that it knows
	snapped      map[zab.Link]bool         // SyncBegin of a snapshot has come

	// log writer
	queue   []write
	flight  []write // being synced
	syncAt  int64   // local time when that began
	stuck   int64   // until when a sync takes at least
	slow    int64   // factor of its disk, until slowEnd
	slowEnd int64
	badDisk bool
	doom    *doom
	atBoot  *doom // of the next process
	ends    int   // so many of its next processes end early
	frail   int   // questions and writes of clients until this one does; zero: it does not

	// applier
	work      []work
	txns      []*znode.Txn
	txnAt     int
	decoded   bool
	applySlow int64                  // until when it is slow
	joined    map[zab.Link]zab.Epoch // links that have promised an epoch
	questions map[question]int64     // Revalidates heard as leader -> session

	// state writer
	gathered replica.Gathered
	copied   *stateCopy
	flushAt  int64
	cutNow   bool

	conns   []*conn // open
	closing []*conn

	reads []zab.ReadRange
	snaps map[zab.Link]*snapshot // ready, not streamed
	dirs  map[string]*snapshot   // received
	wants []zab.NeedSnapshot

	on struct{ loop, apply, state, reads, flush, reopen bool } // such an event is on the agenda
}

// write is one op on its way to the disk.
type write struct {
	op  zab.PersistOp
	gen uint64
}

type work struct {
	gen     uint64
	deliver replica.Delivery
	answers []replica.Answer
}

func newServer(w *World, i int) *server {
	s := &server{w: w, i: i, id: w.cfg.members[i].ID, rnd: stream(w.cfg.Seed, 3000, i), rate: 1000}
	if w.cfg.drift > 0 {
		s.rate = 1000 + int64(s.rnd.n(2*w.cfg.drift+1)-w.cfg.drift)
	}
	s.wallOff = s.rnd.between(-5000, 5000)
	s.disk = s.freshDisk()
	s.lost = w.cfg.age == 0
	if z := w.cfg.age; z != 0 {
		d := s.disk
		d.hard = zab.HardState{Accepted: z.Epoch(), Current: z.Epoch()}
		d.base, d.commit, d.ensemble = z, z, 77
		d.epochs = []zab.EpochEnd{{Epoch: z.Epoch(), Last: z}}
		d.state.zxid = z
		w.chk.Aged(i, uint32(z.Epoch()))
	}
	return s
}

func (s *server) freshDisk() *disk { return &disk{instance: zab.ID(s.rnd.Uint64() | 1)} }

// local is the server's monotonic clock, in ns since its process began.
func (s *server) local() int64 { return s.local0 + (s.w.now-s.began)*s.rate/1000 }

func (s *server) setRate(rate int64) {
	s.local0, s.began, s.rate = s.local(), s.w.now, rate
}

func (s *server) wall() int64 { return 1_700_000_000_000 + s.w.now/ms + s.wallOff }

func (s *server) logf(format string, args ...any) {
	if s.w.trace != nil {
		s.w.logf("s%d: %s", s.i+1, fmt.Sprintf(format, args...))
	}
}

// boot starts the process from what is on the disk.
func (s *server) boot() {
	w, d := s.w, s.disk
	if s.up {
		return
	}
	s.gen++
	w.process++
	s.up, s.away, s.dead = true, false, ""
	s.process = w.process
	s.began, s.local0, s.paused, s.pausedSum, s.lastQ = w.now, 0, 0, 0, 0
	s.inbox, s.spare, s.seq, s.quanta, s.ticked, s.touchedAt, s.lease, s.contact = nil, nil, 0, 0, 0, 0, 0, contact{}
	s.waits = waits{}
	s.role, s.epoch, s.leader, s.serving, s.leaving = zab.Looking, 0, 0, false, false
	s.queue, s.flight, s.badDisk, s.frail = nil, nil, false, 0
	s.doom, s.atBoot = s.atBoot, nil
	s.work, s.txns, s.txnAt, s.decoded, s.joined = nil, nil, 0, false, nil
	s.questions = map[question]int64{}
	s.gathered, s.copied, s.cutNow = replica.Gathered{}, nil, false
	s.flushAt = w.now + w.cfg.flushed
	s.reads, s.wants, s.conns, s.closing = nil, nil, nil, nil
	s.roleGen, s.snapped = 0, map[zab.Link]bool{}
	s.links = map[zab.ServerID]zab.Link{}
	s.snaps, s.dirs = map[zab.Link]*snapshot{}, map[string]*snapshot{}
	s.on = struct{ loop, apply, state, reads, flush, reopen bool }{}
	s.watch = replica.SyncWatch{Limit: w.cfg.zab.SyncLimit}
	s.wire.reset()
	s.dirty.Reset()
	s.hub = session.NewHub(session.Options{})
	s.hub.Bind(s)
	s.apply = replica.ApplyStep{Self: s.id, Process: s.process, Hub: s.hub, Dirty: &s.dirty}

	if err := d.sound(); err != nil {
		w.fail("start", "server %d: %v", s.i+1, err)
		return
	}
	needSnap := d.damaged
	applied := d.state.zxid
	delivered := max(d.commit, applied)
	if needSnap {
		applied, delivered = 0, 0
		s.tree = znode.NewTree(znode.Options{})
	} else {
		tree, err := d.state.list().tree()
		if err != nil {
			w.fail("start", "server %d: %v", s.i+1, err)
			return
		}
		s.tree = tree
	}
	w.chk.Booted(s.i, uint64(applied))
	if delivered > d.base || !needSnap {
		s.replay(applied, delivered)
	}
	if w.fault != nil {
		return
	}
	members := s.list()
	verifier := zab.NewVerifier(members)
	m, err := replica.NewMachine(replica.Boot{
		Zab: zab.Boot{
			Self: s.id, Members: members, Verifier: verifier, Hard: d.hard, Base: d.base, Last: d.last(), Committed: d.commit,
			Delivered: delivered, Epochs: append([]zab.EpochEnd{}, d.epochs...), Ensemble: d.ensemble, Instance: d.instance,
			NeedSnap: needSnap, Rand: rand.New(&s.rnd), Options: w.cfg.zab,
		},
		Election: election.Boot{
			Self: s.id, Members: members, Verifier: verifier, ConfigSum: zab.ConfigSum(members), Rand: rand.New(&s.rnd),
		},
		Tree: s, Process: s.process, Random: s.fill,
		MinSessionTimeout: time.Duration(w.cfg.minSession * ms), SilenceLimit: w.cfg.zab.SilenceLimit,
		Reap: replica.Reap{Interval: 2 * time.Second, NeverUsed: 8 * time.Second, PerMinute: 300},
	})
	if err != nil {
		w.fail("start", "server %d: %v", s.i+1, err)
		return
	}
	s.m = m
	s.logf("starts as process %d: epochs %d,%d, log (%s, %s], commit %s, state %s", s.process, d.hard.Accepted, d.hard.Current,
		zx(d.base), zx(d.last()), zx(d.commit), zx(applied))
	s.nextQuantum()
	s.wake()
	for o := range w.servers {
		if o != s.i {
			w.pair(s.i, o).dialSoon()
		}
	}
	s.stateSoon(100 * ms)
	if s.ends > 0 {
		s.ends--
		s.frail = 1 + s.rnd.n(12)
	}
}

// asked counts what clients have sent on to the leader; a frail process ends at some.
func (s *server) asked(n int) {
	if s.frail == 0 {
		return
	}
	if s.frail -= n; s.frail <= 0 {
		s.frail = 0
		in := s.rnd.delay(10*us, 20*ms)
		s.w.at(in, event{kind: evExit, gen: s.gen, a: int32(s.i), b: int32(crashProcess)})
		s.w.bootIn(s, in+s.rnd.delay(5*ms, 300*ms))
	}
}

func (s *server) fill(b []byte) {
	for i := range b {
		b[i] = byte(s.rnd.Uint64())
	}
}

// replay applies the log up to the commit point, as at a start.
func (s *server) replay(after, upto zab.Zxid) {
	d := s.disk
	for i := d.find(after); i < len(d.log) && d.log[i].Zxid <= upto; i++ {
		txns, err := replica.DecodeTxns(nil, d.log[i:i+1])
		if err != nil {
			s.w.fail("start", "server %d: %v", s.i+1, err)
			return
		}
		s.one(txns[0], &d.log[i])
	}
	if got := zab.Zxid(s.tree.Applied()); got != upto && s.w.fault == nil {
		s.w.fail("start", "server %d: the log does not reach from %s to %s: %s", s.i+1, zx(after), zx(upto), zx(got))
	}
}

// RLock, RUnlock and what follows are session.Backend and replica.TreeLock: there is one thread.
func (s *server) RLock() *znode.Tree { return s.tree }

// RUnlock does nothing.
func (s *server) RUnlock() {}

// Now is the local monotonic clock.
func (s *server) Now() int64 { return s.local() }

// LeaseUntil is the end of the serving lease.
func (s *server) LeaseUntil() int64 { return s.lease }

// LastApplied is where the tree is.
func (s *server) LastApplied() int64 { return s.tree.Applied() }

// Attach takes a connection's wish for a session.
func (s *server) Attach(c *session.Conn, a session.Attach) {
	s.seq++
	s.push(replica.Attach{
		Conn: c.Number(), Seq: s.seq, Session: a.Session, Password: append([]byte(nil), a.Password...), Timeout: a.Timeout, Again: a.Again,
	})
	s.asked(1)
}

// Submit takes the writes of a run.
func (s *server) Submit(c *session.Conn, rs []*znode.Request) {
	for _, r := range rs {
		s.seq++
		r.Origin = znode.Origin{Server: uint64(s.id), Instance: uint64(s.process), Conn: c.Number(), Seq: s.seq}
	}
	s.push(replica.Requests{Conn: c.Number(), Requests: rs})
	s.asked(len(rs))
}

// Detach says that a connection is gone.
func (s *server) Detach(c *session.Conn) { s.push(replica.Detach{Conn: c.Number()}) }

// push gives an input to the loop.
func (s *server) push(in replica.Input) {
	if !s.up {
		return
	}
	s.inbox = append(s.inbox, in)
	s.wake()
}

// thread is how long it takes until a thread that has something to do runs.
func (s *server) thread() int64 { return s.rnd.delay(s.w.cfg.thread[0], s.w.cfg.thread[1]) }

func (s *server) soon(flag *bool, k kind, in int64) {
	if !*flag {
		*flag = true
		s.w.at(in, event{kind: k, gen: s.gen, a: int32(s.i)})
	}
}

func (s *server) wake() {
	in := s.thread()
	if s.loopSlow > s.w.now {
		in += s.rnd.between(0, s.loopLag)
	}
	s.soon(&s.on.loop, evLoop, in)
}

// nextQuantum lets the ticker tick: after one quantum, or later when the process gets no time.
func (s *server) nextQuantum() {
	n := int64(1 + s.rnd.n(s.w.cfg.sloppy))
	local := s.lastQ + n*int64(zab.QuantumLength)
	in := max((local-s.local())*1000/s.rate, 0)
	s.w.at(in, event{kind: evQuantum, gen: s.gen, a: int32(s.i)})
}

// event runs one of the server's threads.
func (s *server) event(e event) {
	if !s.up || e.gen != s.gen {
		return
	}
	if s.paused > s.w.now { // the process is stopped: nothing of it runs
		e.at = s.paused + s.rnd.between(0, 100*us)
		s.w.agenda.push(e)
		return
	}
	switch e.kind {
	case evQuantum:
		s.quantum()
	case evLoop:
		s.on.loop = false
		s.loop()
	case evDisk:
		s.synced()
	case evApply:
		s.on.apply = false
		s.applyRun()
	case evState:
		s.on.state = false
		s.stateRun()
	case evReads:
		s.on.reads = false
		s.answerReads()
	case evFlush:
		s.on.flush = false
		if s.hub.WriteOut() {
			s.flushSoon()
		}
		s.settleConns()
	case evReopen:
		s.on.reopen = false
		s.hub.Reopen()
		s.settleConns()
	}
}

func (s *server) quantum() {
	now := s.local()
	late := max(now-s.lastQ-int64(zab.QuantumLength), 0)
	s.lastQ = now
	s.push(replica.Quantum{Now: time.Duration(now), Late: time.Duration(late)})
	if len(s.w.cfg.members) > 1 && (len(s.flight) > 0 || s.watch != (replica.SyncWatch{Limit: s.watch.Limit})) {
		took := time.Duration(0)
		if len(s.flight) > 0 {
			took = time.Duration(now-s.syncAt) + 1
		}
		if _, begins := s.watch.Look(took, time.Duration(late)); begins {
			s.w.cover.hit("disk stuck")
			s.push(replica.DiskStuck{})
		}
	}
	s.nextQuantum()
}

// loop is one round of replica's loop.
func (s *server) loop() {
	ins := s.inbox
	s.inbox, s.spare = s.spare[:0], ins
	m, w := s.m, s.w
	m.Step(replica.Clock{WallMs: s.wall(), Now: time.Duration(s.local())})
	for _, in := range ins {
		s.cameFurther(in)
		switch in := in.(type) {
		case replica.Quantum:
			s.quanta++
			s.ticked = in.Now
			if s.quanta%64 == 0 && s.role == zab.Leading {
				s.checkBounds()
			}
		case replica.Received:
			s.sawMessages(in)
		case replica.LinkUp:
			s.links[in.Link.Peer] = in.Link
		case replica.LinkDown:
			if s.links[in.Link.Peer] == in.Link {
				delete(s.links, in.Link.Peer)
				w.chk.Unheard(s.i, int(in.Link.Peer)-1)
			}
		case replica.Attach:
			w.chk.Moves(in.Session)
		}
		m.Step(in)
		if s.w.fault != nil {
			return
		}
	}
	clear(s.spare)
	if s.ticked-s.touchedAt >= 5*zab.QuantumLength/2 {
		s.touchedAt = s.ticked
		s.collectTouches()
	}
	e, any := m.Ready()
	s.roleGen = e.Gen
	lease := int64(e.Lease)
	if len(s.w.cfg.members) == 1 && lease > 0 {
		lease = math.MaxInt64
	}
	if s.lease != lease {
		s.checkLease(lease)
		s.lease = lease
		s.soon(&s.on.reopen, evReopen, s.rnd.between(0, 5*ms))
	}
	if any {
		s.perform(&e)
	}
	s.overdue()
	s.settleConns()
}

func (s *server) collectTouches() {
	var ts []peer.Touch
	s.hub.Touched(func(id int64, timeoutMs int32) {
		if id != 0 {
			ts = append(ts, peer.Touch{Session: id, Timeout: timeoutMs})
		}
	})
	if len(ts) > 0 {
		s.touched(ts, s.w.lastHeard(ts), s.i)
		s.m.Step(replica.Touched{Sessions: ts})
	}
}

// perform does what the Machine asks for, in the order in which replica does it.
func (s *server) perform(e *replica.Effects) {
	w := s.w
	if e.Fatal != nil {
		s.fatal(string(e.Fatal.Reason), e.Fatal.Detail)
		return
	}
	s.roles = append(s.roles[:0], s.asRole())
	for _, n := range e.Notices {
		s.notice(n)
		s.roles = append(s.roles, s.asRole())
	}
	if e.CloseAll != "" {
		w.cover.hit("close all: " + string(e.CloseAll))
		s.hub.CloseAll(session.Reason(e.CloseAll))
	}
	for _, c := range e.Close {
		w.cover.hit("close: " + string(c.Reason))
		s.hub.CloseConn(c.Conn, session.Reason(c.Reason))
	}
	for _, ev := range e.Evict {
		s.hub.Evict(ev.Session, znode.Ticket{Epoch: uint32(ev.Below.Epoch), Number: ev.Below.Number})
	}
	s.alive(e)
	for i := range e.Persist {
		s.issue(&e.Persist[i], e.Gen)
	}
	for i := 0; i < len(e.Send); {
		n := i + 1
		for n < len(e.Send) && e.Send[n].Link == e.Send[i].Link {
			n++
		}
		s.sendAll(e.Send[i].Link, e.Send[i:n])
		i = n
	}
	if d := &e.Deliver; d.Upto != 0 {
		w.chk.Delivers(s.i, uint64(d.Upto))
		if s.disk.last() < d.Upto {
			w.cover.hit("race: delivered before own disk")
		} else {
			w.cover.hit("race: delivered after own disk")
		}
	}
	if e.Deliver.Upto != 0 || len(e.Answers) > 0 {
		s.work = append(s.work, work{gen: e.Gen, deliver: e.Deliver, answers: e.Answers})
		s.applySoon()
	}
	if len(e.Reads) > 0 {
		s.reads = append(s.reads, e.Reads...)
		s.soon(&s.on.reads, evReads, s.thread())
	}
	for _, ev := range e.Snapshots {
		s.snapshotEvent(ev)
	}
	for _, c := range e.Cut {
		w.cover.hit("link cut: " + string(c.Reason))
		s.logf("cuts the link with %d: %s %s", c.Link.Peer, c.Reason, c.Detail)
		if p := w.pair(s.i, int(c.Link.Peer)-1); p.up && p.inc == c.Link.Incarnation {
			p.breakLink(s.i)
		}
	}
}

// asRole is what it does now, for the checker.
func (s *server) asRole() check.Role {
	r := check.Role{Leads: s.role == zab.Leading, Leader: -1}
	if s.role != zab.Looking {
		r.Leader = int(s.leader) - 1
	}
	return r
}

func (s *server) fatal(reason, detail string) {
	s.logf("fatal: %s: %s", reason, detail)
	s.w.cover.hit("fatal: " + reason)
	switch zab.Reason(reason) {
	case zab.ReasonVoterList:
		if !s.misled {
			s.w.fail("fatal", "server %d: %s: %s", s.i+1, reason, detail)
		}
		s.crash(crashProcess, reason)
		return
	case zab.ReasonForeignEnsemble:
		if s.w.cfg.age != 0 { // only where servers founded can there be two ensembles
			s.w.fail("fatal", "server %d: %s: %s", s.i+1, reason, detail)
		}
	default:
		s.w.fail("fatal", "server %d: %s: %s", s.i+1, reason, detail)
	}
	s.dead = reason
	s.crash(crashProcess, reason)
}

// notice follows the role.
func (s *server) notice(n any) {
	w := s.w
	switch n := n.(type) {
	case zab.RoleChanged:
		s.logf("%v %d epoch %d %s", n.Role, n.Leader, n.Epoch, n.Reason)
		if n.Role == zab.Looking {
			w.cover.hit("step down: " + s.role.String() + ": " + string(n.Reason))
		}
		if n.Role != zab.Leading || s.role != zab.Leading {
			s.serving = false
		}
		s.waits.further()
		s.waits.settled = s.waits.settled && n.Role == s.role && n.Leader == s.leader && n.Epoch == s.epoch
		s.role, s.epoch, s.leader = n.Role, n.Epoch, n.Leader
	case zab.Serving:
		s.logf("serving=%v epoch %d", n.On, n.Epoch)
		s.serving, s.servingSince = n.On, w.now
		if n.On && s.misled {
			w.fail("R18", "server %d serves with another voter list than the others", s.i+1)
		}
		if n.On && s.role == zab.Leading {
			w.chk.Established(s.i, uint32(n.Epoch))
			s.beganLeading()
		}
	case zab.Alarm:
		w.fail("alarm", "server %d: peer %d: %s %s", s.i+1, n.Peer, n.Reason, n.Detail)
	case zab.HandedOver:
		w.cover.hit("handed over")
		s.logf("handed over to %d", n.To)
	case zab.HandOverGivenUp:
		w.cover.hit("hand-over given up")
	case replica.Left:
		s.logf("has left")
		w.cover.hit("left")
		w.at(s.thread(), event{kind: evExit, gen: s.gen, a: int32(s.i), b: int32(crashStop)})
	case election.Refusal:
		w.cover.hit("refusal: " + string(n.Reason))
		s.logf("refuses %d: %s", n.Peer, n.Reason)
	}
}

func zx(z zab.Zxid) string { return fmt.Sprintf("%d:%d", z.Epoch(), z.Counter()) }
