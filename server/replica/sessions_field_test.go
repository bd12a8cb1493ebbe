package replica

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/zkserver/zkserver/server/peer"
	"github.com/zkserver/zkserver/server/session"
	"github.com/zkserver/zkserver/zab"
	"github.com/zkserver/zkserver/znode"
)

// The tests of this file are named after the entries of docs/field-reports.md. Those on the simulation take every
// interleaving of the servers' threads that a seed can draw.

// tick is the tickTime that the stated limits are counted in.
const tick = 500 * time.Millisecond

func quanta(d time.Duration) int { return int(d / zab.QuantumLength) }

// open makes a connection with a new session, or with that of old, and does not wait for it.
func (s *simulation) open(id int, timeout int32, old *simConn) *simConn {
	c := &simConn{num: uint32(len(s.conns) + 1), server: id, ops: map[uint64]string{}}
	c.name = fmt.Sprint("c", c.num)
	s.conns[c.num] = c
	s.seqs[id-1]++
	in := Attach{Conn: c.num, Seq: s.seqs[id-1], Timeout: timeout}
	if old != nil {
		in.Session, in.Password = old.session, old.password
	}
	s.push(id, in)
	return c
}

// submit sends a write of a connection.
func (s *simulation) submit(c *simConn, r *znode.Request) {
	r.Session, r.Ticket, r.TTL, r.Version = c.session, c.ticket, -1, -1
	s.seqs[c.server-1]++
	r.Origin = znode.Origin{
		Server: uint64(c.server), Instance: uint64(s.nodes[c.server-1].process), Conn: c.num, Seq: s.seqs[c.server-1],
	}
	c.ops[r.Origin.Seq] = r.Path
	s.push(c.server, Requests{Conn: c.num, Requests: []*znode.Request{r}})
}

func ephemeral(path string) *znode.Request {
	return &znode.Request{Op: znode.OpCreate, Path: path, ACL: openACL, Flags: 1}
}

// turns lets threads of random servers run, so many times.
func (s *simulation) turns(rnd *rand.Rand, n int) {
	for range n {
		if x := s.nodes[rnd.IntN(s.n)]; x != nil {
			s.turn(x)
		}
	}
}

func (s *simulation) leader() int {
	for _, x := range s.nodes {
		if x != nil && x.m.role == zab.Leading && x.m.serving {
			return x.id
		}
	}
	s.t.Fatalf("nobody leads:\n%s", s.out.String())
	return 0
}

// ephemerals lists a tree's ephemerals, and fails if one is of a session that there is not (C6).
func (s *simulation) ephemerals(x *simNode) []string {
	var out []string
	x.tree.Walk(func(r znode.NodeRecord) bool {
		if r.Owner != 0 {
			out = append(out, r.Path)
			if _, ok := x.tree.Session(r.Owner); !ok {
				s.t.Fatalf("server %d: %s is of session %#x, which there is not", x.id, r.Path, uint64(r.Owner))
			}
		}
		return true
	})
	return out
}

// same fails unless all servers that are up have the same ephemerals (C5); it returns them.
func (s *simulation) same() []string {
	var first []string
	at := 0
	for _, x := range s.nodes {
		if x == nil {
			continue
		}
		got := s.ephemerals(x)
		if at != 0 && !slices.Equal(got, first) {
			s.t.Fatalf("server %d has %v, server %d has %v", at, first, x.id, got)
		}
		first, at = got, x.id
	}
	s.check()
	return first
}

func seeds(short int) int {
	if long() {
		return 20 * short
	}
	return short
}

// TestFieldC4EphemeralOfADeadFollower: a follower and its client die while an ephemeral is on its way. It is gone
// everywhere within timeout + 3 ticks, or never was.
func TestFieldC4EphemeralOfADeadFollower(t *testing.T) {
	created, never := 0, 0
	for seed := range seeds(100) {
		rnd := rand.New(rand.NewPCG(uint64(seed), 4))
		s := newSimulation(t, 3, 0)
		s.run(50)
		f := s.leader()%3 + 1
		c := s.open(f, 4000, nil)
		s.run(10)
		s.submit(c, ephemeral("/e"))
		s.turns(rnd, rnd.IntN(24))
		s.crash(f)
		s.run(5)
		if e := s.same(); len(e) > 0 {
			created++
		} else {
			never++
		}
		s.run(quanta(4*time.Second + 3*tick))
		if e := s.same(); len(e) != 0 {
			t.Fatalf("seed %d: %v outlives its session:\n%s", seed, e, s.out.String())
		}
		s.boot(f)
		s.run(100)
		if e := s.same(); len(e) != 0 {
			t.Fatalf("seed %d: %v came back with the follower", seed, e)
		}
	}
	t.Logf("created %d times, never %d times", created, never)
	if created == 0 || never == 0 {
		t.Error("one of the cases never came up")
	}
}

