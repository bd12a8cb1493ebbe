package store

import (
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"

	"github.com/cockroachdb/pebble/v2"

	"github.com/zkserver/zkserver/zab"
)

// Recovered is what a start found.
type Recovered struct {
	Hard     zab.HardState
	Base     zab.Zxid       // the log holds (Base, Last]
	Last     zab.Zxid       // durable end of the log
	Commit   zab.Zxid       // stored commit point, at least Base
	Applied  zab.Zxid       // of the state that LoadTree loads
	Epochs   []zab.EpochEnd // ascending; the last row is the log's end
	Ensemble zab.ID         // zero: blank
	Instance zab.ID
	NeedSnap bool         // the state is damaged or missing, the log does not reach back to the beginning: get a SNAP
	Damage   *DamageError // why NeedSnap is set, or why the state is rebuilt from the complete log
}

// Store is the handle of both stores. Which goroutine may call what:
//
//   - Persist: the log writer, one goroutine.
//   - WriteState and FlushState: the state writer, one goroutine. The host has stopped it before it gives an op with
//     Install to Persist, and never again hands over a batch copied from the old tree.
//   - Open, OpenTree, LoadTree, Recovered: before any of the others run; LoadTree also after an Install.
//   - everything else: any goroutine.
//
// After Options.Fatal was called, whatever touches the disk returns that error or never returns.
type Store struct {
	o       Options
	failure *failure
	cache   *pebble.Cache
	locks   []io.Closer
	metrics counters

	damageMu  sync.Mutex
	damagedAt string // file of the last DataCorruption event

	rec      Recovered
	instance zab.ID
	ends     walEnds // of log/ at start

	logDB *pebble.DB

	// logMu serializes the writers of log/ and guards what they own.
	logMu    sync.Mutex
	batch    *pebble.Batch // reused; nil after an error
	window   window
	writeErr error

	// durable is what the durable log holds. Readers load it; only holders of logMu replace it.
	durable atomic.Pointer[logState]

	// stateMu is held for reading while a database is read or the state written, for writing while the state is
	// replaced or the store closed.
	stateMu      sync.RWMutex
	state        *stateDB    // nil: none (NeedSnap)
	stateName    string      // as log/ names it
	stateDamaged atomic.Bool // met while running: the log is not cut any more, for the next start may need it

	// snapMu guards the snapshots under way.
	snapMu  sync.Mutex
	readers map[*SnapshotReader]struct{}
	writers map[string]*SnapshotWriter // by directory name; until installed or aborted
	lastDir uint64                     // highest n of a state directory ever seen
	closed  bool
	diskLow atomic.Bool

	creating sync.WaitGroup // state directories of snapshots in the making; nothing is added once closed is set
}

// Recovered is what Open returned or, after an ErrStateDamaged of LoadTree, what holds now.
func (s *Store) Recovered() Recovered { return s.rec }

// LogBounds returns what the durable log holds: (base, last].
func (s *Store) LogBounds() (base, last zab.Zxid) {
	l := s.durable.Load()
	return l.base, l.last
}

func (s *Store) isClosed() bool {
	s.snapMu.Lock()
	defer s.snapMu.Unlock()
	return s.closed
}

func (s *Store) noteDamage(file string) {
	s.damageMu.Lock()
	defer s.damageMu.Unlock()
	s.damagedAt = file
}

func (s *Store) takeDamage() string {
	s.damageMu.Lock()
	defer s.damageMu.Unlock()
	f := s.damagedAt
	s.damagedAt = ""
	return f
}

// Close ends snapshots, flushes the state and closes both stores. With a fatal error, also one that it meets itself, it
// returns that at once: what is on the disk is what a crash leaves.
func (s *Store) Close() error {
	s.snapMu.Lock()
	closed := s.closed
	s.closed = true
	s.snapMu.Unlock()
	if err := s.failure.get(); err != nil || closed {
		return err
	}
	return s.failure.await(s.shut)
}

func (s *Store) shut() error {
	s.creating.Wait()
	s.abortWriters()
	s.stateMu.Lock()
	defer s.stateMu.Unlock()
	s.closeReaders()
	var errs []error
	if s.state != nil {
		if err := s.state.flush(); err != nil {
			return s.failure.fail(fmt.Errorf("store: close: flush: %w", err))
		}
		errs = append(errs, s.state.db.Close())
		s.state = nil
	}
	s.logMu.Lock()
	defer s.logMu.Unlock()
	if s.batch != nil {
		errs = append(errs, s.batch.Close())
		s.batch = nil
	}
	errs = append(errs, s.logDB.Close())
	s.writeErr = ErrClosed
	s.release()
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("store: close: %w", err)
	}
	return nil
}

// release gives back what is held besides the databases.
func (s *Store) release() {
	for _, l := range s.locks {
		_ = l.Close() // a lock ends with its descriptor, whatever Close says
	}
	s.locks = nil
	if s.cache != nil {
		s.cache.Unref()
		s.cache = nil
	}
}
