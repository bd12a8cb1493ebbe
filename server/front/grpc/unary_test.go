package grpcfront

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	reflectpb "google.golang.org/grpc/reflection/grpc_reflection_v1"
	"google.golang.org/grpc/status"

	zkv1 "github.com/zkserver/zkserver/proto/zk/v1"
	"github.com/zkserver/zkserver/server/session"
)

func callContext(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), wait)
	t.Cleanup(cancel)
	return ctx
}

// wantRefusal checks a unary error: gRPC's code, and ZooKeeper's in the details.
func wantRefusal(t *testing.T, err error, want codes.Code, code zkv1.Code) {
	t.Helper()
	st := status.Convert(err)
	if st.Code() != want || len(st.Details()) != 1 {
		t.Fatalf("error %v with %d details, want %v", err, len(st.Details()), want)
	}
	if d, ok := st.Details()[0].(*zkv1.Error); !ok || d.GetCode() != code || d.GetZxid() == 0 {
		t.Fatalf("detail %v, want %v", st.Details()[0], code)
	}
}

func TestUnaryCalls(t *testing.T) {
	s := start(t, nil)
	ctx := callContext(t)
	made, err := s.api.Create(ctx, &zkv1.CreateRequest{Path: "/u", Data: []byte("1"), Acl: openACL()})
	if err != nil || made.GetPath() != "/u" || made.GetStat().GetCzxid() == 0 {
		t.Fatal(made, err)
	}
	seq, err := s.api.Create(ctx, &zkv1.CreateRequest{Path: "/u/s-", Acl: openACL(), Mode: zkv1.CreateMode_CREATE_MODE_PERSISTENT_SEQUENTIAL})
	if err != nil || seq.GetPath() != "/u/s-0000000000" {
		t.Fatal(seq, err)
	}
	set, err := s.api.Set(ctx, &zkv1.SetRequest{Path: "/u", Data: []byte("2"), Version: 0})
	if err != nil || set.GetStat().GetVersion() != 1 {
		t.Fatal(set, err)
	}
	got, err := s.api.Get(ctx, &zkv1.GetRequest{Path: "/u", Watch: true})
	if err != nil || string(got.GetData()) != "2" || got.GetStat().GetVersion() != 1 {
		t.Fatal(got, err)
	}
	if y, err := s.api.Sync(ctx, &zkv1.SyncRequest{Path: "/u"}); err != nil || y.GetPath() != "/u" {
		t.Fatal(y, err)
	}
	kids, err := s.api.Children(ctx, &zkv1.ChildrenRequest{Path: "/u"})
	if err != nil || !slices.Equal(kids.GetChildren(), []string{"s-0000000000"}) || kids.GetStat().GetNumChildren() != 1 {
		t.Fatal(kids, err)
	}
	if n, err := s.api.AllChildrenNumber(ctx, &zkv1.AllChildrenNumberRequest{Path: "/u"}); err != nil || n.GetTotal() != 1 {
		t.Fatal(n, err)
	}
	if e, err := s.api.Exists(ctx, &zkv1.ExistsRequest{Path: "/none"}); err != nil || e.GetStat() != nil {
		t.Fatal(e, err)
	}
	if e, err := s.api.Exists(ctx, &zkv1.ExistsRequest{Path: "/u"}); err != nil || e.GetStat().GetVersion() != 1 {
		t.Fatal(e, err)
	}
	reads, err := s.api.MultiRead(ctx, &zkv1.MultiReadRequest{Ops: []*zkv1.ReadOp{
		{Op: &zkv1.ReadOp_Get{Get: &zkv1.GetRequest{Path: "/u"}}}, {Op: &zkv1.ReadOp_Get{Get: &zkv1.GetRequest{Path: "/none"}}},
	}})
	if err != nil || string(reads.GetResults()[0].GetGet().GetData()) != "2" || reads.GetResults()[1].GetCode() != zkv1.Code_CODE_NO_NODE {
		t.Fatal(reads, err)
	}
	multi, err := s.api.Multi(ctx, &zkv1.MultiRequest{Ops: []*zkv1.MultiOp{
		{Op: &zkv1.MultiOp_Check{Check: &zkv1.CheckRequest{Path: "/u", Version: 7}}},
		{Op: &zkv1.MultiOp_Delete{Delete: &zkv1.DeleteRequest{Path: "/u/s-0000000000", Version: -1}}},
	}})
	if err != nil || multi.GetResults()[0].GetCode() != zkv1.Code_CODE_BAD_VERSION {
		t.Fatal(multi, err)
	}
	_, err = s.api.Set(ctx, &zkv1.SetRequest{Path: "/u", Version: 0})
	wantRefusal(t, err, codes.Aborted, zkv1.Code_CODE_BAD_VERSION)
	_, err = s.api.Get(ctx, &zkv1.GetRequest{Path: "/none"})
	wantRefusal(t, err, codes.NotFound, zkv1.Code_CODE_NO_NODE)
	_, err = s.api.Create(ctx, &zkv1.CreateRequest{Path: "/u", Acl: openACL()})
	wantRefusal(t, err, codes.AlreadyExists, zkv1.Code_CODE_NODE_EXISTS)
	_, err = s.api.Delete(ctx, &zkv1.DeleteRequest{Path: "/u", Version: -1})
	wantRefusal(t, err, codes.FailedPrecondition, zkv1.Code_CODE_NOT_EMPTY)
	for _, mode := range []zkv1.CreateMode{zkv1.CreateMode_CREATE_MODE_EPHEMERAL, zkv1.CreateMode_CREATE_MODE_EPHEMERAL_SEQUENTIAL} {
		q := &zkv1.CreateRequest{Path: "/e", Acl: openACL(), Mode: mode}
		if _, err = s.api.Create(ctx, q); status.Code(err) != codes.InvalidArgument {
			t.Errorf("ephemeral create: %v", err)
		}
		if _, err = s.api.Multi(ctx, &zkv1.MultiRequest{Ops: []*zkv1.MultiOp{{Op: &zkv1.MultiOp_Create{Create: q}}}}); status.Code(err) != codes.InvalidArgument {
			t.Errorf("ephemeral create in a multi: %v", err)
		}
	}
	if _, err := s.api.Set(ctx, &zkv1.SetRequest{Path: "/u", Data: make([]byte, 0xfffff)}); status.Code(err) != codes.InvalidArgument {
		t.Errorf("too large: %v", err)
	}
}

