package front

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/zkserver/zkserver/proto/jute"
	"github.com/zkserver/zkserver/server/session"
	"github.com/zkserver/zkserver/znode"
)

// discard is a sink that takes everything.
type discard struct{ n int }

func (d *discard) TryWrite(b []byte) (int, error) { d.n += len(b); return len(b), nil }
func (d *discard) Write(b []byte) (int, error)    { d.n += len(b); return len(b), nil }
func (d *discard) Close() error                   { return nil }

// inMemory is a connection with a session whose frames come from feed and whose replies go nowhere.
func inMemory(t testing.TB, s *server) (z *zkConn, sink *discard) {
	t.Helper()
	sink = &discard{}
	server, client := net.Pipe()
	t.Cleanup(func() { _, _ = server.Close(), client.Close() })
	z = &zkConn{f: s.f, so: newSocket(server)}
	z.rd.init(&z.so, s.f)
	z.sess = s.hub.Open(zkWire{}, sink, "127.0.0.1", "test")
	t.Cleanup(z.sess.Release)
	r, err := z.sess.Attach(t.Context(), session.Attach{Timeout: 20000})
	if err != nil || !r.OK {
		t.Fatalf("attach: %+v, %v", r, err)
	}
	return z, sink
}

func (z *zkConn) feed(frames []byte) (session.Reason, bool) {
	z.rd.buf = z.f.buffers.get()
	z.rd.start, z.rd.end = 0, copy(z.rd.buf.b, frames)
	reason, more := z.run()
	z.rd.release()
	return reason, more
}

func reads(n int) []byte {
	var b []byte
	for i := range n {
		op := jute.OpGetData
		if i%2 == 1 {
			op = jute.OpExists
		}
		b = append(b, frameOf(request(int32(i), op, get("/some/path", false)))...)
	}
	return b
}

func withPath(t testing.TB, s *server) {
	t.Helper()
	c := s.session()
	c.call(jute.OpCreate, create("/some", "", 0))
	c.call(jute.OpCreate, create("/some/path", "data of the node", 0))
	_ = c.c.Close()
}

// A run of plain reads allocates nothing, from the buffer to the sink.
func TestReadsAllocateNothing(t *testing.T) {
	if raced {
		t.Skip("pools drop at random under the race detector")
	}
	s := start(t, nil)
	withPath(t, s)
	z, sink := inMemory(t, s)
	frames := reads(32)
	run := func() {
		if _, more := z.feed(frames); !more {
			t.Fatal("the connection ended")
		}
	}
	for range 100 {
		run() // fills the pools
	}
	before := sink.n
	if n := testing.AllocsPerRun(200, run); n != 0 {
		t.Errorf("%v allocations for a run of %d reads", n, 32)
	}
	if sink.n == before {
		t.Error("nothing was answered")
	}
}

func BenchmarkReads(b *testing.B) {
	for _, n := range []int{1, 32} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			s := start(b, nil)
			withPath(b, s)
			z, _ := inMemory(b, s)
			frames := reads(n)
			b.ReportAllocs()
			for b.Loop() {
				if _, more := z.feed(frames); !more {
					b.Fatal("the connection ended")
				}
			}
		})
	}
}

// An idle connection holds no read buffer and no outbox.
func TestIdleConnectionsHoldNoBuffers(t *testing.T) {
	s := start(t, nil)
	c := s.session()
	c.call(jute.OpCreate, create("/a", "x", 0))
	c.call(jute.OpGetData, get("/a", false))
	z, _ := inMemory(t, s)
	if _, more := z.feed(reads(3)); !more || z.rd.buf != nil {
		t.Fatal("a buffer is kept")
	}
	if _, more := z.feed(reads(3)[:50]); !more || z.rd.buf == nil {
		t.Fatal("half a frame was dropped")
	}
	z.rd.start = z.rd.end
	z.rd.release()
}

// A client that does not read is not read from, and cut off when events pile up; others are not disturbed.
func TestSlowClient(t *testing.T) {
	s := start(t, nil)
	c := s.session()
	big := make([]byte, 900<<10)
	c.call(jute.OpCreate, create("/big", string(big), 0))

	slow := s.session()
	var batch []byte
	const many = 50
	for i := range many {
		batch = append(batch, frameOf(request(int32(i+1), jute.OpGetData, get("/big", false)))...)
	}
	slow.raw(batch)
	for range 20 {
		c.ping()
	}
	for i := range many { // it reads after all: everything is there
		slow.want(int32(i+1), 0)
	}

	deaf := s.session()
	if err := deaf.c.(*net.TCPConn).SetReadBuffer(4 << 10); err != nil {
		t.Fatal(err)
	}
	const paths = 80
	name := strings.Repeat("x", 200<<10)
	for i := range paths {
		deaf.want(deaf.req(jute.OpExists, get(fmt.Sprintf("/%s%d", name, i), true)), jute.ErrorCode(znode.NoNode))
	}
	ended := func() bool {
		n := 0
		s.hub.Each(func(*session.Conn) bool { n++; return true })
		return n < 3
	}
	for i := range paths {
		c.call(jute.OpCreate, create(fmt.Sprintf("/%s%d", name, i), "", 0))
	}
	until(t, "the deaf client to be cut off", ended)
	c.ping()
}

