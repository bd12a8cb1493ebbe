package livetest

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/zkserver/zkserver/client"
	"github.com/zkserver/zkserver/client/recipe"
)

// The servers of an ensemble go and come back, one after the other, the leader among them: who leads goes on leading with
// its session, and who waits keeps its place.
func TestElectionMoves(t *testing.T) {
	e := startEnsemble(t, 3)
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	for _, w := range wires {
		dial := func() *client.Client {
			c, err := client.Dial(ctx, strings.Join(e.addrs, ","), client.Options{Wire: w, SessionTimeout: 30 * time.Second})
			if err != nil {
				t.Fatal(err)
			}
			return c
		}
		a, b := dial(), dial()
		defer closeClient(t, a)
		defer closeClient(t, b)
		path := "/election-" + w.String()
		h, err := recipe.NewElection(a, path, recipe.Options{ID: "a"}).Campaign(ctx)
		if err != nil {
			t.Fatal(err)
		}
		type result struct {
			h   *recipe.Hold
			err error
		}
		next := make(chan result, 1)
		go func() {
			h, err := recipe.NewElection(b, path, recipe.Options{ID: "b"}).Campaign(ctx)
			next <- result{h, err}
		}()
		fence, err := h.Fence(ctx, path+"-epoch")
		if err != nil {
			t.Fatal(err)
		}
		for moves := 0; moves < 2; {
			i := slices.Index(e.addrs, a.Server())
			if i < 0 {
				_, _, _ = a.Exists(ctx, "/") // waits for a connection
				continue
			}
			e.stop(i)
			for {
				_, err := fence.Multi(ctx, client.SetOp{Path: path, Data: []byte("x"), Version: client.AnyVersion})
				if err == nil {
					break
				}
				if !errors.Is(err, client.ErrConnectionLoss) {
					t.Fatal(err)
				}
			}
			e.start(i)
			e.serves(i)
			moves++
		}
		if err := h.Context().Err(); err != nil {
			t.Errorf("%v: the leader has ended: %v", w, context.Cause(h.Context()))
		}
		if err := h.Release(ctx); err != nil {
			t.Error(err)
		}
		r := <-next
		if r.err != nil {
			t.Fatal(r.err)
		}
		if r.h.Token() <= h.Token() {
			t.Errorf("%v: token %#x after %#x", w, r.h.Token(), h.Token())
		}
		if err := r.h.Release(ctx); err != nil {
			t.Error(err)
		}
	}
}
