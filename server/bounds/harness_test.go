package bounds

import (
	"encoding/binary"
	"io"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/zkserver/zkserver/proto/jute"
	"github.com/zkserver/zkserver/server"
	"github.com/zkserver/zkserver/server/config"
)

func TestMain(m *testing.M) {
	if os.Getenv(crowdVariable) != "" {
		crowdMain()
		return
	}
	goleak.VerifyTestMain(m)
}

// wait is how long a test waits for what must come.
const wait = 60 * time.Second

// full says that tests are to run in their full size.
func full() bool { return os.Getenv("ZKSERVER_FULL") != "" }

// size is a test's full size if that is asked for, else a small one.
func size(small, whole int) int {
	if full() {
		return whole
	}
	return small
}

// start runs a server of its own, with further lines of configuration, and returns its address once it serves.
func start(t testing.TB, lines string) string {
	t.Helper()
	dir := t.TempDir()
	file := filepath.Join(dir, "zoo.cfg")
	cfg := "tickTime=2000\ndataDir=" + filepath.Join(dir, "data") + "\nclientPort=2181\nmaxClientCnxns=0\n" + lines
	if err := os.WriteFile(file, []byte(cfg), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(dir, "data"), 0o700); err != nil {
		t.Fatal(err)
	}
	c, err := config.Load(file, config.Flags{})
	if err != nil {
		t.Fatal(err)
	}
	c.ClientAddr = "127.0.0.1:0"
	s, err := server.New(c, server.Options{})
	if err != nil {
		t.Fatal(err)
	}
	s.Start()
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	addr := s.ClientAddrs()[0].String()
	until(t, "the server to serve", func() bool { return serves(addr) })
	return addr
}

// serves says whether a server answers that it does.
func serves(addr string) bool {
	c, err := net.Dial("tcp", addr)
	if err != nil {
		return false
	}
	defer func() { _ = c.Close() }() // it is of no more use
	_, err = io.WriteString(c, "srvr")
	answer, _ := io.ReadAll(c)
	return err == nil && strings.Contains(string(answer), "Mode: standalone")
}

// used is the memory in use, heap and stacks, in bytes.
func used() int64 {
	for range 4 { // pools keep what they hold for one collection, stacks shrink by half at each
		runtime.GC()
	}
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc + m.StackInuse)
}

// client is a client on the raw wire.
type client struct {
	t   testing.TB
	c   net.Conn
	sid int64
	xid int32
	out []byte
	in  []byte
}

// dial connects with a new session of this timeout.
func dial(t testing.TB, addr string, timeout time.Duration) *client {
	t.Helper()
	c, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() }) // most tests have done so
	k := &client{t: t, c: c}
	req := jute.ConnectRequest{TimeOut: int32(timeout.Milliseconds()), Passwd: make([]byte, 16), HasReadOnly: true}
	k.raw(frameOf(nil, req.Append(nil)))
	var resp jute.ConnectResponse
	d := jute.NewDecoder(k.frame())
	if resp.Decode(d); d.Err() != nil || resp.SessionID == 0 {
		t.Fatalf("no session: %+v, %v", resp, d.Err())
	}
	k.sid = resp.SessionID
	return k
}

func frameOf(dst, payload []byte) []byte {
	return append(binary.BigEndian.AppendUint32(dst, uint32(len(payload))), payload...)
}

func (k *client) raw(b []byte) {
	k.t.Helper()
	if _, err := k.c.Write(b); err != nil {
		k.t.Fatal(err)
	}
}

// add appends a request to what the next flush sends.
func (k *client) add(op jute.OpCode, body jute.Record) int32 {
	k.xid++
	dst, at := jute.BeginFrame(k.out)
	h := jute.RequestHeader{Xid: k.xid, Type: op}
	if op == jute.OpPing {
		h.Xid = jute.XidPing
	}
	dst = h.Append(dst)
	if body != nil {
		dst = body.Append(dst)
	}
	k.out = jute.EndFrame(dst, at)
	return h.Xid
}

func (k *client) flush() {
	k.t.Helper()
	k.raw(k.out)
	k.out = k.out[:0]
}

// frame reads a frame, valid until the next one.
func (k *client) frame() []byte {
	k.t.Helper()
	_ = k.c.SetReadDeadline(time.Now().Add(wait))
	var head [4]byte
	if _, err := io.ReadFull(k.c, head[:]); err != nil {
		k.t.Fatalf("no frame: %v", err)
	}
	n := int(binary.BigEndian.Uint32(head[:]))
	if cap(k.in) < n {
		k.in = make([]byte, n)
	}
	if _, err := io.ReadFull(k.c, k.in[:n]); err != nil {
		k.t.Fatalf("half a frame: %v", err)
	}
	return k.in[:n]
}

// reply reads a reply and returns its header and body.
func (k *client) reply() (jute.ReplyHeader, []byte) {
	k.t.Helper()
	d := jute.NewDecoder(k.frame())
	var h jute.ReplyHeader
	if h.Decode(d); d.Err() != nil {
		k.t.Fatal(d.Err())
	}
	return h, d.Rest()
}

// want reads the reply to a request that must have gone well.
func (k *client) want(xid int32) []byte {
	k.t.Helper()
	h, body := k.reply()
	if h.Xid != xid || h.Err != 0 {
		k.t.Fatalf("reply to %d: %v, want one to %d", h.Xid, h.Err, xid)
	}
	return body
}

func (k *client) call(op jute.OpCode, body jute.Record) []byte {
	k.t.Helper()
	xid := k.add(op, body)
	k.flush()
	return k.want(xid)
}

// each sends n requests, many at a time, and checks that all go well.
func (k *client) each(n int, add func(i int)) {
	k.t.Helper()
	const window = 256
	for from := 0; from < n; from += window {
		first := k.xid + 1
		to := min(n, from+window)
		for i := from; i < to; i++ {
			add(i)
		}
		k.flush()
		for xid := first; xid <= k.xid; xid++ {
			k.want(xid)
		}
	}
}

var openACL = []jute.ACL{{Perms: 31, Scheme: jute.Str("world"), ID: jute.Str("anyone")}}

func create(path string, flags int32) *jute.CreateRequest {
	return &jute.CreateRequest{Path: jute.Str(path), Data: []byte{}, ACL: openACL, Flags: flags}
}

func get(path string, watch bool) *jute.GetDataRequest {
	return &jute.GetDataRequest{Path: jute.Str(path), Watch: watch}
}

func path(p string) jute.Record { return &jute.PathRequest{Path: jute.Str(p)} }

func set(path string, data []byte) *jute.SetDataRequest {
	return &jute.SetDataRequest{Path: jute.Str(path), Data: data, Version: -1}
}

// until polls a condition of another goroutine.
func until(t testing.TB, what string, cond func() bool) {
	t.Helper()
	for deadline := time.Now().Add(wait); !cond(); <-time.After(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("waited in vain for " + what)
		}
	}
}
