package zab

import (
	"fmt"
	"slices"
	"time"
)

// phase of a leadership. Each step rests on one of the four quorum intersections of the Zab papers.
type phase uint8

const (
	discovering phase = iota // until Q(LearnerInfo): the epoch is above every one promised in it
	promising                // until Q(AckEpoch): no history in it is ahead of ours
	syncing                  // until Q(AckNewLeader): our history is theirs, durably
	established              // Q(Ack) commits
)

func (p phase) String() string {
	return [...]string{"discovering", "promising", "syncing", "established"}[p]
}

// leadership is what dies with the role.
type leadership struct {
	phase      phase
	startEnd   summary // our history when the role began
	historyEnd Zxid    // the initial history; committed as a whole by Q(AckNewLeader)
	ensemble   ID
	founding   bool // blanks count (interleavings 10)
	promised   uint64
	progress   time.Duration // of the way to being established
	learners   []*learner    // ascending
	lost       []ServerID    // voters that cannot support this epoch (R16)
	known      []heardVoter  // when each voter was last heard, links that went included

	nextPing  time.Duration
	rounds    []round // of pings, consecutive seqs
	pingSeq   uint64
	confirmed uint64        // youngest round that a quorum has answered
	contact   time.Duration // when it began
	resume    uint64        // after a pause: nothing commits before that round is confirmed
	asking    uint64        // round that waiting syncs are on; zero: none under way
	syncs     []syncWait

	handing  *handing
	tooHigh  Epoch // somebody has promised more than our epoch: open a higher one
	scratch  []vote
	refusals uint64
}

// summary orders histories as votes do.
type summary struct {
	current Epoch
	last    Zxid
}

func (s summary) ahead(o summary) bool {
	return s.current > o.current || s.current == o.current && s.last > o.last
}

type heardVoter struct {
	id ServerID
	at time.Duration
}

// round is one seq of pings, sent to all learners at once.
type round struct {
	seq uint64
	at  time.Duration
}

type vote struct {
	id ServerID
	v  uint64
}

func (c *Core) beginLeading() {
	c.role, c.epoch = Leading, 0
	l := &leadership{startEnd: summary{c.hard.Current, c.last}, progress: c.awake, ensemble: c.ensemble}
	c.lead = l
	for _, id := range c.verifier.Voters() {
		l.known = append(l.known, heardVoter{id: id, at: c.awake})
	}
	c.event(RoleChanged{Role: Leading, Leader: c.self})
	switch {
	case c.verifier.Weight(c.self) == 0 || c.needSnap || c.ensemble == 0 && c.hasTransaction():
		c.stepDown(ReasonNoSupport, 0)
		return
	case c.hard.Accepted >= MaxEpoch:
		c.stepDown(ReasonEpochLimit, 0)
		return
	}
	for i := range c.peers {
		if p := &c.peers[i]; p.up && p.info != nil {
			c.admit(p)
		}
		if c.lead == nil {
			return
		}
	}
	c.discover()
}

// hasTransaction tells a server that has data from one that merely took part in a founding.
func (c *Core) hasTransaction() bool { return c.last > 0 || c.base > 0 }

// endLeadership says goodbye and gives up what waited for it.
func (c *Core) endLeadership(r Reason, successor ServerID) {
	for _, x := range c.lead.learners {
		if x.state == sendingSnapshot || x.state == awaitSnapshot {
			c.event(CancelSnapshot{Link: x.link})
		}
	}
	// Also to those that only greeted. What they said is kept: one that does not go away is served by our next
	// leadership, and one that does says so.
	for i := range c.peers {
		if p := &c.peers[i]; p.up && p.info != nil {
			c.send(p.link, &Goodbye{Epoch: c.epoch, Reason: r, Last: c.last, Successor: successor})
		}
	}
	c.loseSyncs()
}

func (c *Core) receiveAsLeader(p *peerState, m Message) {
	x := c.learner(p.id)
	if x == nil {
		return
	}
	for i := range c.lead.known {
		if c.lead.known[i].id == p.id && x.counted {
			c.lead.known[i].at = c.awake
		}
	}
	switch m := m.(type) {
	case *AckEpoch:
		c.onAckEpoch(x, m)
	case *AckNewLeader:
		c.onAckNewLeader(x, m)
	case *Ack:
		c.onAck(x, m)
	case *Pong:
		c.onPong(x, m)
	case *SyncRequest:
		c.onSyncRequest(x, m)
	case *Goodbye:
		if m.Reason == ReasonSupersededEpoch && c.lead.phase < established {
			c.lead.lost = append(c.lead.lost, x.id)
		}
		c.dropLearner(p.id)
		c.abortEarly()
	}
}

// leaderDurable counts this server itself, which nothing but its own disk may do (R7).
func (c *Core) leaderDurable() {
	switch c.lead.phase {
	case promising:
		c.countPromises()
	case syncing:
		c.countNewLeader()
	case established:
		c.advanceCommit()
	}
}

// onAckNewLeader: the learner holds our initial history and currentEpoch durably.
func (c *Core) onAckNewLeader(x *learner, m *AckNewLeader) {
	if m.Epoch != c.epoch {
		return
	}
	if !x.marked || x.synced || m.HistoryEnd != c.lead.historyEnd {
		c.violation(x, ReasonBadMessage, "AckNewLeader out of place")
		return
	}
	x.synced = true
	x.acked = max(x.acked, m.HistoryEnd)
	x.progress = c.awake
	x.answeredAt = x.markedAt
	if !x.observer && !x.counted && c.verifier.Voter(x.id) {
		x.counted = true // a blank that has stamped itself (interleavings 10)
	}
	switch c.lead.phase {
	case syncing:
		c.lead.progress = c.awake
		c.countNewLeader()
	case established:
		c.confirm()
		c.advanceCommit()
	}
}