// Each call has its own caller's identities, though all writes share a session.
func TestUnaryIdentities(t *testing.T) {
	s := start(t, nil)
	plain := callContext(t)
	user := metadata.AppendToOutgoingContext(plain, authKey, "digest u:p", authKey, "digest v:q")
	ids, err := s.api.WhoAmI(user, &zkv1.WhoAmIRequest{})
	if err != nil || len(ids.GetInfos()) != 3 {
		t.Fatal(ids, err)
	}
	own := &zkv1.ACLList{Entries: []*zkv1.ACL{{Perms: 31, Scheme: "auth"}}}
	if _, err := s.api.Create(user, &zkv1.CreateRequest{Path: "/mine", Acl: own}); err != nil {
		t.Fatal(err)
	}
	acl, err := s.api.GetACL(user, &zkv1.GetACLRequest{Path: "/mine"})
	if err != nil || len(acl.GetAcl()) != 2 || acl.GetAcl()[0].GetScheme() != "digest" {
		t.Fatal(acl, err)
	}
	_, err = s.api.Get(plain, &zkv1.GetRequest{Path: "/mine"})
	wantRefusal(t, err, codes.PermissionDenied, zkv1.Code_CODE_NO_AUTH)
	_, err = s.api.Set(plain, &zkv1.SetRequest{Path: "/mine", Version: -1})
	wantRefusal(t, err, codes.PermissionDenied, zkv1.Code_CODE_NO_AUTH)
	if _, err := s.api.SetACL(user, &zkv1.SetACLRequest{Path: "/mine", Acl: openACL(), Version: 0}); err != nil {
		t.Fatal(err)
	}
	if _, err := s.api.Set(plain, &zkv1.SetRequest{Path: "/mine", Version: -1}); err != nil {
		t.Fatal(err)
	}
	_, err = s.api.Get(metadata.AppendToOutgoingContext(plain, authKey, "nonsense x"), &zkv1.GetRequest{Path: "/"})
	if status.Code(err) != codes.Unauthenticated {
		t.Errorf("bad credentials: %v", err)
	}
}

func TestUnaryConcurrent(t *testing.T) {
	s := start(t, nil)
	ctx := callContext(t)
	var wg sync.WaitGroup
	for g := range 16 {
		wg.Go(func() {
			p := fmt.Sprintf("/c%d", g)
			if _, err := s.api.Create(ctx, &zkv1.CreateRequest{Path: p, Acl: openACL()}); err != nil {
				t.Error(err)
				return
			}
			for i := range 50 {
				v := fmt.Sprint(i)
				if _, err := s.api.Set(ctx, &zkv1.SetRequest{Path: p, Data: []byte(v), Version: int32(i)}); err != nil {
					t.Error(err)
					return
				}
				if got, err := s.api.Get(ctx, &zkv1.GetRequest{Path: p}); err != nil || string(got.GetData()) != v {
					t.Errorf("read %q behind %s: %v", got.GetData(), v, err)
					return
				}
			}
		})
	}
	wg.Wait()
	sessions := 0
	s.hub.Each(func(*session.Conn) bool { sessions++; return true })
	if sessions != 1 {
		t.Errorf("%d sessions behind the unary writes", sessions)
	}
}

