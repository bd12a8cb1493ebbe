package differential

import (
	"strings"

	"github.com/zkserver/zkserver/proto/jute"
)

const (
	amyID = "amy:ytedbzoRRPHPjfCmtagR0pUO0cI="
	bobID = "bob:ikIaKsbtGweaHnb/jKn7OHqbunM="
)

func acl(perms int32, scheme, id string) jute.ACL {
	return jute.ACL{Perms: perms, Scheme: jute.Str(scheme), ID: jute.Str(id)}
}

func world(perms int32) []jute.ACL { return []jute.ACL{acl(perms, "world", "anyone")} }

// acls are the access lists that requests name; "null" is the null list.
var acls = map[string][]jute.ACL{
	"open":       world(31),
	"read":       world(1),
	"nothing":    world(0),
	"noread":     world(30),
	"nowrite":    world(29),
	"nocreate":   world(27),
	"nodelete":   world(23),
	"noadmin":    world(15),
	"dup":        {acl(31, "world", "anyone"), acl(31, "world", "anyone"), acl(1, "ip", "10.0.0.1")},
	"amy":        {acl(31, "digest", amyID)},
	"bob":        {acl(31, "digest", bobID), acl(1, "world", "anyone")},
	"both":       {acl(1, "digest", amyID), acl(30, "digest", bobID)},
	"auth":       {acl(31, "auth", "")},
	"ip":         {acl(31, "ip", "127.0.0.1")},
	"net":        {acl(31, "ip", "127.9.9.9/8")},
	"other":      {acl(31, "ip", "10.0.0.0/8")},
	"odd":        {acl(255, "world", "anyone"), acl(-1, "digest", "nobody:x")},
	"null":       nil,
	"empty":      {},
	"bad-scheme": {acl(31, "nosuch", "x")},
	"bad-world":  {acl(31, "world", "nobody")},
	"bad-digest": {acl(31, "digest", "a:b:c")},
	"bad-ip":     {acl(31, "ip", "127.0.0.256")},
	"bad-super":  {acl(31, "super", "x")},
	"one-bad":    {acl(31, "world", "anyone"), acl(31, "sasl", "x")},
	"no-scheme":  {{Perms: 31, Scheme: jute.NullString(), ID: jute.Str("x")}},
	"no-id":      {{Perms: 31, Scheme: jute.Str("digest"), ID: jute.NullString()}},
}

// env is what a run puts in place of what a program leaves open.
type env struct {
	root string
	base int64 // the zxid that made the root
	// noConfig keeps programs off the config node, which tells whether there is an ensemble.
	noConfig bool
}

func (e *env) path(s string) string {
	if e.noConfig && s == "/zookeeper/config" {
		s = "/zookeeper/quota"
	}
	return strings.ReplaceAll(s, "~", e.root)
}

func (e *env) paths(v []string) []string {
	if v == nil {
		return nil
	}
	out := make([]string, len(v))
	for i, s := range v {
		out[i] = e.path(s)
	}
	return out
}

func (e *env) string(r *Request) jute.String {
	if r.Null {
		return jute.NullString()
	}
	return jute.Str(e.path(r.Path))
}

func (r *Request) data() []byte {
	if r.NullData {
		return nil
	}
	return []byte(r.Data)
}

