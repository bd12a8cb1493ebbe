package replica

import (
	"time"

	"github.com/zkserver/zkserver/zab"
)

// leavePatience is how long a server that stops waits for what its clients have under way, and a leader that has
// found no successor for one.
const leavePatience = 500 * time.Millisecond

// leaving is the graceful end of this server's part (architecture 4.9).
type leaving struct {
	asked bool
	on    bool
	by    time.Duration
	gone  bool
}

// Left says that this server has done what it can to leave gracefully.
type Left struct{}

// leave begins it: a leader hands over first.
func (m *Machine) leave() {
	m.leaving.asked = true
	if m.leaving.on {
		return
	}
	if m.lead != nil && m.serving && len(m.boot.Zab.Verifier.Voters()) > 1 {
		if !m.lead.handing {
			m.lead.propose()
			m.lead.handing = true
			m.stepCore(zab.HandOver{})
		}
		return
	}
	m.leaveSoon()
}

func (m *Machine) leaveSoon() {
	m.leaving.on, m.leaving.by = true, m.now+leavePatience
}

// tryLeave says goodbye once nothing of this server's clients is under way, or it has taken too long. What a server
// without a role has not sent on it never will: its clients learn that nothing happened by the end of the connection.
func (m *Machine) tryLeave() bool {
	l := &m.leaving
	if !l.on || l.gone {
		return false
	}
	busy := m.waiting.len() > 0
	if m.role != zab.Looking {
		busy = busy || len(m.parked)+len(m.syncing) > 0
	}
	if busy && m.now < l.by {
		return false
	}
	l.gone = true
	if m.role != zab.Looking {
		m.stepCore(zab.StepDown{Reason: zab.ReasonStopping})
	}
	m.eff.Notices = append(m.eff.Notices, Left{})
	return true
}
