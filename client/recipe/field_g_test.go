package recipe

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/zkserver/zkserver/client"
	"github.com/zkserver/zkserver/client/zktest"
)

// The tests of this file are named after the entries of docs/field-reports.md.

// full is long in the long form, else short.
func full[T any](short, long T) T {
	if os.Getenv("ZKSERVER_FULL") != "" {
		return long
	}
	return short
}

// withinSecond is what a report asks for as "within a second". Machines can be busy, so only the long form does: it wants
// one that does nothing else.
func withinSecond() time.Duration { return full(patience/2, time.Second) }

// TestFieldG5ReconnectsInBothOrders: who leads and who waits are cut off and come back one before the other, the leader
// with its session or without. Nobody leads beside another, and in the end one leads.
func TestFieldG5ReconnectsInBothOrders(t *testing.T) {
	onBothWires(t, func(e *env) {
		admin := e.dial()
		for i, round := range []struct{ leaderFirst, expires bool }{{true, false}, {false, false}, {true, true}, {false, true}} {
			path := fmt.Sprintf("/election-%d", i)
			var gates [2]gate
			var clients [2]*client.Client
			for i := range clients {
				clients[i] = e.dialWith(client.Options{DialContext: gates[i].dial})
			}
			j := &judge{}
			campaign := func(c *client.Client) (*Hold, error) {
				h, err := NewElection(c, path, Options{}).Campaign(e.ctx)
				if err == nil {
					j.begins(h)
				}
				return h, err
			}
			h := e.hold(campaign(clients[0]))
			waits := background(func() (*Hold, error) { return campaign(clients[1]) })
			e.children(admin, path, 2)
			states := [2]*client.Subscription{clients[0].Subscribe(), clients[1].Subscribe()}
			for i := range gates {
				e.await(states[i], client.Connected)
				gates[i].shut()
			}
			e.s.Cut()
			for i := range gates {
				e.await(states[i], client.Suspended)
			}
			if round.expires {
				e.ok(e.s.Expire(clients[0].Session()))
				if err := context.Cause(h.Context()); !errors.Is(err, client.ErrLost) {
					h.end(client.ErrLost) // its session was ended before its time, which it cannot know of: nobody's fault
				}
			}
			order := []int{0, 1}
			if !round.leaderFirst {
				order = []int{1, 0}
			}
			for _, i := range order {
				gates[i].open()
				want := client.Connected
				if i == 0 && round.expires {
					want = client.Expired
				}
				e.await(states[i], want)
			}
			if !round.expires {
				e.ok(h.Context().Err())
				e.children(admin, path, 2)
				if len(waits) != 0 {
					e.Errorf("%+v: the other one: %+v", round, <-waits)
				}
				e.ok(h.Release(e.ctx))
			}
			next := e.got(waits)
			e.children(admin, path, 1)
			e.ok(next.Context().Err())
			e.ok(next.Release(e.ctx))
			for _, f := range j.faults() {
				e.Errorf("%+v: %s", round, f)
			}
		}
	})
}

