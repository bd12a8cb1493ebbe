package recipe

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/zkserver/zkserver/client"
)

func TestUnclaimed(t *testing.T) {
	want := []string{"entry-000-0000000009", "entry-100-2147483647", "odd-0000000001", "entry-100-0000000003", "entry-101--2147483648", "entry-999-0000000000"}
	want[1], want[2], want[3] = "odd-0000000001", "entry-100-0000000003", "entry-100-0000000004"
	all := []string{want[5], want[4], "entry-100-0000000002", want[3], want[2], want[1], want[0], "none"}
	if got := unclaimed(all, []string{"entry-100-0000000002", "gone"}); !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
	for name, want := range map[string]int{"entry-007-0000000001": 7, "entry-1000-0000000001": DefaultPriority, "qn-0000000001": DefaultPriority, "entry--0000000001": DefaultPriority} {
		if got := rank(name); got != want {
			t.Errorf("%s: %d", name, got)
		}
	}
}

// First in, first out, within a priority; an item is claimed by one, and is back when the claim ends.
func TestQueue(t *testing.T) {
	onBothWires(t, func(e *env) {
		c, other := e.dial(), e.dial()
		q, theirs := NewQueue(c, "/deep/q", Options{}), NewQueue(other, "/deep/q", Options{})
		if n, err := q.Len(e.ctx); n != 0 || err != nil {
			e.Errorf("%d items, %v", n, err)
		}
		for _, put := range []struct {
			data     string
			priority int
		}{{"b", 100}, {"d", 200}, {"c", 100}, {"a", 7}} {
			e.s.LoseReply()
			e.ok(q.Put(e.ctx, []byte(put.data), put.priority))
		}
		if err := q.Put(e.ctx, nil, 1000); err == nil {
			e.Error("a priority that is out of range")
		}
		if n, err := theirs.Len(e.ctx); n != 4 || err != nil {
			e.Errorf("%d items, %v", n, err)
		}
		first, err := q.Claim(e.ctx)
		e.ok(err)
		e.s.LoseReply()
		second, err := theirs.Take(e.ctx)
		if a := first.Item(); string(a.Data) != "a" || a.Priority != 7 || string(second.Data) != "b" || err != nil {
			e.Errorf("claimed %+v, taken %+v, %v", a, second, err)
		}
		e.s.LoseReply()
		e.ok(first.Release(e.ctx))
		if err := first.Finish(e.ctx); !errors.Is(err, ErrReleased) {
			e.Errorf("finished what was given back: %v", err)
		}
		again, err := theirs.Claim(e.ctx)
		if err != nil || string(again.Item().Data) != "a" || again.Token() <= first.Token() {
			e.Fatalf("again %+v, token %#x after %#x, %v", again.Item(), again.Token(), first.Token(), err)
		}
		e.ok(first.Release(e.ctx)) // is over, and does not touch the other's
		e.ok(again.Context().Err())
		if err := again.Finish(e.ctx, client.DeleteOp{Path: "/none"}); !errors.Is(err, client.ErrNoNode) || client.MaybeApplied(err) {
			e.Errorf("refused: %v", err)
		}
		e.s.LoseReply()
		last, err := q.Claim(e.ctx)
		e.ok(err)
		e.s.LoseReply()
		e.ok(last.Finish(e.ctx, client.CreateOp{Path: "/done", Data: last.Item().Data}))
		if data, _, err := other.Get(e.ctx, "/done"); string(data) != "a" || err != nil {
			e.Errorf("done %q, %v", data, err)
		}
		for _, want := range []string{"c", "d"} {
			if got, err := q.Take(e.ctx); string(got.Data) != want || err != nil {
				e.Errorf("taken %q, %v", got.Data, err)
			}
		}
		e.children(c, "/deep/q/entries", 0)
		e.children(c, "/deep/q/taken", 0)
	})
}

