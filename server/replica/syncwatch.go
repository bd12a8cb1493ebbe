package replica

import "time"

// SyncWatch tells a disk that hangs from a process that was paused in the middle of a sync. What is said of syncs here
// goes for anything else that should not last.
type SyncWatch struct {
	Limit  time.Duration
	took   time.Duration // what the present sync had taken when looked at last
	excuse time.Duration // pauses of this process since it began
	stuck  bool
}

// Stuck reports whether it lasts too long.
func (w *SyncWatch) Stuck() bool { return w.stuck }

// Look is told at each quantum how long the present sync has lasted, zero for none, and how late the quantum is. It
// returns how long the disk has taken, and whether that has just become too long.
func (w *SyncWatch) Look(took, late time.Duration) (disk time.Duration, begins bool) {
	if took < w.took || w.took == 0 {
		w.excuse = 0 // another one
	}
	if took > 0 && late >= w.Limit/4 { // less is load, which the disk shares
		w.excuse = min(w.excuse+late, took) // what was before the sync is no excuse
	}
	w.took = took
	was := w.stuck
	disk = took - w.excuse
	w.stuck = disk > w.Limit
	return disk, w.stuck && !was
}
