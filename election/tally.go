package election

import (
	"time"

	"github.com/zkserver/zkserver/zab"
)

// class says whose votes count (A.8(9), interleavings 10).
type class struct {
	everyone bool   // blanks alone, or all voters together and none has a transaction
	id       zab.ID // else: those stamped with it
}

func (k class) counts(id zab.ID) bool { return k.everyone || id == k.id }

// classify looks at the identities of all voters heard. A blank does not count next to a stamped voter: it may have
// forgotten what it acknowledged.
func (c *Core) classify() class {
	if c.look.Ensemble != 0 && c.look.Transaction {
		return class{id: c.look.Ensemble}
	}
	var full, stamped zab.ID
	all := c.votes()
	for _, v := range c.voters {
		if v == c.self {
			continue
		}
		h := c.latest[v]
		if h == nil {
			all = false
			continue
		}
		if !h.n.foundable() && (full == 0 || h.n.Ensemble == c.look.Ensemble) {
			full = h.n.Ensemble
		}
		if stamped == 0 {
			stamped = h.n.Ensemble
		}
		all = all && c.inRound(&h.n)
	}
	if c.look.Ensemble != 0 {
		stamped = c.look.Ensemble
	}
	switch {
	case full != 0:
		return class{id: full}
	case all || stamped == 0:
		return class{everyone: true}
	default:
		return class{id: stamped}
	}
}

// own is this server as a candidate.
func (c *Core) own() Vote {
	if !c.eligible() || !c.class.counts(c.look.Ensemble) {
		return Vote{}
	}
	return Vote{Leader: c.self, Zxid: c.look.Last, PeerEpoch: c.look.Current}
}

func (c *Core) eligible() bool { return c.votes() && c.verifier.Weight(c.self) > 0 }

// inRound reports a notification that belongs to the present round: of a server that looks, or has chosen in it but
// does not serve yet. What settled servers say is judged by settledLeader alone.
func (c *Core) inRound(n *Notification) bool {
	return n.Round == c.round && !n.settled() && n.State != zab.Observing
}

// vote is a voter's countable vote in the present round.
func (c *Core) vote(id zab.ServerID) (*Notification, bool) {
	h := c.latest[id]
	if h == nil || !c.inRound(&h.n) || !c.class.counts(h.n.Ensemble) || h.n.Vote.none() {
		return nil, false
	}
	return &h.n, true
}

// evaluate draws the conclusions of what is known.
func (c *Core) evaluate() {
	if !c.Looking() {
		return
	}
	c.propose()
	if l := c.settledLeader(); l != 0 {
		n := &c.latest[l].n
		c.proposal = Vote{Leader: l, Zxid: n.Vote.Zxid, PeerEpoch: n.Established.Epoch}
		c.round = max(c.round, n.Round) // a process never counts one round twice
		c.decide(l)
		c.leaderRound = n.Round
		return
	}
	if c.called() {
		c.decide(c.proposal.Leader)
		return
	}
	if !c.supported() {
		c.finalizeAt = 0
		return
	}
	if c.complete() {
		c.decide(c.proposal.Leader)
		return
	}
	if c.finalizeAt == 0 {
		c.finalizeAt = c.now + c.patience() + zab.QuantumLength // now may be a quantum old
		return
	}
	if c.now >= c.finalizeAt {
		c.decide(c.proposal.Leader)
	}
}

// propose takes the best vote of those that count. Within a round and a class a proposal only gets better.
func (c *Core) propose() {
	before := c.proposal
	if k := c.classify(); k != c.class {
		c.class = k
		c.proposal = c.own()
	}
	for _, v := range c.voters {
		if n, ok := c.vote(v); ok && !c.barred[n.Vote.Leader] && c.proposal.less(n.Vote) {
			c.proposal = n.Vote
		}
	}
	if c.proposal != before {
		c.finalizeAt = 0
		c.broadcast()
	}
	if l := c.proposal.Leader; l != 0 && l != c.self && !c.hears(l) {
		if _, ok := c.since[l]; !ok {
			c.since[l] = c.now
		}
	}
}

