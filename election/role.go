package election

import "github.com/zkserver/zkserver/zab"

// settle: the zab core serves.
func (c *Core) settle(in Settled) {
	if in.Role == zab.Looking || c.round == 0 {
		return
	}
	c.role, c.leader = in.Role, in.Leader
	c.settled = Established{Leader: in.Leader, Epoch: in.Epoch}
	c.look.NeedSnap = false
	if in.Ensemble != 0 {
		c.look.Ensemble = in.Ensemble
	}
	if c.proposal.Leader != in.Leader {
		c.proposal = Vote{Leader: in.Leader, Zxid: c.look.Last, PeerEpoch: c.look.Current}
	}
	for _, id := range c.members {
		if h := c.latest[id]; h != nil && h.n.State == zab.Looking {
			c.pending[id] = true // it has asked before there was an answer
		}
	}
}

// resign takes back what this server says of its role; it makes no vote, so it need not wait for the disk. Questions are
// not answered until the next Look: two that have resigned would answer each other for ever.
func (c *Core) resign() {
	if c.role == zab.Looking || c.round == 0 || c.resigned {
		return
	}
	c.resigned, c.closed, c.settled = true, true, Established{}
	for _, id := range c.members {
		c.pending[id] = true
	}
}

// receiveHolding takes in a notification while a role is held.
func (c *Core) receiveHolding(from zab.ServerID, n *Notification, before *heard) {
	if c.round == 0 {
		return
	}
	if c.owesReply(n) {
		c.pending[from] = true
	}
	switch {
	case c.superseded(n):
		c.abandon(zab.ReasonSupersededEpoch)
	case from == c.leader:
		c.checkLeader(n, before)
	default:
		c.checkSupport()
	}
}

// superseded: another leader has established a later epoch, so that nothing can come any more of the one that this
// server serves in. It learns so when it is reached again after a pause or a partition.
func (c *Core) superseded(n *Notification) bool {
	return c.settled.Leader != 0 && n.settled() && n.Established.Leader != c.settled.Leader &&
		n.Established.Epoch > c.settled.Epoch
}

// owesReply: to those who look, and to those whose choice is contradicted by what this server knows. No two servers
// owe each other a reply for the other's reply.
func (c *Core) owesReply(n *Notification) bool {
	switch {
	case c.closed:
		return false // the next Look will say it
	case n.State == zab.Looking:
		return true
	case n.settled():
		return false
	case n.State == zab.Observing:
		return c.role != zab.Leading // it waits for one who does not lead
	case c.settled.Leader != 0:
		return n.Vote.Leader != c.settled.Leader
	default:
		return n.State == zab.Following && n.Vote.Leader == c.self && c.role != zab.Leading
	}
}

// hold lets time pass for a role that does not serve yet: its choice is repeated to those it depends on.
func (c *Core) hold() {
	if c.leader == 0 || c.settled.Leader != 0 || c.closed || c.now < c.resendAt {
		return
	}
	if c.leader == c.self {
		c.broadcast()
	} else {
		c.pending[c.leader] = true
	}
	c.backoff()
	c.checkSupport()
}

// stale: what a settled server says of an epoch not newer than the own is, for a while, from before it heard of a
// hand-over.
func (c *Core) stale(n *Notification) bool {
	return n.Established.Epoch <= c.look.Current && c.now < c.decidedAt+c.opts.ResendMax
}

// checkLeader leaves a chosen leader as soon as its own word names another (interleavings 25) or shows that it has
// begun anew: waiting for initLimit would be waiting for nobody.
func (c *Core) checkLeader(n *Notification, before *heard) {
	gone := false
	switch {
	case n.State == zab.Looking:
		again := n.Round < c.leaderRound && before != nil && before.n.Round >= c.leaderRound // its process restarted
		gone = n.Round > c.leaderRound || again || n.Round == c.leaderRound && n.Vote.Leader != c.leader
	case n.settled():
		gone = n.leader() != c.leader && !c.stale(n)
	default:
		gone = n.leader() != c.leader
	}
	if gone {
		c.abandon(zab.ReasonLeaderGone)
	}
}

// checkSupport gives up a leadership that no quorum can support any more (R16, 3109): those who support, and those
// who may still come to, are no quorum.
func (c *Core) checkSupport() {
	if c.leader != c.self || c.settled.Leader != 0 {
		return
	}
	if !c.verifier.Quorum(func(id zab.ServerID) bool { return id == c.self || c.maySupport(id) }) {
		c.abandon(zab.ReasonNoSupport)
	}
}

func (c *Core) maySupport(id zab.ServerID) bool {
	l, h := c.links[id], c.latest[id]
	switch {
	case l == nil:
		return false
	case h == nil:
		return l.up || !l.refused
	case !c.class.counts(h.n.Ensemble):
		return false
	case h.n.State == zab.Looking:
		// An older round, or a worse vote: it has not heard of this one yet and will follow.
		return h.n.Round < c.round || h.n.Round == c.round && !c.proposal.less(h.n.Vote)
	case h.n.settled():
		return h.n.leader() == c.self || c.stale(&h.n)
	default:
		return h.n.leader() == c.self || h.n.Round < c.round
	}
}

func (c *Core) abandon(r zab.Reason) {
	if c.closed {
		return
	}
	c.closed = true
	c.batch.Abandon = r
}
