package replica

import (
	"cmp"
	"slices"

	"github.com/zkserver/zkserver/server/peer"
	"github.com/zkserver/zkserver/zab"
	"github.com/zkserver/zkserver/znode"
)

// learner is what this server owes to the leader it follows. It dies with the role.
type learner struct {
	declared zab.Link // where the tickets of this server's connections have been declared
	handOver bool     // the leader is handing over: send nothing more to it
	touches  []peer.Touch
}

// forwardWindow is how many bytes of requests are under way to the leader, and unanswered, before more is sent (I13): as
// many as all clients may have outstanding, and identities with each, would be too much for the link.
const forwardWindow = 8 << 20

// forwardAll sends to the leader what waits here.
func (m *Machine) forwardAll() {
	l, up := m.links[m.leader]
	if !up || m.learner.handOver || len(m.parked) == 0 && len(m.unsent) == 0 {
		return
	}
	m.declare(l)
	m.takeAttaches(func(in Attach) {
		m.eff.Send = append(m.eff.Send, Outbound{l, &peer.Revalidate{
			ID: in.Seq, Session: in.Session, Password: in.Password, Timeout: in.Timeout, Again: in.Again,
			Origin: peerOrigin(m.origin(in.Conn, in.Seq)),
		}})
	})
	m.takeParked(func() bool { return m.waiting.bytes < forwardWindow }, func(r *znode.Request) {
		if r.Op == znode.OpSync {
			m.waiting.push(waiting{req: r})
			m.stepCore(zab.SyncRead{ID: r.Origin.Seq})
			return
		}
		if cap(m.arena)-len(m.arena) < 1<<10 {
			m.arena = make([]byte, 0, 1<<14)
		}
		at := len(m.arena)
		m.arena = znode.AppendRequest(m.arena, r)
		m.waiting.push(waiting{req: r, size: len(m.arena) - at})
		m.eff.Send = append(m.eff.Send, Outbound{l, &peer.Forward{
			Origin:  peerOrigin(r.Origin),
			Ticket:  peerTicket(r.Ticket),
			Request: m.arena[at:len(m.arena):len(m.arena)],
		}})
	})
}

// declare tells a new leader once who holds which session here: before any Forward and the first Pong (interleavings 6),
// and before the acknowledgement that lets it serve, so that it knows its quorum's tickets by then.
func (m *Machine) declare(l zab.Link) {
	if m.learner.declared == l {
		return
	}
	m.learner.declared = l
	m.eff.Send = append(m.eff.Send, Outbound{l, &peer.Tickets{Owners: m.owners()}})
}

// beforePong sends what must be known to the leader when it hears the Pong.
func (m *Machine) beforePong(l zab.Link) {
	if l.Peer != m.leader {
		return
	}
	m.declare(l)
	if len(m.learner.touches) > 0 {
		m.eff.Send = append(m.eff.Send, Outbound{l, &peer.Touches{Sessions: m.learner.touches}})
		m.learner.touches = nil
	}
}

// touchedHere notes which of this server's sessions have been heard from.
func (m *Machine) touchedHere(ts []peer.Touch) {
	switch {
	case m.lead != nil:
		m.lead.touch(m.boot.Zab.Self, ts)
	case m.leader != 0:
		m.learner.add(ts, 2*len(m.conns)+1024)
	}
}

// add notes touches for the next Pong; should none leave for long, each session is kept once.
func (l *learner) add(ts []peer.Touch, limit int) {
	l.touches = append(l.touches, ts...)
	if len(l.touches) > limit {
		slices.SortStableFunc(l.touches, func(a, b peer.Touch) int { return cmp.Compare(a.Session, b.Session) })
		l.touches = slices.CompactFunc(l.touches, func(a, b peer.Touch) bool { return a.Session == b.Session })
	}
}

// fromLeader takes what the leader answers.
func (m *Machine) fromLeader(l zab.Link, msg peer.Message) {
	switch msg := msg.(type) {
	case *peer.RevalidateResult:
		if a := m.attaches[msg.ID]; a != nil {
			m.attached(a.in, msg.Valid, msg.Timeout, nodeTicket(msg.Ticket))
		}
	case *peer.ForwardReject:
		if msg.Origin.Instance == m.boot.Process {
			m.waiting.done(msg.Origin.Seq)
			m.closeConn(msg.Origin.Conn, reasonMoved)
		}
	case *peer.Evict:
		m.eff.Evict = append(m.eff.Evict, *msg)
	case *peer.HandOverMark:
		if m.serving { // else nothing has been sent, and this server may go on following into the next epoch
			m.handedBack(msg.LastSeq)
		}
	}
}

// handedBack takes back what a leader that hands over never prepared: everything behind the request it took last.
// What it took it has committed before it says so (architecture 4.9).
func (m *Machine) handedBack(last uint64) {
	m.learner.handOver = true
	taken, back := m.waiting.split(last)
	for i := range taken {
		taken[i].fated = true
	}
	m.waiting.reset(taken)
	m.repark(back)
}
