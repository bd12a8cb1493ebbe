package replica

import (
	"time"

	"github.com/zkserver/zkserver/server/store"
	"github.com/zkserver/zkserver/zab"
	"github.com/zkserver/zkserver/znode"
)

// Status is what four-letter words and metrics show of a replica.
type Status struct {
	Zab     zab.Status
	Role    zab.Role
	Serving bool
	Single  bool // an ensemble of one
	Leader  zab.ServerID
	Epoch   zab.Epoch

	Delivered zab.Zxid
	Applied   zab.Zxid

	LeadingSince time.Time // of the present leadership, once it serves; else zero
	PendingSyncs int       // syncs of this server's clients that wait for the leader
	Pending      int       // proposed or forwarded, not applied
	Outstanding  int       // all of this server's clients' writes that wait
	Counts       Counts

	Txns             uint64 // applied
	DigestMismatches uint64
	Digests          znode.Digests
	Nodes            int
	DataSize         int64
	Ephemerals       int
	Sessions         int
	Store            store.Metrics
	Uptime           time.Duration
}

// Status returns the present status. The part that belongs to the loop is up to 100 ms old; what is said of the tree holds
// at Applied.
func (r *Replica) Status() Status {
	s := *r.status.Load()
	s.Txns, s.DigestMismatches = r.applier.txnCount.Load(), r.applier.mismatches.Load()
	t := r.RLock()
	s.Applied = zab.Zxid(t.Applied())
	s.Digests, s.Nodes, s.DataSize = t.Digests(), t.NodeCount(), t.ApproximateDataSize()
	s.Ephemerals, s.Sessions = t.EphemeralCount(), t.SessionCount()
	r.RUnlock()
	s.Store = r.store.Metrics()
	s.Uptime = time.Since(r.born)
	return s
}

// publish is called by the loop.
func (r *Replica) publish() {
	s := r.machine.Status()
	s.Single = r.single
	if !s.Serving || s.Role != zab.Leading {
		r.leadingSince = time.Time{}
	} else if r.leadingSince.IsZero() {
		r.leadingSince = time.Now()
	}
	s.LeadingSince = r.leadingSince
	r.whoWaits(&s)
	r.state.minCursor.Store(uint64(s.Zab.MinCursor()))
	r.status.Store(&s)
}

// whoWaits logs now and then, while there is no leader, which voters are waited for.
func (r *Replica) whoWaits(s *Status) {
	now := time.Since(r.born)
	switch {
	case s.Serving:
		r.waitingSince = 0
	case r.waitingSince == 0:
		r.waitingSince, r.waitingTold = now, now-waitingRepeat+waitingFirst
	case s.Role == zab.Looking && now-r.waitingTold >= waitingRepeat:
		r.waitingTold = now
		unheard, uncounted := r.machine.elect.Waiting()
		r.log.Warn().Uints64("unheard", ids(unheard)).Uints64("not_counted", ids(uncounted)).
			Bool("blank", r.Ensemble() == 0).Dur("for", now-r.waitingSince).
			Msg("no leader: a quorum of voters that count is waited for")
	}
}

func ids(in []zab.ServerID) []uint64 {
	out := make([]uint64, len(in))
	for i, id := range in {
		out[i] = uint64(id)
	}
	return out
}

// Status is the loop's part of Status.
func (m *Machine) Status() Status {
	return Status{
		Zab: m.core.Status(), Role: m.role, Serving: m.serving && !m.stuck, Leader: m.leader, Epoch: m.epoch,
		Delivered: m.delivered, Applied: m.applied,
		PendingSyncs: len(m.syncing), Pending: m.waiting.len(), Outstanding: m.waiting.len() + len(m.parked), Counts: m.counts,
	}
}
