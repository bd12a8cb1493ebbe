package grpcfront

import (
	"context"
	"net"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/tap"
	"google.golang.org/protobuf/proto"

	zkv1 "github.com/zkserver/zkserver/proto/zk/v1"
)

// gRPC queues a unary call's reply and ends the call, whether the client reads or not. So every call takes room for its
// reply before it is executed, and gives it back when the reply has gone: what clients do not read is bounded, of a
// connection and of all. Bytes.
const (
	maxReply       = 16 << 20 // of a read; a longer one needs the Session stream
	connectionRoom = 4 * maxReply
	allRoom        = 16 * maxReply
	shortReply     = 2 << 10 // without what it says of the request and its data
)

// links is a listener whose connections are links.
type links struct {
	net.Listener
	all *semaphore.Weighted
}

// Accept implements net.Listener.
func (l links) Accept() (net.Conn, error) {
	nc, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &link{Conn: nc, all: l.all, own: semaphore.NewWeighted(connectionRoom)}, nil
}

// link is a connection and what is held for its client. It is found from a call by its address.
type link struct {
	net.Conn
	all, own *semaphore.Weighted

	mu     sync.Mutex
	held   int64
	closed bool
}

// linkAddr is a client's address that leads to its link.
type linkAddr struct {
	net.Addr
	link *link
}

// RemoteAddr implements net.Conn.
func (l *link) RemoteAddr() net.Addr { return linkAddr{l.Conn.RemoteAddr(), l} }

// Close implements net.Conn. gRPC forgets what it had queued.
func (l *link) Close() error {
	l.mu.Lock()
	n := l.held
	l.held, l.closed = 0, true
	l.mu.Unlock()
	l.all.Release(n)
	return l.Conn.Close()
}

// take waits for room.
func (l *link) take(ctx context.Context, n int64) error {
	if err := l.own.Acquire(ctx, n); err != nil {
		return err
	}
	if err := l.all.Acquire(ctx, n); err != nil {
		l.own.Release(n)
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		l.all.Release(n)
		return net.ErrClosed
	}
	l.held += n
	return nil
}

func (l *link) give(n int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if n == 0 || l.closed {
		return
	}
	l.held -= n
	l.own.Release(n)
	l.all.Release(n)
}

// within gives all calls but sessions a time to end in, and a health watch one for its request to come in: reading what
// does not come ends with it. It is a tap: it may not wait.
func (s *Server) within(ctx context.Context, i *tap.Info) (context.Context, error) {
	switch i.FullMethodName {
	case zkv1.ZooKeeperService_Session_FullMethodName:
		return ctx, nil
	case healthpb.Health_Watch_FullMethodName:
		limited, cancel := context.WithCancel(ctx)
		late := time.AfterFunc(s.opts.CallTimeout, cancel)
		context.AfterFunc(ctx, func() {
			late.Stop()
			cancel()
		})
		return context.WithValue(limited, lateKey{}, late), nil
	}
	limited, cancel := context.WithTimeout(ctx, s.opts.CallTimeout)
	context.AfterFunc(ctx, cancel)
	return limited, nil
}

// lateKey is of the timer that ends a watch whose request does not come.
type lateKey struct{}

// watched is a stream that stays once its request has come.
type watched struct{ grpc.ServerStream }

// RecvMsg implements grpc.ServerStream.
func (w watched) RecvMsg(m any) error {
	err := w.ServerStream.RecvMsg(m)
	if late, ok := w.Context().Value(lateKey{}).(*time.Timer); ok {
		late.Stop()
	}
	return err
}

// stay is the interceptor of streams.
func stay(srv any, ss grpc.ServerStream, i *grpc.StreamServerInfo, handler grpc.StreamHandler) error {
	if i.FullMethod == healthpb.Health_Watch_FullMethodName {
		ss = watched{ss}
	}
	return handler(srv, ss)
}

// account is the interceptor of unary calls.
func (s *Server) account(ctx context.Context, req any, _ *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
	p, _ := peer.FromContext(ctx)
	l := p.Addr.(linkAddr).link
	n := replyRoom(req, s.opts.MaxBuffer)
	if err := l.take(ctx, n); err != nil {
		return nil, status.Error(codes.ResourceExhausted, "the replies to earlier calls are not read")
	}
	rep, err := handler(ctx, req)
	if err != nil {
		l.give(n)
		return nil, err
	}
	return &charged{rep: rep.(proto.Message), link: l, room: n, limit: s.opts.CallTimeout}, nil
}

// replyRoom is how long the reply to a request may become.
func replyRoom(req any, maxBuffer int) int64 {
	n := int64(shortReply)
	switch q := req.(type) {
	case *zkv1.ChildrenRequest, *zkv1.MultiReadRequest:
		return maxReply
	case *zkv1.GetRequest, *zkv1.GetACLRequest:
		n += int64(maxBuffer)
	case *zkv1.WhoAmIRequest:
		n += maxHeaders
	case *zkv1.MultiRequest:
		n += 16 * int64(proto.Size(q))
	case proto.Message:
		n += int64(proto.Size(q))
	}
	return min(n, maxReply)
}

// charged is a reply and the room that was taken for it.
type charged struct {
	rep   proto.Message
	link  *link
	room  int64
	limit time.Duration // until its client has to have taken it
}

// marshal encodes it and gives back what it did not need. The rest goes back when gRPC has sent it: the buffer's pool is
// told. A short one is not followed: there are no more than streams.
func (c *charged) marshal() (mem.BufferSlice, error) {
	b, err := proto.Marshal(c.rep)
	if err != nil || mem.IsBelowBufferPoolingThreshold(cap(b)) {
		c.link.give(c.room)
		return mem.BufferSlice{mem.SliceBuffer(b)}, err
	}
	q := &queued{link: c.link, size: min(int64(cap(b)), c.room)}
	c.link.give(c.room - q.size)
	// What is queued does not hold on to c: that is the reply once more.
	q.late = time.AfterFunc(c.limit, func() { _ = q.link.Close() }) // it may be closed already
	return mem.BufferSlice{mem.NewBuffer(&b, q)}, nil
}

// queued is the pool that one buffer goes back to when gRPC has sent it.
type queued struct {
	mem.NopBufferPool
	link *link
	size int64
	late *time.Timer
}

// Put implements mem.BufferPool.
func (q *queued) Put(*[]byte) {
	q.late.Stop()
	q.link.give(q.size)
}
