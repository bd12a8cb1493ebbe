package livetest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/zkserver/zkserver/client"
	"github.com/zkserver/zkserver/client/recipe"
)

// The tests of this file are named after the entries of docs/field-reports.md.

// crowd is how many clients a test has.
func crowd(short, long int) int {
	if os.Getenv("ZKSERVER_FULL") != "" {
		return long
	}
	return short
}

// TestFieldG13Chroot: below a chroot paths are without it, exactly once, in results, events and errors; a chroot that does
// not exist is told of as such, and watches are registered again by their whole paths.
func TestFieldG13Chroot(t *testing.T) {
	e := startEnsemble(t, 1)
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	for _, w := range wires {
		t.Run(w.String(), func(t *testing.T) {
			root := "/app-" + w.String()
			dial := func(chroot string) *client.Client {
				c, err := client.Dial(ctx, e.addrs[0]+chroot, client.Options{Wire: w, SessionTimeout: 30 * time.Second})
				if err != nil {
					t.Fatal(err)
				}
				return c
			}
			c, plain := dial(root), dial("")
			defer closeClient(t, c)
			defer closeClient(t, plain)
			var fault *client.Error
			if _, _, err := c.Get(ctx, "/"); !errors.Is(err, client.ErrNoNode) || !errors.As(err, &fault) || fault.Path != "/" {
				t.Errorf("a chroot that does not exist: %v", err)
			}
			if _, err := c.Create(ctx, "/x", nil, client.Persistent); !errors.Is(err, client.ErrNoNode) || !errors.As(err, &fault) || fault.Path != "/x" {
				t.Errorf("a create below it: %v", err)
			}
			if p, err := c.Create(ctx, "/", nil, client.Persistent); err != nil || p != "/" {
				t.Errorf("the chroot itself is created as %q: %v", p, err)
			}
			if _, ok, err := plain.Exists(ctx, root); err != nil || !ok {
				t.Errorf("the chroot: %v %v", ok, err)
			}
			seq, err := c.Create(ctx, "/x"+root+"-", nil, client.PersistentSequential)
			if !errors.Is(err, client.ErrNoNode) {
				t.Errorf("a create without its parent: %q %v", seq, err)
			}
			if seq, err = c.Create(ctx, root, nil, client.Persistent); err != nil || seq != root { // the chroot's name below it
				t.Errorf("created as %q: %v", seq, err)
			}
			if seq, err = c.Create(ctx, root+root+"-", nil, client.EphemeralSequential); err != nil || seq != root+root+"-0000000000" {
				t.Errorf("created as %q: %v", seq, err)
			}
			if es, err := c.Ephemerals(ctx, root); err != nil || !slices.Equal(es, []string{seq}) {
				t.Errorf("ephemerals: %q %v", es, err)
			}
			if err := c.Sync(ctx, root); err != nil {
				t.Error(err)
			}
			if err := c.Delete(ctx, seq+"-", client.AnyVersion); !errors.As(err, &fault) || fault.Path != seq+"-" {
				t.Errorf("the path of an error: %v", err)
			}
			_, _, self, err := c.GetW(ctx, "/")
			if err != nil {
				t.Fatal(err)
			}
			_, _, kids, err := c.ChildrenW(ctx, root)
			if err != nil {
				t.Fatal(err)
			}
			e.stop(0)
			e.start(0)
			e.serves(0)
			for _, p := range []string{root + root + "/late", root} {
				for {
					var err error
					if p == root {
						_, err = plain.Set(ctx, p, []byte("new"), client.AnyVersion)
					} else {
						_, err = plain.Create(ctx, p, nil, client.Persistent)
					}
					if err == nil || errors.Is(err, client.ErrNodeExists) {
						break
					}
					if !errors.Is(err, client.ErrConnectionLoss) {
						t.Fatal(err)
					}
				}
			}
			for _, x := range []struct {
				w    *client.Watch
				path string
				what client.EventType
			}{{self, "/", client.EventDataChanged}, {kids, root, client.EventChildrenChanged}} {
				select {
				case ev := <-x.w.C:
					if ev.Path != x.path || ev.Type != x.what {
						t.Errorf("event %+v, want %v of %s", ev, x.what, x.path)
					}
				case <-ctx.Done():
					t.Fatalf("no event of %s", x.path)
				}
			}
		})
	}
}

