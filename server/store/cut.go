package store

import (
	"math"
	"time"

	"github.com/zkserver/zkserver/zab"
)

// forever is an age that nothing reaches.
const forever = time.Duration(math.MaxInt64)

// CutLog drops, in one synced batch, what lies beyond the DIFF window (count, bytes or age). It never cuts what the
// durable state does not cover, nor beyond minCursor (of the slowest live learner) as long as the rest stays within
// DiffBytes, nor in any case what a snapshot under way will have to continue from. It reports the base that holds now.
func (s *Store) CutLog(minCursor zab.Zxid) (base zab.Zxid, cut bool, err error) {
	if s.stateDamaged.Load() {
		base, _ = s.LogBounds()
		return base, false, nil
	}
	return s.cutLog(minCursor, s.DurableApplied())
}

func (s *Store) cutLog(minCursor, durable zab.Zxid) (base zab.Zxid, cut bool, err error) {
	s.logMu.Lock()
	defer s.logMu.Unlock()
	l := s.durable.Load()
	now := s.o.Now()
	to := s.window.beyond(int64(s.o.DiffCount), s.o.DiffBytes, s.o.DiffAge, now)
	if to > minCursor {
		bySize := s.window.beyond(math.MaxInt64, s.o.DiffBytes, forever, now)
		to = min(to, max(minCursor, bySize))
	}
	to = s.window.atMost(min(to, durable, l.last, s.oldestSnapshot()))
	if to <= l.base {
		return l.base, false, nil
	}
	if err := s.cutBatch(to); err != nil {
		return l.base, false, err
	}
	s.o.Log.Debug().Stringer("base", to).Msg("log cut")
	return to, true, nil
}
