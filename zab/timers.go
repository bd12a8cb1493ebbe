package zab

import "time"

// quantum moves time on. A quantum that came late by half the silence limit or more means that this process was
// paused: it does not read that as silence of the others, and confirms nothing that it heard before.
func (c *Core) quantum(q Quantum) {
	assert(q.Now >= c.now, "time went back: %v after %v", q.Now, c.now)
	c.now = q.Now
	paused := q.Late >= c.opts.SilenceLimit/2
	if paused {
		for i := range c.peers {
			c.peers[i].heard += q.Late
		}
	}
	switch {
	case c.lead != nil:
		if paused {
			c.leaderPaused(q.Late)
		}
		c.leaderQuantum()
	case c.learn != nil:
		if paused {
			c.learn.progress += q.Late
			c.learn.heard += q.Late
		}
		c.learnerQuantum()
	}
}

// leaderPaused: acks and pongs that lay in socket buffers meanwhile may be of voters that have turned elsewhere. A
// round begun now tells.
func (c *Core) leaderPaused(late time.Duration) {
	l := c.lead
	l.progress += late
	for i := range l.known {
		l.known[i].at += late
	}
	for _, x := range l.learners {
		x.progress += late
	}
	if l.handing != nil && l.handing.deadline != 0 {
		l.handing.deadline += late
	}
	l.resume = l.pingSeq + 1
	for i := range l.syncs {
		l.syncs[i].round = 0
	}
	l.asking = 0
	l.nextPing = c.now
}

func (c *Core) leaderQuantum() {
	l := c.lead
	if l.phase == established && l.handing != nil && l.handing.deadline != 0 && c.now >= l.handing.deadline {
		c.giveUpHandOver()
	}
	if l.phase >= syncing && c.now >= l.nextPing {
		c.startRound()
	} else if c.alone() {
		c.confirm()
	}
	for i := 0; i < len(l.learners); i++ {
		x := l.learners[i]
		if r := c.stuck(x); r != ReasonNone {
			c.cut(x.link, r, "")
			if c.lead != l {
				return
			}
			i--
		}
	}
	switch {
	case l.phase < established && c.now-l.progress > c.opts.InitLimit:
		c.stepDown(ReasonInitTimeout, 0)
	case l.phase > discovering && !c.quorumAlive(l):
		if l.phase == established {
			c.stepDown(ReasonLostQuorum, 0)
		} else {
			c.stepDown(ReasonNoSupport, 0)
		}
	}
}

// quorumAlive: voters that were heard within the silence limit, their links being up or not, and this server. While
// promises are awaited nobody is pinged, so a link that is up will do.
func (c *Core) quorumAlive(l *leadership) bool {
	return c.verifier.Quorum(func(id ServerID) bool {
		if id == c.self || l.phase == promising && c.learner(id) != nil {
			return true
		}
		for _, k := range l.known {
			if k.id == id {
				return c.now-k.at <= c.opts.SilenceLimit
			}
		}
		return false
	})
}

// hearAll begins silence anew for everybody.
func (c *Core) hearAll() {
	for i := range c.lead.known {
		c.lead.known[i].at = c.now
	}
	for i := range c.peers {
		c.peers[i].heard = c.now
	}
}

// stuck tells why a learner's link should end.
func (c *Core) stuck(x *learner) Reason {
	l := c.lead
	switch x.state {
	case greeted:
		return ReasonNone
	case invited:
		if c.now-x.progress > c.opts.InitLimit {
			return ReasonNoProgress
		}
		return ReasonNone
	}
	if l.phase >= syncing && c.now-c.peer(x.id).heard > c.opts.SilenceLimit {
		return ReasonLearnerSilent
	}
	waiting := len(x.sent) > 0 || x.marked && !x.synced || x.state == sendingSnapshot
	if waiting && x.readID == 0 && c.now-x.progress > c.opts.SyncLimit {
		return ReasonNoProgress
	}
	return ReasonNone
}

func (c *Core) learnerQuantum() {
	l := c.learn
	switch {
	case l.state == connecting && c.now-l.progress > c.opts.SilenceLimit:
		c.stepDown(ReasonLeaderGone, 0)
	case l.pinged && c.now-l.heard > c.opts.SilenceLimit:
		link := c.peer(c.leader).link
		c.stepDown(ReasonLeaderSilent, 0)
		c.cut(link, ReasonLeaderSilent, "")
	case l.state != upToDate && c.now-l.progress > c.opts.InitLimit:
		c.stepDown(ReasonInitTimeout, 0)
	}
}