// TestFieldG7NoHerd: the end of one Hold makes one event, for who is next, of all sessions that wait. ZKSERVER_FULL=1 has
// 200 of them, and lets all have the lock in turn.
func TestFieldG7NoHerd(t *testing.T) {
	n := full(40, 200)
	onBothWires(t, func(e *env) {
		admin, holder := e.dial(), e.dial()
		h := e.hold(NewMutex(holder, "/m", Options{}).Lock(e.ctx))
		ctx, cancel := context.WithCancel(e.ctx)
		defer cancel()
		type waiter struct {
			c      *client.Client
			events *client.EventStream
		}
		waiters := make(map[int64]*waiter) // by session
		all := make(chan taken, n)
		for range n {
			c := e.dial()
			waiters[c.Session().ID] = &waiter{c, c.Events()}
			go func() { // ends with ctx
				h, err := NewMutex(c, "/m", Options{}).Lock(ctx)
				all <- taken{h, err}
			}()
		}
		e.children(admin, "/m", n+1)
		// All have armed their watch: each looks at the one before it.
		names, _, err := admin.Children(e.ctx, "/m")
		e.ok(err)
		inLine := line(names)
		for i, p := range inLine[1:] {
			st, _, err := admin.Exists(e.ctx, "/m/"+p.name)
			e.ok(err)
			for waiters[st.EphemeralOwner].c.CheckWatches(e.ctx, "/m/"+inLine[i].name, client.WatchersData) != nil {
				e.ok(e.ctx.Err())
			}
		}
		for round := range full(2, n) {
			released := h.Path()
			before := h.s.c.Session().ID // the one that releases has a watch of its own node
			e.ok(h.Release(e.ctx))
			h = e.got(all)
			var synced sync.WaitGroup
			for _, w := range waiters {
				synced.Go(func() {
					if err := w.c.Sync(e.ctx, "/m"); err != nil { // its answer is behind every event
						e.Error(err)
					}
				})
			}
			synced.Wait()
			events := 0
			for id, w := range waiters {
				for len(w.events.C) > 0 {
					if ev := <-w.events.C; id != before {
						events++
						if ev.Type != client.EventDeleted || ev.Path != released || id != h.s.c.Session().ID {
							e.Errorf("round %d: session %#x has %+v, %#x is next", round, id, ev, h.s.c.Session().ID)
						}
					}
				}
			}
			if want := "/m/" + inLine[round+1].name; events != 1 || h.Path() != want {
				e.Fatalf("round %d: %d events; %s has the lock, next was %s", round, events, h.Path(), want)
			}
		}
		cancel()
		e.ok(h.Release(e.ctx))
		e.children(admin, "/m", 0)
	})
}

// TestFieldG8ManyCachesAfterAnOutage: caches of 500 nodes, each by a session of its own, are cut off while nodes come, go
// and are made anew with the same data and version. When they are let back, all are told so, show what is there within a
// second (on gRPC two), and have read the data of what has changed only. ZKSERVER_FULL=1 has 50 of them.
func TestFieldG8ManyCachesAfterAnOutage(t *testing.T) {
	for _, w := range []client.Wire{client.ZooKeeper, client.GRPC} {
		t.Run(w.String(), func(t *testing.T) { // one after the other: time counts
			ctx, cancel := context.WithTimeout(context.Background(), patience)
			defer cancel()
			manyCaches(&env{T: t, s: zktest.Start(t), ctx: ctx, wire: w}, full(2, 50))
		})
	}
}

