package recipe

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/zkserver/zkserver/client"
)

func TestBarrier(t *testing.T) {
	onBothWires(t, func(e *env) {
		c, other := e.dial(), e.dial()
		b := NewBarrier(c, "/a/b/barrier", Options{ID: "me"})
		e.ok(b.Wait(e.ctx))
		e.ok(b.Remove(e.ctx))
		e.s.LoseReply()
		e.ok(b.Set(e.ctx))
		e.ok(b.Set(e.ctx))
		waits := make(chan error, 3)
		for range 3 {
			go func() { waits <- NewBarrier(other, "/a/b/barrier", Options{}).Wait(e.ctx) }()
		}
		for other.CheckWatches(e.ctx, "/a/b/barrier", client.WatchersData) != nil {
			e.ok(e.ctx.Err())
		}
		e.cut(other)
		select {
		case err := <-waits:
			e.Fatalf("passed: %v", err)
		default:
		}
		e.s.LoseReply()
		e.ok(b.Remove(e.ctx))
		for range 3 {
			e.ok(<-waits)
		}
		e.ok(b.Set(e.ctx))
		ctx, cancel := context.WithCancel(e.ctx)
		cancel()
		if err := b.Wait(ctx); !errors.Is(err, context.Canceled) {
			e.Errorf("given up: %v", err)
		}
		e.ok(e.s.Expire(c.Session()))
		if err := b.Wait(e.ctx); !errors.Is(err, client.ErrSessionExpired) {
			e.Errorf("expired: %v", err)
		}
	})
}

// A Set, or a Remove, whose reply is lost does not undo what somebody else does before the connection is back.
func TestBarrierOnce(t *testing.T) {
	onBothWires(t, func(e *env) {
		g := &gate{}
		c, other := e.dialWith(client.Options{DialContext: g.dial}), e.dial()
		mine, theirs := NewBarrier(c, "/b", Options{}), NewBarrier(other, "/b", Options{})
		e.ok(mine.Set(e.ctx))
		e.ok(theirs.Remove(e.ctx))
		for _, set := range []bool{true, false} {
			done := make(chan error, 1)
			g.shut()
			e.s.LoseReply()
			go func() {
				if set {
					done <- mine.Set(e.ctx)
				} else {
					done <- mine.Remove(e.ctx)
				}
			}()
			for {
				_, there, w, err := other.ExistsW(e.ctx, "/b")
				if passing(err) {
					continue
				}
				e.ok(err)
				if there == set {
					w.Stop()
					break
				}
				e.ok(await(e.ctx, w))
			}
			if set {
				e.ok(theirs.Remove(e.ctx))
			} else {
				e.ok(theirs.Set(e.ctx))
			}
			g.open()
			e.ok(<-done)
			if _, there, err := other.Exists(e.ctx, "/b"); there == set || err != nil {
				e.Errorf("set %v: undone, %v", set, err)
			}
			e.ok(theirs.Set(e.ctx))
		}
	})
}

// rounds is told who enters and leaves together.
type rounds struct {
	mu    sync.Mutex
	in    map[string]map[int]bool // by the round's members
	left  map[string]int
	found []string
}

func (r *rounds) enters(who int, s *Stay) {
	r.mu.Lock()
	defer r.mu.Unlock()
	key := strings.Join(s.party, " ")
	for other, in := range r.in {
		if other != key && len(in) > r.left[other] {
			r.found = append(r.found, fmt.Sprintf("%d enters %q while %v have not left %q", who, key, in, other))
		}
	}
	if r.in[key] == nil {
		r.in[key] = make(map[int]bool)
	}
	r.in[key][who] = true
}

func (r *rounds) leaves(s *Stay) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.left[strings.Join(s.party, " ")]++
}

func (r *rounds) gone(who, n int, s *Stay) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if key := strings.Join(s.party, " "); r.left[key] != n {
		r.found = append(r.found, fmt.Sprintf("%d has left %q, and %d have not", who, key, n-r.left[key]))
	}
}

// Members enter and leave round after round in a storm, each with all others.
func TestDoubleBarrier(t *testing.T) {
	inStorms(t, func(e *env, s *storm) {
		const n = 3
		r := &rounds{in: make(map[string]map[int]bool), left: make(map[string]int)}
		done := newSteps()
		ctx, cancel := context.WithCancel(e.ctx)
		defer cancel()
		var wg sync.WaitGroup
		for i := range n {
			b := NewDoubleBarrier(e.dial(), "/deep/barrier", n, Options{ID: fmt.Sprint(i)})
			wg.Go(func() {
				for {
					stay, err := b.Enter(ctx)
					if err == nil {
						r.enters(i, stay)
						if stay.Context().Err() != nil {
							e.Error(context.Cause(stay.Context()))
						}
						r.leaves(stay)
						err = stay.Leave(ctx)
					}
					if ctx.Err() != nil {
						return
					}
					if err != nil {
						e.Errorf("member %d: %v", i, err)
						return
					}
					r.gone(i, n, stay)
					done.step()
				}
			})
		}
		s.blow(8, func() { e.more(done, 2) })
		cancel()
		wg.Wait()
		for _, f := range r.found {
			e.Error(f)
		}
		e.Logf("%d rounds, %d replies lost", len(r.in), e.s.LostReplies())
	})
}

// A member whose session ends has left; one that waits is not in the way; one that is too many waits for the next round.
func TestDoubleBarrierExpiry(t *testing.T) {
	onBothWires(t, func(e *env) {
		admin := e.dial()
		type entered struct {
			s   *Stay
			err error
		}
		enter := func(c *client.Client) <-chan entered {
			ch := make(chan entered, 1)
			go func() {
				s, err := NewDoubleBarrier(c, "/b", 2, Options{}).Enter(e.ctx)
				ch <- entered{s, err}
			}()
			return ch
		}
		a, b, c := e.dial(), e.dial(), e.dial()
		e.ok(ensure(e.ctx, admin, "/b", nil, nil))
		early := enter(c)
		e.children(admin, "/b", 2) // and the round
		e.ok(e.s.Expire(c.Session()))
		if r := <-early; !errors.Is(r.err, client.ErrSessionExpired) {
			e.Errorf("it waited, and its session has ended: %v", r.err)
		}
		first := enter(a)
		e.children(admin, "/b", 2)
		second := enter(b)
		in, other := <-first, <-second
		e.ok(errors.Join(in.err, other.err))
		if !slices.Equal(in.s.party, other.s.party) {
			e.Errorf("members %q and %q", in.s.party, other.s.party)
		}
		third, fourth := enter(e.dial()), enter(e.dial())
		e.children(admin, "/b", 5)
		leaves := make(chan error, 1)
		go func() { leaves <- in.s.Leave(e.ctx) }()
		e.children(admin, "/b", 4)
		select {
		case err := <-leaves:
			e.Errorf("left alone: %v", err)
		case r := <-third:
			e.Errorf("entered a round that goes on: %v", r.err)
		default:
		}
		e.ok(e.s.Expire(b.Session()))
		e.ok(<-leaves)
		if err := e.ended(other.s.h); !errors.Is(err, client.ErrSessionExpired) {
			e.Errorf("ended by %v", err)
		}
		if err := other.s.Leave(e.ctx); !errors.Is(err, client.ErrSessionExpired) {
			e.Errorf("leaves: %v", err)
		}
		r3, r4 := <-third, <-fourth
		e.ok(errors.Join(r3.err, r4.err))
	})
}
