package recipe

import (
	"context"
	"errors"

	"github.com/zkserver/zkserver/client"
)

// Barrier holds up whoever waits at a path as long as its node is there. Curator's DistributedBarrier and kazoo's Barrier
// on the same path are the same barrier.
type Barrier struct {
	c    *client.Client
	path string
	o    Options
	r    *receipts
}

// NewBarrier names a barrier; it does nothing yet. The node outlives whoever sets it.
func NewBarrier(c *client.Client, path string, o Options) *Barrier {
	return &Barrier{c: c, path: path, o: o, r: newReceipts(c, parent(path), o.ACL)}
}

// Set sets the barrier, if it is not set: with Options.ID as the node's data. It goes on through disconnects, and however
// many replies are lost it sets it once, so that it does not undo somebody's Remove. Errors: what ended ctx,
// client.ErrSessionExpired (client.MaybeApplied then tells whether it may be set), or those of client.Create.
func (b *Barrier) Set(ctx context.Context) error {
	for {
		_, _, err := b.r.multi(ctx, client.CreateOp{Path: b.path, Data: []byte(b.o.ID), ACL: b.o.ACL})
		switch {
		case errors.Is(err, client.ErrNodeExists):
			return nil
		case !errors.Is(err, client.ErrNoNode):
			return err
		}
		if err := makeDir(ctx, b.c, parent(b.path), b.o.ACL); err != nil {
			return err
		}
	}
}

// Remove lets everybody pass, if the barrier is set. Through disconnects and lost replies as Set; errors as of Set.
func (b *Barrier) Remove(ctx context.Context) error {
	_, _, err := b.r.multi(ctx, client.DeleteOp{Path: b.path, Version: client.AnyVersion})
	if errors.Is(err, client.ErrNoNode) {
		return nil
	}
	return err
}

// Wait returns once the barrier is not set. It sees every Set that had returned before it was called, and goes on through
// disconnects. Errors: what ended ctx, client.ErrSessionExpired, or client.ErrNoAuth.
func (b *Barrier) Wait(ctx context.Context) error {
	return do(ctx, b.c, func() error {
		if err := b.c.Sync(ctx, b.path); err != nil {
			return err
		}
		for {
			_, there, w, err := b.c.ExistsW(ctx, b.path)
			if err != nil {
				return err
			}
			if !there {
				w.Stop()
				return nil
			}
			if err := await(ctx, w); err != nil {
				return err
			}
		}
	})
}

// await waits until one of the watches has something to say, and ends them all.
func await(ctx context.Context, watches ...*client.Watch) error {
	defer func() {
		for _, w := range watches {
			w.Stop()
		}
	}()
	var second <-chan client.Event
	if len(watches) > 1 {
		second = watches[1].C
	}
	select {
	case ev := <-watches[0].C:
		return ev.Err
	case ev := <-second:
		return ev.Err
	case <-ctx.Done():
		return ctx.Err()
	}
}
