package grpcfront

import (
	"bytes"
	"context"
	"fmt"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	zkv1 "github.com/zkserver/zkserver/proto/zk/v1"
	"github.com/zkserver/zkserver/server/session"
)

func TestSessionLife(t *testing.T) {
	s := start(t, nil)
	c := s.connect(&zkv1.ConnectRequest{TimeoutMs: 1})
	if c.id == 0 || len(c.pass) != 16 {
		t.Fatalf("session %#x, password %x", c.id, c.pass)
	}
	r := c.ask(createCommand("/e", []byte{}, zkv1.CreateMode_CREATE_MODE_EPHEMERAL))
	if r.GetCreate().GetPath() != "/e" || r.GetCreate().GetStat().GetEphemeralOwner() != c.id || r.GetZxid() != r.GetCreate().GetStat().GetCzxid() {
		t.Errorf("created %v", r)
	}
	if g := c.ask(getCommand("/e", false)).GetGet(); g.Data == nil || len(g.Data) != 0 {
		t.Errorf("empty data came as %v", g)
	}
	c.ask(&zkv1.Command{Op: &zkv1.Command_Set{Set: &zkv1.SetRequest{Path: "/e", Version: 0}}})
	if g := c.ask(getCommand("/e", false)).GetGet(); g.Data != nil || g.GetStat().GetVersion() != 1 {
		t.Errorf("null data came as %v", g)
	}
	c.cancel() // the connection breaks, the session lives

	c2 := s.connect(&zkv1.ConnectRequest{TimeoutMs: 10_000, SessionId: c.id, Password: c.pass})
	if c2.id != c.id {
		t.Errorf("re-attached as %#x", c2.id)
	}
	if p := c2.ask(&zkv1.Command{Op: &zkv1.Command_Ephemerals{Ephemerals: &zkv1.EphemeralsRequest{}}}).GetEphemerals().GetPaths(); len(p) != 1 || p[0] != "/e" {
		t.Errorf("ephemerals %v", p)
	}
	c3 := s.connect(&zkv1.ConnectRequest{SessionId: c.id, Password: c.pass})
	c2.ends(codes.FailedPrecondition, zkv1.Code_CODE_SESSION_MOVED) // it has another connection now
	c3.send(&zkv1.Command{Op: &zkv1.Command_Close{Close: &zkv1.CloseRequest{}}}, getCommand("/e", false))
	if c3.reply(1, zkv1.Code_CODE_OK).GetClose() == nil {
		t.Error("close has no result")
	}
	c3.ends(codes.OK)
	other := s.connect(newSession())
	other.send(getCommand("/e", false))
	other.reply(1, zkv1.Code_CODE_NO_NODE)
}

func TestRefusedConnects(t *testing.T) {
	s := start(t, func(o *Options) { o.Handshake = time.Second })
	good := s.connect(newSession())
	for name, q := range map[string]*zkv1.ConnectRequest{
		"unknown":        {SessionId: 1234567, Password: good.pass},
		"wrong password": {SessionId: good.id, Password: []byte("sixteen bytes...")},
	} {
		c := s.stream()
		c.send(connectCommand(q))
		if r := c.answer().GetConnected(); r == nil || r.GetTimeoutMs() != 0 || r.GetSessionId() != 0 || len(r.GetPassword()) != 0 {
			t.Errorf("%s: %v", name, r)
		}
		c.ends(codes.FailedPrecondition, zkv1.Code_CODE_SESSION_EXPIRED)
	}
	good.ask(&zkv1.Command{Op: &zkv1.Command_Ping{Ping: &zkv1.PingRequest{}}}) // not disturbed

	c := s.stream()
	c.send(connectCommand(&zkv1.ConnectRequest{LastZxidSeen: 1 << 40}))
	c.ends(codes.Unavailable)
	c = s.stream()
	c.send(getCommand("/", false))
	c.ends(codes.InvalidArgument, zkv1.Code_CODE_MARSHALLING_ERROR)
	c = s.stream()
	c.send(&zkv1.Command{})
	c.ends(codes.InvalidArgument, zkv1.Code_CODE_MARSHALLING_ERROR)
	good.send(connectCommand(newSession()))
	good.ends(codes.InvalidArgument, zkv1.Code_CODE_MARSHALLING_ERROR)
	c = s.stream() // says nothing
	c.ends(codes.DeadlineExceeded)
	s.b.SetLease(-time.Second)
	c = s.stream()
	c.send(connectCommand(newSession()))
	c.ends(codes.Unavailable)
}