func manyCaches(e *env, caches int) {
	const nodes = 500
	admin, door := e.dial(), &gate{}
	e.ok(ensure(e.ctx, admin, "/t", nil, nil))
	path := func(i int) string { return fmt.Sprintf("/t/n%03d", i) }
	for i := 0; i < nodes; i += 100 {
		var ops []client.Op
		for k := range 100 {
			ops = append(ops, client.CreateOp{Path: path(i + k), Data: []byte("x"), Mode: client.Persistent})
		}
		_, err := admin.Multi(e.ctx, ops...)
		e.ok(err)
	}
	var all []*Cache
	var told []*follower
	var spies []*spy
	for range caches {
		// The spy's own gate stays open; it looks at what leaves through the door.
		s := &spy{raw: e.wire == client.GRPC}
		c := e.dialWith(client.Options{DialContext: func(ctx context.Context, network, addr string) (net.Conn, error) {
			if err := door.pass(ctx); err != nil {
				return nil, err
			}
			return s.dial(ctx, network, addr)
		}})
		cache := NewTreeCache("/t")
		e.run(func(ctx context.Context) error { return cache.Run(ctx, c) })
		all, told, spies = append(all, cache), append(told, follow(e.ctx, cache)), append(spies, s)
	}
	for i, c := range all {
		e.ok(c.WaitSynced(e.ctx))
		told[i].agrees(e, c)
	}
	reads := make([]int, caches)
	for i, s := range spies {
		reads[i] = s.count(opGetData)
	}
	door.shut()
	e.s.Cut()
	for _, c := range all {
		e.until("stale", c, func() bool { return !c.Synced() })
	}
	e.ok(do(e.ctx, admin, func() error { return admin.Sync(e.ctx, "/") })) // it is back
	const changed = 10
	for i := range changed {
		_, err := admin.Create(e.ctx, path(nodes+i), []byte("new"), client.Persistent)
		e.ok(err)
		e.ok(remove(e.ctx, admin, path(i)))
		e.ok(remove(e.ctx, admin, path(100+i)))
		_, err = admin.Create(e.ctx, path(100+i), []byte("x"), client.Persistent)
		e.ok(err)
	}
	began := time.Now()
	door.open()
	for _, c := range all {
		e.ok(c.WaitSynced(e.ctx))
	}
	d := time.Since(began)
	e.shows(admin, all[0])
	want := all[0].Nodes()
	for i, c := range all {
		same := slices.EqualFunc(c.Nodes(), want, func(a, b CacheNode) bool {
			return a.Path == b.Path && bytes.Equal(a.Data, b.Data) && a.Stat.Czxid == b.Stat.Czxid && a.Stat.Mzxid == b.Stat.Mzxid
		})
		if !same {
			e.Errorf("cache %d does not show what is there", i)
		}
		told[i].agrees(e, c)
	}
	e.Logf("%d caches of %d nodes show what is there after %v", caches, nodes, d)
	limit := withinSecond()
	if e.wire == client.GRPC {
		limit *= 2 // all of the 25,000 requests, and who answers them, are in this process
	}
	if d > limit {
		e.Errorf("the last one of %d caches shows what is there after %v", caches, d)
	}
	for i, s := range spies {
		if n := s.count(opGetData) - reads[i]; !s.raw && (n < 2*changed || n > 3*changed) {
			e.Errorf("cache %d has read the data of %d nodes, %d have changed", i, n, 2*changed)
		}
	}
}

// TestFieldG9Close: Close ends in about a second while a server says nothing, takes nothing, or is not there, with as many
// requests under way as there is room for; and so do the calls. On a real connection, of each wire.
func TestFieldG9Close(t *testing.T) {
	for _, w := range []client.Wire{client.ZooKeeper, client.GRPC} {
		for _, state := range []string{"serves", "says nothing", "takes nothing", "is not there"} {
			t.Run(fmt.Sprintf("%v %s", w, state), func(t *testing.T) {
				t.Parallel()
				ctx, cancel := context.WithTimeout(context.Background(), patience)
				defer cancel()
				closeIn(&env{T: t, s: zktest.Start(t), ctx: ctx, wire: w}, state)
			})
		}
	}
}

func closeIn(e *env, state string) {
	const room = 64
	ice := &frozen{factor: 1}
	c := e.dialWith(client.Options{DialContext: ice.dial, MaxPending: room})
	states := c.Subscribe()
	e.await(states, client.Connected)
	switch state {
	case "says nothing":
		e.s.Pause()
		defer e.s.Resume()
	case "takes nothing":
		ice.freeze()
		defer ice.thaw()
	case "is not there":
		ice.freeze()
		defer ice.thaw()
		ice.cut()
		e.await(states, client.Suspended)
	}
	calls := make(chan error, 2*room)
	var begun sync.WaitGroup
	begun.Add(cap(calls))
	for range cap(calls) {
		go func() { // ends with Close
			begun.Done()
			_, err := c.Set(e.ctx, "/none", make([]byte, 64<<10), client.AnyVersion)
			calls <- err
		}()
	}
	begun.Wait()
	for state == "takes nothing" && ice.stuck.Load() == 0 { // in a write
		wait(e.ctx, time.Millisecond)
		e.ok(e.ctx.Err())
	}
	began := time.Now()
	err := c.Close()
	d := time.Since(began)
	if late := errors.Is(err, client.ErrOperationTimeout); state == "serves" && err != nil && !late || state != "serves" && err == nil {
		e.Errorf("Close: %v", err)
	}
	for range cap(calls) {
		if err := <-calls; !errors.Is(err, client.ErrClosed) && (state != "serves" || !errors.Is(err, client.ErrNoNode)) {
			e.Errorf("a call gave %v", err)
		}
	}
	if _, _, err := c.Get(e.ctx, "/"); !errors.Is(err, client.ErrClosed) {
		e.Errorf("a call after Close gave %v", err)
	}
	e.ok(c.Close())
	e.Logf("Close took %v, all of it %v", d, time.Since(began))
	if d > withinSecond()+time.Second/2 { // for the answer a second, then the connection is given up
		e.Errorf("Close took %v", d)
	}
}

