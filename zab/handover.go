package zab

import "time"

// handing is a hand-over under way: nothing is proposed, until everything is committed and the successor has it.
type handing struct {
	to       ServerID      // this server itself: the next epoch is opened over the links there are
	deadline time.Duration // zero: no giving up
}

// handOver begins a graceful end of this leadership (G.3). Before TimeoutNow has left it may be given up.
func (c *Core) handOver(to ServerID) {
	l := c.lead
	if l == nil || l.phase != established || l.handing != nil {
		if l == nil || l.phase != established {
			c.event(HandOverGivenUp{})
		}
		return
	}
	if to == 0 {
		to = c.bestFollower()
	}
	if x := c.learner(to); x == nil || !c.mayTakeOver(x) || !c.goesOnWithout() {
		c.event(HandOverGivenUp{})
		return
	}
	l.handing = &handing{to: to, deadline: c.awake + c.opts.HandOverLimit}
}

func (c *Core) mayTakeOver(x *learner) bool {
	return x.counted && x.upToDate && c.verifier.Weight(x.id) > 0
}

// goesOnWithout: those that stay are a quorum. A successor that is left without one would wait for it until the initLimit,
// and so would whoever comes back meanwhile: without a successor they elect at once.
func (c *Core) goesOnWithout() bool {
	return c.verifier.Quorum(func(id ServerID) bool {
		x := c.learner(id)
		return x != nil && x.counted && x.upToDate
	})
}

// bestFollower has the most, then has applied the most, then has the largest id.
func (c *Core) bestFollower() ServerID {
	var best *learner
	for _, x := range c.lead.learners {
		if !c.mayTakeOver(x) {
			continue
		}
		if best == nil || x.acked > best.acked || x.acked == best.acked && x.applied >= best.applied {
			best = x
		}
	}
	if best == nil {
		return 0
	}
	return best.id
}

// rollOver opens the next epoch: at the end of the counter (R19), or because somebody has promised a later epoch than
// ours and could not follow otherwise.
func (c *Core) rollOver() {
	l := c.lead
	if l.phase != established || l.handing != nil {
		return
	}
	l.handing = &handing{to: c.self}
}

func (c *Core) giveUpHandOver() {
	c.lead.handing = nil
	c.event(HandOverGivenUp{})
	if c.lead.tooHigh > 0 || c.last.Epoch() == c.epoch && c.last.Counter() >= c.opts.CounterLimit {
		c.rollOver()
	}
}

// finishHandOver ends the leadership once everything is committed and durable at the successor. It comes last in a
// flush: the final commits have left.
func (c *Core) finishHandOver() {
	l := c.lead
	if l == nil || l.handing == nil || c.committed != c.last || !c.serving {
		return
	}
	to := l.handing.to
	if to != c.self {
		x := c.learner(to)
		if x.acked != c.last {
			return
		}
		c.send(x.link, &TimeoutNow{Epoch: c.epoch, Last: c.last})
	}
	epoch := c.epoch
	c.event(HandedOver{To: to})
	c.stepDown(ReasonHandOver, to)
	if to == c.self {
		c.event(Campaign{Epoch: epoch})
	}
}