// TestFieldG15ReconnectStorm: the server of many clients restarts. All of them are back with their sessions. In the long
// form, with a thousand, they are so within five seconds, and afterwards nobody has anything to do.
func TestFieldG15ReconnectStorm(t *testing.T) {
	e := startEnsemble(t, 1)
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	clients := make([]*client.Client, crowd(60, 1000))
	for i := range clients {
		c, err := client.Dial(ctx, e.addrs[0], client.Options{Wire: wires[i%2], SessionTimeout: 60 * time.Second})
		if err != nil {
			t.Fatal(err)
		}
		defer c.Abandon()
		if _, err := c.Create(ctx, fmt.Sprintf("/e%d", i), nil, client.Ephemeral); err != nil {
			t.Fatal(err)
		}
		clients[i] = c
	}
	e.stop(0)
	e.start(0)
	began := time.Now()
	for i, c := range clients {
		_, st, _, err := retry(ctx, func() ([]byte, client.Stat, *client.Watch, error) {
			d, st, err := c.Get(ctx, fmt.Sprintf("/e%d", i))
			return d, st, nil, err
		})
		if err != nil || st.EphemeralOwner != c.Session().ID {
			t.Errorf("client %d: %+v, %v", i, st, err)
		}
	}
	back := time.Since(began)
	t.Logf("%d clients back after %v", len(clients), back)
	if os.Getenv("ZKSERVER_FULL") == "" {
		return
	}
	busy := processorTime(t)
	timer := time.NewTimer(2 * time.Second) // what is used meanwhile is measured
	<-timer.C
	busy = processorTime(t) - busy
	t.Logf("processor time in the two seconds after that: %v", busy)
	if back > 5*time.Second || busy > time.Second/2 {
		t.Errorf("%d clients back after %v; processor time in the two seconds after that: %v", len(clients), back, busy)
	}
}

