package znode

// Op is a ZooKeeper opcode, as on the client wire.
type Op int32

// The operations of the tree. Reads are executed against Tree directly; writes become a Request.
const (
	OpCreate               Op = 1
	OpDelete               Op = 2
	OpExists               Op = 3
	OpGetData              Op = 4
	OpSetData              Op = 5
	OpGetACL               Op = 6
	OpSetACL               Op = 7
	OpGetChildren          Op = 8
	OpSync                 Op = 9
	OpPing                 Op = 11
	OpGetChildren2         Op = 12
	OpCheck                Op = 13
	OpMulti                Op = 14
	OpCreate2              Op = 15
	OpReconfig             Op = 16
	OpCheckWatches         Op = 17
	OpRemoveWatches        Op = 18
	OpCreateContainer      Op = 19
	OpDeleteContainer      Op = 20
	OpCreateTTL            Op = 21
	OpMultiRead            Op = 22
	OpAuth                 Op = 100
	OpSetWatches           Op = 101
	OpSASL                 Op = 102
	OpGetEphemerals        Op = 103
	OpGetAllChildrenNumber Op = 104
	OpSetWatches2          Op = 105
	OpAddWatch             Op = 106
	OpWhoAmI               Op = 107
	OpCreateSession        Op = -10
	OpCloseSession         Op = -11
	OpError                Op = -1
)

// Code is ZooKeeper's error code of a result. Zero is success.
type Code int32

// The codes the tree, the preparer and the server give.
const (
	OK                           Code = 0
	RuntimeInconsistency         Code = -2
	MarshallingError             Code = -5
	Unimplemented                Code = -6
	BadArguments                 Code = -8
	UnknownSession               Code = -12
	NewConfigNoQuorum            Code = -13
	ReconfigInProgress           Code = -14
	NoNode                       Code = -101
	NoAuth                       Code = -102
	BadVersion                   Code = -103
	NoChildrenForEphemerals      Code = -108
	NodeExists                   Code = -110
	NotEmpty                     Code = -111
	SessionExpired               Code = -112
	InvalidACL                   Code = -114
	AuthFailed                   Code = -115
	SessionMoved                 Code = -118
	NotReadOnly                  Code = -119
	EphemeralOnLocalSession      Code = -120
	NoWatcher                    Code = -121
	ReconfigDisabled             Code = -123
	SessionClosedRequireSASLAuth Code = -124
	QuotaExceeded                Code = -125
	ThrottledOp                  Code = -127
)

// Stat is what clients see of a node (68 bytes on the wire). Zxids and ids are signed as there.
type Stat struct {
	Czxid, Mzxid, Ctime, Mtime  int64
	Version, Cversion, Aversion int32
	EphemeralOwner              int64
	DataLength, NumChildren     int32
	Pzxid                       int64
}

// Permission bits.
const (
	PermRead   int32 = 1
	PermWrite  int32 = 2
	PermCreate int32 = 4
	PermDelete int32 = 8
	PermAdmin  int32 = 16
	PermAll    int32 = 31
)

// ACL is one entry of a node's list.
type ACL struct {
	Perms      int32
	Scheme, ID string

	// SchemeNull and IDNull say, in a Request only, that the string was null on the wire. No node ever holds such an
	// entry.
	SchemeNull, IDNull bool
}

// AuthID is one identity of a connection.
type AuthID struct{ Scheme, ID string }

// Ticket orders the owners of a session (architecture 4.8). The zero ticket is below every drawn one.
type Ticket struct {
	Epoch  uint32
	Number uint64
}

// Origin names the request a transaction came from. Zero: none (expiry, reaper).
type Origin struct {
	Server   uint64
	Instance uint64
	Conn     uint32
	Seq      uint64
}

// Request is a write that has decoded: what the front hands to the loop, or forwards. Slices are owned by it.
// Null and empty are kept apart: Data nil is null; PathNull says the path was null.
type Request struct {
	Op      Op
	Session int64
	Cxid    int32
	Origin  Origin
	Ticket  Ticket
	Auth    []AuthID // of the connection when the request was received

	Path        string
	PathNull    bool
	Data        []byte
	ACL         []ACL     // nil: null
	Flags       int32     // create
	Version     int32     // delete, setData, setACL, check
	TTL         int64     // createTTL; -1 for every other create
	Multi       []Request // OpMulti: the sub-operations (Op, Path, Data, ACL, Flags, Version, TTL of each)
	Undecodable bool      // a multi whose body did not decode: one error transaction MarshallingError

	Timeout  int32    // createSession: negotiated ms
	Password [16]byte // createSession: drawn by the leader before Prepare
}

// EventType is a watch event's type on the wire.
type EventType int32

// Event types that the server sends.
const (
	EventCreated         EventType = 1
	EventDeleted         EventType = 2
	EventDataChanged     EventType = 3
	EventChildrenChanged EventType = 4
)

// Event is one mutation as watches see it, in delivery order. ACL is the list against which READ is checked.
type Event struct {
	Type EventType
	Path string
	ACL  []ACL
}

// OpResult is the result of one write operation, or of one operation inside a multi.
type OpResult struct {
	Op   Op // as in the request
	Code Code
	Path string // creates: the final name
	Stat Stat   // create2, createContainer, createTTL, setData, setACL
}

// Change names a path whose stored record must be written again.
type Change struct {
	Path string
	Data bool // the data changed too (a child's creation changes only the stat)
}

// Applied is what applying one transaction gave. It is filled by Tree.Apply and reused by its owner.
type Applied struct {
	Zxid     int64
	Type     Op
	Result   OpResult   // of a single operation; Code is the header's error of a failed one
	Multi    []OpResult // OpMulti (Result.Code stays OK then)
	Events   []Event
	Changes  []Change // nodes to store again; a path that no longer exists is deleted from the store
	Sessions []int64  // session records to store again (created, ticket moved) or to delete (ended)

	// DigestMismatch: the digests after this transaction are not the ones it carries; this server's state differs
	// from the state the leader prepared against (I11).
	DigestMismatch bool

	Ended   int64 // the session that a closeSession ended, else zero
	Session int64 // the session the transaction belongs to
	Cxid    int32
	Origin  Origin
}

// Session is the replicated part of a session.
type Session struct {
	ID       int64
	Timeout  int32 // ms
	Password [16]byte
	Ticket   Ticket
}

// NodeRecord is a node as the store keeps it and as snapshots carry it, in path order.
type NodeRecord struct {
	Path          string
	Czxid, Mzxid  int64
	Ctime, Mtime  int64
	Pzxid         int64
	Version       int32
	CreateCounter int32 // children ever created; Stat.Cversion is derived from it
	Aversion      int32
	Owner         int64 // raw ephemeralOwner: session, container or TTL encoding
	ACL           []ACL
	Data          []byte // nil: null
}

// Digests are the two sums over the state (spec semantics 17).
type Digests struct {
	Tree  uint64 // ZooKeeper's own, version 2
	State uint64 // ours: covers ACLs, sessions, ticketless, and everything below /zookeeper
}
