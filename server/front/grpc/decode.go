package grpcfront

import (
	"google.golang.org/protobuf/proto"

	zkv1 "github.com/zkserver/zkserver/proto/zk/v1"
	"github.com/zkserver/zkserver/server/session"
	"github.com/zkserver/zkserver/znode"
)

// request makes the session's request of a command. false: the command is none of those that go there (connect, auth),
// or of no kind. The message's slices are taken over.
func request(c *zkv1.Command) (session.Request, bool) {
	r := session.Request{Xid: c.GetCxid()}
	switch op := c.GetOp().(type) {
	case *zkv1.Command_Ping:
		r.Op = znode.OpPing
	case *zkv1.Command_WhoAmI:
		r.Op = znode.OpWhoAmI
	case *zkv1.Command_Close:
		r.Op, r.Write = znode.OpCloseSession, &znode.Request{}
	case *zkv1.Command_Sync:
		r.Op, r.Path, r.Write = znode.OpSync, op.Sync.GetPath(), &znode.Request{}
	case *zkv1.Command_Exists:
		r.Op, r.Path, r.Watch = znode.OpExists, op.Exists.GetPath(), op.Exists.GetWatch()
	case *zkv1.Command_Get:
		r.Op, r.Path, r.Watch = znode.OpGetData, op.Get.GetPath(), op.Get.GetWatch()
	case *zkv1.Command_Children:
		r.Op, r.Path, r.Watch = znode.OpGetChildren2, op.Children.GetPath(), op.Children.GetWatch()
	case *zkv1.Command_GetAcl:
		r.Op, r.Path = znode.OpGetACL, op.GetAcl.GetPath()
	case *zkv1.Command_AllChildrenNumber:
		r.Op, r.Path = znode.OpGetAllChildrenNumber, op.AllChildrenNumber.GetPath()
	case *zkv1.Command_Ephemerals:
		r.Op, r.Path = znode.OpGetEphemerals, op.Ephemerals.GetPrefix()
	case *zkv1.Command_SetWatches:
		l := op.SetWatches
		r.Op = znode.OpSetWatches
		if len(l.GetPersistent())+len(l.GetPersistentRecursive()) > 0 {
			r.Op = znode.OpSetWatches2
		}
		r.Lists = &session.SetWatches{
			RelativeZxid: l.GetRelativeZxid(), Data: l.GetData(), Exist: l.GetExist(), Child: l.GetChild(),
			Persistent: l.GetPersistent(), Recursive: l.GetPersistentRecursive(),
		}
	case *zkv1.Command_AddWatch:
		r.Op, r.Path, r.Mode = znode.OpAddWatch, op.AddWatch.GetPath(), int32(op.AddWatch.GetMode())
	case *zkv1.Command_RemoveWatches:
		r.Op, r.Path, r.Mode = znode.OpRemoveWatches, op.RemoveWatches.GetPath(), int32(op.RemoveWatches.GetType())
	case *zkv1.Command_CheckWatches:
		r.Op, r.Path, r.Mode = znode.OpCheckWatches, op.CheckWatches.GetPath(), int32(op.CheckWatches.GetType())
	case *zkv1.Command_Reconfig:
		r.Op, r.Write = znode.OpReconfig, &znode.Request{TTL: -1}
	case *zkv1.Command_Create:
		w := create(op.Create)
		r.Op, r.Write = w.Op, &w
		if w.Op != znode.OpCreateTTL && op.Create.GetTtlMs() != 0 {
			r.Write, r.Err = nil, znode.BadArguments // a time to live of a mode that has none
		}
	case *zkv1.Command_Delete:
		r.Op = znode.OpDelete
		r.Write = &znode.Request{Path: op.Delete.GetPath(), Version: op.Delete.GetVersion(), TTL: -1}
	case *zkv1.Command_Set:
		r.Op = znode.OpSetData
		r.Write = &znode.Request{Path: op.Set.GetPath(), Data: data(op.Set), Version: op.Set.GetVersion(), TTL: -1}
	case *zkv1.Command_SetAcl:
		r.Op = znode.OpSetACL
		r.Write = &znode.Request{Path: op.SetAcl.GetPath(), ACL: acl(op.SetAcl.GetAcl()), Version: op.SetAcl.GetVersion(), TTL: -1}
	case *zkv1.Command_Multi:
		r.Op = znode.OpMulti
		multi(&r, op.Multi)
	case *zkv1.Command_MultiRead:
		r.Op = znode.OpMultiRead
		multiRead(&r, op.MultiRead)
	default:
		return r, false
	}
	return r, true
}

