package replica

import (
	"time"

	"github.com/zkserver/zkserver/znode"
)

// Reap says how the leader removes containers and TTL nodes whose time has come.
type Reap struct {
	Interval  time.Duration // between two looks; not positive: never
	NeverUsed time.Duration // after which a container that never had a child goes; zero: never
	PerMinute int           // removals at most
}

// reaper is the leader's part of it.
type reaper struct {
	next time.Duration // when to look
	due  []string      // found, not yet submitted
	slot time.Duration // when the next one may be submitted
}

// reapBurst is how far behind its slots the reaper may catch up: longer than a quantum.
const reapBurst = 100 * time.Millisecond

// reapDue looks for what is due, and submits it at the configured rate. What it finds may be out of date by then: the
// preparer checks again, against what is pending too.
func (l *leadership) reapDue() {
	m, r := l.m, &l.reap
	o := &m.boot.Reap
	if o.Interval <= 0 || o.PerMinute <= 0 {
		return
	}
	if len(r.due) == 0 {
		if m.now < r.next {
			return
		}
		r.next = m.now + o.Interval
		t := m.boot.Tree.RLock()
		r.due = t.Reapable(m.wall, o.NeverUsed.Milliseconds(), o.PerMinute)
		m.boot.Tree.RUnlock()
		r.slot = m.now
	}
	r.slot = max(r.slot, m.now-reapBurst)
	for len(r.due) > 0 && r.slot <= m.now && l.open() {
		l.prepare(&znode.Request{Op: znode.OpDeleteContainer, Path: r.due[0], TTL: -1})
		r.due = r.due[1:]
		r.slot += time.Minute / time.Duration(o.PerMinute)
	}
}
