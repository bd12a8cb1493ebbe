package recipe

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/zkserver/zkserver/client"
	"github.com/zkserver/zkserver/client/zktest"
)

// G18: the locks of other clients, by the names that they give their nodes.
func TestOthersLocks(t *testing.T) {
	onBothWires(t, func(e *env) {
		c, other := e.dial(), e.dial()
		for _, foreign := range []string{
			"/m/_c_5b6c1a6a-4a6e-4c3e-9a52-4a0f8c1f2f3e-lock-", // Curator
			"/m/_c_67c79fecc6104a7026bdd7c3ce773828-lock-",     // go-zookeeper
			"/m/67c79fecc6104a7026bdd7c3ce773828__lock__",      // kazoo
		} {
			m := NewMutex(c, "/m", Options{})
			e.ok(e.hold(m.Lock(e.ctx)).Release(e.ctx)) // makes the directory
			first, err := other.Create(e.ctx, foreign, nil, client.EphemeralSequential)
			e.ok(err)
			if _, err := m.TryLock(e.ctx); !errors.Is(err, ErrBusy) {
				e.Errorf("%s does not exclude: %v", foreign, err)
			}
			waits := background(func() (*Hold, error) { return m.Lock(e.ctx) })
			e.children(other, "/m", 2)
			second, err := other.Create(e.ctx, foreign, nil, client.EphemeralSequential)
			e.ok(err)
			e.ok(other.Delete(e.ctx, first, client.AnyVersion))
			h := e.got(waits)
			e.ok(h.Release(e.ctx))
			e.ok(other.Delete(e.ctx, second, client.AnyVersion))
		}
	})
}

func TestReentrant(t *testing.T) {
	onBothWires(t, func(e *env) {
		c := e.dial()
		m := NewMutex(c, "/m", Options{Reentrant: true})
		h := e.hold(m.Lock(e.ctx))
		again := e.hold(NewMutex(c, "/m", Options{Reentrant: true}).Lock(h.Context()))
		if again.Token() != h.Token() {
			e.Errorf("token %#x in %#x", again.Token(), h.Token())
		}
		if _, err := m.TryLock(e.ctx); !errors.Is(err, ErrBusy) {
			e.Errorf("somebody else: %v", err)
		}
		e.ok(again.Release(e.ctx))
		e.ok(h.Context().Err())
		e.ok(h.Release(e.ctx))
		if err := e.ended(h); !errors.Is(err, ErrReleased) {
			e.Errorf("ended by %v", err)
		}
		later := e.hold(m.Lock(context.WithoutCancel(h.Context()))) // the old one is no way in
		if later.Token() <= h.Token() {
			e.Errorf("token %#x after %#x", later.Token(), h.Token())
		}
		e.ok(later.Release(e.ctx))
	})
}

// G16: readers together, nobody passed, and the end of a writer that waits lets the readers behind it in.
func TestReadWrite(t *testing.T) {
	onBothWires(t, func(e *env) {
		c, writer := e.dial(), e.dial()
		m, w := NewRWMutex(c, "/rw", Options{}), NewRWMutex(writer, "/rw", Options{})
		r1, r2 := e.hold(m.RLock(e.ctx)), e.hold(m.TryRLock(e.ctx))
		if _, err := w.TryLock(e.ctx); !errors.Is(err, ErrBusy) {
			e.Errorf("a writer beside readers: %v", err)
		}
		waits := background(func() (*Hold, error) { return w.Lock(e.ctx) })
		e.children(c, "/rw", 3)
		if _, err := m.TryRLock(e.ctx); !errors.Is(err, ErrBusy) {
			e.Errorf("a reader passes a writer: %v", err)
		}
		e.ok(r1.Release(e.ctx))
		e.ok(r2.Release(e.ctx))
		h := e.got(waits)
		if h.Token() <= r2.Token() {
			e.Errorf("token %#x after %#x", h.Token(), r2.Token())
		}
		reads := background(func() (*Hold, error) { return m.RLock(e.ctx) })
		e.children(c, "/rw", 2)
		e.ok(h.Release(e.ctx))
		r1 = e.got(reads)

		waits = background(func() (*Hold, error) { return w.Lock(e.ctx) })
		e.children(c, "/rw", 2)
		reads = background(func() (*Hold, error) { return m.RLock(e.ctx) })
		e.children(c, "/rw", 3)
		e.ok(e.s.Expire(writer.Session()))
		if r := <-waits; !errors.Is(r.err, client.ErrSessionExpired) {
			e.Errorf("the writer: %v", r.err)
		}
		e.ok(e.got(reads).Release(e.ctx))
		e.ok(r1.Release(e.ctx))
	})
}