func TestAuth(t *testing.T) {
	s := start(t, nil)
	c := s.connect(newSession())
	auth := func(scheme, data string) *zkv1.Command {
		return &zkv1.Command{Op: &zkv1.Command_Auth{Auth: &zkv1.AuthRequest{Scheme: scheme, Auth: []byte(data)}}}
	}
	who := &zkv1.Command{Op: &zkv1.Command_WhoAmI{WhoAmI: &zkv1.WhoAmIRequest{}}}
	c.send(auth("digest", "u:p"), who, getCommand("/", false))
	if c.reply(1, zkv1.Code_CODE_OK).GetAuth() == nil {
		t.Error("auth has no result")
	}
	if ids := c.reply(2, zkv1.Code_CODE_OK).GetWhoAmI().GetInfos(); len(ids) != 2 {
		t.Errorf("identities %v", ids)
	}
	c.reply(3, zkv1.Code_CODE_OK)
	c.send(auth("nonsense", ""))
	c.reply(4, zkv1.Code_CODE_AUTH_FAILED)
	c.ends(codes.Unauthenticated, zkv1.Code_CODE_AUTH_FAILED)
}

// I8: replies in order, each read sees the writes before it and none behind it; I9: the event comes before the reply.
func TestOrderInOneMessage(t *testing.T) {
	s := start(t, nil)
	c := s.connect(newSession())
	c.ask(createCommand("/n", []byte("0"), zkv1.CreateMode_CREATE_MODE_PERSISTENT))
	s.b.Hold()
	var cmds []*zkv1.Command
	for i := range 500 {
		cmds = append(cmds, setCommand("/n", fmt.Append(nil, i)), getCommand("/n", i%50 == 0))
	}
	c.send(cmds...)
	s.b.Resume()
	cxid, watched := int32(1), false
	for i := range 500 {
		a := c.answer()
		if watched {
			if e := a.GetEvent(); e.GetType() != zkv1.EventType_EVENT_TYPE_NODE_DATA_CHANGED || e.GetPath() != "/n" {
				t.Fatalf("answer %v before the reply to set %d, want the event", a, i)
			}
			a = c.answer()
		}
		cxid++
		if r := a.GetReply(); r.GetCxid() != cxid || r.GetSet().GetStat().GetVersion() != int32(i+1) {
			t.Fatalf("answer %v to set %d", a, i)
		}
		cxid++
		if r := c.reply(cxid, zkv1.Code_CODE_OK); string(r.GetGet().GetData()) != fmt.Sprint(i) {
			t.Fatalf("read %q behind set %d", r.GetGet().GetData(), i)
		}
		watched = i%50 == 0
	}
}

