package front

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"net"
	"os"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/zkserver/zkserver/proto/jute"
	"github.com/zkserver/zkserver/server/session"
	"github.com/zkserver/zkserver/znode"
)

// The tests of this file are named after the entries of docs/field-reports.md.

// lockedBuffer is a log that can be read while it is written.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// census counts this server's connections.
func (s *server) census() (total, rejected int) {
	s.f.mu.Lock()
	defer s.f.mu.Unlock()
	return s.f.total, int(s.f.rejected.Load())
}

// TestFieldB1OversizedRequest: the longest frame that is allowed is served, a longer one costs the connection and
// nothing else, and the log tells whose it was and how long.
func TestFieldB1OversizedRequest(t *testing.T) {
	var log lockedBuffer
	s := start(t, func(o *Options) { o.Log = zerolog.New(&log) })
	c, other := s.session(), s.session()
	r := create("/big", "", 0)
	r.Data = make([]byte, jute.DefaultMaxBuffer-len(request(1, jute.OpCreate, r)))
	if n := len(request(1, jute.OpCreate, r)); n != 1048575 {
		t.Fatalf("a request of %d bytes", n)
	}
	c.call(jute.OpCreate, r)
	if got := dataOf(t, c.call(jute.OpGetData, get("/big", false))); len(got) != len(r.Data) {
		t.Fatalf("%d bytes came back", len(got))
	}
	for _, length := range []uint32{1048576, 0x15ffffff, math.MaxInt32, math.MaxUint32} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		c.raw(binary.BigEndian.AppendUint32(nil, length))
		c.closed()
		runtime.ReadMemStats(&after)
		if n := after.TotalAlloc - before.TotalAlloc; n > 1<<20 {
			t.Errorf("a length of %d bytes alone allocates %d", length, n)
		}
		again := s.dial() // the session lives
		again.attach(jute.ConnectRequest{TimeOut: 10000, SessionID: c.sid, Passwd: c.pw, HasReadOnly: true})
		if again.sid != c.sid {
			t.Fatalf("after a length of %d the session is %#x", length, uint64(again.sid))
		}
		again.ping()
		other.ping()
		c = again
	}
	var line struct {
		Client, Message string
		Length, Limit   int
	}
	text, _, _ := strings.Cut(log.String(), "\n")
	if err := json.Unmarshal([]byte(text), &line); err != nil || line.Length != 1048576 || line.Limit != 1048575 || !strings.HasPrefix(line.Client, "127.0.0.1:") {
		t.Errorf("logged %q: %+v %v", log.String(), line, err)
	}
	o := Options{Hub: s.hub, Status: fakeStatus{s.b}, MaxBuffer: maxBufferLimit}
	if err := o.Validate(); err == nil {
		t.Error("a limit that cannot be told from a TLS hello is accepted")
	}
}

// TestFieldB2PortScanners: whatever a scanner sends, its connection ends in bounded time and leaves nothing.
func TestFieldB2PortScanners(t *testing.T) {
	s := start(t, func(o *Options) { o.Handshake, o.MaxClientConns = time.Second, -1 })
	live := s.session()
	goroutines := runtime.NumGoroutine()
	rnd := rand.New(rand.NewPCG(2, 2))
	hello := append([]byte{0x16, 3, 1, 2, 0, 1, 0, 1, 0xfc, 3, 3}, make([]byte, 512)...)
	half := frameOf((&jute.ConnectRequest{TimeOut: 10000, Passwd: make([]byte, 16), HasReadOnly: true}).Append(nil))[:30]
	var wg sync.WaitGroup
	for i := range 200 {
		garbage := make([]byte, 4096)
		for j := range garbage {
			garbage[j] = byte(rnd.Uint32())
		}
		c := s.dial()
		wg.Go(func() { // ends with the connection
			_, _ = c.c.Write([][]byte{garbage, hello, half, nil}[i%4]) // it may be closed already
			_ = c.c.SetReadDeadline(time.Now().Add(wait))
			if _, err := io.Copy(io.Discard, c.c); errors.Is(err, os.ErrDeadlineExceeded) {
				t.Errorf("scanner %d is not closed", i)
			}
			_ = c.c.Close()
		})
	}
	wg.Wait()
	live.ping()
	until(t, "nothing to stay", func() bool {
		total, _ := s.census()
		return total == 1 && runtime.NumGoroutine() <= goroutines+5
	})
}

