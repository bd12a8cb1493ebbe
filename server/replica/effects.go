package replica

import (
	"time"

	"github.com/zkserver/zkserver/server/peer"
	"github.com/zkserver/zkserver/zab"
	"github.com/zkserver/zkserver/znode"
)

// Effects are what the host must do after Step, in this order: close and evict, persist, send, deliver, the rest.
type Effects struct {
	// CloseAll closes every client connection; it comes before an installed snapshot is switched to (interleavings 7).
	CloseAll zab.Reason
	Close    []CloseConn
	Evict    []peer.Evict // connections of this server

	Gen     uint64
	Persist []zab.PersistOp
	Send    []Outbound
	Deliver Delivery
	Answers []Answer // through the applier's queue, behind Deliver

	Reads     []zab.ReadRange
	Snapshots []zab.Event // NeedSnapshot, StreamSnapshot, CancelSnapshot
	Drop      []string    // directories of received snapshots that will not be installed
	Cut       []zab.CutLink
	Notices   []any // RoleChanged, Serving, Alarm, HandedOver, HandOverGivenUp, election.Refusal: for the log
	Fatal     *zab.Fatal

	// Lease is the monotonic instant up to which clients may be answered. Zero: not serving.
	Lease time.Duration
}

// Outbound is a message for a link; what was gated by durability is here only once it may leave.
type Outbound struct {
	Link zab.Link
	Msg  peer.Message
}

// Delivery hands over committed transactions, (After, Upto]. Entries are those beyond Held; what lies before them is
// read from the log, where it is durable.
type Delivery struct {
	After, Held, Upto zab.Zxid
	Entries           []zab.Entry
}

// CloseConn closes one client connection without an answer.
type CloseConn struct {
	Conn   uint32
	Reason zab.Reason
}

// Answer is a completion that is no transaction; it takes its place in the applier's queue (interleavings 22).
type Answer interface{ isAnswer() }

type (
	// Attached answers an Attach that made no transaction.
	Attached struct {
		Conn     uint32
		Seq      uint64
		Valid    bool
		Again    bool
		Session  int64
		Password [16]byte
		Timeout  int32
		Ticket   znode.Ticket
	}
	// Synced answers an OpSync: complete it as soon as Index is applied, before the transaction behind it.
	Synced struct {
		Conn  uint32
		Seq   uint64
		Index zab.Zxid
	}
)

func (Attached) isAnswer() {}
func (Synced) isAnswer()   {}

// empty reports whether there is nothing to do beside publishing the lease.
func (e *Effects) empty() bool {
	return e.CloseAll == "" && len(e.Close) == 0 && len(e.Evict) == 0 && len(e.Persist) == 0 && len(e.Send) == 0 &&
		e.Deliver.Upto == 0 && len(e.Answers) == 0 && len(e.Reads) == 0 && len(e.Snapshots) == 0 && len(e.Cut) == 0 &&
		len(e.Notices) == 0 && len(e.Drop) == 0 && e.Fatal == nil
}
