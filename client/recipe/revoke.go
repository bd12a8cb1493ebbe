package recipe

import (
	"context"
	"errors"

	"github.com/zkserver/zkserver/client"
)

// revocation is what Curator's Revoker writes into a node.
const revocation = "__REVOKE__"

// Revoke asks whoever has the node of a Hold (Hold.Path, Participant.Path) to give it up: it writes a word into the node,
// as Curator's Revoker does, and does not wait. It is a request: see Hold.Revoked. Curator's InterProcessMutex hears it
// if it was made revocable. Through disconnects it is repeated; errors: what ended ctx, client.ErrSessionExpired, ErrGone
// when the node is not there (any more), or those of client.Set.
func Revoke(ctx context.Context, c *client.Client, path string) error {
	err := do(ctx, c, func() error {
		_, err := c.Set(ctx, path, []byte(revocation), client.AnyVersion)
		return err
	})
	if errors.Is(err, client.ErrNoNode) {
		return ErrGone
	}
	return err
}

// Revoked is closed when somebody has asked for the Hold (Revoke, or Curator's Revoker): who can make way ends the work
// and releases; who does not goes on, nothing is taken away. It never opens again. A request that comes during a
// disconnect is seen with the next connection, one that comes while a lock is waited for as soon as it is held. Of a
// multi-lock it is that of the last path.
func (h *Hold) Revoked() <-chan struct{} { return h.revoked }