// TestFieldB10ConnectionFlood: an address never has more connections than it may, however fast they come; who was
// refused is counted, and places that become free are given again.
func TestFieldB10ConnectionFlood(t *testing.T) {
	const limit, flood = 60, 300 // the default, as in Java
	s := start(t, nil)
	var wg sync.WaitGroup
	conns := make([]net.Conn, flood)
	for i := range conns {
		wg.Go(func() {
			c, err := net.Dial("tcp", s.addr)
			if err != nil {
				t.Error(err)
				return
			}
			conns[i] = c
			_, _ = c.Write(frameOf((&jute.ConnectRequest{TimeOut: 10000, Passwd: make([]byte, 16), HasReadOnly: true}).Append(nil)))
		})
	}
	wg.Wait()
	admitted := 0
	for _, c := range conns {
		_ = c.SetReadDeadline(time.Now().Add(wait))
		if _, err := io.ReadFull(c, make([]byte, 41)); err == nil {
			admitted++
		} else if errors.Is(err, os.ErrDeadlineExceeded) {
			t.Fatal("neither answered nor closed")
		}
		if total, _ := s.census(); total > limit {
			t.Fatalf("%d connections", total)
		}
	}
	if total, rejected := s.census(); admitted != limit || total != limit || rejected != flood-limit {
		t.Errorf("%d admitted, %d there, %d rejected; want %d, %d, %d", admitted, total, rejected, limit, limit, flood-limit)
	}
	for _, c := range conns {
		_ = c.Close()
	}
	until(t, "the places", func() bool { total, _ := s.census(); return total == 0 })
	if got := s.word("mntr"); !strings.Contains(got, fmt.Sprintf("zk_connection_rejected\t%d\n", flood-limit)) {
		t.Error("mntr does not show how many were rejected")
	}
	until(t, "the word's place", func() bool { total, _ := s.census(); return total == 0 })
	for range limit {
		s.session()
	}
	s.dial().closed()
}

// TestFieldB11OutstandingRequests: many clients that pipeline more than all may have outstanding are slowed down.
// Everything is answered in order, nobody is cut off.
func TestFieldB11OutstandingRequests(t *testing.T) {
	const clients, each, limit = 50, 400, 1000
	s := startHub(t, session.Options{GlobalOutstanding: limit}, func(o *Options) { o.MaxClientConns = -1 })
	s.session().call(jute.OpCreate, create("/n", "", 0))
	var all []*client
	for range clients {
		all = append(all, s.session())
	}
	s.b.Hold()
	var wg sync.WaitGroup
	for _, c := range all {
		var b []byte
		for i := range int32(each) {
			b = append(b, frameOf(request(i+1, jute.OpSetData, set("/n", "x")))...)
		}
		wg.Go(func() { // ends with the connection
			if _, err := c.c.Write(b); err != nil {
				t.Error(err)
			}
		})
		wg.Go(func() { // ends when everything is answered
			_ = c.c.SetReadDeadline(time.Now().Add(6 * wait))
			r := jute.NewFrameReader(c.c, 1<<20)
			for i := range int32(each) {
				body, err := r.Next()
				if err != nil {
					t.Errorf("reply %d: %v", i, err)
					return
				}
				var h jute.ReplyHeader
				h.Decode(jute.NewDecoder(body))
				if h.Xid != i+1 || h.Err != 0 {
					t.Errorf("reply %d is to %d: %v", i+1, h.Xid, h.Err)
					return
				}
			}
		})
	}
	until(t, "the bound", func() bool { return s.hub.Stats().Outstanding >= limit })
	<-time.After(20 * time.Millisecond) // for those that would overrun it
	// What one run of a connection brings may pass the bound.
	if n := s.hub.Stats().Outstanding; n > limit+clients*runFrames {
		t.Errorf("%d requests are outstanding, the bound is %d", n, limit)
	}
	s.b.Resume()
	wg.Wait()
	if h := s.hub.Stats(); h.Outstanding != 0 || h.Dropped != 0 {
		t.Errorf("%d outstanding, %d connections dropped", h.Outstanding, h.Dropped)
	}
}

