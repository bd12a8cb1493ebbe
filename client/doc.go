// Package client is the Go client of zkserver and of Apache ZooKeeper. It speaks the ZooKeeper wire, or zkserver's
// gRPC API, behind one API.
//
// A Client is one session. Dial makes it (or resumes one), Close ends it, and what it made ephemeral with it. In
// between the client keeps it alive: it pings, and when its connection breaks it finds another server by itself,
// resumes the session there, sends the credentials again and re-arms the watches. A Client whose session has expired
// is of no more use; make another one.
//
// # What happens on a disconnect
//
//   - A call whose request has gone out and whose reply has not come fails with ErrConnectionLoss. Whether a write
//     took effect is then unknown: MaybeApplied tells this case. It is never sent again behind the caller's back.
//   - A call whose request was still waiting to be sent fails with ErrConnectionLoss too, so that nothing overtakes
//     what was lost before it; MaybeApplied is false, it was not executed.
//   - A call made while there is no connection waits for one, as long as its context allows (Options.FailFast: it
//     fails at once).
//   - Watches stay. After the reconnect the server tells what was missed, by the rules of ZooKeeper: at most one event
//     a watch, and the changes between are not told one by one.
//
// # What happens when the session ends
//
// A server that is reached says that the session has expired. Every call, waiting or new, then fails with
// ErrSessionExpired, every Watch gets one last Event with its Err set, and the state is Expired for good. Nothing is
// ever executed in another session.
//
// While no server answers, the client cannot know. So there is a deadline: two thirds of the session's timeout,
// counted from the sending of the last request that was answered. Past it the state is Lost: whoever holds a lock or a
// leadership by this session must have stopped (HoldContext, HoldUntil), for the server may give it to another from
// one third of a timeout later (Apache ZooKeeper sooner, unless the timeout is more than 3 x syncLimit x tickTime: see
// package recipe). From Lost the session may still come back, as Connected. Options.GiveUpAfter ends it
// without a server's word.
//
// # The chroot
//
// A connection string that ends in a path ("host:2181/app") puts the client below it: all its paths, and those of its
// events, are without it. The node has to exist; Create of "/" makes it, if its parent is there.
//
// # Concurrency
//
// All methods may be called from many goroutines. Requests are pipelined: each goroutine waits for its own reply only.
// Requests of one goroutine take effect in the order of its calls.
//
// Of this project's packages the client imports proto/jute and proto/zk/v1 only. To begin reading: client.go, then
// session.go (the life of a connection).
package client
