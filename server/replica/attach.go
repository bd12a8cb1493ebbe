package replica

import (
	"slices"

	"github.com/zkserver/zkserver/server/peer"
	"github.com/zkserver/zkserver/server/session"
	"github.com/zkserver/zkserver/zab"
	"github.com/zkserver/zkserver/znode"
)

// Reasons of this package.
const (
	reasonUnknownFate            = zab.Reason(session.ReasonUnknownFate)
	reasonMoved                  = zab.Reason(session.ReasonEvicted)
	reasonNotServing             = zab.Reason(session.ReasonNotServing)
	reasonSnapshot               = zab.Reason(session.ReasonSnapshot)
	reasonDiskStuck   zab.Reason = "a sync of the log does not end"
	reasonStateStuck  zab.Reason = "what is committed is not applied"
)

// attach is a question to the leader about an existing session. It changes nothing but the owner, so it may be asked
// again of the next leader.
type attach struct{ in Attach }

// attach takes a connection's wish for a session.
func (m *Machine) attach(in Attach) {
	if m.refusing || m.leaving.on || m.stuck {
		m.closeConn(in.Conn, reasonNotServing)
		return
	}
	c := m.conns[in.Conn]
	if c == nil {
		c = &conn{}
		m.conns[in.Conn] = c
	}
	c.seq, c.timeout = in.Seq, in.Timeout
	if in.Session == 0 {
		m.nextSession++
		m.parked = append(m.parked, &znode.Request{
			Op: znode.OpCreateSession, Session: m.nextSession - 1, Timeout: in.Timeout, Origin: m.origin(in.Conn, in.Seq),
		})
		return
	}
	m.attaches[in.Seq] = &attach{in: in}
	m.unsent = append(m.unsent, in.Seq)
}

// attached gives a connection the leader's answer.
func (m *Machine) attached(in Attach, valid bool, timeout int32, t znode.Ticket) {
	delete(m.attaches, in.Seq)
	a := Attached{Conn: in.Conn, Seq: in.Seq, Valid: valid, Again: in.Again}
	c := m.conns[in.Conn]
	if c == nil {
		return
	}
	if valid {
		a.Session, a.Timeout, a.Ticket = in.Session, timeout, t
		copy(a.Password[:], in.Password)
		if in.Again {
			a.Ticket = c.ticket
		} else {
			*c = conn{session: in.Session, timeout: timeout, ticket: t, seq: in.Seq, attached: true}
			m.eff.Evict = append(m.eff.Evict, peer.Evict{Session: in.Session, Below: peerTicket(t)})
		}
	} else if !in.Again {
		delete(m.conns, in.Conn)
	}
	m.eff.Answers = append(m.eff.Answers, a)
}

// takeAttaches calls f for the questions that have not been asked of the present leader.
func (m *Machine) takeAttaches(f func(in Attach)) {
	seqs := m.unsent
	m.unsent = nil
	for _, seq := range seqs {
		if a := m.attaches[seq]; a != nil {
			f(a.in)
		}
	}
}

// resendAttaches has every open question asked again of the next leader.
func (m *Machine) resendAttaches() {
	m.unsent = m.unsent[:0]
	for seq := range m.attaches {
		m.unsent = append(m.unsent, seq)
	}
	slices.Sort(m.unsent)
}

// forgetAttaches drops the open questions of a connection that is gone.
func (m *Machine) forgetAttaches(conn uint32) {
	for seq, a := range m.attaches {
		if a.in.Conn == conn {
			delete(m.attaches, seq)
		}
	}
}

// owners lists this server's connections that hold a session, for a new leader.
func (m *Machine) owners() []peer.Owner {
	var out []peer.Owner
	for id, c := range m.conns {
		if c.attached {
			out = append(out, peer.Owner{
				Session: c.session, Timeout: c.timeout, Ticket: peerTicket(c.ticket), Origin: peerOrigin(m.origin(id, c.seq)),
			})
		}
	}
	slices.SortFunc(out, func(a, b peer.Owner) int { return int(int64(a.Origin.Conn) - int64(b.Origin.Conn)) })
	return out
}

// appliedUpTo hears what the tree has applied.
func (m *Machine) appliedUpTo(in Applied) {
	m.applied = max(m.applied, in.Zxid)
	m.landed(in.Zxid)
	for _, c := range in.Created {
		if k := m.conns[c.Conn]; k != nil {
			k.session, k.timeout, k.ticket, k.attached = c.Session.ID, c.Session.Timeout, c.Session.Ticket, true
		}
	}
	for _, seq := range in.Own {
		m.waiting.done(seq)
	}
	if m.lead != nil {
		m.lead.appliedUpTo(in.Zxid)
	}
	m.stepCore(zab.Applied{Zxid: in.Zxid})
}

// origin names a request, or an attach, of this server's clients.
func (m *Machine) origin(conn uint32, seq uint64) znode.Origin {
	return znode.Origin{Server: uint64(m.boot.Zab.Self), Instance: uint64(m.boot.Process), Conn: conn, Seq: seq}
}

func peerOrigin(o znode.Origin) peer.Origin {
	return peer.Origin{Server: zab.ServerID(o.Server), Instance: zab.ID(o.Instance), Conn: o.Conn, Seq: o.Seq}
}

func nodeOrigin(o peer.Origin) znode.Origin {
	return znode.Origin{Server: uint64(o.Server), Instance: uint64(o.Instance), Conn: o.Conn, Seq: o.Seq}
}

func peerTicket(t znode.Ticket) peer.Ticket {
	return peer.Ticket{Epoch: zab.Epoch(t.Epoch), Number: t.Number}
}

func nodeTicket(t peer.Ticket) znode.Ticket {
	return znode.Ticket{Epoch: uint32(t.Epoch), Number: t.Number}
}

func ticketLess(a, b znode.Ticket) bool {
	return a.Epoch < b.Epoch || a.Epoch == b.Epoch && a.Number < b.Number
}
