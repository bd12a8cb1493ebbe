package session

import "github.com/zkserver/zkserver/znode"

// Wire encodes what one kind of client connection says. It is stateless; one value serves all its connections.
// Both methods append one whole frame to dst: the outbox is a run of frames.
type Wire interface {
	// Slot is the wire's place in the cache of encoded events: 0 for the ZooKeeper wire, 1 for gRPC.
	Slot() int
	AppendReply(dst []byte, r *Reply) []byte
	// AppendEvent encodes a watch event. zxid is -1 for one made by setWatches.
	AppendEvent(dst []byte, zxid int64, t znode.EventType, path string) []byte
}

// wireSlots bounds Wire.Slot.
const wireSlots = 2

// Sink is where a connection's bytes go. Its methods are never called by two goroutines at once, except Close.
type Sink interface {
	// TryWrite writes what goes without waiting and returns how much that was; 0, nil when nothing goes.
	TryWrite(b []byte) (int, error)
	// Write writes all of b, waiting as long as it takes; Close ends the wait.
	Write(b []byte) (int, error)
	Close() error
}

// Request is one decoded client request. Strings and slices are owned by it: it may be parked.
type Request struct {
	Op    znode.Op
	Xid   int32
	Path  string
	Watch bool

	// Err not zero: the front refused the body; the request is answered with this code, in its turn, and does nothing.
	Err znode.Code
	// ErrBody asks the wire for the body that ZooKeeper sends along with some errors (multiRead of writes).
	ErrBody bool

	// Write is the request of an operation that goes to the leader (IsWrite). Nil for reads; also for OpSync and
	// OpCloseSession, where Conn.Do makes it.
	Write *znode.Request

	Reads []ReadOp    // OpMultiRead
	Lists *SetWatches // OpSetWatches, OpSetWatches2
	Mode  int32       // OpAddWatch: 0 persistent, 1 recursive; OpCheckWatches, OpRemoveWatches: the type
	Null  bool        // OpGetEphemerals: the prefix was null
}

// ReadOp is one operation of a multiRead: OpGetData or OpGetChildren.
type ReadOp struct {
	Op   znode.Op
	Path string
}

// SetWatches are the lists of setWatches and setWatches2.
type SetWatches struct {
	RelativeZxid                              int64
	Data, Exist, Child, Persistent, Recursive []string
}

// Reply is what a wire encodes. It is valid only during AppendReply.
type Reply struct {
	Op   znode.Op
	Xid  int32
	Zxid int64
	Err  znode.Code
	// ErrBody: see Request.
	ErrBody bool

	Path  string           // create*, sync
	Data  []byte           // getData; nil is null
	Stat  znode.Stat       // wherever the operation has one
	Names []string         // getChildren, getChildren2, getEphemerals
	ACL   []znode.ACL      // getACL
	Count int32            // getAllChildrenNumber
	IDs   []znode.AuthID   // whoAmI: scheme and user, in no promised order
	Multi []znode.OpResult // multi
	Reads []ReadResult     // multiRead
	Token []byte           // sasl
}

// ReadResult is the result of one operation of a multiRead.
type ReadResult struct {
	Op    znode.Op
	Code  znode.Code
	Data  []byte
	Stat  znode.Stat
	Names []string
}
