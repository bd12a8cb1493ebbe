package client

import (
	"fmt"
	"time"

	"github.com/zkserver/zkserver/proto/jute"
)

// encodeZK makes the whole frame of a request; length and opcode are in place, the xid is filled in when it is sent.
func encodeZK(r *request) ([]byte, error) {
	b := make([]byte, 0, 64+len(r.path)+len(r.data))
	b, at := jute.BeginFrame(b)
	h := jute.RequestHeader{Type: r.op}
	b = h.Append(b)
	path := jute.Str(r.path)
	switch r.op {
	case jute.OpPing, jute.OpCloseSession, jute.OpWhoAmI:
	case jute.OpCreate, jute.OpCreate2, jute.OpCreateContainer:
		q := jute.CreateRequest{Path: path, Data: r.data, ACL: zkACLs(r.acl), Flags: int32(r.mode)}
		b = q.Append(b)
	case jute.OpCreateTTL:
		q := jute.CreateTTLRequest{CreateRequest: jute.CreateRequest{Path: path, Data: r.data, ACL: zkACLs(r.acl), Flags: int32(r.mode)}, TTL: r.ttl}
		b = q.Append(b)
	case jute.OpDelete:
		q := jute.DeleteRequest{Path: path, Version: r.version}
		b = q.Append(b)
	case jute.OpExists, jute.OpGetData, jute.OpGetChildren2:
		q := jute.GetDataRequest{Path: path, Watch: r.watch}
		b = q.Append(b)
	case jute.OpSetData:
		q := jute.SetDataRequest{Path: path, Data: r.data, Version: r.version}
		b = q.Append(b)
	case jute.OpSetACL:
		q := jute.SetACLRequest{Path: path, ACL: zkACLs(r.acl), Version: r.version}
		b = q.Append(b)
	case jute.OpGetACL, jute.OpSync, jute.OpGetAllChildrenNumber, jute.OpGetEphemerals:
		q := jute.PathRequest{Path: path}
		b = q.Append(b)
	case jute.OpAuth:
		q := jute.AuthPacket{Scheme: jute.Str(r.scheme), Auth: r.data}
		b = q.Append(b)
	case jute.OpSetWatches, jute.OpSetWatches2:
		p := &r.lists.paths
		q := jute.SetWatches2{
			SetWatches: jute.SetWatches{
				RelativeZxid: r.lists.zxid,
				DataWatches:  orEmpty(p[watchData]), ExistWatches: orEmpty(p[watchExist]), ChildWatches: orEmpty(p[watchChild]),
			},
			PersistentWatches: orEmpty(p[watchNode]), PersistentRecursiveWatches: orEmpty(p[watchTree]),
		}
		if r.op == jute.OpSetWatches {
			b = q.SetWatches.Append(b)
		} else {
			b = q.Append(b)
		}
	case jute.OpAddWatch:
		q := jute.AddWatchRequest{Path: path, Mode: jute.AddWatchMode(r.number)}
		b = q.Append(b)
	case jute.OpRemoveWatches, jute.OpCheckWatches:
		q := jute.RemoveWatchesRequest{Path: path, Type: jute.WatcherType(r.number)}
		b = q.Append(b)
	case jute.OpReconfig:
		q := jute.ReconfigRequest{JoiningServers: text(r.texts[0]), LeavingServers: text(r.texts[1]), NewMembers: text(r.texts[2]), CurConfigID: r.config}
		b = q.Append(b)
	case jute.OpMulti:
		q := jute.MultiRequest{Ops: make([]jute.Op, len(r.ops))}
		for i, op := range r.ops {
			q.Ops[i] = zkOp(op)
		}
		b = q.Append(b)
	case jute.OpMultiRead:
		q := jute.MultiRequest{Ops: make([]jute.Op, len(r.reads))}
		for i, op := range r.reads {
			q.Ops[i] = jute.Op{Type: jute.OpGetData, Path: jute.Str(op.readPath())}
			if _, ok := op.(ChildrenOp); ok {
				q.Ops[i].Type = jute.OpGetChildren
			}
		}
		b = q.Append(b)
	default:
		return nil, fmt.Errorf("operation %d is not spoken", r.op)
	}
	return jute.EndFrame(b, at), nil
}

// orEmpty keeps a vector from being null, which servers refuse here.
func orEmpty(v []string) []string {
	if v == nil {
		return []string{}
	}
	return v
}

// text is null for nil.
func text(s *string) jute.String {
	if s == nil {
		return jute.NullString()
	}
	return jute.Str(*s)
}

func zkACLs(acl []ACL) []jute.ACL {
	v := make([]jute.ACL, len(acl))
	for i, a := range acl {
		v[i] = jute.ACL{Perms: a.Perms, Scheme: jute.Str(a.Scheme), ID: jute.Str(a.ID)}
	}
	return v
}