// body is the record of a request; nil if it has none.
func (e *env) body(r *Request) jute.Record {
	switch op := jute.OpCode(r.Op); op {
	case jute.OpCreate, jute.OpCreate2, jute.OpCreateContainer:
		return &jute.CreateRequest{Path: e.string(r), Data: r.data(), ACL: acls[r.ACL], Flags: r.Flags}
	case jute.OpCreateTTL:
		return &jute.CreateTTLRequest{TTL: r.TTL, CreateRequest: jute.CreateRequest{Path: e.string(r), Data: r.data(), ACL: acls[r.ACL], Flags: r.Flags}}
	case jute.OpDelete, jute.OpCheck:
		return &jute.DeleteRequest{Path: e.string(r), Version: r.Version}
	case jute.OpExists, jute.OpGetData, jute.OpGetChildren, jute.OpGetChildren2:
		return &jute.GetDataRequest{Path: e.string(r), Watch: r.Watch}
	case jute.OpSetData:
		return &jute.SetDataRequest{Path: e.string(r), Data: r.data(), Version: r.Version}
	case jute.OpGetACL, jute.OpSync, jute.OpGetEphemerals, jute.OpGetAllChildrenNumber:
		return &jute.PathRequest{Path: e.string(r)}
	case jute.OpSetACL:
		return &jute.SetACLRequest{Path: e.string(r), ACL: acls[r.ACL], Version: r.Version}
	case jute.OpMulti, jute.OpMultiRead:
		m := &jute.MultiRequest{}
		for i := range r.Ops {
			o := &r.Ops[i]
			m.Ops = append(m.Ops, jute.Op{Type: jute.OpCode(o.Op), Path: e.string(o), Data: o.data(), ACL: acls[o.ACL],
				Flags: o.Flags, Version: o.Version, TTL: o.TTL, Watch: o.Watch})
		}
		return m
	case jute.OpReconfig:
		return &jute.ReconfigRequest{JoiningServers: e.string(r), LeavingServers: jute.NullString(), NewMembers: jute.NullString(), CurConfigID: -1}
	case jute.OpCheckWatches, jute.OpRemoveWatches:
		return &jute.RemoveWatchesRequest{Path: e.string(r), Type: jute.WatcherType(r.Mode)}
	case jute.OpAddWatch:
		return &jute.AddWatchRequest{Path: e.string(r), Mode: jute.AddWatchMode(r.Mode)}
	case jute.OpAuth:
		return &jute.AuthPacket{Scheme: jute.String{Value: r.Path, Null: r.Null}, Auth: r.data()}
	case jute.OpSASL:
		return &jute.GetSASLRequest{Token: r.data()}
	case jute.OpSetWatches, jute.OpSetWatches2:
		s := jute.SetWatches{RelativeZxid: e.base + r.Rel, DataWatches: e.paths(r.Lists[0]), ExistWatches: e.paths(r.Lists[1]), ChildWatches: e.paths(r.Lists[2])}
		if op == jute.OpSetWatches {
			return &s
		}
		return &jute.SetWatches2{SetWatches: s, PersistentWatches: e.paths(r.Lists[3]), PersistentRecursiveWatches: e.paths(r.Lists[4])}
	}
	return nil
}

// appendRequest appends the frame of a request.
func (e *env) appendRequest(b []byte, xid int32, r *Request) []byte {
	b, at := jute.BeginFrame(b)
	h := jute.RequestHeader{Xid: xid, Type: jute.OpCode(r.Op)}
	b = h.Append(b)
	if body := e.body(r); body != nil {
		start := len(b)
		b = body.Append(b)
		b = b[:max(start, len(b)-r.Cut)]
	}
	return jute.EndFrame(b, at)
}

// xidOf is the xid of the nth request of a connection: pings, auth and setWatches have theirs as clients send them.
func xidOf(op jute.OpCode, n int32) int32 {
	switch op {
	case jute.OpPing:
		return jute.XidPing
	case jute.OpAuth:
		return jute.XidAuth
	case jute.OpSetWatches, jute.OpSetWatches2:
		return jute.XidSetWatches
	}
	return n
}

// writes reports whether a request goes through the log.
func writes(op jute.OpCode) bool {
	switch op {
	case jute.OpCreate, jute.OpCreate2, jute.OpCreateContainer, jute.OpCreateTTL, jute.OpDelete, jute.OpSetData, jute.OpSetACL,
		jute.OpMulti, jute.OpReconfig, jute.OpCloseSession:
		return true
	}
	return false
}
