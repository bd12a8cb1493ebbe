package grpcfront

import (
	"encoding/binary"
	"errors"
	"io"
	"net"
	"os"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	zkv1 "github.com/zkserver/zkserver/proto/zk/v1"
)

// frame appends an HTTP/2 frame.
func frame(dst []byte, kind, flags byte, stream int, payload []byte) []byte {
	dst = append(dst, byte(len(payload)>>16), byte(len(payload)>>8), byte(len(payload)), kind, flags)
	return append(binary.BigEndian.AppendUint32(dst, uint32(stream)), payload...)
}

// unread asks n times for 15 MB on a connection that offers no window.
func (s *server) unread(n int) net.Conn {
	s.t.Helper()
	if _, err := s.api.Create(callContext(s.t), &zkv1.CreateRequest{Path: "/big", Data: make([]byte, 1_000_000), Acl: openACL()}); err != nil {
		s.t.Fatal(err)
	}
	q := &zkv1.MultiReadRequest{}
	for range 15 {
		q.Ops = append(q.Ops, &zkv1.ReadOp{Op: &zkv1.ReadOp_Get{Get: &zkv1.GetRequest{Path: "/big"}}})
	}
	body, err := proto.Marshal(q)
	if err != nil {
		s.t.Fatal(err)
	}
	var head []byte
	for _, h := range [][2]string{
		{":method", "POST"}, {":scheme", "http"}, {":path", zkv1.ZooKeeperService_MultiRead_FullMethodName}, {":authority", "x"},
		{"content-type", "application/grpc"}, {"te", "trailers"},
	} {
		head = append(append(head, 0, byte(len(h[0]))), h[0]...)
		head = append(append(head, byte(len(h[1]))), h[1]...)
	}
	out := []byte("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")
	out = frame(out, 4, 0, 0, []byte{0, 4, 0, 0, 0, 0}) // settings: no window
	for i := range n {
		out = frame(out, 1, 4, 2*i+1, head)
		out = frame(out, 0, 1, 2*i+1, append(binary.BigEndian.AppendUint32([]byte{0}, uint32(len(body))), body...))
	}
	nc, err := net.Dial("tcp", s.addr)
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { _ = nc.Close() }) // it may be closed already
	if _, err := nc.Write(out); err != nil {
		s.t.Fatal(err)
	}
	return nc
}

// free reports whether so much of all room is free.
func (s *server) free(n int64) bool {
	if !s.s.room.TryAcquire(n) {
		return false
	}
	s.s.room.Release(n)
	return true
}

func until(t *testing.T, what string, cond func() bool) {
	t.Helper()
	for end := time.Now().Add(wait); !cond(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("waited in vain for " + what)
		}
	}
}

// What is held for a client that takes no replies has a bound, and goes with its connection.
func TestRepliesThatAreNotRead(t *testing.T) {
	s := start(t, nil)
	nc := s.unread(20)
	until(t, "replies that are held", func() bool { return !s.free(allRoom - 40<<20) })
	if !s.free(allRoom - connectionRoom) {
		t.Error("more is held for a connection than it may have")
	}
	if _, err := s.api.Get(callContext(t), &zkv1.GetRequest{Path: "/big"}); err != nil {
		t.Errorf("another connection's call: %v", err)
	}
	_ = nc.Close()
	until(t, "the room", func() bool { return s.free(allRoom) })
}

// A client that does not take a reply for long loses its connection.
func TestReplyThatIsNeverRead(t *testing.T) {
	s := start(t, func(o *Options) { o.CallTimeout = time.Second })
	nc := s.unread(1)
	_ = nc.SetReadDeadline(time.Now().Add(wait))
	if _, err := io.Copy(io.Discard, nc); errors.Is(err, os.ErrDeadlineExceeded) {
		t.Error("the connection does not end")
	}
	until(t, "the room", func() bool { return s.free(allRoom) })
}

// A reply to a unary call has a bound.
func TestUnaryReplyTooLong(t *testing.T) {
	s := start(t, nil)
	if _, err := s.api.Create(callContext(t), &zkv1.CreateRequest{Path: "/big", Data: make([]byte, 1_000_000), Acl: openACL()}); err != nil {
		t.Fatal(err)
	}
	q := &zkv1.MultiReadRequest{}
	for range 17 {
		q.Ops = append(q.Ops, &zkv1.ReadOp{Op: &zkv1.ReadOp_Get{Get: &zkv1.GetRequest{Path: "/big"}}})
	}
	if _, err := s.api.MultiRead(callContext(t), q, grpc.MaxCallRecvMsgSize(64<<20)); status.Code(err) != codes.ResourceExhausted {
		t.Errorf("a reply of 17 MB: %v", err)
	}
	q.Ops = q.Ops[:16]
	if r, err := s.api.MultiRead(callContext(t), q, grpc.MaxCallRecvMsgSize(64<<20)); err != nil || len(r.GetResults()) != 16 {
		t.Errorf("a reply of 16 MB: %v", err)
	}
}

// A call whose message does not come ends. A health watch whose message has come stays.
func TestRequestThatDoesNotCome(t *testing.T) {
	s := start(t, func(o *Options) { o.CallTimeout = 100 * time.Millisecond })
	var watch healthpb.Health_WatchClient
	until(t, "a health watch whose request comes in time", func() (come bool) { // a slow machine may need some
		var err error
		if watch, err = healthpb.NewHealthClient(s.cc).Watch(callContext(t), &healthpb.HealthCheckRequest{}); err == nil {
			_, err = watch.Recv()
		}
		return err == nil
	})
	for method, want := range map[string]codes.Code{
		zkv1.ZooKeeperService_Get_FullMethodName: codes.DeadlineExceeded, healthpb.Health_Watch_FullMethodName: codes.Canceled,
	} {
		ss, err := s.cc.NewStream(callContext(t), &grpc.StreamDesc{ClientStreams: true, ServerStreams: true}, method)
		if err != nil {
			t.Fatal(err)
		}
		if err := ss.RecvMsg(new(zkv1.GetResponse)); status.Code(err) != want {
			t.Errorf("%s ended with %v", method, err)
		}
	}
	s.b.SetLease(-time.Second)
	if m, err := watch.Recv(); err != nil || m.GetStatus() != healthpb.HealthCheckResponse_NOT_SERVING {
		t.Errorf("a watch that is older than a call may become: %v %v", m, err)
	}
}
