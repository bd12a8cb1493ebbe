package store

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"sync"

	"github.com/cockroachdb/pebble/v2"

	"github.com/zkserver/zkserver/zab"
	"github.com/zkserver/zkserver/znode"
)

// SnapshotReader streams the state as it was at one zxid while writes go on. It must be closed; until then it holds
// the log from its zxid on (a cut does not pass it) and disk space. One goroutine uses it. When the state is replaced
// or the store closed, Next returns ErrClosed.
type SnapshotReader struct {
	s  *Store
	at applied

	mu        sync.Mutex // against being closed by the store
	snap      *pebble.Snapshot
	scan      *stateScan
	out       blockBuilder
	sent      int // bytes of out that the caller has had
	sentACL   map[uint32]struct{}
	nodesDone bool
	ended     bool
	count     trailer
	body      []byte
	closed    bool
}

// SnapshotReader begins a snapshot at what the state has applied now.
func (s *Store) SnapshotReader() (*SnapshotReader, error) {
	if s.diskLow.Load() {
		return nil, ErrDiskLow
	}
	s.stateMu.RLock()
	defer s.stateMu.RUnlock()
	if s.state == nil {
		return nil, s.noState()
	}
	r := &SnapshotReader{s: s, snap: s.state.db.NewSnapshot(), sentACL: make(map[uint32]struct{})}
	err := r.begin()
	if err == nil {
		s.snapMu.Lock()
		if s.closed {
			err = ErrClosed
		} else {
			s.readers[r] = struct{}{}
		}
		s.snapMu.Unlock()
	}
	if err != nil {
		return nil, errors.Join(err, r.shut())
	}
	return r, nil
}

func (r *SnapshotReader) begin() error {
	v, c, err := r.snap.Get([]byte{keyApplied})
	if err != nil {
		if errors.Is(err, pebble.ErrNotFound) {
			return ErrNoState
		}
		return fmt.Errorf("store: snapshot: %w", err)
	}
	r.at, err = decodeApplied(v)
	if err = errors.Join(err, c.Close()); err != nil {
		return fmt.Errorf("store: snapshot: %w", err)
	}
	if r.scan, err = newStateScan(r.snap); err != nil {
		return fmt.Errorf("store: snapshot: %w", err)
	}
	r.count.applied = r.at
	r.out.record(recHeader, headerBody(r.at.zxid))
	return nil
}

// Zxid is what the snapshot has applied.
func (r *SnapshotReader) Zxid() zab.Zxid { return r.at.zxid }

// Digests are those after Zxid.
func (r *SnapshotReader) Digests() znode.Digests { return r.at.digests }

// Next returns the next up to maxBytes (at least 1 KiB) of the stream. The chunk is valid until the next call; done
// comes with the last one.
func (r *SnapshotReader) Next(maxBytes int) (chunk []byte, done bool, err error) {
	maxBytes = max(maxBytes, 1<<10)
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return nil, false, ErrClosed
	}
	r.out.out = r.out.out[:copy(r.out.out, r.out.out[r.sent:])]
	r.out.open -= r.sent
	r.sent = 0
	for !r.ended && r.out.sealed() < maxBytes {
		if err := r.fill(); err != nil {
			return nil, false, fmt.Errorf("store: snapshot: %w", err)
		}
	}
	r.sent = min(r.out.sealed(), maxBytes)
	return r.out.out[:r.sent], r.ended && r.sent == len(r.out.out), nil
}

// fill adds a record.
func (r *SnapshotReader) fill() error {
	if !r.nodesDone {
		rec, acl, ok, err := r.scan.node()
		if err != nil {
			return err
		}
		if ok {
			r.putNode(&rec, acl)
			return nil
		}
		r.nodesDone = true
	}
	sess, ok, err := r.scan.session()
	if err != nil {
		return err
	}
	if ok {
		r.count.sessions++
		r.out.record(recSession, appendSession(order.AppendUint64(r.body[:0], uint64(sess.ID)), &sess))
		return nil
	}
	r.out.record(recTrailer, r.count.append(nil))
	r.out.seal()
	r.ended = true
	return nil
}

func (r *SnapshotReader) putNode(rec *znode.NodeRecord, acl uint32) {
	if _, ok := r.sentACL[acl]; !ok {
		r.sentACL[acl] = struct{}{}
		r.out.record(recACL, appendACL(order.AppendUint32(nil, acl), rec.ACL))
	}
	r.count.nodes++
	r.body = appendNodeBody(r.body[:0], rec, acl)
	r.out.record(recNode, r.body)
}

// Close ends the snapshot and lets the log and the space go. More than once is fine.
func (r *SnapshotReader) Close() error {
	r.s.snapMu.Lock()
	delete(r.s.readers, r)
	r.s.snapMu.Unlock()
	return r.shut()
}

func (r *SnapshotReader) shut() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return nil
	}
	r.closed = true
	var err error
	if r.scan != nil {
		err = r.scan.close()
	}
	return errors.Join(err, r.snap.Close())
}

// closeReaders ends every reader. Holding stateMu for writing, so that none begins, before the database they read from
// is closed.
func (s *Store) closeReaders() {
	s.snapMu.Lock()
	readers := slices.Collect(maps.Keys(s.readers))
	s.snapMu.Unlock()
	for _, r := range readers {
		if err := r.Close(); err != nil {
			s.o.Log.Warn().Err(err).Msg("closing a snapshot")
		}
	}
}

// oldestSnapshot is the lowest zxid that a snapshot under way was begun at.
func (s *Store) oldestSnapshot() zab.Zxid {
	s.snapMu.Lock()
	defer s.snapMu.Unlock()
	z := zab.Zxid(math.MaxUint64)
	for r := range s.readers {
		z = min(z, r.at.zxid)
	}
	return z
}
