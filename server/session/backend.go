package session

import "github.com/zkserver/zkserver/znode"

// Backend is what connections ask of the replica. All methods may be called from any goroutine.
type Backend interface {
	// Now is the monotonic clock, in nanoseconds, on the scale of LeaseUntil. It goes on while the process is stopped.
	Now() int64

	// LeaseUntil is the end of the serving lease: nothing is answered at or after it (architecture 4.13). An ensemble
	// of one returns math.MaxInt64 once it serves; a server that does not serve returns zero.
	LeaseUntil() int64

	// RLock takes the tree's read lock and returns the tree; RUnlock releases it. Reads run between the two. The tree
	// may be another one after a snapshot was installed, which closes all connections first.
	RLock() *znode.Tree
	RUnlock()

	// LastApplied is the zxid of the last transaction applied to the tree; cheap, without the tree's lock.
	LastApplied() int64

	// Attach asks for a session: a new one, an existing one, or only a confirmation that the connection still has
	// its own. It returns at once. The answer comes through Hub.Attached with the connection's number; for a new
	// session Hub.Complete with the createSession transaction is the answer (its Origin names the connection). The
	// replica draws the session id and tries the next one where the leader finds it taken.
	Attach(c *Conn, a Attach)

	// Submit hands over the writes of one run, in the order in which the client sent them: transactions, OpSync (which
	// carries no more than its place) and OpCloseSession as the last. Session, Cxid, Ticket and Auth are filled in;
	// the replica draws Origin (Conn is c.Number(), Seq grows over the whole process in the order in which requests
	// enter its queue) before it queues them. Each is answered exactly once through Hub.Complete (or CompleteEmpty for
	// OpSync), in this order, or else the connection is closed. Submit blocks only for backpressure, never past the
	// end of the connection (c.Done()). One goroutine calls it for one connection. The slice is the backend's to keep.
	Submit(c *Conn, rs []*znode.Request)

	// Detach says that the connection is gone and will not call again; its session lives on.
	Detach(c *Conn)
}

// Attach is what a connection asks for.
type Attach struct {
	Session  int64  // zero: a new session
	Password []byte // of an existing session, as the client sent it; ignored for a new one; not looked at if Again
	Timeout  int32  // ms, negotiated
	Again    bool   // the connection has Session already, but not a sign of its life within its timeout: only confirm it
}

// AttachResult answers Attach. OK false: the session does not exist, is ending, or the password is wrong.
type AttachResult struct {
	OK       bool
	Session  int64
	Password [16]byte // of an existing session, as it was asked for
	Timeout  int32    // ms
	Ticket   znode.Ticket
}

// Reason says why a connection is closed; it is logged and counted, never sent.
type Reason string

// Reasons for closing a connection.
const (
	ReasonClient       Reason = "closed by the client"
	ReasonSession      Reason = "session closed"
	ReasonExpired      Reason = "session expired"
	ReasonEvicted      Reason = "session attached elsewhere"
	ReasonRefused      Reason = "session refused"
	ReasonMalformed    Reason = "malformed frame"
	ReasonUnknownOp    Reason = "unknown operation"
	ReasonAuth         Reason = "authentication failed"
	ReasonEnsemble     Reason = "client wants another ensemble"
	ReasonUnproved     Reason = "authentication is enforced"
	ReasonAhead        Reason = "client has seen a later zxid"
	ReasonSlow         Reason = "client does not read"
	ReasonWrite        Reason = "write to the client failed"
	ReasonNotServing   Reason = "not serving"
	ReasonUnknownFate  Reason = "fate of a write unknown"
	ReasonSnapshot     Reason = "snapshot installed"
	ReasonShutdown     Reason = "server stops"
	ReasonOrder        Reason = "completion out of order"
	ReasonHandshake    Reason = "no complete first frame in time"
	ReasonRevalidation Reason = "session gone after a silence"
	ReasonTooLate      Reason = "new session over before its client was told"
	ReasonSilent       Reason = "client not heard from"
)
