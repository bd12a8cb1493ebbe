package session_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"go.uber.org/goleak"

	"github.com/zkserver/zkserver/server/session"
	"github.com/zkserver/zkserver/server/session/sessiontest"
	"github.com/zkserver/zkserver/znode"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// lineWire writes a line a frame and counts what it encodes.
type lineWire struct {
	slot   int
	events atomic.Int64
}

func (w *lineWire) Slot() int { return w.slot }

func (w *lineWire) AppendReply(dst []byte, r *session.Reply) []byte {
	return fmt.Appendf(dst, "%d:%d:%s\n", r.Xid, r.Err, r.Data)
}

func (w *lineWire) AppendEvent(dst []byte, zxid int64, t znode.EventType, path string) []byte {
	w.events.Add(1)
	return fmt.Appendf(dst, "event %d %d %s\n", zxid, t, path)
}

// memSink is a client in memory. take is how many bytes TryWrite takes at a time.
type memSink struct {
	mu     sync.Mutex
	text   strings.Builder
	take   int
	fail   bool
	block  chan struct{} // Write waits for it, if it is not nil
	closed chan struct{}
	once   sync.Once
}

func newSink(take int) *memSink { return &memSink{take: take, closed: make(chan struct{})} }

func (s *memSink) TryWrite(b []byte) (int, error) { return s.add(b[:min(len(b), s.take)]) }

func (s *memSink) Write(b []byte) (int, error) {
	if s.block != nil {
		select {
		case <-s.block:
		case <-s.closed:
			return 0, errors.New("closed")
		}
	}
	return s.add(b)
}

func (s *memSink) add(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.fail {
		return 0, errors.New("broken pipe")
	}
	return s.text.Write(b)
}

func (s *memSink) Close() error {
	s.once.Do(func() { close(s.closed) })
	return nil
}

func (s *memSink) lines() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return strings.Split(strings.TrimSuffix(s.text.String(), "\n"), "\n")
}

type rig struct {
	t   testing.TB
	hub *session.Hub
	b   *sessiontest.Backend
}

func start(t testing.TB, o session.Options) *rig {
	t.Helper()
	o.Log = zerolog.Nop()
	hub := session.NewHub(o)
	b := sessiontest.New(hub, o.Tree)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 2)
	go func() { ended <- hub.Run(ctx) }() // ends on cancel
	go func() { ended <- b.Run(ctx) }()   // ends on cancel
	t.Cleanup(func() {
		cancel()
		for range 2 {
			if err := <-ended; err != nil {
				t.Error(err)
			}
		}
	})
	return &rig{t: t, hub: hub, b: b}
}

func (r *rig) open(w session.Wire, s session.Sink, a session.Attach) *session.Conn {
	r.t.Helper()
	c := r.hub.Open(w, s, "127.0.0.1", "test")
	r.t.Cleanup(c.Release)
	if a.Timeout == 0 {
		a.Timeout = 10000
	}
	res, err := c.Attach(r.t.Context(), a)
	if err != nil || !res.OK {
		r.t.Fatalf("attach: %+v, %v", res, err)
	}
	return c
}

func until(t testing.TB, what string, cond func() bool) {
	t.Helper()
	deadline := time.Now().Add(time.Minute)
	for !cond() {
		if time.Now().After(deadline) {
			t.Fatal("waited in vain for " + what)
		}
		<-time.After(time.Millisecond)
	}
}

func ended(c *session.Conn) bool {
	select {
	case <-c.Done():
		return true
	case <-time.After(time.Minute):
		return false
	}
}

var open = []znode.ACL{{Perms: znode.PermAll, Scheme: "world", ID: "anyone"}}

func createReq(xid int32, path string, acl []znode.ACL) session.Request {
	return session.Request{Op: znode.OpCreate, Xid: xid, Write: &znode.Request{Path: path, ACL: acl, TTL: -1}}
}

func setReq(xid int32, path, data string) session.Request {
	return session.Request{Op: znode.OpSetData, Xid: xid, Write: &znode.Request{Path: path, Data: []byte(data), Version: -1, TTL: -1}}
}

func getReq(xid int32, path string, watch bool) session.Request {
	return session.Request{Op: znode.OpGetData, Xid: xid, Path: path, Watch: watch}
}

// do runs requests and waits until the sink has n lines.
func (r *rig) do(c *session.Conn, s *memSink, n int, rs ...session.Request) []string {
	r.t.Helper()
	if err := c.Do(rs); err != nil {
		r.t.Fatal(err)
	}
	until(r.t, fmt.Sprintf("%d lines", n), func() bool { return len(s.lines()) >= n && s.lines()[0] != "" })
	return s.lines()
}

