package recipe

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/zkserver/zkserver/client"
)

// However many replies are lost, a multi is executed once, and its result is known.
func TestReceipts(t *testing.T) {
	onBothWires(t, func(e *env) {
		c := e.dial()
		r := newReceipts(c, "/r", nil)
		put := client.CreateOp{Path: "/r/n-", Mode: client.PersistentSequential}
		for i := range 4 {
			if i > 0 {
				e.s.LoseReply() // the first one would be that of the receipt
			}
			_, st, err := r.multi(e.ctx, put)
			e.ok(err)
			names, _, err := c.Children(e.ctx, "/r")
			e.ok(err)
			all := line(names)
			if len(all) != i+1 || e.s.LostReplies() != i {
				e.Fatalf("round %d: %q, %d replies lost", i, names, e.s.LostReplies())
			}
			if got, _, err := c.Exists(e.ctx, "/r/"+all[i].name); err != nil || got.Czxid != st.Mzxid {
				e.Errorf("czxid %#x, told %#x, %v", got.Czxid, st.Mzxid, err)
			}
		}
		// Refusals, with and without a reply.
		for range 2 {
			if results, _, err := r.multi(e.ctx, put, client.DeleteOp{Path: "/none"}); !errors.Is(err, client.ErrNoNode) || client.MaybeApplied(err) {
				e.Errorf("%v, %v", results, err)
			}
			e.s.LoseReply()
		}
		// The receipt is removed by somebody else.
		e.ok(remove(e.ctx, c, r.free[0].path))
		_, _, err := r.multi(e.ctx, put)
		e.ok(err)
		e.children(c, "/r", 6)
	})
}

// One that was given up while its fate was unknown is not mistaken for the next one.
func TestReceiptsGivenUp(t *testing.T) {
	onBothWires(t, func(e *env) {
		c := e.dial()
		r := newReceipts(c, "/r", nil)
		put := client.CreateOp{Path: "/r/n-", Mode: client.PersistentSequential}
		_, _, err := r.multi(e.ctx, put)
		e.ok(err)
		e.s.Pause()
		ctx, cancel := context.WithTimeout(e.ctx, 20*time.Millisecond)
		_, _, err = r.multi(ctx, put)
		cancel()
		if !errors.Is(err, context.DeadlineExceeded) || !client.MaybeApplied(err) {
			e.Errorf("given up: %v", err)
		}
		e.s.Resume()
		if _, _, err := r.multi(e.ctx, put, client.DeleteOp{Path: "/none"}); !errors.Is(err, client.ErrNoNode) {
			e.Errorf("a refusal is %v", err)
		}
		e.children(c, "/r", 3) // two, and the receipt
	})
}

// At the end of the session a multi whose reply was lost says that nobody knows.
func TestReceiptsExpired(t *testing.T) {
	onBothWires(t, func(e *env) {
		g := &gate{}
		c, admin := e.dialWith(client.Options{DialContext: g.dial}), e.dial()
		r := newReceipts(c, "/r", nil)
		put := client.CreateOp{Path: "/r/n-", Mode: client.PersistentSequential}
		_, _, err := r.multi(e.ctx, put)
		e.ok(err)
		g.shut()
		e.s.LoseReply()
		done := make(chan error, 1)
		go func() {
			_, _, err := r.multi(e.ctx, put)
			done <- err
		}()
		e.children(admin, "/r", 3)
		e.ok(e.s.Expire(c.Session()))
		g.open()
		if err := <-done; !errors.Is(err, client.ErrSessionExpired) || !client.MaybeApplied(err) {
			e.Errorf("expired: %v", err)
		}
	})
}