// TestFieldG10Restarts: a client sees its server restart, and makes watches and stops them. There is one connection, as
// many goroutines as before, and no watch but the one that is wanted; the end of the client closes that one's channel. The
// long form has a hundred restarts, and a hundred watches after each.
func TestFieldG10Restarts(t *testing.T) {
	restarts := full(3, 100)
	for _, w := range []client.Wire{client.ZooKeeper, client.GRPC} {
		t.Run(w.String(), func(t *testing.T) { // not beside others: goroutines are counted
			ctx, cancel := context.WithTimeout(context.Background(), 5*patience)
			defer cancel()
			e := &env{T: t, s: zktest.Start(t, zktest.Config("4lw.commands.whitelist=*")), ctx: ctx, wire: w}
			var open atomic.Int64
			c := e.dialWith(client.Options{SessionTimeout: 30 * time.Second, DialContext: func(ctx context.Context, network, addr string) (net.Conn, error) {
				conn, err := (&net.Dialer{}).DialContext(ctx, network, addr)
				if err == nil {
					open.Add(1)
					conn = &countedConn{Conn: conn, open: &open}
				}
				return conn, err
			}})
			id := c.Session().ID
			_, _, kept, err := c.ExistsW(ctx, "/kept")
			e.ok(err)
			before := 0
			for i := range restarts + 1 {
				if i > 0 {
					e.ok(e.s.Restart())
				}
				for k := range 100 {
					e.ok(do(ctx, c, func() error {
						_, _, w, err := c.ExistsW(ctx, fmt.Sprintf("/w%d", k))
						if err == nil {
							w.Stop()
							if _, ok := <-w.C; ok {
								e.Error("an event of a watch that was stopped")
							}
						}
						return err
					}))
				}
				if i == 0 {
					before = runtime.NumGoroutine()
				}
				for runtime.NumGoroutine() > before || open.Load() != 1 {
					if wait(ctx, 5*time.Millisecond); ctx.Err() != nil {
						e.Fatalf("restart %d: %d goroutines, before %d; %d connections", i, runtime.NumGoroutine(), before, open.Load())
					}
				}
			}
			if got := c.Session().ID; got != id {
				e.Errorf("session %#x became %#x", id, got)
			}
			e.Logf("%d restarts, %d goroutines as before", restarts, before)
			e.ok(c.Close())
			ev, ok := <-kept.C
			if _, more := <-kept.C; !ok || more || ev.Type != client.EventLost || !errors.Is(ev.Err, client.ErrClosed) {
				e.Errorf("the watch's last event: %+v, %v", ev, ok)
			}
			if n := open.Load(); n != 0 {
				e.Errorf("%d connections after Close", n)
			}
		})
	}
}

// countedConn counts a connection as long as it is open.
type countedConn struct {
	net.Conn
	once sync.Once
	open *atomic.Int64
}

func (c *countedConn) Close() error {
	c.once.Do(func() { c.open.Add(-1) })
	return c.Conn.Close()
}

