package grpcfront

import (
	"context"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	zkv1 "github.com/zkserver/zkserver/proto/zk/v1"
	"github.com/zkserver/zkserver/server/session"
	"github.com/zkserver/zkserver/znode"
)

// authKey is the metadata key of a unary call's credentials: a scheme, a blank, the credentials. It may be repeated.
const authKey = "zk-auth"

// maxCredentials is how many of them a call may have, maxHeaders how long all that comes before its message may be.
const (
	maxCredentials = 64
	maxHeaders     = 64 << 10
)

// identities are those of a unary call: its address and what its metadata proves.
func (s *Server) identities(ctx context.Context) (ip string, ids []znode.AuthID, err error) {
	ip, _ = remote(ctx)
	ids = []znode.AuthID{{Scheme: "ip", ID: ip}}
	credentials := metadata.ValueFromIncomingContext(ctx, authKey)
	if len(credentials) > maxCredentials {
		return "", nil, failed(zkv1.Code_CODE_AUTH_FAILED, 0)
	}
	for _, v := range credentials {
		scheme, secret, _ := strings.Cut(v, " ")
		more, code := znode.Authenticate(scheme, []byte(secret), ip, s.opts.Tree)
		if code != znode.OK {
			return "", nil, failed(zkv1.Code(code), 0)
		}
		var ok bool
		if ids, ok = session.JoinAuth(ids, more...); !ok {
			return "", nil, failed(zkv1.Code_CODE_AUTH_FAILED, 0)
		}
	}
	return ip, ids, nil
}

// call executes one command.
func (s *Server) call(ctx context.Context, c *zkv1.Command) (*zkv1.Reply, error) {
	if n := proto.Size(c); n > s.opts.MaxBuffer {
		return nil, status.Errorf(codes.InvalidArgument, "a request of %d bytes, at most %d are taken", n, s.opts.MaxBuffer)
	}
	r, ok := request(c)
	if !ok {
		return nil, status.Error(codes.Internal, "a unary call of no operation")
	}
	if ephemeral(r.Write) {
		return nil, detailed(codes.InvalidArgument, "ephemeral nodes need a session: use the Session stream", zkv1.Code_CODE_BAD_ARGUMENTS, 0)
	}
	ip, ids, err := s.identities(ctx)
	if err != nil {
		return nil, err
	}
	if !s.awaitServing() {
		return nil, ended(session.ReasonNotServing)
	}
	var rep *zkv1.Reply
	if r.Write != nil && r.Op != znode.OpSync {
		r.Write.Auth = ids
		rep, err = s.gateway.write(ctx, r)
	} else {
		rep, err = s.read(ctx, r, ip, ids)
	}
	if err != nil {
		return nil, err
	}
	if rep.GetCode() != zkv1.Code_CODE_OK {
		return nil, failed(rep.GetCode(), rep.GetZxid())
	}
	return rep, nil
}

// awaitServing waits as a new connection does.
func (s *Server) awaitServing() bool {
	if s.opts.Hub.Serving() {
		return true
	}
	conn := s.opts.Hub.Open(wire{}, inbox{}, "", "a unary call that waits")
	defer conn.Release()
	return conn.AwaitServing(session.ServingWait)
}

func ephemeral(w *znode.Request) bool {
	if w == nil {
		return false
	}
	for i := range w.Multi {
		if ephemeral(&w.Multi[i]) {
			return true
		}
	}
	return w.Op == znode.OpCreate2 && (w.Flags == 1 || w.Flags == 3)
}

// inbox is the sink of a connection of this server's own: it takes answers apart and never waits. Its longest answer, if
// that is bounded, is in bytes: what is longer is taken as nil.
type inbox struct {
	take    func(*zkv1.Reply)
	longest int
}

// TryWrite implements session.Sink.
func (i inbox) TryWrite(b []byte) (int, error) {
	if i.longest > 0 && len(b) > i.longest {
		i.take(nil)
		return len(b), nil
	}
	var m zkv1.SessionResponse
	if err := proto.Unmarshal(b, &m); err != nil {
		return 0, err
	}
	for _, a := range m.GetAnswers() {
		if r := a.GetReply(); r != nil {
			i.take(r)
		}
	}
	return len(b), nil
}

// Write implements session.Sink.
func (i inbox) Write(b []byte) (int, error) { return i.TryWrite(b) }

// Close implements session.Sink.
func (i inbox) Close() error { return nil }

// read runs a read, or a sync, on a connection of its own without a session.
func (s *Server) read(ctx context.Context, r session.Request, ip string, ids []znode.AuthID) (*zkv1.Reply, error) {
	answer := make(chan *zkv1.Reply, 1)
	_, name := remote(ctx)
	conn := s.opts.Hub.Open(wire{}, inbox{take: func(r *zkv1.Reply) { answer <- r }, longest: maxReply}, ip, name)
	defer conn.Release()
	conn.AddAuth(ids...)
	stop := context.AfterFunc(ctx, func() { conn.Close(session.ReasonClient) })
	defer stop()
	r.Watch = false
	_ = conn.Do([]session.Request{r}) // an error shows as the end of the connection
	select {
	case rep := <-answer:
		return short(rep)
	case <-conn.Done():
	}
	select {
	case rep := <-answer:
		return short(rep)
	default:
	}
	if ctx.Err() != nil {
		return nil, status.FromContextError(ctx.Err()).Err()
	}
	return nil, ended(conn.Reason())
}

func short(rep *zkv1.Reply) (*zkv1.Reply, error) {
	if rep == nil {
		return nil, status.Errorf(codes.ResourceExhausted, "a reply of more than %d bytes: use the Session stream", maxReply)
	}
	return rep, nil
}
