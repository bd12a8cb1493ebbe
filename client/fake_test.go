package client

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zkserver/zkserver/proto/jute"
)

// fakeServers are what the client dials in a test: each dial gives the test one end of a pipe. In a synctest bubble
// nothing here takes real time.
type fakeServers struct {
	t     *testing.T
	conns chan *fakeConn

	mu   sync.Mutex
	down map[string]bool // addresses that refuse
	up   bool            // false: all refuse
	seen []string        // addresses dialled
}

func newFakes(t *testing.T) *fakeServers {
	return &fakeServers{t: t, conns: make(chan *fakeConn, 64), down: make(map[string]bool), up: true}
}

func (f *fakeServers) dial(ctx context.Context, _, addr string) (net.Conn, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.seen = append(f.seen, addr)
	if !f.up || f.down[addr] {
		return nil, errors.New("connection refused")
	}
	ours, theirs := net.Pipe()
	f.conns <- &fakeConn{t: f.t, addr: addr, Conn: theirs, frames: jute.NewFrameReader(theirs, 8<<20)}
	return ours, nil
}

func (f *fakeServers) setUp(up bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.up = up
}

func (f *fakeServers) dialled() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return append([]string(nil), f.seen...)
}

// options are those of most tests: a session of 10 s, servers in order.
func (f *fakeServers) options() Options {
	self := func(_ context.Context, host string) ([]string, error) { return []string{host}, nil }
	return Options{DialContext: f.dial, LookupHost: self, SessionTimeout: 10 * time.Second, KeepOrder: true, NoWait: true}
}

func (f *fakeServers) accept() *fakeConn {
	f.t.Helper()
	select {
	case c := <-f.conns:
		return c
	case <-time.After(5 * time.Minute):
		f.t.Fatal("the client does not connect")
		return nil
	}
}

// fakeConn is the server's end of one connection.
type fakeConn struct {
	net.Conn
	t      *testing.T
	addr   string
	frames *jute.FrameReader
}

const (
	fakeSession = int64(0x100000000000abc)
	fakeTimeout = int32(10_000)
)

func fakePassword() []byte { return []byte("0123456789abcdef") }

func (c *fakeConn) readConnect() jute.ConnectRequest {
	c.t.Helper()
	frame, err := c.frames.Next()
	if err != nil {
		c.t.Fatalf("connect request: %v", err)
	}
	if len(frame) != 45 {
		c.t.Errorf("connect request of %d bytes, want 45", len(frame))
	}
	var r jute.ConnectRequest
	d := jute.NewDecoder(frame)
	r.Decode(d)
	if d.Err() != nil || len(d.Rest()) != 0 {
		c.t.Fatalf("connect request: %v, rest %d", d.Err(), len(d.Rest()))
	}
	return r
}

func (c *fakeConn) write(b []byte) {
	c.t.Helper()
	if _, err := c.Write(b); err != nil {
		c.t.Errorf("fake server writes: %v", err)
	}
}

func (c *fakeConn) writeConnected(r jute.ConnectResponse) {
	c.t.Helper()
	r.HasReadOnly = true
	b, at := jute.BeginFrame(nil)
	c.write(jute.EndFrame(r.Append(b), at))
}

// welcome does the handshake.
func (c *fakeConn) welcome() jute.ConnectRequest {
	c.t.Helper()
	r := c.readConnect()
	c.writeConnected(jute.ConnectResponse{TimeOut: fakeTimeout, SessionID: fakeSession, Passwd: fakePassword()})
	return r
}

func (c *fakeConn) refuse() {
	c.t.Helper()
	c.readConnect()
	c.writeConnected(jute.ConnectResponse{Passwd: make([]byte, 16)})
	_ = c.Close()
}

type fakeRequest struct {
	jute.RequestHeader
	d    *jute.Decoder
	size int
}

// next reads the next request, whatever it is.
func (c *fakeConn) next() (fakeRequest, error) {
	frame, err := c.frames.Next()
	if err != nil {
		return fakeRequest{}, err
	}
	r := fakeRequest{d: jute.NewDecoder(append([]byte(nil), frame...)), size: len(frame)}
	r.Decode(r.d)
	return r, r.d.Err()
}

// expect reads the next request that is no ping, answering pings.
func (c *fakeConn) expect(op jute.OpCode) fakeRequest {
	c.t.Helper()
	for {
		r, err := c.next()
		if err != nil {
			c.t.Fatalf("want operation %v: %v", op, err)
		}
		if r.Type == jute.OpPing && op != jute.OpPing {
			c.reply(r.Xid, 0, 0, nil)
			continue
		}
		if r.Type != op {
			c.t.Fatalf("operation %v, want %v", r.Type, op)
		}
		return r
	}
}

func (c *fakeConn) reply(xid int32, zxid int64, code jute.ErrorCode, body jute.Record) {
	c.t.Helper()
	h := jute.ReplyHeader{Xid: xid, Zxid: zxid, Err: code}
	b, at := jute.BeginFrame(nil)
	b = h.Append(b)
	if body != nil {
		b = body.Append(b)
	}
	c.write(jute.EndFrame(b, at))
}

func (c *fakeConn) event(t jute.EventType, path string, zxid int64) {
	c.t.Helper()
	c.write(jute.AppendEvent(nil, zxid, t, path))
}

// serveClose answers closeSession and everything before it with an empty success.
func (c *fakeConn) serveClose() {
	defer func() { _ = c.Close() }()
	for {
		r, err := c.next()
		if err != nil {
			return
		}
		h := jute.AppendReply(nil, jute.ReplyHeader{Xid: r.Xid})
		if _, err := c.Write(h); err != nil || r.Type == jute.OpCloseSession {
			return
		}
	}
}

// drain reads and says nothing.
func (c *fakeConn) drain() { _, _ = io.Copy(io.Discard, c.Conn) }

// bubble runs a test with a client on fakes in a synctest bubble.
func bubble(t *testing.T, connect string, change func(*Options), test func(t *testing.T, f *fakeServers, c *Client)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		f := newFakes(t)
		o := f.options()
		if change != nil {
			change(&o)
		}
		c, err := Dial(t.Context(), connect, o)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Abandon()
		test(t, f, c)
	})
}

// result is what a call gave, for calls made in the background.
type result[T any] struct {
	v   T
	err error
}

func background[T any](f func() (T, error)) chan result[T] {
	ch := make(chan result[T], 1)
	go func() {
		v, err := f()
		ch <- result[T]{v, err}
	}()
	return ch
}

func getData(c *Client, path string) chan result[string] {
	return background(func() (string, error) {
		b, _, err := c.Get(context.Background(), path)
		return string(b), err
	})
}

// wantStates reads changes off a subscription.
func wantStates(t *testing.T, s *Subscription, want ...State) {
	t.Helper()
	for i, w := range want {
		select {
		case ch, ok := <-s.C:
			if !ok || ch.State != w {
				t.Fatalf("state %d is %v (%v, open %v), want %v", i, ch.State, ch.Err, ok, w)
			}
		case <-time.After(time.Hour):
			t.Fatalf("state %d does not come, want %v", i, w)
		}
	}
}

func wantCode(t *testing.T, err error, code Code, maybe bool) {
	t.Helper()
	if !errors.Is(err, code) || CodeOf(err) != code || MaybeApplied(err) != maybe {
		t.Fatalf("error %v (code %d, maybe applied %v), want code %d, maybe applied %v", err, CodeOf(err), MaybeApplied(err), code, maybe)
	}
}

func nodePath(i int) string { return fmt.Sprintf("/watched/%084d%08d", 0, i) }