// TestFieldG11HandlersCallTheClient: who handles states and events calls the client in that: it reads while there is no
// connection, gives a lock back, closes the client. Nothing waits for it, so nothing hangs, and the last state is told.
func TestFieldG11HandlersCallTheClient(t *testing.T) {
	onBothWires(t, func(e *env) {
		c, admin := e.dial(), e.dial()
		h := e.hold(NewMutex(c, "/m", Options{}).Lock(e.ctx))
		_, _, w, err := c.ExistsW(e.ctx, "/n")
		e.ok(err)
		states, released, over := c.Subscribe(), make(chan struct{}), make(chan client.State, 1)
		go func() { // ends with the client
			var last client.State
			var once sync.Once
			for ch := range states.C {
				last = ch.State
				if last != client.Suspended {
					continue
				}
				once.Do(func() {
					// It waits for the next connection, of which nobody is told before it returns.
					if err := do(e.ctx, c, func() error { _, _, err := c.Get(e.ctx, "/"); return err }); err != nil {
						e.Errorf("a read in the handler of a disconnect: %v", err)
					}
					if err := h.Release(e.ctx); err != nil {
						e.Errorf("a release in the handler of a disconnect: %v", err)
					}
					close(released)
				})
			}
			over <- last
		}()
		closed := make(chan error, 1)
		go func() { // ends with the watch
			<-w.C
			if err := do(e.ctx, c, func() error { _, _, err := c.Get(e.ctx, "/n"); return err }); err != nil {
				e.Errorf("a read in the handler of an event: %v", err)
			}
			closed <- c.Close()
		}()
		e.cut(admin)
		select {
		case <-released:
		case <-e.ctx.Done():
			e.Fatal("what handles states hangs")
		}
		e.children(admin, "/m", 0)
		_, err = admin.Create(e.ctx, "/n", nil, client.Persistent)
		e.ok(err)
		select {
		case err := <-closed:
			if err != nil && !errors.Is(err, client.ErrOperationTimeout) {
				e.Error(err)
			}
		case <-e.ctx.Done():
			e.Fatal("Close in the handler of an event does not return")
		}
		if last := <-over; last != client.Closed {
			e.Errorf("the last state told is %v", last)
		}
	})
}

// TestFieldG19EndOfContext: the goroutine that works under a lock has crashed, and nobody closes the client: the end of the
// context that the session was run by ends the session, and frees the lock within a second.
func TestFieldG19EndOfContext(t *testing.T) {
	onBothWires(t, func(e *env) {
		admin, other := e.dial(), e.dial()
		_, err := admin.Create(e.ctx, "/sessions", nil, client.Persistent)
		e.ok(err)
		ctx, cancel := context.WithCancel(e.ctx)
		defer cancel()
		crashed, over := make(chan any, 1), make(chan error, 1)
		go func() { // ends with ctx
			over <- Lead(ctx, func(ctx context.Context) (*client.Client, error) {
				c, err := client.Dial(ctx, e.s.Addr(), client.Options{Wire: e.wire, SessionTimeout: 10 * time.Minute})
				if err == nil {
					_, err = c.Create(ctx, "/sessions/s", nil, client.Ephemeral) // whatever else the program has
				}
				return c, err
			}, "/m", Options{}, func(h *Hold) error {
				go func() { // it crashes
					defer func() { crashed <- recover() }()
					panic("a fault of the program")
				}()
				<-h.Context().Done()
				return nil
			})
		}()
		if r := <-crashed; r == nil {
			e.Error("it has not crashed")
		}
		next := background(func() (*Hold, error) { return NewElection(other, "/m", Options{}).Campaign(e.ctx) })
		e.children(admin, "/m", 2)
		began := time.Now()
		cancel()
		h := e.got(next)
		e.children(admin, "/sessions", 0)
		d := time.Since(began)
		e.Logf("the lock is had by the next, and the session is over, %v after the end of the context", d)
		if d > withinSecond() {
			e.Errorf("the lock is had by the next, and the session is over, %v after the end of the context", d)
		}
		if err := <-over; !errors.Is(err, context.Canceled) {
			e.Errorf("Lead: %v", err)
		}
		e.ok(h.Release(e.ctx))
		e.children(admin, "/m", 0)
	})
}
