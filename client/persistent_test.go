package client

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zkserver/zkserver/proto/jute"
)

// stay adds a watch against a scripted reply.
func stay(t *testing.T, c *Client, s *fakeConn, path string, mode WatchMode) *PersistentWatch {
	t.Helper()
	ch := background(func() (*PersistentWatch, error) { return c.AddWatch(context.Background(), path, mode) })
	r := s.expect(jute.OpAddWatch)
	var q jute.AddWatchRequest
	q.Decode(r.d)
	if q.Path.Value != c.serverPath(path) || int32(q.Mode) != int32(mode) {
		t.Fatalf("request %+v", q)
	}
	s.reply(r.Xid, 1, 0, &jute.ErrorResponse{})
	g := <-ch
	if g.err != nil {
		t.Fatal(g.err)
	}
	return g.v
}

// wantTold reads the next event of a watch that stays, as "type path".
func wantTold(t *testing.T, w *PersistentWatch, want ...string) {
	t.Helper()
	synctest.Wait()
	var got []string
	for len(w.C) > 0 {
		ev := <-w.C
		got = append(got, fmt.Sprintf("%v %s", ev.Type, ev.Path))
	}
	if !slices.Equal(got, want) {
		t.Errorf("told %q, want %q", got, want)
	}
}

// wantEnd reads the last event of a watch, and the end of its channel.
func wantEnd(t *testing.T, w *PersistentWatch, code Code) {
	t.Helper()
	synctest.Wait()
	var last Event
	for ev := range w.C {
		last = ev
	}
	if last.Type != EventLost || !errors.Is(last.Err, code) {
		t.Errorf("last event %+v, want the loss for %v", last, code)
	}
}

func wantRemoval(t *testing.T, s *fakeConn, path string, typ WatcherType, code Code) {
	t.Helper()
	r := s.expect(jute.OpRemoveWatches)
	var q jute.RemoveWatchesRequest
	q.Decode(r.d)
	if q.Path.Value != path || int32(q.Type) != int32(typ) {
		t.Fatalf("request %+v, want the removal of %s", q, path)
	}
	s.reply(r.Xid, 1, jute.ErrorCode(code), nil)
}

func TestPersistentWatches(t *testing.T) {
	bubble(t, "a:1/app", nil, func(t *testing.T, f *fakeServers, c *Client) {
		s := f.accept()
		s.welcome()
		node := stay(t, c, s, "/n", WatchNode)
		tree := stay(t, c, s, "/n", WatchTree)
		root := stay(t, c, s, "/", WatchTree)
		s.event(jute.EventType(EventCreated), "/app/n", 10)
		s.event(jute.EventType(EventCreated), "/app/n/a", 11)
		s.event(jute.EventType(EventChildrenChanged), "/app/n", 11)
		s.event(jute.EventType(EventDataChanged), "/app/nn", 12)
		s.event(jute.EventType(EventDeleted), "/app/n", 13)
		wantTold(t, node, "NodeCreated /n", "NodeChildrenChanged /n", "NodeDeleted /n")
		wantTold(t, tree, "NodeCreated /n", "NodeCreated /n/a", "NodeDeleted /n")
		wantTold(t, root, "NodeCreated /n", "NodeCreated /n/a", "NodeDataChanged /nn", "NodeDeleted /n")

		// After a reconnect they are armed again, beside the one-shot ones, and told that something may be missing.
		data := arm(t, c, s, jute.OpGetData, "/d", OK)
		_ = s.Close()
		synctest.Wait()
		s = f.accept()
		s.welcome()
		r := s.expect(jute.OpSetWatches2)
		var q jute.SetWatches2
		q.Decode(r.d)
		if r.d.Err() != nil || len(r.d.Rest()) != 0 || !slices.Equal(q.DataWatches, []string{"/app/d"}) || !slices.Equal(q.PersistentWatches, []string{"/app/n"}) || !slices.Equal(q.PersistentRecursiveWatches, []string{"/app", "/app/n"}) {
			t.Errorf("setWatches2 %+v", q)
		}
		s.reply(r.Xid, 20, 0, nil)
		wantTold(t, node, "WatchRearmed /n")
		wantTold(t, root, "WatchRearmed /")
		wantNoEvent(t, data)
		s.event(jute.EventType(EventDataChanged), "/app/n", 21)
		wantTold(t, node, "NodeDataChanged /n")
		wantTold(t, tree, "WatchRearmed /n", "NodeDataChanged /n")

		// The server's watch goes with the last of its kind and path.
		again := stay(t, c, s, "/n", WatchNode)
		if err := node.Remove(t.Context()); err != nil {
			t.Error(err)
		}
		wantEnd(t, node, ErrWatchRemoved)
		s.event(jute.EventType(EventDataChanged), "/app/n", 22)
		wantTold(t, again, "NodeDataChanged /n")
		gone := background(func() (int, error) { return 0, again.Remove(t.Context()) })
		wantRemoval(t, s, "/app/n", WatchersNode, ErrNoWatcher)
		if g := <-gone; g.err != nil {
			t.Error(g.err)
		}
		if err := again.Remove(t.Context()); err != nil {
			t.Error("second removal:", err)
		}

		// RemoveWatches ends whatever it takes from the server.
		gone = background(func() (int, error) { return 0, c.RemoveWatches(t.Context(), "/n", WatchersAny) })
		wantRemoval(t, s, "/app/n", WatchersAny, OK)
		if g := <-gone; g.err != nil {
			t.Error(g.err)
		}
		wantEnd(t, tree, ErrWatchRemoved)
		gone = background(func() (int, error) { return 0, c.RemoveWatches(t.Context(), "/d", WatchersData) })
		wantRemoval(t, s, "/app/d", WatchersData, OK)
		<-gone
		if ev := <-data.C; ev.Type != EventLost || !errors.Is(ev.Err, ErrWatchRemoved) {
			t.Errorf("the one-shot watch got %+v", ev)
		}
		_ = s.Close()
		synctest.Wait()
		f.accept().refuse()
		wantEnd(t, root, ErrSessionExpired)
	})
}

