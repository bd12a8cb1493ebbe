package store

import (
	"bytes"
	"errors"
	"fmt"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/zkserver/zkserver/zab"
	"github.com/zkserver/zkserver/znode"
)

// worker drives one store and knows what it must hold.
type worker struct {
	c    *campaign
	d    *disk
	s    *Store
	v    version
	tree *model // as written into the state
	// delivered is what the ensemble has committed: at least the stored commit point, at most the end.
	delivered zab.Zxid
}

// check holds what a start found against the promise, and takes it over.
func (w *worker) check(rec Recovered, p promise) error {
	if rec.NeedSnap || rec.Damage != nil && p.everOpen {
		return fmt.Errorf("damage after a crash: %w", rec.Damage)
	}
	var why error
	for _, v := range []version{p.sent, p.acked} {
		if why = w.same(rec, v); why == nil {
			w.v = v
			break
		}
	}
	if why != nil {
		return why
	}
	if rec.Applied < p.flushed && rec.Applied < w.v.base {
		return fmt.Errorf("the state is at %v, flushed was %v", rec.Applied, p.flushed)
	}
	if rec.Applied > w.v.last {
		return fmt.Errorf("the state is at %v, the log ends at %v", rec.Applied, w.v.last)
	}
	if err := w.v.model(rec.Applied).equal(w.tree); err != nil {
		return fmt.Errorf("state at %v: %w", rec.Applied, err)
	}
	w.delivered = max(rec.Commit, rec.Applied)
	return nil
}

func (w *worker) same(rec Recovered, v version) error {
	got := version{base: rec.Base, last: rec.Last, commit: rec.Commit, hard: rec.Hard, ensemble: rec.Ensemble}
	want := v
	want.history = nil
	if fmt.Sprint(got) != fmt.Sprint(want) {
		return fmt.Errorf("found %+v, want %+v", got, want)
	}
	if fmt.Sprint(rec.Epochs) != fmt.Sprint(v.epochs()) {
		return fmt.Errorf("epochs %v, want %v", rec.Epochs, v.epochs())
	}
	return w.sameLog(v)
}

func (w *worker) sameLog(v version) error {
	want := v.history[v.at(v.base):]
	after := v.base
	for len(want) > 0 {
		got, missing, err := w.s.ReadLog(after, v.last, 3000)
		if err != nil || missing || len(got) > len(want) {
			return fmt.Errorf("read behind %v: %d entries, missing %t, %w", after, len(got), missing, err)
		}
		for i, e := range got {
			if e.Zxid != want[i].Zxid || !bytes.Equal(e.Data, want[i].Data) {
				return fmt.Errorf("entry %v of %d bytes, want %v of %d", e.Zxid, len(e.Data), want[i].Zxid, len(want[i].Data))
			}
		}
		want, after = want[len(got):], got[len(got)-1].Zxid
	}
	return nil
}

func (w *worker) step() error {
	k := w.c.rng.IntN(100)
	for _, a := range []struct {
		below int
		name  string
		do    func() error
	}{
		{45, "append", w.append}, {50, "hard", w.hard}, {58, "truncate", w.truncate}, {80, "state", w.state},
		{86, "flush", w.flush}, {91, "cut", w.cut}, {94, "install", w.install}, {96, "snapshot", w.snapshot},
		{98, "read", func() error { return w.sameLog(w.v) }}, {100, "several", w.several},
	} {
		if k < a.below {
			w.c.ops[a.name]++
			if err := a.do(); err != nil {
				return fmt.Errorf("%s: %w", a.name, err)
			}
			return nil
		}
	}
	return nil
}

// persist sends ops that lead to next.
func (w *worker) persist(next version, ops ...zab.PersistOp) error {
	w.d.set(func(p *promise) { p.sent = next })
	if err := w.s.Persist(ops); err != nil {
		return err
	}
	w.d.set(func(p *promise) { p.acked = next })
	w.v = next
	return nil
}

// draw makes a run behind next, in the same epoch or a new one, and the op for it.
func (w *worker) draw(next *version) zab.PersistOp {
	rng := w.c.rng
	z := next.last + 1
	if next.last == 0 || rng.IntN(12) == 0 {
		z = zab.MakeZxid(max(next.hard.Current, next.last.Epoch())+1+zab.Epoch(rng.IntN(2)), 1)
	}
	var op zab.PersistOp
	for range 1 + rng.IntN(8) {
		data := make([]byte, rng.IntN(60))
		if rng.IntN(10) == 0 {
			data = make([]byte, rng.IntN(6000))
		}
		for i := range data {
			data[i] = byte(rng.Uint32())
		}
		op.Append = append(op.Append, zab.Entry{Zxid: z, Data: data})
		z++
	}
	next.history = append(next.history[:len(next.history):len(next.history)], op.Append...)
	next.last = z - 1
	if next.last.Epoch() > next.hard.Current {
		next.hard = zab.HardState{Accepted: max(next.hard.Accepted, next.last.Epoch()), Current: next.last.Epoch()}
		h := next.hard
		op.Hard = &h
	}
	w.commit(next, &op)
	return op
}