// An event is encoded once for each wire, however many watch it.
func TestOneEncodeAnEvent(t *testing.T) {
	r := start(t, session.Options{})
	wires := []*lineWire{{slot: 0}, {slot: 1}}
	first := newSink(1 << 20)
	c := r.open(wires[0], first, session.Attach{})
	r.do(c, first, 1, createReq(1, "/a", open))
	var sinks []*memSink
	for i := range 100 {
		s := newSink(1 << 20)
		w := r.open(wires[i%2], s, session.Attach{})
		r.do(w, s, 1, getReq(1, "/a", true))
		sinks = append(sinks, s)
	}
	r.do(c, first, 2, setReq(2, "/a", "x"))
	for _, s := range sinks {
		until(t, "the event", func() bool { return len(s.lines()) == 2 })
		if got := s.lines()[1]; !strings.HasPrefix(got, "event ") || !strings.HasSuffix(got, " 3 /a") {
			t.Fatalf("event %q", got)
		}
	}
	for i, w := range wires {
		if n := w.events.Load(); n != 1 {
			t.Errorf("wire %d encoded %d events", i, n)
		}
	}
}

// Who may not read a node is not told of it, and its watch is spent all the same.
func TestEventsAreFilteredByRead(t *testing.T) {
	r := start(t, session.Options{})
	wire := &lineWire{}
	s1, s2 := newSink(1<<20), newSink(1<<20)
	owner, other := r.open(wire, s1, session.Attach{}), r.open(wire, s2, session.Attach{})
	if code := owner.Authenticate("digest", []byte("bob:pw")); code != znode.OK {
		t.Fatal(code)
	}
	mine := []znode.ACL{{Perms: znode.PermAll, Scheme: "digest", ID: znode.DigestID([]byte("bob:pw"))}}
	exists := session.Request{Op: znode.OpExists, Xid: 1, Path: "/mine", Watch: true}
	r.do(owner, s1, 1, exists)
	r.do(other, s2, 1, exists)
	got := r.do(owner, s1, 3, createReq(2, "/mine", mine))
	if !strings.HasPrefix(got[1], "event ") || got[2] != "2:0:" {
		t.Fatalf("the owner got %q", got)
	}
	got = r.do(other, s2, 2, session.Request{Op: znode.OpPing, Xid: 3})
	if got[1] != "3:0:" {
		t.Fatalf("the other got %q", got)
	}
	if w := r.hub.Watches(); w.Watches != 0 {
		t.Fatalf("%d watches left", w.Watches)
	}
}

func TestEvict(t *testing.T) {
	r := start(t, session.Options{})
	wire := &lineWire{}
	c := r.open(wire, newSink(1<<20), session.Attach{})
	ticket := c.Ticket()
	r.hub.Evict(c.Session(), ticket)
	if c.Ended() {
		t.Fatal("evicted by its own ticket")
	}
	r.hub.Evict(c.Session(), znode.Ticket{Epoch: ticket.Epoch, Number: ticket.Number + 1})
	if !ended(c) || c.Reason() != session.ReasonEvicted {
		t.Fatalf("reason %q", c.Reason())
	}
	c.Release()

	a, b := r.open(wire, newSink(1<<20), session.Attach{}), r.open(wire, newSink(1<<20), session.Attach{})
	n := 0
	r.hub.Each(func(*session.Conn) bool { n++; return true })
	if n != 2 {
		t.Fatalf("%d connections", n)
	}
	r.hub.CloseConn(a.Number(), session.ReasonUnknownFate)
	r.hub.CloseAll(session.ReasonSnapshot)
	if a.Reason() != session.ReasonUnknownFate || b.Reason() != session.ReasonSnapshot {
		t.Fatalf("reasons %q, %q", a.Reason(), b.Reason())
	}
}

