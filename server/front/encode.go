package front

import (
	"slices"

	"github.com/zkserver/zkserver/proto/jute"
	"github.com/zkserver/zkserver/server/session"
	"github.com/zkserver/zkserver/znode"
)

// zkWire encodes the ZooKeeper wire.
type zkWire struct{}

// Slot implements session.Wire.
func (zkWire) Slot() int { return 0 }

// AppendEvent implements session.Wire.
func (zkWire) AppendEvent(dst []byte, zxid int64, t znode.EventType, path string) []byte {
	return jute.AppendEvent(dst, zxid, jute.EventType(t), jute.Echo(path)) // of setWatches any text comes back
}

// AppendReply implements session.Wire.
func (zkWire) AppendReply(dst []byte, r *session.Reply) []byte {
	dst, at := jute.BeginFrame(dst)
	h := jute.ReplyHeader{Xid: r.Xid, Zxid: r.Zxid, Err: jute.ErrorCode(r.Err)}
	if r.Op == znode.OpPing {
		h.Xid = jute.XidPing // whatever it was asked with
	}
	dst = h.Append(dst)
	switch {
	case r.Err == znode.OK:
		dst = appendBody(dst, r)
	case r.ErrBody:
		dst = appendMultiRead(dst, r.Reads)
	}
	return jute.EndFrame(dst, at)
}

func appendBody(dst []byte, r *session.Reply) []byte {
	switch r.Op {
	case znode.OpCreate:
		return jute.AppendString(dst, r.Path)
	case znode.OpCreate2, znode.OpCreateContainer, znode.OpCreateTTL:
		return appendStat(jute.AppendString(dst, r.Path), &r.Stat)
	case znode.OpExists, znode.OpSetData, znode.OpSetACL:
		return appendStat(dst, &r.Stat)
	case znode.OpGetData, znode.OpReconfig:
		return appendStat(jute.AppendBuffer(dst, r.Data), &r.Stat)
	case znode.OpGetChildren:
		return appendNames(dst, r.Names)
	case znode.OpGetChildren2:
		return appendStat(appendNames(dst, r.Names), &r.Stat)
	case znode.OpGetEphemerals:
		return appendNames(dst, r.Names)
	case znode.OpGetACL:
		return appendStat(appendACL(dst, r.ACL), &r.Stat)
	case znode.OpGetAllChildrenNumber:
		return jute.AppendInt(dst, r.Count)
	case znode.OpSync:
		return jute.String{Value: jute.Echo(r.Path), Null: r.Null}.Append(dst)
	case znode.OpMulti:
		return appendMulti(dst, r.Multi)
	case znode.OpMultiRead:
		return appendMultiRead(dst, r.Reads)
	case znode.OpWhoAmI:
		dst = jute.AppendInt(dst, int32(len(r.IDs)))
		for _, id := range r.IDs {
			dst = jute.AppendString(dst, id.Scheme)
			dst = jute.AppendString(dst, jute.Echo(id.ID))
		}
		return dst
	case znode.OpSASL:
		return jute.AppendBuffer(dst, nil) // no token: SASL is not configured
	case znode.OpAddWatch:
		return jute.AppendInt(dst, 0)
	}
	return dst // delete, ping, closeSession, auth, setWatches, checkWatches, removeWatches
}

func appendStat(dst []byte, s *znode.Stat) []byte {
	j := jute.Stat(*s)
	return j.Append(dst)
}

// appendNames appends a vector that is empty, never null, when there are no names.
func appendNames(dst []byte, names znode.Names) []byte {
	return names.Append(slices.Grow(jute.AppendInt(dst, int32(names.Len())), names.Size()))
}

func appendACL(dst []byte, list []znode.ACL) []byte {
	dst = jute.AppendInt(dst, int32(len(list)))
	for i := range list {
		dst = jute.AppendInt(dst, list[i].Perms)
		dst = jute.AppendString(dst, jute.Echo(list[i].Scheme))
		dst = jute.AppendString(dst, jute.Echo(list[i].ID))
	}
	return dst
}

// appendMulti appends the results of a multi. If one operation failed all of them are error results: OK for those that
// were rolled back.
func appendMulti(dst []byte, results []znode.OpResult) []byte {
	failed := false
	for i := range results {
		failed = failed || results[i].Code != znode.OK
	}
	for i := range results {
		r := &results[i]
		h := jute.MultiHeader{Type: jute.OpCode(r.Op)}
		if failed {
			dst = appendErrorResult(dst, r.Code)
			continue
		}
		switch r.Op {
		case znode.OpCreate:
			dst = jute.AppendString(h.Append(dst), r.Path)
		case znode.OpCreate2, znode.OpCreateContainer, znode.OpCreateTTL:
			h.Type = jute.OpCreate2
			dst = appendStat(jute.AppendString(h.Append(dst), r.Path), &r.Stat)
		case znode.OpSetData:
			dst = appendStat(h.Append(dst), &r.Stat)
		default: // delete, check
			dst = h.Append(dst)
		}
	}
	return (&jute.MultiResponse{}).Append(dst)
}

func appendMultiRead(dst []byte, results []znode.ReadResult) []byte {
	for i := range results {
		r := &results[i]
		if r.Code != znode.OK {
			dst = appendErrorResult(dst, r.Code)
			continue
		}
		h := jute.MultiHeader{Type: jute.OpCode(r.Op)}
		dst = h.Append(dst)
		if r.Op == znode.OpGetData {
			dst = appendStat(jute.AppendBuffer(dst, r.Data), &r.Stat)
		} else {
			dst = appendNames(dst, r.Names)
		}
	}
	return (&jute.MultiResponse{}).Append(dst)
}

func appendErrorResult(dst []byte, code znode.Code) []byte {
	h := jute.MultiHeader{Type: jute.OpError, Err: jute.ErrorCode(code)}
	return jute.AppendInt(h.Append(dst), int32(code))
}
