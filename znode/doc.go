// Package znode is the replicated state: the tree of znodes and the sessions, and the only way it changes.
//
// A Request is what a client asked for. The leader's Preparer checks it against the tree and what is pending
// (the overlay) and makes a Txn of it, always exactly one, which holds everything that only the leader knows: time,
// final names, resolved access lists, new versions, the digests afterwards. Tree.Apply applies a Txn, on every server
// alike, exactly once and in zxid order (I3, I11), and says what changed, what watches see and what the client is told.
// Reads are methods of Tree.
//
// The package is pure: it imports the standard library only, has no clock, lock, goroutine, I/O, logger or source of
// randomness. The host locks: Apply and the Load family need the tree alone; reads and Prepare may run concurrently
// with each other.
//
// Begin reading at api.go (the values), then prepare.go, apply.go, tree.go. Behaviour follows ZooKeeper 3.9.5.
package znode