// commit lets an op carry a commit point.
func (w *worker) commit(next *version, op *zab.PersistOp) {
	if w.c.rng.IntN(2) == 0 {
		return
	}
	i := next.at(next.commit)
	if i += w.c.rng.IntN(len(next.history) - i + 1); i > 0 {
		op.Commit = next.history[i-1].Zxid
		next.commit = max(next.commit, op.Commit)
	}
}

func (w *worker) append() error {
	next := w.v
	op := w.draw(&next)
	if err := w.persist(next, op); err != nil {
		return err
	}
	w.deliver()
	return nil
}

// deliver moves what the ensemble has committed; the store hears of it only with a later op.
func (w *worker) deliver() {
	w.delivered = max(w.delivered, w.v.commit)
	i := w.v.at(w.delivered)
	if i += w.c.rng.IntN(len(w.v.history) - i + 1); i > 0 {
		w.delivered = max(w.delivered, w.v.history[i-1].Zxid)
	}
}

func (w *worker) several() error {
	next := w.v
	var ops []zab.PersistOp
	for range 2 + w.c.rng.IntN(3) {
		ops = append(ops, w.draw(&next))
	}
	return w.persist(next, ops...)
}

func (w *worker) hard() error {
	next := w.v
	next.hard.Accepted++
	if w.c.rng.IntN(3) == 0 {
		next.hard.Current = next.hard.Accepted
	}
	h := next.hard
	op := zab.PersistOp{Hard: &h}
	if w.c.rng.IntN(4) == 0 {
		op.Ensemble = zab.ID(1 + w.c.rng.IntN(3))
		next.ensemble = op.Ensemble
	}
	return w.persist(next, op)
}

// truncate cuts somewhere beyond what was delivered, and sometimes goes on in the same op.
func (w *worker) truncate() error {
	next := w.v
	from := next.at(max(w.delivered, next.commit, next.base))
	i := from + w.c.rng.IntN(len(next.history)-from+1)
	to := next.base
	if i > 0 {
		to = max(to, next.history[i-1].Zxid)
	}
	next.history, next.last = next.history[:i:i], to
	op := zab.PersistOp{}
	if w.c.rng.IntN(2) == 0 {
		op = w.draw(&next)
	}
	op.Truncate = &to
	return w.persist(next, op)
}

func (w *worker) state() error {
	from, upto := w.v.at(w.tree.applied), w.v.at(w.delivered)
	if upto <= from {
		return nil
	}
	c := newChanges()
	for _, e := range w.v.history[from : from+1+w.c.rng.IntN(upto-from)] {
		w.tree.apply(e, c)
	}
	if w.c.rng.IntN(3) == 0 { // most batches are part of a sweep then
		w.s.state.acls.limit, w.s.state.acls.part = 0, 1+w.c.rng.IntN(5)
	}
	return w.s.WriteState(w.tree.batchOf(c))
}

func (w *worker) flush() error {
	if err := w.s.FlushState(); err != nil {
		return err
	}
	at := w.tree.applied
	if got := w.s.DurableApplied(); got != at {
		return fmt.Errorf("durable %v, want %v", got, at)
	}
	w.d.set(func(p *promise) { p.flushed = at })
	return nil
}

func (w *worker) cut() error {
	cursor := noCursor
	if w.c.rng.IntN(2) == 0 && len(w.v.history) > 0 {
		cursor = w.v.history[w.c.rng.IntN(len(w.v.history))].Zxid
	}
	// Where it will cut is the store's choice; it is one batch, so a crash leaves either base.
	next := w.v
	durable := w.s.DurableApplied() // a flush under way may move it at any time
	if to, ok := w.wouldCut(cursor, durable); ok {
		next.base, next.commit = to, max(next.commit, to)
	}
	w.d.set(func(p *promise) { p.sent = next })
	base, cut, err := w.s.cutLog(cursor, durable)
	if err != nil {
		return err
	}
	if base != next.base || cut != (next.base != w.v.base) || cut && base > durable {
		return fmt.Errorf("cut to %v (%t), foreseen was %v, durable state %v", base, cut, next.base, durable)
	}
	w.d.set(func(p *promise) { p.acked = next })
	w.v = next
	return nil
}

// wouldCut is CutLog without cutting.
func (w *worker) wouldCut(cursor, durable zab.Zxid) (zab.Zxid, bool) {
	s := w.s
	to := s.window.beyond(int64(s.o.DiffCount), s.o.DiffBytes, s.o.DiffAge, time.Now())
	to = s.window.atMost(min(to, cursor, durable, w.v.last))
	return to, to > w.v.base
}

