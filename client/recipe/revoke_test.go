package recipe

import (
	"errors"
	"testing"

	"github.com/zkserver/zkserver/client"
)

// A request reaches who holds, whoever made it, also when it came before the lock was held; it takes nothing away.
func TestRevoke(t *testing.T) {
	onBothWires(t, func(e *env) {
		c, other := e.dial(), e.dial()
		m := NewMutex(c, "/m", Options{ID: "host-1"})
		h := e.hold(m.Lock(e.ctx))
		waits := background(func() (*Hold, error) { return NewMutex(other, "/m", Options{ID: "host-2"}).Lock(e.ctx) })
		e.children(c, "/m", 2)
		all, err := m.Participants(e.ctx)
		e.ok(err)
		if len(all) != 2 || all[0].ID != "host-1" || all[0].Token != h.Token() || all[0].Path != h.Path() || all[1].ID != "host-2" {
			e.Fatalf("participants %+v", all)
		}
		_, err = other.Set(e.ctx, h.Path(), []byte("note"), client.AnyVersion) // not a request
		e.ok(err)
		e.ok(Revoke(e.ctx, other, all[1].Path)) // who waits is told later
		_, err = other.Set(e.ctx, h.Path(), []byte("__REVOKE__"), client.AnyVersion)
		e.ok(err)
		e.told(h)
		e.ok(Revoke(e.ctx, other, h.Path())) // twice
		e.ok(h.Context().Err())
		e.ok(h.Release(e.ctx))
		next := e.got(waits)
		e.told(next)
		e.ok(next.Release(e.ctx))
		if err := Revoke(e.ctx, c, next.Path()); !errors.Is(err, ErrGone) {
			e.Errorf("nobody to ask: %v", err)
		}
	})
}

// A request whose event falls into a disconnect is seen with the next connection.
func TestRevokeDuringADisconnect(t *testing.T) {
	onBothWires(t, func(e *env) {
		net := &frozen{factor: 1}
		c, other := e.dialWith(client.Options{DialContext: net.dial}), e.dial()
		h := e.hold(NewRWMutex(c, "/rw", Options{}).RLock(e.ctx))
		net.freeze()
		e.s.Cut()
		e.ok(Revoke(e.ctx, other, h.Path()))
		select {
		case <-h.Revoked():
			e.Error("told without a connection")
		default:
		}
		net.thaw()
		e.told(h)
		e.ok(h.Release(e.ctx))
	})
}

func (e *env) told(h *Hold) {
	e.Helper()
	select {
	case <-h.Revoked():
	case <-e.ctx.Done():
		e.Fatal("not told of the request")
	}
}
