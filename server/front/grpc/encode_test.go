package grpcfront

import (
	"math/rand/v2"
	"slices"
	"testing"

	"google.golang.org/protobuf/proto"

	zkv1 "github.com/zkserver/zkserver/proto/zk/v1"
	"github.com/zkserver/zkserver/server/session"
	"github.com/zkserver/zkserver/znode"
)

// model builds, with the generated code, the answer that a reply means.
func model(r *session.Reply) *zkv1.Answer {
	m := &zkv1.Reply{Cxid: r.Xid, Zxid: r.Zxid, Code: zkv1.Code(r.Err)}
	if r.Err == znode.OK {
		modelResult(m, r)
	}
	return &zkv1.Answer{Kind: &zkv1.Answer_Reply{Reply: m}}
}

func modelResult(m *zkv1.Reply, r *session.Reply) {
	switch r.Op {
	case znode.OpPing:
		m.Result = &zkv1.Reply_Ping{Ping: &zkv1.PingResponse{}}
	case znode.OpAuth:
		m.Result = &zkv1.Reply_Auth{Auth: &zkv1.AuthResponse{}}
	case znode.OpAddWatch:
		m.Result = &zkv1.Reply_AddWatch{AddWatch: &zkv1.AddWatchResponse{}}
	case znode.OpRemoveWatches:
		m.Result = &zkv1.Reply_RemoveWatches{RemoveWatches: &zkv1.RemoveWatchesResponse{}}
	case znode.OpCheckWatches:
		m.Result = &zkv1.Reply_CheckWatches{CheckWatches: &zkv1.CheckWatchesResponse{}}
	case znode.OpReconfig:
		m.Result = &zkv1.Reply_Reconfig{Reconfig: &zkv1.ReconfigResponse{Data: r.Data, Stat: modelStat(r.Stat)}}
	case znode.OpSetWatches, znode.OpSetWatches2:
		m.Result = &zkv1.Reply_SetWatches{SetWatches: &zkv1.SetWatchesResponse{}}
	case znode.OpCloseSession:
		m.Result = &zkv1.Reply_Close{Close: &zkv1.CloseResponse{}}
	case znode.OpCreate2, znode.OpCreateContainer, znode.OpCreateTTL:
		m.Result = &zkv1.Reply_Create{Create: &zkv1.CreateResponse{Path: r.Path, Stat: modelStat(r.Stat)}}
	case znode.OpDelete:
		m.Result = &zkv1.Reply_Delete{Delete: &zkv1.DeleteResponse{}}
	case znode.OpExists:
		m.Result = &zkv1.Reply_Exists{Exists: &zkv1.ExistsResponse{Stat: modelStat(r.Stat)}}
	case znode.OpGetData:
		m.Result = &zkv1.Reply_Get{Get: &zkv1.GetResponse{Data: r.Data, Stat: modelStat(r.Stat)}}
	case znode.OpSetData:
		m.Result = &zkv1.Reply_Set{Set: &zkv1.SetResponse{Stat: modelStat(r.Stat)}}
	case znode.OpSetACL:
		m.Result = &zkv1.Reply_SetAcl{SetAcl: &zkv1.SetACLResponse{Stat: modelStat(r.Stat)}}
	case znode.OpGetACL:
		v := &zkv1.GetACLResponse{Stat: modelStat(r.Stat)}
		for _, a := range r.ACL {
			v.Acl = append(v.Acl, &zkv1.ACL{Perms: a.Perms, Scheme: valid(a.Scheme), Id: valid(a.ID)})
		}
		m.Result = &zkv1.Reply_GetAcl{GetAcl: v}
	case znode.OpGetChildren2:
		m.Result = &zkv1.Reply_Children{Children: &zkv1.ChildrenResponse{Children: slices.Collect(r.Names.All()), Stat: modelStat(r.Stat)}}
	case znode.OpGetAllChildrenNumber:
		m.Result = &zkv1.Reply_AllChildrenNumber{AllChildrenNumber: &zkv1.AllChildrenNumberResponse{Total: r.Count}}
	case znode.OpGetEphemerals:
		m.Result = &zkv1.Reply_Ephemerals{Ephemerals: &zkv1.EphemeralsResponse{Paths: slices.Collect(r.Names.All())}}
	case znode.OpSync:
		m.Result = &zkv1.Reply_Sync{Sync: &zkv1.SyncResponse{Path: r.Path}}
	case znode.OpWhoAmI:
		v := &zkv1.WhoAmIResponse{}
		for _, id := range r.IDs {
			v.Infos = append(v.Infos, &zkv1.ClientInfo{Scheme: id.Scheme, User: id.ID})
		}
		m.Result = &zkv1.Reply_WhoAmI{WhoAmI: v}
	case znode.OpMulti:
		m.Result = &zkv1.Reply_Multi{Multi: modelMulti(r.Multi)}
	case znode.OpMultiRead:
		m.Result = &zkv1.Reply_MultiRead{MultiRead: modelReads(r.Reads)}
	}
}

