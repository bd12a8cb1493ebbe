package recipe

import (
	"context"
	"errors"
	"time"

	"github.com/zkserver/zkserver/client"
)

// Pauses between attempts. The first one after a disconnect comes as soon as there is a connection.
const (
	pauseMin = 10 * time.Millisecond
	pauseMax = 250 * time.Millisecond
)

// passing reports whether an error is of the connection, so that the session goes on.
func passing(err error) bool {
	switch client.CodeOf(err) {
	case client.ErrConnectionLoss, client.ErrSessionMoved, client.ErrThrottled, client.ErrRequestTimeout:
		return true
	}
	return false
}

// unsure reports whether a write that failed may have been applied, or may still be.
func unsure(err error) bool {
	switch client.CodeOf(err) {
	case client.ErrRequestTimeout, client.ErrProtocol, client.ErrReplyTooLarge:
		return true
	}
	return client.MaybeApplied(err)
}

// overtake makes sure that nothing which this session has sent before is executed later: whatever was to be has been. An
// empty multi does that. Requests of an earlier connection are refused once the session has another one; but a leader
// elected after the move may not know of it, unless a write through the new connection tells. So a sync would not do.
func overtake(ctx context.Context, c *client.Client) error {
	_, err := c.Multi(ctx)
	return err
}

// attempts counts, for the pause between two of them.
type attempts struct{ n int }

// again waits for a connection, and a pause from the second time on. It fails when ctx or the session ends.
func (a *attempts) again(ctx context.Context, c *client.Client) error {
	if a.n++; a.n > 1 {
		t := time.NewTimer(min(pauseMin<<min(a.n, 10), pauseMax))
		defer t.Stop()
		select {
		case <-t.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	states := c.Subscribe()
	defer states.Stop()
	for {
		select {
		case ch, ok := <-states.C:
			switch {
			case ch.State == client.Connected:
				return nil
			case !ok:
				return client.ErrClosed // the final state was read before
			case ch.State.Final():
				return ch.Err
			}
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// do repeats what can be repeated.
func do(ctx context.Context, c *client.Client, f func() error) error {
	var a attempts
	for {
		err := f()
		if err == nil || !passing(err) {
			return err
		}
		if e := a.again(ctx, c); e != nil {
			return errors.Join(e, err)
		}
	}
}

// over reports whether an error says that the session is, so that its ephemeral nodes are gone or about to go.
func over(err error) bool {
	for _, code := range []client.Code{client.ErrSessionExpired, client.ErrClosed, client.ErrAuthFailed} {
		if errors.Is(err, code) {
			return true
		}
	}
	return false
}