// install receives a snapshot: at or below what is here (the leader's state lags), or beyond, on another history.
func (w *worker) install() error {
	rng := w.c.rng
	next := w.v
	in := zab.Install{}
	lo := next.at(next.base)
	if rng.IntN(2) == 0 && len(next.history) > lo {
		in.Zxid = next.history[lo+rng.IntN(len(next.history)-lo)].Zxid
		in.Common = in.Zxid
		if i := next.at(max(in.Zxid, w.delivered, next.commit)); i > 0 {
			in.Common = next.history[i-1+rng.IntN(len(next.history)-i+1)].Zxid
		}
		next.history = next.history[:next.at(in.Common):next.at(in.Common)]
		next.last = max(in.Zxid, in.Common)
	} else {
		// Everything up to the common point is shared; the leader has more, of a later epoch.
		from := next.at(max(w.delivered, next.commit, next.base))
		i := from + rng.IntN(len(next.history)-from+1)
		next.history = next.history[:i:i]
		next.last = next.base
		if i > 0 {
			next.last = max(next.last, next.history[i-1].Zxid)
		}
		in.Common = next.last
		next.hard.Current = max(next.hard.Current, next.last.Epoch())
		next.last = zab.MakeZxid(next.hard.Current+1, 0)
		fork := next
		fork.last, fork.hard = in.Common, zab.HardState{Accepted: next.hard.Current + 1, Current: next.hard.Current}
		w.draw(&fork)
		in.Zxid = fork.last
		next.history, next.last = fork.history, fork.last
	}
	next.hard.Current = max(next.hard.Current, next.last.Epoch())
	next.hard.Accepted = max(next.hard.Accepted, next.hard.Current)
	next.base, next.commit = in.Zxid, max(w.v.commit, in.Zxid)
	upto := next
	upto.history = next.history[:next.at(in.Zxid)]
	in.Epochs = upto.epochs()
	m := next.model(in.Zxid)
	dir, err := w.receive(m)
	if err != nil || dir == "" {
		return err
	}
	in.Dir = dir
	h := next.hard
	w.d.set(func(p *promise) { p.flushed = min(p.flushed, in.Zxid) })
	if err := w.persist(next, zab.PersistOp{Install: &in, Hard: &h}); err != nil {
		return err
	}
	w.tree = newModel()
	if err := w.s.load(w.tree); err != nil {
		return err
	}
	w.delivered = max(next.commit, in.Zxid)
	return m.equal(w.tree)
}

// receive writes a stream in pieces; sometimes it is given up.
func (w *worker) receive(m *model) (string, error) {
	sw, err := w.s.NewSnapshotWriter(m.applied)
	if err != nil {
		return "", err
	}
	for stream := m.stream(); len(stream) > 0; {
		n := min(len(stream), 1+w.c.rng.IntN(5000))
		if err := sw.Write(stream[:n]); err != nil {
			return "", err
		}
		stream = stream[n:]
		if w.c.rng.IntN(30) == 0 {
			sw.Abort()
			return "", nil
		}
	}
	dir, err := sw.Finish()
	if err == nil && w.c.rng.IntN(8) == 0 {
		sw.Abort()
		return "", nil
	}
	return dir, err
}

// snapshot sends the state and holds the stream against the model.
func (w *worker) snapshot() error {
	r, err := w.s.SnapshotReader()
	if err != nil {
		return err
	}
	var stream []byte
	for done := false; !done; {
		var chunk []byte
		if chunk, done, err = r.Next(1 << 10); err != nil {
			return errors.Join(err, r.Close())
		}
		stream = append(stream, chunk...)
	}
	if err := r.Close(); err != nil {
		return err
	}
	got, err := decodeStream(stream, r.Zxid())
	if err != nil {
		return err
	}
	if r.Zxid() != w.tree.applied || r.Digests() != w.tree.Digests() {
		return fmt.Errorf("snapshot at %v, the state is at %v", r.Zxid(), w.tree.applied)
	}
	return w.tree.equal(got)
}

// decodeStream is a reader of streams that shares only the splitting with the writer.
func decodeStream(stream []byte, z zab.Zxid) (*model, error) {
	s, _, err := Open(testOptions(vfs.NewMem()))
	if err != nil {
		return nil, err
	}
	w, err := s.NewSnapshotWriter(z)
	if err == nil {
		err = w.Write(stream)
	}
	var dir string
	if err == nil {
		dir, err = w.Finish()
	}
	m := newModel()
	if err == nil {
		h := zab.HardState{Accepted: z.Epoch(), Current: z.Epoch()}
		err = s.Persist([]zab.PersistOp{{Install: &zab.Install{Dir: dir, Zxid: z}, Hard: &h}})
	}
	if err == nil {
		m.nodes = map[string]znode.NodeRecord{}
		err = s.load(m)
	}
	return m, errors.Join(err, s.Close())
}
