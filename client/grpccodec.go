package client

import (
	"fmt"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/zkserver/zkserver/proto/jute"
	zkv1 "github.com/zkserver/zkserver/proto/zk/v1"
)

// encodePB makes the command of a request. Data is copied: the command is marshalled later.
func encodePB(r *request) (*zkv1.Command, error) {
	switch r.op {
	case jute.OpPing:
		return &zkv1.Command{Op: &zkv1.Command_Ping{Ping: &zkv1.PingRequest{}}}, nil
	case jute.OpCloseSession:
		return &zkv1.Command{Op: &zkv1.Command_Close{Close: &zkv1.CloseRequest{}}}, nil
	case jute.OpWhoAmI:
		return &zkv1.Command{Op: &zkv1.Command_WhoAmI{WhoAmI: &zkv1.WhoAmIRequest{}}}, nil
	case jute.OpCreate, jute.OpCreate2, jute.OpCreateContainer, jute.OpCreateTTL:
		q := pbCreate(CreateOp{Path: r.path, Data: r.data, ACL: r.acl, Mode: r.mode, TTL: time.Duration(max(r.ttl, 0)) * time.Millisecond})
		return &zkv1.Command{Op: &zkv1.Command_Create{Create: q}}, nil
	case jute.OpDelete:
		return &zkv1.Command{Op: &zkv1.Command_Delete{Delete: &zkv1.DeleteRequest{Path: r.path, Version: r.version}}}, nil
	case jute.OpExists:
		return &zkv1.Command{Op: &zkv1.Command_Exists{Exists: &zkv1.ExistsRequest{Path: r.path, Watch: r.watch}}}, nil
	case jute.OpGetData:
		return &zkv1.Command{Op: &zkv1.Command_Get{Get: &zkv1.GetRequest{Path: r.path, Watch: r.watch}}}, nil
	case jute.OpGetChildren2:
		return &zkv1.Command{Op: &zkv1.Command_Children{Children: &zkv1.ChildrenRequest{Path: r.path, Watch: r.watch}}}, nil
	case jute.OpSetData:
		return &zkv1.Command{Op: &zkv1.Command_Set{Set: &zkv1.SetRequest{Path: r.path, Data: clone(r.data), Version: r.version}}}, nil
	case jute.OpGetACL:
		return &zkv1.Command{Op: &zkv1.Command_GetAcl{GetAcl: &zkv1.GetACLRequest{Path: r.path}}}, nil
	case jute.OpSetACL:
		return &zkv1.Command{Op: &zkv1.Command_SetAcl{SetAcl: &zkv1.SetACLRequest{Path: r.path, Acl: pbACLs(r.acl), Version: r.version}}}, nil
	case jute.OpSync:
		return &zkv1.Command{Op: &zkv1.Command_Sync{Sync: &zkv1.SyncRequest{Path: r.path}}}, nil
	case jute.OpGetAllChildrenNumber:
		return &zkv1.Command{Op: &zkv1.Command_AllChildrenNumber{AllChildrenNumber: &zkv1.AllChildrenNumberRequest{Path: r.path}}}, nil
	case jute.OpGetEphemerals:
		return &zkv1.Command{Op: &zkv1.Command_Ephemerals{Ephemerals: &zkv1.EphemeralsRequest{Prefix: r.path}}}, nil
	case jute.OpAuth:
		return &zkv1.Command{Op: &zkv1.Command_Auth{Auth: &zkv1.AuthRequest{Scheme: r.scheme, Auth: r.data}}}, nil
	case jute.OpSetWatches, jute.OpSetWatches2:
		l := r.lists
		return &zkv1.Command{Op: &zkv1.Command_SetWatches{SetWatches: &zkv1.SetWatchesRequest{
			RelativeZxid: l.zxid, Data: l.paths[watchData], Exist: l.paths[watchExist], Child: l.paths[watchChild],
			Persistent: l.paths[watchNode], PersistentRecursive: l.paths[watchTree],
		}}}, nil
	case jute.OpAddWatch:
		return &zkv1.Command{Op: &zkv1.Command_AddWatch{AddWatch: &zkv1.AddWatchRequest{Path: r.path, Mode: zkv1.AddWatchMode(r.number)}}}, nil
	case jute.OpRemoveWatches:
		return &zkv1.Command{Op: &zkv1.Command_RemoveWatches{RemoveWatches: &zkv1.RemoveWatchesRequest{Path: r.path, Type: zkv1.WatcherType(r.number)}}}, nil
	case jute.OpCheckWatches:
		return &zkv1.Command{Op: &zkv1.Command_CheckWatches{CheckWatches: &zkv1.CheckWatchesRequest{Path: r.path, Type: zkv1.WatcherType(r.number)}}}, nil
	case jute.OpReconfig:
		return &zkv1.Command{Op: &zkv1.Command_Reconfig{Reconfig: &zkv1.ReconfigRequest{
			Joining: r.texts[0], Leaving: r.texts[1], NewMembers: r.texts[2], FromConfig: r.config,
		}}}, nil
	case jute.OpMulti:
		m := &zkv1.MultiRequest{Ops: make([]*zkv1.MultiOp, len(r.ops))}
		for i, op := range r.ops {
			m.Ops[i] = pbOp(op)
		}
		return &zkv1.Command{Op: &zkv1.Command_Multi{Multi: m}}, nil
	case jute.OpMultiRead:
		m := &zkv1.MultiReadRequest{Ops: make([]*zkv1.ReadOp, len(r.reads))}
		for i, op := range r.reads {
			if _, ok := op.(ChildrenOp); ok {
				m.Ops[i] = &zkv1.ReadOp{Op: &zkv1.ReadOp_Children{Children: &zkv1.ChildrenRequest{Path: op.readPath()}}}
			} else {
				m.Ops[i] = &zkv1.ReadOp{Op: &zkv1.ReadOp_Get{Get: &zkv1.GetRequest{Path: op.readPath()}}}
			}
		}
		return &zkv1.Command{Op: &zkv1.Command_MultiRead{MultiRead: m}}, nil
	}
	return nil, fmt.Errorf("operation %d is not spoken", r.op)
}

