package grpcfront

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/zkserver/zkserver/client"
	"github.com/zkserver/zkserver/server/session"
)

// The client's gRPC wire against this front: the operations have their own tests in client, so here it is what only
// the two together show.
func TestClient(t *testing.T) {
	s := start(t, nil)
	ctx := callContext(t)
	c, err := client.Dial(ctx, s.addr, client.Options{Wire: client.GRPC, SessionTimeout: 5 * time.Second, MaxReply: 300_000})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Abandon()
	id := c.Session().ID
	if _, err := c.Create(ctx, "/e", nil, client.Ephemeral); err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	for g := range 20 {
		wg.Go(func() {
			p := fmt.Sprintf("/g%d", g)
			if _, err := c.Create(ctx, p, nil, client.Persistent); err != nil {
				t.Error(err)
				return
			}
			for i := range 50 {
				if _, err := c.Set(ctx, p, fmt.Append(nil, i), int32(i)); err != nil {
					t.Error(err)
					return
				}
				if b, _, err := c.Get(ctx, p); err != nil || string(b) != fmt.Sprint(i) {
					t.Errorf("read %q, %v behind set %d", b, err, i)
					return
				}
			}
		})
	}
	wg.Wait()

	// A cut: the session, its node and its watches go on.
	_, _, w, err := c.GetW(ctx, "/g0")
	if err != nil {
		t.Fatal(err)
	}
	sub := c.Subscribe()
	defer sub.Stop()
	s.hub.CloseAll(session.ReasonNotServing)
	wantState(t, ctx, sub, client.Suspended)
	wantState(t, ctx, sub, client.Connected)
	if _, st, err := c.Get(ctx, "/e"); err != nil || st.EphemeralOwner != id || c.Session().ID != id {
		t.Errorf("after the cut: owner %#x, session %#x, %v", st.EphemeralOwner, c.Session().ID, err)
	}
	if _, err := c.Set(ctx, "/g0", nil, client.AnyVersion); err != nil {
		t.Fatal(err)
	}
	select {
	case ev := <-w.C:
		if ev.Type != client.EventDataChanged || ev.Path != "/g0" {
			t.Errorf("event %+v", ev)
		}
	case <-ctx.Done():
		t.Error("no event")
	}

	// A reply over the client's limit costs its call only.
	if _, err := c.Set(ctx, "/g1", make([]byte, 400_000), client.AnyVersion); err != nil {
		t.Fatal(err)
	}
	if _, _, err := c.Get(ctx, "/g1"); !errors.Is(err, client.ErrReplyTooLarge) {
		t.Errorf("large reply: %v", err)
	}
	if err := c.AddAuth(ctx, "nonsense", nil); !errors.Is(err, client.ErrAuthFailed) {
		t.Errorf("nonsense auth: %v", err)
	}
	wantState(t, ctx, sub, client.Suspended)
	wantState(t, ctx, sub, client.Connected)

	s.b.Expire(id)
	wantState(t, ctx, sub, client.Expired)
	if _, _, err := c.Get(ctx, "/e"); !errors.Is(err, client.ErrSessionExpired) {
		t.Errorf("after the expiry: %v", err)
	}

	c2, err := client.Dial(ctx, s.addr, client.Options{Wire: client.GRPC})
	if err != nil {
		t.Fatal(err)
	}
	if err := c2.Close(); err != nil {
		t.Errorf("Close: %v", err)
	}
}

func wantState(t *testing.T, ctx context.Context, sub *client.Subscription, want client.State) {
	t.Helper()
	for {
		select {
		case ch, open := <-sub.C:
			if !open {
				t.Fatalf("the states end before %v", want)
			}
			if ch.State == want {
				return
			}
		case <-ctx.Done():
			t.Fatalf("state %v does not come", want)
		}
	}
}