// Who waits gets what is put, or comes back; who gives up gets nothing.
func TestQueueWaits(t *testing.T) {
	onBothWires(t, func(e *env) {
		c, holder, waiter := e.dial(), e.dial(), e.dial()
		q := NewQueue(c, "/q", Options{})
		e.ok(q.make(e.ctx))
		type got struct {
			cl  *Claim
			err error
		}
		claim := func(c *client.Client, ctx context.Context) <-chan got {
			ch := make(chan got, 1)
			go func() {
				cl, err := NewQueue(c, "/q", Options{}).Claim(ctx)
				ch <- got{cl, err}
			}()
			return ch
		}
		ctx, cancel := context.WithCancel(e.ctx)
		idle := claim(c, ctx)
		for c.CheckWatches(e.ctx, "/q/taken", client.WatchersChildren) != nil {
			e.ok(e.ctx.Err())
		}
		cancel()
		if r := <-idle; !errors.Is(r.err, context.Canceled) {
			e.Errorf("given up: %v", r.err)
		}
		first := claim(holder, e.ctx)
		e.ok(q.Put(e.ctx, []byte("x"), DefaultPriority))
		h := <-first
		e.ok(h.err)
		second := claim(waiter, e.ctx)
		for waiter.CheckWatches(e.ctx, "/q/entries", client.WatchersChildren) != nil {
			e.ok(e.ctx.Err())
		}
		e.cut(waiter)
		select {
		case r := <-second:
			e.Fatalf("claimed twice: %v", r.err)
		default:
		}
		e.ok(e.s.Expire(holder.Session()))
		w := <-second
		e.ok(w.err)
		if err := e.ended(h.cl.h); !errors.Is(err, client.ErrSessionExpired) {
			e.Errorf("ended by %v", err)
		}
		if err := h.cl.Finish(e.ctx); !errors.Is(err, client.ErrSessionExpired) {
			e.Errorf("finished what another has: %v", err)
		}
		e.ok(w.cl.Context().Err())
		e.ok(w.cl.Finish(e.ctx))
		if n, err := q.Len(e.ctx); n != 0 || err != nil {
			e.Errorf("%d items, %v", n, err)
		}
	})
}

// A queue that kazoo's LockingQueue has made, and claimed an item of.
func TestQueueOfKazoo(t *testing.T) {
	onBothWires(t, func(e *env) {
		c, other := e.dial(), e.dial()
		for _, p := range []string{"/q", "/q/entries", "/q/taken"} {
			_, err := other.Create(e.ctx, p, nil, client.Persistent)
			e.ok(err)
		}
		for _, d := range []string{"a", "b"} {
			_, err := other.Create(e.ctx, "/q/entries/entry-100-", []byte(d), client.PersistentSequential)
			e.ok(err)
		}
		_, err := other.Create(e.ctx, "/q/taken/entry-100-0000000000", []byte("67c79fecc6104a7026bdd7c3ce773828"), client.Ephemeral)
		e.ok(err)
		if got, err := NewQueue(c, "/q", Options{}).Take(e.ctx); err != nil || string(got.Data) != "b" {
			e.Errorf("taken %q, %v", got.Data, err)
		}
		e.ok(other.Close())
		if got, err := NewQueue(c, "/q", Options{}).Take(e.ctx); err != nil || string(got.Data) != "a" {
			e.Errorf("taken %q, %v", got.Data, err)
		}
	})
}

// ledger is told what becomes of items.
type ledger struct {
	s      *storm
	mu     sync.Mutex
	claims map[string][]*Claim // by data
	taken  map[string]int      // for sure, by data
	doubt  map[string]bool     // by data
	found  []string
}

func (l *ledger) claimed(cl *Claim) {
	l.mu.Lock()
	defer l.mu.Unlock()
	id := string(cl.Item().Data)
	if cl.Context().Err() != nil {
		return // over before it was looked at
	}
	for _, old := range l.claims[id] {
		if l.s.holds(old.h) {
			l.found = append(l.found, id+" is claimed twice")
		}
		if old.Token() >= cl.Token() {
			l.found = append(l.found, id+": a token goes back")
		}
	}
	l.claims[id] = append(l.claims[id], cl)
	if l.taken[id] > 0 {
		l.found = append(l.found, id+" is claimed, and was taken before")
	}
}

