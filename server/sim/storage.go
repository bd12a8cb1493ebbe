package sim

import (
	"slices"

	"github.com/zkserver/zkserver/server/replica"
	"github.com/zkserver/zkserver/server/store"
	"github.com/zkserver/zkserver/zab"
	"github.com/zkserver/zkserver/znode"
)

// doom makes a process end in the middle of a sync: of the next one, or of one with such an op.
type doom struct {
	how crashKind
	op  string
	dur int64
}

// dooms are the ops that a crash waits for; most wait for none.
var dooms = [...]string{"", "", "", "promise", "epoch", "stamp", "append+epoch", "truncate", "install", "append"}

// crashKind says how a process ends.
type crashKind int

const (
	crashProcess crashKind = iota // what it has written stays
	crashPower                    // any prefix of what is not synced stays
	crashStop                     // it has left, and closes its store
)

// issue gives an op to the log writer.
func (s *server) issue(op *zab.PersistOp, gen uint64) {
	w := s.w
	o := w.observed(op)
	for i := range op.Append {
		e := &op.Append[i]
		if t, ok := e.Value.(*znode.Txn); ok { // made here
			w.chk.Proposed(s.i, uint64(e.Zxid), o.Append[i].Hash)
			switch {
			case t.Type == znode.OpCreateSession:
				w.chk.Touched(s.i, t.Session, s.active(), int64(t.Timeout), -1)
			case t.Type == znode.OpCloseSession && t.Origin.Seq == 0:
				w.chk.Expires(s.i, t.Session, s.active(), w.now/ms)
				w.cover.hit("expiry")
			}
		}
	}
	w.chk.Issued(s.i, o)
	if op.Hard != nil && s.role == zab.Leading {
		s.waits.further()
	}
	if w.trace != nil {
		s.logf("issues %s up to %s", opName(op), opEnd(op))
	}
	s.queue = append(s.queue, write{op: *op, gen: gen})
	s.writeSoon()
}

func opEnd(op *zab.PersistOp) string {
	switch {
	case len(op.Append) > 0:
		return zx(op.Append[len(op.Append)-1].Zxid)
	case op.Truncate != nil:
		return zx(*op.Truncate)
	case op.Install != nil:
		return zx(op.Install.Zxid)
	}
	return "-"
}

// active is the server's clock without its own pauses, in ms, as far as it must notice them.
func (s *server) active() int64 { return (s.local() - s.pausedSum) / ms }

// writeSoon begins a sync of everything that has piled up, unless one is under way. A switch to a snapshot goes alone.
func (s *server) writeSoon() {
	if len(s.flight) > 0 || len(s.queue) == 0 {
		return
	}
	n := 0
	for n < len(s.queue) && s.queue[n].op.Install == nil {
		n++
	}
	n = max(n, 1)
	s.flight = append(s.flight, s.queue[:n]...)
	s.queue = slices.Delete(s.queue, 0, n)
	s.syncAt, s.waits.syncing = s.local(), s.waits.stopped
	took := s.rnd.delay(s.w.cfg.disk[0], s.w.cfg.disk[1])
	if s.w.now < s.slowEnd {
		// It lasts as long as it does, also when the disk is quick again; but progress is demanded then.
		took = min(took*s.slow, int64(s.w.cfg.zab.SyncLimit)+2*s1)
		s.w.feel(took)
	}
	took = max(took, s.stuck-s.w.now)
	if d := s.doom; d != nil && (d.op == "" || slices.ContainsFunc(s.flight, func(x write) bool { return opName(&x.op) == d.op })) {
		s.doom = nil
		s.w.cover.hit("crash during a sync of " + opName(&s.flight[len(s.flight)-1].op))
		took = max(took, ms)
		s.w.at(s.rnd.between(0, took), event{kind: evExit, gen: s.gen, a: int32(s.i), b: int32(d.how)})
		s.w.bootIn(s, took+d.dur)
	}
	s.w.at(took, event{kind: evDisk, gen: s.gen, a: int32(s.i)})
}

