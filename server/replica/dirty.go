package replica

import (
	"sync/atomic"

	"github.com/zkserver/zkserver/server/store"
	"github.com/zkserver/zkserver/zab"
	"github.com/zkserver/zkserver/znode"
)

// Dirty is what has changed in the tree since the state writer last copied. It is changed under the tree's write lock
// and copied under its read lock.
type Dirty struct {
	paths    map[string]bool // whether the data changed too
	sessions map[int64]struct{}
	bytes    int
	changed  bool
	size     atomic.Int64 // paths and sessions, for the applier without the lock
	weight   atomic.Int64 // bytes likewise
}

// Reset begins an empty set.
func (d *Dirty) Reset() {
	if d.paths == nil {
		d.paths, d.sessions = map[string]bool{}, map[int64]struct{}{}
	}
	clear(d.paths)
	clear(d.sessions)
	d.bytes, d.changed = 0, false
	d.size.Store(0)
	d.weight.Store(0)
}

// add notes what a transaction changed.
func (d *Dirty) add(t *znode.Txn, a *znode.Applied) {
	d.changed = true
	for i := range a.Changes {
		c := &a.Changes[i]
		if data, ok := d.paths[c.Path]; !ok || c.Data && !data {
			d.paths[c.Path] = c.Data
		}
	}
	for _, id := range a.Sessions {
		d.sessions[id] = struct{}{}
	}
	d.bytes += len(t.Op.Data)
	for i := range t.Multi {
		d.bytes += len(t.Multi[i].Data)
	}
	d.size.Store(int64(len(d.paths) + len(d.sessions)))
	d.weight.Store(int64(d.bytes))
}

// due reports whether the state writer should copy now; over, that the applier must wait for it.
func (d *Dirty) due() bool  { return d.size.Load() >= dirtyPaths || d.weight.Load() >= dirtyBytes }
func (d *Dirty) over() bool { return d.size.Load() >= 2*dirtyPaths || d.weight.Load() >= 2*dirtyBytes }

// Copy takes the records of everything dirty, at one zxid, and begins anew; nil when nothing has changed.
func (d *Dirty) Copy(t *znode.Tree) *store.StateBatch {
	if !d.changed {
		return nil
	}
	b := &store.StateBatch{Applied: zab.Zxid(t.Applied()), Digests: t.Digests()}
	b.Nodes = make([]store.StateNode, 0, len(d.paths))
	for path, data := range d.paths {
		rec, ok := t.Record(path)
		b.Nodes = append(b.Nodes, store.StateNode{Path: path, Deleted: !ok, Record: rec, DataToo: data})
	}
	for id := range d.sessions {
		if ses, ok := t.Session(id); ok {
			b.Sessions = append(b.Sessions, ses)
		} else {
			b.EndedSessions = append(b.EndedSessions, id)
		}
	}
	d.Reset()
	return b
}
