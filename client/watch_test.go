package client

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"

	"github.com/zkserver/zkserver/proto/jute"
)

// arm sets a watch by the operation given, against a scripted reply.
func arm(t *testing.T, c *Client, s *fakeConn, op jute.OpCode, path string, code Code) *Watch {
	t.Helper()
	ch := background(func() (*Watch, error) {
		switch op {
		case jute.OpExists:
			_, _, w, err := c.ExistsW(context.Background(), path)
			return w, err
		case jute.OpGetChildren2:
			_, _, w, err := c.ChildrenW(context.Background(), path)
			return w, err
		}
		_, _, w, err := c.GetW(context.Background(), path)
		return w, err
	})
	r := s.expect(op)
	var q jute.GetDataRequest
	q.Decode(r.d)
	if !q.Watch || q.Path.Value != c.serverPath(path) {
		t.Fatalf("request %+v for a watch on %s", q, path)
	}
	var body jute.Record
	switch op {
	case jute.OpExists:
		body = &jute.ExistsResponse{}
	case jute.OpGetChildren2:
		body = &jute.GetChildren2Response{Children: []string{}}
	default:
		body = &jute.GetDataResponse{}
	}
	if code != OK {
		body = nil
	}
	s.reply(r.Xid, 100, jute.ErrorCode(code), body)
	g := <-ch
	if g.err != nil && code == OK {
		t.Fatal(g.err)
	}
	return g.v
}

func wantEvent(t *testing.T, w *Watch, typ EventType, path string, zxid int64) {
	t.Helper()
	synctest.Wait()
	select {
	case ev, open := <-w.C:
		if !open || ev.Type != typ || ev.Path != path || ev.Zxid != zxid || ev.Err != nil {
			t.Errorf("event %+v (open %v), want %v of %s", ev, open, typ, path)
		}
		if _, open := <-w.C; open {
			t.Error("a second event of one watch")
		}
	default:
		t.Errorf("no event, want %v of %s", typ, path)
	}
}

func wantNoEvent(t *testing.T, w *Watch) {
	t.Helper()
	synctest.Wait()
	select {
	case ev, open := <-w.C:
		t.Errorf("event %+v (open %v)", ev, open)
	default:
	}
}

func TestWatchesFireByKind(t *testing.T) {
	bubble(t, "a:1", nil, func(t *testing.T, f *fakeServers, c *Client) {
		s := f.accept()
		s.welcome()
		data1 := arm(t, c, s, jute.OpGetData, "/n", OK)
		data2 := arm(t, c, s, jute.OpExists, "/n", OK)
		child := arm(t, c, s, jute.OpGetChildren2, "/n", OK)
		exist := arm(t, c, s, jute.OpExists, "/missing", ErrNoNode)
		if w := arm(t, c, s, jute.OpGetData, "/missing", ErrNoNode); w != nil {
			t.Error("a failed read gave a watch")
		}
		s.event(jute.EventType(EventChildrenChanged), "/n", 101)
		wantEvent(t, child, EventChildrenChanged, "/n", 101)
		wantNoEvent(t, data1)
		s.event(jute.EventType(EventDataChanged), "/n", 102)
		wantEvent(t, data1, EventDataChanged, "/n", 102)
		wantEvent(t, data2, EventDataChanged, "/n", 102)
		s.event(jute.EventType(EventCreated), "/missing", 103)
		wantEvent(t, exist, EventCreated, "/missing", 103)
		s.event(jute.EventType(EventCreated), "/unknown", 104) // of no watch here
		child = arm(t, c, s, jute.OpGetChildren2, "/n", OK)
		data1 = arm(t, c, s, jute.OpGetData, "/n", OK)
		s.event(jute.EventType(EventDeleted), "/n", 105)
		wantEvent(t, child, EventDeleted, "/n", 105)
		wantEvent(t, data1, EventDeleted, "/n", 105)
	})
}

func TestStoppedWatchIsSilent(t *testing.T) {
	bubble(t, "a:1", nil, func(t *testing.T, f *fakeServers, c *Client) {
		s := f.accept()
		s.welcome()
		a := arm(t, c, s, jute.OpGetData, "/n", OK)
		b := arm(t, c, s, jute.OpGetData, "/n", OK)
		a.Stop()
		a.Stop()
		if ev, open := <-a.C; open {
			t.Errorf("event %v of a stopped watch", ev)
		}
		s.event(jute.EventType(EventDataChanged), "/n", 101)
		wantEvent(t, b, EventDataChanged, "/n", 101)
		b.Stop()
		arm(t, c, s, jute.OpGetData, "/m", OK).Stop()
		_ = s.Close()
		synctest.Wait()
		s = f.accept()
		s.welcome()
		got := getData(c, "/n") // the first request: nothing is left to arm again
		r := s.expect(jute.OpGetData)
		s.reply(r.Xid, 1, 0, &jute.GetDataResponse{})
		<-got
	})
}

