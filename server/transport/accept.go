package transport

import (
	"context"
	"fmt"
	"net"
	"sync"
	"time"

	"google.golang.org/grpc"

	zabv1 "github.com/zkserver/zkserver/proto/zab/v1"
	"github.com/zkserver/zkserver/zab"
)

// helloTimeout is how long a connection may take to say who it is.
const helloTimeout = 5 * time.Second

// service is what other servers call.
type service struct {
	zabv1.UnimplementedPeerServiceServer
	t *Transport
}

// listener remembers its connections: gRPC's Stop waits for those that have not said anything yet, this one closes
// them.
type listener struct {
	net.Listener
	mu     sync.Mutex
	conns  map[*conn]struct{}
	closed bool
}

type conn struct {
	net.Conn
	l *listener
}

func (l *listener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		c.Close()
		return nil, net.ErrClosed
	}
	k := &conn{Conn: c, l: l}
	l.conns[k] = struct{}{}
	return k, nil
}

func (c *conn) Close() error {
	c.l.mu.Lock()
	delete(c.l.conns, c)
	c.l.mu.Unlock()
	return c.Conn.Close()
}

// closeAll ends every connection, and each that still comes in.
func (l *listener) closeAll() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
	for c := range l.conns { // order does not matter
		c.Conn.Close()
	}
}

// admissible checks who opens, or answers: strangers are refused by name.
func (t *Transport) admissible(f *zabv1.Frame) (*remote, *refusal) {
	env, hello := f.GetEnvelope(), f.GetHello()
	no := func(r zab.Reason, format string, args ...any) (*remote, *refusal) {
		return nil, &refusal{by: "self", reason: r, detail: fmt.Sprintf(format, args...)}
	}
	p := t.peers[zab.ServerID(env.GetFrom())]
	switch {
	case hello == nil:
		return no(zab.ReasonBadMessage, "no hello")
	case hello.GetVersion() != version:
		return no(zab.ReasonVersion, "%d, not %d", hello.GetVersion(), version)
	case env.GetTo() != uint64(t.opts.Self):
		return no(zab.ReasonBadMessage, "this is server %d, not %d", t.opts.Self, env.GetTo())
	case p == nil:
		return no(zab.ReasonVoterList, "server %d is no member", env.GetFrom())
	case hello.GetConfigSum() != t.opts.ConfigSum:
		return no(zab.ReasonVoterList, "server %d has another list than server %d", env.GetFrom(), t.opts.Self)
	case foreign(t.opts.Ensemble(), zab.ID(env.GetEnsemble())):
		return no(zab.ReasonForeignEnsemble, "server %d is of %016x, server %d of %016x", env.GetFrom(), env.GetEnsemble(), t.opts.Self, uint64(t.opts.Ensemble()))
	}
	return p, nil
}

func identify(f *zabv1.Frame) identity {
	env := f.GetEnvelope()
	return identity{instance: zab.ID(env.GetInstance()), process: zab.ID(f.GetHello().GetProcess()), link: env.GetLink()}
}

func (t *Transport) bye(to zab.ServerID, no *refusal) *zabv1.Frame {
	return &zabv1.Frame{Envelope: t.envelope(to, 0), Bye: &zabv1.Bye{Reason: text(string(no.reason)), Detail: text(no.detail)}}
}

// turnAway refuses, and says so once in the log.
func (t *Transport) turnAway(from uint64, no *refusal) {
	p := t.peers[zab.ServerID(from)]
	if p == nil || p.news(no.Error()) {
		t.opts.Log.Warn().Uint64("peer", from).Str("reason", string(no.reason)).Str("detail", no.detail).Msg("turned away")
	}
}

// Knock is told by a server with a smaller id that it is there. One whose id is in use would wait for a dial for ever: it
// is told, as one that dials is.
func (s *service) Knock(ctx context.Context, f *zabv1.Frame) (*zabv1.Frame, error) {
	t := s.t
	from := f.GetEnvelope().GetFrom()
	p, no := t.admissible(f)
	if no == nil {
		_, no = t.contest(ctx, p, identify(f))
	}
	if no != nil {
		t.turnAway(from, no)
		return t.bye(zab.ServerID(from), no), nil
	}
	p.heard()
	return t.hello(p.ID, 0), nil
}