func TestPersistentWatchOverflow(t *testing.T) {
	bubble(t, "a:1", func(o *Options) { o.WatchRoom = 3 }, func(t *testing.T, f *fakeServers, c *Client) {
		s := f.accept()
		s.welcome()
		slow := stay(t, c, s, "/", WatchTree)
		for i := range 10 {
			s.event(jute.EventType(EventCreated), fmt.Sprintf("/%d", i), int64(i+1))
			if i == 3 {
				wantRemoval(t, s, "/", WatchersTree, OK)
			}
		}
		synctest.Wait()
		for i := range 3 {
			if ev := <-slow.C; ev.Path != fmt.Sprintf("/%d", i) {
				t.Errorf("event %d is %+v", i, ev)
			}
		}
		wantEnd(t, slow, ErrWatchOverflow)
	})
}

// A caller who gives up on AddWatch leaves no watch behind, wherever its request was.
func TestAbandonedAddWatch(t *testing.T) {
	bubble(t, "a:1", nil, func(t *testing.T, f *fakeServers, c *Client) {
		s := f.accept()
		s.welcome()
		synctest.Wait()
		add := func() (chan result[*PersistentWatch], context.CancelFunc) {
			ctx, cancel := context.WithCancel(t.Context())
			return background(func() (*PersistentWatch, error) { return c.AddWatch(ctx, "/n", WatchNode) }), cancel
		}
		ch, cancel := add()
		r := s.expect(jute.OpAddWatch)
		cancel()
		wantCode(t, (<-ch).err, ErrOperationTimeout, true)
		s.reply(r.Xid, 1, 0, &jute.ErrorResponse{})
		wantRemoval(t, s, "/n", WatchersNode, OK)

		ch, cancel = add()
		defer cancel()
		r = s.expect(jute.OpAddWatch)
		s.reply(r.Xid, 1, jute.ErrorCode(ErrMarshalling), nil)
		wantCode(t, (<-ch).err, ErrMarshalling, false)

		ch, cancel = add()
		defer cancel()
		s.expect(jute.OpAddWatch)
		_ = s.Close()
		wantCode(t, (<-ch).err, ErrConnectionLoss, true)

		ch, cancel = add() // waits for a connection
		synctest.Wait()
		cancel()
		wantCode(t, (<-ch).err, ErrOperationTimeout, false)
		c.mu.Lock()
		n := len(c.staying[WatchNode])
		c.mu.Unlock()
		if n != 0 {
			t.Errorf("%d watches are still wanted", n)
		}
		f.accept().welcome()
		time.Sleep(time.Second)
	})
}
