package recipe

import (
	"context"
	"errors"
	"sync"

	"github.com/zkserver/zkserver/client"
)

// Sessions calls run with a session, and when that has expired with another one, until ctx ends: whatever has a method
// Run goes on so for as long as a program does. dial makes a session; Sessions closes it once run has returned.
//
//	err := recipe.Sessions(ctx, dial, cache.Run)
//
// It returns when ctx has ended, or with what run or dial returns, nil included, when that is not about an expired
// session (client.ErrSessionExpired) or about servers that cannot be reached (client.ErrNoServer).
func Sessions(ctx context.Context, dial func(context.Context) (*client.Client, error), run func(context.Context, *client.Client) error) error {
	once := func() error {
		c, err := dial(ctx)
		if err != nil {
			return err
		}
		defer func() { _ = c.Close() }() // also when run panics; where it cannot, the session is left to its timeout
		return run(ctx, c)
	}
	for {
		err := once()
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if !errors.Is(err, client.ErrSessionExpired) && !errors.Is(err, client.ErrNoServer) {
			return err
		}
	}
}

// Together calls functions at the same time; as soon as one returns, the context of the others ends. It returns when all
// have, with the first one's error. So several recipes share a session:
//
//	err := recipe.Sessions(ctx, dial, func(ctx context.Context, c *client.Client) error {
//		return recipe.Together(ctx, c, cache.Run, group.Run)
//	})
func Together(ctx context.Context, c *client.Client, run ...func(context.Context, *client.Client) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var wg sync.WaitGroup
	var once sync.Once
	var first error
	for _, f := range run {
		wg.Go(func() {
			err := f(ctx, c)
			once.Do(func() { first = err })
			cancel()
		})
	}
	wg.Wait()
	return first
}
