// Package recipe has what programs build on a tree of znodes: leader election, locks, semaphores, barriers, queues,
// counters, groups, service discovery, caches. Each works against zkserver, on both wires, and against Apache ZooKeeper
// 3.5.3 or newer.
//
// # What a Hold promises
//
// Whoever leads, or has a lock, has a Hold. Its Context ends before anybody else can hold the same: at the latest two
// thirds of the session's timeout after the sending of the last request that a server has answered, by this machine's
// monotonic clock; a server gives the node away after a whole timeout at the earliest. What is done under the Hold has to
// end when the context does.
//
// That is so with zkserver, whose servers do not answer what their leader may count as silence. A server of Apache
// ZooKeeper that is cut off from its leader answers on for syncLimit ticks, while the leader counts the session's timeout
// from before: there it holds for timeouts of more than 3 x syncLimit x tickTime (30 s with 5 ticks of 2 s). With a
// shorter one two contexts may be live at a time; then only the Token and a Fence tell who is the later one.
//
// A clock cannot bound what has left the process already: a packet that is late, a process that was stopped between a
// look at the context and a write. So a Hold also has a Token, a number larger than that of every earlier Hold of the
// same election or lock. Whatever is written to should refuse a token smaller than the largest it has seen. For data that
// is in the tree itself a Fence does that.
//
// # Disconnect and expiry
//
// On a disconnect a Hold goes on until its deadline, or ends at once (Options.OnSuspend). If the connection is back in
// time nothing has happened. At the end of the session every Hold ends, and every call that waits fails with
// client.ErrSessionExpired: the client is of no more use. A Hold is never taken up again from a node of an earlier
// session, nor one that has ended.
//
// What is to outlive a session has a method Run, which ends with it: Sessions calls it again with another one, until its
// context ends, and Lead does the same for an election. Together runs several in one session.
//
// # Lost replies
//
// Nodes are made by a protected create (Create): if its reply is lost the node is found again by a unique part of its
// name, so there is never a second one, nor one that nobody knows of. When a call is given up its node is removed in the
// background, until that has succeeded or the session ends.
//
// Where the name is not free to choose, or a node is changed that others change too, the write is in a multi with one to
// a receipt, a node of this client's own (receipt.go), which tells whether a multi was executed whose reply was lost. Only
// when the session ends before that is known does a call fail with an error that client.MaybeApplied reports.
//
// Of this project's packages it imports client only. To begin reading: seat.go (a place in a line), hold.go, then
// receipt.go and sessions.go.
package recipe
