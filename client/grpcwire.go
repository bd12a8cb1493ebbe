package client

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/proto"

	"github.com/zkserver/zkserver/proto/jute"
	zkv1 "github.com/zkserver/zkserver/proto/zk/v1"
)

// Flow control windows: fixed, so that no bandwidth probing is done.
const (
	streamWindow     = 1 << 20
	connectionWindow = 1 << 20
)

// sendRun bounds the commands of one message, in bytes.
const sendRun = 256 << 10

// grpcLink speaks the Session stream of zkserver's gRPC API, on a connection of its own.
type grpcLink struct {
	cc     *grpc.ClientConn
	cancel context.CancelFunc // of the stream
	stream grpc.BidiStreamingClient[zkv1.SessionRequest, zkv1.SessionResponse]
	limit  int

	answers []*zkv1.Answer // received, not yet looked at
	last    *zkv1.Reply    // what next returned last

	mu     sync.Mutex
	conn   net.Conn // that of cc
	closed bool
}

func (c *Client) dialGRPC(dctx context.Context, addr string) (link, error) {
	l := &grpcLink{limit: c.o.MaxReply}
	cc, err := grpc.NewClient("passthrough:///"+addr,
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, a string) (net.Conn, error) {
			conn, err := c.o.DialContext(ctx, "tcp", a)
			if err == nil && !l.keep(conn) {
				return nil, errors.Join(net.ErrClosed, conn.Close())
			}
			return conn, err
		}),
		grpc.WithInitialWindowSize(streamWindow), grpc.WithInitialConnWindowSize(connectionWindow),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(math.MaxInt32)),
		grpc.WithDisableServiceConfig(), grpc.WithDisableRetry(),
	)
	if err != nil {
		return nil, err
	}
	l.cc = cc
	ctx, cancel := context.WithCancel(context.Background())
	l.cancel = cancel
	stop := context.AfterFunc(dctx, cancel)
	l.stream, err = zkv1.NewZooKeeperServiceClient(cc).Session(ctx)
	if !stop() && err == nil {
		err = dctx.Err()
	}
	if err != nil {
		l.close()
		return nil, err
	}
	return l, nil
}

// keep remembers the connection, unless the link has been closed.
func (l *grpcLink) keep(conn net.Conn) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.conn = conn
	return !l.closed
}

// close closes the connection first: without, gRPC waits five seconds for what cannot be written.
func (l *grpcLink) close() {
	l.cancel()
	l.mu.Lock()
	l.closed = true
	conn := l.conn
	l.mu.Unlock()
	if conn != nil {
		_ = conn.Close()
	}
	_ = l.cc.Close()
}

func (l *grpcLink) connect(ctx context.Context, h hello) (welcome, error) {
	stop := context.AfterFunc(ctx, l.close)
	w, err := l.handshake(h)
	if !stop() {
		return welcome{}, fmt.Errorf("no session in time: %w", ctx.Err())
	}
	return w, err
}

func (l *grpcLink) handshake(h hello) (welcome, error) {
	q := &zkv1.ConnectRequest{LastZxidSeen: h.lastZxid, TimeoutMs: h.timeout, SessionId: h.session.ID, Password: h.session.Password}
	if err := l.send([]*zkv1.Command{{Op: &zkv1.Command_Connect{Connect: q}}}); err != nil {
		return welcome{}, err
	}
	a, err := l.answer()
	if err != nil {
		return welcome{}, err
	}
	r := a.GetConnected()
	if r == nil {
		return welcome{}, fmt.Errorf("%w: the first answer is no connect response", ErrProtocol)
	}
	return welcome{timeout: r.GetTimeoutMs(), session: r.GetSessionId(), password: r.GetPassword()}, nil
}

// send puts the stream's own error in place of io.EOF, which only says that the stream has ended.
func (l *grpcLink) send(cmds []*zkv1.Command) error {
	err := l.stream.Send(&zkv1.SessionRequest{Commands: cmds})
	if errors.Is(err, io.EOF) {
		return errors.New("the server has ended the stream")
	}
	return err
}

func (l *grpcLink) write(batch []*call) error {
	var run []*zkv1.Command
	size := 0
	for _, cl := range batch {
		cl.cmd.Cxid = cl.xid
		n := proto.Size(cl.cmd)
		if len(run) > 0 && size+n > sendRun {
			if err := l.send(run); err != nil {
				return err
			}
			run, size = nil, 0
		}
		run, size = append(run, cl.cmd), size+n
	}
	return l.send(run)
}

// answer is the next answer on the stream.
func (l *grpcLink) answer() (*zkv1.Answer, error) {
	for len(l.answers) == 0 {
		m, err := l.stream.Recv()
		if err != nil {
			return nil, err
		}
		l.answers = m.GetAnswers()
	}
	a := l.answers[0]
	l.answers = l.answers[1:]
	return a, nil
}

func (l *grpcLink) next() (inbound, error) {
	a, err := l.answer()
	if err != nil {
		return inbound{}, err
	}
	switch k := a.GetKind().(type) {
	case *zkv1.Answer_Event:
		return inbound{event: EventType(k.Event.GetType()), path: k.Event.GetPath(), zxid: k.Event.GetZxid()}, checkEvent(k.Event)
	case *zkv1.Answer_Reply:
		l.last = k.Reply
		in := inbound{xid: k.Reply.GetCxid(), zxid: k.Reply.GetZxid(), code: Code(k.Reply.GetCode())}
		in.tooLarge = in.code == OK && proto.Size(k.Reply) > l.limit
		return in, nil
	}
	return inbound{}, fmt.Errorf("%w: answer of no kind", ErrProtocol)
}

func checkEvent(e *zkv1.Event) error {
	if e.GetType() == zkv1.EventType_EVENT_TYPE_UNSPECIFIED {
		return fmt.Errorf("%w: event of no type", ErrProtocol)
	}
	return nil
}

func (l *grpcLink) body(op jute.OpCode, into *reply) error { return decodePB(l.last, op, into) }
