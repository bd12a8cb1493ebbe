package store

import (
	"testing"
	"time"
	"unsafe"
)

// TestSyncingThroughAStepOfTheClock: how long a sync has lasted does not go by the wall clock, which may be set meanwhile.
func TestSyncingThroughAStepOfTheClock(t *testing.T) {
	var c counters
	start := time.Now()
	c.syncBegin(start)
	for _, step := range []time.Duration{time.Hour, -time.Hour} {
		now := start.Add(3 * time.Second)
		*(*uint64)(unsafe.Pointer(&now)) += uint64(step/time.Second) << 30 // its wall seconds; the monotonic part stays
		if d := time.Duration(now.UnixNano() - start.UnixNano()); d != 3*time.Second+step {
			t.Fatalf("the wall clock was not set by %v: %v", step, d)
		}
		if d := c.syncing(now); d != 3*time.Second {
			t.Errorf("the clock was set by %v: the sync seems to last %v", step, d)
		}
	}
	c.syncEnd(0)
	if d := c.syncing(start.Add(time.Second)); d != 0 {
		t.Errorf("a sync that has ended lasts %v", d)
	}
}
