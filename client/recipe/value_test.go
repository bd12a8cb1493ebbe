package recipe

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/zkserver/zkserver/client"
)

// Everybody counts in a storm: each count is there once.
func TestCounterCounts(t *testing.T) {
	inStorms(t, func(e *env, s *storm) {
		done := newSteps()
		ctx, cancel := context.WithCancel(e.ctx)
		defer cancel()
		var wg sync.WaitGroup
		var unknown atomic.Int64
		for range 4 {
			n := NewCounter(e.dial(), "/deep/counter", Decimal, Options{})
			wg.Go(func() {
				for {
					_, err := n.Add(ctx, 1)
					switch {
					case err == nil:
						done.step()
					case client.MaybeApplied(err) && ctx.Err() != nil:
						unknown.Add(1)
						return
					case ctx.Err() != nil:
						return
					default:
						e.Error(err)
						return
					}
				}
			})
		}
		s.blow(10, func() { e.more(done, 4) })
		cancel()
		wg.Wait()
		got, err := NewCounter(e.dial(), "/deep/counter", Decimal, Options{}).Get(e.ctx)
		if sure := done.n.Load(); err != nil || got < sure || got > sure+unknown.Load() {
			e.Errorf("counted to %d, %v: %d have, %d cannot know", got, err, sure, unknown.Load())
		}
		e.Logf("counted to %d, %d replies lost", got, e.s.LostReplies())
	})
}

// The formats are those of others.
func TestCounterFormats(t *testing.T) {
	onBothWires(t, func(e *env) {
		c := e.dial()
		for f, data := range map[CounterFormat]string{Decimal: "-7", Int32: "\xff\xff\xff\xf9", Int64: "\xff\xff\xff\xff\xff\xff\xff\xf9"} {
			path := fmt.Sprintf("/n%d", f)
			n := NewCounter(c, path, f, Options{})
			if got, err := n.Get(e.ctx); got != 0 || err != nil {
				e.Errorf("%v: without a node: %d, %v", f, got, err)
			}
			if got, err := n.Add(e.ctx, -7); got != -7 || err != nil {
				e.Errorf("%v: %d, %v", f, got, err)
			}
			if got, _, err := c.Get(e.ctx, path); string(got) != data || err != nil {
				e.Errorf("%v: written as %q, %v", f, got, err)
			}
			if got, err := n.Get(e.ctx); got != -7 || err != nil {
				e.Errorf("%v: read %d, %v", f, got, err)
			}
			most := int64(math.MaxInt64)
			if f == Int32 {
				most = math.MaxInt32
			}
			e.ok(n.Set(e.ctx, most))
			if got, err := n.Add(e.ctx, 1); got != 0 || !errors.Is(err, ErrRange) {
				e.Errorf("%v: over the top: %d, %v", f, got, err)
			}
			if _, err := c.Set(e.ctx, path, []byte("no number"), client.AnyVersion); err != nil {
				e.Error(err)
			}
			if _, err := n.Add(e.ctx, 1); err == nil {
				e.Errorf("%v: counts on what is no number", f)
			}
		}
	})
}

// An update is made of what is there, whoever was quicker, and seen by whoever watches.
func TestValue(t *testing.T) {
	onBothWires(t, func(e *env) {
		c, watcher := e.dial(), e.dial()
		v := NewValue(c, "/v", Options{})
		ctx, cancel := context.WithCancel(e.ctx)
		defer cancel()
		next, stop := iter.Pull2(NewValue(watcher, "/v", Options{}).Watch(ctx))
		defer stop()
		sees := func(want string, there bool) {
			e.Helper()
			for {
				data, err, ok := next()
				if err != nil || !ok {
					e.Fatalf("%q, %v", data, err)
				}
				if string(data) == want && (data != nil) == there {
					return
				}
			}
		}
		sees("", false)
		e.ok(v.Set(e.ctx, []byte("a")))
		sees("a", true)
		tries := 0
		data, err := v.Update(e.ctx, func(old []byte) ([]byte, error) {
			if tries++; tries == 1 {
				e.ok(v.Set(e.ctx, []byte("b"))) // somebody is quicker
			}
			return append(old, '!'), nil
		})
		if string(data) != "b!" || tries != 2 || err != nil {
			e.Errorf("%q after %d tries, %v", data, tries, err)
		}
		e.cut(watcher)
		sees("b!", true)
		no := errors.New("no")
		if _, err := v.Update(e.ctx, func([]byte) ([]byte, error) { return nil, no }); !errors.Is(err, no) {
			e.Errorf("refused: %v", err)
		}
		e.s.LoseReply()
		_, err = v.Update(e.ctx, func(old []byte) ([]byte, error) { return strconv.AppendInt(old, 1, 10), nil })
		e.ok(err)
		sees("b!1", true)
		cancel()
		if _, err, _ := next(); !errors.Is(err, context.Canceled) {
			e.Errorf("the end: %v", err)
		}
		e.ok(e.s.Expire(c.Session()))
		if err := v.Set(e.ctx, nil); !errors.Is(err, client.ErrSessionExpired) {
			e.Errorf("expired: %v", err)
		}
	})
}