// B5, G13: credentials first, then the watches in batches with full paths, then requests; events are told once.
func TestReconnectSendsAuthThenWatches(t *testing.T) {
	change := func(o *Options) { o.Auth = []Auth{{Scheme: "digest", Data: []byte("u:p")}} }
	bubble(t, "a:1/app", change, func(t *testing.T, f *fakeServers, c *Client) {
		s := f.accept()
		s.welcome()
		auth := func(want string) {
			t.Helper()
			r := s.expect(jute.OpAuth)
			var q jute.AuthPacket
			q.Decode(r.d)
			if r.Xid != jute.XidAuth || q.Scheme.Value != "digest" || string(q.Auth) != want {
				t.Errorf("auth packet %d %+v, want %s", r.Xid, q, want)
			}
			s.reply(jute.XidAuth, 0, 0, nil)
		}
		auth("u:p")
		added := background(func() (int, error) { return 0, c.AddAuth(t.Context(), "digest", []byte("v:q")) })
		auth("v:q")
		if err := (<-added).err; err != nil {
			t.Fatal(err)
		}
		root := arm(t, c, s, jute.OpGetChildren2, "/", OK)
		missing := arm(t, c, s, jute.OpExists, "/missing", ErrNoNode)
		const n = 5000
		c.mu.Lock()
		var many []*Watch
		for i := range n { // as if each had been armed by a read
			w := newWatch(c, jute.OpGetData)
			c.register(w, c.serverPath(nodePath(i)))
			many = append(many, w)
		}
		c.mu.Unlock()
		_ = s.Close()
		synctest.Wait()
		got := getData(c, "/n")

		s = f.accept()
		if z := s.welcome().LastZxidSeen; z != 100 {
			t.Errorf("last zxid %d", z)
		}
		auth("u:p")
		auth("v:q")
		var data, exist, child []string
		batches := 0
		for len(data) < n || len(exist) == 0 || len(child) == 0 {
			r := s.expect(jute.OpSetWatches)
			if r.Xid <= 0 || r.size > watchBatch+100 {
				t.Errorf("setWatches with xid %d of %d bytes", r.Xid, r.size)
			}
			var q jute.SetWatches
			q.Decode(r.d)
			if r.d.Err() != nil || q.RelativeZxid != 100 {
				t.Fatalf("setWatches of zxid %d: %v", q.RelativeZxid, r.d.Err())
			}
			data, exist, child = append(data, q.DataWatches...), append(exist, q.ExistWatches...), append(child, q.ChildWatches...)
			batches++
			if batches == 1 {
				s.event(jute.EventType(EventDataChanged), q.DataWatches[0], -1)
			}
			s.reply(r.Xid, 100, 0, nil)
		}
		if batches < n*100/watchBatch || len(data) != n || data[0] != "/app"+nodePath(0) || !slices.Equal(exist, []string{"/app/missing"}) || !slices.Equal(child, []string{"/app"}) {
			t.Errorf("%d batches, %d data paths, exist %v, child %v", batches, len(data), exist, child)
		}
		r := s.expect(jute.OpGetData)
		s.reply(r.Xid, 101, 0, &jute.GetDataResponse{})
		if g := <-got; g.err != nil {
			t.Error(g.err)
		}
		wantEvent(t, many[0], EventDataChanged, nodePath(0), -1)
		wantNoEvent(t, many[1])
		s.event(jute.EventType(EventChildrenChanged), "/app", 102)
		wantEvent(t, root, EventChildrenChanged, "/", 102)
		s.event(jute.EventType(EventCreated), "/app/missing", 103)
		wantEvent(t, missing, EventCreated, "/missing", 103)
	})
}

func TestRefusedSetWatchesIsTold(t *testing.T) {
	bubble(t, "a:1", nil, func(t *testing.T, f *fakeServers, c *Client) {
		s := f.accept()
		s.welcome()
		w := arm(t, c, s, jute.OpGetData, "/n", OK)
		_ = s.Close()
		synctest.Wait()
		s = f.accept()
		s.welcome()
		r := s.expect(jute.OpSetWatches)
		s.reply(r.Xid, 1, jute.ErrorCode(ErrMarshalling), nil)
		if ev := <-w.C; ev.Type != EventLost || !errors.Is(ev.Err, ErrMarshalling) {
			t.Errorf("event %+v", ev)
		}
	})
}

func TestRefusedAuth(t *testing.T) {
	bubble(t, "a:1", nil, func(t *testing.T, f *fakeServers, c *Client) {
		sub := c.Subscribe()
		s := f.accept()
		s.welcome()
		added := background(func() (int, error) { return 0, c.AddAuth(t.Context(), "digest", []byte("good")) })
		s.expect(jute.OpAuth)
		s.reply(jute.XidAuth, 0, 0, nil)
		if err := (<-added).err; err != nil {
			t.Fatal(err)
		}
		added = background(func() (int, error) { return 0, c.AddAuth(t.Context(), "nonsense", nil) })
		s.expect(jute.OpAuth)
		s.reply(jute.XidAuth, 0, jute.ErrorCode(ErrAuthFailed), nil)
		_ = s.Close()
		synctest.Wait()
		wantCode(t, (<-added).err, ErrAuthFailed, false)

		s = f.accept() // the session goes on without it
		s.welcome()
		r := s.expect(jute.OpAuth)
		var q jute.AuthPacket
		q.Decode(r.d)
		if q.Scheme.Value != "digest" {
			t.Errorf("sent again: %+v", q)
		}
		waits := getData(c, "/n")
		s.expect(jute.OpGetData)
		s.reply(jute.XidAuth, 0, jute.ErrorCode(ErrAuthFailed), nil) // now for good
		_ = s.Close()
		synctest.Wait()
		if g := <-waits; g.err == nil {
			t.Error("a call succeeded without its identity")
		}
		wantStates(t, sub, Connecting, Connected, Suspended, Connected, Suspended, AuthFailed)
		_, _, err := c.Get(t.Context(), "/n")
		wantCode(t, err, ErrAuthFailed, false)
	})
}
