package zab

import (
	"math"
	"time"
)

// syncWait is a sync that waits for a quorum to confirm, since it came, that this server still leads.
type syncWait struct {
	from  ServerID // zero: one of this server's own clients
	id    uint64
	index Zxid
	round uint64 // zero: not on a round yet
}

// maxRounds bounds what is remembered of rounds; an answer to an older one confirms nothing.
const maxRounds = 64

// startRound sends one ping to every learner. Heartbeats and syncs share the rounds.
func (c *Core) startRound() {
	l := c.lead
	l.pingSeq++
	l.rounds = append(l.rounds, round{seq: l.pingSeq, at: c.now})
	if n := len(l.rounds) - maxRounds; n > 0 {
		l.rounds = append(l.rounds[:0], l.rounds[n:]...)
	}
	l.nextPing = c.now + c.opts.Heartbeat
	for _, x := range l.learners {
		if x.state >= promised {
			c.ping(x)
		}
	}
	c.confirm() // a quorum of one confirms itself
}

func (c *Core) ping(x *learner) {
	var z Zxid
	if x.upToDate {
		z = min(c.committed, x.cursor)
		x.upTo = max(x.upTo, z)
	}
	c.send(x.link, &Ping{Epoch: c.epoch, Seq: c.lead.pingSeq, Committed: z, HasQuorum: c.hasQuorum(), PongSeen: x.pongSeen})
}

// hasQuorum: a quorum was in contact within the lease, so a learner that hears it is served by a real leader.
func (c *Core) hasQuorum() bool {
	return c.lead.phase == established && c.now <= c.lead.contact+c.opts.Lease
}

func (c *Core) onPong(x *learner, m *Pong) {
	l := c.lead
	if m.Epoch != c.epoch || x.state < promised || m.Seq > l.pingSeq {
		return
	}
	x.pongSeen = max(x.pongSeen, m.PongSeq)
	x.applied = m.Applied
	if m.Seq <= x.answered {
		return
	}
	x.answered = m.Seq
	if len(l.rounds) > 0 && m.Seq >= l.rounds[0].seq {
		x.answeredAt = max(x.answeredAt, l.rounds[m.Seq-l.rounds[0].seq].at)
	}
	if x.counted && x.synced && l.phase == established {
		c.confirm()
	}
}

// confirm takes stock of the rounds. Contact is dated by the sending of what was answered, never by receipt
// (interleavings 13).
func (c *Core) confirm() {
	l := c.lead
	if l.phase != established {
		return
	}
	l.confirmed = max(l.confirmed, c.quorumValue(func(x *learner) uint64 { return x.answered }, l.pingSeq))
	l.contact = max(l.contact, time.Duration(c.quorumValue(func(x *learner) uint64 { return uint64(x.answeredAt) }, uint64(c.now))))
	if l.asking != 0 && l.confirmed >= l.asking {
		l.asking = 0
	}
	c.renewLease()
	c.advanceCommit()
}

// renewLease publishes until when clients may be answered (architecture 4.13). An ensemble of one needs no leave.
func (c *Core) renewLease() {
	switch {
	case !c.serving:
	case c.lead != nil && c.alone:
		c.lease = math.MaxInt64
	case c.lead != nil:
		c.lease = max(c.lease, c.lead.contact+c.opts.Lease)
	case c.learn != nil && c.learn.contact > 0:
		c.lease = max(c.lease, c.learn.contact+c.opts.Lease)
	}
}

// syncRead asks, for one of this server's clients, for an index that is linearizable once applied (C.3).
func (c *Core) syncRead(id uint64) {
	switch {
	case c.lead != nil && c.lead.phase == established:
		c.lead.syncs = append(c.lead.syncs, syncWait{id: id, index: c.last})
	case c.learn != nil && c.learn.state == upToDate:
		c.learn.asking = append(c.learn.asking, id)
	default:
		c.event(SyncDone{ID: id, Lost: true})
	}
}

func (c *Core) onSyncRequest(x *learner, m *SyncRequest) {
	if m.Epoch != c.epoch || !x.upToDate {
		return
	}
	c.lead.syncs = append(c.lead.syncs, syncWait{from: x.id, id: m.ID, index: c.last})
}

// flushSyncs puts waiting syncs on a round, one round at a time, and answers those whose round is confirmed and whose
// index is committed.
func (c *Core) flushSyncs() {
	l := c.lead
	if len(l.syncs) == 0 {
		return
	}
	if l.asking == 0 && l.syncs[len(l.syncs)-1].round == 0 {
		for i := range l.syncs {
			if l.syncs[i].round == 0 {
				l.syncs[i].round = l.pingSeq + 1
			}
		}
		l.asking = l.pingSeq + 1
		c.startRound()
	}
	kept := l.syncs[:0]
	for _, w := range l.syncs {
		switch {
		case w.round == 0 || w.round > l.confirmed || w.index > c.committed:
			kept = append(kept, w)
		case w.from == 0:
			c.event(SyncDone{ID: w.id, Index: w.index})
		default:
			if x := c.learner(w.from); x != nil {
				c.send(x.link, &SyncReply{Epoch: c.epoch, ID: w.id, Index: w.index})
			}
		}
	}
	l.syncs = kept
}

// loseSyncs: leadership ends; syncs of this server's clients go to the next leader.
func (c *Core) loseSyncs() {
	for _, w := range c.lead.syncs {
		if w.from == 0 {
			c.event(SyncDone{ID: w.id, Lost: true})
		}
	}
}