// TestFieldC5EphemeralOverLeaderChanges: the leader dies while it broadcasts the creation of an ephemeral. The others
// agree on it, when the session ends too, and over the next change of leaders.
func TestFieldC5EphemeralOverLeaderChanges(t *testing.T) {
	survived, lost := 0, 0
	for seed := range seeds(60) {
		rnd := rand.New(rand.NewPCG(uint64(seed), 5))
		s := newSimulation(t, 3, 0)
		s.run(50)
		l := s.leader()
		c := s.open((l+rnd.IntN(2))%3+1, 4000, nil)
		s.run(10)
		s.submit(c, ephemeral("/e"))
		s.turns(rnd, rnd.IntN(24))
		s.crash(l)
		s.run(100)
		if e := s.same(); len(e) > 0 {
			survived++
		} else {
			lost++
		}
		if seed%2 == 0 {
			s.boot(l)
			s.run(100)
		}
		c.closed = true
		s.push(c.server, Detach{Conn: c.num})
		s.run(quanta(4*time.Second + 3*tick))
		if e := s.same(); len(e) != 0 {
			t.Fatalf("seed %d: %v outlives its session:\n%s", seed, e, s.out.String())
		}
		if s.nodes[l-1] == nil {
			s.boot(l)
			s.run(100)
		}
		s.crash(s.leader())
		s.run(100)
		if e := s.same(); len(e) != 0 {
			t.Fatalf("seed %d: %v came back with the next leader", seed, e)
		}
	}
	t.Logf("survived the leader %d times, lost %d times", survived, lost)
	if survived == 0 || lost == 0 {
		t.Error("one of the cases never came up")
	}
}

// TestFieldC7DelayedRevalidation: a session moves to server 2 while a revalidation by server 1 is still on its way. The
// client that sends only multis from then on loses one request at most, and works.
func TestFieldC7DelayedRevalidation(t *testing.T) {
	lost := 0
	for seed := range seeds(20) {
		rnd := rand.New(rand.NewPCG(uint64(seed), 7))
		s := newSimulation(t, 3, 0)
		s.run(50)
		l := s.leader()
		one, two := l%3+1, (l+1)%3+1
		c := s.open(one, 10000, nil)
		s.run(10)
		s.links[key(one, l)].held[l] = true
		stale := s.open(one, 10000, c)
		s.run(rnd.IntN(5))
		c.closed, stale.closed = true, true // the client has given both up; the server may not know yet
		now := s.open(two, 10000, c)
		s.run(1 + rnd.IntN(5))
		if now.session != c.session {
			t.Fatalf("seed %d: no session at server %d:\n%s", seed, two, s.out.String())
		}
		s.links[key(one, l)].held[l] = false
		failed, done := 0, 0
		for i := range 20 {
			path := fmt.Sprintf("/m%d", i)
			s.submit(now, &znode.Request{Op: znode.OpMulti, Multi: []znode.Request{{
				Op: znode.OpCreate, Path: path, ACL: openACL, TTL: -1, Version: -1,
			}}})
			s.run(rnd.IntN(3))
			s.run(5)
			if _, code := s.nodes[two-1].tree.Exists(path, nil); code == znode.OK {
				done++
			} else if failed++; now.closed {
				now = s.open(two, 10000, c)
				s.run(5)
			}
		}
		if failed > 1 || done < 19 || now.closed {
			t.Fatalf("seed %d: %d requests failed, %d done:\n%s", seed, failed, done, s.out.String())
		}
		lost += failed
	}
	t.Logf("%d requests failed", lost)
	if lost == 0 {
		t.Error("the late revalidation disturbed nobody: nothing was shown")
	}
}