// Parked reads with long replies are no reason to cut a client off.
func TestParkedReadsMayBeLong(t *testing.T) {
	s := start(t, nil)
	c := s.session()
	c.call(jute.OpCreate, create("/big", string(make([]byte, 900<<10)), 0))
	s.b.Hold()
	w := c.req(jute.OpSetData, set("/", "1"))
	for range 20 {
		c.req(jute.OpGetData, get("/big", false))
	}
	until(t, "the write", func() bool { return s.b.Queued() == 1 })
	s.b.Resume()
	c.want(w, 0)
	for i := range int32(20) {
		if got := len(dataOf(t, c.want(w+1+i, 0))); got != 900<<10 {
			t.Fatalf("%d bytes", got)
		}
	}
}

// A client that asks for much and reads nothing costs little: what waits is not encoded, or it is cut off. Others do
// not notice. (Events are bounded by session.HardEvents.)
func TestDeafClientIsCheap(t *testing.T) {
	const bound = 2 << 20
	s := start(t, nil)
	c := s.session()
	c.call(jute.OpCreate, create("/big", string(make([]byte, 900<<10)), 0))
	heap := func() int64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.GC() // pools keep what they hold for one cycle
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	park := func(deaf *client, reads int) {
		s.b.Hold()
		batch := frameOf(request(1, jute.OpSetData, set("/", "1")))
		for i := range reads {
			batch = append(batch, frameOf(request(int32(i+2), jute.OpGetData, get("/big", false)))...)
		}
		deaf.raw(batch)
		until(t, "the requests", func() bool { return s.hub.Stats().Outstanding == int64(reads+1) })
		s.b.Resume()
		until(t, "their execution", func() bool { return s.hub.Stats().Outstanding == 0 })
	}
	deaf := s.session()
	before := heap()
	park(deaf, 60)
	// Replies are encoded, and thrown away, as long as the sockets' buffers take them.
	until(t, "54 MB of replies that nobody reads to cost little", func() bool { return heap()-before < bound })
	c.ping()
	deaf.want(1, 0) // it reads after all
	for i := range int32(60) {
		if got := len(dataOf(t, deaf.want(i+2, 0))); got != 900<<10 {
			t.Fatalf("%d bytes", got)
		}
	}
	deaf.ping()
	park(deaf, 120)
	until(t, "its end", func() bool { return s.hub.Stats().Connections == 1 })
	c.ping()
}

// A multiRead whose reply would be out of all proportion ends the connection, not the server.
func TestMultiReadIsBounded(t *testing.T) {
	s := start(t, nil)
	c := s.session()
	c.call(jute.OpCreate, create("/big", string(make([]byte, 900<<10)), 0))
	var m jute.MultiRequest
	for range 10_000 {
		m.Ops = append(m.Ops, jute.Op{Type: jute.OpGetData, Path: jute.Str("/big")})
	}
	greedy := s.session()
	greedy.req(jute.OpMultiRead, &m)
	greedy.closed()
	c.ping()
}

// Many connections, random pipelines: every read sees its own writes, replies keep their order, nothing is left over.
func TestStress(t *testing.T) {
	for _, calm := range []bool{true, false} {
		t.Run(fmt.Sprintf("calm=%v", calm), func(t *testing.T) { stress(t, calm) })
	}
}

// unrest lets the lease lapse and the applier stop, again and again, until stop is closed.
func unrest(s *server, stop <-chan struct{}) {
	defer func() {
		s.b.SetLease(time.Hour)
		s.b.Resume()
	}()
	for {
		for _, step := range []func(){
			func() { s.b.SetLease(-time.Second) }, s.b.Hold, func() { s.b.SetLease(time.Hour) }, s.b.Resume,
			s.b.Hold, s.b.Resume, func() { s.b.SetLease(-time.Second) }, func() { s.b.SetLease(time.Hour) },
		} {
			step()
			select {
			case <-time.After(time.Millisecond):
			case <-stop:
				return
			}
		}
	}
}

