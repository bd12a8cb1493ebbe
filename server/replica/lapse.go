package replica

import "time"

// lapseEvery is how often it is logged at most that the serving lease had lapsed.
const lapseEvery = 10 * time.Second

// lapses counts the times in which this server had its role and answered nobody, because its last contact was too long
// ago. A loaded machine can have many short ones.
type lapses struct {
	count   int // since it was told last
	longest time.Duration
	tellAt  time.Duration
}

// renewed hears that a lease up to `was` has been followed by one that holds at now, and reports whether that is to be
// told: it had lapsed between, and nothing was told for a while.
func (l *lapses) renewed(was, now time.Duration) (lapsed time.Duration, tell bool) {
	lapsed = now - was
	if was == 0 || lapsed <= 0 {
		return 0, false
	}
	l.count++
	l.longest = max(l.longest, lapsed)
	return lapsed, now >= l.tellAt
}

// told begins anew.
func (l *lapses) told(now time.Duration) { *l = lapses{tellAt: now + lapseEvery} }
