package front

import "time"

// Status is what the four-letter words ask of the server. All methods may be called from any goroutine, also while the
// server does not serve.
type Status interface {
	// Snapshot reads the state of the server.
	Snapshot() Snapshot
	// Conf is the text of conf: key=value lines.
	Conf() string
	// DirSizes are the bytes below the data directory and the log directory.
	DirSizes() (data, log int64)
	// Digests are the digests kept for hash, oldest first.
	Digests() []Digest
	// Dump is what dump tells of sessions.
	Dump() Dump
	// Metrics gives mntr's further lines: keys without zk_, of [A-Za-z0-9_] only, and values that are not empty.
	Metrics(line func(key, value string))
}

// Dump lists the sessions, those with ephemerals among them by id.
type Dump struct {
	// Expiring are the sessions in the order of their end, on the leader; Expiring is nil elsewhere.
	Expiring []SessionEnd
	// Sessions are all of them by id, as the tree has them.
	Sessions []SessionEnd
	Owners   []SessionNodes
}

// SessionEnd is a session and when it ends if nothing more is heard from it; zero: only the leader knows.
type SessionEnd struct {
	ID      int64
	Timeout int32 // ms
	Ends    time.Time
}

// SessionNodes are the ephemeral nodes of a session, sorted.
type SessionNodes struct {
	ID    int64
	Paths []string
}

// Digest is the tree's digest after a transaction.
type Digest struct {
	Zxid   int64
	Digest uint64
}

// Snapshot is the state of the server.
type Snapshot struct {
	Version   string // as ZooKeeper prints it: "3.9.5-<commit>, built on YYYY-MM-DD HH:MM UTC"
	Mode      string // standalone, leader, follower or observer
	PeerState string // e.g. "leading - broadcast"; empty for standalone
	Zxid      int64  // last applied
	Nodes     int
	DataSize  int64 // bytes of paths and data
	Ephemeral int
	Sessions  int
	Leading   time.Duration // since when this server leads; leader only
	Voters    int           // voting members; zero for standalone
	Leader    *LeaderStatus // leader only
}

// LeaderStatus is what only a leader knows.
type LeaderStatus struct {
	Learners, SyncedFollowers, SyncedObservers, PendingSyncs int
	// Sizes of proposals, in bytes; -1 while there were none.
	LastProposal, MinProposal, MaxProposal int64
}
