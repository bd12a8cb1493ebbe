package replica

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/rs/zerolog"

	"github.com/zkserver/zkserver/election"
	"github.com/zkserver/zkserver/server/session"
	"github.com/zkserver/zkserver/server/store"
	"github.com/zkserver/zkserver/zab"
	"github.com/zkserver/zkserver/znode"
)

// wait is how long a test waits for what must happen.
const wait = time.Minute

// lineWire encodes replies and events as lines of JSON.
type lineWire struct{}

type line struct {
	Xid   int32
	Zxid  int64
	Err   znode.Code
	Path  string
	Data  string
	Names []string
	Stat  znode.Stat
	Event znode.EventType
	Multi []znode.OpResult
}

func (lineWire) Slot() int { return 0 }

func (lineWire) AppendReply(dst []byte, r *session.Reply) []byte {
	b, _ := json.Marshal(line{
		Xid: r.Xid, Zxid: r.Zxid, Err: r.Err, Path: r.Path, Data: string(r.Data), Names: slices.Collect(r.Names.All()), Stat: r.Stat,
		Multi: r.Multi,
	})
	return append(append(dst, b...), '\n')
}

func (lineWire) AppendEvent(dst []byte, zxid int64, t znode.EventType, path string) []byte {
	b, _ := json.Marshal(line{Xid: -1, Zxid: zxid, Event: t, Path: path})
	return append(append(dst, b...), '\n')
}

// lineSink keeps what was written to a connection, as lines.
type lineSink struct {
	mu     sync.Mutex
	cond   sync.Cond
	buf    []byte
	lines  []line
	closed bool
}

func newSink() *lineSink {
	s := &lineSink{}
	s.cond.L = &s.mu
	return s
}

func (s *lineSink) TryWrite(b []byte) (int, error) { return s.Write(b) }

func (s *lineSink) Write(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.buf = append(s.buf, b...)
	for {
		n := 0
		for n < len(s.buf) && s.buf[n] != '\n' {
			n++
		}
		if n == len(s.buf) {
			break
		}
		var l line
		if err := json.Unmarshal(s.buf[:n], &l); err != nil {
			return 0, err
		}
		s.lines = append(s.lines, l)
		s.buf = s.buf[n+1:]
	}
	s.cond.Broadcast()
	return len(b), nil
}

func (s *lineSink) Close() error {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.cond.Broadcast()
	return nil
}

// next takes the next line; ok is false when the connection was closed before one came.
func (s *lineSink) next(t testing.TB) (line, bool) {
	t.Helper()
	timer := time.AfterFunc(wait, s.cond.Broadcast)
	defer timer.Stop()
	end := time.Now().Add(wait)
	s.mu.Lock()
	defer s.mu.Unlock()
	for len(s.lines) == 0 && !s.closed && time.Now().Before(end) {
		s.cond.Wait()
	}
	if len(s.lines) == 0 {
		if !s.closed {
			t.Fatal("no answer in time")
		}
		return line{}, false
	}
	l := s.lines[0]
	s.lines = s.lines[1:]
	return l, true
}

// node is one replica with its hub, as the server assembles them.
type node struct {
	t      testing.TB
	id     zab.ServerID
	fs     vfs.FS
	r      *Replica
	hub    *session.Hub
	cancel context.CancelFunc
	done   chan error
	hubEnd chan struct{}
	stop   context.CancelFunc
}

func members(n int) []zab.Member {
	var out []zab.Member
	for i := range n {
		out = append(out, zab.Member{ID: zab.ServerID(i + 1), Weight: 1})
	}
	return out
}

func testOptions(id zab.ServerID, n int, fs vfs.FS, hub *session.Hub) Options {
	return Options{
		Self: id, Members: members(n), Hub: hub, Log: testLog(),
		Store: store.Options{DataDir: "data", FS: fs, LowWater: 1},
		Zab: zab.Options{
			InitLimit: 10 * time.Second, SyncLimit: 5 * time.Second,
			SilenceLimit: 4 * time.Second, // links break at once here; nobody is to be given up because the machine is busy
			Heartbeat:    50 * time.Millisecond, Lease: 600 * time.Millisecond,
		},
		Election:          election.Options{},
		MinSessionTimeout: 4 * time.Second,
	}
}

func testLog() zerolog.Logger { return zerolog.Nop() }

// open opens a replica and its hub.
func open(t testing.TB, id zab.ServerID, n int, fs vfs.FS, change ...func(*Options)) *node {
	t.Helper()
	hub := session.NewHub(session.Options{Log: testLog()})
	o := testOptions(id, n, fs, hub)
	for _, f := range change {
		f(&o)
	}
	r, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	hub.Bind(r)
	return &node{t: t, id: id, fs: fs, r: r, hub: hub, done: make(chan error, 1), hubEnd: make(chan struct{})}
}

