package recipe

import (
	"context"
	"errors"
	"maps"
	"slices"
	"testing"

	"github.com/zkserver/zkserver/client"
)

// All or none, and whoever has one of the paths is waited for; in one order, so that sets that overlap get on.
func TestMultiLock(t *testing.T) {
	onBothWires(t, func(e *env) {
		c, other := e.dial(), e.dial()
		ab, bc := NewMultiLock(c, []string{"/b", "/a", "/b"}, Options{}), NewMultiLock(other, []string{"/c", "/b"}, Options{})
		h := e.hold(ab.Lock(e.ctx))
		tokens := h.Tokens()
		if paths := slices.Sorted(maps.Keys(tokens)); !slices.Equal(paths, []string{"/a", "/b"}) || tokens["/b"] != h.Token() || tokens["/a"] >= h.Token() {
			e.Errorf("tokens %#x, token %#x", tokens, h.Token())
		}
		for _, path := range []string{"/a", "/b"} {
			if _, err := NewMutex(other, path, Options{}).TryLock(e.ctx); !errors.Is(err, ErrBusy) {
				e.Errorf("%s: %v", path, err)
			}
		}
		if _, err := bc.TryLock(e.ctx); !errors.Is(err, ErrBusy) {
			e.Errorf("a set that overlaps: %v", err)
		}
		waits := background(func() (*Hold, error) { return bc.Lock(e.ctx) })
		e.children(c, "/b", 2)
		e.ok(h.Release(e.ctx))
		if err := e.ended(h); !errors.Is(err, ErrReleased) {
			e.Errorf("ended by %v", err)
		}
		next := e.got(waits)
		if next.Tokens()["/b"] <= tokens["/b"] {
			e.Errorf("tokens %#x after %#x", next.Tokens(), tokens)
		}
		if _, err := ab.TryLock(e.ctx); !errors.Is(err, ErrBusy) { // /a was free
			e.Errorf("a set that overlaps: %v", err)
		}
		e.children(c, "/a", 0)
		e.ok(next.Release(e.ctx))
		e.children(c, "/b", 0)
		e.children(c, "/c", 0)
		if _, err := NewMultiLock(c, nil, Options{}).Lock(e.ctx); err == nil {
			e.Error("a lock of nothing")
		}
	})
}

// One that is lost ends all: a Hold at once, and a Lock that waits for another one.
func TestMultiLockLosesOne(t *testing.T) {
	onBothWires(t, func(e *env) {
		c, admin := e.dial(), e.dial()
		m := NewMultiLock(c, []string{"/a", "/b"}, Options{})
		remove := func() {
			names, _, err := admin.Children(e.ctx, "/a")
			e.ok(err)
			e.ok(admin.Delete(e.ctx, "/a/"+names[0], client.AnyVersion))
		}
		h := e.hold(m.Lock(e.ctx))
		_, err := h.Fence(e.ctx, "/epoch")
		e.ok(err)
		remove()
		if err := e.ended(h); !errors.Is(err, ErrGone) {
			e.Errorf("ended by %v", err)
		}
		if _, err := h.Fence(e.ctx, "/epoch2"); !errors.Is(err, ErrGone) {
			e.Errorf("a fence: %v", err)
		}
		e.ok(h.Release(e.ctx))
		e.children(admin, "/b", 0)

		b := e.hold(NewMutex(admin, "/b", Options{}).Lock(e.ctx))
		waits := background(func() (*Hold, error) { return m.Lock(e.ctx) })
		e.children(admin, "/b", 2)
		remove()
		if r := <-waits; !errors.Is(r.err, ErrGone) || errors.Is(r.err, context.Canceled) {
			e.Errorf("the one that waited: %v", r.err)
		}
		e.children(admin, "/b", 1)
		e.ok(b.Release(e.ctx))
	})
}

func TestMultiLockReentrant(t *testing.T) {
	onBothWires(t, func(e *env) {
		c := e.dial()
		o := Options{Reentrant: true}
		m := NewMultiLock(c, []string{"/a", "/b"}, o)
		h := e.hold(m.Lock(e.ctx))
		again := e.hold(NewMultiLock(c, []string{"/b", "/a"}, o).Lock(h.Context()))
		inner := e.hold(NewMutex(c, "/a", o).Lock(again.Context()))
		if again != h || inner.Token() != h.Tokens()["/a"] {
			e.Errorf("tokens %#x and %#x in %#x", inner.Tokens(), again.Tokens(), h.Tokens())
		}
		if _, err := NewMultiLock(c, []string{"/b"}, o).TryLock(h.Context()); !errors.Is(err, ErrBusy) {
			e.Errorf("a part of it: %v", err)
		}
		e.ok(again.Release(e.ctx))
		e.ok(h.Context().Err())
		e.ok(inner.Release(e.ctx))
		e.children(c, "/a", 1)
		e.ok(h.Release(e.ctx))
		e.children(c, "/a", 0)
		e.children(c, "/b", 0)
	})
}