// The nodes of Curator's read-write lock and kazoo's are told apart.
func TestOthersReaders(t *testing.T) {
	onBothWires(t, func(e *env) {
		c, other := e.dial(), e.dial()
		m := NewRWMutex(c, "/rw", Options{})
		e.ok(e.hold(m.Lock(e.ctx)).Release(e.ctx))
		for name, reader := range map[string]bool{"_c_5b-__READ__": true, "5b__rlock__": true, "_c_5b-__WRIT__": false, "5b__lock__": false} {
			path, err := other.Create(e.ctx, "/rw/"+name, nil, client.EphemeralSequential)
			e.ok(err)
			h, err := m.TryRLock(e.ctx)
			if reader != (err == nil) {
				e.Errorf("%s: %v", name, err)
			}
			if err == nil {
				e.ok(h.Release(e.ctx))
			}
			if _, err := m.TryLock(e.ctx); !errors.Is(err, ErrBusy) {
				e.Errorf("%s does not exclude a writer: %v", name, err)
			}
			e.ok(other.Delete(e.ctx, path, client.AnyVersion))
		}
	})
}

func TestSemaphore(t *testing.T) {
	onBothWires(t, func(e *env) {
		c := e.dial()
		s := NewSemaphore(c, "/s", 2, Options{})
		h1, h2 := e.hold(s.Acquire(e.ctx)), e.hold(s.TryAcquire(e.ctx))
		if _, err := s.TryAcquire(e.ctx); !errors.Is(err, ErrBusy) {
			e.Errorf("a third: %v", err)
		}
		waits := background(func() (*Hold, error) { return s.Acquire(e.ctx) })
		e.children(c, "/s", 3)
		late := background(func() (*Hold, error) { return s.Acquire(e.ctx) })
		e.children(c, "/s", 4)
		e.cut(c)
		e.ok(h1.Release(e.ctx))
		h3 := e.got(waits)
		e.ok(h2.Release(e.ctx))
		h4 := e.got(late)
		tokens := []int64{h1.Token(), h2.Token(), h3.Token(), h4.Token()}
		if !slices.IsSorted(tokens) {
			e.Errorf("tokens %#x", tokens)
		}
		e.ok(h3.Release(e.ctx))
		e.ok(h4.Release(e.ctx))
		e.children(c, "/s", 0)
	})
}

// Elections and locks that come and go leave no goroutine here and no watch at the server, and memory, the server's too,
// stays as it is. ZKSERVER_FULL=1 takes 100,000 on each wire.
func TestLeavesNothing(t *testing.T) {
	n, limit, opts := 2, 5*patience, []zktest.Option{zktest.Config("4lw.commands.whitelist=*")}
	if os.Getenv("ZKSERVER_FULL") != "" {
		n, limit = 100_000/leakRounds/leakWorkers/len(recipes(Options{}))+1, 20*patience
		opts = append(opts, zktest.Dir(t.TempDir())) // in memory the log would be counted
	}
	for _, w := range []client.Wire{client.ZooKeeper, client.GRPC} {
		t.Run(w.String(), func(t *testing.T) {
			ctx, cancel := context.WithTimeout(context.Background(), limit)
			defer cancel()
			e := &env{T: t, s: zktest.Start(t, opts...), ctx: ctx, wire: w}
			for _, found := range e.leaks(n, limit, recipes(Options{})) {
				t.Error(found)
			}
		})
	}
}

