package zab

import (
	"fmt"
	"slices"
)

// onLearnerInfo opens a learner's way. It is kept when this server does not lead (yet): a learner may decide first.
func (c *Core) onLearnerInfo(p *peerState, m *LearnerInfo) {
	switch {
	case m.Version != ProtocolVersion:
		c.refuse(p, ReasonVersion, fmt.Sprintf("version %d, want %d", m.Version, ProtocolVersion))
		return
	case m.ConfigSum != c.configSum && c.lead == nil:
		// A list that no quorum has elected anybody by may be the wrong one: it stops nobody.
		c.refuse(p, ReasonLeaderGone, "another voter list")
		return
	case m.ConfigSum != c.configSum:
		c.refuse(p, ReasonVoterList, "")
		return
	case m.Accepted >= MaxEpoch:
		c.refuse(p, ReasonEpochLimit, fmt.Sprintf("accepted epoch %d", m.Accepted))
		return
	}
	info := *m
	p.info = &info
	if c.lead != nil {
		c.admit(p)
		if c.lead != nil && c.lead.phase == discovering {
			c.discover()
		}
	}
}

func (c *Core) refuse(p *peerState, r Reason, detail string) {
	p.info = nil
	c.send(p.link, &Refuse{Reason: r, Detail: detail})
	if c.lead != nil {
		c.lead.refusals++
		c.dropLearner(p.id)
	}
}

// admit makes a learner of a peer whose LearnerInfo is at hand. An older state of it on this link ends.
func (c *Core) admit(p *peerState) {
	l := c.lead
	c.dropLearner(p.id)
	info := *p.info
	m, _ := c.member(p.id)
	x := &learner{
		id: p.id, link: p.link, info: info, state: greeted, progress: c.awake, begun: l.pingSeq,
		observer: info.Observer || m.Observer,
	}
	own := info.Ensemble != 0 && info.Ensemble == l.ensemble
	if info.Ensemble != 0 && !own && info.Transaction {
		if !c.hasTransaction() && l.phase < established {
			c.stepDown(ReasonNoSupport, 0) // somebody has data, so there is nothing to found (interleavings 10)
			return
		}
		c.refuse(p, ReasonForeignEnsemble, fmt.Sprintf("%#x, here %#x", uint64(info.Ensemble), uint64(l.ensemble)))
		return
	}
	if l.founding && l.phase < established && info.Ensemble != 0 && !own && !x.observer {
		// It has been in another founding meanwhile, which may have come further (interleavings 10).
		c.stepDown(ReasonNoSupport, 0)
		return
	}
	x.blank = !own
	x.counted = !x.observer && (own || l.founding && l.phase < established && !info.Transaction)
	if !x.observer && !x.counted {
		x.owes = c.committed
	}
	i, _ := slices.BinarySearchFunc(l.learners, x.id, func(x *learner, id ServerID) int { return cmpID(x.id, id) })
	l.learners = slices.Insert(l.learners, i, x)
	if l.phase >= promising {
		c.invite(x)
	}
}

// invite offers our epoch, once our own promise of it is durable (R3).
func (c *Core) invite(x *learner) {
	if x.info.Accepted > c.epoch {
		// It has promised a later epoch to a leadership that failed. Only a later one still can have it.
		c.lead.tooHigh = max(c.lead.tooHigh, x.info.Accepted)
		if c.lead.phase < established {
			c.lead.lost = append(c.lead.lost, x.id)
			c.abortEarly()
		} else {
			c.rollOver()
		}
		return
	}
	x.state = invited
	c.sendWhen(c.lead.promised, x.link, &LeaderInfo{Epoch: c.epoch, Ensemble: c.lead.ensemble})
}

// discover closes the first phase: Q(LearnerInfo) gives an epoch above everything promised in it.
func (c *Core) discover() {
	l := c.lead
	founding, ok := c.whoCounts()
	if !ok {
		return
	}
	if !c.verifier.Quorum(func(id ServerID) bool {
		if id == c.self {
			return true
		}
		x := c.learner(id)
		return x != nil && x.counted
	}) {
		return
	}
	l.founding = founding
	top := c.hard.Accepted
	for _, x := range l.learners {
		top = max(top, x.info.Accepted)
	}
	assert(top < MaxEpoch, "epoch %d was admitted", top)
	c.epoch = top + 1
	l.phase, l.progress = promising, c.awake
	if l.ensemble == 0 {
		for l.ensemble == 0 {
			l.ensemble = ID(c.rand.Uint64())
		}
	}
	l.promised = c.setHard(HardState{Accepted: c.epoch, Current: c.hard.Current}, 0)
	c.event(RoleChanged{Role: Leading, Leader: c.self, Epoch: c.epoch})
	for _, x := range l.learners {
		c.invite(x)
		if c.lead == nil {
			return
		}
	}
}

