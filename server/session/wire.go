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

// Sink is where a connection's bytes go. TryWrite and Write are never called by two goroutines at once.
type Sink interface {
	// TryWrite writes what goes without waiting and returns how much that was; 0, nil when nothing goes (always
	// allowed: the connection then uses Write on a goroutine of its own). Each call begins where the last one ended,
	// which need not be at a frame's border.
	TryWrite(b []byte) (int, error)
	// Write writes all of b, waiting as long as it takes; Close ends the wait.
	Write(b []byte) (int, error)
	// Close ends the connection and whatever waits in Write or in a read of the same connection. Any goroutine, once.
	Close() error
}

// size estimates how long a reply is, in bytes; what is beyond HardReplies need not be known exactly.
func (r *Reply) size() int {
	n := 128 + len(r.Path) + len(r.Data) + 128*len(r.Multi)
	for i := range r.Multi {
		n += len(r.Multi[i].Path)
	}
	for i := range r.ACL {
		n += 16 + len(r.ACL[i].Scheme) + len(r.ACL[i].ID)
	}
	n += r.Names.Size()
	for i := range r.Reads {
		if n > HardReplies {
			break
		}
		n += 96 + len(r.Reads[i].Data) + r.Reads[i].Names.Size()
	}
	return n
}

// Request is one decoded client request. Strings and slices are owned by it: it may be parked.
type Request struct {
	Op    znode.Op
	Xid   int32
	Path  string
	Null  bool // the path (or getEphemerals' prefix) was null
	Watch bool

	// ErrBody asks the wire for the body that ZooKeeper sends along with some errors: a multiRead of writes has no
	// results, one with a null path those before it.
	ErrBody bool
	// Err not zero: the front refused the body; the request is answered with this code, in its turn, and does nothing.
	Err znode.Code
	// Mode of OpAddWatch: 0 persistent, 1 recursive. Of OpCheckWatches and OpRemoveWatches: the watcher type, 1..5.
	Mode int32

	// Write is set for what goes to the leader: every write, OpSync and OpCloseSession (which need no more than Op).
	Write *znode.Request
	Reads []znode.ReadOp // OpMultiRead
	Lists *SetWatches    // OpSetWatches, OpSetWatches2
}

// SetWatches are the lists of setWatches and setWatches2.
type SetWatches struct {
	RelativeZxid                              int64
	Data, Exist, Child, Persistent, Recursive []string

	Null bool // a list was null: those before it are worked off, then the answer is MARSHALLINGERROR
}

// Reply is what a wire encodes. It is valid only during AppendReply. Which fields mean something depends on Op, as in
// the request; none of them does if Err is not OK (ErrBody apart).
type Reply struct {
	Op      znode.Op
	Xid     int32
	Zxid    int64
	Err     znode.Code
	ErrBody bool // see Request

	Path  string // create*, sync
	Null  bool   // sync: the path was null
	Data  []byte // getData: nil is null
	Stat  znode.Stat
	Names znode.Names        // getChildren, getChildren2, getEphemerals
	ACL   []znode.ACL        // getACL
	Count int32              // getAllChildrenNumber
	IDs   []znode.AuthID     // whoAmI: scheme and user, in no promised order
	Multi []znode.OpResult   // multi
	Reads []znode.ReadResult // multiRead
}
