package replica

import (
	"testing"
	"time"
)

// A process that is stopped in the middle of a sync does not take its own pause for a disk that hangs.
func TestSyncWatch(t *testing.T) {
	const ms = time.Millisecond
	for name, c := range map[string]struct {
		looks [][2]time.Duration // how long the sync has lasted, how late the quantum
		want  int                // the look at which it is found stuck; -1: never
	}{
		"short syncs":           {[][2]time.Duration{{5 * ms, 0}, {0, 0}, {900 * ms, 0}, {3 * ms, 0}, {990 * ms, 0}}, -1},
		"a disk that hangs":     {[][2]time.Duration{{5 * ms, 0}, {500 * ms, 0}, {1001 * ms, 0}, {1010 * ms, 0}}, 2},
		"a pause":               {[][2]time.Duration{{5 * ms, 0}, {3000 * ms, 2985 * ms}, {900 * ms, 0}}, -1},
		"a pause at the start":  {[][2]time.Duration{{0, 0}, {3000 * ms, 2990 * ms}, {3010 * ms, 0}}, -1},
		"hangs after a pause":   {[][2]time.Duration{{5 * ms, 0}, {3000 * ms, 2985 * ms}, {3500 * ms, 0}, {3990 * ms, 0}}, 3},
		"a pause long before":   {[][2]time.Duration{{5 * ms, 0}, {3000 * ms, 2985 * ms}, {5 * ms, 0}, {1200 * ms, 0}}, 3},
		"a pause just before":   {[][2]time.Duration{{0, 0}, {20 * ms, 3000 * ms}, {900 * ms, 0}, {1030 * ms, 0}}, 3},
		"late, with no sync on": {[][2]time.Duration{{0, 5000 * ms}, {10 * ms, 0}, {1100 * ms, 0}}, 2},
	} {
		w, found := SyncWatch{Limit: time.Second}, -1
		for i, l := range c.looks {
			if _, begins := w.Look(l[0], l[1]); begins && found < 0 {
				found = i
			}
		}
		if found != c.want {
			t.Errorf("%s: found stuck at %d, want %d", name, found, c.want)
		}
	}
}
