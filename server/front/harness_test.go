package front

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"go.uber.org/goleak"

	"github.com/zkserver/zkserver/proto/jute"
	"github.com/zkserver/zkserver/server/session"
	"github.com/zkserver/zkserver/server/session/sessiontest"
	"github.com/zkserver/zkserver/znode"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// wait is how long a test waits for what must come.
const wait = time.Minute

type fakeStatus struct{ b *sessiontest.Backend }

func (s fakeStatus) Snapshot() Snapshot {
	out := Snapshot{
		Version: "3.9.5-0123456789, built on 2026-02-11 20:18 UTC", Mode: "leader", PeerState: "leading - broadcast",
		Zxid: s.b.LastApplied(), Voters: 3,
		Leader: &LeaderStatus{Learners: 2, SyncedFollowers: 2, LastProposal: 62, MinProposal: 48, MaxProposal: 94},
	}
	s.b.Tree(func(t *znode.Tree) { out.Nodes = t.NodeCount() })
	return out
}
func (fakeStatus) Dump() Dump {
	at := func(s int) time.Time { return time.Date(2026, 11, 30, 6, 14, s, 5, time.UTC) }
	return Dump{
		Expiring: []SessionEnd{{0x11, 4000, at(56)}, {0x12, 6000, at(58)}, {0x13, 6000, at(58)}},
		Sessions: []SessionEnd{{ID: 0x11, Timeout: 4000}},
		Owners:   []SessionNodes{{0x12, []string{"/app/lock", "/app/z"}}},
	}
}
func (fakeStatus) Conf() string                   { return "clientPort=2181\nserverId=1" }
func (fakeStatus) DirSizes() (int64, int64)       { return 12, 34 }
func (fakeStatus) Digests() []Digest              { return []Digest{{Zxid: 128, Digest: 99}} }
func (fakeStatus) Metrics(line func(k, v string)) { line("fsync_threshold_exceed_count", "0") }

type server struct {
	t    testing.TB
	f    *Front
	hub  *session.Hub
	b    *sessiontest.Backend
	addr string
}

const superPassword = "super:secret"

func start(t testing.TB, change func(o *Options)) *server {
	t.Helper()
	return startHub(t, session.Options{}, change)
}

func startHub(t testing.TB, so session.Options, change func(o *Options)) *server {
	t.Helper()
	tree := znode.Options{ExtendedTypes: true, SuperDigest: znode.DigestID([]byte(superPassword))}
	so.Tree, so.Log = tree, zerolog.Nop()
	hub := session.NewHub(so)
	b := sessiontest.New(hub, tree)
	o := Options{
		Addrs: []string{"127.0.0.1:0"}, Hub: hub, Status: fakeStatus{b}, Log: zerolog.Nop(),
		MinSession: 2 * time.Second, MaxSession: 20 * time.Second,
	}
	if change != nil {
		change(&o)
	}
	f, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 3)
	for _, run := range []func(context.Context) error{f.Run, hub.Run, b.Run} {
		go func() { ended <- run(ctx) }() // ends on cancel, waited for below
	}
	t.Cleanup(func() {
		b.Resume()
		cancel()
		for range 3 {
			if err := <-ended; err != nil {
				t.Error(err)
			}
		}
	})
	return &server{t: t, f: f, hub: hub, b: b, addr: f.Addrs()[0].String()}
}

// client is a raw client.
type client struct {
	t    testing.TB
	c    net.Conn
	sid  int64
	pw   []byte
	xid  int32
	resp jute.ConnectResponse
}

func (s *server) dial() *client {
	s.t.Helper()
	c, err := net.Dial("tcp", s.addr)
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { _ = c.Close() }) // closed by most tests already
	return &client{t: s.t, c: c}
}

