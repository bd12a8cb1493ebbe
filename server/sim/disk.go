package sim

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sort"

	"github.com/zkserver/zkserver/server/sim/check"
	"github.com/zkserver/zkserver/server/store"
	"github.com/zkserver/zkserver/zab"
	"github.com/zkserver/zkserver/znode"
)

// disk is what a server has stored, as server/store keeps it: a log that is changed by atomic ops, and a state that is
// written in batches, of which a crash leaves a prefix.
type disk struct {
	hard     zab.HardState
	ensemble zab.ID
	instance zab.ID
	base     zab.Zxid
	commit   zab.Zxid
	log      []zab.Entry // behind base, without Value
	epochs   []zab.EpochEnd
	state    state
	batches  []*store.StateBatch // written, not flushed
	damaged  bool                // the state is, until a snapshot replaces it
}

// state is a tree on the disk.
type state struct {
	zxid     zab.Zxid
	seeded   bool
	nodes    map[string]znode.NodeRecord
	sessions map[int64]znode.Session
	sums     znode.Digests
}

func (d *disk) last() zab.Zxid {
	if n := len(d.log); n > 0 {
		return d.log[n-1].Zxid
	}
	return d.base
}

// written is the zxid of the state with what is not flushed.
func (d *disk) written() zab.Zxid {
	if n := len(d.batches); n > 0 {
		return d.batches[n-1].Applied
	}
	return d.state.zxid
}

// find is the index of the first entry behind z.
func (d *disk) find(z zab.Zxid) int {
	return sort.Search(len(d.log), func(i int) bool { return d.log[i].Zxid > z })
}

// perform executes an op.
func (d *disk) perform(op *zab.PersistOp, snap *snapshot) error {
	if in := op.Install; in != nil {
		if snap == nil || snap.zxid != in.Zxid {
			return fmt.Errorf("no complete snapshot at %v", in.Zxid)
		}
		keep := d.log[:0:0]
		for _, e := range d.log {
			if e.Zxid > in.Zxid && e.Zxid <= in.Common {
				keep = append(keep, e)
			}
		}
		d.log, d.base, d.epochs = keep, in.Zxid, slices.Clone(in.Epochs)
		d.state, d.batches, d.damaged = snap.state(), nil, false
		d.commit = max(d.commit, in.Zxid)
	}
	if op.Truncate != nil && *op.Truncate < d.last() {
		z := *op.Truncate
		if z < d.commit || z < d.base {
			return fmt.Errorf("truncation to %v: commit point %v, base %v", z, d.commit, d.base)
		}
		d.log = d.log[:d.find(z):d.find(z)]
		if d.last() != z {
			return fmt.Errorf("truncation to %v, which is not there", z)
		}
		n := sort.Search(len(d.epochs), func(i int) bool { return d.epochs[i].Epoch >= z.Epoch() })
		d.epochs = slices.Clone(d.epochs[:n])
		if z != 0 {
			d.epochs = append(d.epochs, zab.EpochEnd{Epoch: z.Epoch(), Last: z})
		}
	}
	for i := range op.Append {
		e := &op.Append[i]
		d.log = append(d.log, zab.Entry{Zxid: e.Zxid, Data: e.Data})
		if n := len(d.epochs); n > 0 && d.epochs[n-1].Epoch == e.Zxid.Epoch() {
			d.epochs[n-1].Last = e.Zxid
		} else {
			d.epochs = append(d.epochs, zab.EpochEnd{Epoch: e.Zxid.Epoch(), Last: e.Zxid})
		}
	}
	if op.Hard != nil {
		d.hard = *op.Hard
	}
	if op.Unstamp {
		d.ensemble = 0
	}
	if op.Ensemble != 0 {
		d.ensemble = op.Ensemble
	}
	d.commit = max(d.commit, min(op.Commit, d.last()))
	return nil
}

// flush makes the first n batches of the state durable.
func (d *disk) flush(n int) {
	for _, b := range d.batches[:n] {
		d.state.put(b)
	}
	d.batches = slices.Delete(d.batches, 0, n)
}

func (s *state) put(b *store.StateBatch) {
	if s.nodes == nil {
		s.nodes, s.sessions = map[string]znode.NodeRecord{}, map[int64]znode.Session{}
	}
	for i := range b.Nodes {
		n := &b.Nodes[i]
		if n.Deleted {
			delete(s.nodes, n.Path)
			continue
		}
		rec := n.Record
		if !n.DataToo {
			rec.Data = s.nodes[n.Path].Data
			if _, there := s.nodes[n.Path]; !there {
				rec.Data = n.Record.Data // an initial node, which a fresh state holds
			}
		}
		rec.Path = n.Path
		s.nodes[n.Path] = rec
	}
	for _, x := range b.Sessions {
		s.sessions[x.ID] = x
	}
	for _, id := range b.EndedSessions {
		delete(s.sessions, id)
	}
	s.zxid, s.sums, s.seeded = b.Applied, b.Digests, true
}

