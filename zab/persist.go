package zab

// persist issues an op. The caller has already changed the issued state, so the mark tells what the disk holds when
// the op is done.
func (c *Core) persist(op PersistOp) uint64 {
	c.seq++
	op.Seq = c.seq
	c.batch.Persist = append(c.batch.Persist, op)
	c.marks = append(c.marks, c.mark())
	return c.seq
}

// setHard issues the two epochs, and the ensemble id when it is not zero.
//
// Invariant (I1): neither epoch goes back, current <= accepted.
func (c *Core) setHard(h HardState, stamp ID) uint64 {
	c.raise(h)
	if stamp != 0 {
		c.ensemble = stamp
	}
	return c.persist(PersistOp{Hard: &h, Ensemble: stamp, Commit: c.committed})
}

func (c *Core) raise(h HardState) {
	assert(h.Accepted >= c.hard.Accepted && h.Current >= c.hard.Current, "epochs went back: %v after %v", h, c.hard)
	assert(h.Current <= h.Accepted && h.Accepted <= MaxEpoch, "epochs %v", h)
	c.hard = h
}

// appendLog issues a run that continues the log. The batch that brings the first entry of an epoch raises
// currentEpoch with it, so the log never ends above it (Z10, interleavings 1).
func (c *Core) appendLog(entries []Entry) uint64 {
	assert(continues(c.last, entries), "append of %v behind %v", entries[0].Zxid, c.last)
	op := PersistOp{Append: entries, Commit: c.committed}
	last := entries[len(entries)-1].Zxid
	if last.Epoch() > c.hard.Current {
		h := HardState{Accepted: c.hard.Accepted, Current: last.Epoch()}
		c.raise(h)
		op.Hard = &h
	}
	c.ring.push(c.last, entries, c.opts.RunBytes)
	c.epochs = c.epochs.append(entries)
	c.last = last
	return c.persist(op)
}

// truncateLog cuts what lies beyond z.
//
// Invariant (Z15): what was delivered, or is known to be committed, is never cut.
func (c *Core) truncateLog(z Zxid) uint64 {
	assert(z >= c.committed && z >= c.base && z <= c.last, "truncate to %v: base %v committed %v last %v", z, c.base, c.committed, c.last)
	c.ring.truncate(z)
	c.epochs = c.epochs.upTo(z)
	c.last = z
	return c.persist(PersistOp{Truncate: &z, Commit: c.committed})
}

// install switches to a received snapshot. Entries between it and the common point were acked, so they stay
// (interleavings 2); currentEpoch rises to the epoch of what is then the end, not to the leader's (1).
func (c *Core) install(dir string, z, common Zxid, table history) uint64 {
	last := z
	rows := append(history{}, table...)
	if common > z {
		last = common
		for _, r := range c.epochs.upTo(common) {
			switch {
			case r.Epoch > z.Epoch():
				rows = append(rows, r)
			case r.Epoch == z.Epoch():
				rows[len(rows)-1].Last = r.Last
			}
		}
	}
	h := HardState{Accepted: c.hard.Accepted, Current: max(c.hard.Current, last.Epoch())}
	c.raise(h)
	c.base, c.last, c.epochs, c.needSnap = z, last, rows, false
	c.committed = max(c.committed, z)
	c.ring.reset(last)
	seq := c.persist(PersistOp{
		Hard: &h, Commit: c.committed,
		Install: &Install{Dir: dir, Zxid: z, Common: common, Epochs: append([]EpochEnd{}, rows...)},
	})
	// The tree starts again at z, whatever had been handed over before.
	c.switching, c.delivered, c.applied = seq, z, z
	c.told.delivered = z
	return seq
}

// onPersisted moves the durable state on. Seqs grow over all generations, so a completion of an older one is never
// taken for one of this: marks say exactly what is durable.
func (c *Core) onPersisted(seq uint64) {
	assert(seq <= c.seq, "persisted %d, issued %d", seq, c.seq)
	if seq <= c.persisted {
		return
	}
	c.persisted = seq
	n := 0
	for n < len(c.marks) && c.marks[n].seq <= seq {
		c.durable = c.marks[n]
		n++
	}
	c.marks = append(c.marks[:0], c.marks[n:]...)
	switch {
	case c.lead != nil:
		c.leaderDurable()
	case c.learn != nil:
		c.serveWhenApplied()
	default:
		c.startElected()
	}
}