// synced: the sync is over.
func (s *server) synced() {
	w := s.w
	if s.stuck > w.now { // it hung only after it had begun
		w.at(s.stuck-w.now, event{kind: evDisk, gen: s.gen, a: int32(s.i)})
		return
	}
	if s.badDisk {
		w.cover.hit("disk failed")
		s.logf("its disk fails")
		s.crash(crashPower, "disk failed")
		w.at(s.rnd.between(100*ms, 3*s1), event{kind: evBoot, a: int32(s.i)})
		return
	}
	done := s.flight
	s.flight = s.flight[:0]
	var install *snapshot
	for i := range done {
		snap, ok := s.store(&done[i].op)
		if !ok {
			return
		}
		if snap != nil {
			install = snap
		}
	}
	if install != nil && !s.install(install) {
		return
	}
	if s.copied != nil && s.copied.waits {
		s.stateSoon(s.thread())
	}
	for i := range done {
		if i+1 < len(done) && done[i+1].gen == done[i].gen {
			continue
		}
		if done[i].gen != s.roleGen {
			w.cover.hit("race: a write ends in a later role")
		} else {
			w.cover.hit("race: a write ends in its role")
		}
		s.push(replica.Persisted{Seq: done[i].op.Seq, Gen: done[i].gen})
	}
	s.writeSoon()
}

// store executes an op on the disk.
func (s *server) store(op *zab.PersistOp) (*snapshot, bool) {
	var snap *snapshot
	if op.Install != nil {
		snap = s.dirs[op.Install.Dir]
		if s.copied != nil { // it has waited for what was written before this switch
			s.writeState()
		}
	}
	if err := s.disk.perform(op, snap); err != nil {
		s.w.fail("store", "server %d: %v", s.i+1, err)
		return nil, false
	}
	s.w.chk.Durable(s.i, s.w.observed(op))
	if s.lost && s.w.chk.Joined(s.i) {
		s.lost = false
		s.logf("has joined")
	}
	return snap, true
}

// install swaps the tree for that of a snapshot.
func (s *server) install(snap *snapshot) bool {
	tree, err := snap.tree()
	if err != nil {
		s.w.fail("start", "server %d: %v", s.i+1, err)
		return false
	}
	s.tree = tree
	s.dirty.Reset()
	s.gathered.Reset()
	s.copied = nil
	sums := tree.Digests()
	s.w.chk.Installed(s.i, uint64(snap.zxid), [2]uint64{sums.Tree, sums.State})
	s.logf("snapshot %s installed", zx(snap.zxid))
	s.w.cover.hit("snapshot installed")
	s.push(replica.Applied{Zxid: snap.zxid})
	return true
}

// stateCopy is a batch that the state writer writes as soon as the log covers it.
type stateCopy struct {
	batch *store.StateBatch
	waits bool
}

func (s *server) stateSoon(in int64) { s.soon(&s.on.state, evState, in) }

// stateRun is one round of the state writer.
func (s *server) stateRun() {
	w, d := s.w, s.disk
	defer s.stateSoon(s.rnd.between(50*ms, w.cfg.states))
	if len(s.flight) > 0 && s.flight[0].op.Install != nil {
		return // the switch rests it
	}
	if s.copied == nil {
		s.gather()
		if w.now >= s.flushAt || len(s.wants) > 0 || s.rnd.n(3) == 0 { // the last one stands for the limits of what is gathered
			s.spill()
		}
	}
	if s.copied != nil {
		if s.copied.batch.Applied > d.last() {
			s.copied.waits = true
			w.cover.hit("state waits for the log")
			return
		}
		s.writeState()
	}
	if w.now >= s.flushAt {
		s.flushAt = w.now + w.cfg.flushed
		d.flush(len(d.batches))
	}
	s.cutLog()
	for i := 0; i < len(s.wants); i++ {
		if ev := s.wants[i]; ev.Min <= d.written() {
			s.wants = append(s.wants[:i], s.wants[i+1:]...)
			i--
			s.openSnapshot(ev)
		}
	}
}

// gather copies what is dirty.
func (s *server) gather() {
	if b := s.dirty.Copy(s.tree); b != nil {
		if s.gathered.Applied() != 0 {
			s.w.cover.hit("state gathered of several copies")
		}
		s.gathered.Add(b)
	}
}

// spill gives everything gathered to writeState.
func (s *server) spill() {
	if b := s.gathered.Take(); b != nil {
		batch := *b
		s.copied, s.gathered = &stateCopy{batch: &batch}, replica.Gathered{}
	}
}

// writeState commits the copied batch, if the log covers it.
func (s *server) writeState() {
	b := s.copied.batch
	s.copied = nil
	if b.Applied <= s.disk.last() && b.Applied >= s.disk.written() {
		s.disk.batches = append(s.disk.batches, b)
	}
}

