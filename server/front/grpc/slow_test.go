package grpcfront

import (
	"context"
	"strconv"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	zkv1 "github.com/zkserver/zkserver/proto/zk/v1"
)

// Who reads no answers is not read from, whatever it sends: here who it is.
func TestAuthWithoutReading(t *testing.T) {
	s := start(t, nil)
	ctx, cancel := context.WithCancel(callContext(t))
	ss, err := s.api.Session(ctx)
	if err != nil {
		t.Fatal(err)
	}
	sent := make(chan error, 1)
	go func() { // ends when all is sent, or with ctx
		m := &zkv1.SessionRequest{Commands: []*zkv1.Command{connectCommand(newSession())}}
		for range 200 {
			if err := ss.Send(m); err != nil {
				sent <- err
				return
			}
			m.Commands = m.Commands[:0]
			for range 4000 {
				m.Commands = append(m.Commands, &zkv1.Command{Op: &zkv1.Command_Auth{Auth: &zkv1.AuthRequest{Scheme: "digest", Auth: []byte("a:b")}}})
			}
		}
		sent <- nil
	}()
	for before := int64(-1); ; {
		select {
		case err := <-sent:
			t.Fatalf("800,000 auths were taken from a client that reads nothing: %v", err)
		case <-time.After(500 * time.Millisecond):
		}
		received := s.hub.Stats().Received
		if received > 200_000 {
			t.Fatalf("%d auths were read from a client that reads nothing", received)
		}
		if received > 0 && received == before {
			break // nothing was read for so long
		}
		before = received
	}
	cancel()
	<-sent
}

// Two bytes on the wire can make a hundred in memory: what has too many parts is not decoded.
func TestTooManyParts(t *testing.T) {
	s := start(t, nil)
	pings := func(n int) (cmds []*zkv1.Command) {
		for range n {
			cmds = append(cmds, &zkv1.Command{Op: &zkv1.Command_Ping{Ping: &zkv1.PingRequest{}}})
		}
		return cmds
	}
	ops := make([]*zkv1.MultiOp, maxParts)
	for i := range ops {
		ops[i] = &zkv1.MultiOp{}
	}
	multi := &zkv1.MultiRequest{Ops: ops}
	c := s.connect(newSession())
	c.send(pings(maxParts / 2)...) // a ping is two: a command and its kind
	for i := range maxParts / 2 {
		c.reply(int32(i+1), zkv1.Code_CODE_OK)
	}
	c.send(pings(maxParts/2 + 1)...)
	c.ends(codes.InvalidArgument, zkv1.Code_CODE_MARSHALLING_ERROR)
	c = s.connect(newSession())
	c.send(&zkv1.Command{Op: &zkv1.Command_Multi{Multi: multi}})
	c.ends(codes.InvalidArgument, zkv1.Code_CODE_MARSHALLING_ERROR)
	c = s.stream()
	c.send(append([]*zkv1.Command{connectCommand(newSession())}, pings(maxParts/2)...)...)
	c.ends(codes.InvalidArgument, zkv1.Code_CODE_MARSHALLING_ERROR)
	multi.Ops = append(ops, ops[0])
	if _, err := s.api.Multi(callContext(t), multi); status.Code(err) != codes.Internal {
		t.Errorf("a unary multi of too many operations: %v", err)
	}
}

// A call's credentials are few.
func TestTooManyCredentials(t *testing.T) {
	s := start(t, nil)
	for n, want := range map[int]codes.Code{maxCredentials: codes.OK, maxCredentials + 1: codes.Unauthenticated, 15_000: codes.Internal} {
		var kv []string
		for i := range n {
			kv = append(kv, authKey, "digest u:"+strconv.Itoa(i))
		}
		_, err := s.api.Exists(metadata.AppendToOutgoingContext(callContext(t), kv...), &zkv1.ExistsRequest{Path: "/"})
		if status.Code(err) != want {
			t.Errorf("%d credentials: %v", n, err)
		}
	}
}
