package main

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"sync"
	"testing"
)

// fabric is the network between the servers of an ensemble: every way from one to another is a TCP relay whose two
// directions can be held back on their own. What is held is delivered late, as by a network that comes back.
type fabric struct {
	mu    sync.Mutex
	gates map[way]chan struct{} // closed: open
	conns map[way][]net.Conn    // by the end that dialed
	done  chan struct{}
	ls    []net.Listener
	wg    sync.WaitGroup
}

// way is a direction, by the numbers of the servers.
type way struct{ from, to int }

// newFabric rewrites the configurations of an ensemble that does not run yet, so that its servers reach each other
// through relays.
func newFabric(t testing.TB, ps []*proc) *fabric {
	t.Helper()
	f := &fabric{gates: map[way]chan struct{}{}, conns: map[way][]net.Conn{}, done: make(chan struct{})}
	line := regexp.MustCompile(`(?m)^(server\.(\d+)=127\.0\.0\.1:)(\d+)`)
	for _, p := range ps {
		path := filepath.Join(p.dir, "zoo.cfg")
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		p.write("zoo.cfg", line.ReplaceAllStringFunc(string(text), func(s string) string {
			m := line.FindStringSubmatch(s)
			id, _ := strconv.Atoi(m[2])
			if id == p.id {
				return s
			}
			return m[1] + strconv.Itoa(f.relay(t, way{p.id, id}, "127.0.0.1:"+m[3]))
		}))
	}
	t.Cleanup(f.stop)
	return f
}

// relay listens for one server's dials of another and returns the port.
func (f *fabric) relay(t testing.TB, w way, addr string) int {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	f.ls = append(f.ls, l)
	f.mu.Lock() // who dialed this port before may still be trying
	for _, d := range []way{w, {w.to, w.from}} {
		if f.gates[d] == nil {
			f.gates[d] = make(chan struct{})
			close(f.gates[d])
		}
	}
	f.mu.Unlock()
	f.wg.Go(func() { // ends with the listener
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			f.wg.Go(func() { f.serve(w, c, addr) })
		}
	})
	return l.Addr().(*net.TCPAddr).Port
}

// serve carries one connection until either end closes it.
func (f *fabric) serve(w way, c net.Conn, addr string) {
	defer c.Close()
	f.mu.Lock()
	f.conns[w] = append(f.conns[w], c)
	f.mu.Unlock()
	defer f.forget(w, c)
	if !f.pass(w) {
		return
	}
	s, err := net.Dial("tcp", addr)
	if err != nil {
		_ = c.(*net.TCPConn).SetLinger(0) // a refused dial is seen as a reset
		return
	}
	defer s.Close()
	back := make(chan struct{})
	go func() { // ends with the connection
		defer close(back)
		f.carry(way{w.to, w.from}, c, s)
	}()
	f.carry(w, s, c)
	<-back
}

// carry copies one direction; the end of the stream passes the gate like data.
func (f *fabric) carry(w way, dst, src net.Conn) {
	defer dst.Close()
	defer src.Close()
	buf := make([]byte, 64<<10)
	for {
		n, err := src.Read(buf)
		if !f.pass(w) {
			return
		}
		if n > 0 {
			if _, err := dst.Write(buf[:n]); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}

func (f *fabric) pass(w way) bool {
	f.mu.Lock()
	g := f.gates[w]
	f.mu.Unlock()
	select {
	case <-g:
		return true
	case <-f.done:
		return false
	}
}

func (f *fabric) forget(w way, c net.Conn) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for i, x := range f.conns[w] {
		if x == c {
			f.conns[w] = append(f.conns[w][:i], f.conns[w][i+1:]...)
			return
		}
	}
}

// hold keeps everything from passing one way.
func (f *fabric) hold(from, to int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	w := way{from, to}
	select {
	case <-f.gates[w]:
		f.gates[w] = make(chan struct{})
	default:
	}
}

// heal opens every way.
func (f *fabric) heal() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, g := range f.gates {
		select {
		case <-g:
		default:
			close(g)
		}
	}
}

// reset cuts every connection between two servers.
func (f *fabric) reset(a, b int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, w := range []way{{a, b}, {b, a}} {
		for _, c := range f.conns[w] {
			c.Close()
		}
	}
}

func (f *fabric) stop() {
	for _, l := range f.ls {
		l.Close()
	}
	close(f.done)
	f.mu.Lock()
	for _, cs := range f.conns {
		for _, c := range cs {
			c.Close()
		}
	}
	f.mu.Unlock()
	f.wg.Wait()
}

func (w way) String() string { return fmt.Sprintf("%d->%d", w.from, w.to) }
