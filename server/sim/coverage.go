package sim

import (
	"maps"
	"slices"
)

// Coverage counts what runs have reached.
type Coverage map[string]uint64

func (c Coverage) hit(what string) { c[what]++ }

// Add takes another's counts over.
func (c Coverage) Add(o Coverage) {
	for k, n := range o {
		c[k] += n
	}
}

// Missing lists what of a list was never reached.
func (c Coverage) Missing(want []string) []string {
	var out []string
	for _, k := range want {
		if c[k] == 0 {
			out = append(out, k)
		}
	}
	return out
}

// Names are all that was reached, in order.
func (c Coverage) Names() []string { return slices.Sorted(maps.Keys(c)) }

// Required are the lists of what runs must have reached: ci by a few thousand seeds, all by a hundred thousand.
var Required = map[string][]string{
	"ci":  requiredCI,
	"all": slices.Concat(requiredCI, requiredAll),
}

var requiredCI = []string{
	// how a learner reaches its leader's history
	"sync DIFF", "sync TRUNC", "sync SNAP", "snapshot installed", "snapshot cut on its way", "log cut", "delivery read from the log",
	// how a role ends
	"step down: leading: lost quorum", "step down: leading: no quorum can support", "step down: leading: hand-over",
	"step down: leading: higher epoch seen", "step down: leading: stopping", "step down: leading: a sync of the log does not end",
	"step down: following: leader gone", "step down: following: leader silent", "step down: following: hand-over",
	"step down: following: stopping", "step down: observing: leader gone", "step down: observing: leader silent",
	"step down: observing: hand-over", "handed over", "hand-over given up", "left",
	"link cut: leader silent", "link cut: learner silent", "link cut: no progress",
	// what a crash leaves
	"crash between append and append", "crash between synced and append", "crash between synced and promise",
	"crash during a sync of epoch", "crash during a sync of promise", "state waits for the log", "state gathered of several copies",
	"disk failed", "disk stuck", "state damaged", "wiped",
	// what clients meet
	"session moved", "session refused", "session closed", "expiry", "confirmed after a silence", "client gives a silent server up",
	"half-open client connection", "setWatches", "event", "evicted", "forward rejected", "refused write", "read waits for the lease",
	"close: fate of a write unknown", "close all: not serving", "close all: snapshot installed", "turned away: not serving",
	// both orders of races
	"race: delivered after own disk", "race: delivered before own disk",
	"race: snapshot after its SyncBegin", "race: snapshot before its SyncBegin",
	"race: joins an established leader", "race: joins before the leader is established",
	"race: a write ends in a later role", "race: a write ends in its role", "race: applied in a later role", "race: applied in its role",
	"race: a session moves while writes of it are under way", "race: a session moves at rest", "race: message of a replaced link",
	"race: write of a connection that is gone", "link loses a suffix",
	// what is broken on purpose
	"fault: bad disk", "fault: client cut", "fault: client pause", "fault: clock jump", "fault: clock rate", "fault: crash", "fault: cut",
	"fault: damaged state", "fault: flap", "fault: isolate", "fault: leave", "fault: log cut", "fault: one-way", "fault: pause",
	"fault: power loss", "fault: rolling restart", "fault: slow apply", "fault: slow disk", "fault: slow link",
	"fault: snapshot cut", "fault: split", "fault: stuck disk", "fault: wipe", "fault: stall", "fault: left behind", "fault: crash loop",
	"fault: deposed", "burst", "fault: slow loop", "fault: blank", "wiped among slow servers",
}

var requiredAll = []string{
	"sync SNAP below the common point", "step down: leading: initLimit passed", "step down: following: initLimit passed",
	"step down: following: higher epoch seen", "step down: observing: initLimit passed", "step down: observing: stopping",
	"crash between synced and epoch", "crash between synced and stamp", "crash between synced and truncate",
	"crash between synced and install", "crash between synced and append+epoch", "crash between epoch and append",
	"crash during a sync of append+epoch", "crash during a sync of truncate", "crash during a sync of install",
	"crash during a sync of stamp", "crash between append and epoch", "crash between stamp and append", "crash between install and append",
	"crash between append+epoch and append", "step down: observing: higher epoch seen", "link cut: the log was cut",
	"turned away: has seen more", "race: write behind the end of its session", "close: session attached elsewhere",
	"not confirmed", "log read below the base",
}
