package front

import (
	"context"
	"net"
	"net/netip"
	"time"

	"github.com/zkserver/zkserver/proto/jute"
	"github.com/zkserver/zkserver/server/session"
	"github.com/zkserver/zkserver/znode"
)

// runFrames is how many requests go to the session in one go.
const runFrames = 128

// scratch is what decoding needs; a connection holds one only while it decodes.
type scratch struct {
	decoder
	reqs [runFrames]session.Request
}

// zkConn is one connection of the ZooKeeper wire.
type zkConn struct {
	f    *Front
	nc   net.Conn
	sess *session.Conn
	rd   *reader
}

// serveZK serves the ZooKeeper wire to the connection's end. first are the bytes read so far.
func (f *Front) serveZK(ctx context.Context, nc net.Conn, ip netip.Addr, first []byte, deadline time.Time) {
	z := &zkConn{f: f, nc: nc, rd: newReader(nc, &f.buffers, f.opts.MaxBuffer)}
	z.sess = f.hub.Open(zkWire{}, newSink(nc), ipText(ip), nc.RemoteAddr().String())
	stop := context.AfterFunc(ctx, func() { z.sess.Close(session.ReasonShutdown) })
	defer stop()
	z.rd.prefix(first)
	reason := z.connect(ctx)
	if reason == "" {
		reason = z.requests(ctx)
	}
	z.finish(ctx, reason)
}

// finish ends the connection: in order if the server ends it, at once if the client has.
func (z *zkConn) finish(ctx context.Context, reason session.Reason) {
	z.sess.ReleaseFor(reason)
	reason = z.sess.Reason()
	z.f.log.Debug().Str("client", z.sess.Name()).Int64("session", z.sess.Session()).Str("reason", string(reason)).Msg("connection closed")
	if reason != session.ReasonClient {
		d := lingerTime
		if ctx.Err() != nil {
			d = lingerShutdown
		}
		linger(z.nc, d)
	}
	z.rd.start = z.rd.end
	z.rd.release()
}

// requests reads and runs requests until the connection ends.
func (z *zkConn) requests(ctx context.Context) session.Reason {
	for {
		if reason, more := z.run(); !more {
			return reason
		}
		if err := z.rd.fill(); err != nil {
			return session.ReasonClient
		}
		if err := z.sess.Heard(ctx); err != nil {
			return session.ReasonClient // or the reason it was closed for
		}
	}
}

// run works off all complete frames of the buffer. more is false when the connection is to end.
func (z *zkConn) run() (reason session.Reason, more bool) {
	if z.rd.buf == nil {
		return "", true
	}
	s := z.f.scratches.Get().(*scratch)
	defer z.f.scratches.Put(s)
	for {
		n, k, frame := 0, kindRequest, []byte(nil)
		for n < runFrames && k == kindRequest {
			f, ok, err := z.rd.next()
			if err != nil {
				z.tooLong()
				k = kindBroken
				break
			}
			if !ok {
				break
			}
			frame = f
			if k = s.decode(f, &s.reqs[n]); k == kindRequest {
				n++
			}
		}
		err := z.sess.Do(s.reqs[:n])
		special := &s.reqs[min(n, runFrames-1)]
		xid, op := special.Xid, special.Op
		clear(s.reqs[:n])
		if err != nil {
			return z.drained(), false
		}
		switch k {
		case kindBroken:
			return session.ReasonMalformed, false
		case kindAuth, kindSASL, kindRefused:
			if reason := z.atReception(k, xid, op, frame); reason != "" {
				return reason, false
			}
			continue
		}
		if n < runFrames {
			return "", true
		}
	}
}

// tooLong logs once in a while why a client loses its connection again and again.
func (z *zkConn) tooLong() {
	if z.f.noise.allow("length") {
		z.f.log.Warn().Str("client", z.sess.Name()).Int32("length", z.rd.length()).Int("limit", z.rd.limit).
			Msg("a request is longer than jute.maxbuffer; closed its connection")
	}
}

// drained waits, after closeSession, for its reply and the end that follows, or for the end that came already.
func (z *zkConn) drained() session.Reason {
	<-z.sess.Done()
	return session.ReasonSession
}

// atReception executes what does not queue: auth, sasl, refused operations. A reason that is not empty ends the
// connection; what was queued is written first.
func (z *zkConn) atReception(k kind, xid int32, op znode.Op, frame []byte) session.Reason {
	z.sess.Received(1)
	rep := &session.Reply{Op: op, Xid: xid}
	d := jute.NewDecoder(frame[jute.RequestHeaderSize:])
	reason := session.Reason("")
	switch k {
	case kindAuth:
		var a jute.AuthPacket
		a.Decode(d)
		if d.Err() != nil {
			return session.ReasonMalformed
		}
		rep.Err = znode.AuthFailed
		if !a.Scheme.Null {
			rep.Err = z.sess.Authenticate(a.Scheme.Value, a.Auth)
		}
		if rep.Err != znode.OK {
			z.f.authFailed.Add(1)
			reason = session.ReasonAuth
		}
	case kindSASL: // not configured: OK, no token
		var b jute.GetSASLRequest
		b.Decode(d)
		if d.Err() != nil || b.Token == nil {
			return session.ReasonMalformed
		}
	case kindRefused:
		rep.Zxid, rep.Err, reason = -1, znode.Unimplemented, session.ReasonUnknownOp
		if !z.sess.Admitted() {
			rep.Zxid, rep.Err, reason = 0, znode.SessionClosedRequireSASLAuth, session.ReasonUnproved
		}
	}
	z.sess.Answer(rep)
	if reason != "" {
		z.sess.CloseAfterFlush(reason)
		<-z.sess.Done()
		return reason
	}
	z.sess.Flush()
	return ""
}
