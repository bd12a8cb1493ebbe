package store

import (
	"fmt"

	"github.com/cockroachdb/pebble/v2"

	"github.com/zkserver/zkserver/zab"
	"github.com/zkserver/zkserver/znode"
)

// StateNode is one changed path.
type StateNode struct {
	Path    string
	Deleted bool
	Record  znode.NodeRecord // unless Deleted; its Path is not looked at
	DataToo bool             // the data changed as well; set for a created node
}

// StateBatch is a copy of what changed up to Applied, taken under one read lock.
type StateBatch struct {
	Applied       zab.Zxid
	Digests       znode.Digests
	Nodes         []StateNode
	Sessions      []znode.Session
	EndedSessions []int64
}

// stateDB is one open state directory. One goroutine writes; what it counts needs no lock but for seeing it elsewhere.
type stateDB struct {
	name    string // of the directory
	db      *pebble.DB
	store   *Store
	acls    aclTable
	long    map[string]struct{} // paths whose data lies under keyData
	seeded  bool                // it holds a tree
	applied applied             // as written, not as durable
	bytes   int64               // since the last flush
	txns    int64
	dirty   bool
	key     []byte
	value   []byte
}

func (s *Store) newStateDB(name string, db *pebble.DB) *stateDB {
	return &stateDB{name: name, db: db, store: s, acls: newACLTable(), long: make(map[string]struct{})}
}

// WriteState commits one batch without a WAL, so that the state on the disk is always a prefix of the batches.
//
// Invariant (state behind log): b.Applied is at most the durable end of the log; the host waits for that without
// holding a lock. A batch never splits a transaction.
func (s *Store) WriteState(b *StateBatch) error {
	if err := s.failure.get(); err != nil {
		return err
	}
	if err := s.settleLog(); err != nil {
		return err
	}
	s.stateMu.RLock()
	defer s.stateMu.RUnlock()
	d := s.state
	if d == nil {
		return s.noState()
	}
	if _, last := s.LogBounds(); b.Applied > last || b.Applied < d.applied.zxid || !d.seeded {
		return s.failure.fail(fmt.Errorf("%w: state batch at %v, the state is at %v, the log ends at %v, loaded: %t",
			ErrInvariant, b.Applied, d.applied.zxid, last, d.seeded))
	}
	pb := d.db.NewBatchWithSize(batchSize(b))
	err := d.sweep(pb)
	if err == nil {
		err = d.fill(pb, b)
	}
	size := pb.Len()
	if err == nil {
		err = d.commit(pb, applied{zxid: b.Applied, digests: b.Digests})
	}
	if err != nil {
		return s.failure.fail(fmt.Errorf("store: state: %w", err))
	}
	s.metrics.stateBatches.Add(1)
	s.metrics.stateBytes.Add(uint64(size))
	if d.bytes >= s.o.FlushBytes || d.txns >= s.o.FlushTxns {
		if err := d.beginFlush(); err != nil {
			return s.failure.fail(fmt.Errorf("store: state: flush: %w", err))
		}
	}
	return nil
}

func (s *Store) noState() error {
	if s.isClosed() {
		return ErrClosed
	}
	return ErrNoState
}

// batchSize guesses, so that the batch need not grow often.
func batchSize(b *StateBatch) int {
	n := 64 + 64*len(b.Sessions) + 16*len(b.EndedSessions)
	for i := range b.Nodes {
		n += 2*len(b.Nodes[i].Path) + nodeFixed + 32
		if b.Nodes[i].DataToo {
			n += len(b.Nodes[i].Record.Data)
		}
	}
	return n
}

func (d *stateDB) fill(pb *pebble.Batch, b *StateBatch) error {
	for i := range b.Nodes {
		n := &b.Nodes[i]
		var err error
		if n.Deleted {
			err = d.deleteNode(pb, n.Path)
		} else {
			err = d.putNode(pb, n.Path, &n.Record, n.DataToo)
		}
		if err != nil {
			return fmt.Errorf("%q: %w", n.Path, err)
		}
	}
	for i := range b.Sessions {
		if err := d.putSession(pb, &b.Sessions[i]); err != nil {
			return err
		}
	}
	for _, id := range b.EndedSessions {
		if err := pb.Delete(sessionKey(id), nil); err != nil {
			return err
		}
	}
	return nil
}

func (d *stateDB) putSession(pb *pebble.Batch, s *znode.Session) error {
	d.value = appendSession(d.value[:0], s)
	return pb.Set(sessionKey(s.ID), d.value, nil)
}