// whoCounts settles which learners count while the epoch is open: those of our ensemble; all of them when blanks
// alone found one, or when all voters are here and none has a transaction (interleavings 10). Not ok: nobody yet.
func (c *Core) whoCounts() (founding, ok bool) {
	l := c.lead
	stamped := c.ensemble != 0
	all, anyStamped, anyData := true, stamped, c.hasTransaction()
	for _, id := range c.verifier.Voters() {
		if id == c.self {
			continue
		}
		x := c.learner(id)
		if x == nil {
			all = false
			continue
		}
		anyStamped = anyStamped || x.info.Ensemble != 0
		anyData = anyData || x.info.Transaction
	}
	switch {
	case all && !anyData, !anyStamped && !anyData:
		founding = true
	case !stamped:
		return false, false // blank, and somebody is not: wait for all, or for the election to take it from us
	}
	for _, x := range l.learners {
		x.counted = !x.observer && (!x.blank || founding && !x.info.Transaction)
	}
	return founding, true
}

// onAckEpoch: the learner's promise, and what its history is.
func (c *Core) onAckEpoch(x *learner, m *AckEpoch) {
	if m.Epoch != c.epoch || x.state != invited {
		return
	}
	if validHistory(m.Epochs, m.Last) != nil || m.Base > m.Last || m.Delivered > m.Last || m.Last.Epoch() > m.Current {
		c.violation(x, ReasonBadMessage, "AckEpoch does not hold together")
		return
	}
	x.state, x.progress = promised, c.awake
	x.has = extent{base: m.Base, last: m.Last, delivered: m.Delivered, epochs: m.Epochs, needSnap: m.NeedSnap}
	// Equal histories are as good as each other, whatever epochs they were held under.
	ahead := summary{m.Current, m.Last}.ahead(c.lead.startEnd) && !sameHistory(c.epochs, m.Epochs)
	// One that cannot lead (its state is damaged, or it has no weight) must not keep others from leading either: where
	// it is ahead it does not count, and whoever holds committed transactions beside it will be waited for.
	canLead := !m.NeedSnap && c.verifier.Weight(x.id) > 0
	x.counts = m.Counts && x.counted && (canLead || !ahead)
	if c.lead.phase != promising {
		return
	}
	if x.counted && ahead && canLead {
		c.stepDown(ReasonBehindLearner, 0)
		return
	}
	c.countPromises()
	c.abortEarly()
	if c.lead != nil && c.lead.phase == promising && x.counted && !m.Counts && !c.mayCount() {
		// It promised this epoch before, to another or over a link that broke. The next epoch is above that, so its
		// promise will count there; waiting for voters that are not here would be waiting for initLimit.
		c.stepDown(ReasonNoSupport, 0)
	}
}

// mayCount: those who are here and whose promises count, or may still come, are a quorum.
func (c *Core) mayCount() bool {
	return c.verifier.Quorum(func(id ServerID) bool {
		if id == c.self {
			return true
		}
		x := c.learner(id)
		return x != nil && x.counted && (x.state < promised || x.counts)
	})
}

// countPromises closes the second phase: no history of Q(AckEpoch) is ahead of ours, so ours holds everything that
// was ever committed, and becomes the history of the epoch.
func (c *Core) countPromises() {
	l := c.lead
	self := c.durable.hard.Accepted >= c.epoch
	if l.phase != promising || !c.verifier.Quorum(func(id ServerID) bool {
		if id == c.self {
			return self
		}
		x := c.learner(id)
		return x != nil && x.counts
	}) {
		return
	}
	l.phase, l.progress = syncing, c.awake
	l.historyEnd = c.last
	assert(c.durable.last == c.last, "initial history %v is not durable: %v", c.last, c.durable.last)
	var stamp ID
	if c.ensemble != l.ensemble {
		stamp = l.ensemble
	}
	c.setHard(HardState{Accepted: c.hard.Accepted, Current: c.epoch}, stamp)
	c.hearAll() // from now on they are pinged
	c.startRound()
}

// abortEarly ends a leadership as soon as those who support it and those who may still do so are no quorum (R16).
func (c *Core) abortEarly() {
	l := c.lead
	if l == nil || l.phase != promising && l.phase != syncing {
		return
	}
	if !c.verifier.Quorum(func(id ServerID) bool {
		x := c.learner(id)
		return !slices.Contains(l.lost, id) &&
			(x == nil || x.counted && (l.phase == syncing || x.state < promised || x.counts))
	}) {
		c.stepDown(ReasonNoSupport, 0)
	}
}
