package zab

import (
	"fmt"
	"time"
)

// learnerState is how far a learner has come. It only moves forward; a new LearnerInfo makes a new learner.
type learnerState uint8

const (
	greeted  learnerState = iota // LearnerInfo came
	invited                      // LeaderInfo left
	promised                     // AckEpoch came
	awaitSnapshot
	sendingSnapshot
	streaming // the cursor moves
)

// learner is the leader's view of one other server. Synchronizing it is placing its cursor: nothing is copied for it,
// what it needs comes from the ring or the log.
type learner struct {
	id       ServerID
	link     Link
	info     LearnerInfo
	state    learnerState
	observer bool
	counted  bool // may be counted in quorums: a voter of our ensemble
	blank    bool // came without our ensemble id
	counts   bool // its promise of our epoch counts
	owes     Zxid // a blank: what was committed when it came, perhaps with acks of the disk that it has lost
	has      extent
	plan     plan

	cursor   Zxid // last zxid sent
	acked    Zxid // last zxid durable there
	applied  Zxid
	upTo     Zxid // commit point told
	sent     []inFlight
	inFlight int
	readID   uint64 // of the log read under way, zero: none

	marked     bool // NewLeader left
	synced     bool // AckNewLeader came
	upToDate   bool // UpToDate left
	markedAt   time.Duration
	begun      uint64 // pingSeq when its LearnerInfo came
	answered   uint64 // youngest ping it has answered
	answeredAt time.Duration
	pongSeen   uint64
	progress   time.Duration
}

type inFlight struct {
	last  Zxid
	bytes int
}

func (x *learner) ack(z Zxid, now time.Duration) {
	x.acked, x.progress = z, now
	n := 0
	for n < len(x.sent) && x.sent[n].last <= z {
		x.inFlight -= x.sent[n].bytes
		n++
	}
	x.sent = append(x.sent[:0], x.sent[n:]...)
}

func (c *Core) learner(id ServerID) *learner {
	for _, x := range c.lead.learners {
		if x.id == id {
			return x
		}
	}
	return nil
}

// dropLearner forgets a learner. Whether a quorum is left is for the silence limit to say.
func (c *Core) dropLearner(id ServerID) {
	l := c.lead
	for i, x := range l.learners {
		if x.id != id {
			continue
		}
		if x.state == awaitSnapshot || x.state == sendingSnapshot {
			c.event(CancelSnapshot{Link: x.link})
		}
		l.learners = append(l.learners[:i:i], l.learners[i+1:]...)
		if l.handing != nil && l.handing.to == id {
			c.giveUpHandOver()
		}
		kept := l.syncs[:0]
		for _, w := range l.syncs {
			if w.from != id {
				kept = append(kept, w)
			}
		}
		l.syncs = kept
		return
	}
}

// flushLeader moves every cursor as far as window and commit point allow.
func (c *Core) flushLeader() {
	c.flushSyncs()
	for i := 0; c.lead != nil && i < len(c.lead.learners); i++ {
		x := c.lead.learners[i]
		c.pump(x)
		if i < len(c.lead.learners) && c.lead.learners[i] != x {
			i-- // it was refused
		}
	}
	c.finishHandOver()
}

func (c *Core) pump(x *learner) {
	if x.state == promised && c.lead.phase >= syncing {
		c.beginSync(x)
	}
	if x.state != streaming {
		return
	}
	c.stream(x)
	if !x.marked && x.cursor >= c.lead.historyEnd && c.mayMark(x) {
		c.markEnd(x)
		c.stream(x)
	}
	if x.synced && !x.upToDate && c.lead.phase == established {
		x.upToDate = true
		x.upTo = min(c.committed, x.cursor)
		c.send(x.link, &UpToDate{Epoch: c.epoch, Committed: x.upTo})
		c.ping(x) // with what it needs for its serving lease
	}
	if z := min(c.committed, x.cursor); x.upToDate && z > x.upTo {
		x.upTo = z
		c.send(x.link, &Commit{Epoch: c.epoch, Zxid: z})
	}
}

// beginSync chooses DIFF, TRUNC or SNAP. Only after Q(AckEpoch) is our history known to hold all that was committed,
// so nobody is cut or refused before.
func (c *Core) beginSync(x *learner) {
	p := planSync(extent{base: c.base, last: c.last, delivered: c.delivered, epochs: c.epochs}, x.has)
	x.plan, x.progress = p, c.awake
	if p.alarm {
		c.event(Alarm{Peer: x.id, Reason: ReasonTables, Detail: fmt.Sprintf("its history %v, ours %v", x.has.epochs, c.epochs)})
	}
	if p.refuse != ReasonNone {
		detail := fmt.Sprintf("delivered %v, common %v", x.has.delivered, p.common)
		c.event(Alarm{Peer: x.id, Reason: p.refuse, Detail: detail})
		c.refuse(c.peer(x.id), p.refuse, detail)
		return
	}
	if !p.alarm {
		c.commitTo(max(c.committed, x.has.delivered)) // what one has delivered is committed, and we hold it
	}
	switch p.mode {
	case SyncSnap:
		x.state = awaitSnapshot
		c.event(NeedSnapshot{Link: x.link, Min: p.min})
		return
	case SyncTrunc:
		c.stats.truncs++
		c.send(x.link, &SyncBegin{Epoch: c.epoch, Mode: SyncTrunc, TruncateTo: p.common})
	default:
		c.stats.diffs++
		c.send(x.link, &SyncBegin{Epoch: c.epoch, Mode: SyncDiff})
	}
	x.state, x.cursor, x.acked = streaming, p.common, p.common
}

