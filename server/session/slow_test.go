package session_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"unsafe"

	"github.com/zkserver/zkserver/server/session"
	"github.com/zkserver/zkserver/znode"
)

// A reply that waits for its client counts for what it takes here, not for what it is on the wire.
func TestLateRepliesCountInFull(t *testing.T) {
	r := start(t, session.Options{})
	s := newSink(0)
	s.block = make(chan struct{})
	c := r.open(&lineWire{}, s, session.Attach{})
	n := 0
	for ; !c.Ended(); n++ {
		c.Answer(&session.Reply{Op: znode.OpAuth, Xid: -4})
		c.Flush()
	}
	if held := n * int(unsafe.Sizeof(session.Reply{})); c.Reason() != session.ReasonSlow || held > session.HardReplies+1<<20 {
		t.Errorf("%q behind %d replies of %d bytes in all", c.Reason(), n, held)
	}
}

// A setWatches behind a write cannot wait for its client: what it tells is complete and in order up to the bound of
// events, and beyond it the client is cut off.
func TestSetWatchesBehindAWrite(t *testing.T) {
	for _, tc := range []struct {
		paths int
		ends  bool
	}{{6_000, false}, {20_000, true}} {
		r := start(t, session.Options{})
		s := newSink(0)
		s.block = make(chan struct{})
		c := r.open(&lineWire{}, s, session.Attach{})
		lists := &session.SetWatches{}
		var want []string
		for i := range tc.paths {
			path := fmt.Sprintf("/%0100d", i)
			lists.Data = append(lists.Data, path)
			want = append(want, "event -1 2 "+path)
		}
		r.b.Hold()
		done := make(chan error, 1)
		go func() { // ends when the client reads, or the connection ends
			done <- c.Do([]session.Request{createReq(1, "/a", open), {Op: znode.OpSetWatches, Xid: 2, Lists: lists}})
		}()
		until(t, "the requests", func() bool { return r.hub.Stats().Outstanding == 2 })
		r.b.Resume()
		if tc.ends {
			until(t, "the end", c.Ended)
			if <-done; c.Reason() != session.ReasonSlow {
				t.Errorf("ended as %q", c.Reason())
			}
			continue
		}
		close(s.block)
		if err := <-done; err != nil {
			t.Fatal(err)
		}
		want = append(append([]string{"1:0:"}, want...), "2:0:")
		until(t, "the reply", func() bool { return strings.HasPrefix(s.lines()[len(s.lines())-1], "2:") })
		if got := s.lines(); !slices.Equal(got, want) {
			t.Errorf("%d lines, want %d", len(got), len(want))
		}
	}
}