// clone copies and keeps nil and empty apart.
func clone(b []byte) []byte {
	if b == nil {
		return nil
	}
	return append([]byte{}, b...)
}

func pbCreate(o CreateOp) *zkv1.CreateRequest {
	return &zkv1.CreateRequest{Path: o.Path, Data: clone(o.Data), Acl: pbACLs(o.ACL), Mode: zkv1.CreateMode(o.Mode), TtlMs: o.TTL.Milliseconds()}
}

func pbACLs(acl []ACL) *zkv1.ACLList {
	l := &zkv1.ACLList{Entries: make([]*zkv1.ACL, len(acl))}
	for i, a := range acl {
		l.Entries[i] = &zkv1.ACL{Perms: a.Perms, Scheme: a.Scheme, Id: a.ID}
	}
	return l
}

func pbOp(op Op) *zkv1.MultiOp {
	switch o := op.(type) {
	case CreateOp:
		return &zkv1.MultiOp{Op: &zkv1.MultiOp_Create{Create: pbCreate(o)}}
	case DeleteOp:
		return &zkv1.MultiOp{Op: &zkv1.MultiOp_Delete{Delete: &zkv1.DeleteRequest{Path: o.Path, Version: o.Version}}}
	case SetOp:
		return &zkv1.MultiOp{Op: &zkv1.MultiOp_Set{Set: &zkv1.SetRequest{Path: o.Path, Data: clone(o.Data), Version: o.Version}}}
	case CheckOp:
		return &zkv1.MultiOp{Op: &zkv1.MultiOp_Check{Check: &zkv1.CheckRequest{Path: o.Path, Version: o.Version}}}
	}
	panic(fmt.Sprintf("client: operation %T was not checked", op))
}

