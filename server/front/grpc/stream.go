package grpcfront

import (
	"context"
	"net"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/peer"
	"google.golang.org/protobuf/encoding/protowire"

	zkv1 "github.com/zkserver/zkserver/proto/zk/v1"
	"github.com/zkserver/zkserver/server/session"
	"github.com/zkserver/zkserver/znode"
)

// sendBytes is the size of a message on a stream at which the next one begins; a single answer may be longer.
const sendBytes = 256 << 10

// runCommands is how many requests go to the session in one go.
const runCommands = 128

// sink sends an outbox's bytes on a stream.
type sink struct{ stream grpc.ServerStream }

// TryWrite implements session.Sink: a stream cannot be asked whether it would wait.
func (s *sink) TryWrite([]byte) (int, error) { return 0, nil }

// Write implements session.Sink. b is a run of whole answers, since every call writes all it is given.
func (s *sink) Write(b []byte) (int, error) {
	done := 0
	for done < len(b) {
		n := cutAnswers(b[done:])
		if err := s.stream.SendMsg(encoded(b[done : done+n])); err != nil {
			return done, err
		}
		done += n
	}
	return done, nil
}

// Close implements session.Sink. The connection has ended, so its handler returns: that ends the stream, and with it
// all that waits in SendMsg or RecvMsg.
func (s *sink) Close() error { return nil }

// cutAnswers is the length of the answers that go into the next message.
func cutAnswers(b []byte) int {
	if len(b) <= sendBytes {
		return len(b)
	}
	n := 0
	for n < len(b) {
		size := protowire.ConsumeFieldValue(fieldAnswers, protowire.BytesType, b[n+1:]) + 1 // the tag is one byte
		if size < 1 {
			panic("grpcfront: the outbox is no run of answers")
		}
		if n > 0 && n+size > sendBytes {
			break
		}
		n += size
	}
	return n
}

// stream is one Session stream.
type stream struct {
	s    *Server
	ss   grpc.ServerStream
	sess *session.Conn
	reqs []session.Request // of the message being worked off
}

// Session serves one stream. Its own goroutine reads and runs; this one waits for the end, because only its return
// ends a stream.
func (s *Server) Session(ss grpc.BidiStreamingServer[zkv1.SessionRequest, zkv1.SessionResponse]) error {
	ip, name := remote(ss.Context())
	t := &stream{s: s, ss: ss}
	t.sess = s.opts.Hub.Open(wire{}, &sink{stream: ss}, ip, name)
	if !s.begin() {
		t.sess.ReleaseFor(session.ReasonShutdown)
		return ended(session.ReasonShutdown)
	}
	go func() { // ends when the client or the connection does
		defer s.streams.Done()
		t.sess.ReleaseFor(t.serve(ss.Context()))
		s.log.Debug().Str("client", name).Int64("session", t.sess.Session()).Str("reason", string(t.sess.Reason())).Msg("stream ended")
	}()
	<-t.sess.Done()
	return ended(t.sess.Reason())
}

func remote(ctx context.Context) (ip, name string) {
	p, ok := peer.FromContext(ctx)
	if !ok {
		return "", ""
	}
	if a, ok := p.Addr.(linkAddr).Addr.(*net.TCPAddr); ok {
		return a.AddrPort().Addr().Unmap().WithZone("").String(), a.String()
	}
	return "", p.Addr.String()
}

// serve works the stream off until it ends, and says why.
func (t *stream) serve(ctx context.Context) session.Reason {
	if r := t.connect(ctx); r != "" {
		return r
	}
	var m sized
	for {
		m.SessionRequest.Reset()
		if t.ss.RecvMsg(&m) != nil {
			return session.ReasonClient // it has left, or gone beyond the size of a message
		}
		if t.sess.Heard(ctx) != nil {
			return session.ReasonClient // or the reason it was closed for
		}
		if r := t.run(ctx, &m); r != "" {
			return r
		}
	}
}

// connect takes the first command, in the order of checks of the other wire.
func (t *stream) connect(ctx context.Context) session.Reason {
	late := time.AfterFunc(t.s.opts.Handshake, func() { t.sess.Close(session.ReasonHandshake) })
	var m sized
	err := t.ss.RecvMsg(&m)
	late.Stop()
	if err != nil {
		return session.ReasonClient
	}
	if tooLarge(&m, t.s.opts.MaxBuffer) || len(m.GetCommands()) == 0 {
		return session.ReasonMalformed
	}
	c := m.GetCommands()[0].GetConnect()
	if c == nil {
		return session.ReasonMalformed
	}
	t.sess.Received(1)
	if !t.sess.AwaitServing(session.ServingWait) {
		return session.ReasonNotServing
	}
	if c.GetLastZxidSeen() > t.s.opts.Hub.LastApplied() {
		return session.ReasonAhead
	}
	res, err := t.sess.Attach(ctx, session.Attach{Session: c.GetSessionId(), Password: c.GetPassword(), Timeout: t.s.opts.clamp(c.GetTimeoutMs())})
	if err != nil {
		return session.ReasonClient // or the reason it was closed for
	}
	if res.OK && c.GetSessionId() != 0 {
		copy(res.Password[:], c.GetPassword()) // the leader found it right
	}
	t.sess.Send(appendConnected(nil, res))
	if !res.OK {
		return t.last(session.ReasonRefused)
	}
	t.sess.Flush()
	m.Commands = m.Commands[1:]
	return t.run(ctx, &m)
}

// last has everything queued written, then ends the connection.
func (t *stream) last(r session.Reason) session.Reason {
	t.sess.CloseAfterFlush(r)
	<-t.sess.Done()
	return r
}

// run works off one message. A reason that is not empty ends the connection.
func (t *stream) run(ctx context.Context, m *sized) session.Reason {
	if tooLarge(m, t.s.opts.MaxBuffer) {
		return session.ReasonMalformed
	}
	t.reqs = t.reqs[:0]
	for _, c := range m.GetCommands() {
		if r, ok := request(c); ok {
			if t.reqs = append(t.reqs, r); len(t.reqs) == runCommands {
				if r := t.do(ctx); r != "" {
					return r
				}
			}
			continue
		}
		a := c.GetAuth()
		if a == nil {
			return session.ReasonMalformed
		}
		if r := t.do(ctx); r != "" {
			return r
		}
		if r := t.auth(ctx, c.GetCxid(), a); r != "" {
			return r
		}
	}
	return t.do(ctx)
}

// do hands over what has been collected.
func (t *stream) do(ctx context.Context) session.Reason {
	err := t.sess.Do(t.reqs)
	clear(t.reqs)
	t.reqs = t.reqs[:0]
	return t.after(ctx, err)
}

// after is what follows a Do or a Settle.
func (t *stream) after(ctx context.Context, err error) session.Reason {
	if err == nil {
		return ""
	}
	select { // behind a Close its reply comes first
	case <-t.sess.Done():
	case <-ctx.Done():
	}
	return session.ReasonClient // or the reason it was closed for
}

// auth is executed at reception.
func (t *stream) auth(ctx context.Context, cxid int32, a *zkv1.AuthRequest) session.Reason {
	t.sess.Received(1)
	rep := &session.Reply{Op: znode.OpAuth, Xid: cxid, Err: t.sess.Authenticate(a.GetScheme(), a.GetAuth())}
	t.sess.Answer(rep)
	if rep.Err != znode.OK {
		return t.last(session.ReasonAuth)
	}
	return t.after(ctx, t.sess.Settle())
}
