package zab

// Status is what mntr, stat and metrics show.
type Status struct {
	Role      Role
	Phase     string // of the role: "looking", "discovering", ..., "serving"
	Leader    ServerID
	Epoch     Epoch // zero until known
	Hard      HardState
	Ensemble  ID
	Base      Zxid
	Last      Zxid // issued
	Durable   Zxid
	Committed Zxid
	Delivered Zxid
	Serving   bool

	Followers, SyncedFollowers int
	Observers, SyncedObservers int
	Proposals                  uint64 // since the process started
	Snapshots, Diffs, Truncs   uint64 // synchronizations begun as leader
	Learners                   []LearnerStatus
}

// LearnerStatus is the leader's view of one learner.
type LearnerStatus struct {
	ID       ServerID
	Observer bool
	State    string
	Match    Zxid // durable there
	Cursor   Zxid // sent
	InFlight int  // bytes sent and not acked
	Applied  Zxid
	Counted  bool
}

var learnerStates = [...]string{"greeted", "invited", "promised", "awaiting snapshot", "receiving snapshot", "catching up"}

func (x *learner) stateName() string {
	switch {
	case x.upToDate:
		return "up to date"
	case x.synced:
		return "synced"
	case x.marked:
		return "marked"
	}
	return learnerStates[x.state]
}

var learningStates = [...]string{"connecting", "greeting", "promised", "installing", "catching up", "complete", "up to date"}

// Status describes the core; its slices belong to the caller.
func (c *Core) Status() Status {
	s := Status{
		Role: c.role, Phase: "looking", Leader: c.leader, Epoch: c.epoch, Hard: c.hard, Ensemble: c.ensemble,
		Base: c.base, Last: c.last, Durable: c.durable.last, Committed: c.committed, Delivered: c.delivered, Serving: c.serving,
		Proposals: c.stats.proposals, Snapshots: c.stats.snapshots, Diffs: c.stats.diffs, Truncs: c.stats.truncs,
	}
	switch {
	case c.lead != nil:
		s.Phase = c.lead.phase.String()
		for _, x := range c.lead.learners {
			s.Learners = append(s.Learners, LearnerStatus{
				ID: x.id, Observer: x.observer, State: x.stateName(), Match: x.acked, Cursor: x.cursor,
				InFlight: x.inFlight, Applied: x.applied, Counted: x.counted,
			})
			all, synced := &s.Followers, &s.SyncedFollowers
			if x.observer {
				all, synced = &s.Observers, &s.SyncedObservers
			}
			*all++
			if x.synced {
				*synced++
			}
		}
	case c.learn != nil:
		s.Phase = learningStates[c.learn.state]
	}
	if c.serving {
		s.Phase = "serving"
	}
	return s
}

// MinCursor is what the log must be kept from: at or below it everything is delivered here and durable at the learners.
func (s *Status) MinCursor() Zxid {
	z := s.Delivered
	for i := range s.Learners {
		z = min(z, s.Learners[i].Match)
	}
	return z
}

// Role of this server at present.
func (c *Core) Role() Role { return c.role }

// Epoch of the present role, zero until known.
func (c *Core) Epoch() Epoch { return c.epoch }

// Leader of the present role, this server included; zero while looking.
func (c *Core) Leader() ServerID { return c.leader }

// Committed is the commit point known.
func (c *Core) Committed() Zxid { return c.committed }

// LastLogged is the end of the log as issued; it is durable when BarrierPassed.
func (c *Core) LastLogged() Zxid { return c.last }

// Hard are the two epochs as issued.
func (c *Core) Hard() HardState { return c.hard }

// Ensemble is the id as issued, zero while blank.
func (c *Core) Ensemble() ID { return c.ensemble }

// NeedSnap reports that the state is damaged and waits for a snapshot.
func (c *Core) NeedSnap() bool { return c.needSnap }

// HasTransaction reports whether the history holds any.
func (c *Core) HasTransaction() bool { return c.hasTransaction() }

func (r Role) String() string {
	return [...]string{"looking", "following", "leading", "observing"}[r&3]
}

func (m SyncMode) String() string {
	switch m {
	case SyncDiff:
		return "DIFF"
	case SyncTrunc:
		return "TRUNC"
	case SyncSnap:
		return "SNAP"
	}
	return "?"
}
