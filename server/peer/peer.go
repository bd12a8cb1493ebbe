// Package peer holds, as plain Go values, what servers say to each other beside zab.Message and
// election.Notification: forwarded requests, session checks and signs of life. It has no behaviour. replica.Machine
// produces and consumes these values, server/transport carries them; both import it, it imports zab and election.
package peer

import (
	"github.com/zkserver/zkserver/election"
	"github.com/zkserver/zkserver/zab"
)

// Message is one of zab.Message (pointers), *election.Notification, or the pointer types below.
type Message any

var (
	_ Message = (*election.Notification)(nil)
	_ Message = zab.Message(nil)
)

// Ticket orders the owners of a session: (epoch, number), drawn by the leader at each attach (interleavings 6).
type Ticket struct {
	Epoch  zab.Epoch
	Number uint64
}

// Less reports whether t was drawn before o.
func (t Ticket) Less(o Ticket) bool {
	return t.Epoch < o.Epoch || t.Epoch == o.Epoch && t.Number < o.Number
}

// Origin names the request a transaction came from; a waiting request is matched by it alone (interleavings 5).
type Origin struct {
	Server   zab.ServerID
	Instance zab.ID // of the process: drawn at each start
	Conn     uint32
	Seq      uint64 // grows within a server's process, over all its connections
}

type (
	// Forward asks the leader to prepare a write, or to create or close a session. Request is znode's own encoding.
	Forward struct {
		Origin  Origin
		Ticket  Ticket
		Request []byte
	}
	// ForwardReject hands a request back unprepared: a newer owner has the session, so its connection is to be closed.
	ForwardReject struct{ Origin Origin }
	// HandOverMark goes right before zab.Goodbye (or TimeoutNow) on a hand-over: what this link sent behind the request
	// LastSeq was never prepared; that one and what it sent before are committed.
	HandOverMark struct{ LastSeq uint64 }
	// Revalidate asks the leader whether a session lives; it checks the password and draws a new ticket.
	Revalidate struct {
		ID       uint64 // the learner's own number
		Session  int64
		Password []byte
		Timeout  int32 // ms, negotiated by the learner's limits
		Origin   Origin
		Again    bool // the connection has the session already: only confirm it (interleavings 14), draw no ticket
	}
	// RevalidateResult answers it.
	RevalidateResult struct {
		ID      uint64
		Valid   bool
		Timeout int32
		Ticket  Ticket
	}
	// Touches goes right before each Pong: the sessions heard from since the last one.
	Touches struct{ Sessions []Touch }
	// Tickets goes before a learner's first Pong in an epoch and before any Forward: its connections' tickets.
	Tickets struct{ Owners []Owner }
	// Evict tells a learner that a connection has lost its session to another owner.
	Evict struct {
		Session int64
		Below   Ticket // connections with a ticket below this one
	}
)

// Touch is one session heard from.
type Touch struct {
	Session int64
	Timeout int32 // ms
}

// Owner is a session's connection as its server knows it.
type Owner struct {
	Session int64
	Timeout int32
	Origin  Origin
	Ticket  Ticket
}