func (l *ledger) took(item Item, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	id := string(item.Data)
	if err != nil {
		l.doubt[id] = true
		return
	}
	if l.taken[id]++; l.taken[id] > 1 {
		l.found = append(l.found, id+" is taken twice")
	}
}

// Items are put, taken, claimed, finished and given back in a storm that ends sessions too. None is lost, none is had by
// two at a time, and none is taken twice.
func TestQueueInStorms(t *testing.T) {
	inStorms(t, func(e *env, s *storm) {
		l := &ledger{s: s, claims: make(map[string][]*Claim), taken: make(map[string]int), doubt: make(map[string]bool)}
		done := newSteps()
		admin := e.dial()
		e.ok(ensure(e.ctx, admin, "/done", nil, nil))
		put := make(map[string]error)
		var sessions [4]<-chan *client.Client
		var ends []func() error
		for i := range sessions {
			ch, end := e.shortSessions(4*time.Second, func(ctx context.Context, c *client.Client) error {
				q := NewQueue(c, "/q", Options{})
				for round := 0; ; round++ {
					var err error
					switch {
					case i == 0 || i == 1 && round%3 == 0:
						id := fmt.Sprintf("%d-%d-%x", i, round, c.Session().ID)
						err = q.Put(ctx, []byte(id), 100+round%3)
						if err == nil || client.MaybeApplied(err) {
							l.mu.Lock()
							put[id] = err
							l.mu.Unlock()
						}
					case i == 1:
						var item Item
						if item, err = q.Take(ctx); err == nil || client.MaybeApplied(err) {
							l.took(item, err)
						}
					default:
						var cl *Claim
						if cl, err = q.Claim(ctx); err != nil {
							break
						}
						l.claimed(cl)
						if round%3 == 0 {
							err = cl.Release(ctx)
						} else if err = cl.Finish(ctx, client.CreateOp{Path: "/done/" + string(cl.Item().Data)}); err == nil || client.MaybeApplied(err) {
							l.took(cl.Item(), err)
						} else if !errors.Is(err, client.ErrSessionExpired) && !errors.Is(err, client.ErrConnectionLoss) && ctx.Err() == nil {
							return err
						} else {
							err = nil
						}
					}
					if err != nil {
						return err
					}
					done.step()
				}
			})
			sessions[i], ends = ch, append(ends, end)
		}
		s.blow(12, func() {
			if who := s.rnd.IntN(2 * len(sessions)); who < len(sessions) {
				select {
				case c := <-sessions[who]:
					s.expire(c)
				default:
				}
			}
			e.more(done, 6)
		})
		for _, end := range ends {
			if err := end(); !errors.Is(err, context.Canceled) {
				e.Errorf("ended by %v", err)
			}
		}
		e.checkQueue(admin, l, put)
		e.Logf("%d put, %d taken, %d in doubt, %d replies lost", len(put), len(l.taken), len(l.doubt), e.s.LostReplies())
	})
}

// checkQueue empties the queue, and compares what has become of all items.
func (e *env) checkQueue(c *client.Client, l *ledger, put map[string]error) {
	e.Helper()
	e.children(c, "/q/taken", 0)
	q := NewQueue(c, "/q", Options{})
	for {
		n, err := q.Len(e.ctx)
		e.ok(err)
		if n == 0 {
			break
		}
		item, err := q.Take(e.ctx)
		e.ok(err)
		l.took(item, nil)
	}
	for _, f := range l.found {
		e.Error(f)
	}
	done, _, err := c.Children(e.ctx, "/done")
	e.ok(err)
	for _, id := range done {
		if l.taken[id] == 0 && !l.doubt[id] {
			e.Errorf("%s was finished, and nobody knows", id)
		}
	}
	for id, err := range put {
		if err == nil && l.taken[id] == 0 && !l.doubt[id] {
			e.Errorf("%s is lost", id)
		}
	}
	for id := range l.taken {
		if _, ok := put[id]; !ok {
			e.Errorf("%s is taken, and nobody has put it", id)
		}
	}
}
