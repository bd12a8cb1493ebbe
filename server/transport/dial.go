package transport

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"sync/atomic"
	"syscall"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/status"

	zabv1 "github.com/zkserver/zkserver/proto/zab/v1"
	"github.com/zkserver/zkserver/zab"
)

// refusal is a peer's word, or ours, that there can be no link.
type refusal struct {
	by     string // "peer" or "self"
	reason zab.Reason
	detail string
}

func (r *refusal) Error() string {
	return fmt.Sprintf("transport: refused by %s: %s %s", r.by, r.reason, r.detail)
}

const (
	dialTimeout = time.Second            // for one address
	headStart   = 100 * time.Millisecond // of one address over the next
)

// handshake bounds the opening of a link; the other side may first have to find out whether an older one lives.
func (t *Transport) handshake() time.Duration { return t.opts.Silence + 2*time.Second }

// seek keeps trying to have a link with a peer: the server with the larger id dials, the other one knocks, so that
// both learn at once when the other is there, and both know of a dial that was refused.
func (t *Transport) seek(ctx context.Context, p *remote) {
	pause := time.Duration(0)
	for {
		heard, ok := t.rest(ctx, p, pause)
		if !ok {
			return
		}
		if heard {
			pause = 0
		}
		began := time.Now()
		var err error
		if t.opts.Self > p.ID {
			err = t.open(ctx, p)
		} else {
			err = t.knock(ctx, p)
		}
		if ctx.Err() != nil {
			return
		}
		if err == nil && time.Since(began) > t.opts.DialMax {
			pause = 0 // there was a link, for a while
			continue
		}
		pause = min(max(2*pause, t.opts.DialMin), t.opts.DialMax)
		if err != nil {
			t.unreachable(p, err)
		}
	}
}

// rest waits until there is no link and it is time to try. It returns early when a link is lost or the peer is heard
// of; ok is false at the end.
func (t *Transport) rest(ctx context.Context, p *remote, pause time.Duration) (heard, ok bool) {
	timer := time.NewTimer(pause)
	defer timer.Stop()
	for due := false; ; {
		l, changed := p.state()
		if due && l == nil {
			return heard, true
		}
		select {
		case <-ctx.Done():
			return false, false
		case <-changed:
			if l != nil {
				due, heard = true, true
			}
		case <-p.kick:
			due, heard = true, true
		case <-timer.C:
			due = true
		}
	}
}

// unreachable reports a dial in vain.
func (t *Transport) unreachable(p *remote, err error) {
	var no *refusal
	if errors.As(err, &no) {
		if p.news(no.Error()) {
			t.opts.Log.Warn().Uint64("peer", uint64(p.ID)).Str("by", no.by).Str("reason", string(no.reason)).Str("detail", no.detail).Msg("no link: refused")
		}
		t.handler.DialFailed(p.ID, false)
		return
	}
	refused := isRefused(err)
	if p.news(fmt.Sprint("unreachable ", refused)) {
		t.opts.Log.Info().Uint64("peer", uint64(p.ID)).Bool("refused", refused).Err(err).Msg("no link")
	}
	t.handler.DialFailed(p.ID, refused)
}

// isRefused: nobody listens, or the connection was reset. A timeout or a name without address is neither.
func isRefused(err error) bool {
	return errors.Is(err, syscall.ECONNREFUSED) || errors.Is(err, syscall.ECONNRESET) || status.Code(err) == codes.Unavailable
}

// dial makes a connection with one of a peer's addresses. Its names are resolved now; each address has a head start
// over the next, so that one that swallows packets does not keep the others from being tried.
func (t *Transport) dial(ctx context.Context, addrs []string) (net.Conn, error) {
	type result struct {
		conn net.Conn
		err  error
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	results := make(chan result)
	for i, addr := range addrs {
		t.spawn(func() { // ends with the dial, which ends with ctx
			var r result
			if within(time.Duration(i)*headStart, ctx.Done()) && i > 0 {
				r.err = ctx.Err()
			} else {
				d := net.Dialer{Timeout: dialTimeout}
				r.conn, r.err = d.DialContext(ctx, "tcp", addr)
			}
			results <- r
		})
	}
	var conn net.Conn
	var open, errs []error
	for range addrs {
		switch r := <-results; {
		case r.err == nil && conn == nil:
			conn = r.conn
			cancel()
		case r.err == nil:
			r.conn.Close()
		case isRefused(r.err):
			errs = append(errs, r.err)
		default:
			open = append(open, r.err)
		}
	}
	switch {
	case conn != nil:
		return conn, nil
	case len(open) > 0:
		return nil, open[0] // it leaves open whether the peer lives
	default:
		return nil, errors.Join(errs...)
	}
}

// connect makes a connection with a peer.
func (t *Transport) connect(ctx context.Context, p *remote) (*grpc.ClientConn, error) {
	conn, err := t.dial(ctx, p.Addrs)
	if err != nil {
		return nil, err
	}
	var taken atomic.Bool
	cc, err := grpc.NewClient("passthrough:///"+conn.RemoteAddr().String(),
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(context.Context, string) (net.Conn, error) {
			if taken.Swap(true) {
				return nil, net.ErrClosed // a link is one connection
			}
			return conn, nil
		}),
		grpc.WithNoProxy(), grpc.WithDisableServiceConfig(), grpc.WithDisableRetry(), grpc.WithIdleTimeout(0),
		grpc.WithInitialWindowSize(streamWindow), grpc.WithInitialConnWindowSize(connectionWindow),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxFrame)),
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: keepaliveTime, Timeout: keepaliveTime / 2, PermitWithoutStream: true}),
	)
	if err != nil {
		conn.Close()
		return nil, err
	}
	cc.Connect()
	return cc, nil
}