func zkOp(op Op) jute.Op {
	switch o := op.(type) {
	case CreateOp:
		q := jute.Op{Type: jute.OpCreate2, Path: jute.Str(o.Path), Data: o.Data, ACL: zkACLs(o.ACL), Flags: int32(o.Mode)}
		switch {
		case o.Mode == Container:
			q.Type = jute.OpCreateContainer
		case o.Mode.hasTTL():
			q.Type, q.TTL = jute.OpCreateTTL, o.TTL.Milliseconds()
		}
		return q
	case DeleteOp:
		return jute.Op{Type: jute.OpDelete, Path: jute.Str(o.Path), Version: o.Version}
	case SetOp:
		return jute.Op{Type: jute.OpSetData, Path: jute.Str(o.Path), Data: o.Data, Version: o.Version}
	case CheckOp:
		return jute.Op{Type: jute.OpCheck, Path: jute.Str(o.Path), Version: o.Version}
	}
	panic(fmt.Sprintf("client: operation %T was not checked", op))
}

// decodeZK reads the body of a successful reply.
func decodeZK(d *jute.Decoder, op jute.OpCode, into *reply) error {
	switch op {
	case jute.OpPing, jute.OpCloseSession, jute.OpDelete, jute.OpAuth, jute.OpSetWatches, jute.OpSetWatches2, jute.OpRemoveWatches, jute.OpCheckWatches:
	case jute.OpAddWatch:
		d.Int() // always 0
	case jute.OpCreate, jute.OpSync:
		into.path = d.String().Value
	case jute.OpCreate2, jute.OpCreateContainer, jute.OpCreateTTL:
		into.path = d.String().Value
		into.stat = zkStat(d)
	case jute.OpExists, jute.OpSetData, jute.OpSetACL:
		into.stat = zkStat(d)
	case jute.OpGetData, jute.OpReconfig:
		into.data = d.Buffer()
		into.stat = zkStat(d)
	case jute.OpGetChildren2:
		into.names = d.Strings()
		into.stat = zkStat(d)
	case jute.OpGetACL:
		for _, a := range d.ACLs() {
			into.acl = append(into.acl, ACL{Perms: a.Perms, Scheme: a.Scheme.Value, ID: a.ID.Value})
		}
		into.stat = zkStat(d)
	case jute.OpGetEphemerals:
		into.names = d.Strings()
	case jute.OpGetAllChildrenNumber:
		into.count = d.Int()
	case jute.OpWhoAmI:
		var r jute.WhoAmIResponse
		r.Decode(d)
		for _, i := range r.ClientInfo {
			into.ids = append(into.ids, Identity{Scheme: i.AuthScheme.Value, User: i.User.Value})
		}
	case jute.OpMulti, jute.OpMultiRead:
		var r jute.MultiResponse
		r.Decode(d)
		if op == jute.OpMulti {
			into.results = zkResults(r.Results)
		} else {
			into.reads = zkReads(r.Results)
		}
	default:
		return fmt.Errorf("%w: reply to operation %d", ErrProtocol, op)
	}
	if err := d.Err(); err != nil {
		return fmt.Errorf("%w: reply to operation %d: %w", ErrProtocol, op, err)
	}
	return nil
}

func zkStat(d *jute.Decoder) Stat {
	var s jute.Stat
	s.Decode(d)
	return statOf(s)
}

func statOf(s jute.Stat) Stat {
	return Stat{
		Czxid: s.Czxid, Mzxid: s.Mzxid, Pzxid: s.Pzxid, Ctime: time.UnixMilli(s.Ctime), Mtime: time.UnixMilli(s.Mtime),
		Version: s.Version, Cversion: s.Cversion, Aversion: s.Aversion,
		EphemeralOwner: s.EphemeralOwner, DataLength: s.DataLength, NumChildren: s.NumChildren,
	}
}

func zkResults(rs []jute.OpResult) []OpResult {
	v := make([]OpResult, len(rs))
	for i, r := range rs {
		switch r.Type {
		case jute.OpError:
			v[i].Code = Code(r.Err)
		case jute.OpCreate2:
			v[i] = OpResult{Path: r.Path.Value, Stat: statOf(r.Stat)}
		case jute.OpCreate:
			v[i].Path = r.Path.Value
		case jute.OpSetData:
			v[i].Stat = statOf(r.Stat)
		}
	}
	return v
}

func zkReads(rs []jute.OpResult) []ReadResult {
	v := make([]ReadResult, len(rs))
	for i, r := range rs {
		switch r.Type {
		case jute.OpError:
			v[i].Code = Code(r.Err)
		case jute.OpGetData:
			v[i] = ReadResult{Data: r.Data, Stat: statOf(r.Stat)}
		case jute.OpGetChildren:
			v[i].Children = r.Children
		}
	}
	return v
}
