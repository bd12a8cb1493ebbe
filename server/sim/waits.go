package sim

import (
	"time"

	"github.com/zkserver/zkserver/server/replica"
	"github.com/zkserver/zkserver/zab"
)

// waits is how long a server's role has waited without coming further, and its disk, on the clock by which the cores judge:
// every wait has a deadline, also where something else would end it in time (R12, R15).
type waits struct {
	now, awake time.Duration
	progress   time.Duration // of awake
	settled    bool          // the epoch is established, as far as this server knows
	stopped    int64         // local time for which the process has been stopped
	syncing    int64         // of it, when the present sync began
}

// waitSlack is what a deadline may be missed by.
const waitSlack = 50 * time.Millisecond

// tick follows the clock as zab.Core does.
func (x *waits) tick(in replica.Quantum, silence time.Duration) {
	step := in.Now - x.now
	late := min(in.Late, step)
	if in.Late < silence/2 {
		late = late * 3 / 4
	}
	x.now, x.awake = in.Now, x.awake+step-late
}

func (x *waits) further() { x.progress = x.awake }

// cameFurther looks at what the loop is about to take: has the server's role come further with it?
func (s *server) cameFurther(in replica.Input) {
	switch in := in.(type) {
	case replica.Quantum:
		s.waits.tick(in, s.w.cfg.zab.SilenceLimit)
	case replica.LinkUp:
		if s.role != zab.Leading && in.Link.Peer == s.leader {
			s.waits.further()
		}
	case replica.Core:
		switch in.In.(type) {
		case zab.SnapshotProgress, zab.SnapshotReceived, zab.SnapshotSent:
			s.waits.further()
		}
	case replica.Received:
		if s.links[in.Link.Peer] != in.Link {
			return
		}
		for _, m := range in.Msgs {
			switch m.(type) {
			case *zab.Ack, *zab.AckNewLeader:
				if s.role == zab.Leading {
					s.waits.further()
				}
			case *zab.LeaderInfo, *zab.SyncBegin, *zab.Append, *zab.NewLeader, *zab.UpToDate:
				if s.role != zab.Leading && in.Link.Peer == s.leader {
					s.waits.further()
				}
			}
			if m, ok := m.(*zab.UpToDate); ok && s.role != zab.Leading && in.Link.Peer == s.leader && m.Epoch == s.epoch {
				s.waits.settled = true
			}
		}
	}
}

// overdue looks, after each round of the loop, for a wait that has outlasted its deadline.
func (s *server) overdue() {
	w, x := s.w, &s.waits
	if !s.up || s.role == zab.Looking || len(w.cfg.members) == 1 {
		return
	}
	if d := x.awake - x.progress; !x.settled && !s.serving && d > w.cfg.zab.InitLimit+waitSlack {
		w.fail("R15", "server %d is %v %d, and has not come further for %v; the limit is %v", s.i+1, s.role, s.leader, d, w.cfg.zab.InitLimit)
	}
	if s.role == zab.Leading && len(s.flight) > 0 {
		if d := time.Duration(s.local() - s.syncAt - (x.stopped - x.syncing)); d > w.cfg.zab.SyncLimit+2*waitSlack {
			w.fail("R12", "server %d leads, and a sync of its disk has not ended for %v; the limit is %v", s.i+1, d, w.cfg.zab.SyncLimit)
		}
	}
}
