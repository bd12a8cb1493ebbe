package session

import "github.com/zkserver/zkserver/znode"

// Hub knows all connections of this server.
//
// What the applier does for one transaction, under the tree's write lock and from one goroutine only:
//
//	tree.Apply(txn, &a)
//	hub.Applied(tree, &a, own) // own: a.Origin is a request of this process
//
// and after a run, when the lock is released: hub.Flush().
type Hub struct{}

// Bind gives the hub its backend, once, before Run and before any connection.
func (h *Hub) Bind(b Backend) {}

// Applied does all that a transaction means to this server's clients: events (Fire), the reply to its own request
// (Complete) with the reads parked behind it, and the end of a session (SessionEnded), in this order.
func (h *Hub) Applied(t *znode.Tree, a *znode.Applied, own bool) {}

// Fire queues the events of a transaction. Under the tree's write lock.
func (h *Hub) Fire(t *znode.Tree, zxid int64, evs []znode.Event) {}

// Complete answers the request that a transaction came from, then runs the reads parked directly behind it. A
// createSession answers its connection's Attach. Under the tree's write lock.
func (h *Hub) Complete(t *znode.Tree, o znode.Origin, a *znode.Applied) {}

// CompleteEmpty does the same for a completion that is no transaction: a sync. In its place in the applier's queue,
// under the tree's write lock.
func (h *Hub) CompleteEmpty(t *znode.Tree, conn uint32, seq uint64) {}

// Attached answers Backend.Attach for a re-attach, a confirmation, or a refusal. From any goroutine.
func (h *Hub) Attached(conn uint32, r AttachResult) {}

// SessionEnded closes the connection of a session that a closeSession ended: after its reply if the connection asked
// for it, else at once. Under the tree's write lock.
func (h *Hub) SessionEnded(id int64) {}

// Evict closes the connections of a session with a ticket below the one given. From any goroutine.
func (h *Hub) Evict(session int64, below znode.Ticket) {}

// CloseConn closes one connection. From any goroutine.
func (h *Hub) CloseConn(conn uint32, r Reason) {}

// CloseAll closes every connection that has or wants a session. From any goroutine.
func (h *Hub) CloseAll(r Reason) {}

// Flush hands the outboxes that Applied, Fire, Complete and CompleteEmpty filled to the flushers. Without any lock.
func (h *Hub) Flush() {}

// Each visits the connections that have a session, in no order, until f returns false.
func (h *Hub) Each(f func(c *Conn) bool) {}

// Touched drains the sessions heard from since the last call. From one goroutine: the loop, at each heartbeat.
func (h *Hub) Touched(f func(session int64, timeoutMs int32)) {}