// closeQuietly: an error would say that it is closed already.
func closeQuietly(cc *grpc.ClientConn) { _ = cc.Close() }

// knock asks a server with a larger id to dial.
func (t *Transport) knock(ctx context.Context, p *remote) error {
	cc, err := t.connect(ctx, p)
	if err != nil {
		return err
	}
	defer closeQuietly(cc)
	ctx, cancel := context.WithTimeout(ctx, t.handshake())
	defer cancel()
	answer, err := zabv1.NewPeerServiceClient(cc).Knock(ctx, t.hello(p.ID, 0))
	if err != nil {
		return err
	}
	if bye := answer.GetBye(); bye != nil {
		return &refusal{by: "peer", reason: zab.Reason(bye.GetReason()), detail: bye.GetDetail()}
	}
	return nil
}

// hello is a frame that opens.
func (t *Transport) hello(to zab.ServerID, number uint64) *zabv1.Frame {
	return &zabv1.Frame{
		Envelope: t.envelope(to, number),
		Hello:    &zabv1.Hello{Version: version, Process: uint64(t.opts.Process), ConfigSum: t.opts.ConfigSum},
	}
}

// open dials a peer and serves the link until it ends. An error says that none came about.
func (t *Transport) open(ctx context.Context, p *remote) error {
	cc, err := t.connect(ctx, p)
	if err != nil {
		return err
	}
	defer closeQuietly(cc)
	// The stream outlives ctx by what it takes to say goodbye; only the handshake ends with it.
	streamCtx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	timer := time.AfterFunc(t.handshake(), cancel)
	defer timer.Stop()
	unbind := context.AfterFunc(ctx, cancel)
	defer unbind() // ctx lives as long as the transport, and may see many dials fail
	stream, err := zabv1.NewPeerServiceClient(cc).Link(streamCtx)
	if err != nil {
		return err
	}
	l, err := t.greet(p, stream)
	if !timer.Stop() || !unbind() {
		return context.DeadlineExceeded
	}
	if err != nil {
		return err
	}
	if !t.admit(p, l) {
		return ErrStopped
	}
	l.run(func(flushed bool) {
		if flushed && stream.CloseSend() == nil {
			within(grace, l.drained)
		}
		cancel()
	})
	return nil
}

// greet is the dialer's half of the handshake: Hello, the peer's Hello, and a first frame that makes the link.
func (t *Transport) greet(p *remote, stream frames) (*link, error) {
	number := t.numbers.Add(1)
	sent := t.now()
	if err := stream.Send(t.hello(p.ID, number)); err != nil {
		if errors.Is(err, io.EOF) {
			_, err = stream.Recv() // it says why
		}
		return nil, err
	}
	f, err := stream.Recv()
	if err != nil {
		return nil, err
	}
	rtt := t.now() - sent
	if bye := f.GetBye(); bye != nil {
		return nil, &refusal{by: "peer", reason: zab.Reason(bye.GetReason()), detail: bye.GetDetail()}
	}
	q, no := t.admissible(f)
	if no == nil && q != p {
		no = &refusal{by: "self", reason: zab.ReasonBadMessage, detail: fmt.Sprintf("server %d answers at its address", q.ID)}
	}
	if no != nil {
		return nil, errors.Join(no, stream.Send(t.bye(p.ID, no)))
	}
	l := newLink(t, p, identify(f), stream, number)
	l.rtt.Store(rtt)
	return l, stream.Send(&zabv1.Frame{Envelope: t.envelope(p.ID, number), Ping: uint64(t.now())})
}
