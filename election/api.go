package election

import (
	"math/rand/v2"
	"time"

	"github.com/zkserver/zkserver/zab"
)

// Vote names a candidate by the end of its durable history. Order: PeerEpoch, then Zxid, then Leader.
type Vote struct {
	Leader    zab.ServerID
	Zxid      zab.Zxid  // durable end of the candidate's log
	PeerEpoch zab.Epoch // the candidate's currentEpoch
}

// Established is what a settled server reports: whom it follows (or that it leads) and in which epoch.
// It is set when UPTODATE was processed, never copied from the vote it won with (A.8(1)).
type Established struct {
	Leader zab.ServerID
	Epoch  zab.Epoch
}

// Notification is the only message of the election. Delivery, order and uniqueness are not relied on.
type Notification struct {
	Ensemble    zab.ID // zero: blank (A.8(9))
	Transaction bool   // the sender's history holds at least one transaction
	Round       uint64
	Vote        Vote
	State       zab.Role
	Established Established // zero while Looking or not yet up to date
	ConfigSum   uint64      // hash of the voter list
}

// Options; zero values take the defaults in brackets.
type Options struct {
	Finalize    time.Duration // how long a quorum waits for a better vote when not all voters are heard or known down [20 ms]
	ResendMin   time.Duration // [50 ms] resend interval, doubled up to ResendMax, reset by a peer that comes up
	ResendMax   time.Duration // [1 s]
	ObserverMin time.Duration // jitter before an observer campaigns again [0]
}

// Boot configures a Core.
type Boot struct {
	Self      zab.ServerID
	Members   []zab.Member
	Verifier  zab.Verifier
	ConfigSum uint64
	Rand      *rand.Rand
	Options   Options
}

// Input is what Step consumes.
type Input interface{ isInput() }

type (
	// Quantum is 10 ms of monotonic time, as for zab.
	Quantum struct{ Now, Late time.Duration }
	// Received is a notification from a peer.
	Received struct {
		From zab.ServerID
		N    Notification
	}
	// PeerUp: a link with the peer works; RTT is its measured round trip (zero: unknown).
	PeerUp struct {
		Peer zab.ServerID
		RTT  time.Duration
	}
	// PeerDown: no link with the peer is left, or none could be made. Refused is set when a dial was refused or reset: only then is the peer "known down",
	// and only until it is heard of again, directly or through others (interleavings 25).
	PeerDown struct {
		Peer    zab.ServerID
		Refused bool
	}
	// Look starts an instance of the election. The host gives it only when everything issued to the disk is durable.
	Look struct {
		Last        zab.Zxid
		Current     zab.Epoch
		Ensemble    zab.ID
		Transaction bool
		NeedSnap    bool // damaged state: do not vote for self, be counted by nobody
		Campaign    bool // told by TimeoutNow to stand: decide for self at once
		Successor   zab.ServerID
	}
	// Resigned says that the role is over while the next Look must wait for the disk. What this server said of its role
	// is taken back at once: those who look would go on following one who leads no more, for initLimit.
	Resigned struct{}
	// Settled says the zab core serves in this role and epoch.
	Settled struct {
		Role     zab.Role
		Leader   zab.ServerID
		Epoch    zab.Epoch
		Ensemble zab.ID // as stamped by now; zero: as in Look
	}
	// Chosen says the zab core has begun the role that Decided named (not yet serving).
	Chosen struct{ Role zab.Role }
)

func (Quantum) isInput()  {}
func (Received) isInput() {}
func (PeerUp) isInput()   {}
func (PeerDown) isInput() {}
func (Look) isInput()     {}
func (Resigned) isInput() {}
func (Settled) isInput()  {}
func (Chosen) isInput()   {}

// Outbound is a notification for a peer; the transport keeps only the newest per peer.
type Outbound struct {
	To zab.ServerID
	N  Notification
}

// Decision ends an instance.
type Decision struct{ Leader zab.ServerID }

// Batch is what the host must do after Step.
type Batch struct {
	Send    []Outbound
	Decided *Decision
	// Abandon is set while a role is held but not yet settled, when the chosen leader (or, leading, so many of the
	// voters that no quorum can remain) has turned elsewhere: step down and look again (A.8(2), R16). It is set of a
	// settled learner too when its leader itself says that it looks for another, and of any settled server that hears
	// of a later epoch established by another leader.
	Abandon zab.Reason
	// Refusal names, for the log, a peer with another ensemble id or another voter list.
	Refused []Refusal
}

// Refusal is a peer that can not be in this ensemble.
type Refusal struct {
	Peer   zab.ServerID
	Reason zab.Reason
}
