package replica

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/zkserver/zkserver/server/store"
	"github.com/zkserver/zkserver/zab"
)

// stateWriter writes the applied state behind the applier's back: from copies, never ahead of the durable log. It copies
// often and little, so that the tree's lock is never held for long, and writes seldom and much.
type stateWriter struct {
	r        *Replica
	dirty    Dirty
	rest     sync.Mutex // held while it copies or writes; a snapshot install takes it
	gathered Gathered
	bell     chan struct{}
	room     chan struct{}

	mu      sync.Mutex
	cond    sync.Cond
	written zab.Zxid // handed to the store
	wanted  zab.Zxid // somebody waits for that to be written
	stopped bool

	minCursor atomic.Uint64 // of the learners, from the loop
}

func (s *stateWriter) init(r *Replica) {
	s.r, s.bell, s.room = r, make(chan struct{}, 1), make(chan struct{}, 1)
	s.cond.L = &s.mu
	s.dirty.Reset()
}

func (s *stateWriter) run() {
	defer s.stop()
	tick := time.NewTicker(dirtyInterval)
	defer tick.Stop()
	flushed, cut := time.Now(), time.Now()
	for {
		select {
		case <-s.r.ctx.Done():
			return
		case <-s.bell:
		case <-tick.C:
		}
		err := s.write()
		now := time.Now()
		if err == nil && now.Sub(flushed) >= s.r.opts.FlushInterval {
			flushed = now
			err = s.flush()
		}
		if err == nil && now.Sub(cut) >= cutInterval {
			cut = now
			s.r.store.CheckDisk()
			err = s.cut()
		}
		if err != nil {
			s.r.fatal(err)
			return
		}
	}
}

// nudge wakes the writer when there is enough to write.
func (s *stateWriter) nudge() {
	if s.dirty.due() {
		s.wake()
	}
}

func (s *stateWriter) wake() {
	select {
	case s.bell <- struct{}{}:
	default:
	}
}

// waitRoom holds the applier back, without the tree's lock, while the set is full (interleavings 18).
func (s *stateWriter) waitRoom() {
	for s.dirty.over() {
		s.wake()
		select {
		case <-s.room:
		case <-s.r.ctx.Done():
			return
		}
	}
}

// write gathers what is dirty, and writes what has been gathered when it is time to.
func (s *stateWriter) write() error {
	s.rest.Lock()
	defer s.rest.Unlock()
	s.gather()
	if !s.due() {
		return nil
	}
	return s.spill()
}

func (s *stateWriter) gather() {
	if b := s.copy(); b != nil {
		s.gathered.Add(b)
	}
}

// due reports whether what has been gathered is to be written now: there is much, a restart would have to replay many
// transactions, somebody waits for it, or the log is synced by writing the state only.
func (s *stateWriter) due() bool {
	if s.r.opts.Store.NoSync || s.gathered.full() {
		return true
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	at := s.gathered.Applied()
	return s.wanted > s.written || at.Epoch() != s.written.Epoch() || int64(at-s.written) >= gatheredTxns
}

// spill writes what has been gathered. It waits, without a lock on the tree, until the log covers it.
func (s *stateWriter) spill() error {
	at := s.gathered.Applied()
	if at == 0 || !s.r.writer.waitDurable(at) {
		return nil // nothing, or stopping: the log has it
	}
	if err := s.r.store.WriteState(s.gathered.Take()); err != nil {
		return err
	}
	s.gathered.Reset()
	s.setWritten(at)
	return nil
}

// copy takes the records of everything dirty, at one zxid.
func (s *stateWriter) copy() *store.StateBatch {
	s.r.mu.RLock()
	defer s.r.mu.RUnlock()
	b := s.dirty.Copy(s.r.tree)
	if b == nil {
		return nil
	}
	select {
	case s.room <- struct{}{}:
	default:
	}
	return b
}

func (s *stateWriter) flush() error {
	s.rest.Lock()
	defer s.rest.Unlock()
	if err := s.spill(); err != nil {
		return err
	}
	return s.r.store.FlushState()
}

// cut drops from the log what no learner and no DIFF window needs.
func (s *stateWriter) cut() error {
	s.rest.Lock()
	defer s.rest.Unlock()
	base, cut, err := s.r.store.CutLog(zab.Zxid(s.minCursor.Load()))
	if cut {
		s.r.inbox.push(Core{zab.LogBase{Base: base}})
	}
	return err
}

// finish writes what is left when everything else has stopped; Close of the store flushes it.
func (s *stateWriter) finish() error {
	_, last := s.r.store.LogBounds()
	s.gather()
	if at := s.gathered.Applied(); at == 0 || at > last {
		return nil
	}
	return s.r.store.WriteState(s.gathered.Take())
}

func (s *stateWriter) setWritten(z zab.Zxid) {
	s.mu.Lock()
	s.written = max(s.written, z)
	s.mu.Unlock()
	s.cond.Broadcast()
}

func (s *stateWriter) stop() {
	s.mu.Lock()
	s.stopped = true
	s.mu.Unlock()
	s.cond.Broadcast()
}

// waitWritten waits until the store's state has reached z; false when this replica stops or it takes too long.
func (s *stateWriter) waitWritten(z zab.Zxid) bool {
	timer := time.AfterFunc(snapshotPatient, s.cond.Broadcast)
	defer timer.Stop()
	end := time.Now().Add(snapshotPatient)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.wanted = max(s.wanted, z)
	s.wake()
	for s.written < z && !s.stopped && time.Now().Before(end) {
		s.cond.Wait()
	}
	return s.written >= z
}
