package zab

import "fmt"

// Epoch numbers a leadership. Epochs from 2^31 on are refused: clients read zxids as signed.
type Epoch uint32

// MaxEpoch is the largest epoch a leader may propose.
const MaxEpoch Epoch = 1<<31 - 1

// ServerID is the N of server.N in zoo.cfg, 1..254 (0 is "nobody").
type ServerID uint64

// Zxid orders every transaction: the epoch in the high half, the counter in the low half.
type Zxid uint64

// MakeZxid joins an epoch and a counter.
func MakeZxid(e Epoch, counter uint32) Zxid { return Zxid(e)<<32 | Zxid(counter) }

// Epoch is the high half.
func (z Zxid) Epoch() Epoch { return Epoch(z >> 32) }

// Counter is the low half.
func (z Zxid) Counter() uint32 { return uint32(z) }

// String prints a zxid as ZooKeeper's own tools do.
func (z Zxid) String() string { return fmt.Sprintf("%#x", uint64(z)) }

// ID identifies an ensemble (drawn by its first leader) or an instance (drawn once per data directory).
// Zero means "none": a server without an ensemble ID is blank.
type ID uint64

// Entry is one transaction of the log. Data is opaque to zab and immutable once proposed.
type Entry struct {
	Zxid Zxid
	Data []byte

	// Value is the decoded form of Data where the host has it at hand (the leader that prepared it); zab carries
	// it along from Propose to the host's Persist and Append effects and never looks at it. It never crosses a link.
	Value any
}

// EpochEnd is one row of an epoch table: the last zxid of that epoch in this server's history.
type EpochEnd struct {
	Epoch Epoch
	Last  Zxid
}

// HardState holds the two promises of the Zab papers. Current <= Accepted always (I1).
type HardState struct {
	Accepted Epoch
	Current  Epoch
}

// Link names one incarnation of the connection with a peer. Incarnations of a peer only grow within a process, so
// a message of a replaced link can be told from one of the present link (R11).
type Link struct {
	Peer        ServerID
	Incarnation uint64
}