// hears reports that a candidate itself stands, as far as its own word goes: others may still vote for one that is
// dead (131, 975), and one that cannot be heard cannot be followed.
func (c *Core) hears(id zab.ServerID) bool {
	h := c.latest[id]
	return h != nil && c.class.counts(h.n.Ensemble) && h.n.leader() == id &&
		(c.inRound(&h.n) || h.n.settled() && h.n.State == zab.Leading)
}

// called reports that the candidate has counted a quorum and begins to lead: whoever votes for it need not count again.
func (c *Core) called() bool {
	if c.proposal.none() || c.proposal.Leader == c.self || !c.votes() || !c.class.counts(c.look.Ensemble) {
		return false
	}
	h := c.latest[c.proposal.Leader]
	return h != nil && h.n.State == zab.Leading && c.inRound(&h.n) && c.hears(c.proposal.Leader)
}

// supported reports that a quorum, this server in it, votes for the proposal.
func (c *Core) supported() bool {
	if c.proposal.none() || !c.votes() || !c.class.counts(c.look.Ensemble) {
		return false
	}
	if c.proposal.Leader != c.self && !c.hears(c.proposal.Leader) {
		return false
	}
	return c.verifier.Quorum(func(id zab.ServerID) bool {
		if id == c.self {
			return true
		}
		n, ok := c.vote(id)
		if !ok {
			return false
		}
		if n.State != zab.Looking {
			return n.Vote.Leader == c.proposal.Leader // it has chosen; what it knows of the log may be older
		}
		return n.Vote == c.proposal
	})
}

// complete reports that no better vote can come: each voter has spoken in this round (and says at least what it has
// itself), or is known to be down.
func (c *Core) complete() bool {
	for _, v := range c.voters {
		if v == c.self {
			continue
		}
		if h := c.latest[v]; h != nil && c.inRound(&h.n) {
			continue
		}
		if !c.knownDown(v) {
			return false
		}
	}
	return true
}

// knownDown: refused or reset, and not heard of since, neither directly nor through others (interleavings 25).
func (c *Core) knownDown(id zab.ServerID) bool {
	l := c.links[id]
	if l == nil || l.up || !l.refused {
		return false
	}
	for _, m := range c.members {
		if h := c.latest[m]; h != nil && (h.n.Vote.Leader == id || h.n.Established.Leader == id) {
			return false
		}
	}
	return true
}

// maxPatience: a round trip measured under load says little, and finishing early only risks another round.
const maxPatience = 250 * time.Millisecond

// patience is how long a quorum waits for a better vote.
func (c *Core) patience() time.Duration {
	var rtt time.Duration
	for _, v := range c.voters {
		if l := c.links[v]; l != nil && l.up {
			rtt = max(rtt, l.rtt)
		}
	}
	return max(min(2*rtt, maxPatience), c.opts.Finalize)
}

// settledLeader finds the leader of an ensemble that serves already: a quorum of voters and the leader itself say
// so. Only (leader, epoch) are compared (A.8(1)); a server never learns from others that it leads itself.
func (c *Core) settledLeader() zab.ServerID {
	for _, l := range c.voters {
		h := c.latest[l]
		if l == c.self || h == nil || h.n.State != zab.Leading || h.n.Established.Leader != l {
			continue
		}
		if c.verifier.Quorum(func(id zab.ServerID) bool {
			o := c.latest[id]
			return id != c.self && o != nil && o.n.settled() && o.n.State != zab.Observing &&
				o.n.Established == h.n.Established && sameEnsemble(o.n.Ensemble, h.n.Ensemble)
		}) {
			return l
		}
	}
	return 0
}

// decide ends the instance.
func (c *Core) decide(leader zab.ServerID) {
	c.leader, c.leaderRound, c.decidedAt = leader, c.round, c.now
	c.resendWait = c.opts.ResendMin
	c.backoff()
	c.finalizeAt = 0
	switch {
	case leader == c.self:
		c.role = zab.Leading
	case c.voter:
		c.role = zab.Following
	default:
		c.role = zab.Observing
	}
	for _, h := range c.latest {
		h.fresh = false // order does not matter
	}
	c.batch.Decided = &Decision{Leader: leader}
	if leader != c.self {
		c.pending[leader] = true
	} else {
		c.broadcast()
	}
}
