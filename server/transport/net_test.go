package transport

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"go.uber.org/goleak"

	"github.com/zkserver/zkserver/server/peer"
	"github.com/zkserver/zkserver/zab"
)

func TestMain(m *testing.M) {
	if os.Getenv(childEnv) != "" {
		child()
		return
	}
	goleak.VerifyTestMain(m)
}

// event is what a handler was told.
type event struct {
	what    string // up, down, failed
	link    zab.Link
	refused bool
	rtt     time.Duration
	at      time.Time
}

// recorder is a handler that remembers, and that tests wait on.
type recorder struct {
	mu     sync.Mutex
	cond   *sync.Cond
	events []event
	msgs   map[zab.Link][]peer.Message
	up     map[zab.ServerID]zab.Link
	faults []string
	block  chan struct{} // if set, Messages waits for it
	sinks  []*memSink
	sink   func(*memSink) error
}

func newRecorder() *recorder {
	r := &recorder{msgs: make(map[zab.Link][]peer.Message), up: make(map[zab.ServerID]zab.Link)}
	r.cond = sync.NewCond(&r.mu)
	return r
}

func (r *recorder) change(f func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	f()
	r.cond.Broadcast()
}

func (r *recorder) LinkUp(l zab.Link, rtt time.Duration) {
	r.change(func() {
		if old, ok := r.up[l.Peer]; ok {
			r.faults = append(r.faults, fmt.Sprintf("%v up while %v is", l, old))
		}
		r.up[l.Peer] = l
		r.events = append(r.events, event{what: "up", link: l, rtt: rtt, at: time.Now()})
	})
}

func (r *recorder) LinkDown(l zab.Link, refused bool) {
	r.change(func() {
		if r.up[l.Peer] != l {
			r.faults = append(r.faults, fmt.Sprintf("%v down, up is %v", l, r.up[l.Peer]))
		}
		delete(r.up, l.Peer)
		r.events = append(r.events, event{what: "down", link: l, refused: refused, at: time.Now()})
	})
}

func (r *recorder) Messages(l zab.Link, msgs []peer.Message) {
	if r.block != nil {
		<-r.block
	}
	r.change(func() {
		if r.up[l.Peer] != l {
			r.faults = append(r.faults, fmt.Sprintf("messages of %v, up is %v", l, r.up[l.Peer]))
		}
		r.msgs[l] = append(r.msgs[l], msgs...)
	})
}

func (r *recorder) DialFailed(p zab.ServerID, refused bool) {
	r.change(func() {
		r.events = append(r.events, event{what: "failed", link: zab.Link{Peer: p}, refused: refused, at: time.Now()})
	})
}

func (r *recorder) SnapshotStart(l zab.Link, z zab.Zxid) (SnapshotSink, error) {
	s := &memSink{r: r, zxid: z}
	if r.sink != nil {
		if err := r.sink(s); err != nil {
			return nil, err
		}
	}
	r.change(func() { r.sinks = append(r.sinks, s) })
	return s, nil
}

// memSink keeps a snapshot in memory.
type memSink struct {
	r        *recorder
	zxid     zab.Zxid
	data     bytes.Buffer
	finished bool
	aborted  error
	gate     chan struct{} // if set, Write waits for it
	fail     error
}

func (s *memSink) Write(chunk []byte) error {
	if s.gate != nil {
		<-s.gate
	}
	s.r.change(func() { s.data.Write(chunk) })
	return s.fail
}

func (s *memSink) Finish() error {
	s.r.change(func() { s.finished = true })
	return nil
}

func (s *memSink) Abort(err error) { s.r.change(func() { s.aborted = err }) }

// wait waits until cond holds; it is called with the lock held.
func (r *recorder) wait(t *testing.T, what string, cond func() bool) {
	t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	late := false
	timer := time.AfterFunc(time.Minute, func() { r.change(func() { late = true }) })
	defer timer.Stop()
	for !cond() {
		if late {
			t.Fatalf("waiting for %s: up %v, events %v", what, r.up, r.events)
		}
		r.cond.Wait()
	}
}

func (r *recorder) waitUp(t *testing.T, p zab.ServerID) zab.Link {
	t.Helper()
	var l zab.Link
	r.wait(t, fmt.Sprintf("a link with %d", p), func() bool {
		var ok bool
		l, ok = r.up[p]
		return ok
	})
	return l
}

func (r *recorder) waitDown(t *testing.T, l zab.Link) event {
	t.Helper()
	var e event
	r.wait(t, fmt.Sprintf("the end of %v", l), func() bool {
		for _, e = range r.events {
			if e.what == "down" && e.link == l {
				return true
			}
		}
		return false
	})
	return e
}

func (r *recorder) received(l zab.Link) []peer.Message {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.msgs[l]
}

// proxy forwards connections until it is frozen: then nothing passes, and nothing is closed either.
type proxy struct {
	ln     net.Listener
	target string
	mu     sync.Mutex
	frozen bool
	thaw   chan struct{}
	conns  []net.Conn
	wg     sync.WaitGroup
}

func newProxy(t *testing.T, target string) *proxy {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &proxy{ln: ln, target: target, thaw: make(chan struct{})}
	p.wg.Go(p.serve)
	t.Cleanup(p.close)
	return p
}

