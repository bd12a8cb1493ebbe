package recipe

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/zkserver/zkserver/client"
)

// G3: a create whose reply was lost is found again.
func TestCreateFindsItself(t *testing.T) {
	onBothWires(t, func(e *env) {
		c := e.dial()
		_, err := c.Create(e.ctx, "/d", nil, client.Persistent)
		e.ok(err)
		for i, mode := range []client.CreateMode{client.Persistent, client.Ephemeral, client.PersistentSequential, client.EphemeralSequential} {
			e.s.LoseReply()
			path, st, err := Create(e.ctx, c, "/d/n-", []byte("x"), mode)
			e.ok(err)
			if e.s.LostReplies() != i+1 {
				e.Fatal("no reply was lost")
			}
			e.children(c, "/d", i+1)
			data, got, err := c.Get(e.ctx, path)
			if err != nil || string(data) != "x" || got != st || !strings.HasPrefix(path, "/d/_c_") {
				e.Errorf("%v: %s is %q %+v, told %+v, %v", mode, path, data, got, st, err)
			}
		}
	})
}

// A refusal whose reply was lost is a refusal.
func TestCreateRefused(t *testing.T) {
	onBothWires(t, func(e *env) {
		c := e.dial()
		e.s.LoseReply()
		if _, _, err := Create(e.ctx, c, "/none/n", nil, client.Ephemeral); !errors.Is(err, client.ErrNoNode) {
			e.Errorf("error %v", err)
		}
		e.s.LoseReply()
		if path, _, err := Create(e.ctx, c, "/n-", nil, client.EphemeralSequential); err != nil || path[:4] != "/_c_" {
			e.Errorf("%s, %v", path, err)
		}
	})
}

// G4: a create that was given up leaves nothing, whether it had arrived, or arrives later, or the reply gets lost too.
func TestCreateGivenUp(t *testing.T) {
	onBothWires(t, func(e *env) {
		c := e.dialWith(client.Options{SessionTimeout: 20 * time.Second})
		admin := e.dialWith(client.Options{SessionTimeout: 20 * time.Second})
		_, err := c.Create(e.ctx, "/d", nil, client.Persistent)
		e.ok(err)
		for _, lose := range []bool{false, true} {
			if lose {
				e.s.LoseReply()
			}
			e.s.Pause()
			ctx, cancel := context.WithTimeout(e.ctx, 50*time.Millisecond)
			_, _, err := Create(ctx, c, "/d/n-", nil, client.EphemeralSequential)
			cancel()
			if !errors.Is(err, context.DeadlineExceeded) {
				e.Errorf("error %v", err)
			}
			e.s.Resume()
			// Behind whatever was sent: then the removal, at the latest after the next write of the same client.
			if _, err := c.Create(e.ctx, "/d/mark", nil, client.Persistent); err != nil && !client.MaybeApplied(err) {
				e.Fatal(err)
			}
			e.children(admin, "/d", 1)
			e.ok(remove(e.ctx, c, "/d/mark"))
			e.children(admin, "/d", 0)
		}
	})
}