// TestFieldA13WallClockJumps: the wall clock of every server jumps by hours, back and forth, also during an election. No
// session that is heard of expires, one that is silent does within timeout + 2 ticks, and elections take as long as ever.
func TestFieldA13WallClockJumps(t *testing.T) {
	s := newSimulation(t, 3, 0)
	jump := int64(0)
	silent := map[int64]bool{}
	step := func() {
		for _, x := range s.nodes {
			if x == nil {
				continue
			}
			var ts []peer.Touch
			for _, c := range s.sortedConns() {
				if c.server == x.id && c.session != 0 && !c.closed && !silent[c.session] {
					ts = append(ts, peer.Touch{Session: c.session, Timeout: 4000})
				}
			}
			if len(ts) > 0 {
				x.in = append(x.in, Touched{Sessions: ts})
			}
			x.in = append(x.in, Clock{WallMs: 1_700_000_000_000 + s.now.Milliseconds() + jump})
		}
		s.run(1)
	}
	steps := func(d time.Duration) {
		for range quanta(d) {
			step()
		}
	}
	steps(tick)
	var all []*simConn
	for i := range 50 {
		all = append(all, s.open(i%3+1, 4000, nil))
		step()
	}
	steps(tick)
	sessions := func(id int) int { return s.nodes[id-1].tree.SessionCount() }
	want := 50
	for _, j := range []time.Duration{time.Hour, -time.Hour, -time.Second, 0, 365 * 24 * time.Hour} {
		jump = j.Milliseconds()
		victim := all[0]
		all = all[1:]
		silent[victim.session] = true
		steps(4*time.Second - tick)
		l := s.leader()
		if n := sessions(l); n != want {
			t.Fatalf("jump of %v: %d sessions, want %d", j, n, want)
		}
		steps(3 * tick)
		want--
		if n := sessions(l); n != want {
			t.Fatalf("jump of %v: %d sessions after a silent one's time, want %d", j, n, want)
		}
		if s.nodes[l-1].m.wall < 1_690_000_000_000 {
			t.Fatal("the clock did not reach the server")
		}
	}
	// And in an election: the second clock goes back while the others vote.
	l := s.leader()
	for _, c := range all {
		if c.server == l {
			silent[c.session] = true // its connection dies with the server
		}
	}
	s.crash(l)
	for i := range quanta(time.Second) {
		jump = int64(-1000 * (i % 3))
		step()
	}
	next := s.leader()
	if n := sessions(next); n != want {
		t.Fatalf("%d sessions after the election, want %d", n, want)
	}
	dead := 0
	for _, c := range all {
		if c.server == l {
			dead++
		}
	}
	steps(4*time.Second + 2*tick)
	if n := sessions(next); n != want-dead {
		t.Fatalf("%d sessions of %d live ones, %d are dead", n, want-dead, dead)
	}
}

// TestFieldC3NewLeaderExpiresNobody: the leader of 200 sessions dies, and the election takes most of their timeout. All
// that come back find their sessions; the others end, not sooner than their timeout after the election. A machine that is
// too busy for a timeout gets a longer one.
func TestFieldC3NewLeaderExpiresNobody(t *testing.T) {
	t.Parallel()
	timeout := 2 * time.Second
	for !newLeaderExpiresNobody(t, timeout) {
		if timeout *= 3; timeout > time.Minute {
			t.Fatal("sessions end while they are alive, or nothing is quick enough here for a timeout of a minute")
		}
	}
}