// decodePB reads the result of a successful reply. The message is not used again: its slices are taken over.
func decodePB(m *zkv1.Reply, op jute.OpCode, into *reply) error {
	ok := false
	switch op {
	case jute.OpPing:
		ok = m.GetPing() != nil
	case jute.OpCloseSession:
		ok = m.GetClose() != nil
	case jute.OpDelete:
		ok = m.GetDelete() != nil
	case jute.OpAuth:
		ok = m.GetAuth() != nil
	case jute.OpSetWatches, jute.OpSetWatches2:
		ok = m.GetSetWatches() != nil
	case jute.OpAddWatch:
		ok = m.GetAddWatch() != nil
	case jute.OpRemoveWatches:
		ok = m.GetRemoveWatches() != nil
	case jute.OpCheckWatches:
		ok = m.GetCheckWatches() != nil
	case jute.OpReconfig:
		ok = m.GetReconfig() != nil
		into.data, into.stat = m.GetReconfig().GetData(), pbStat(m.GetReconfig().GetStat())
	case jute.OpSync:
		ok = m.GetSync() != nil
		into.path = m.GetSync().GetPath()
	case jute.OpCreate, jute.OpCreate2, jute.OpCreateContainer, jute.OpCreateTTL:
		ok = m.GetCreate() != nil
		into.path, into.stat = m.GetCreate().GetPath(), pbStat(m.GetCreate().GetStat())
	case jute.OpExists:
		ok = m.GetExists() != nil
		into.stat = pbStat(m.GetExists().GetStat())
	case jute.OpSetData:
		ok = m.GetSet() != nil
		into.stat = pbStat(m.GetSet().GetStat())
	case jute.OpSetACL:
		ok = m.GetSetAcl() != nil
		into.stat = pbStat(m.GetSetAcl().GetStat())
	case jute.OpGetData:
		ok = m.GetGet() != nil
		into.data, into.stat = pbData(m.GetGet()), pbStat(m.GetGet().GetStat())
	case jute.OpGetChildren2:
		ok = m.GetChildren() != nil
		into.names, into.stat = m.GetChildren().GetChildren(), pbStat(m.GetChildren().GetStat())
	case jute.OpGetACL:
		ok = m.GetGetAcl() != nil
		for _, a := range m.GetGetAcl().GetAcl() {
			into.acl = append(into.acl, ACL{Perms: a.GetPerms(), Scheme: a.GetScheme(), ID: a.GetId()})
		}
		into.stat = pbStat(m.GetGetAcl().GetStat())
	case jute.OpGetEphemerals:
		ok = m.GetEphemerals() != nil
		into.names = m.GetEphemerals().GetPaths()
	case jute.OpGetAllChildrenNumber:
		ok = m.GetAllChildrenNumber() != nil
		into.count = m.GetAllChildrenNumber().GetTotal()
	case jute.OpWhoAmI:
		ok = m.GetWhoAmI() != nil
		for _, i := range m.GetWhoAmI().GetInfos() {
			into.ids = append(into.ids, Identity{Scheme: i.GetScheme(), User: i.GetUser()})
		}
	case jute.OpMulti:
		ok = m.GetMulti() != nil
		for _, r := range m.GetMulti().GetResults() {
			into.results = append(into.results, pbResult(r))
		}
	case jute.OpMultiRead:
		ok = m.GetMultiRead() != nil
		for _, r := range m.GetMultiRead().GetResults() {
			v := ReadResult{Code: Code(r.GetCode()), Children: r.GetChildren().GetChildren()}
			if g := r.GetGet(); g != nil {
				v.Data, v.Stat = pbData(g), pbStat(g.GetStat())
			}
			into.reads = append(into.reads, v)
		}
	}
	if !ok {
		return fmt.Errorf("%w: reply of %d bytes does not fit operation %d", ErrProtocol, proto.Size(m), op)
	}
	return nil
}

func pbResult(r *zkv1.MultiOpResult) OpResult {
	v := OpResult{Code: Code(r.GetCode())}
	switch {
	case r.GetCreate() != nil:
		v.Path, v.Stat = r.GetCreate().GetPath(), pbStat(r.GetCreate().GetStat())
	case r.GetSet() != nil:
		v.Stat = pbStat(r.GetSet().GetStat())
	}
	return v
}

// pbData keeps null and empty apart: an optional field that is absent is nil.
func pbData(g *zkv1.GetResponse) []byte {
	if g == nil {
		return nil
	}
	return g.Data
}

func pbStat(s *zkv1.Stat) Stat {
	if s == nil {
		return Stat{}
	}
	return Stat{
		Czxid: s.Czxid, Mzxid: s.Mzxid, Pzxid: s.Pzxid, Ctime: time.UnixMilli(s.CtimeMs), Mtime: time.UnixMilli(s.MtimeMs),
		Version: s.Version, Cversion: s.Cversion, Aversion: s.Aversion,
		EphemeralOwner: s.EphemeralOwner, DataLength: s.DataLength, NumChildren: s.NumChildren,
	}
}