// TestFieldB13Xids: a reply has the xid of its request, whatever that is and however often it comes.
func TestFieldB13Xids(t *testing.T) {
	s := start(t, nil)
	c := s.session()
	xids := []int32{math.MaxInt32, math.MinInt32, -100, 0, 7, 7, 7, -3, -5, -9, 1}
	for _, xid := range xids {
		c.send(request(xid, jute.OpExists, get("/", false)))
		c.send(request(xid, jute.OpSetData, set("/", "x")))
	}
	for _, xid := range xids {
		c.want(xid, 0)
		c.want(xid, 0)
	}
	c.send(request(jute.XidPing, jute.OpPing, nil))
	c.want(jute.XidPing, 0)
	c.send(request(jute.XidAuth, jute.OpAuth, &jute.AuthPacket{Scheme: jute.Str("digest"), Auth: []byte("a:b")}))
	c.want(jute.XidAuth, 0)
	c.send(request(jute.XidSetWatches, jute.OpSetWatches, &jute.SetWatches{DataWatches: []string{"/"}, ExistWatches: []string{}, ChildWatches: []string{}, RelativeZxid: s.b.LastApplied()}))
	c.want(jute.XidSetWatches, 0)
	s.session().call(jute.OpSetData, set("/", "y"))
	if e := c.event(); e.Path.Value != "/" {
		t.Errorf("event %+v", e)
	}
}

// TestFieldB16TruncatedRecords: a length inside of a request that is negative, endless or past the frame's end is
// MARSHALLINGERROR, and what follows is read from where it begins.
func TestFieldB16TruncatedRecords(t *testing.T) {
	s := start(t, nil)
	c := s.session()
	good := create("/x", "data", 0).Append(nil)
	for _, length := range []int32{-5, math.MinInt32, math.MaxInt32, int32(len(good)) - 3, 1 << 20} {
		body := append(binary.BigEndian.AppendUint32(nil, uint32(length)), good[4:]...)
		for _, op := range []jute.OpCode{jute.OpCreate, jute.OpCreate2, jute.OpSetData, jute.OpGetData, jute.OpDelete} {
			c.xid++
			bad := c.xid
			both := frameOf(append(request(bad, op, nil), body...))
			c.xid++
			c.raw(append(both, frameOf(request(c.xid, jute.OpExists, get("/", false)))...))
			c.want(bad, jute.ErrorCode(znode.MarshallingError))
			c.want(c.xid, 0)
		}
	}
	c.want(c.req(jute.OpExists, get("/x", false)), jute.ErrorCode(znode.NoNode))
}

// TestFieldF7WordsToSlowReaders: an answer that is read a byte at a time, an odd argument and a word that is not
// allowed harm nobody, and the server closes.
func TestFieldF7WordsToSlowReaders(t *testing.T) {
	s := start(t, func(o *Options) { o.Whitelist = []string{"mntr", "stmk", "cons"} })
	live := s.session()
	slow := s.dial()
	if err := slow.c.(*net.TCPConn).SetReadBuffer(1); err != nil {
		t.Fatal(err)
	}
	slow.raw([]byte("mntr"))
	var answer []byte
	for range 40 {
		var b [1]byte
		_ = slow.c.SetReadDeadline(time.Now().Add(wait))
		if _, err := io.ReadFull(slow.c, b[:]); err != nil {
			t.Fatal(err)
		}
		answer = append(answer, b[0])
		live.ping()
	}
	answer = append(answer, slow.rest()...)
	if !bytes.HasPrefix(answer, []byte("zk_version\t")) || !bytes.HasSuffix(answer, []byte("\n")) {
		t.Errorf("mntr answered %q", answer)
	}
	for _, odd := range []string{"stmkx", "stmk12345678", "stmk\xff\xff\xff\xff\xff\xff\xff\xff"} {
		c := s.dial()
		c.raw([]byte(odd))
		if err := c.c.(*net.TCPConn).CloseWrite(); err != nil {
			t.Fatal(err)
		}
		c.rest()
		live.ping()
	}
	for _, w := range []string{"ruok", "envi", "wchp"} {
		if got, want := s.word(w), w+" is not executed because it is not in the whitelist.\n"; got != want {
			t.Errorf("%s answered %q", w, got)
		}
	}
	until(t, "the words' connections to end", func() bool { total, _ := s.census(); return total == 1 })
	live.ping()
}
