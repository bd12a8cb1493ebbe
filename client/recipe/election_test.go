package recipe

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"testing"
	"time"

	"github.com/zkserver/zkserver/client"
)

// Who does not take part sees the leader and every change, also through a disconnect, and the participants in order.
func TestObserve(t *testing.T) {
	onBothWires(t, func(e *env) {
		c, watcher := e.dial(), e.dial()
		election := NewElection(watcher, "/deep/election", Options{})
		ctx, cancel := context.WithCancel(e.ctx)
		defer cancel()
		next, stop := iter.Pull2(election.Observe(ctx))
		defer stop()
		leads := func(want string) {
			e.Helper()
			p, err, ok := next()
			if err != nil || !ok || p.ID != want {
				e.Fatalf("the leader is %+v, %v, wanted %q", p, err, want)
			}
		}
		leads("")
		if all, err := election.Participants(e.ctx); len(all) != 0 || err != nil {
			e.Errorf("participants %+v, %v", all, err)
		}
		a := e.hold(NewElection(c, "/deep/election", Options{ID: "a"}).Campaign(e.ctx))
		leads("a")
		waits := background(func() (*Hold, error) { return NewElection(c, "/deep/election", Options{ID: "b"}).Campaign(e.ctx) })
		e.children(watcher, "/deep/election", 2)
		all, err := election.Participants(e.ctx)
		if err != nil || len(all) != 2 || all[0].ID != "a" || all[0].Token != a.Token() || all[1].ID != "b" || all[1].Session != c.Session().ID {
			e.Errorf("participants %+v, %v", all, err)
		}
		e.cut(watcher)
		e.ok(a.Release(e.ctx))
		leads("b")
		b := e.got(waits)
		if p, ok, err := election.Leader(e.ctx); !ok || err != nil || p.ID != "b" || p.Token != b.Token() {
			e.Errorf("the leader is %+v, %v, %v", p, ok, err)
		}
		e.ok(b.Release(e.ctx))
		leads("")
		if _, ok, err := election.Leader(e.ctx); ok || err != nil {
			e.Errorf("a leader: %v, %v", ok, err)
		}
		cancel()
		if _, err, _ := next(); !errors.Is(err, context.Canceled) {
			e.Errorf("the end: %v", err)
		}
	})
}

// H2: a controller that was replaced and does not know it. Without the fence its write gets through.
func TestFence(t *testing.T) {
	onBothWires(t, func(e *env) {
		old, c := e.dial(), e.dial()
		_, err := c.Create(e.ctx, "/data", nil, client.Persistent)
		e.ok(err)
		set := func(s string) client.Op {
			return client.SetOp{Path: "/data", Data: []byte(s), Version: client.AnyVersion}
		}
		was := e.hold(NewElection(old, "/election", Options{}).Campaign(e.ctx))
		e.s.LoseReply()
		first, err := was.Fence(e.ctx, "/epoch")
		e.ok(err)
		results, err := first.Multi(e.ctx, set("old"))
		if err != nil || len(results) != 1 || results[0].Stat.Version != 1 {
			e.Errorf("results %+v, %v", results, err)
		}
		if again, err := was.Fence(e.ctx, "/epoch"); err != nil || *again != *first {
			e.Errorf("the same fence again: %+v, %v", again, err)
		}

		e.ok(c.Delete(e.ctx, was.Path(), client.AnyVersion)) // as its expiry would
		h := e.hold(NewElection(c, "/election", Options{}).Campaign(e.ctx))
		if _, err := was.Fence(e.ctx, "/other"); !errors.Is(err, ErrGone) {
			e.Errorf("a fence of what is gone: %v", err)
		}
		second, err := h.Fence(e.ctx, "/epoch")
		e.ok(err)
		_, err = second.Multi(e.ctx, set("new"))
		e.ok(err)
		if _, err := first.Multi(e.ctx, set("late")); !errors.Is(err, ErrFenced) || !errors.Is(err, client.ErrBadVersion) {
			e.Errorf("the old one writes: %v", err)
		}
		if _, err := was.Fence(e.ctx, "/epoch"); !errors.Is(err, ErrFenced) {
			e.Errorf("the old one makes a fence: %v", err)
		}
		if _, err := second.Multi(e.ctx, client.DeleteOp{Path: "/none", Version: -1}); !errors.Is(err, client.ErrNoNode) || errors.Is(err, ErrFenced) {
			e.Errorf("another refusal: %v", err)
		}
		if data, _, err := c.Get(e.ctx, "/data"); err != nil || string(data) != "new" {
			e.Errorf("data %q, %v", data, err)
		}
		_, err = old.Multi(e.ctx, set("late"))
		e.ok(err)
		if data, _, err := c.Get(e.ctx, "/data"); err != nil || string(data) != "late" {
			e.Errorf("a write without the fence: %q, %v", data, err)
		}
	})
}