func TestMultiAndErrors(t *testing.T) {
	s := start(t, nil)
	c := s.connect(newSession())
	create := func(path string, mode zkv1.CreateMode) *zkv1.MultiOp {
		return &zkv1.MultiOp{Op: &zkv1.MultiOp_Create{Create: createCommand(path, nil, mode).GetCreate()}}
	}
	multi := func(ops ...*zkv1.MultiOp) *zkv1.Command {
		return &zkv1.Command{Op: &zkv1.Command_Multi{Multi: &zkv1.MultiRequest{Ops: ops}}}
	}
	check := func(path string, v int32) *zkv1.MultiOp {
		return &zkv1.MultiOp{Op: &zkv1.MultiOp_Check{Check: &zkv1.CheckRequest{Path: path, Version: v}}}
	}
	r := c.ask(multi(create("/m", 0), create("/m/s-", zkv1.CreateMode_CREATE_MODE_EPHEMERAL_SEQUENTIAL), check("/m", 0)))
	if res := r.GetMulti().GetResults(); len(res) != 3 || res[0].GetCreate().GetStat().GetCzxid() != r.GetZxid() || res[1].GetCreate().GetPath() != "/m/s-0000000000" || res[2].GetCheck() == nil {
		t.Errorf("results %v", res)
	}
	r = c.ask(multi(create("/x", 0), check("/m", 9), check("/m", 0)))
	if res := r.GetMulti().GetResults(); len(res) != 3 || res[0].GetCode() != 0 || res[1].GetCode() != zkv1.Code_CODE_BAD_VERSION || res[2].GetCode() != zkv1.Code_CODE_RUNTIME_INCONSISTENCY {
		t.Errorf("results %v", res)
	}
	for code, cmds := range map[zkv1.Code][]*zkv1.Command{
		zkv1.Code_CODE_MARSHALLING_ERROR: {
			multi(&zkv1.MultiOp{}), multi(create("/y", 77)),
			{Op: &zkv1.Command_MultiRead{MultiRead: &zkv1.MultiReadRequest{Ops: []*zkv1.ReadOp{{}}}}},
		},
		zkv1.Code_CODE_BAD_ARGUMENTS: {
			createCommand("/y", nil, 77), createCommand("no slash", nil, 0),
			{Op: &zkv1.Command_Create{Create: &zkv1.CreateRequest{Path: "/y", Acl: openACL(), TtlMs: 5}}},
			{Op: &zkv1.Command_Create{Create: &zkv1.CreateRequest{Path: "/y", Acl: openACL(), Mode: zkv1.CreateMode_CREATE_MODE_PERSISTENT_WITH_TTL}}},
		},
		zkv1.Code_CODE_INVALID_ACL: {
			{Op: &zkv1.Command_Create{Create: &zkv1.CreateRequest{Path: "/y"}}}, {Op: &zkv1.Command_SetAcl{SetAcl: &zkv1.SetACLRequest{Path: "/m", Version: -1}}},
		},
		zkv1.Code_CODE_NO_NODE: {getCommand("/none", true), {Op: &zkv1.Command_Exists{Exists: &zkv1.ExistsRequest{Path: "/none"}}}, {Op: &zkv1.Command_Delete{Delete: &zkv1.DeleteRequest{Path: "/none"}}}},
	} {
		for _, cmd := range cmds {
			c.send(cmd)
			if a := c.answer().GetReply(); a.GetCxid() != c.cxid || a.GetCode() != code {
				t.Errorf("%v gave %v, want %v", cmd, a, code)
			}
		}
	}
	c.ask(&zkv1.Command{Op: &zkv1.Command_Ping{Ping: &zkv1.PingRequest{}}})
}

