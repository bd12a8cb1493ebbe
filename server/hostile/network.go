package hostile

import (
	"net"
	"regexp"
	"strconv"
	"sync"
	"time"
)

// Network is what lies between the servers of an ensemble, and between clients and servers: every way from one to another
// is a TCP relay whose two directions can be held back and delayed on their own. What is held is delivered late, as by a
// network that comes back.
type Network struct {
	mu     sync.Mutex
	gates  map[way]chan struct{} // closed: open
	delays map[way]time.Duration
	paces  map[way]time.Duration
	conns  map[way][]net.Conn // by the end that dialed
	done   chan struct{}
	ls     []net.Listener
	wg     sync.WaitGroup
}

// Clients is the number that stands for all clients, where others stand for servers.
const Clients = 0

// way is a direction, by numbers of servers.
type way struct{ from, to int }

// NewNetwork is a network in which nothing is held back.
func NewNetwork() *Network {
	return &Network{gates: map[way]chan struct{}{}, delays: map[way]time.Duration{}, paces: map[way]time.Duration{}, conns: map[way][]net.Conn{}, done: make(chan struct{})}
}

var serverLine = regexp.MustCompile(`(?m)^(server\.(\d+)=127\.0\.0\.1:)(\d+)`)

// Through rewrites the text of a server's zoo.cfg so that it reaches the others through relays.
func (n *Network) Through(self int, text string) (string, error) {
	var fault error
	out := serverLine.ReplaceAllStringFunc(text, func(s string) string {
		m := serverLine.FindStringSubmatch(s)
		id, _ := strconv.Atoi(m[2]) // digits, by the pattern
		if id == self {
			return s
		}
		port, err := n.Relay(self, id, "127.0.0.1:"+m[3])
		if err != nil {
			fault = err
		}
		return m[1] + strconv.Itoa(port)
	})
	return out, fault
}

// Relay listens on 127.0.0.1 for what one dials of another, and returns the port.
func (n *Network) Relay(from, to int, addr string) (int, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	w := way{from, to}
	n.mu.Lock() // who dialed this port before may still be trying
	n.ls = append(n.ls, l)
	for _, d := range []way{w, w.back()} {
		if n.gates[d] == nil {
			n.gates[d] = make(chan struct{})
			close(n.gates[d])
		}
	}
	n.mu.Unlock()
	n.wg.Go(func() { // ends with the listener
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			n.wg.Go(func() { n.serve(w, c, addr) })
		}
	})
	return l.Addr().(*net.TCPAddr).Port, nil
}

func (w way) back() way { return way{w.to, w.from} }

// serve carries one connection until either end closes it.
func (n *Network) serve(w way, c net.Conn, addr string) {
	defer c.Close()
	n.mu.Lock()
	n.conns[w] = append(n.conns[w], c)
	n.mu.Unlock()
	defer n.forget(w, c)
	if !n.pass(w) {
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
		n.carry(w.back(), c, s)
	}()
	n.carry(w, s, c)
	<-back
}

// parcel is what was read at once, and when it is due at the other end.
type parcel struct {
	due  time.Time
	data []byte
}

// carry copies one direction; the end of the stream passes the gate like data.
func (n *Network) carry(w way, dst, src net.Conn) {
	defer dst.Close()
	parcels, over := make(chan parcel, 64), make(chan struct{})
	defer close(over)
	defer src.Close()
	go func() { // ends with src, or with the writer
		defer close(parcels)
		buf := make([]byte, 64<<10)
		for {
			k, err := src.Read(buf)
			if k > 0 {
				select {
				case parcels <- parcel{time.Now().Add(n.delay(w)), append([]byte(nil), buf[:k]...)}:
				case <-over:
					return
				}
			}
			if err != nil {
				return
			}
		}
	}()
	for p := range parcels {
		if !n.until(p.due) || !n.until(time.Now().Add(n.pace(w, len(p.data)))) || !n.pass(w) {
			return
		}
		if _, err := dst.Write(p.data); err != nil {
			return
		}
	}
	n.pass(w)
}

func (n *Network) until(t time.Time) bool {
	d := time.Until(t)
	if d <= 0 {
		return true
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-n.done:
		return false
	}
}

func (n *Network) delay(w way) time.Duration {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.delays[w]
}

// pace is what so many bytes take.
func (n *Network) pace(w way, bytes int) time.Duration {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.paces[w] * time.Duration(bytes) / (64 << 10)
}

func (n *Network) pass(w way) bool {
	n.mu.Lock()
	g := n.gates[w]
	n.mu.Unlock()
	select {
	case <-g:
		return true
	case <-n.done:
		return false
	}
}

func (n *Network) forget(w way, c net.Conn) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for i, x := range n.conns[w] {
		if x == c {
			n.conns[w] = append(n.conns[w][:i], n.conns[w][i+1:]...)
			return
		}
	}
}

// Hold keeps everything from passing one way.
func (n *Network) Hold(from, to int) {
	n.mu.Lock()
	defer n.mu.Unlock()
	w := way{from, to}
	select {
	case <-n.gates[w]:
		n.gates[w] = make(chan struct{})
	default:
	}
}

// Delay lets everything that is sent from now on arrive so much later.
func (n *Network) Delay(from, to int, d time.Duration) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.delays[way{from, to}] = d
}

// Pace limits what passes one way: 64 KiB take so long. Zero: as fast as can be.
func (n *Network) Pace(from, to int, d time.Duration) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.paces[way{from, to}] = d
}

// Heal opens every way and ends every delay and limit.
func (n *Network) Heal() {
	n.mu.Lock()
	defer n.mu.Unlock()
	clear(n.delays)
	clear(n.paces)
	for _, g := range n.gates {
		select {
		case <-g:
		default:
			close(g)
		}
	}
}

// Reset cuts every connection between two.
func (n *Network) Reset(a, b int) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, w := range []way{{a, b}, {b, a}} {
		for _, c := range n.conns[w] {
			c.Close()
		}
	}
}

// Close ends every relay and waits for it.
func (n *Network) Close() {
	for _, l := range n.ls {
		l.Close()
	}
	close(n.done)
	n.mu.Lock()
	for _, cs := range n.conns {
		for _, c := range cs {
			c.Close()
		}
	}
	n.mu.Unlock()
	n.wg.Wait()
}
