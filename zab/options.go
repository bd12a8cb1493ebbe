package zab

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"
)

// ProtocolVersion is LearnerInfo.Version of this build. Another one is refused by name.
const ProtocolVersion = 1

const (
	defaultWindow       = 4 << 20
	defaultRunBytes     = 256 << 10
	defaultCounterLimit = math.MaxUint32 - 1<<20
)

// withDefaults fills what is zero.
func (o Options) withDefaults() Options {
	o.InitLimit = cmp.Or(o.InitLimit, 10*time.Second)
	o.SyncLimit = cmp.Or(o.SyncLimit, 5*time.Second)
	o.SilenceLimit = cmp.Or(o.SilenceLimit, time.Second)
	o.Heartbeat = cmp.Or(o.Heartbeat, 100*time.Millisecond)
	o.Lease = cmp.Or(o.Lease, o.SilenceLimit/2)
	o.Window = cmp.Or(o.Window, defaultWindow)
	o.RunBytes = cmp.Or(o.RunBytes, defaultRunBytes)
	o.HandOverLimit = cmp.Or(o.HandOverLimit, 200*time.Millisecond)
	o.CounterLimit = cmp.Or(o.CounterLimit, defaultCounterLimit)
	return o
}

// Validate reports every fault of what a crash left and of the configuration at once.
func (b *Boot) Validate() error {
	var errs []error
	check := func(ok bool, format string, args ...any) {
		if !ok {
			errs = append(errs, fmt.Errorf("zab: "+format, args...))
		}
	}
	check(b.Self != 0 && slices.ContainsFunc(b.Members, func(m Member) bool { return m.ID == b.Self }),
		"server %d is not a member", b.Self)
	check(b.Rand != nil, "no source of randomness")
	check(b.Hard.Accepted <= MaxEpoch, "accepted epoch %d: %s", b.Hard.Accepted, ReasonEpochLimit)
	check(b.Hard.Current <= b.Hard.Accepted, "current epoch %d above the accepted %d", b.Hard.Current, b.Hard.Accepted)
	check(b.Last.Epoch() <= b.Hard.Current, "log end %v above the current epoch %d", b.Last, b.Hard.Current)
	check(b.Base <= b.Last, "log base %v beyond its end %v", b.Base, b.Last)
	check(b.Committed <= b.Last, "commit point %v beyond the log end %v", b.Committed, b.Last)
	check(b.Delivered <= b.Last, "state %v ahead of the log end %v", b.Delivered, b.Last)
	check(b.NeedSnap || b.Delivered >= b.Base, "state %v behind the log base %v", b.Delivered, b.Base)
	if err := validHistory(b.Epochs, b.Last); err != nil {
		errs = append(errs, err)
	}
	o := b.Options.withDefaults()
	check(o.Window > 0 && o.RunBytes > 0, "window and run must be positive")
	check(o.Lease < o.SilenceLimit, "serving lease %v not below the silence limit %v", o.Lease, o.SilenceLimit)
	check(o.Heartbeat < o.SilenceLimit, "heartbeat %v not below the silence limit %v", o.Heartbeat, o.SilenceLimit)
	check(o.CounterLimit < math.MaxUint32-1<<16, "counter limit %#x leaves no room for the runs under way", o.CounterLimit)
	return errors.Join(errs...)
}
