package store

import (
	"fmt"
	"sort"

	"github.com/zkserver/zkserver/zab"
)

// logState is what log/ holds beside the entries themselves. Values are immutable once published.
type logState struct {
	base, last, commit zab.Zxid
	hard               zab.HardState
	ensemble           zab.ID
	ended              []zab.EpochEnd // epochs before that of last, ascending; never changed in place
}

// end returns the last zxid of an epoch in this log.
func (l *logState) end(e zab.Epoch) (zab.Zxid, bool) {
	if l.last != 0 && e == l.last.Epoch() {
		return l.last, true
	}
	i := sort.Search(len(l.ended), func(i int) bool { return l.ended[i].Epoch >= e })
	if i < len(l.ended) && l.ended[i].Epoch == e {
		return l.ended[i].Last, true
	}
	return 0, false
}

// contains reports whether the log can continue from z: it is the base or an entry.
func (l *logState) contains(z zab.Zxid) bool {
	if z == l.base {
		return true
	}
	if z < l.base || z > l.last || z.Counter() == 0 {
		return false
	}
	end, ok := l.end(z.Epoch())
	return ok && z <= end
}

// follows reports whether z may come right behind the entry (or base) before, as far as the zxids tell.
func follows(before, z zab.Zxid) bool {
	if z.Epoch() == before.Epoch() {
		return z == before+1 && z.Counter() != 0
	}
	return z.Epoch() > before.Epoch() && z.Counter() == 1
}

// continues reports whether z comes right behind before in this log: it is follows, z is part of it, an epoch that is
// left is over, and none lies between.
func (l *logState) continues(before, z zab.Zxid) bool {
	if !follows(before, z) || !l.contains(z) {
		return false
	}
	if z.Epoch() == before.Epoch() {
		return true
	}
	if end, ok := l.end(before.Epoch()); before != 0 && (!ok || end != before) {
		return false
	}
	next := l.last.Epoch()
	if i := sort.Search(len(l.ended), func(i int) bool { return l.ended[i].Epoch > before.Epoch() }); i < len(l.ended) {
		next = l.ended[i].Epoch
	}
	return z.Epoch() == next
}

// table is the epoch table with the row of the log's end.
func (l *logState) table() []zab.EpochEnd {
	t := append([]zab.EpochEnd(nil), l.ended...)
	if l.last != 0 {
		t = append(t, zab.EpochEnd{Epoch: l.last.Epoch(), Last: l.last})
	}
	return t
}

// endedBefore returns the rows of epochs below e.
func endedBefore(rows []zab.EpochEnd, e zab.Epoch) []zab.EpochEnd {
	n := sort.Search(len(rows), func(i int) bool { return rows[i].Epoch >= e })
	return rows[:n:n]
}

// check states what holds at every moment, also between two ops of one batch.
//
// Invariant (Z10): epoch of the end <= currentEpoch <= acceptedEpoch < 2^31.
// Invariant (commit): base <= commit <= end.
func (l *logState) check() error {
	switch {
	case l.hard.Accepted > zab.MaxEpoch:
		return fmt.Errorf("acceptedEpoch %d, epochs from 2^31 on are refused", l.hard.Accepted)
	case l.hard.Current > l.hard.Accepted:
		return fmt.Errorf("currentEpoch %d above acceptedEpoch %d", l.hard.Current, l.hard.Accepted)
	case l.last.Epoch() > l.hard.Current:
		return fmt.Errorf("the log ends at %v, in an epoch above currentEpoch %d", l.last, l.hard.Current)
	case l.base > l.commit || l.commit > l.last:
		return fmt.Errorf("base %v, commit point %v, end %v are not in order", l.base, l.commit, l.last)
	case !rowsSound(l.ended, l.last):
		return fmt.Errorf("the epoch table %v does not lead to the end %v", l.ended, l.last)
	}
	return nil
}

// rowsSound reports whether rows ascend, each in its own epoch, all before the epoch of last.
func rowsSound(rows []zab.EpochEnd, last zab.Zxid) bool {
	before := zab.Epoch(0)
	for i, r := range rows {
		if r.Last.Epoch() != r.Epoch || r.Last.Counter() == 0 || r.Epoch >= last.Epoch() || i > 0 && r.Epoch <= before {
			return false
		}
		before = r.Epoch
	}
	return true
}
