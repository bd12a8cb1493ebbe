package recipe

import (
	"context"
	"os"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/zkserver/zkserver/client"
	"github.com/zkserver/zkserver/client/zktest"
)

func TestMain(m *testing.M) {
	if file := os.Getenv(serverEnv); file != "" {
		os.Exit(serve(file))
	}
	goleak.VerifyTestMain(m)
}

// patience bounds what a test waits for.
const patience = time.Minute

// env is a server of one's own, and what a test needs at every step.
type env struct {
	*testing.T
	s    *zktest.Server
	ctx  context.Context
	wire client.Wire
}

// onBothWires runs a test against a server of its own, on each wire.
func onBothWires(t *testing.T, test func(e *env)) {
	for _, w := range []client.Wire{client.ZooKeeper, client.GRPC} {
		t.Run(w.String(), func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithTimeout(context.Background(), patience)
			t.Cleanup(cancel)
			test(&env{T: t, s: zktest.Start(t), ctx: ctx, wire: w})
		})
	}
}

func (e *env) dialWith(o client.Options) *client.Client {
	e.Helper()
	o.Wire = e.wire
	o.BackoffMax = 5 * time.Millisecond // many disconnects in a row, and a server that is always there
	c, err := client.Dial(e.ctx, e.s.Addr(), o)
	e.ok(err)
	e.Cleanup(func() { _ = c.Close() })
	return c
}

func (e *env) dial() *client.Client { e.Helper(); return e.dialWith(client.Options{}) }

func (e *env) ok(err error) {
	e.Helper()
	if err != nil {
		e.Fatal(err)
	}
}

// hold fails the test unless there is a Hold.
func (e *env) hold(h *Hold, err error) *Hold {
	e.Helper()
	e.ok(err)
	return h
}

// children waits until a directory has so many.
func (e *env) children(c *client.Client, path string, want int) {
	e.Helper()
	for {
		names, _, w, err := c.ChildrenW(e.ctx, path)
		if passing(err) {
			continue
		}
		e.ok(err)
		if len(names) == want {
			w.Stop()
			return
		}
		select {
		case <-w.C:
		case <-e.ctx.Done():
			e.Fatalf("%s has %q, %d are wanted", path, names, want)
		}
	}
}

// await reads states until one comes.
func (e *env) await(s *client.Subscription, want client.State) {
	e.Helper()
	for {
		select {
		case ch, ok := <-s.C:
			if ch.State == want {
				return
			}
			if !ok {
				e.Fatalf("no state %v", want)
			}
		case <-e.ctx.Done():
			e.Fatalf("no state %v", want)
		}
	}
}

// cut breaks the connections and waits until a client is connected again.
func (e *env) cut(c *client.Client) {
	e.Helper()
	states := c.Subscribe()
	defer states.Stop()
	e.await(states, client.Connected)
	e.s.Cut()
	e.await(states, client.Suspended)
	e.await(states, client.Connected)
}

// ended waits for the end of a Hold and returns why.
func (e *env) ended(h *Hold) error {
	e.Helper()
	select {
	case <-h.Context().Done():
	case <-e.ctx.Done():
		e.Fatal("the hold does not end")
	}
	return context.Cause(h.Context())
}

type taken struct {
	h   *Hold
	err error
}

// background calls f in a goroutine.
func background(f func() (*Hold, error)) <-chan taken {
	ch := make(chan taken, 1)
	go func() {
		h, err := f()
		ch <- taken{h, err}
	}()
	return ch
}

func (e *env) got(ch <-chan taken) *Hold {
	e.Helper()
	select {
	case r := <-ch:
		return e.hold(r.h, r.err)
	case <-e.ctx.Done():
		e.Fatal("no hold")
	}
	return nil
}

// recipes are all ways to a Hold, on one path each.
func recipes(o Options) map[string]func(context.Context, *client.Client) (*Hold, error) {
	return map[string]func(context.Context, *client.Client) (*Hold, error){
		"/election": func(ctx context.Context, c *client.Client) (*Hold, error) {
			return NewElection(c, "/election", o).Campaign(ctx)
		},
		"/mutex": func(ctx context.Context, c *client.Client) (*Hold, error) { return NewMutex(c, "/mutex", o).Lock(ctx) },
		"/a/b/write": func(ctx context.Context, c *client.Client) (*Hold, error) {
			return NewRWMutex(c, "/a/b/write", o).Lock(ctx)
		},
		"/a/b/read": func(ctx context.Context, c *client.Client) (*Hold, error) {
			return NewRWMutex(c, "/a/b/read", o).RLock(ctx)
		},
		"/semaphore": func(ctx context.Context, c *client.Client) (*Hold, error) {
			return NewSemaphore(c, "/semaphore", 1, o).Acquire(ctx)
		},
		"/a/multi": func(ctx context.Context, c *client.Client) (*Hold, error) {
			return NewMultiLock(c, []string{"/multi", "/a/multi"}, o).Lock(ctx)
		},
	}
}
