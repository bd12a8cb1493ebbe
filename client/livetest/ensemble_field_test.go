package livetest

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/zkserver/zkserver/client"
)

// TestFieldC20EnsembleBackInTime (docs/field-reports.md): the ensemble has no quorum for a part of the session's time. A
// client that was told that its session is in doubt is told that it is connected again, with the same id; its ephemeral
// and its watch are there, and stay.
func TestFieldC20EnsembleBackInTime(t *testing.T) {
	e := startEnsemble(t, 3)
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	const timeout = 10 * time.Second
	type told struct {
		c     *client.Client
		sub   *client.Subscription
		id    int64
		watch *client.Watch
		path  string
	}
	var all []told
	for _, w := range wires {
		c, err := client.Dial(ctx, strings.Join(e.addrs, ","), client.Options{Wire: w, SessionTimeout: timeout})
		if err != nil {
			t.Fatal(err)
		}
		defer closeClient(t, c)
		path := "/c20-" + w.String()
		if _, err := c.Create(ctx, path, nil, client.Ephemeral); err != nil {
			t.Fatal(err)
		}
		_, _, watch, err := c.GetW(ctx, path)
		if err != nil {
			t.Fatal(err)
		}
		sub := c.Subscribe()
		defer sub.Stop()
		all = append(all, told{c, sub, c.Session().ID, watch, path})
	}
	state := func(x told, want client.State) {
		t.Helper()
		for {
			select {
			case ch := <-x.sub.C:
				if ch.State == client.Lost {
					t.Fatalf("%s: the session is lost", x.path)
				}
				if ch.State == want {
					return
				}
			case <-ctx.Done():
				t.Fatalf("%s: not told of %v", x.path, want)
			}
		}
	}
	e.stop(0)
	e.stop(1)
	for _, x := range all {
		state(x, client.Suspended)
		short, stop := context.WithTimeout(ctx, 200*time.Millisecond)
		if _, err := x.c.Set(short, x.path, nil, client.AnyVersion); err == nil {
			t.Errorf("%s: written without a quorum", x.path)
		}
		stop()
	}
	e.start(0)
	e.start(1)
	for _, x := range all {
		state(x, client.Connected)
		if id := x.c.Session().ID; id != x.id {
			t.Errorf("session %#x became %#x", x.id, id)
		}
		_, st, _, err := retry(ctx, func() ([]byte, client.Stat, *client.Watch, error) {
			d, st, err := x.c.Get(ctx, x.path)
			return d, st, nil, err
		})
		if err != nil || st.EphemeralOwner != x.id {
			t.Errorf("%s: %+v, %v", x.path, st, err)
		}
		for {
			_, err := x.c.Set(ctx, x.path, []byte("new"), client.AnyVersion)
			if err == nil {
				break
			}
			if !errors.Is(err, client.ErrConnectionLoss) {
				t.Fatal(err)
			}
		}
		select {
		case ev := <-x.watch.C:
			if ev.Type != client.EventDataChanged {
				t.Errorf("%s: event %+v", x.path, ev)
			}
		case <-ctx.Done():
			t.Errorf("%s: no event", x.path)
		}
	}
}
