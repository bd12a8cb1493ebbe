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
	sess *session.Conn
	so   socket
	rd   reader
	out  sink
}

// newZKConn makes a connection and enters it among the hub's.
func (f *Front) newZKConn(nc net.Conn, ip netip.Addr) *zkConn {
	z := &zkConn{f: f, so: newSocket(nc)}
	z.rd.init(&z.so, f)
	z.out.init(&z.so)
	name := nc.RemoteAddr().String()
	text := ipText(ip)
	if n := len(text); len(name) > n && name[:n] == text {
		text = name[:n] // one string for both
	}
	z.sess = f.hub.Open(zkWire{}, &z.out, text, name)
	return z
}

// serveZK serves the ZooKeeper wire. first are the bytes read so far. Once there is a session, its requests are read by
// another goroutine; that one ends the connection.
func (f *Front) serveZK(ctx context.Context, nc net.Conn, ip netip.Addr, first []byte) {
	z := f.newZKConn(nc, ip)
	if !f.handOver(nc) {
		z.sess.Close(session.ReasonShutdown)
	}
	z.rd.prefix(first)
	reason := z.connect(ctx)
	more := reason == ""
	if more {
		reason, more = z.run()
	}
	if !more {
		z.finish(ctx, reason)
		return
	}
	z.goOn(ctx)
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
		linger(z.so.nc, d)
	}
	z.rd.start = z.rd.end
	z.rd.release()
	_ = z.so.nc.Close() // its client has gone, or has been told
	z.f.forget(z.so.nc, remoteIP(z.so.nc))
}

// quiet is how long a client says nothing before its goroutine is replaced when it does.
const quiet = time.Second

// goOn leaves the connection to a new goroutine and lets the present one end. That is for the sake of idle sessions:
// waiting needs the two kilobytes of stack that a goroutine begins with, but working takes more, which are never given
// back while it waits.
func (z *zkConn) goOn(ctx context.Context) {
	z.f.wg.Go(func() { z.requests(ctx) }) // ends with the connection, or as this one
}

// requests reads and runs requests until the connection ends, or is best left to a new goroutine.
func (z *zkConn) requests(ctx context.Context) {
	for {
		if err := z.rd.fill(); err != nil {
			z.finish(ctx, session.ReasonClient)
			return
		}
		if err := z.sess.Heard(ctx); err != nil {
			z.finish(ctx, session.ReasonClient) // or the reason it was closed for
			return
		}
		if reason, more := z.run(); !more {
			z.finish(ctx, reason)
			return
		}
		if z.sess.Silence() >= quiet {
			z.goOn(ctx)
			return
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
		z.f.log.Warn().Str("client", z.sess.Name()).Int32("length", z.rd.length()).Int("limit", z.f.opts.MaxBuffer).
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
	if z.sess.Settle() != nil {
		return z.drained()
	}
	return ""
}