// countNewLeader establishes the epoch: the whole initial history is committed, the tail of older epochs included.
func (c *Core) countNewLeader() {
	l := c.lead
	self := c.durable.hard.Current == c.epoch
	if !c.verifier.Quorum(func(id ServerID) bool {
		if id == c.self {
			return self
		}
		x := c.learner(id)
		return x != nil && x.counted && x.synced
	}) {
		return
	}
	l.phase, l.progress = established, c.awake
	assert(c.last == l.historyEnd, "proposed before the epoch was established")
	c.commitTo(l.historyEnd)
	c.hearAll()
	c.confirm()
	c.serveWhenApplied()
	if l.tooHigh > 0 {
		c.rollOver()
	}
}

// onAck moves a learner's match. Acks before AckNewLeader only make room in its window.
func (c *Core) onAck(x *learner, m *Ack) {
	if m.Epoch != c.epoch || x.state < sendingSnapshot {
		return
	}
	if m.Durable > x.cursor {
		c.violation(x, ReasonBadMessage, fmt.Sprintf("ack of %v, sent %v", m.Durable, x.cursor))
		return
	}
	if m.Durable <= x.acked {
		return
	}
	x.ack(m.Durable, c.awake)
	if c.lead.phase < established {
		c.lead.progress = c.awake
		return
	}
	if x.counted && x.synced {
		c.advanceCommit()
	}
}

// advanceCommit moves the commit point to the largest zxid that a quorum holds durably. It is one of this epoch: the
// initial history was committed as a whole when the epoch was established.
func (c *Core) advanceCommit() {
	l := c.lead
	if l.phase != established || l.confirmed < l.resume {
		return
	}
	z := Zxid(c.quorumValue(func(x *learner) uint64 { return uint64(x.acked) }, uint64(c.durable.last)))
	if z <= c.committed {
		return
	}
	assert(z.Epoch() == c.epoch && z <= c.last, "commit of %v in epoch %d, log end %v", z, c.epoch, c.last)
	c.commitTo(z)
}

// commitTo moves the commit point.
//
// Invariant (prefix): it only grows and never passes the log.
func (c *Core) commitTo(z Zxid) {
	assert(z <= c.last, "commit %v beyond the log %v", z, c.last)
	c.committed = max(c.committed, z)
}

// quorumValue is the largest v such that the voters whose value is at least v are a quorum; synced, counted learners
// and this server vote.
func (c *Core) quorumValue(of func(*learner) uint64, self uint64) uint64 {
	l := c.lead
	l.scratch = l.scratch[:0]
	for _, x := range l.learners {
		if x.counted && x.synced {
			l.scratch = append(l.scratch, vote{x.id, of(x)})
		}
	}
	l.scratch = append(l.scratch, vote{c.self, self})
	slices.SortFunc(l.scratch, func(a, b vote) int {
		switch {
		case a.v > b.v:
			return -1
		case a.v < b.v:
			return 1
		}
		return 0
	})
	if m, ok := c.verifier.(*Majority); ok {
		if need := len(m.voters)/2 + 1; need <= len(l.scratch) {
			return l.scratch[need-1].v
		}
		return 0
	}
	for n := range l.scratch {
		if c.verifier.Quorum(func(id ServerID) bool {
			return slices.ContainsFunc(l.scratch[:n+1], func(w vote) bool { return w.id == id })
		}) {
			return l.scratch[n].v
		}
	}
	return 0
}

// NextZxid is the zxid of the next proposal; false while this server may not propose.
func (c *Core) NextZxid() (Zxid, bool) {
	l := c.lead
	if l == nil || l.phase != established || !c.serving || l.handing != nil || l.tooHigh > 0 {
		return 0, false
	}
	if c.last.Epoch() != c.epoch {
		return MakeZxid(c.epoch, 1), true
	}
	return c.last + 1, c.last.Counter() < c.opts.CounterLimit
}

func (c *Core) propose(entries []Entry) {
	if len(entries) == 0 {
		return
	}
	next, ok := c.NextZxid()
	assert(ok && entries[0].Zxid == next, "propose %v, next is %v (%v)", entries[0].Zxid, next, ok)
	assert(entries[len(entries)-1].Zxid.Epoch() == c.epoch, "a run crosses the epoch")
	c.appendLog(entries)
	c.stats.proposals += uint64(len(entries))
	if c.last.Counter() >= c.opts.CounterLimit {
		c.rollOver()
	}
}

// violation cuts the link of a learner that breaks the protocol.
func (c *Core) violation(x *learner, r Reason, detail string) {
	c.cut(x.link, r, detail)
}

// serveWhenApplied opens service once the tree has what must be seen first.
func (c *Core) serveWhenApplied() {
	if c.serving {
		return
	}
	switch {
	case c.lead != nil && c.lead.phase == established && c.applied >= c.lead.historyEnd:
	case c.learn != nil && c.learn.state == upToDate && c.applied >= c.learn.target && c.switching <= c.persisted:
	default:
		return
	}
	c.serving = true
	c.event(Serving{On: true, Epoch: c.epoch})
	c.renewLease()
}
