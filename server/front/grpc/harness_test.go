package grpcfront

import (
	"context"
	"errors"
	"io"
	"net"
	"slices"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	zkv1 "github.com/zkserver/zkserver/proto/zk/v1"
	"github.com/zkserver/zkserver/server/session"
	"github.com/zkserver/zkserver/server/session/sessiontest"
	"github.com/zkserver/zkserver/znode"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// wait is how long a test waits for what must come.
const wait = time.Minute

// server is the gRPC front on a real session layer, over a backend that applies by itself.
type server struct {
	t    testing.TB
	s    *Server
	hub  *session.Hub
	b    *sessiontest.Backend
	addr string
	cc   *grpc.ClientConn
	api  zkv1.ZooKeeperServiceClient
}

func start(t testing.TB, change func(o *Options)) *server {
	t.Helper()
	tree := znode.Options{ExtendedTypes: true}
	hub := session.NewHub(session.Options{Tree: tree, Log: zerolog.Nop()})
	b := sessiontest.New(hub, tree)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	o := Options{Listener: l, Hub: hub, Tree: tree, MinSession: time.Second, MaxSession: 20 * time.Second, Log: zerolog.Nop()}
	if change != nil {
		change(&o)
	}
	s, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 3)
	for _, run := range []func(context.Context) error{s.Run, hub.Run, b.Run} {
		go func() { ended <- run(ctx) }() // ends on cancel, waited for below
	}
	cc, err := grpc.NewClient("passthrough:///"+l.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		b.Resume()
		_ = cc.Close()
		cancel()
		for range 3 {
			if err := <-ended; err != nil {
				t.Error(err)
			}
		}
	})
	return &server{t: t, s: s, hub: hub, b: b, addr: l.Addr().String(), cc: cc, api: zkv1.NewZooKeeperServiceClient(cc)}
}

// conn is a raw Session stream.
type conn struct {
	t      testing.TB
	ss     grpc.BidiStreamingClient[zkv1.SessionRequest, zkv1.SessionResponse]
	cancel context.CancelFunc
	got    []*zkv1.Answer
	cxid   int32
	id     int64
	pass   []byte
}

func (s *server) stream() *conn {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), wait)
	ss, err := s.api.Session(ctx)
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(cancel)
	return &conn{t: s.t, ss: ss, cancel: cancel}
}

// connect opens a stream with a session.
func (s *server) connect(q *zkv1.ConnectRequest) *conn {
	s.t.Helper()
	c := s.stream()
	c.send(connectCommand(q))
	r := c.answer().GetConnected()
	if r.GetTimeoutMs() == 0 {
		s.t.Fatalf("no session: %v", r)
	}
	c.id, c.pass = r.GetSessionId(), r.GetPassword()
	return c
}

func connectCommand(q *zkv1.ConnectRequest) *zkv1.Command {
	return &zkv1.Command{Op: &zkv1.Command_Connect{Connect: q}}
}

func newSession() *zkv1.ConnectRequest { return &zkv1.ConnectRequest{TimeoutMs: 10_000} }

// send sends commands in one message and numbers them; a connect keeps zero.
func (c *conn) send(cmds ...*zkv1.Command) {
	c.t.Helper()
	for _, cmd := range cmds {
		if cmd.GetConnect() == nil {
			c.cxid++
			cmd.Cxid = c.cxid
		}
	}
	if err := c.ss.Send(&zkv1.SessionRequest{Commands: cmds}); err != nil && !errors.Is(err, io.EOF) {
		c.t.Fatal(err)
	}
}

func (c *conn) next() (*zkv1.Answer, error) {
	for len(c.got) == 0 {
		m, err := c.ss.Recv()
		if err != nil {
			return nil, err
		}
		c.got = m.GetAnswers()
	}
	a := c.got[0]
	c.got = c.got[1:]
	return a, nil
}

func (c *conn) answer() *zkv1.Answer {
	c.t.Helper()
	a, err := c.next()
	if err != nil {
		c.t.Fatalf("no answer: %v", err)
	}
	return a
}

// reply is the next answer, which has to be the reply with the number given.
func (c *conn) reply(cxid int32, code zkv1.Code) *zkv1.Reply {
	c.t.Helper()
	a := c.answer()
	r := a.GetReply()
	if r == nil || r.GetCxid() != cxid || r.GetCode() != code {
		c.t.Fatalf("answer %v, want a reply to %d with %v", a, cxid, code)
	}
	return r
}

// ask sends one command and reads its reply.
func (c *conn) ask(cmd *zkv1.Command) *zkv1.Reply {
	c.t.Helper()
	c.send(cmd)
	return c.reply(c.cxid, zkv1.Code_CODE_OK)
}

// ends reads to the end of the stream, which has to come with the code given, and with ZooKeeper's where it has one.
func (c *conn) ends(code codes.Code, detail ...zkv1.Code) {
	c.t.Helper()
	for {
		a, err := c.next()
		if err == nil {
			c.t.Logf("before the end: %v", a)
			continue
		}
		if errors.Is(err, io.EOF) {
			err = nil
		}
		if status.Code(err) != code {
			c.t.Errorf("the stream ended with %v, want %v", err, code)
		}
		var got []zkv1.Code
		for _, d := range status.Convert(err).Details() {
			if e, ok := d.(*zkv1.Error); ok {
				got = append(got, e.GetCode())
			}
		}
		if !slices.Equal(got, detail) {
			c.t.Errorf("the stream ended with the details %v, want %v", got, detail)
		}
		return
	}
}

func openACL() *zkv1.ACLList {
	return &zkv1.ACLList{Entries: []*zkv1.ACL{{Perms: 31, Scheme: "world", Id: "anyone"}}}
}

func createCommand(path string, data []byte, mode zkv1.CreateMode) *zkv1.Command {
	return &zkv1.Command{Op: &zkv1.Command_Create{Create: &zkv1.CreateRequest{Path: path, Data: data, Acl: openACL(), Mode: mode}}}
}

func getCommand(path string, watch bool) *zkv1.Command {
	return &zkv1.Command{Op: &zkv1.Command_Get{Get: &zkv1.GetRequest{Path: path, Watch: watch}}}
}

func setCommand(path string, data []byte) *zkv1.Command {
	return &zkv1.Command{Op: &zkv1.Command_Set{Set: &zkv1.SetRequest{Path: path, Data: data, Version: -1}}}
}