// Inside a multi a create is what its flags say, as on the other wire (front.TestCreatesInMulti).
func TestCreatesInMulti(t *testing.T) {
	s := start(t, nil)
	c := s.connect(newSession())
	for i, tt := range []struct {
		mode      zkv1.CreateMode
		ttl       int64
		null      bool
		code      zkv1.Code
		result    zkv1.Code
		takesZxid bool
	}{
		{mode: zkv1.CreateMode_CREATE_MODE_CONTAINER, takesZxid: true},
		{mode: zkv1.CreateMode_CREATE_MODE_CONTAINER, ttl: 5, takesZxid: true},
		{mode: zkv1.CreateMode_CREATE_MODE_PERSISTENT, ttl: 1000, takesZxid: true},
		{mode: zkv1.CreateMode_CREATE_MODE_PERSISTENT, ttl: -1, takesZxid: true},
		{mode: zkv1.CreateMode_CREATE_MODE_PERSISTENT_WITH_TTL, ttl: 1000, takesZxid: true},
		{mode: zkv1.CreateMode_CREATE_MODE_PERSISTENT_WITH_TTL, result: zkv1.Code_CODE_BAD_ARGUMENTS, takesZxid: true},
		{mode: 7, ttl: 1000, result: zkv1.Code_CODE_BAD_ARGUMENTS, takesZxid: true},
		{mode: 7, code: zkv1.Code_CODE_MARSHALLING_ERROR, takesZxid: true},
		{mode: -1, code: zkv1.Code_CODE_MARSHALLING_ERROR, takesZxid: true},
		{null: true, code: zkv1.Code_CODE_MARSHALLING_ERROR},
		{mode: zkv1.CreateMode_CREATE_MODE_CONTAINER, null: true, code: zkv1.Code_CODE_MARSHALLING_ERROR},
		{mode: zkv1.CreateMode_CREATE_MODE_PERSISTENT_WITH_TTL, ttl: 1000, null: true, result: zkv1.Code_CODE_INVALID_ACL, takesZxid: true},
	} {
		q := &zkv1.CreateRequest{Path: fmt.Sprintf("/c%d", i), Mode: tt.mode, TtlMs: tt.ttl, Acl: openACL()}
		if tt.null {
			q.Acl = nil
		}
		before := s.b.LastApplied()
		c.send(&zkv1.Command{Op: &zkv1.Command_Multi{Multi: &zkv1.MultiRequest{Ops: []*zkv1.MultiOp{{Op: &zkv1.MultiOp_Create{Create: q}}}}}})
		r := c.reply(c.cxid, tt.code)
		if took := s.b.LastApplied() - before; took != map[bool]int64{true: 1}[tt.takesZxid] {
			t.Errorf("%+v took %d zxids", tt, took)
		}
		if tt.code != 0 {
			continue
		}
		res := r.GetMulti().GetResults()
		if len(res) != 1 || res[0].GetCode() != tt.result || tt.result == 0 && res[0].GetCreate().GetStat().GetCzxid() == 0 {
			t.Errorf("%+v gave %v", tt, res)
		}
	}
}

// A stream that begins in the moment of an election is served after it, and so is a unary call; one on a server that is
// cut off is told soon.
func TestConnectWhileNotServing(t *testing.T) {
	s := start(t, nil)
	s.b.SetLease(-time.Second)
	early := s.stream()
	early.send(connectCommand(newSession()))
	ctx, cancel := context.WithTimeout(context.Background(), wait)
	defer cancel()
	made := make(chan error, 1)
	go func() { // ends with the call
		_, err := s.api.Create(ctx, &zkv1.CreateRequest{Path: "/early", Acl: openACL()})
		made <- err
	}()
	<-time.After(20 * time.Millisecond)
	s.b.SetLease(time.Hour)
	if r := early.answer().GetConnected(); r.GetSessionId() == 0 {
		t.Errorf("answer %v", r)
	}
	if err := <-made; err != nil {
		t.Error(err)
	}
	s.b.SetLease(-time.Second)
	late := s.stream()
	late.send(connectCommand(newSession()))
	late.ends(codes.Unavailable)
	if _, err := s.api.Get(ctx, &zkv1.GetRequest{Path: "/early"}); status.Code(err) != codes.Unavailable {
		t.Errorf("a read without a lease: %v", err)
	}
}

func TestSetWatches(t *testing.T) {
	s := start(t, nil)
	c := s.connect(newSession())
	for _, p := range []string{"/changed", "/same", "/kids"} {
		c.ask(createCommand(p, nil, 0))
	}
	rel := c.ask(setCommand("/same", nil)).GetZxid()
	c.ask(setCommand("/changed", nil))
	c.ask(createCommand("/kids/k", nil, 0))
	c.ask(createCommand("/new", nil, 0))
	c2 := s.connect(newSession())
	c2.send(&zkv1.Command{Op: &zkv1.Command_SetWatches{SetWatches: &zkv1.SetWatchesRequest{
		RelativeZxid: rel, Data: []string{"/changed", "/same", "/gone"}, Exist: []string{"/new", "/later"}, Child: []string{"/kids"},
	}}})
	for _, want := range []string{"3 /changed -1", "2 /gone -1", "1 /new -1", "4 /kids -1"} {
		e := c2.answer().GetEvent()
		if got := fmt.Sprintf("%d %s %d", e.GetType(), e.GetPath(), e.GetZxid()); got != want {
			t.Errorf("event %s, want %s", got, want)
		}
	}
	c2.reply(1, zkv1.Code_CODE_OK)
	z := c.ask(createCommand("/later", nil, 0)).GetZxid()
	if e := c2.answer().GetEvent(); e.GetPath() != "/later" || e.GetType() != 1 || e.GetZxid() != z {
		t.Errorf("event %v", e)
	}
}