// A later attach of the same session takes it over; an answer that is older than the present owner does not.
func TestTheLaterTicketOwnsTheSession(t *testing.T) {
	r := start(t, session.Options{})
	wire := &lineWire{}
	c := r.open(wire, newSink(1<<20), session.Attach{})
	late := r.hub.Open(wire, newSink(1<<20), "127.0.0.1", "late")
	defer late.Release()
	r.hub.Attached(late.Number(), session.AttachResult{OK: true, Session: c.Session(), Timeout: 10000})
	if c.Ended() || !late.Ended() {
		t.Fatal("an older ticket took the session over")
	}
	next := r.hub.Open(wire, newSink(1<<20), "127.0.0.1", "next")
	defer next.Release()
	r.hub.Attached(next.Number(), session.AttachResult{
		OK: true, Session: c.Session(), Timeout: 10000, Ticket: znode.Ticket{Epoch: 9},
	})
	if !c.Ended() || next.Ended() || next.Session() != c.Session() {
		t.Fatal("a later ticket did not take the session over")
	}
}

// Sinks that take little or nothing at a time get everything, in order.
func TestPartialWrites(t *testing.T) {
	for _, take := range []int{0, 1, 7} {
		r := start(t, session.Options{})
		s := newSink(take)
		c := r.open(&lineWire{}, s, session.Attach{})
		r.do(c, s, 1, createReq(0, "/a", open))
		var want []string
		for i := range int32(50) {
			if err := c.Do([]session.Request{setReq(2*i+1, "/a", fmt.Sprint(i)), getReq(2*i+2, "/a", false)}); err != nil {
				t.Fatal(err)
			}
			want = append(want, fmt.Sprintf("%d:0:", 2*i+1), fmt.Sprintf("%d:0:%d", 2*i+2, i))
		}
		until(t, "all lines", func() bool { return len(s.lines()) == 101 })
		if got := s.lines()[1:]; !slices.Equal(got, want) {
			t.Fatalf("take %d: %q", take, got)
		}
	}
}

func TestBrokenSink(t *testing.T) {
	r := start(t, session.Options{})
	s := newSink(1 << 20)
	c := r.open(&lineWire{}, s, session.Attach{})
	s.fail = true
	if err := c.Do([]session.Request{{Op: znode.OpPing}}); err != nil && !errors.Is(err, session.ErrEnded) {
		t.Fatal(err)
	}
	if !ended(c) || c.Reason() != session.ReasonWrite {
		t.Fatalf("reason %q", c.Reason())
	}
}

// A connection that ends with its last words unread is cut off in the end, and one that reads hears them.
func TestCloseAfterFlush(t *testing.T) {
	r := start(t, session.Options{})
	s := newSink(3)
	c := r.open(&lineWire{}, s, session.Attach{})
	c.Answer(&session.Reply{Op: znode.OpAuth, Xid: -4, Err: znode.AuthFailed})
	c.CloseAfterFlush(session.ReasonAuth)
	if !ended(c) || c.Reason() != session.ReasonAuth {
		t.Fatalf("reason %q", c.Reason())
	}
	if got := s.lines(); !slices.Equal(got, []string{"-4:-115:"}) {
		t.Fatalf("heard %q", got)
	}
	deaf := newSink(0)
	deaf.block = make(chan struct{})
	c = r.open(&lineWire{}, deaf, session.Attach{})
	c.Answer(&session.Reply{Op: znode.OpAuth, Xid: -4, Err: znode.AuthFailed})
	c.CloseAfterFlush(session.ReasonAuth)
	if c.Ended() {
		t.Fatal("ended before its words were out")
	}
	c.Release() // as the front does when the client has gone: the write that waits ends
}

// A completion that nothing waits for ends the connection: order would be lost.
func TestCompletionOutOfOrder(t *testing.T) {
	r := start(t, session.Options{})
	s := newSink(1 << 20)
	c := r.open(&lineWire{}, s, session.Attach{})
	r.b.Call(func(tree *znode.Tree) { r.hub.CompleteEmpty(tree, c.Number(), 12345) })
	if !ended(c) || c.Reason() != session.ReasonOrder {
		t.Fatalf("reason %q", c.Reason())
	}
}

// Above the bound of the whole server, only connections that have something outstanding wait, and they go on.
func TestGlobalOutstanding(t *testing.T) {
	r := start(t, session.Options{GlobalOutstanding: 4})
	wire := &lineWire{}
	setup := newSink(1 << 20)
	c := r.open(wire, setup, session.Attach{})
	r.do(c, setup, 1, createReq(1, "/a", open))
	free, busy := newSink(1<<20), newSink(1<<20)
	f, b := r.open(wire, free, session.Attach{}), r.open(wire, busy, session.Attach{})
	r.b.Hold()
	done := make(chan error, 1)
	go func() { // ends when its requests are answered
		var err error
		for i := int32(1); i <= 20 && err == nil; i++ {
			err = b.Do([]session.Request{setReq(i, "/a", "x")})
		}
		done <- err
	}()
	until(t, "the bound", func() bool { return r.b.Queued() == 5 })
	select {
	case err := <-done:
		t.Fatalf("it did not wait: %v", err)
	case <-time.After(20 * time.Millisecond):
	}
	r.do(f, free, 1, getReq(1, "/a", false)) // nothing outstanding: it is served
	r.b.Resume()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	until(t, "all replies", func() bool { return len(busy.lines()) == 20 })
	if n := r.hub.Stats().Outstanding; n != 0 {
		t.Fatalf("%d outstanding", n)
	}
}

