package recipe

import (
	"context"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/zkserver/zkserver/client"
	"github.com/zkserver/zkserver/client/zktest"
)

// inStorms runs a test on both wires with a seed, which ZK_SEED repeats. ZKSERVER_FULL=1 makes it so many times longer.
func inStorms(t *testing.T, test func(e *env, s *storm)) {
	seed, factor, limit := rand.Uint64(), 1, 3*patience
	if s := os.Getenv("ZK_SEED"); s != "" {
		seed, _ = strconv.ParseUint(s, 10, 64)
	}
	if os.Getenv("ZKSERVER_FULL") != "" {
		factor, limit = 20, 10*patience
	}
	for _, w := range []client.Wire{client.ZooKeeper, client.GRPC} {
		t.Run(w.String(), func(t *testing.T) {
			t.Parallel()
			t.Logf("ZK_SEED=%d", seed)
			ctx, cancel := context.WithTimeout(context.Background(), limit)
			t.Cleanup(cancel)
			e := &env{T: t, s: zktest.Start(t), ctx: ctx, wire: w}
			test(e, &storm{e: e, rnd: rand.New(rand.NewPCG(seed, uint64(w))), factor: factor})
		})
	}
}

// storm breaks connections and loses replies.
type storm struct {
	e      *env
	rnd    *rand.Rand
	factor int
	hit    sync.Map // clients whose sessions were ended before their timeout, as an administrator might
}

// expire ends a session. What is held by it may seem to be for a moment longer: that is nobody's fault.
func (s *storm) expire(c *client.Client) {
	s.e.Helper()
	s.hit.Store(c, true)
	s.e.ok(s.e.s.Expire(c.Session()))
}

// holds reports whether a Hold is live that nobody has overtaken by force.
func (s *storm) holds(h *Hold) bool {
	_, hit := s.hit.Load(h.s.c)
	return !hit && h.Context().Err() == nil
}

// blow does so many faults; between two of them something has to be done in spite of them.
func (s *storm) blow(faults int, done func()) {
	s.e.Helper()
	for range faults * s.factor {
		switch s.rnd.IntN(5) {
		case 0:
			s.e.s.Cut()
		case 1:
			s.e.s.LoseReply()
		case 2:
			s.e.s.LoseReply()
			s.e.s.LoseReply()
			s.e.s.Cut()
		case 3:
			s.e.s.Pause()
			wait(s.e.ctx, time.Duration(s.rnd.Int64N(int64(20*time.Millisecond))))
			s.e.s.Resume()
		case 4:
			s.e.s.Pause()
			s.e.s.LoseReply()
			s.e.s.Cut()
			s.e.s.Resume()
		}
		done()
	}
}

// steps counts what is done in spite of a storm.
type steps struct {
	n     atomic.Int64
	moved chan struct{}
}

func newSteps() *steps { return &steps{moved: make(chan struct{}, 1)} }

func (s *steps) step() {
	s.n.Add(1)
	select {
	case s.moved <- struct{}{}:
	default:
	}
}

// more waits for so many more steps.
func (e *env) more(s *steps, n int64) {
	e.Helper()
	for want := s.n.Load() + n; s.n.Load() < want; {
		select {
		case <-s.moved:
		case <-e.ctx.Done():
			e.Fatal("nothing goes on")
		}
	}
}

// run runs a function in the background, and returns what ends it and waits for its end.
func (e *env) run(f func(ctx context.Context) error) (end func() error) {
	ctx, cancel := context.WithCancel(e.ctx)
	done := make(chan error, 1)
	go func() { done <- f(ctx) }()
	var once sync.Once
	var err error
	end = func() error {
		once.Do(func() {
			cancel()
			err = <-done
		})
		return err
	}
	e.Cleanup(func() { _ = end() })
	return end
}