// Link serves a link that a server with a larger id opens.
func (s *service) Link(stream grpc.BidiStreamingServer[zabv1.Frame, zabv1.Frame]) error {
	t := s.t
	f, err := recvWithin(t, helloTimeout, stream.Recv)
	if err != nil {
		return err
	}
	from := f.GetEnvelope().GetFrom()
	p, no := t.admissible(f)
	if no == nil && p.ID < t.opts.Self {
		no = &refusal{by: "self", reason: zab.ReasonBadMessage, detail: "the larger id dials"}
	}
	who := identify(f)
	var old *link
	if no == nil {
		old, no = t.contest(stream.Context(), p, who)
	}
	if no != nil {
		t.turnAway(from, no)
		return stream.Send(t.bye(zab.ServerID(from), no))
	}
	l := newLink(t, p, who, stream, t.numbers.Add(1))
	sent := t.now()
	if err := stream.Send(t.hello(p.ID, l.id.Incarnation)); err != nil {
		return err
	}
	if f, err = recvWithin(t, t.handshake(), stream.Recv); err != nil {
		return err
	}
	l.rtt.Store(t.now() - sent)
	if bye := f.GetBye(); bye != nil {
		t.turnAway(from, &refusal{by: "peer", reason: zab.Reason(bye.GetReason()), detail: bye.GetDetail()})
		return nil
	}
	if len(f.GetMessages()) > 0 || f.GetEnvelope().GetLink() != who.link {
		return stream.Send(t.bye(p.ID, &refusal{reason: zab.ReasonBadMessage, detail: "no link is up yet"}))
	}
	l.probed(f.GetPing(), 0)
	if no := t.replace(p, old, l); no != nil {
		t.turnAway(from, no)
		return stream.Send(t.bye(p.ID, no))
	}
	l.run(func(flushed bool) {
		if flushed {
			within(grace, l.drained)
		}
	})
	return nil
}

// contest decides between a link and a newcomer of the same server id (interleavings 26): the same process has given
// up the old one; another is refused as long as the old one answers. It returns the link that may be replaced.
func (t *Transport) contest(ctx context.Context, p *remote, who identity) (*link, *refusal) {
	old := p.current()
	if old != nil && old.remote.process != who.process && old.answers(ctx) {
		return nil, doubled(old, who)
	}
	return old, nil
}

func doubled(old *link, who identity) *refusal {
	return &refusal{by: "self", reason: zab.ReasonDoubledID, detail: fmt.Sprintf(
		"server %d with instance %016x is linked and answers; refused is instance %016x", old.id.Peer, uint64(old.remote.instance), uint64(who.instance))}
}

// replace makes l the link of its peer, after LinkDown of the one that it may replace.
func (t *Transport) replace(p *remote, old, l *link) *refusal {
	p.admission.Lock()
	defer p.admission.Unlock()
	if now := p.current(); now != nil {
		if now != old && now.remote.process != l.remote.process {
			return doubled(now, l.remote) // one came in meanwhile
		}
		now.cut(ending{reason: zab.ReasonReplaced})
		<-now.gone
	}
	if !t.admit(p, l) {
		return &refusal{by: "self", reason: zab.ReasonStopping}
	}
	return nil
}

// admit registers a link; false: the transport is stopping.
func (t *Transport) admit(p *remote, l *link) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.running {
		return false
	}
	p.set(nil, l)
	p.news("")
	return true
}

// recvWithin receives in a goroutine that ends with the stream, which ends when its handler gives up.
func recvWithin[T any](t *Transport, d time.Duration, recv func() (T, error)) (T, error) {
	var f T
	err := context.DeadlineExceeded
	done := make(chan struct{})
	var got T
	var gotErr error
	t.spawn(func() {
		defer close(done)
		got, gotErr = recv()
	})
	if within(d, done) {
		f, err = got, gotErr
	}
	return f, err
}
