package client

import (
	"errors"
	"testing"
	"testing/synctest"

	"github.com/zkserver/zkserver/proto/jute"
)

// TestEventStream: every event, in order, once; a reader that is too slow is told so last; the end of the session is
// told last.
func TestEventStream(t *testing.T) {
	room := func(o *Options) { o.WatchRoom = 2 }
	bubble(t, "a:1/chroot", room, func(t *testing.T, f *fakeServers, c *Client) {
		s := f.accept()
		s.welcome()
		synctest.Wait()
		slow, quick, stopped := c.Events(), c.Events(), c.Events()
		stopped.Stop()
		if _, ok := <-stopped.C; ok {
			t.Error("an event behind Stop")
		}
		for i, path := range []string{"/chroot/a", "/chroot", "/other"} {
			s.event(jute.EventType(i+1), path, int64(i))
			synctest.Wait()
			ev := <-quick.C
			if want := []string{"/a", "/", "/other"}[i]; int(ev.Type) != i+1 || ev.Path != want || ev.Zxid != int64(i) {
				t.Errorf("event %+v", ev)
			}
		}
		var got []Event
		for ev := range slow.C {
			got = append(got, ev)
		}
		if len(got) != 3 || got[2].Type != EventLost || !errors.Is(got[2].Err, ErrWatchOverflow) {
			t.Errorf("the slow one got %+v", got)
		}
		c.Abandon()
		if ev := <-quick.C; ev.Type != EventLost || !errors.Is(ev.Err, ErrClosed) {
			t.Errorf("last event %+v", ev)
		}
		late := c.Events()
		late.Stop()
		if ev := <-late.C; !errors.Is(ev.Err, ErrClosed) {
			t.Errorf("a closed client's event %+v", ev)
		}
	})
}

// TestReadOnly: a session made at a server in read-only mode is known there alone, so that the next connection asks for
// another; one that a server of the quorum made is kept, also through a read-only server.
func TestReadOnly(t *testing.T) {
	bubble(t, "a:1,b:1", func(o *Options) { o.ReadOnly = true }, func(t *testing.T, f *fakeServers, c *Client) {
		sub := c.Subscribe()
		defer sub.Stop()
		<-sub.C // connecting
		at := func(id int64, readOnly bool, wantID int64) *fakeConn {
			t.Helper()
			s := f.accept()
			if r := s.readConnect(); !r.ReadOnly || r.SessionID != wantID {
				t.Errorf("connect request %+v, want session %#x", r, wantID)
			}
			s.writeConnected(jute.ConnectResponse{TimeOut: fakeTimeout, SessionID: id, Passwd: fakePassword(), ReadOnly: readOnly})
			if ch := <-sub.C; ch.State != Connected || ch.ReadOnly != readOnly {
				t.Errorf("state %+v", ch)
			}
			if got := c.Session().ID; got != id {
				t.Errorf("session %#x, want %#x", got, id)
			}
			return s
		}
		drop := func(s *fakeConn) {
			t.Helper()
			_ = s.Close()
			wantStates(t, sub, Suspended)
		}
		drop(at(7, true, 0))
		drop(at(8, false, 0))
		drop(at(8, true, 8))
		at(8, false, 8)
	})
}
