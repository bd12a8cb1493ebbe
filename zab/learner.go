package zab

import (
	"fmt"
	"time"
)

// learningState is how far this server has come with its leader.
type learningState uint8

const (
	connecting learningState = iota // no link yet
	greeting                        // LearnerInfo left
	pledged                         // AckEpoch is on its way
	installing                      // a snapshot is to come
	catchingUp                      // the initial history flows
	complete                        // AckNewLeader is on its way
	upToDate                        // may serve
)

// learning is what dies with the role of a follower or observer.
type learning struct {
	state    learningState
	heard    time.Duration // from the leader in this epoch
	pinged   bool          // it does ping
	progress time.Duration

	snapshot *SyncBegin        // to be switched to
	arrived  *SnapshotReceived // overtook its SyncBegin: bulk and protocol are two streams
	held     []Message         // came before the snapshot was switched to
	heldSize int

	target  Zxid // commit point of UpToDate
	pongSeq uint64
	pongs   []round       // those that no ping has confirmed yet
	contact time.Duration // when the youngest confirmed one was sent

	asking  []uint64    // syncs of this server's clients, not sent yet
	asked   []syncGroup // sent, in order
	groupID uint64
}

type syncGroup struct {
	id  uint64
	ids []uint64
}

func (c *Core) beginLearning() {
	c.role, c.epoch = Following, 0
	if c.observer {
		c.role = Observing
	}
	c.learn = &learning{progress: c.awake}
	c.event(RoleChanged{Role: c.role, Leader: c.leader})
	p := c.peer(c.leader)
	switch {
	case p == nil:
		c.stepDown(ReasonLeaderGone, 0)
	case p.up:
		c.greet(p)
	}
}

func (c *Core) greet(p *peerState) {
	c.learn.state, c.learn.progress = greeting, c.awake
	c.send(p.link, &LearnerInfo{
		Ensemble: c.ensemble, Instance: c.instance, Observer: c.observer, Transaction: c.hasTransaction(),
		Accepted: c.hard.Accepted, ConfigSum: c.configSum, Version: ProtocolVersion,
	})
}

func (c *Core) endLearning(r Reason) {
	l := c.learn
	p := c.peer(c.leader)
	if p != nil && p.up && l.state >= greeting {
		c.send(p.link, &Goodbye{Epoch: c.epoch, Reason: r, Last: c.last})
	}
	if l.snapshot != nil {
		c.event(CancelSnapshot{Link: p.link})
	}
	for _, id := range l.asking {
		c.event(SyncDone{ID: id, Lost: true})
	}
	for _, g := range l.asked {
		for _, id := range g.ids {
			c.event(SyncDone{ID: id, Lost: true})
		}
	}
}

func (c *Core) receiveAsLearner(m Message) {
	c.learn.heard = c.awake
	if c.learn.state == installing && c.hold(m) {
		return
	}
	switch m := m.(type) {
	case *LeaderInfo:
		c.onLeaderInfo(m)
	case *SyncBegin:
		c.onSyncBegin(m)
	case *Append:
		c.onAppend(m)
	case *NewLeader:
		c.onNewLeader(m)
	case *UpToDate:
		c.onUpToDate(m)
	case *Commit:
		if m.Epoch == c.epoch && c.learn.state >= complete {
			c.learnCommit(m.Zxid)
		}
	case *Ping:
		c.onPing(m)
	case *SyncReply:
		c.onSyncReply(m)
	case *TimeoutNow:
		c.onTimeoutNow(m)
	case *Goodbye:
		c.onLeaderGoodbye(m)
	case *Refuse:
		c.onRefuse(m)
	}
}

// broken ends following a leader that breaks the protocol or whose stream does not continue our log. The link goes
// too: what is on it belongs to a history we cannot place; the next synchronization will.
func (c *Core) broken(r Reason, format string, args ...any) {
	link := c.peer(c.leader).link
	c.stepDown(r, 0)
	c.cut(link, r, fmt.Sprintf(format, args...))
}