// I7: a lost write is not called failed, and the next one finds a new session.
func TestUnaryAfterLoss(t *testing.T) {
	s := start(t, nil)
	ctx := callContext(t)
	if _, err := s.api.Create(ctx, &zkv1.CreateRequest{Path: "/a", Acl: openACL()}); err != nil {
		t.Fatal(err)
	}
	s.b.Hold()
	lost := make(chan error, 1)
	go func() { // ends with the call
		_, err := s.api.Set(ctx, &zkv1.SetRequest{Path: "/a", Version: -1})
		lost <- err
	}()
	for s.b.Queued() == 0 && ctx.Err() == nil {
		time.Sleep(time.Millisecond)
	}
	short, cancel := context.WithTimeout(ctx, 50*time.Millisecond)
	defer cancel()
	if _, err := s.api.Set(short, &zkv1.SetRequest{Path: "/a", Version: -1}); status.Code(err) != codes.DeadlineExceeded {
		t.Errorf("a call with a deadline: %v", err)
	}
	s.hub.CloseAll(session.ReasonUnknownFate)
	if err := <-lost; status.Code(err) != codes.Unknown {
		t.Errorf("the lost write: %v", err)
	}
	s.b.Resume()
	if _, err := s.api.Set(ctx, &zkv1.SetRequest{Path: "/a", Version: -1}); err != nil {
		t.Errorf("the next write: %v", err)
	}
	s.b.SetLease(-time.Second)
	for _, err := range []error{
		second(s.api.Set(ctx, &zkv1.SetRequest{Path: "/a", Version: -1})), second(s.api.Get(ctx, &zkv1.GetRequest{Path: "/a"})),
	} {
		if status.Code(err) != codes.Unavailable {
			t.Errorf("not serving: %v", err)
		}
	}
}

// I7: what a lost session still had to say ends no write of the next one.
func TestLateAnswerOfALostSession(t *testing.T) {
	s := start(t, nil)
	ctx := callContext(t)
	if _, err := s.api.Create(ctx, &zkv1.CreateRequest{Path: "/a", Acl: openACL()}); err != nil {
		t.Fatal(err)
	}
	last := s.s.gateway.xid // of the create, whose answer a flusher may hold still
	s.hub.CloseAll(session.ReasonUnknownFate)
	s.b.Hold()
	done := make(chan error, 1)
	go func() { // ends with the call
		set, err := s.api.Set(ctx, &zkv1.SetRequest{Path: "/a", Version: -1})
		if err == nil && set.GetStat().GetVersion() != 1 {
			err = fmt.Errorf("another write's answer: %v", set)
		}
		done <- err
	}()
	for s.b.Queued() == 0 && ctx.Err() == nil { // the new session
		time.Sleep(time.Millisecond)
	}
	s.b.Resume()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	s.b.Hold()
	go func() { // ends with the call
		_, err := s.api.Set(ctx, &zkv1.SetRequest{Path: "/a", Version: 1})
		done <- err
	}()
	for s.b.Queued() == 0 && ctx.Err() == nil {
		time.Sleep(time.Millisecond)
	}
	for xid := range last + 2 {
		s.s.gateway.answer(&zkv1.Reply{Cxid: xid, Code: zkv1.Code_CODE_BAD_VERSION})
	}
	s.b.Resume()
	if err := <-done; err != nil {
		t.Errorf("a write behind a late answer: %v", err)
	}
}

func second[T any](_ T, err error) error { return err }

func TestHealthAndReflection(t *testing.T) {
	s := start(t, nil)
	ctx := callContext(t)
	health := healthpb.NewHealthClient(s.cc)
	until := func(want healthpb.HealthCheckResponse_ServingStatus) {
		t.Helper()
		w, err := health.Watch(ctx, &healthpb.HealthCheckRequest{Service: "zk.v1.ZooKeeperService"})
		if err != nil {
			t.Fatal(err)
		}
		for {
			m, err := w.Recv()
			if err != nil {
				t.Fatalf("%v does not come: %v", want, err)
			}
			if m.GetStatus() == want {
				return
			}
		}
	}
	until(healthpb.HealthCheckResponse_SERVING)
	s.b.SetLease(-time.Second)
	until(healthpb.HealthCheckResponse_NOT_SERVING)

	var stream grpc.BidiStreamingClient[reflectpb.ServerReflectionRequest, reflectpb.ServerReflectionResponse]
	stream, err := reflectpb.NewServerReflectionClient(s.cc).ServerReflectionInfo(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if err := stream.Send(&reflectpb.ServerReflectionRequest{MessageRequest: &reflectpb.ServerReflectionRequest_ListServices{}}); err != nil {
		t.Fatal(err)
	}
	m, err := stream.Recv()
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, v := range m.GetListServicesResponse().GetService() {
		names = append(names, v.GetName())
	}
	if !slices.Contains(names, "zk.v1.ZooKeeperService") || !slices.Contains(names, "grpc.health.v1.Health") {
		t.Errorf("services %v", names)
	}
}