func (p *proxy) serve() {
	for {
		in, err := p.ln.Accept()
		if err != nil {
			return
		}
		out, err := net.Dial("tcp", p.target)
		if err != nil {
			_ = in.(*net.TCPConn).SetLinger(0)
			in.Close()
			continue
		}
		p.mu.Lock()
		p.conns = append(p.conns, in, out)
		p.mu.Unlock()
		p.wg.Go(func() { p.copy(in, out) })
		p.wg.Go(func() { p.copy(out, in) })
	}
}

func (p *proxy) copy(dst, src net.Conn) {
	buf := make([]byte, 32<<10)
	for {
		n, err := src.Read(buf)
		p.mu.Lock()
		frozen := p.frozen
		p.mu.Unlock()
		if frozen {
			<-p.thaw
			return
		}
		if err != nil {
			dst.Close()
			return
		}
		if _, err := dst.Write(buf[:n]); err != nil {
			src.Close()
			return
		}
	}
}

// freeze: from now on the connections that exist carry nothing.
func (p *proxy) freeze() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.frozen = true
}

func (p *proxy) close() {
	p.ln.Close()
	p.mu.Lock()
	for _, c := range p.conns {
		c.Close()
	}
	p.mu.Unlock()
	close(p.thaw)
	p.wg.Wait()
}

// server is a transport that runs.
type server struct {
	*recorder
	*Transport
	id   zab.ServerID
	stop func()
}

// lan is an ensemble on loopback. Its ports lie below those that the kernel hands out, so that nobody takes one while
// its server is down.
type lan struct {
	t     *testing.T
	addrs map[zab.ServerID]string
	free  map[zab.ServerID]net.Listener // of servers that were not started yet
	tune  func(*Options)
}

func newLan(t *testing.T, ids ...zab.ServerID) *lan {
	n := &lan{t: t}
	n.init()
	for _, id := range ids {
		if err := n.reserve(id); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(n.absent)
	return n
}

func (n *lan) init() {
	n.addrs, n.free = make(map[zab.ServerID]string), make(map[zab.ServerID]net.Listener)
}

func (n *lan) reserve(id zab.ServerID) (err error) {
	for range 100 {
		var ln net.Listener
		if ln, err = net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", 10000+rand.IntN(20000))); err == nil {
			n.addrs[id], n.free[id] = ln.Addr().String(), ln
			return nil
		}
	}
	return err
}

// absent closes the ports of servers that are not started.
func (n *lan) absent() {
	for id, ln := range n.free {
		ln.Close()
		delete(n.free, id)
	}
}

func (n *lan) listen(id zab.ServerID) net.Listener {
	if ln := n.free[id]; ln != nil {
		delete(n.free, id)
		return ln
	}
	ln, err := net.Listen("tcp", n.addrs[id])
	if err != nil {
		n.t.Fatal(err)
	}
	return ln
}

func testOptions(self zab.ServerID, ln net.Listener, addrs map[zab.ServerID]string) Options {
	o := Options{
		Self: self, Instance: zab.ID(self), Process: zab.ID(time.Now().UnixNano()), ConfigSum: 7, Silence: 10 * time.Second,
		Ensemble: func() zab.ID { return 9 }, Listener: ln, Log: zerolog.Nop(),
	}
	for id, a := range addrs {
		if id != self {
			o.Peers = append(o.Peers, Peer{ID: id, Addrs: []string{a}})
		}
	}
	return o
}

func (n *lan) start(id zab.ServerID, tune ...func(*Options)) *server {
	n.t.Helper()
	o := testOptions(id, n.listen(id), n.addrs)
	if n.tune != nil {
		n.tune(&o)
	}
	for _, f := range tune {
		f(&o)
	}
	r := newRecorder()
	tr, err := New(o, r)
	if err != nil {
		n.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- tr.Run(ctx) }() // ends with stop
	s := &server{recorder: r, Transport: tr, id: id}
	s.stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; !errors.Is(err, context.Canceled) {
			n.t.Errorf("server %d: %v", id, err)
		}
		r.mu.Lock()
		defer r.mu.Unlock()
		for _, f := range r.faults {
			n.t.Errorf("server %d: %s", id, f)
		}
		if len(r.up) != 0 {
			n.t.Errorf("server %d: links remain: %v", id, r.up)
		}
	})
	n.t.Cleanup(s.stop)
	return s
}

// note makes a small message that carries a number.
func note(n uint64) peer.Message { return &peer.HandOverMark{LastSeq: n} }

func numberOf(t *testing.T, m peer.Message) uint64 {
	h, ok := m.(*peer.HandOverMark)
	if !ok {
		t.Fatalf("a %T", m)
	}
	return h.LastSeq
}

// memSource is a snapshot of so many bytes.
type memSource struct {
	left   int
	fail   error
	closed bool
}

func (s *memSource) Zxid() zab.Zxid { return zab.MakeZxid(3, 77) }

func (s *memSource) Next(limit int) ([]byte, bool, error) {
	n := min(limit, s.left)
	s.left -= n
	if s.left == 0 && s.fail != nil {
		return nil, false, s.fail
	}
	return bytes.Repeat([]byte{byte(s.left)}, n), s.left == 0, nil
}

func (s *memSource) Close() error {
	s.closed = true
	return nil
}

var _ io.Closer = (*memSource)(nil)
