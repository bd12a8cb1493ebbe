package client

import (
	"fmt"
	"time"
)

// AnyVersion, as the version of a write, asks for no particular one.
const AnyVersion int32 = -1

// Stat describes a node.
type Stat struct {
	Czxid          int64     // zxid that created the node: a fencing number that grows
	Mzxid          int64     // zxid of the last change of its data
	Pzxid          int64     // zxid of the last creation or removal of a child
	Ctime          time.Time // when it was created, by the leader's clock, to the millisecond
	Mtime          time.Time // when its data was last changed, likewise
	Version        int32     // changes of its data
	Cversion       int32     // changes of its list of children
	Aversion       int32     // changes of its access control list
	EphemeralOwner int64     // the session that owns an ephemeral node, 0 for any other
	DataLength     int32     // bytes; 0 for null data
	NumChildren    int32     // children
}

// Permissions of an ACL.
const (
	PermRead   int32 = 1  // read data, list children
	PermWrite  int32 = 2  // set data
	PermCreate int32 = 4  // create children
	PermDelete int32 = 8  // delete children
	PermAdmin  int32 = 16 // set the ACL
	PermAll    int32 = 31 // all of them
)

// ACL is one entry of a node's access control list.
type ACL struct {
	Perms  int32  // sum of permissions
	Scheme string // world, auth, digest, ip, x509, sasl
	ID     string // within the scheme: "anyone" for world
}

// OpenACL lets anyone do anything. It is what a create without a list gets.
func OpenACL() []ACL { return []ACL{{Perms: PermAll, Scheme: "world", ID: "anyone"}} }

// ReadOnlyACL lets anyone read.
func ReadOnlyACL() []ACL { return []ACL{{Perms: PermRead, Scheme: "world", ID: "anyone"}} }

// CreatorACL lets the identities do anything that the creating client has authenticated with AddAuth.
func CreatorACL() []ACL { return []ACL{{Perms: PermAll, Scheme: "auth"}} }

// Auth is one set of credentials.
type Auth struct {
	Scheme string // digest, ip, or one the server has added
	Data   []byte // "user:password" for digest
}

// Identity is one identity of a connection, as the server tells it.
type Identity struct {
	Scheme string // "ip", "digest", "world", ...
	User   string // a digest's without its hash
}

// CreateMode says how a node lives and is named.
type CreateMode int32

// The modes. The name of a sequential node gets ten decimal digits of its parent's counter appended.
const (
	Persistent                  CreateMode = 0 // until it is deleted
	Ephemeral                   CreateMode = 1 // until its session ends; it has no children
	PersistentSequential        CreateMode = 2
	EphemeralSequential         CreateMode = 3
	Container                   CreateMode = 4 // removed by the server some time after its last child has gone
	PersistentWithTTL           CreateMode = 5 // removed by the server once childless and unchanged for its TTL
	PersistentSequentialWithTTL CreateMode = 6
)

// String names the mode.
func (m CreateMode) String() string {
	switch m {
	case Persistent:
		return "persistent"
	case Ephemeral:
		return "ephemeral"
	case PersistentSequential:
		return "persistent sequential"
	case EphemeralSequential:
		return "ephemeral sequential"
	case Container:
		return "container"
	case PersistentWithTTL:
		return "persistent with ttl"
	case PersistentSequentialWithTTL:
		return "persistent sequential with ttl"
	}
	return fmt.Sprintf("mode %d", int32(m))
}

// IsEphemeral reports whether the node ends with its session.
func (m CreateMode) IsEphemeral() bool { return m == Ephemeral || m == EphemeralSequential }

// IsSequential reports whether digits are appended to the name.
func (m CreateMode) IsSequential() bool {
	return m == PersistentSequential || m == EphemeralSequential || m == PersistentSequentialWithTTL
}

// hasTTL reports whether the mode takes a time to live.
func (m CreateMode) hasTTL() bool { return m == PersistentWithTTL || m == PersistentSequentialWithTTL }

// EventType is what has happened to a watched path.
type EventType int32

// The types.
const (
	EventLost            EventType = -1 // the watch is over: Event.Err says why
	EventRearmed         EventType = -2 // of a PersistentWatch: there is a new connection; what happened in between is not told
	EventCreated         EventType = 1  // the node was created
	EventDeleted         EventType = 2  // the node was removed
	EventDataChanged     EventType = 3  // its data was replaced
	EventChildrenChanged EventType = 4  // a child was created or removed
)

// String names the type as ZooKeeper does.
func (t EventType) String() string {
	switch t {
	case EventLost:
		return "WatchLost"
	case EventRearmed:
		return "WatchRearmed"
	case EventCreated:
		return "NodeCreated"
	case EventDeleted:
		return "NodeDeleted"
	case EventDataChanged:
		return "NodeDataChanged"
	case EventChildrenChanged:
		return "NodeChildrenChanged"
	}
	return fmt.Sprintf("event %d", int32(t))
}

// Event is what a Watch tells.
type Event struct {
	Type EventType // what happened
	Path string    // as the caller knows it, without the chroot
	Zxid int64     // of the transaction; -1 when it was missed and told after a reconnect, or by a server before 3.9
	Err  error     // of EventLost: wraps ErrSessionExpired, ErrClosed, ErrAuthFailed, ErrWatchOverflow, ErrWatchRemoved or what the server said
}

// Session identifies a session. Its password resumes it: keep it secret.
type Session struct {
	ID       int64         // 0: none yet
	Password []byte        // 16 bytes
	Timeout  time.Duration // negotiated with the server last connected to
}

// WatchMode says what a PersistentWatch tells of.
type WatchMode int32

// The modes.
const (
	WatchNode WatchMode = 0 // the node's creation, change and removal, and the changes of its list of children
	WatchTree WatchMode = 1 // creation, change and removal of the node and of everything below it
)

// WatcherType names kinds of watches, for RemoveWatches. The numbers are those of the wire.
type WatcherType int32

// The kinds.
const (
	WatchersChildren WatcherType = 1 // of ChildrenW
	WatchersData     WatcherType = 2 // of GetW and ExistsW
	WatchersAny      WatcherType = 3 // all
	WatchersNode     WatcherType = 4 // of AddWatch with WatchNode; servers since 3.9
	WatchersTree     WatcherType = 5 // of AddWatch with WatchTree; servers since 3.9
)