// onLeaderInfo promises the epoch: durably before AckEpoch (R3), and counted once only.
func (c *Core) onLeaderInfo(m *LeaderInfo) {
	l := c.learn
	if l.state != greeting {
		return
	}
	switch {
	case m.Epoch > MaxEpoch || m.Epoch == 0:
		c.broken(ReasonEpochLimit, "epoch %d", m.Epoch)
		return
	case m.Epoch < c.hard.Accepted:
		c.stepDown(ReasonSupersededEpoch, 0)
		return
	case c.ensemble != 0 && m.Ensemble != c.ensemble && c.hasTransaction():
		c.stepDown(ReasonForeignEnsemble, 0)
		return
	}
	counts := m.Epoch > c.hard.Accepted
	op := PersistOp{Commit: c.committed}
	if counts {
		h := HardState{Accepted: m.Epoch, Current: c.hard.Current}
		c.raise(h)
		op.Hard = &h
	}
	if c.ensemble != 0 && c.ensemble != m.Ensemble {
		// Left over from a founding that came to nothing. Transactions must not arrive under its id, nor may it count
		// before it has them (interleavings 10).
		c.ensemble, op.Unstamp = 0, true
	}
	if op.Hard != nil || op.Unstamp {
		c.persist(op)
	}
	c.epoch = m.Epoch
	l.state, l.progress = pledged, c.awake
	c.event(RoleChanged{Role: c.role, Leader: c.leader, Epoch: c.epoch})
	c.sendWhen(c.seq, c.peer(c.leader).link, &AckEpoch{
		Ensemble: c.ensemble, Epoch: m.Epoch, Counts: counts, Current: c.hard.Current, Last: c.last,
		Delivered: max(c.committed, c.delivered), Base: c.base, NeedSnap: c.needSnap, Epochs: append([]EpochEnd{}, c.epochs...),
	})
}

// onPing answers at once: a pong promises nothing of the disk that the acks do not.
func (c *Core) onPing(m *Ping) {
	l := c.learn
	if m.Epoch != c.epoch || l.state < pledged {
		return
	}
	l.pinged = true
	if m.Committed > 0 && l.state >= complete {
		c.learnCommit(m.Committed)
		if c.learn != l {
			return
		}
	}
	n := 0
	for n < len(l.pongs) && l.pongs[n].seq <= m.PongSeen {
		if m.HasQuorum {
			l.contact = max(l.contact, l.pongs[n].at)
		}
		n++
	}
	if m.HasQuorum {
		l.pongs = append(l.pongs[:0], l.pongs[n:]...)
	}
	l.pongSeq++
	l.pongs = append(l.pongs, round{seq: l.pongSeq, at: c.now})
	if len(l.pongs) > maxRounds {
		l.pongs = append(l.pongs[:0], l.pongs[1:]...)
	}
	c.send(c.peer(c.leader).link, &Pong{
		Epoch: c.epoch, Seq: m.Seq, PongSeq: l.pongSeq, Durable: c.durable.last, Applied: c.applied, Current: c.durable.hard.Current,
	})
	c.renewLease()
}

// flushLearner sends one request for all syncs that came since the last batch.
func (c *Core) flushLearner() {
	l := c.learn
	if len(l.asking) == 0 {
		return
	}
	l.groupID++
	l.asked = append(l.asked, syncGroup{id: l.groupID, ids: l.asking})
	l.asking = nil
	c.send(c.peer(c.leader).link, &SyncRequest{Epoch: c.epoch, ID: l.groupID})
}

func (c *Core) onSyncReply(m *SyncReply) {
	if m.Epoch != c.epoch {
		return
	}
	for i, g := range c.learn.asked {
		if g.id == m.ID {
			for _, id := range g.ids {
				c.event(SyncDone{ID: id, Index: m.Index})
			}
			c.learn.asked = append(c.learn.asked[:i], c.learn.asked[i+1:]...)
			return
		}
	}
}

// onTimeoutNow: the leader hands over to this server, which has everything durably.
func (c *Core) onTimeoutNow(m *TimeoutNow) {
	if m.Epoch != c.epoch || c.learn.state != upToDate || m.Last != c.last {
		return
	}
	epoch := c.epoch
	c.stepDown(ReasonHandOver, c.self)
	c.event(Campaign{Epoch: epoch})
}

func (c *Core) onLeaderGoodbye(m *Goodbye) {
	// While greeting, the farewell of an earlier leadership may still be on the way.
	if m.Epoch != c.epoch && (c.learn.state > greeting || m.Epoch != 0 && m.Epoch <= c.hard.Accepted) {
		return
	}
	if m.Reason == ReasonHandOver {
		c.stepDown(ReasonHandOver, m.Successor)
		return
	}
	c.stepDown(ReasonLeaderGone, 0)
}

// onRefuse: some refusals pass by themselves, others are for the operator.
func (c *Core) onRefuse(m *Refuse) {
	switch m.Reason {
	case ReasonForeignEnsemble, ReasonDeliveredBeyond, ReasonVoterList, ReasonVersion:
		c.fatal(m.Reason, m.Detail)
	default:
		c.stepDown(m.Reason, 0)
	}
}

func (c *Core) fatal(r Reason, detail string) {
	c.event(Fatal{Reason: r, Detail: detail})
	c.stepDown(r, 0)
}