// cutLog drops what lies behind the durable state and the window, and what no learner needs.
func (s *server) cutLog() {
	d := s.disk
	if s.m == nil || len(s.flight) > 0 && s.flight[0].op.Install != nil || d.damaged {
		return
	}
	keep := s.w.cfg.keep
	if s.cutNow {
		keep = 0
	}
	n := d.find(d.state.zxid)
	if n <= keep || d.state.zxid < d.base {
		return
	}
	to := d.log[n-keep-1].Zxid
	if !s.cutNow { // a size limit may overrule the learners
		st := s.m.Status().Zab
		to = min(to, st.MinCursor())
	}
	for _, sn := range s.snaps {
		to = min(to, sn.zxid)
	}
	for _, x := range s.w.xfers {
		if x.from == s.i {
			to = min(to, x.snap.zxid)
		}
	}
	s.cutNow = false
	i := d.find(to)
	if to <= d.base || i == 0 {
		return
	}
	to = d.log[i-1].Zxid
	d.log = append(d.log[:0:0], d.log[i:]...)
	d.base = to
	d.commit = max(d.commit, to)
	s.w.chk.Cut(s.i, uint64(to))
	s.w.cover.hit("log cut")
	if s.w.trace != nil {
		s.logf("cuts its log at %s", zx(to))
	}
	s.push(replica.Core{In: zab.LogBase{Base: to}})
}

// answerReads reads the log for the core's cursors.
func (s *server) answerReads() {
	reads := s.reads
	s.reads = nil
	d := s.disk
	if s.w.healed == 0 && s.rnd.n(60) == 0 { // the state writer has come first, and the log was over its limit
		d.flush(len(d.batches))
		s.cutNow = true
		s.cutLog()
	}
	for _, r := range reads {
		in := zab.LogRead{ID: r.ID, Link: r.Link, After: r.After}
		if r.After < d.base {
			in.Missing = true
			s.w.cover.hit("log read below the base")
		} else {
			size := 0
			for i := d.find(r.After); i < len(d.log) && d.log[i].Zxid <= r.Upto; i++ {
				if size += len(d.log[i].Data) + 24; size > r.Bytes && len(in.Entries) > 0 {
					break
				}
				in.Entries = append(in.Entries, d.log[i])
			}
		}
		s.push(replica.Core{In: in})
	}
}

// crash ends the process. What its disk keeps depends on how.
func (s *server) crash(how crashKind, why string) {
	w := s.w
	if !s.up {
		return
	}
	keep := s.rnd.n(len(s.flight) + 1)
	if how != crashPower && s.rnd.n(4) == 0 {
		keep = len(s.flight)
	}
	last := "synced"
	for i := range s.flight[:keep] {
		if s.flight[i].op.Install != nil && s.copied != nil {
			s.writeState()
		}
		op := &s.flight[i].op
		snap, ok := s.store(op)
		if !ok {
			return
		}
		if snap != nil {
			s.disk.batches = nil
		}
		last = opName(op)
	}
	lostOps := len(s.flight) + len(s.queue) - keep
	if lostOps > 0 {
		next := s.queue
		if keep < len(s.flight) {
			next = s.flight[keep:]
		}
		w.cover.hit("crash between " + last + " and " + opName(&next[0].op))
	}
	d := s.disk
	switch {
	case how == crashStop && s.copied == nil:
		s.gather()
		if s.spill(); s.copied != nil {
			s.writeState()
		}
		d.flush(len(d.batches))
	default:
		d.flush(s.rnd.n(len(d.batches) + 1))
	}
	d.batches = nil
	s.logf("ends (%s): keeps %d of %d writes, log up to %s, state at %s", why, keep, keep+lostOps, zx(d.last()), zx(d.state.zxid))
	s.up = false
	s.gen++
	s.m, s.hub, s.tree, s.inbox, s.work, s.queue, s.flight, s.copied = nil, nil, nil, nil, nil, nil, nil, nil
	w.endConns(s, how)
	for o := range w.servers {
		if o != s.i {
			w.pair(s.i, o).ended(s.i, how)
		}
	}
}

// wipe takes everything from the disk of a server that is down.
func (s *server) wipe() {
	s.disk = s.freshDisk()
	s.lost = true
	s.w.chk.Wiped(s.i)
}

// damage makes the state unreadable; the log is whole.
func (s *server) damage() {
	d := s.disk
	d.batches = nil
	d.state = state{}
	if d.base == 0 {
		return // the log rebuilds it
	}
	d.damaged = true
}
