package recipe

import (
	"context"
	"errors"
	"testing"

	"github.com/zkserver/zkserver/client"
)

// H4: who handles events is in a call while who handles the end of the session waits for it. The end of the session ends
// the call, so neither waits for ever, and the next session is made.
func TestFieldH4HandlersThatWaitForEachOther(t *testing.T) {
	onBothWires(t, func(e *env) {
		c := e.dial()
		states := c.Subscribe()
		defer states.Stop()
		e.await(states, client.Connected)
		calling, handled := make(chan struct{}), make(chan error, 1)
		e.s.Pause()
		go func() { // ends with the session
			close(calling)
			_, _, err := c.Get(context.Background(), "/")
			for passing(err) { // a disconnect is not the end of the session
				_, _, err = c.Get(context.Background(), "/")
			}
			handled <- err
		}()
		<-calling
		e.ok(e.s.Expire(c.Session()))
		e.s.Cut()
		e.s.Resume()
		e.await(states, client.Expired)
		select {
		case err := <-handled:
			if !errors.Is(err, client.ErrSessionExpired) {
				e.Errorf("the call ended with %v", err)
			}
		case <-e.ctx.Done():
			e.Fatal("the call does not end")
		}
		_, _, err := e.dial().Exists(e.ctx, "/")
		e.ok(err)
	})
}
