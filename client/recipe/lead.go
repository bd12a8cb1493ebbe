package recipe

import (
	"context"
	"errors"

	"github.com/zkserver/zkserver/client"
)

// Lead takes part in an election until ctx ends, in as many sessions as that takes: each time it leads it calls lead,
// which has to return soon after the Hold's context has ended. When lead returns, it has resigned; with nil, or when the
// Hold had ended, Lead campaigns again, behind those who wait. dial makes a session; Lead closes it.
//
// It returns when ctx has ended (the Holds end with it), with the error of a lead whose Hold was live, or when dial or
// the election fails for a reason that another session does not mend. lead is not running then, and the session that it
// led by has been closed.
func Lead(ctx context.Context, dial func(context.Context) (*client.Client, error), path string, o Options, lead func(*Hold) error) error {
	return Sessions(ctx, dial, func(ctx context.Context, c *client.Client) error { return leadBy(ctx, c, path, o, lead) })
}

// leadBy is Lead in one session.
func leadBy(ctx context.Context, c *client.Client, path string, o Options, lead func(*Hold) error) error {
	e := NewElection(c, path, o)
	for {
		h, err := e.Campaign(ctx)
		if errors.Is(err, ErrGone) {
			continue
		}
		if err != nil {
			return err
		}
		stop := context.AfterFunc(ctx, func() { h.end(context.Cause(ctx)) })
		err = lead(h)
		stop()
		if live := h.Context().Err() == nil; live && err != nil {
			return err
		}
		if err := h.Release(ctx); err != nil {
			return err
		}
	}
}
