package session_test

import (
	"context"
	"sync"
	"testing"

	"github.com/zkserver/zkserver/server/session"
	"github.com/zkserver/zkserver/server/session/sessiontest"
	"github.com/zkserver/zkserver/znode"
)

// TestOpenWhileTheHubEnds: fronts accept until they have ended themselves, which may be after the hub has: a connection
// opened then is closed at once, and counting it races with nothing (for the race detector).
func TestOpenWhileTheHubEnds(t *testing.T) {
	for range 50 {
		hub := session.NewHub(session.Options{})
		backend := sessiontest.New(hub, znode.Options{})
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		ended, begun := make(chan struct{}), make(chan struct{})
		wg.Go(func() { _ = backend.Run(ctx) })
		wg.Go(func() { // ends with the hub
			defer close(ended)
			if err := hub.Run(ctx); err != nil {
				t.Error(err)
			}
		})
		wg.Go(func() { // ends when the hub has
			for n := 0; ; n++ {
				c := hub.Open(&lineWire{}, newSink(1<<20), "127.0.0.1", "x")
				c.Release()
				if n == 20 {
					close(begun)
				}
				select {
				case <-ended:
					if c = hub.Open(&lineWire{}, newSink(1<<20), "127.0.0.1", "x"); !c.Ended() {
						t.Error("a connection of a hub that has ended is open")
					}
					c.Release()
					return
				default:
				}
			}
		})
		<-begun
		cancel()
		wg.Wait()
	}
}
