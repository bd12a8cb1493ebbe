package zab

// extent is what a server says of its history when it is synchronized.
type extent struct {
	base      Zxid // its log holds (base, last]
	last      Zxid
	delivered Zxid
	epochs    history
	needSnap  bool // its state is damaged: only a snapshot helps
}

// plan is how a learner reaches the leader's history.
type plan struct {
	mode   SyncMode
	common Zxid   // the last zxid both histories contain; what the learner has beyond goes
	min    Zxid   // SyncSnap: the snapshot must not lie below
	alarm  bool   // the tables contradict each other below common (R17)
	refuse Reason // broken invariant: the learner must stop
}

// planSync decides from the epoch tables alone, never from numeric windows (R8).
//
// An entry of epoch e exists only if e was established, so every later leader's history extends e's initial history;
// hence the common point is the leader's largest zxid at or below the learner's end, and below the epoch it lies in
// both tables must agree row by row.
func planSync(leader, learner extent) plan {
	p := plan{common: commonPoint(leader.epochs, learner.epochs, learner.last)}
	for i := 0; p.common != 0; i++ {
		if i >= len(leader.epochs) || i >= len(learner.epochs) {
			p.alarm = true // cannot be with valid tables that contain common
			break
		}
		a, b := leader.epochs[i], learner.epochs[i]
		if a.Epoch == p.common.Epoch() && b.Epoch == a.Epoch {
			break
		}
		if a != b {
			p.alarm = true
			break
		}
	}
	switch {
	case learner.delivered > p.common && !p.alarm:
		p.refuse = ReasonDeliveredBeyond
	case learner.needSnap:
		// Its log is whole: a snapshot from its base on, then what it has itself (interleavings 2).
		p.mode, p.min = SyncSnap, learner.base
	case p.alarm:
		p.mode, p.common, p.min = SyncSnap, 0, max(learner.base, learner.delivered)
	case p.common < leader.base:
		p.mode, p.min = SyncSnap, max(learner.base, learner.delivered)
	case p.common == learner.last:
		p.mode = SyncDiff
	default:
		p.mode = SyncTrunc
	}
	if p.mode == SyncSnap {
		p.min = max(p.min, leader.base)
	}
	return p
}

// commonPoint is the largest zxid <= z that both tables contain. With tables of a sound ensemble one step is enough.
func commonPoint(a, b history, z Zxid) Zxid {
	for {
		c := b.floor(a.floor(z))
		if c == z {
			return c
		}
		z = c
	}
}
