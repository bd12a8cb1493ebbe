package zab

import "fmt"

// onSyncBegin learns how the leader's history is reached.
func (c *Core) onSyncBegin(m *SyncBegin) {
	l := c.learn
	if m.Epoch != c.epoch {
		return
	}
	if l.state != pledged {
		c.broken(ReasonBadMessage, "SyncBegin out of place")
		return
	}
	l.progress = c.awake
	switch m.Mode {
	case SyncDiff:
		l.state = catchingUp
	case SyncTrunc:
		switch {
		case m.TruncateTo > c.last || !c.epochs.contains(m.TruncateTo):
			c.broken(ReasonBadMessage, "truncate to %v, history %v", m.TruncateTo, c.epochs)
			return
		case m.TruncateTo < c.base:
			c.broken(ReasonBadMessage, "truncate to %v, log base %v", m.TruncateTo, c.base)
			return
		case m.TruncateTo < c.committed:
			c.fatal(ReasonDeliveredBeyond, fmt.Sprintf("told to truncate to %v, delivered %v", m.TruncateTo, c.committed))
			return
		}
		l.state = catchingUp
		if m.TruncateTo < c.last {
			c.truncateLog(m.TruncateTo)
		}
	case SyncSnap:
		z, common := m.Snapshot, m.TruncateTo
		if validHistory(m.Epochs, z) != nil || z.Epoch() > c.epoch || common > c.last || !c.epochs.contains(common) ||
			common > z && z < c.base || z < c.committed && common < c.committed {
			c.broken(ReasonBadMessage, "snapshot %v common %v, history %v", z, common, c.epochs)
			return
		}
		l.state, l.snapshot = installing, m
		if l.arrived != nil {
			c.onSnapshotReceived(*l.arrived)
		}
	default:
		c.broken(ReasonBadMessage, "sync mode %d", m.Mode)
	}
}

// onSnapshotReceived switches to a snapshot that lies complete and synced on the disk.
func (c *Core) onSnapshotReceived(in SnapshotReceived) {
	l := c.learn
	if l == nil || in.Link != c.peer(c.leader).link {
		return
	}
	if l.state == pledged {
		l.arrived = &in
		return
	}
	if l.state != installing || in.Zxid != l.snapshot.Snapshot {
		return
	}
	m := l.snapshot
	l.snapshot, l.arrived, l.state, l.progress = nil, nil, catchingUp, c.awake
	c.ack(c.install(in.Dir, m.Snapshot, m.TruncateTo, m.Epochs))
	held := l.held
	l.held, l.heldSize = nil, 0
	for _, m := range held {
		if c.learn == l {
			c.receiveAsLearner(m)
		}
	}
}

// hold keeps what belongs behind the snapshot. The leader sends nothing before it has sent the snapshot, so the window
// bounds it.
func (c *Core) hold(m Message) bool {
	l := c.learn
	switch m := m.(type) {
	case *Append:
		for i := range m.Entries {
			l.heldSize += sizeOf(&m.Entries[i])
		}
	case *NewLeader, *UpToDate, *Commit:
	default:
		return false
	}
	l.heldSize += entryOverhead
	if l.held = append(l.held, m); l.heldSize > 2*max(c.opts.Window, defaultWindow) {
		c.broken(ReasonBadMessage, "more than the window before the snapshot")
	}
	return true
}

// onAppend takes a run that must continue the log. One ack a batch says how far the disk is.
func (c *Core) onAppend(m *Append) {
	l := c.learn
	if m.Epoch != c.epoch {
		return
	}
	switch {
	case l.state < catchingUp:
		c.broken(ReasonBadMessage, "Append out of place")
		return
	case m.Prev != c.last || !continues(c.last, m.Entries):
		c.broken(ReasonGap, "behind %v, log end %v", m.Prev, c.last)
		return
	}
	l.progress = c.awake
	if n := len(m.Entries); n > 0 {
		if m.Entries[n-1].Zxid.Epoch() > c.epoch {
			c.broken(ReasonBadMessage, "entry %v in epoch %d", m.Entries[n-1].Zxid, c.epoch)
			return
		}
		// The commit point that came along is stored with the run.
		if m.Committed > c.committed && m.Committed <= m.Entries[n-1].Zxid {
			c.committed = m.Committed
		}
		c.ack(c.appendLog(m.Entries))
	}
	c.learnCommit(m.Committed)
}

// ack tells the leader what is durable once seq is. Acks are cumulative, so a younger one replaces it.
func (c *Core) ack(seq uint64) {
	link := c.peer(c.leader).link
	if n := len(c.batch.SendWhen); n > 0 {
		if _, ok := c.batch.SendWhen[n-1].Msg.(*Ack); ok {
			c.batch.SendWhen = c.batch.SendWhen[:n-1]
		}
	}
	c.sendWhen(seq, link, &Ack{Epoch: c.epoch, Durable: c.last})
}

// learnCommit delivers up to z. A commit beyond the log would be a hole (R10).
func (c *Core) learnCommit(z Zxid) {
	if z > c.last {
		c.broken(ReasonGap, "commit %v, log end %v", z, c.last)
		return
	}
	c.committed = max(c.committed, z)
}

// onNewLeader ends the initial history: it is all issued, in order, so currentEpoch is written behind it (R2,
// interleavings 1), and a blank stamps itself in the same op.
func (c *Core) onNewLeader(m *NewLeader) {
	l := c.learn
	if m.Epoch != c.epoch {
		return
	}
	if l.state != catchingUp {
		c.broken(ReasonBadMessage, "NewLeader out of place")
		return
	}
	if !c.epochs.contains(m.HistoryEnd) || !sameHistory(c.epochs.upTo(m.HistoryEnd), m.Epochs) {
		c.event(Alarm{Peer: c.leader, Reason: ReasonTables, Detail: fmt.Sprintf("initial history %v to %v, here %v", m.Epochs, m.HistoryEnd, c.epochs)})
		c.broken(ReasonTables, "initial history")
		return
	}
	var stamp ID
	if c.ensemble != m.Ensemble {
		stamp = m.Ensemble
	}
	if c.hard.Current < c.epoch || stamp != 0 {
		c.setHard(HardState{Accepted: c.hard.Accepted, Current: c.epoch}, stamp)
	}
	l.state, l.progress = complete, c.awake
	c.sendWhen(c.seq, c.peer(c.leader).link, &AckNewLeader{Epoch: c.epoch, HistoryEnd: m.HistoryEnd})
}

func (c *Core) onUpToDate(m *UpToDate) {
	l := c.learn
	if m.Epoch != c.epoch {
		return
	}
	if l.state != complete {
		c.broken(ReasonBadMessage, "UpToDate out of place")
		return
	}
	c.learnCommit(m.Committed)
	if c.learn != l {
		return
	}
	l.state, l.target, l.progress = upToDate, c.committed, c.awake
	c.serveWhenApplied()
}
