package front

import (
	"context"
	"fmt"
	"time"

	"github.com/zkserver/zkserver/proto/jute"
	"github.com/zkserver/zkserver/server/session"
)

// connect answers the connect request in the order of wire-protocol 3.2, with our departures: existence and password
// are checked, by the leader, before anything else happens to the session. A reason that is not empty ends the
// connection.
func (z *zkConn) connect(ctx context.Context) session.Reason {
	frame, reason := z.firstFrame()
	if reason != "" {
		return reason
	}
	z.sess.Received(1)
	var req jute.ConnectRequest
	d := jute.NewDecoder(frame)
	req.Decode(d)
	if d.Err() != nil {
		return session.ReasonMalformed
	}
	if !z.sess.AwaitServing(session.ServingWait) {
		return session.ReasonNotServing
	}
	if req.LastZxidSeen > z.f.hub.LastApplied() {
		if z.f.noise.allow("ahead") {
			z.f.log.Info().Str("client", z.sess.Name()).Str("seen", fmt.Sprintf("%#x", req.LastZxidSeen)).Msg("refused a client that has seen a later zxid")
		}
		return session.ReasonAhead
	}
	timeout := min(max(int64(req.TimeOut), z.f.opts.MinSession.Milliseconds()), z.f.opts.MaxSession.Milliseconds())
	res, err := z.sess.Attach(ctx, session.Attach{Session: req.SessionID, Password: req.Passwd, Timeout: int32(timeout)})
	if err != nil {
		return session.ReasonShutdown // or the reason it was closed for
	}
	resp := jute.ConnectResponse{Passwd: make([]byte, 16), HasReadOnly: req.HasReadOnly}
	if res.OK {
		resp.TimeOut, resp.SessionID = res.Timeout, res.Session
		if req.SessionID == 0 {
			copy(resp.Passwd, res.Password[:])
		} else {
			copy(resp.Passwd, req.Passwd) // the leader found it right
		}
	}
	out, at := jute.BeginFrame(make([]byte, 0, 64))
	z.sess.Send(jute.EndFrame(resp.Append(out), at))
	if !res.OK {
		z.sess.CloseAfterFlush(session.ReasonRefused)
		<-z.sess.Done()
		return session.ReasonRefused
	}
	z.sess.Flush()
	return ""
}

// firstFrame waits for the first complete frame, under the handshake's deadline.
func (z *zkConn) firstFrame() ([]byte, session.Reason) {
	for {
		frame, ok, err := z.rd.next()
		if err != nil {
			return nil, session.ReasonMalformed
		}
		if ok {
			_ = z.so.nc.SetReadDeadline(time.Time{}) // an error shows at the next read
			if z.sess.Ended() {
				return nil, z.sess.Reason() // Close may have set a deadline just before
			}
			return frame, ""
		}
		if err := z.rd.fill(); err != nil {
			return nil, session.ReasonHandshake
		}
	}
}
