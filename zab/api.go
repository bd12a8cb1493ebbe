package zab

import (
	"math/rand/v2"
	"time"
)

// Options are limits in quanta or bytes; zero values take the defaults in brackets.
type Options struct {
	InitLimit     time.Duration // discovery and synchronization must make progress within it
	SilenceLimit  time.Duration // nothing heard for so long: the link is dead; min(syncLimit x tickTime, 1 s)
	Heartbeat     time.Duration // max(10 ms, min(100 ms, SilenceLimit/5, Lease/3))
	Lease         time.Duration // the serving lease L (architecture 4.13)
	SyncLimit     time.Duration // a learner without progress for so long is cut
	Window        int           // bytes in flight a learner [4 MiB]
	RunBytes      int           // bytes of one Append message [256 KiB]
	HandOverLimit time.Duration // [200 ms]
	CounterLimit  uint32        // hand over to self before the counter passes it [2^32 - 2^20]
}

// Boot is what survives a crash, and the configuration.
type Boot struct {
	Self      ServerID
	Members   []Member
	Verifier  Verifier
	Hard      HardState
	Base      Zxid // the log holds (Base, Last]
	Last      Zxid // durable end of the log
	Committed Zxid // stored commit point
	Delivered Zxid // max(stored commit point, durable applied)
	Epochs    []EpochEnd
	Ensemble  ID // zero: blank
	Instance  ID
	NeedSnap  bool // the state is damaged: synchronize by SNAP before anything else, vote not
	Rand      *rand.Rand
	Options   Options
}

// Input is what Step consumes.
type Input interface{ isInput() }

type (
	// Quantum is 10 ms of monotonic time. Late says how much later than that it came: a long pause of the process is
	// never read as silence of the others. Now is monotonic time since the process started.
	Quantum struct {
		Now  time.Duration
		Late time.Duration
	}
	// Received is a message from a link.
	Received struct {
		Link Link
		Msg  Message
	}
	// LinkUp says a link with a peer works, both ways. It replaces an older link with that peer.
	LinkUp struct{ Link Link }
	// LinkDown says that link is gone.
	LinkDown struct{ Link Link }
	// Elected starts a leadership, a following or an observing. The host gives it only after the persist barrier.
	Elected struct {
		Leader ServerID // == Self: lead
	}
	// Propose appends to the leader's log. Zxids must be NextZxid, NextZxid+1, ...
	Propose struct{ Entries []Entry }
	// SyncRead asks for a read index for one of this server's clients.
	SyncRead struct{ ID uint64 }
	// Persisted says that every op up to Seq, issued in generation Gen, is durable. Seq grows over all generations of
	// a process; a completion of an older generation only counts for the barrier of the present one.
	Persisted struct {
		Seq uint64
		Gen uint64
	}
	// Applied says the tree has applied everything up to Zxid.
	Applied struct{ Zxid Zxid }
	// LogRead answers Batch.Reads, ID echoed. Missing is set when the range is no longer (or not) in the log.
	LogRead struct {
		ID      uint64
		Link    Link
		After   Zxid
		Entries []Entry
		Missing bool
	}
	// SnapshotReady answers NeedSnapshot: the host streams a snapshot at Zxid on the bulk stream once SyncBegin left.
	SnapshotReady struct {
		Link Link
		Zxid Zxid
	}
	// SnapshotSent says the peer has received the whole snapshot, or that sending it failed.
	SnapshotSent struct {
		Link   Link
		Failed bool
	}
	// SnapshotProgress says that a snapshot on its way moved (leader) or arrives (learner): no timeout meanwhile.
	SnapshotProgress struct{ Link Link }
	// SnapshotReceived says a complete, checked snapshot lies in Dir, flushed and synced, not yet switched to.
	SnapshotReceived struct {
		Link Link
		Zxid Zxid
		Dir  string
	}
	// StepDown ends the present role; the core goes to Looking.
	StepDown struct{ Reason Reason }
	// HandOver begins a graceful hand-over of a leadership (zero: the best follower).
	HandOver struct{ To ServerID }
	// LogBase says that the host has cut its log: it now holds (Base, Last].
	LogBase struct{ Base Zxid }
)

func (Quantum) isInput()          {}
func (Received) isInput()         {}
func (LinkUp) isInput()           {}
func (LinkDown) isInput()         {}
func (Elected) isInput()          {}
func (Propose) isInput()          {}
func (SyncRead) isInput()         {}
func (Persisted) isInput()        {}
func (Applied) isInput()          {}
func (LogRead) isInput()          {}
func (SnapshotReady) isInput()    {}
func (SnapshotSent) isInput()     {}
func (SnapshotProgress) isInput() {}
func (SnapshotReceived) isInput() {}
func (StepDown) isInput()         {}
func (HandOver) isInput()         {}
func (LogBase) isInput()          {}

