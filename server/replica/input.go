package replica

import (
	"time"

	"github.com/zkserver/zkserver/server/peer"
	"github.com/zkserver/zkserver/zab"
	"github.com/zkserver/zkserver/znode"
)

// Input is what Machine.Step consumes.
type Input interface{ isInput() }

type (
	// Clock gives the wall clock, for the time of transactions and the base of session ids. It comes before the
	// inputs it dates.
	Clock struct {
		WallMs int64
		Now    time.Duration // as Quantum's; zero: as the last one's
	}
	// Quantum is 10 ms of monotonic time since the start of the process; Late as in zab.Quantum.
	Quantum struct{ Now, Late time.Duration }

	// LinkUp says that a link with a peer works. It replaces an older link with that peer.
	LinkUp struct {
		Link zab.Link
		RTT  time.Duration
	}
	// LinkDown says that a link is gone; Refused as in election.PeerDown.
	LinkDown struct {
		Link    zab.Link
		Refused bool
	}
	// DialFailed says that a peer could not be reached.
	DialFailed struct {
		Peer    zab.ServerID
		Refused bool
	}
	// Received are messages of a link, in order. Requests inside peer.Forward have been decoded to Forwarded.
	Received struct {
		Link zab.Link
		Msgs []peer.Message
	}

	// Requests are the writes (and syncs) of one run of one connection, with Origin, Session and Ticket set. Their
	// origin seqs grow over all inputs.
	Requests struct {
		Conn     uint32
		Requests []*znode.Request
	}
	// Attach asks for a session for a connection: a new one (Session zero), a known one, or (Again) only whether the
	// session that the connection has is still alive.
	Attach struct {
		Conn     uint32
		Seq      uint64 // origin seq, of the same counter as those of requests
		Session  int64
		Password []byte
		Timeout  int32 // ms, negotiated
		Again    bool
	}
	// Detach says that a connection is gone. Its session lives on.
	Detach struct{ Conn uint32 }
	// Touched are sessions of this server's connections heard from since the last one.
	Touched struct{ Sessions []peer.Touch }

	// Persisted says that every op up to Seq is durable; the newest of them was issued in generation Gen.
	Persisted struct{ Seq, Gen uint64 }
	// Applied says that the tree has applied everything up to Zxid, and what of this server's own was among it.
	Applied struct {
		Zxid    zab.Zxid
		Own     []uint64 // origin seqs of this process
		Created []Created
	}
	// Core hands an input to the zab core as it is: LogRead, LogBase and what belongs to snapshots.
	Core struct{ In zab.Input }
	// Leave asks the server to hand over what it leads, or to say goodbye.
	Leave struct{}
	// DiskStuck says that a sync of the log has lasted longer than a leader may take.
	DiskStuck struct{}
	// StateStuck says that the applier has stood still for longer than a server may that serves, most likely because the
	// disk of the state hangs; or (On false) that it goes on.
	StateStuck struct{ On bool }
)

// Created is a session that a createSession of this process has made.
type Created struct {
	Conn    uint32
	Session znode.Session
}

// Forwarded is a peer.Forward whose request has been decoded, off the loop; it takes its place in Received.
type Forwarded struct{ Request *znode.Request }

func (Clock) isInput()      {}
func (Quantum) isInput()    {}
func (LinkUp) isInput()     {}
func (LinkDown) isInput()   {}
func (DialFailed) isInput() {}
func (Received) isInput()   {}
func (Requests) isInput()   {}
func (Attach) isInput()     {}
func (Detach) isInput()     {}
func (Touched) isInput()    {}
func (Persisted) isInput()  {}
func (Applied) isInput()    {}
func (Core) isInput()       {}
func (Leave) isInput()      {}
func (DiskStuck) isInput()  {}
func (StateStuck) isInput() {}
