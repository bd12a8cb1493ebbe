package session

import (
	"time"

	"github.com/zkserver/zkserver/znode"
)

// ServingWait is how long a new connection waits for this server to serve: longer than an election takes, shorter than
// a client's patience with a server that is cut off.
const ServingWait = 500 * time.Millisecond

// The flags of a create, as clients send them.
const (
	flagsPersistent              = 0
	flagsContainer               = 4
	flagsPersistentTTL           = 5
	flagsPersistentSequentialTTL = 6
)

// InMulti settles what a create is inside a multi, where the flags decide and not the operation, as ZooKeeper does: a
// create with a container's flags makes a container; a createTTL without a TTL's flags is a create, or the creation of
// a container, and its time is passed over; one with unknown flags is refused alone. ttl is in ms.
//
// refuse is not nil where a create spoils all of the multi, whatever stands behind it: it is then the multi's request.
func InMulti(op *znode.Request, ttl int64) (refuse *Request) {
	f := op.Flags
	switch op.Op {
	case znode.OpCreateTTL:
		switch {
		case f == flagsPersistentTTL || f == flagsPersistentSequentialTTL:
			op.TTL = ttl
		case f == flagsContainer:
			op.Op = znode.OpCreateContainer
		case f < 0 || f > flagsPersistentSequentialTTL:
			op.Flags, op.TTL = flagsPersistent, 0 // BADARGUMENTS
		default:
			op.Op = znode.OpCreate
		}
	case znode.OpCreate, znode.OpCreate2, znode.OpCreateContainer:
		switch {
		case f >= 0 && f <= flagsPersistentSequentialTTL && op.ACL == nil: // Java fails on it before it has taken a zxid
			return &Request{Err: znode.MarshallingError}
		case f < 0 || f > flagsContainer: // unknown, or a TTL's where there is no TTL
			return &Request{Write: &znode.Request{TTL: -1, Undecodable: true}}
		case f == flagsContainer:
			op.Op = znode.OpCreateContainer
		}
	}
	return nil
}
