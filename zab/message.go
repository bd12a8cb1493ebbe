package zab

import "time"

// Message is what two zab cores say to each other (spec zab-and-election F.2). The transport adds the envelope:
// ensemble id, from, to, instance, link incarnation. Every message carries the epoch it belongs to where it has one.
type Message interface{ isZab() }

// SyncMode says how a learner reaches the leader's history.
type SyncMode uint8

// The three modes. A truncation is followed by a DIFF from the cut.
const (
	SyncDiff SyncMode = iota + 1
	SyncTrunc
	SyncSnap
)

// Role is a server's part as far as Zab is concerned.
type Role uint8

// Roles.
const (
	Looking Role = iota
	Following
	Leading
	Observing
)

type (
	// LearnerInfo opens discovery (FOLLOWERINFO, OBSERVERINFO).
	LearnerInfo struct {
		Ensemble    ID // zero: blank
		Instance    ID
		Observer    bool
		Transaction bool // its history holds a transaction: only then may its ensemble id be foreign (interleavings 10)
		Accepted    Epoch
		ConfigSum   uint64 // hash of the voter list: differing lists are refused by name
		Version     uint32 // format of this protocol
	}
	// LeaderInfo proposes an epoch.
	LeaderInfo struct {
		Epoch    Epoch
		Ensemble ID
	}
	// AckEpoch promises it. Counts is false on a repeated promise of the same epoch.
	AckEpoch struct {
		Ensemble  ID
		Epoch     Epoch // the promised one
		Counts    bool
		Current   Epoch
		Last      Zxid // durable end of the log
		Delivered Zxid
		Base      Zxid // oldest zxid its log continues from
		NeedSnap  bool // its state is damaged or missing
		Epochs    []EpochEnd
	}
	// SyncBegin announces the mode. TruncateTo is the common point with SyncTrunc and
	// SyncSnap, Snapshot only with SyncSnap.
	SyncBegin struct {
		Epoch      Epoch
		Mode       SyncMode
		TruncateTo Zxid
		Snapshot   Zxid
		Epochs     []EpochEnd // the leader's epoch table up to Snapshot (SNAP)
		Base       Zxid
	}
	// Append carries a run of transactions behind Prev. To observers only committed ones are sent.
	Append struct {
		Epoch     Epoch // of the leadership that sends it
		Prev      Zxid
		Entries   []Entry
		Committed Zxid // min(lastCommitted, last zxid sent on this link)
	}
	// NewLeader ends the initial history.
	NewLeader struct {
		Epoch      Epoch
		HistoryEnd Zxid
		Epochs     []EpochEnd
		Ensemble   ID
	}
	// AckNewLeader says the history up to HistoryEnd and currentEpoch = Epoch are durable.
	AckNewLeader struct {
		Epoch      Epoch
		HistoryEnd Zxid
	}
	// UpToDate lets the learner serve.
	UpToDate struct {
		Epoch     Epoch
		Committed Zxid
	}
	// Ack says everything up to Durable is on the sender's disk.
	Ack struct {
		Epoch   Epoch
		Durable Zxid
	}
	// Commit says everything up to Zxid may be delivered.
	Commit struct {
		Epoch Epoch
		Zxid  Zxid
	}
	// Ping is the leader's heartbeat. PongSeen is the Seq of the youngest Pong it has had from this learner:
	// contact is dated by the sending of what was answered (interleavings 13).
	Ping struct {
		Epoch     Epoch
		Seq       uint64
		Committed Zxid
		HasQuorum bool
		PongSeen  uint64
	}
	// Pong answers a Ping.
	Pong struct {
		Epoch   Epoch
		Seq     uint64 // of the Ping it answers
		PongSeq uint64 // its own number
		Durable Zxid
		Applied Zxid
		Current Epoch
	}
	// SyncRequest asks for a read index; ID is the learner's own number.
	SyncRequest struct {
		Epoch Epoch
		ID    uint64
	}
	// SyncReply: answer clients once Index is applied.
	SyncReply struct {
		Epoch Epoch
		ID    uint64
		Index Zxid
	}
	// TimeoutNow tells a follower to campaign at once (hand-over).
	TimeoutNow struct {
		Epoch Epoch
		Last  Zxid
	}
	// Goodbye ends a leadership or a learner's stay politely.
	Goodbye struct {
		Epoch     Epoch
		Reason    Reason
		Last      Zxid
		Successor ServerID // zero: none suggested
	}
	// Refuse tells a peer by name why it cannot be served. Fatal refusals (foreign ensemble, delivered beyond the
	// leader's log, differing voter list) are for the operator; others pass by themselves.
	Refuse struct {
		Reason Reason
		Detail string
	}
)

func (*LearnerInfo) isZab()  {}
func (*LeaderInfo) isZab()   {}
func (*AckEpoch) isZab()     {}
func (*SyncBegin) isZab()    {}
func (*Append) isZab()       {}
func (*NewLeader) isZab()    {}
func (*AckNewLeader) isZab() {}
func (*UpToDate) isZab()     {}
func (*Ack) isZab()          {}
func (*Commit) isZab()       {}
func (*Ping) isZab()         {}
func (*Pong) isZab()         {}
func (*SyncRequest) isZab()  {}
func (*SyncReply) isZab()    {}
func (*TimeoutNow) isZab()   {}
func (*Goodbye) isZab()      {}
func (*Refuse) isZab()       {}

// QuantumLength is the core's unit of time: 10 ms of monotonic time.
const QuantumLength = 10 * time.Millisecond