func modelMulti(rs []znode.OpResult) *zkv1.MultiResponse {
	v := &zkv1.MultiResponse{}
	bad := false
	for _, o := range rs {
		bad = bad || o.Code != znode.OK
	}
	for _, o := range rs {
		x := &zkv1.MultiOpResult{Code: zkv1.Code(o.Code)}
		switch {
		case bad:
		case o.Op == znode.OpDelete:
			x.Result = &zkv1.MultiOpResult_Delete{Delete: &zkv1.DeleteResponse{}}
		case o.Op == znode.OpCheck:
			x.Result = &zkv1.MultiOpResult_Check{Check: &zkv1.CheckResponse{}}
		case o.Op == znode.OpSetData:
			x.Result = &zkv1.MultiOpResult_Set{Set: &zkv1.SetResponse{Stat: modelStat(o.Stat)}}
		default:
			x.Result = &zkv1.MultiOpResult_Create{Create: &zkv1.CreateResponse{Path: o.Path, Stat: modelStat(o.Stat)}}
		}
		v.Results = append(v.Results, x)
	}
	return v
}

func modelReads(rs []znode.ReadResult) *zkv1.MultiReadResponse {
	v := &zkv1.MultiReadResponse{}
	for _, o := range rs {
		x := &zkv1.ReadResult{Code: zkv1.Code(o.Code)}
		switch {
		case o.Code != znode.OK:
		case o.Op == znode.OpGetData:
			x.Result = &zkv1.ReadResult_Get{Get: &zkv1.GetResponse{Data: o.Data, Stat: modelStat(o.Stat)}}
		default:
			x.Result = &zkv1.ReadResult_Children{Children: &zkv1.ChildrenResponse{Children: slices.Collect(o.Names.All())}}
		}
		v.Results = append(v.Results, x)
	}
	return v
}

func modelStat(s znode.Stat) *zkv1.Stat {
	return &zkv1.Stat{
		Czxid: s.Czxid, Mzxid: s.Mzxid, CtimeMs: s.Ctime, MtimeMs: s.Mtime, Version: s.Version, Cversion: s.Cversion,
		Aversion: s.Aversion, EphemeralOwner: s.EphemeralOwner, DataLength: s.DataLength, NumChildren: s.NumChildren, Pzxid: s.Pzxid,
	}
}

var allOps = []znode.Op{
	znode.OpPing, znode.OpAuth, znode.OpSetWatches, znode.OpCloseSession, znode.OpCreate2, znode.OpCreateContainer,
	znode.OpCreateTTL, znode.OpDelete, znode.OpExists, znode.OpGetData, znode.OpSetData, znode.OpSetACL, znode.OpGetACL,
	znode.OpGetChildren2, znode.OpGetAllChildrenNumber, znode.OpGetEphemerals, znode.OpSync, znode.OpWhoAmI, znode.OpMulti, znode.OpMultiRead,
	znode.OpSetWatches2, znode.OpAddWatch, znode.OpRemoveWatches, znode.OpCheckWatches, znode.OpReconfig,
}

// dice makes values with a liking for the edges.
type dice struct{ *rand.Rand }

func (d dice) int() int64 {
	return [...]int64{0, 1, -1, 127, 128, 1 << 20, 1<<62 + 7, -1 << 63}[d.IntN(8)]
}
func (d dice) text() string {
	return [...]string{"", "/", "/a/ü", string(make([]byte, 200)), "\xff\xfe"}[d.IntN(5)]
}

func (d dice) data() []byte {
	return [...][]byte{nil, {}, []byte("x"), make([]byte, 300)}[d.IntN(4)]
}

func (d dice) stat() znode.Stat {
	return znode.Stat{
		Czxid: d.int(), Mzxid: d.int(), Ctime: d.int(), Mtime: d.int(), Version: int32(d.int()), Cversion: int32(d.int()), Aversion: int32(d.int()),
		EphemeralOwner: d.int(), DataLength: int32(d.int()), NumChildren: int32(d.int()), Pzxid: d.int(),
	}
}

func (d dice) names() []string {
	var v []string
	for range d.IntN(4) {
		v = append(v, valid(d.text()))
	}
	return v
}