// snapshot is a state in path order, as it is sent.
type snapshot struct {
	zxid     zab.Zxid
	sums     znode.Digests
	seeded   bool
	nodes    []znode.NodeRecord
	sessions []znode.Session
}

// snapshot copies the state as written.
func (d *disk) snapshot() *snapshot {
	s := d.state
	s.nodes, s.sessions = maps.Clone(s.nodes), maps.Clone(s.sessions)
	for _, b := range d.batches {
		s.put(b)
	}
	return s.list()
}

func (s *state) list() *snapshot {
	sn := &snapshot{zxid: s.zxid, sums: s.sums, seeded: s.seeded}
	for _, r := range s.nodes {
		sn.nodes = append(sn.nodes, r)
	}
	slices.SortFunc(sn.nodes, func(a, b znode.NodeRecord) int { return cmp.Compare(a.Path, b.Path) })
	for _, x := range s.sessions {
		sn.sessions = append(sn.sessions, x)
	}
	slices.SortFunc(sn.sessions, func(a, b znode.Session) int { return cmp.Compare(a.ID, b.ID) })
	return sn
}

func (sn *snapshot) state() state {
	s := state{zxid: sn.zxid, sums: sn.sums, seeded: sn.seeded, nodes: map[string]znode.NodeRecord{}, sessions: map[int64]znode.Session{}}
	for _, r := range sn.nodes {
		s.nodes[r.Path] = r
	}
	for _, x := range sn.sessions {
		s.sessions[x.ID] = x
	}
	return s
}

// tree loads a state as the store does.
func (sn *snapshot) tree() (*znode.Tree, error) {
	t := znode.NewTree(znode.Options{})
	if !sn.seeded {
		return t, t.Loaded(int64(sn.zxid), t.Digests())
	}
	for _, r := range sn.nodes {
		if err := t.Load(r); err != nil {
			return nil, err
		}
	}
	for _, x := range sn.sessions {
		if err := t.LoadSession(x); err != nil {
			return nil, err
		}
	}
	return t, t.Loaded(int64(sn.zxid), sn.sums)
}

// sound is what the store checks at start-up.
func (d *disk) sound() error {
	if !d.damaged && d.state.zxid > d.last() {
		return fmt.Errorf("state at %v, the log ends at %v", d.state.zxid, d.last())
	}
	if d.commit > d.last() {
		return fmt.Errorf("commit point %v, the log ends at %v", d.commit, d.last())
	}
	if n := len(d.epochs); n > 0 && d.epochs[n-1].Last != d.last() || n == 0 && d.last() != 0 {
		return errors.New("epoch table does not end with the log")
	}
	return nil
}

// observed says what an op is to the checker, until the next call.
func (w *World) observed(op *zab.PersistOp) *check.Op {
	o := &w.op
	*o = check.Op{Stamp: op.Ensemble != 0, Unstamp: op.Unstamp, Commit: uint64(op.Commit), Append: o.Append[:0]}
	if op.Hard != nil {
		o.Accepted, o.Current = uint32(op.Hard.Accepted), uint32(op.Hard.Current)
	}
	if op.Truncate != nil {
		o.Truncate, o.To = true, uint64(*op.Truncate)
	}
	if op.Install != nil {
		o.Install, o.Zxid, o.Common = true, uint64(op.Install.Zxid), uint64(op.Install.Common)
	}
	for i := range op.Append {
		e := &op.Append[i]
		o.Append = append(o.Append, check.Entry{Zxid: uint64(e.Zxid), Hash: check.Hash(e.Data)})
	}
	return o
}

// opName names an op for the coverage of crash points.
func opName(op *zab.PersistOp) string {
	switch {
	case op.Install != nil:
		return "install"
	case op.Truncate != nil:
		return "truncate"
	case len(op.Append) > 0 && op.Hard != nil:
		return "append+epoch"
	case len(op.Append) > 0:
		return "append"
	case op.Ensemble != 0:
		return "stamp"
	case op.Unstamp:
		return "unstamp"
	case op.Hard != nil && op.Hard.Accepted > op.Hard.Current:
		return "promise"
	case op.Hard != nil:
		return "epoch"
	}
	return "commit"
}