// newLeaderExpiresNobody returns false, having shown nothing, when this machine is too slow for the timeout.
func newLeaderExpiresNobody(t *testing.T, timeout time.Duration) bool {
	e := newEnsemble(t, 3, func(o *Options) { o.MinSessionTimeout = 900 * time.Millisecond })
	l, f := e.leader(), e.follower()
	all := make([]session.AttachResult, 200)
	var made, alive sync.WaitGroup
	stop := make(chan struct{})
	var ended atomic.Bool
	for i := range all {
		x := f
		if i%2 == 0 {
			x = l
		}
		made.Add(1)
		alive.Go(func() { // ends with stop
			done := sync.OnceFunc(made.Done)
			defer done()
			k := x.connect(session.Attach{Timeout: int32(timeout.Milliseconds())})
			defer k.release()
			if l, err := k.call(createReq(fmt.Sprintf("/e%d", i), "", 1)); err != nil || l.Err != znode.OK {
				ended.Store(true)
				return
			}
			all[i] = k.res
			done()
			for {
				if l, err := k.call(getReq("/")); err != nil || l.Err != znode.OK {
					ended.Store(true)
					return
				}
				select {
				case <-stop:
					return
				case <-time.After(timeout / 10):
				}
			}
		})
	}
	made.Wait()
	e.agree()
	last := time.Now()
	close(stop)
	alive.Wait()
	if ended.Load() || time.Since(last) > timeout*4/10 {
		e.end()
		return false
	}
	e.kill(l)
	e.net.down(f) // the two that are left cannot elect
	<-time.After(time.Until(last.Add(timeout * 8 / 10)))
	for _, x := range e.nodes {
		x.until("no leader", func(s Status) bool { return !s.Serving })
	}
	e.net.up(f)
	next := e.leader()
	elected := time.Now()
	var late atomic.Bool
	var wg sync.WaitGroup
	for _, a := range all[:150] {
		wg.Go(func() { // ends when the session is back
			k := f.reconnect(a)
			if !k.res.OK && time.Since(elected) > timeout*8/10 {
				late.Store(true)
			} else if !k.res.OK || k.res.Session != a.Session || k.res.Timeout != a.Timeout {
				t.Errorf("session %#x came back as %+v", uint64(a.Session), k.res)
			}
			k.release()
		})
	}
	wg.Wait()
	n, d := next.r.Status().Sessions, time.Since(elected)
	if late.Load() || d > timeout*8/10 {
		e.end()
		return false
	}
	if n != 200 {
		t.Errorf("%d sessions %v after the election", n, d)
	}
	next.until("the dead sessions end", func(s Status) bool { return s.Sessions <= 150 })
	if d := time.Since(elected); d < timeout*9/10 {
		t.Errorf("sessions ended %v after the election, their timeout is %v", d, timeout)
	}
	next.until("their ephemerals too", func(s Status) bool { return s.Ephemerals == s.Sessions })
	e.agree()
	e.end()
	return true
}

// TestFieldC17CloseFlood: thousands of sessions expire at once. Those that are alive go on, and the dead are gone soon.
func TestFieldC17CloseFlood(t *testing.T) {
	t.Parallel()
	const live, timeout = 50, 2 * time.Second
	const patient = 20 * time.Second // of those that are alive: what they live through is the flood, not this machine
	dead := 1500
	if long() {
		dead = 5000
	}
	e := newEnsemble(t, 3)
	l, f := e.leader(), e.follower()
	stop := make(chan struct{})
	var wg sync.WaitGroup
	for i := range live {
		k := []*node{l, f}[i%2].connect(session.Attach{Timeout: int32(patient.Milliseconds())})
		wg.Go(func() { // ends with stop
			defer func() { k.release() }()
			for {
				if l, err := k.call(getReq("/")); err != nil { // a leader change, on a machine with much else to do
					k.release()
					k = k.x.reconnect(k.res)
					if !k.res.OK {
						t.Error("a session that is alive has ended")
						return
					}
				} else if l.Err != znode.OK {
					t.Errorf("%+v", l)
					return
				}
				select {
				case <-stop:
					return
				case <-time.After(100 * time.Millisecond):
				}
			}
		})
	}
	var opened sync.WaitGroup
	slots := make(chan struct{}, 100)
	for i := range dead {
		slots <- struct{}{}
		opened.Go(func() { // ends when the session is there
			defer func() { <-slots }()
			k := []*node{l, f}[i%2].connect(session.Attach{Timeout: int32(timeout.Milliseconds())})
			k.release()
		})
	}
	opened.Wait()
	began := time.Now()
	l.until("the dead sessions end", func(s Status) bool { return s.Sessions == live })
	limit := timeout + 15*time.Second
	if long() { // as stated, on a machine that does nothing else
		limit = timeout + 5*time.Second
	}
	if d := time.Since(began); d > limit {
		t.Errorf("it took %v", d)
	}
	close(stop)
	wg.Wait()
	e.agree()
	e.end()
}