// dialInput connects for one input of a fuzz target. There are so many of them that the system may have no port left for
// one, which is passed over; whatever else keeps it from connecting is the server's fault.
func dialInput(t *testing.T, addr string) net.Conn {
	t.Helper()
	c, err := net.Dial("tcp", addr)
	if errors.Is(err, syscall.EADDRNOTAVAIL) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// session connects with a new session.
func (s *server) session() *client {
	s.t.Helper()
	c := s.dial()
	c.attach(jute.ConnectRequest{TimeOut: 10000, Passwd: make([]byte, 16), HasReadOnly: true})
	if c.sid == 0 {
		s.t.Fatal("no session")
	}
	return c
}

func (c *client) attach(r jute.ConnectRequest) {
	c.t.Helper()
	c.send(r.Append(nil))
	d := jute.NewDecoder(c.frame())
	c.resp.Decode(d)
	if d.Err() != nil {
		c.t.Fatal(d.Err())
	}
	c.sid, c.pw = c.resp.SessionID, c.resp.Passwd
}

func frameOf(payload []byte) []byte {
	return append(binary.BigEndian.AppendUint32(nil, uint32(len(payload))), payload...)
}

func (c *client) raw(b []byte) {
	c.t.Helper()
	if _, err := c.c.Write(b); err != nil {
		c.t.Fatal(err)
	}
}

func (c *client) send(payload []byte) { c.t.Helper(); c.raw(frameOf(payload)) }

func request(xid int32, op jute.OpCode, body jute.Record) []byte {
	h := jute.RequestHeader{Xid: xid, Type: op}
	b := h.Append(nil)
	if body != nil {
		b = body.Append(b)
	}
	return b
}

// req sends a request with the next xid.
func (c *client) req(op jute.OpCode, body jute.Record) int32 {
	c.t.Helper()
	c.xid++
	c.send(request(c.xid, op, body))
	return c.xid
}

func (c *client) frame() []byte {
	c.t.Helper()
	_ = c.c.SetReadDeadline(time.Now().Add(wait))
	var head [4]byte
	if _, err := io.ReadFull(c.c, head[:]); err != nil {
		c.t.Fatalf("no frame: %v", err)
	}
	b := make([]byte, binary.BigEndian.Uint32(head[:]))
	if _, err := io.ReadFull(c.c, b); err != nil {
		c.t.Fatalf("half a frame: %v", err)
	}
	return b
}

// reply is a decoded reply header with its body.
type reply struct {
	jute.ReplyHeader
	body []byte
}

func (c *client) reply() reply {
	c.t.Helper()
	d := jute.NewDecoder(c.frame())
	var r reply
	r.ReplyHeader.Decode(d)
	if d.Err() != nil {
		c.t.Fatal(d.Err())
	}
	r.body = d.Rest()
	return r
}

// want reads a reply and checks xid and error.
func (c *client) want(xid int32, code jute.ErrorCode) reply {
	c.t.Helper()
	r := c.reply()
	if r.Xid != xid || r.Err != code {
		c.t.Fatalf("reply xid %d err %v, want xid %d err %v", r.Xid, r.Err, xid, code)
	}
	return r
}

func (c *client) call(op jute.OpCode, body jute.Record) reply {
	c.t.Helper()
	return c.want(c.req(op, body), 0)
}

func (c *client) ping() {
	c.t.Helper()
	c.req(jute.OpPing, nil)
	c.want(jute.XidPing, 0)
}

func (c *client) event() jute.WatcherEvent {
	c.t.Helper()
	r := c.want(jute.XidEvent, 0)
	var e jute.WatcherEvent
	d := jute.NewDecoder(r.body)
	e.Decode(d)
	if d.Err() != nil {
		c.t.Fatal(d.Err())
	}
	return e
}

// silent checks that nothing comes for a moment.
func (c *client) silent() {
	c.t.Helper()
	_ = c.c.SetReadDeadline(time.Now().Add(50 * time.Millisecond))
	var b [1]byte
	n, err := c.c.Read(b[:])
	if n != 0 || !errors.Is(err, os.ErrDeadlineExceeded) {
		c.t.Fatalf("read %d bytes, %v; want silence", n, err)
	}
}

// closed checks that the server closes without another byte.
func (c *client) closed() {
	c.t.Helper()
	if b := c.rest(); len(b) != 0 {
		c.t.Fatalf("%d bytes before the close: %x", len(b), b)
	}
}

// rest reads to the end.
func (c *client) rest() []byte {
	c.t.Helper()
	_ = c.c.SetReadDeadline(time.Now().Add(wait))
	b, err := io.ReadAll(c.c)
	if err != nil && !errors.Is(err, syscall.ECONNRESET) {
		c.t.Fatalf("not closed: %v", err)
	}
	return b
}

var openACL = []jute.ACL{{Perms: 31, Scheme: jute.Str("world"), ID: jute.Str("anyone")}}

func create(path, data string, flags int32) *jute.CreateRequest {
	return &jute.CreateRequest{Path: jute.Str(path), Data: []byte(data), ACL: openACL, Flags: flags}
}

func set(path, data string) *jute.SetDataRequest {
	return &jute.SetDataRequest{Path: jute.Str(path), Data: []byte(data), Version: -1}
}

func get(path string, watch bool) *jute.GetDataRequest {
	return &jute.GetDataRequest{Path: jute.Str(path), Watch: watch}
}

func del(path string) *jute.DeleteRequest {
	return &jute.DeleteRequest{Path: jute.Str(path), Version: -1}
}

func dataOf(t testing.TB, r reply) string {
	t.Helper()
	var g jute.GetDataResponse
	d := jute.NewDecoder(r.body)
	g.Decode(d)
	if d.Err() != nil {
		t.Fatal(d.Err())
	}
	return string(g.Data)
}

// until polls a condition of another goroutine.
func until(t testing.TB, what string, cond func() bool) {
	t.Helper()
	deadline := time.Now().Add(wait)
	for !cond() {
		if time.Now().After(deadline) {
			t.Fatal("waited in vain for " + what)
		}
		<-time.After(time.Millisecond)
	}
}