// data keeps null and empty apart: nil is absent.
func data(s *zkv1.SetRequest) []byte {
	if s == nil {
		return nil
	}
	return s.Data
}

// create makes a request of a create, alone or in a multi. The mode decides the operation; one that does not exist is
// refused further on, in its place.
func create(c *zkv1.CreateRequest) znode.Request {
	w := znode.Request{Op: znode.OpCreate2, Path: c.GetPath(), ACL: acl(c.GetAcl()), Flags: int32(c.GetMode()), TTL: -1}
	if c != nil {
		w.Data = c.Data
	}
	switch c.GetMode() {
	case zkv1.CreateMode_CREATE_MODE_CONTAINER:
		w.Op = znode.OpCreateContainer
	case zkv1.CreateMode_CREATE_MODE_PERSISTENT_WITH_TTL, zkv1.CreateMode_CREATE_MODE_PERSISTENT_SEQUENTIAL_WITH_TTL:
		w.Op, w.TTL = znode.OpCreateTTL, c.GetTtlMs()
	}
	return w
}

// acl keeps an absent list and an empty one apart.
func acl(l *zkv1.ACLList) []znode.ACL {
	if l == nil {
		return nil
	}
	out := make([]znode.ACL, len(l.GetEntries()))
	for i, a := range l.GetEntries() {
		out[i] = znode.ACL{Perms: a.GetPerms(), Scheme: a.GetScheme(), ID: a.GetId()}
	}
	return out
}

// multi: one with an operation of no kind is one transaction all the same, refused as a whole. What a create is, is
// settled as on the other wire; a TTL makes it a createTTL there.
func multi(r *session.Request, m *zkv1.MultiRequest) {
	w := &znode.Request{Multi: make([]znode.Request, len(m.GetOps())), TTL: -1}
	r.Write = w
	for i, o := range m.GetOps() {
		switch op := o.GetOp().(type) {
		case *zkv1.MultiOp_Create:
			c := create(op.Create)
			if op.Create.GetTtlMs() != 0 {
				c.Op = znode.OpCreateTTL
			}
			if refuse := session.InMulti(&c, op.Create.GetTtlMs()); refuse != nil {
				r.Write, r.Err = refuse.Write, refuse.Err
				return
			}
			if c.Op == znode.OpCreate {
				c.Op = znode.OpCreate2 // all creates answer with a Stat here
			}
			w.Multi[i] = c
		case *zkv1.MultiOp_Delete:
			w.Multi[i] = znode.Request{Op: znode.OpDelete, Path: op.Delete.GetPath(), Version: op.Delete.GetVersion(), TTL: -1}
		case *zkv1.MultiOp_Set:
			w.Multi[i] = znode.Request{Op: znode.OpSetData, Path: op.Set.GetPath(), Data: data(op.Set), Version: op.Set.GetVersion(), TTL: -1}
		case *zkv1.MultiOp_Check:
			w.Multi[i] = znode.Request{Op: znode.OpCheck, Path: op.Check.GetPath(), Version: op.Check.GetVersion(), TTL: -1}
		default:
			r.Write = &znode.Request{TTL: -1, Undecodable: true}
			return
		}
	}
}

func multiRead(r *session.Request, m *zkv1.MultiReadRequest) {
	r.Reads = make([]znode.ReadOp, len(m.GetOps()))
	for i, o := range m.GetOps() {
		switch op := o.GetOp().(type) {
		case *zkv1.ReadOp_Get:
			r.Reads[i] = znode.ReadOp{Op: znode.OpGetData, Path: op.Get.GetPath()}
		case *zkv1.ReadOp_Children:
			r.Reads[i] = znode.ReadOp{Op: znode.OpGetChildren, Path: op.Children.GetPath()}
		default:
			r.Reads, r.Err = nil, znode.MarshallingError
			return
		}
	}
}

// tooLarge reports whether a message has too many parts, or some command of it exceeds the limit of one, in bytes.
func tooLarge(m *sized, limit int) bool {
	if m.crowded {
		return true
	}
	if m.size <= limit {
		return false
	}
	for _, c := range m.GetCommands() {
		if proto.Size(c) > limit {
			return true
		}
	}
	return false
}