// run runs them in the background.
func (x *node) run() {
	ctx, cancel := context.WithCancel(context.Background())
	hubCtx, stop := context.WithCancel(context.Background())
	x.cancel, x.stop = cancel, stop
	go func() { // ends with stop
		defer close(x.hubEnd)
		if err := x.hub.Run(hubCtx); err != nil {
			x.t.Error(err)
		}
	}()
	go func() { x.done <- x.r.Run(ctx) }() // ends with cancel
}

// start opens and runs a replica. net may be nil for an ensemble of one.
func start(t testing.TB, id zab.ServerID, n int, fs vfs.FS, net *network, change ...func(*Options)) *node {
	t.Helper()
	x := open(t, id, n, fs, change...)
	if net != nil {
		x.r.Bind(net.join(x))
	}
	x.run()
	if net != nil {
		net.up(x)
	}
	return x
}

// end stops the replica and waits for it.
func (x *node) end() error {
	x.cancel()
	var err error
	select {
	case err = <-x.done:
	case <-time.After(wait):
		x.t.Fatal("Run does not end")
	}
	x.stop()
	select {
	case <-x.hubEnd:
	case <-time.After(wait):
		x.t.Fatal("the hub does not end")
	}
	return err
}

// until waits for a condition of the status.
func (x *node) until(what string, f func(Status) bool) {
	x.t.Helper()
	end := time.Now().Add(wait)
	for !f(x.r.Status()) {
		if time.Now().After(end) {
			x.t.Fatalf("server %d: %s: not in time: %+v", x.id, what, x.r.Status())
		}
		<-time.After(2 * time.Millisecond)
	}
}

func (x *node) serving() {
	x.t.Helper()
	x.until("serving", func(s Status) bool { return s.Serving && x.r.LeaseUntil() > x.r.Now() })
}

// client is one connection with a session.
type client struct {
	t    testing.TB
	x    *node
	c    *session.Conn
	sink *lineSink
	res  session.AttachResult
	xid  int32
}

// connect opens a connection and attaches; a zero session makes a new one.
func (x *node) connect(a session.Attach) *client {
	x.t.Helper()
	k := &client{t: x.t, x: x, sink: newSink()}
	k.c = x.hub.Open(lineWire{}, k.sink, "127.0.0.1", "test")
	ctx, cancel := context.WithTimeout(context.Background(), wait)
	defer cancel()
	if a.Timeout == 0 {
		a.Timeout = 10000
	}
	res, err := k.c.Attach(ctx, a)
	if err != nil {
		x.t.Fatalf("attach at server %d: %v", x.id, err)
	}
	k.res = res
	return k
}

func (k *client) release() {
	k.c.Close(session.ReasonClient)
	k.c.Release()
}

// send submits one request without waiting for its answer.
func (k *client) send(r session.Request) error {
	k.xid++
	r.Xid = k.xid
	if err := k.c.Heard(context.Background()); err != nil {
		return err
	}
	return k.c.Do([]session.Request{r})
}

// call sends one request and returns its answer; events before it are skipped.
func (k *client) call(r session.Request) (line, error) {
	k.t.Helper()
	if err := k.send(r); err != nil && !errors.Is(err, session.ErrEnded) {
		return line{}, err
	}
	for {
		l, ok := k.sink.next(k.t)
		if !ok {
			return line{}, session.ErrEnded
		}
		if l.Xid == -1 {
			continue
		}
		if l.Xid != k.xid {
			return line{}, fmt.Errorf("answer to %d, want %d", l.Xid, k.xid)
		}
		return l, nil
	}
}

func (k *client) must(r session.Request) line {
	k.t.Helper()
	l, err := k.call(r)
	if err != nil {
		k.t.Fatalf("server %d, op %d: %v", k.x.id, r.Op, err)
	}
	return l
}

var openACL = []znode.ACL{{Perms: znode.PermAll, Scheme: "world", ID: "anyone"}}

func createReq(path, data string, flags int32) session.Request {
	return session.Request{Op: znode.OpCreate, Path: path, Write: &znode.Request{
		Path: path, Data: []byte(data), ACL: openACL, Flags: flags, TTL: -1,
	}}
}

func setReq(path, data string) session.Request {
	return session.Request{Op: znode.OpSetData, Path: path, Write: &znode.Request{Path: path, Data: []byte(data), Version: -1, TTL: -1}}
}

func getReq(path string) session.Request { return session.Request{Op: znode.OpGetData, Path: path} }

func syncReq() session.Request {
	return session.Request{Op: znode.OpSync, Path: "/", Write: &znode.Request{Path: "/"}}
}

func closeReq() session.Request {
	return session.Request{Op: znode.OpCloseSession, Write: &znode.Request{}}
}
