package zab

// quantum moves time on. A quantum that came late by half the silence limit or more means that this process was
// paused: it does not read that as silence of the others, and confirms nothing that it heard before. Of a smaller
// lateness it reads a quarter as such: a machine that is short of CPU would find everybody silent, itself being deaf. So
// what others are judged by lasts at most four times as long on such a machine.
func (c *Core) quantum(q Quantum) {
	if q.Now < c.now { // not asserted without need: to hold the words ready would cost more than all that follows
		assert(false, "time went back: %v after %v", q.Now, c.now)
	}
	step := q.Now - c.now
	late := min(q.Late, step)
	paused := q.Late >= c.opts.SilenceLimit/2
	if paused {
		step -= late
	} else {
		step -= late * 3 / 4
	}
	c.now, c.awake = q.Now, c.awake+step
	switch {
	case c.lead != nil:
		if paused {
			c.leaderPaused()
		}
		c.leaderQuantum()
	case c.learn != nil:
		c.learnerQuantum()
	}
}

// leaderPaused: acks and pongs that lay in socket buffers meanwhile may be of voters that have turned elsewhere. A
// round begun now tells.
func (c *Core) leaderPaused() {
	l := c.lead
	l.resume = l.pingSeq + 1
	for i := range l.syncs {
		l.syncs[i].round = 0
	}
	l.asking = 0
	l.nextPing = c.now
}

func (c *Core) leaderQuantum() {
	l := c.lead
	if l.phase == established && l.handing != nil && l.handing.deadline != 0 && c.awake >= l.handing.deadline {
		c.giveUpHandOver()
	}
	if l.phase >= syncing && c.now >= l.nextPing {
		c.startRound()
	} else if c.alone {
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
	case l.phase < established && c.awake-l.progress > c.opts.InitLimit:
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
				return c.awake-k.at <= c.opts.SilenceLimit
			}
		}
		return false
	})
}

// hearAll begins silence anew for everybody.
func (c *Core) hearAll() {
	for i := range c.lead.known {
		c.lead.known[i].at = c.awake
	}
	for i := range c.peers {
		c.peers[i].heard = c.awake
	}
}

// stuck tells why a learner's link should end.
func (c *Core) stuck(x *learner) Reason {
	l := c.lead
	switch x.state {
	case greeted:
		return ReasonNone
	case invited:
		if c.awake-x.progress > c.opts.InitLimit {
			return ReasonNoProgress
		}
		return ReasonNone
	}
	if l.phase >= syncing && c.awake-c.peer(x.id).heard > c.opts.SilenceLimit {
		return ReasonLearnerSilent
	}
	waiting := len(x.sent) > 0 || x.marked && !x.synced || x.state == sendingSnapshot
	if waiting && x.readID == 0 && c.awake-x.progress > c.opts.SyncLimit {
		return ReasonNoProgress
	}
	return ReasonNone
}

func (c *Core) learnerQuantum() {
	l := c.learn
	switch {
	case l.state == connecting && c.awake-l.progress > c.opts.SilenceLimit:
		c.stepDown(ReasonLeaderGone, 0)
	case l.pinged && c.awake-l.heard > c.opts.SilenceLimit:
		link := c.peer(c.leader).link
		c.stepDown(ReasonLeaderSilent, 0)
		c.cut(link, ReasonLeaderSilent, "")
	case l.state != upToDate && c.awake-l.progress > c.opts.InitLimit:
		c.stepDown(ReasonInitTimeout, 0)
	}
}