// processorTime is what this process has used, servers and clients.
func processorTime(t *testing.T) time.Duration {
	t.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		t.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// TestFieldG17SharedClient: one client is used by many goroutines while its server goes and comes back: what authenticates,
// what asks for the session, what reads. The race detector looks on.
func TestFieldG17SharedClient(t *testing.T) {
	e := startEnsemble(t, 1)
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	for _, w := range wires {
		c, err := client.Dial(ctx, e.addrs[0], client.Options{Wire: w, SessionTimeout: 60 * time.Second})
		if err != nil {
			t.Fatal(err)
		}
		id := c.Session().ID
		var wg sync.WaitGroup
		var over atomic.Bool
		for k := range 4 {
			wg.Go(func() { // ends with over
				for i := 0; !over.Load(); i++ {
					if got := c.Session().ID; got != id {
						t.Errorf("session %#x became %#x", id, got)
						return
					}
					_, _, _ = c.State(), c.Server(), c.HoldUntil()
					err := c.AddAuth(ctx, "digest", fmt.Appendf(nil, "user%d:%d", k, i%3))
					if err == nil {
						_, _, err = c.Get(ctx, "/")
					}
					if err != nil && !errors.Is(err, client.ErrConnectionLoss) {
						t.Error(err)
						return
					}
				}
			})
		}
		for range 2 {
			e.stop(0)
			e.start(0)
			e.serves(0)
			if _, _, _, err := retry(ctx, func() ([]byte, client.Stat, *client.Watch, error) {
				d, st, err := c.Get(ctx, "/")
				return d, st, nil, err
			}); err != nil {
				t.Error(err)
			}
		}
		over.Store(true)
		wg.Wait()
		closeClient(t, c)
	}
}

// TestFieldF1RollingRestartUnderLoad: every server is restarted, the leader among them, under clients that write, watch each
// other and take one lock in turns. No session ends, no watch is lost, nobody has the lock beside another.
func TestFieldF1RollingRestartUnderLoad(t *testing.T) {
	e := startEnsemble(t, 3)
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
	defer cancel()
	n := crowd(8, 50)
	type user struct {
		c       *client.Client
		sub     *client.Subscription
		id      int64
		written atomic.Int64 // the last value, acknowledged
		shown   atomic.Int64 // what the neighbour's watch has shown
	}
	setup, err := client.Dial(ctx, strings.Join(e.addrs, ","), client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer closeClient(t, setup)
	for _, p := range []string{"/f1", "/turns"} {
		if _, err := setup.Create(ctx, p, []byte("0"), client.Persistent); err != nil {
			t.Fatal(err)
		}
	}
	users := make([]*user, n)
	node := func(i int) string { return fmt.Sprintf("/f1/%d", i%n) }
	for i := range users {
		c, err := client.Dial(ctx, strings.Join(e.addrs, ","), client.Options{Wire: wires[i%2], SessionTimeout: 60 * time.Second})
		if err != nil {
			t.Fatal(err)
		}
		defer c.Abandon()
		if _, err := c.Create(ctx, node(i), []byte("0"), client.Ephemeral); err != nil {
			t.Fatal(err)
		}
		users[i] = &user{c: c, sub: c.Subscribe(), id: c.Session().ID}
	}
	var over atomic.Bool
	var turns atomic.Int64
	var wg sync.WaitGroup
	lost := func(err error) bool { return errors.Is(err, client.ErrConnectionLoss) }
	for i, u := range users {
		wg.Go(func() { // writes until over
			for v := int64(1); !over.Load(); v++ {
				for {
					_, err := u.c.Set(ctx, node(i), fmt.Append(nil, v), client.AnyVersion)
					if err == nil {
						break
					}
					if !lost(err) {
						t.Errorf("client %d: %v", i, err)
						return
					}
				}
				u.written.Store(v)
				timer := time.NewTimer(20 * time.Millisecond)
				select {
				case <-timer.C:
				case <-ctx.Done():
					return
				}
			}
		})
		wg.Go(func() { // watches its neighbour until it has seen the last value
			next := users[(i+1)%n]
			for {
				d, _, w, err := u.c.GetW(ctx, node(i+1))
				if err != nil {
					if lost(err) {
						continue
					}
					t.Errorf("client %d watches: %v", i, err)
					return
				}
				var v int64
				if _, err := fmt.Sscan(string(d), &v); err != nil {
					t.Error(err)
					return
				}
				u.shown.Store(v)
				if over.Load() && v >= next.written.Load() {
					w.Stop()
					return
				}
				select {
				case <-w.C:
				case <-ctx.Done():
					t.Errorf("client %d waits for an event of %s, which has shown %d of %d", i, node(i+1), v, next.written.Load())
					return
				}
			}
		})
	}
	for _, u := range users[:4] {
		wg.Go(func() { // takes its turn until over
			m := recipe.NewMutex(u.c, "/lock", recipe.Options{})
			for !over.Load() {
				h, err := m.Lock(ctx)
				if err != nil {
					t.Errorf("lock: %v", err)
					return
				}
				for {
					d, st, err := u.c.Get(ctx, "/turns")
					if err == nil {
						var v int
						if _, err = fmt.Sscan(string(d), &v); err == nil {
							_, err = u.c.Set(ctx, "/turns", fmt.Append(nil, v+1), st.Version)
						}
					}
					if err == nil {
						break
					}
					if !lost(err) {
						t.Errorf("the holder is not alone: %v", err)
						break
					}
					// A lost reply may have been a success: the next one counts anew, more turns than were taken do no harm.
				}
				turns.Add(1)
				if err := h.Release(ctx); err != nil {
					t.Errorf("release: %v", err)
					return
				}
			}
		})
	}
	step := func(what string) {
		t.Helper()
		at, took := users[0].written.Load(), turns.Load()
		for users[0].written.Load() < at+5 || turns.Load() < took+3 {
			if ctx.Err() != nil || t.Failed() {
				over.Store(true)
				t.Fatalf("%s: no progress", what)
			}
			<-time.After(5 * time.Millisecond)
		}
	}
	step("at first")
	for i := range e.servers {
		e.stop(i)
		step(fmt.Sprintf("server %d is down", i+1))
		e.start(i)
		e.serves(i)
		step(fmt.Sprintf("server %d is back", i+1))
	}
	over.Store(true)
	for i, u := range users { // wakes who waits for an event
		for {
			if _, err := u.c.Set(ctx, node(i), fmt.Append(nil, u.written.Load()+1), client.AnyVersion); !lost(err) {
				break
			}
		}
	}
	wg.Wait()
	for i, u := range users {
		if got := u.c.Session().ID; got != u.id {
			t.Errorf("client %d: session %#x became %#x", i, u.id, got)
		}
		u.sub.Stop()
		for ch := range u.sub.C {
			if ch.State == client.Lost || ch.State == client.Expired {
				t.Errorf("client %d was told %v", i, ch.State)
			}
		}
	}
	t.Logf("%d turns, client 0 wrote %d times", turns.Load(), users[0].written.Load())
}