func TestExpiredAndShutDown(t *testing.T) {
	s := start(t, nil)
	c := s.connect(newSession())
	s.b.Expire(c.id)
	c.ends(codes.FailedPrecondition, zkv1.Code_CODE_SESSION_EXPIRED)
	c = s.connect(newSession())
	s.hub.CloseAll(session.ReasonShutdown)
	c.ends(codes.Unavailable)
}

// A command over the limit ends the stream, a message of many small ones does not.
func TestSizes(t *testing.T) {
	s := start(t, func(o *Options) { o.MaxBuffer = 100_000 })
	c := s.connect(newSession())
	c.ask(createCommand("/n", nil, 0))
	var many []*zkv1.Command
	for range 5 {
		many = append(many, setCommand("/n", make([]byte, 90_000)))
	}
	c.send(many...)
	for i := range many {
		c.reply(int32(i+2), zkv1.Code_CODE_OK)
	}
	c.send(setCommand("/n", make([]byte, 100_001)))
	c.ends(codes.InvalidArgument, zkv1.Code_CODE_MARSHALLING_ERROR)
	c = s.connect(newSession())
	c.send(setCommand("/n", make([]byte, 100_000+messageRoom)))
	c.ends(codes.ResourceExhausted) // gRPC's own answer
}

// B9: one who does not read is not read from, and costs others nothing.
func TestSlowReader(t *testing.T) {
	s := start(t, nil)
	slow := s.connect(newSession())
	big := bytes.Repeat([]byte("x"), 200_000)
	slow.ask(createCommand("/big", big, 0))
	sent := make(chan int, 1)
	ctx, cancel := context.WithCancel(context.Background())
	go func() { // ends when the server stops taking, or all is sent
		n := 0
		for ; n < 2000 && ctx.Err() == nil; n++ {
			if slow.ss.Send(&zkv1.SessionRequest{Commands: []*zkv1.Command{getCommand("/big", false)}}) != nil {
				break
			}
		}
		sent <- n
	}()
	other := s.connect(newSession())
	other.ask(createCommand("/small", nil, 0))
	for i := range 200 {
		other.ask(setCommand("/small", fmt.Append(nil, i)))
	}
	for _, i := range s.hub.Connections() {
		if i.Session == slow.id && i.Stats.Sent > 50 {
			t.Errorf("%d replies of 200 kB for one that does not read", i.Stats.Sent)
		}
	}
	cancel()
	slow.cancel()
	<-sent
}

// FuzzCommands: whatever decodes as a message is answered or refused, never a panic.
func FuzzCommands(f *testing.F) {
	for _, cmds := range [][]*zkv1.Command{
		{createCommand("/a", []byte("x"), 3), getCommand("/a", true)},
		{{Op: &zkv1.Command_Multi{Multi: &zkv1.MultiRequest{Ops: []*zkv1.MultiOp{{Op: &zkv1.MultiOp_Set{}}, {}}}}}},
		{{Op: &zkv1.Command_Create{}}, {Op: &zkv1.Command_SetWatches{}}, {Op: &zkv1.Command_MultiRead{}}, {Op: &zkv1.Command_Set{}}, {Op: &zkv1.Command_SetAcl{}}},
	} {
		b, err := proto.Marshal(&zkv1.SessionRequest{Commands: cmds})
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		var m zkv1.SessionRequest
		if proto.Unmarshal(b, &m) != nil {
			return
		}
		for _, c := range m.GetCommands() {
			r, ok := request(c)
			if ok && r.Err == 0 && r.Op == 0 {
				t.Fatalf("%v gave a request of no operation", c)
			}
			ephemeral(r.Write)
		}
	})
}
