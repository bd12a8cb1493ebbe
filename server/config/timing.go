package config

import (
	"cmp"
	"time"
)

// Timing is what the cores need, derived from ticks (architecture 4.10, 4.13, interleavings 16).
type Timing struct {
	Init      time.Duration
	Sync      time.Duration
	Silence   time.Duration // nothing heard for so long: the link is dead
	Heartbeat time.Duration
	Lease     time.Duration // how long this server answers after its last contact
}

// Timing derives the limits. Lease + Heartbeat is at most a third of MinSessionTimeout and Lease below Silence, so that
// nothing is answered after the leader may have expired a session (I10).
func (c *Config) Timing() Timing {
	t := Timing{
		Init: time.Duration(max(c.InitLimit, 1)) * c.TickTime,
		Sync: time.Duration(max(c.SyncLimit, 1)) * c.TickTime,
	}
	t.Silence = max(min(t.Sync, cmp.Or(c.SilenceLimit, time.Second)), 100*time.Millisecond)
	third := c.MinSessionTimeout / 3
	t.Lease = max(min(third*3/4, t.Silence*9/10), minLease)
	t.Heartbeat = max(10*time.Millisecond, min(100*time.Millisecond, t.Silence/5, t.Lease/3, third-t.Lease))
	return t
}