// stream sends runs while the window has room.
func (c *Core) stream(x *learner) {
	limit := c.last
	if x.observer {
		limit = c.committed // an observer holds committed transactions only
	}
	if !x.marked {
		limit = min(limit, max(c.lead.historyEnd, x.owes))
	}
	for x.readID == 0 && x.cursor < limit && (x.inFlight == 0 || x.inFlight < c.opts.Window) {
		entries, bytes := c.ring.after(x.cursor, limit, min(c.opts.RunBytes, max(1, c.opts.Window-x.inFlight)))
		if len(entries) == 0 {
			c.readFor(x, limit)
			return
		}
		c.sendRun(x, entries, bytes)
	}
}

func (c *Core) sendRun(x *learner, entries []Entry, bytes int) {
	if len(x.sent) == 0 {
		x.progress = c.awake // it had nothing to do until now
	}
	prev, last := x.cursor, entries[len(entries)-1].Zxid
	x.cursor = last
	x.inFlight += bytes
	x.sent = append(x.sent, inFlight{last: last, bytes: bytes})
	x.upTo = max(x.upTo, min(c.committed, last))
	c.send(x.link, &Append{Epoch: c.epoch, Prev: prev, Entries: entries, Committed: min(c.committed, last)})
}

// readFor asks the host for what the ring no longer holds.
func (c *Core) readFor(x *learner, limit Zxid) {
	upTo := min(limit, c.ring.start, c.durable.last)
	if x.cursor >= upTo {
		return // its own disk is behind: the next Persisted helps
	}
	c.readID++ // never used again, so that the answer to another leadership's read is told apart
	x.readID = c.readID
	bytes := min(4*c.opts.RunBytes, max(1, c.opts.Window-x.inFlight))
	c.batch.Reads = append(c.batch.Reads, ReadRange{ID: x.readID, Link: x.link, After: x.cursor, Upto: upTo, Bytes: bytes})
}

func (c *Core) onLogRead(in LogRead) {
	if c.lead == nil {
		return
	}
	x := c.learner(in.Link.Peer)
	if x == nil || x.link != in.Link || x.readID == 0 || x.readID != in.ID || in.After != x.cursor {
		return
	}
	x.readID = 0
	switch {
	case in.Missing || len(in.Entries) == 0:
		// The log was cut meanwhile: the next synchronization will be a snapshot.
		c.cut(x.link, ReasonLogCut, fmt.Sprintf("at %v", x.cursor))
		return
	case !continues(x.cursor, in.Entries) || in.Entries[len(in.Entries)-1].Zxid > c.last:
		c.event(Alarm{Peer: c.self, Reason: ReasonGap, Detail: fmt.Sprintf("own log behind %v", x.cursor)})
		c.cut(x.link, ReasonGap, "own log")
		return
	}
	for rest := in.Entries; len(rest) > 0; {
		entries, bytes := head(rest, c.opts.RunBytes)
		c.sendRun(x, entries, bytes)
		rest = rest[len(entries):]
	}
}

// mayMark: an observer may learn of the epoch only when it is established, and a blank only from a leader that a
// quorum without it has confirmed since it came, and behind all that was committed by then: it stamps itself when it is
// told, and counts from then on (interleavings 10).
func (c *Core) mayMark(x *learner) bool {
	l := c.lead
	switch {
	case x.observer:
		return l.phase == established
	case !x.counted:
		return l.phase == established && l.confirmed > x.begun && x.cursor >= x.owes
	}
	return true
}

func (c *Core) markEnd(x *learner) {
	x.marked, x.markedAt, x.progress = true, c.now, c.awake
	c.ping(x) // its pong comes before AckNewLeader, so UpToDate can bring the serving lease along
	c.send(x.link, &NewLeader{
		Epoch: c.epoch, HistoryEnd: c.lead.historyEnd, Epochs: c.epochs.upTo(c.lead.historyEnd), Ensemble: c.lead.ensemble,
	})
}

func (c *Core) onSnapshotReady(in SnapshotReady) {
	if c.lead == nil {
		return
	}
	x := c.learner(in.Link.Peer)
	if x == nil || x.link != in.Link || x.state != awaitSnapshot {
		return
	}
	assert(in.Zxid <= c.committed && c.epochs.contains(in.Zxid), "snapshot at %v, committed %v", in.Zxid, c.committed)
	if in.Zxid < x.plan.min || in.Zxid < c.base {
		c.event(NeedSnapshot{Link: x.link, Min: max(x.plan.min, c.base)})
		return
	}
	common := x.plan.common
	x.state, x.progress = sendingSnapshot, c.awake
	x.cursor, x.acked = max(in.Zxid, common), in.Zxid
	c.stats.snapshots++
	c.send(x.link, &SyncBegin{
		Epoch: c.epoch, Mode: SyncSnap, TruncateTo: common, Snapshot: in.Zxid, Epochs: c.epochs.upTo(in.Zxid), Base: c.base,
	})
	c.event(StreamSnapshot{Link: x.link, Zxid: in.Zxid})
}

func (c *Core) onSnapshotSent(in SnapshotSent) {
	if c.lead == nil {
		return
	}
	x := c.learner(in.Link.Peer)
	if x == nil || x.link != in.Link || x.state != sendingSnapshot && (x.state != awaitSnapshot || !in.Failed) {
		return
	}
	if in.Failed {
		c.cut(x.link, ReasonNoProgress, "snapshot")
		return
	}
	x.state, x.progress = streaming, c.awake
}

func (c *Core) onSnapshotProgress(link Link) {
	switch {
	case c.lead != nil:
		if x := c.learner(link.Peer); x != nil && x.link == link {
			x.progress = c.awake
			c.lead.progress = c.awake
		}
	case c.learn != nil && link.Peer == c.leader:
		c.learn.progress = c.awake
	}
}