// sessions runs a recipe in as many sessions as it takes, and tells the clients.
func (e *env) sessions(run func(context.Context, *client.Client) error) (clients <-chan *client.Client, end func() error) {
	return e.shortSessions(30*time.Second, run)
}

// shortSessions is sessions for storms: a session that a storm does not let be closed is over in time.
func (e *env) shortSessions(timeout time.Duration, run func(context.Context, *client.Client) error) (clients <-chan *client.Client, end func() error) {
	ch := make(chan *client.Client, 100)
	return ch, e.run(func(ctx context.Context) error {
		return Sessions(ctx, func(ctx context.Context) (*client.Client, error) {
			c, err := client.Dial(ctx, e.s.Addr(), client.Options{Wire: e.wire, SessionTimeout: timeout, BackoffMax: 5 * time.Millisecond})
			if err == nil {
				ch <- c
			}
			return c, err
		}, run)
	})
}

// until waits for a condition that changes whenever a cache does.
func (e *env) until(what string, c *Cache, f func() bool) {
	e.Helper()
	for _, err := range c.Watch(e.ctx) {
		if f() {
			return
		}
		if err != nil {
			e.Fatalf("%s does not come: %v", what, c.Nodes())
		}
	}
}

// gate makes connections, unless it is shut: then they wait.
type gate struct {
	mu   sync.Mutex
	wait chan struct{}
}

func (g *gate) shut() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.wait = make(chan struct{})
}

func (g *gate) open() {
	g.mu.Lock()
	defer g.mu.Unlock()
	close(g.wait)
	g.wait = nil
}

// pass waits while the gate is shut.
func (g *gate) pass(ctx context.Context) error {
	g.mu.Lock()
	wait := g.wait
	g.mu.Unlock()
	if wait != nil {
		select {
		case <-wait:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

func (g *gate) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	if err := g.pass(ctx); err != nil {
		return nil, err
	}
	return (&net.Dialer{}).DialContext(ctx, network, addr)
}

// spy looks at the requests that leave on the ZooKeeper wire: it counts them, and refuses what an old server does not know.
type spy struct {
	gate
	raw  bool   // it is another wire: nothing is looked at
	old  string // "": nothing is refused; "answers", "closes": addWatch is, so
	smu  sync.Mutex
	seen map[int32]int
}

const (
	opGetData  = 4
	opAddWatch = 106
)

func (s *spy) count(op int32) int {
	s.smu.Lock()
	defer s.smu.Unlock()
	return s.seen[op]
}

func (s *spy) total() (n int) {
	s.smu.Lock()
	defer s.smu.Unlock()
	for _, k := range s.seen {
		n += k
	}
	return n
}

func (s *spy) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	conn, err := s.gate.dial(ctx, network, addr)
	if err != nil || s.raw {
		return conn, err
	}
	return &spyConn{Conn: conn, s: s}, nil
}

type spyConn struct {
	net.Conn
	s     *spy
	begun bool
	rest  []byte
}

func (c *spyConn) Write(b []byte) (int, error) {
	c.rest = append(c.rest, b...)
	for len(c.rest) >= 4 {
		n := 4 + int(binary.BigEndian.Uint32(c.rest))
		if len(c.rest) < n {
			break
		}
		frame := c.rest[:n]
		if c.begun {
			op := int32(binary.BigEndian.Uint32(frame[8:]))
			c.s.smu.Lock()
			if c.s.seen == nil {
				c.s.seen = make(map[int32]int)
			}
			c.s.seen[op]++
			c.s.smu.Unlock()
			switch {
			case op == opAddWatch && c.s.old == "closes":
				return 0, fmt.Errorf("an old server: %w", c.Close())
			case op == opAddWatch && c.s.old == "answers":
				binary.BigEndian.PutUint32(frame[8:], 999) // no server knows it
			}
		}
		c.begun = true
		if _, err := c.Conn.Write(frame); err != nil {
			return 0, err
		}
		c.rest = c.rest[n:]
	}
	return len(b), nil
}
