package zktest

import (
	"bufio"
	"errors"
	"net"
	"sync"
)

// proxy stands between the clients and the server.
type proxy struct {
	l  net.Listener
	wg sync.WaitGroup

	mu      sync.Mutex
	backend string // empty: there is no server
	open    chan struct{}
	paused  bool
	closed  bool
	links   map[*link]struct{}
	lose    int // replies to writes that are still to be lost
	lost    int
}

func newProxy() (*proxy, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	p := &proxy{l: l, open: make(chan struct{}), links: make(map[*link]struct{})}
	close(p.open)
	p.wg.Add(1)
	go func() { defer p.wg.Done(); p.accept() }() // ends with the listener
	return p, nil
}

func (p *proxy) addr() string { return p.l.Addr().String() }

func (p *proxy) accept() {
	for {
		conn, err := p.l.Accept()
		if err != nil {
			return
		}
		k := &link{p: p, client: conn, done: make(chan struct{}), doomed: make(map[int32]bool)}
		p.mu.Lock()
		refused := p.backend == "" || p.closed
		if !refused {
			p.links[k] = struct{}{}
			p.wg.Add(1)
		}
		p.mu.Unlock()
		if refused {
			_ = conn.Close()
			continue
		}
		go func() { defer p.wg.Done(); k.run() }() // ends with either connection, or by cut
	}
}

// serve changes where new connections lead.
func (p *proxy) serve(backend string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.backend = backend
}

func (p *proxy) cut() {
	p.mu.Lock()
	links := make([]*link, 0, len(p.links))
	for k := range p.links {
		links = append(links, k)
	}
	p.mu.Unlock()
	for _, k := range links {
		k.end()
	}
}

func (p *proxy) pause() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.paused {
		p.paused = true
		p.open = make(chan struct{})
	}
}

func (p *proxy) resume() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.paused {
		p.paused = false
		close(p.open)
	}
}

func (p *proxy) loseReply() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.lose++
}

func (p *proxy) lostReplies() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.lost
}

func (p *proxy) close() {
	p.mu.Lock()
	p.closed = true
	p.mu.Unlock()
	_ = p.l.Close()
	p.cut()
	p.wg.Wait()
}

// link is one client's connection.
type link struct {
	p      *proxy
	client net.Conn
	done   chan struct{}
	once   sync.Once

	mu     sync.Mutex
	server net.Conn // nil before it is there
	over   bool
	doomed map[int32]bool // requests whose replies get lost
}

// end breaks both connections.
func (k *link) end() {
	k.once.Do(func() {
		close(k.done)
		k.mu.Lock()
		k.over = true
		server := k.server
		k.mu.Unlock()
		_ = k.client.Close()
		if server != nil {
			_ = server.Close()
		}
		k.p.mu.Lock()
		delete(k.p.links, k)
		k.p.mu.Unlock()
	})
}

var errCut = errors.New("cut")

// pass waits while the traffic is stopped.
func (k *link) pass() error {
	k.p.mu.Lock()
	open := k.p.open
	k.p.mu.Unlock()
	select {
	case <-open:
		return nil
	case <-k.done:
		return errCut
	}
}

func (k *link) run() {
	defer k.end()
	if k.pass() != nil {
		return
	}
	k.p.mu.Lock()
	backend := k.p.backend
	k.p.mu.Unlock()
	if backend == "" {
		return
	}
	server, err := net.Dial("tcp", backend)
	if err != nil {
		return
	}
	k.mu.Lock()
	over := k.over
	k.server = server
	k.mu.Unlock()
	if over {
		_ = server.Close()
		return
	}
	in := bufio.NewReader(k.client)
	up, down := k.wire(in)
	var wg sync.WaitGroup
	wg.Add(1)
	go func() { defer wg.Done(); defer k.end(); k.pump(bufio.NewReader(server), k.client, down) }() // ends with either connection
	k.pump(in, server, up)
	k.end()
	wg.Wait()
}

// units cuts a stream into what is passed on as a whole. A unit that it refuses breaks the connection.
type units interface {
	next(*bufio.Reader) (unit []byte, err error)
}

// pump passes on unit after unit.
func (k *link) pump(from *bufio.Reader, to net.Conn, u units) {
	for {
		unit, err := u.next(from)
		if err != nil {
			return
		}
		if k.pass() != nil {
			return
		}
		if _, err := to.Write(unit); err != nil {
			return
		}
	}
}

// sent decides about the reply to a write that is on its way.
func (k *link) sent(xid int32) {
	k.p.mu.Lock()
	doomed := k.p.lose > 0
	if doomed {
		k.p.lose--
	}
	k.p.mu.Unlock()
	if doomed {
		k.mu.Lock()
		k.doomed[xid] = true
		k.mu.Unlock()
	}
}

// replied reports whether a reply is one that gets lost.
func (k *link) replied(xid int32) error {
	k.mu.Lock()
	doomed := k.doomed[xid]
	k.mu.Unlock()
	if !doomed {
		return nil
	}
	k.p.mu.Lock()
	k.p.lost++
	k.p.mu.Unlock()
	return errCut
}