// The bound of one connection.
func TestConnectionOutstanding(t *testing.T) {
	r := start(t, session.Options{})
	s := newSink(1 << 20)
	c := r.open(&lineWire{}, s, session.Attach{})
	r.do(c, s, 1, createReq(1, "/a", open))
	r.b.Hold()
	done := make(chan error, 1)
	go func() { // ends when its requests are taken
		rs := make([]session.Request, 5000)
		for i := range rs {
			if i%2 == 0 {
				rs[i] = setReq(int32(i), "/a", "x")
			} else {
				rs[i] = getReq(int32(i), "/a", false)
			}
		}
		done <- c.Do(rs)
	}()
	until(t, "the bound", func() bool { return r.b.Queued() == 512 })
	select {
	case err := <-done:
		t.Fatalf("it did not wait: %v", err)
	case <-time.After(20 * time.Millisecond):
	}
	r.b.Resume()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	until(t, "all replies", func() bool { return len(s.lines()) == 5001 })
	for i, line := range s.lines()[1:] {
		if want := fmt.Sprintf("%d:0:", i); !strings.HasPrefix(line, want) {
			t.Fatalf("line %d is %q", i, line)
		}
	}
}

// A session that was heard of is reported once until it is heard of again.
func TestTouched(t *testing.T) {
	r := start(t, session.Options{})
	c := r.open(&lineWire{}, newSink(1<<20), session.Attach{Timeout: 7000})
	count := func() (n int) {
		r.hub.Touched(func(id int64, ms int32) {
			if id != c.Session() || ms != 7000 {
				t.Errorf("touched %#x, %d ms", id, ms)
			}
			n++
		})
		return n
	}
	for round := range 3 {
		for range 5 {
			if err := c.Heard(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		if n := count(); n != 1 {
			t.Fatalf("round %d: reported %d times", round, n)
		}
	}
	if n := count(); n != 0 {
		t.Fatalf("reported %d times without a sign of life", n)
	}
}

// The answer to an attach may wait for the tree. The leader counts the session's timeout from the question, so it may have
// ended the session when the client next says something: it must confirm it before that is answered (I10).
func TestSilenceCountsFromTheAttach(t *testing.T) {
	r := start(t, session.Options{})
	open := func() *session.Conn {
		c := r.hub.Open(&lineWire{}, newSink(1<<20), "127.0.0.1", "test")
		t.Cleanup(c.Release)
		return c
	}
	first, err := open().Attach(t.Context(), session.Attach{Timeout: 7000})
	if err != nil {
		t.Fatal(err)
	}
	c := open()
	r.b.Hold()
	c.Ask(session.Attach{Session: first.Session, Password: first.Password[:], Timeout: 7000})
	r.b.Advance(6 * time.Second)
	r.b.Resume()
	until(t, "the answer", func() bool { return !c.Asked() })
	if res, ok := c.Answered(); !ok || !res.OK {
		t.Fatalf("answered %v: %+v", ok, res)
	}
	r.b.Advance(time.Second)
	if _, silent := c.Hear(); !silent {
		t.Error("the session would be taken to live")
	}
	if _, silent := c.Hear(); silent {
		t.Error("silent, though just heard")
	}
}

// An answer that has waited here for as long as the session lives is not told to the client, nor is anything behind it,
// before the leader has said once more that the session lives: to a connect as after a silence (I10).
func TestAnswersThatWaitedTooLong(t *testing.T) {
	const timeout = 7 * time.Second
	r := start(t, session.Options{})
	attach := func() (*session.Conn, func() error) {
		first := r.hub.Open(&lineWire{}, newSink(1<<20), "127.0.0.1", "test")
		t.Cleanup(first.Release)
		res, err := first.Attach(t.Context(), session.Attach{Timeout: 7000})
		if err != nil {
			t.Fatal(err)
		}
		c := r.hub.Open(&lineWire{}, newSink(1<<20), "127.0.0.1", "test")
		t.Cleanup(c.Release)
		return first, func() error {
			again, err := c.Attach(t.Context(), session.Attach{Session: res.Session, Password: res.Password[:], Timeout: 7000})
			if err == nil && (!again.OK || again.Password != res.Password) {
				err = fmt.Errorf("%+v", again)
			}
			return err
		}
	}
	heard := func() (*session.Conn, func() error) {
		c := r.open(&lineWire{}, newSink(1<<20), session.Attach{Timeout: 7000})
		r.b.Advance(timeout)
		return c, func() error { return c.Heard(t.Context()) }
	}
	for what, ask := range map[string]func() (*session.Conn, func() error){"attach": attach, "heard": heard} {
		for _, lives := range []bool{true, false} {
			c, call := ask()
			r.b.Hold()
			done := make(chan error, 1)
			go func() { done <- call() }() // ends with the answer, or with the session
			until(t, "the question", func() bool { return r.b.Queued() == 1 })
			r.b.Advance(timeout)
			r.b.SetAnswer(lives)
			r.b.Resume()
			if !lives {
				r.b.Expire(c.Session())
				r.b.SetAnswer(true)
			}
			if err := <-done; lives != (err == nil) {
				t.Errorf("%s, the session lives: %t: %v", what, lives, err)
			}
		}
	}
}

// A new session that has ended before its client was told of it is nothing to the client: it is not told that a session
// is over, but loses its connection, and asks for another one.
func TestNewSessionOverBeforeItIsKnown(t *testing.T) {
	r := start(t, session.Options{})
	c := r.hub.Open(&lineWire{}, newSink(1<<20), "127.0.0.1", "test")
	t.Cleanup(c.Release)
	r.b.Hold()
	done := make(chan error, 1)
	go func() { // ends with the connection
		_, err := c.Attach(t.Context(), session.Attach{Timeout: 7000})
		done <- err
	}()
	until(t, "the question", func() bool { return r.b.Queued() == 1 })
	r.b.Advance(7 * time.Second)
	r.b.SetAnswer(false)
	r.b.Resume()
	until(t, "the second question", func() bool { return c.Session() != 0 && c.Asked() })
	r.hub.Attached(c.Number(), session.AttachResult{})
	if err := <-done; !errors.Is(err, session.ErrEnded) || c.Reason() != session.ReasonTooLate {
		t.Errorf("%v, %q", err, c.Reason())
	}
}

// What waits for a client that does not read keeps its order: replies that are not encoded yet, events between them.
func TestLateRepliesKeepTheirOrder(t *testing.T) {
	r := start(t, session.Options{})
	s := newSink(0)
	s.block = make(chan struct{})
	c := r.open(&lineWire{}, s, session.Attach{})
	writer := newSink(1 << 20)
	w := r.open(&lineWire{}, writer, session.Attach{})
	big := strings.Repeat("x", 200<<10)
	r.do(w, writer, 2, createReq(1, "/big", open), setReq(2, "/big", big))
	r.b.Hold()
	rs := []session.Request{setReq(1, "/", "1"), getReq(2, "/big", true)}
	for i := range int32(20) {
		rs = append(rs, getReq(3+i, "/big", false))
	}
	if err := c.Do(rs); err != nil {
		t.Fatal(err)
	}
	r.b.Resume()
	until(t, "the replies", func() bool { return r.hub.Stats().Outstanding == 0 })
	r.do(w, writer, 3, setReq(3, "/big", "small"))
	again := []session.Request{setReq(30, "/", "2"), getReq(31, "/big", false)}
	done := make(chan error, 1)
	go func() { done <- c.Do(again) }() // waits for the client to read
	close(s.block)
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	until(t, "the last reply", func() bool { return strings.HasPrefix(s.lines()[len(s.lines())-1], "31:") })
	var want []string
	for xid := range 22 {
		want = append(want, fmt.Sprintf("%d:0:", xid+1))
	}
	want = append(want, "event ", "30:0:", "31:0:small")
	got := s.lines()
	if len(got) != len(want) {
		t.Fatalf("%d lines, want %d", len(got), len(want))
	}
	for i := range want {
		if !strings.HasPrefix(got[i], want[i]) {
			t.Errorf("line %d is %.20q, want %q", i, got[i], want[i])
		}
	}
	if data := strings.TrimPrefix(got[5], "6:0:"); data != big {
		t.Errorf("a late reply holds %d bytes", len(data))
	}
}