func (d *stateDB) putNode(pb *pebble.Batch, path string, r *znode.NodeRecord, dataToo bool) error {
	id, fresh := d.acls.intern(r.ACL)
	if fresh {
		if err := pb.Set(aclKey(id), d.acls.buf, nil); err != nil {
			return err
		}
	}
	key, err := appendPathKey(d.key[:0], keyNode, path)
	d.key = key[:0]
	if err != nil {
		return err
	}
	d.value = appendNode(d.value[:0], r, id, inlineLimit)
	if err := pb.Set(key, d.value, nil); err != nil {
		return err
	}
	key[0] = keyData
	if len(r.Data) <= inlineLimit {
		return d.dropData(pb, key, path)
	}
	if !dataToo {
		return nil
	}
	d.long[path] = struct{}{}
	return pb.Set(key, r.Data, nil)
}

// dropData deletes the long data of a path, if it has any: a tombstone for each node without would double the work.
func (d *stateDB) dropData(pb *pebble.Batch, key []byte, path string) error {
	if _, ok := d.long[path]; !ok {
		return nil
	}
	delete(d.long, path)
	return pb.Delete(key, nil)
}

func (d *stateDB) deleteNode(pb *pebble.Batch, path string) error {
	key, err := appendPathKey(d.key[:0], keyNode, path)
	d.key = key[:0]
	if err != nil {
		return err
	}
	if err := pb.Delete(key, nil); err != nil {
		return err
	}
	key[0] = keyData
	return d.dropData(pb, key, path)
}

// commit adds where the state now is and writes the batch.
func (d *stateDB) commit(pb *pebble.Batch, a applied) error {
	if err := pb.Set([]byte{keyApplied}, a.append(nil), nil); err != nil {
		return err
	}
	size := pb.Len()
	if err := d.write(pb); err != nil {
		return err
	}
	if err := pb.Close(); err != nil {
		return err
	}
	d.bytes += int64(size)
	if a.zxid.Epoch() == d.applied.zxid.Epoch() {
		d.txns += int64(a.zxid - d.applied.zxid)
	} else {
		d.txns += int64(a.zxid.Counter())
	}
	d.applied, d.seeded, d.dirty = a, true, true
	return nil
}

// write hands the batch to Pebble, which makes it wait while too many memtables wait for their flush.
func (d *stateDB) write(pb *pebble.Batch) error {
	return d.store.failure.await(func() error { return pb.Commit(pebble.NoSync) })
}

// flush makes everything written durable and returns when it is.
func (d *stateDB) flush() error {
	if !d.dirty {
		return nil
	}
	if err := d.store.failure.await(d.db.Flush); err != nil {
		return err
	}
	d.bytes, d.txns, d.dirty = 0, 0, false
	return nil
}

// beginFlush begins to make everything written durable.
func (d *stateDB) beginFlush() error {
	err := d.store.failure.await(func() error {
		_, err := d.db.AsyncFlush()
		return err
	})
	if err == nil {
		d.bytes, d.txns = 0, 0 // still dirty: only a flush that was waited for is known to be done
	}
	return err
}

// FlushState makes everything written durable; without changes it does nothing. The host calls it every 60 s.
func (s *Store) FlushState() error {
	if err := s.failure.get(); err != nil {
		return err
	}
	s.stateMu.RLock()
	defer s.stateMu.RUnlock()
	if s.state == nil {
		return nil
	}
	if err := s.state.flush(); err != nil {
		return s.failure.fail(fmt.Errorf("store: state: flush: %w", err))
	}
	return nil
}

// DurableApplied is up to where the state is on the disk: replay starts there, the log may be cut up to there.
func (s *Store) DurableApplied() zab.Zxid {
	s.stateMu.RLock()
	defer s.stateMu.RUnlock()
	if s.state == nil {
		return 0
	}
	a, _, err := readApplied(s.state.db, true)
	if err != nil {
		s.o.Log.Error().Err(err).Msg("the durable state can not be read")
		return 0 // nothing is cut then
	}
	return a.zxid
}

// readApplied reads keyApplied; ok is false in a state that never held a tree. With durable it sees flushed tables
// only, which is what a crash now would leave.
func readApplied(db *pebble.DB, durable bool) (a applied, ok bool, err error) {
	it, err := db.NewIter(&pebble.IterOptions{LowerBound: []byte{keyApplied}, OnlyReadGuaranteedDurable: durable})
	if err != nil {
		return applied{}, false, err
	}
	if it.First() {
		var v []byte
		if v, err = it.ValueAndErr(); err == nil {
			a, err = decodeApplied(v)
			ok = err == nil
		}
	}
	if cerr := it.Close(); err == nil {
		err = cerr
	}
	return a, ok && err == nil, err
}