func (d dice) reply(op znode.Op) *session.Reply {
	r := &session.Reply{
		Op: op, Xid: int32(d.int()), Zxid: d.int(), Path: valid(d.text()), Data: d.data(), Stat: d.stat(), Names: znode.NamesOf(d.names()), Count: int32(d.int()),
	}
	if d.IntN(5) == 0 {
		r.Err = znode.NoNode
	}
	for range d.IntN(3) {
		r.ACL = append(r.ACL, znode.ACL{Perms: int32(d.int()), Scheme: d.text(), ID: d.text()})
		r.IDs = append(r.IDs, znode.AuthID{Scheme: valid(d.text()), ID: valid(d.text())})
	}
	bad := d.IntN(2) == 0
	for range d.IntN(5) {
		o := znode.OpResult{Op: [...]znode.Op{znode.OpCreate2, znode.OpDelete, znode.OpSetData, znode.OpCheck, znode.OpCreateTTL}[d.IntN(5)], Path: valid(d.text()), Stat: d.stat()}
		if bad {
			o.Code = [...]znode.Code{znode.OK, znode.BadVersion, znode.RuntimeInconsistency}[d.IntN(3)]
		}
		r.Multi = append(r.Multi, o)
		x := znode.ReadResult{Op: [...]znode.Op{znode.OpGetData, znode.OpGetChildren}[d.IntN(2)], Data: d.data(), Stat: d.stat(), Names: znode.NamesOf(d.names())}
		if d.IntN(3) == 0 {
			x.Code = znode.NoAuth
		}
		r.Reads = append(r.Reads, x)
	}
	return r
}

// An outbox of answers is a SessionResponse, and exactly the one that the generated code would make.
func TestEncodingIsTheGeneratedOne(t *testing.T) {
	d := dice{rand.New(rand.NewPCG(1, 2))}
	for range 300 {
		var got []byte
		want := &zkv1.SessionResponse{}
		for range 1 + d.IntN(8) {
			if d.IntN(4) == 0 {
				typ, path, zxid := znode.EventType(1+d.IntN(4)), d.text(), d.int()
				got = wire{}.AppendEvent(got, zxid, typ, path)
				want.Answers = append(want.Answers, &zkv1.Answer{Kind: &zkv1.Answer_Event{Event: &zkv1.Event{Type: zkv1.EventType(typ), Path: valid(path), Zxid: zxid}}})
				continue
			}
			r := d.reply(allOps[d.IntN(len(allOps))])
			got = wire{}.AppendReply(got, r)
			want.Answers = append(want.Answers, model(r))
		}
		var m zkv1.SessionResponse
		if err := proto.Unmarshal(got, &m); err != nil {
			t.Fatal(err)
		}
		if !proto.Equal(&m, want) {
			t.Fatalf("decoded\n%v\nwant\n%v", &m, want)
		}
		if n := proto.Size(want); n != len(got) {
			t.Fatalf("%d bytes, the generated code makes %d", len(got), n)
		}
		for len(got) > 0 { // any cut is a message too
			n := cutAnswers(got)
			if err := proto.Unmarshal(got[:n], &m); err != nil || n == 0 {
				t.Fatalf("cut of %d bytes: %v", n, err)
			}
			got = got[n:]
		}
	}
}

func TestCutKeepsAnswersWhole(t *testing.T) {
	var b []byte
	for i := range 40 {
		b = wire{}.AppendReply(b, &session.Reply{Op: znode.OpGetData, Xid: int32(i), Data: make([]byte, 30_000*(i%3))})
	}
	b = wire{}.AppendReply(b, &session.Reply{Op: znode.OpGetData, Xid: 40, Data: make([]byte, 3*sendBytes)})
	xid, messages := int32(0), 0
	for len(b) > 0 {
		n := cutAnswers(b)
		var m zkv1.SessionResponse
		if err := proto.Unmarshal(b[:n], &m); err != nil {
			t.Fatal(err)
		}
		if n > sendBytes && len(m.GetAnswers()) > 1 {
			t.Errorf("message of %d bytes", n)
		}
		for _, a := range m.GetAnswers() {
			if a.GetReply().GetCxid() != xid {
				t.Fatalf("reply %d, want %d", a.GetReply().GetCxid(), xid)
			}
			xid++
		}
		messages++
		b = b[n:]
	}
	if xid != 41 || messages < 5 {
		t.Errorf("%d replies in %d messages", xid, messages)
	}
}

func TestConnectedEncoding(t *testing.T) {
	res := session.AttachResult{OK: true, Session: -5, Timeout: 4000}
	copy(res.Password[:], "0123456789abcdef")
	for _, r := range []session.AttachResult{res, {}} {
		var m zkv1.SessionResponse
		if err := proto.Unmarshal(appendConnected(nil, r), &m); err != nil || len(m.GetAnswers()) != 1 {
			t.Fatal(err)
		}
		c := m.GetAnswers()[0].GetConnected()
		if c == nil || c.GetSessionId() != r.Session || c.GetTimeoutMs() != r.Timeout || len(c.GetPassword()) != 16 && r.OK {
			t.Errorf("%v of %+v", c, r)
		}
	}
}

func BenchmarkAppendReply(b *testing.B) {
	r := &session.Reply{Op: znode.OpGetData, Xid: 77, Zxid: 1 << 40, Data: make([]byte, 100), Stat: znode.Stat{Czxid: 1 << 40, Mzxid: 1 << 40, Pzxid: 1 << 40, Ctime: 1 << 40, Mtime: 1 << 40}}
	buf := make([]byte, 0, 1024)
	b.ReportAllocs()
	for b.Loop() {
		buf = wire{}.AppendReply(buf[:0], r)
	}
}