func stress(t *testing.T, calm bool) {
	s := start(t, nil)
	root := s.session()
	const conns = 12
	for i := range conns {
		root.call(jute.OpCreate, create(fmt.Sprintf("/n%d", i), "-1", 0))
	}
	var wg sync.WaitGroup
	var clients []*client
	for range conns {
		clients = append(clients, s.session())
	}
	stop, stopped := make(chan struct{}), make(chan struct{})
	if calm {
		close(stopped)
	} else {
		go func() { // ends on stop
			defer close(stopped)
			unrest(s, stop)
		}()
	}
	for i, c := range clients {
		rng := rand.New(rand.NewPCG(1, uint64(i)))
		path := fmt.Sprintf("/n%d", i)
		wg.Go(func() { // ends after its rounds
			type want struct {
				xid  int32
				data string
			}
			value := "-1"
			for range 60 {
				var batch []byte
				var wants []want
				for range 1 + rng.IntN(40) {
					c.xid++
					switch rng.IntN(5) {
					case 0, 1:
						value = fmt.Sprint(c.xid)
						batch = append(batch, frameOf(request(c.xid, jute.OpSetData, set(path, value)))...)
						wants = append(wants, want{xid: c.xid})
					case 2, 3:
						batch = append(batch, frameOf(request(c.xid, jute.OpGetData, get(path, rng.IntN(4) == 0)))...)
						wants = append(wants, want{xid: c.xid, data: value})
					default:
						batch = append(batch, frameOf(request(c.xid, jute.OpSync, &jute.SyncRequest{Path: jute.Str(path)}))...)
						wants = append(wants, want{xid: c.xid})
					}
				}
				for len(batch) > 0 {
					n := 1 + rng.IntN(len(batch))
					c.raw(batch[:n])
					batch = batch[n:]
				}
				for _, w := range wants {
					r := c.reply()
					for r.Xid == jute.XidEvent {
						r = c.reply()
					}
					if r.Xid != w.xid || r.Err != 0 {
						t.Errorf("xid %d err %v, want xid %d", r.Xid, r.Err, w.xid)
						return
					}
					if w.data != "" {
						if got := dataOf(t, r); got != w.data {
							t.Errorf("xid %d read %q, want %q", w.xid, got, w.data)
							return
						}
					}
				}
			}
			if i%2 == 0 {
				c.call(jute.OpCloseSession, nil)
				c.closed()
			}
			_ = c.c.Close()
		})
	}
	wg.Wait()
	close(stop)
	<-stopped
	until(t, "the connections to end", func() bool { return s.hub.Stats().Connections == 1 })
	if st := s.hub.Stats(); st.Outstanding != 0 || st.Dropped != 0 {
		t.Fatalf("left over: %+v", st)
	}
	if w := s.hub.Watches(); w.Watches != 0 {
		t.Fatalf("left over: %+v", w)
	}
}

// FuzzFrames gives a session arbitrary bytes as frames: nothing panics, and the server goes on.
func FuzzFrames(f *testing.F) {
	s := start(f, nil)
	withPath(f, s)
	f.Add(reads(2))
	f.Add(frameOf(request(1, jute.OpMulti, &jute.MultiRequest{Ops: []jute.Op{{Type: jute.OpCreate, Path: jute.Str("/f"), ACL: openACL}}})))
	f.Add(frameOf(request(1, jute.OpSetWatches2, &jute.SetWatches2{})))
	f.Add(frameOf(request(1, jute.OpCloseSession, nil)))
	f.Add(frameOf(request(-4, jute.OpAuth, &jute.AuthPacket{Scheme: jute.Str("digest"), Auth: []byte("a:b")})))
	for op := jute.OpCode(-11); op < 108; op++ {
		f.Add(frameOf(append(request(3, op, nil), 0, 0, 0, 1, '/', 0, 0, 0, 0, 0, 0, 0, 1)))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		if len(b) > readBuffer {
			return
		}
		z, _ := inMemory(t, s)
		z.f = s.f
		_, _ = z.feed(b)
		z.sess.Close(session.ReasonClient)
	})
}

// FuzzConnection gives a fresh connection arbitrary first bytes.
func FuzzConnection(f *testing.F) {
	s := start(f, func(o *Options) {
		o.Handshake, o.MaxClientConns, o.Whitelist = 20*time.Millisecond, -1, []string{"*"}
	})
	f.Add([]byte("ruok"))
	f.Add([]byte("stmk1234"))
	f.Add(frameOf(connectFrame(nil)))
	f.Add(append(frameOf(connectFrame(nil)), frameOf(request(1, jute.OpCloseSession, nil))...))
	f.Fuzz(func(t *testing.T, b []byte) {
		c := dialInput(t, s.addr)
		_, _ = c.Write(b) // the server may have closed already
		if err := c.(*net.TCPConn).CloseWrite(); err == nil {
			_ = c.SetReadDeadline(time.Now().Add(wait))
			var buf [4096]byte
			for err == nil {
				_, err = c.Read(buf[:])
			}
			if errors.Is(err, os.ErrDeadlineExceeded) {
				t.Error("the server does not end the connection")
			}
		}
		_ = c.Close()
		s.b.Tree(func(t *znode.Tree) { _ = t.NodeCount() })
	})
}