// PersistOp is one atomic change of the log store: everything that is set happens in one batch, in the order
// Install, Truncate, Append, Hard, Ensemble. Ops are executed in order of Seq; many may share one sync.
type PersistOp struct {
	Seq      uint64
	Hard     *HardState
	Ensemble ID       // non-zero: stamp
	Unstamp  bool     // delete the ensemble id: a directory without a transaction joins another ensemble, as a blank
	Truncate *Zxid    // delete everything beyond
	Append   []Entry  // contiguous with what is there
	Commit   Zxid     // the commit point known now; stored with every Append and Install (never goes back)
	Install  *Install // switch to a received snapshot
}

// Install names the snapshot to switch to (architecture 5): entries at or below Zxid and beyond Common go, those
// between stay: they were acked.
type Install struct {
	Dir    string
	Zxid   Zxid
	Common Zxid
	Epochs []EpochEnd
}

// Outbound is a message for a link.
type Outbound struct {
	Link Link
	Msg  Message
}

// Gated may leave only after Persisted(Seq) of the same generation.
type Gated struct {
	Seq uint64
	Outbound
}

// ReadRange asks the host for entries after After up to Upto, at most Bytes of them but one in any case; answered by
// LogRead. Upto is durable. A read that the core no longer wants may be answered: it is told by its ID and dropped.
type ReadRange struct {
	ID    uint64
	Link  Link
	After Zxid
	Upto  Zxid
	Bytes int
}

// Batch is what the host must do after Step. Persist before SendWhen; Send at once.
type Batch struct {
	Gen      uint64
	Persist  []PersistOp
	Send     []Outbound
	SendWhen []Gated
	Deliver  Zxid // zero: nothing new
	Reads    []ReadRange
	Events   []Event
	// Lease is the monotonic instant (as Quantum.Now) up to which this server may answer clients; it never goes back
	// within a generation. Zero: not serving.
	Lease time.Duration
}

// Event tells the host what happened.
type Event interface{ isEvent() }

type (
	// RoleChanged: a new generation begins, or (same Role) the Epoch became known. Gated messages of older generations
	// must never leave. Looking after a hand-over names the suggested successor in Leader, which may be this server.
	RoleChanged struct {
		Role   Role
		Leader ServerID
		Epoch  Epoch // zero until known
		Reason Reason
	}
	// Serving: clients may be served. Leader: established and its whole history applied; learner: UpToDate came and its
	// commit point is applied.
	Serving struct {
		On    bool
		Epoch Epoch
	}
	// SyncDone: a SyncRead's index; answer its client once Index is applied. Lost reports that leadership ended first.
	SyncDone struct {
		ID    uint64
		Index Zxid
		Lost  bool
	}
	// NeedSnapshot asks the host for a snapshot at Min or later for that learner.
	NeedSnapshot struct {
		Link Link
		Min  Zxid
	}
	// StreamSnapshot: SyncBegin(SNAP) has left; stream now.
	StreamSnapshot struct {
		Link Link
		Zxid Zxid
	}
	// CancelSnapshot: drop what was being received or sent on that link.
	CancelSnapshot struct{ Link Link }
	// CutLink asks the transport to close a link.
	CutLink struct {
		Link   Link
		Reason Reason
		Detail string
	}
	// Campaign: the present leader told this server to stand at once (hand-over).
	Campaign struct{ Epoch Epoch }
	// HandedOver: TimeoutNow has left; per link the host appends the last origin_seq it took to its Goodbye.
	HandedOver struct{ To ServerID }
	// HandOverGivenUp: too slow; leading goes on.
	HandOverGivenUp struct{}
	// Fatal: this server must stop and say why to the operator.
	Fatal struct {
		Reason Reason
		Detail string
	}
	// Alarm: an invariant is broken at a peer; leading goes on (interleavings 21).
	Alarm struct {
		Peer   ServerID
		Reason Reason
		Detail string
	}
)

func (RoleChanged) isEvent()     {}
func (Serving) isEvent()         {}
func (SyncDone) isEvent()        {}
func (NeedSnapshot) isEvent()    {}
func (StreamSnapshot) isEvent()  {}
func (CancelSnapshot) isEvent()  {}
func (CutLink) isEvent()         {}
func (Campaign) isEvent()        {}
func (HandedOver) isEvent()      {}
func (HandOverGivenUp) isEvent() {}
func (Fatal) isEvent()           {}
func (Alarm) isEvent()           {}