// The test above finds what is left behind.
func TestLeaksAreFound(t *testing.T) {
	var kept [][]byte
	var mu sync.Mutex
	for _, tt := range []struct {
		name, want string
		limit      time.Duration
		leak       func(e *env, c *client.Client)
	}{
		{"a watch", "watches", time.Second / 4, func(e *env, c *client.Client) { _, _, _, _ = c.ExistsW(e.ctx, "/none") }},
		{"a goroutine", "goroutines", time.Second / 4, func(e *env, _ *client.Client) { go func() { <-e.ctx.Done() }() }},
		{"memory", "the heap", patience, func(*env, *client.Client) {
			mu.Lock()
			defer mu.Unlock()
			kept = append(kept, make([]byte, 64<<10))
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(context.Background(), patience)
			defer cancel()
			e := &env{T: t, s: zktest.Start(t, zktest.Config("4lw.commands.whitelist=*")), ctx: ctx}
			found := e.leaks(10, tt.limit, map[string]func(context.Context, *client.Client) (*Hold, error){
				"/m": func(ctx context.Context, c *client.Client) (*Hold, error) {
					tt.leak(e, c)
					return NewMutex(c, "/m", Options{}).Lock(ctx)
				},
			})
			if !slices.ContainsFunc(found, func(f string) bool { return strings.Contains(f, tt.want) }) {
				t.Errorf("found %q, want a fault of %s", found, tt.want)
			}
		})
	}
	runtime.KeepAlive(kept)
}

const (
	leakRounds  = 6 // how often it is counted what is there
	leakWorkers = 8 // who take it at the same time
)

// leaks takes every kind of lock so often a worker and round, by two clients, and returns what is left behind. What has ended
// has so long for its return.
func (e *env) leaks(n int, limit time.Duration, recipes map[string]func(context.Context, *client.Client) (*Hold, error)) (found []string) {
	c, other := e.dial(), e.dial()
	before := 0 // once the first round has started what stays as long as a connection does
	var heap [leakRounds]uint64
	for round := range heap {
		for path, acquire := range recipes {
			var wg sync.WaitGroup
			for i := range leakWorkers {
				wg.Go(func() {
					for range n {
						h, err := acquire(e.ctx, []*client.Client{c, other}[i%2])
						if err == nil {
							err = h.Release(e.ctx)
						}
						if err != nil {
							e.Error(err)
							return
						}
					}
				})
			}
			wg.Wait()
			if names, _, err := c.Children(e.ctx, path); len(names) > 0 || err != nil {
				found = append(found, fmt.Sprintf("%s: %q, %v", path, names, err))
			}
		}
		for end := time.Now().Add(limit); ; wait(e.ctx, 10*time.Millisecond) {
			now, watches := runtime.NumGoroutine(), e.word("wchs")
			if round == 0 || now < before {
				before = now
			}
			few, none := now <= before, strings.Contains(watches, "Total watches:0")
			if few && none {
				break
			}
			if time.Now().Before(end) && e.ctx.Err() == nil {
				continue
			}
			if !few {
				found = append(found, fmt.Sprintf("%d goroutines, before %d", now, before))
			}
			if !none {
				found = append(found, "watches: "+watches)
			}
			return found
		}
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		heap[round] = m.HeapAlloc >> 10
	}
	e.Logf("%d acquisitions; %d goroutines and no watch after each round; KiB of heap: %v", leakRounds*leakWorkers*n*len(recipes), before, heap)
	if was, is := heap[leakRounds/3-1], heap[leakRounds-1]; is > was+was/4+4<<10 {
		found = append(found, fmt.Sprintf("the heap has grown from %d to %d KiB", was, is))
	}
	return found
}

// word asks for a four-letter word.
func (e *env) word(w string) string {
	conn, err := net.Dial("tcp", e.s.Addr())
	e.ok(err)
	defer conn.Close()
	_, err = io.WriteString(conn, w)
	e.ok(err)
	text, err := io.ReadAll(conn)
	e.ok(err)
	return string(text)
}