// H3: the leader's session is ended again and again. Somebody leads after each, by a larger token, the epoch is one
// higher each time, and each participant makes itself a new session.
func TestLead(t *testing.T) {
	onBothWires(t, func(e *env) {
		type leadership struct {
			h *Hold
			c *client.Client
		}
		ctx, cancel := context.WithCancel(e.ctx)
		defer cancel()
		leading, over := make(chan leadership), make(chan error, 2)
		for i := range 2 {
			go func() {
				var c *client.Client
				over <- Lead(ctx, func(ctx context.Context) (_ *client.Client, err error) {
					c, err = client.Dial(ctx, e.s.Addr(), client.Options{Wire: e.wire})
					return c, err
				}, "/election", Options{ID: fmt.Sprint(i)}, func(h *Hold) error {
					if _, err := h.Fence(h.Context(), "/epoch"); err != nil {
						return nil // the Hold has ended
					}
					leading <- leadership{h, c}
					<-h.Context().Done()
					return context.Cause(h.Context())
				})
			}()
		}
		admin := e.dial()
		var last *Hold
		for round := range 5 {
			l := <-leading
			if last != nil {
				if l.h.Token() <= last.Token() {
					e.Errorf("round %d: token %#x after %#x", round, l.h.Token(), last.Token())
				}
				if err := e.ended(last); !errors.Is(err, client.ErrSessionExpired) {
					e.Errorf("round %d: the last one has ended by %v", round, err)
				}
			}
			last = l.h
			if _, st, err := admin.Get(e.ctx, "/epoch"); err != nil || int(st.Version) != round {
				e.Errorf("round %d: epoch version %d, %v", round, st.Version, err)
			}
			e.ok(e.s.Expire(l.c.Session()))
		}
		l := <-leading
		cancel()
		for range 2 {
			if err := <-over; !errors.Is(err, context.Canceled) {
				e.Errorf("Lead: %v", err)
			}
		}
		if err := context.Cause(l.h.Context()); !errors.Is(err, context.Canceled) {
			e.Errorf("the last one has ended by %v", err)
		}
		e.children(admin, "/election", 0)
	})
}

// What the function returns: with nil the next in line leads, an error ends Lead and resigns.
func TestLeadReturns(t *testing.T) {
	onBothWires(t, func(e *env) {
		c := e.dial()
		dial := func(ctx context.Context) (*client.Client, error) {
			return client.Dial(ctx, e.s.Addr(), client.Options{Wire: e.wire})
		}
		enough := errors.New("enough")
		var tokens []int64
		err := Lead(e.ctx, dial, "/election", Options{}, func(h *Hold) error {
			if tokens = append(tokens, h.Token()); len(tokens) == 3 {
				return enough
			}
			return nil
		})
		if !errors.Is(err, enough) || len(tokens) != 3 || !slices.IsSorted(tokens) {
			e.Errorf("%v, tokens %#x", err, tokens)
		}
		e.children(c, "/election", 0)
	})
}

// G19: the function panics, and the program survives it.
func TestLeadPanics(t *testing.T) {
	onBothWires(t, func(e *env) {
		c := e.dial()
		dial := func(ctx context.Context) (*client.Client, error) {
			return client.Dial(ctx, e.s.Addr(), client.Options{Wire: e.wire, SessionTimeout: time.Minute})
		}
		func() {
			defer func() {
				if r := recover(); r != "the work" {
					e.Errorf("it ended with %v", r)
				}
			}()
			_ = Lead(e.ctx, dial, "/election", Options{}, func(*Hold) error { panic("the work") })
		}()
		e.children(c, "/election", 0)
	})
}

// G5, G6: disconnects in quick succession. One leads, and each has one node.
func TestFlapping(t *testing.T) {
	onBothWires(t, func(e *env) {
		a, b, admin := e.dial(), e.dial(), e.dialWith(client.Options{SessionTimeout: time.Minute})
		h := e.hold(NewElection(a, "/election", Options{}).Campaign(e.ctx))
		waits := background(func() (*Hold, error) { return NewElection(b, "/election", Options{}).Campaign(e.ctx) })
		e.children(admin, "/election", 2)
		for range 5 {
			e.cut(a)
		}
		e.ok(h.Context().Err())
		select {
		case r := <-waits:
			e.Fatalf("two leaders: %+v", r)
		default:
		}
		e.children(admin, "/election", 2)
		e.ok(h.Release(e.ctx))
		e.ok(e.got(waits).Release(e.ctx))
		e.children(admin, "/election", 0)
	})
}
