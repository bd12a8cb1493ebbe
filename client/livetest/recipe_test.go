package livetest

import (
	"context"
	"errors"
	"fmt"
	"os"
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

// TestRecipesApache runs the recipes against the Apache ZooKeeper server that ZK_APACHE (host:port) names.
func TestRecipesApache(t *testing.T) {
	addr := os.Getenv("ZK_APACHE")
	if addr == "" {
		t.Skip("ZK_APACHE is not set")
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	cut := &cutter{to: addr}
	cut.start(t)
	c, err := client.Dial(ctx, cut.addr, client.Options{SessionTimeout: 10 * time.Second, BackoffMax: 50 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	defer closeClient(t, c)
	root := fmt.Sprintf("/recipes-%d", time.Now().UnixNano())
	rw := recipe.NewRWMutex(c, root+"/rw", recipe.Options{})
	for name, acquire := range map[string]func(context.Context) (*recipe.Hold, error){
		"election":  recipe.NewElection(c, root+"/election", recipe.Options{ID: "a"}).Campaign,
		"mutex":     recipe.NewMutex(c, root+"/mutex", recipe.Options{}).Lock,
		"write":     rw.Lock,
		"read":      rw.RLock,
		"semaphore": recipe.NewSemaphore(c, root+"/semaphore", 1, recipe.Options{}).Acquire,
	} {
		last := int64(0)
		for range 3 {
			h, err := acquire(ctx)
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			if h.Token() <= last {
				t.Errorf("%s: token %#x after %#x", name, h.Token(), last)
			}
			last = h.Token()
			states := c.Subscribe()
			cut.block(true)
			cut.block(false)
			for ch := range states.C {
				if ch.State == client.Suspended {
					break
				}
			}
			states.Stop()
			f, err := h.Fence(ctx, root+"/epoch-"+name)
			if err != nil {
				t.Fatalf("%s: fence: %v", name, err)
			}
			if _, err := f.Multi(ctx, client.SetOp{Path: root, Version: client.AnyVersion}); err != nil {
				t.Errorf("%s: a write under the fence: %v", name, err)
			}
			if err := h.Context().Err(); err != nil {
				t.Errorf("%s: %v", name, context.Cause(h.Context()))
			}
			if err := h.Release(ctx); err != nil {
				t.Errorf("%s: release: %v", name, err)
			}
		}
	}
}
