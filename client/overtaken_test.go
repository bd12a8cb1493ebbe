package client

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zkserver/zkserver/proto/jute"
)

// slowReply is a connection whose reply takes long to decode.
type slowReply struct {
	link
	begun, goOn chan struct{}
}

func (l *slowReply) body(jute.OpCode, *reply) error {
	close(l.begun)
	<-l.goOn
	return nil
}

func (l *slowReply) close() {}

// TestWatchOfAReplyThatTheEndOvertakes: when the session ends between a reply and what it is for, the caller has its answer,
// and the watch that came with it is told of the end.
func TestWatchOfAReplyThatTheEndOvertakes(t *testing.T) {
	for _, tc := range []struct {
		name string
		call func(c *Client) (*call, <-chan Event)
	}{
		{"watch", func(c *Client) (*call, <-chan Event) {
			cl := newCall(request{op: jute.OpGetData, path: "/x", watch: true})
			cl.watch = newWatch(c, jute.OpGetData)
			return cl, cl.watch.C
		}},
		{"persistent", func(c *Client) (*call, <-chan Event) {
			cl := newCall(request{op: jute.OpAddWatch, path: "/x"})
			ch := make(chan Event, 2)
			cl.stays = &PersistentWatch{C: ch, c: c, ch: ch, path: "/x"}
			c.want(cl.stays)
			return cl, ch
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFakes(t)
				f.setUp(false)
				c, err := Dial(t.Context(), "a:1", f.options())
				if err != nil {
					t.Fatal(err)
				}
				l := &slowReply{begun: make(chan struct{}), goOn: make(chan struct{})}
				n := &connection{link: l, done: make(chan struct{}), closed: make(chan struct{})}
				c.mu.Lock()
				cl, events := tc.call(c)
				cl.xid, cl.sent = 1, time.Now()
				c.conn = n
				c.pending.push(cl)
				c.mu.Unlock()
				answered := make(chan error)
				go func() { answered <- c.answer(n, inbound{xid: 1, zxid: 5}) }()
				<-l.begun
				c.Abandon()
				close(l.goOn)
				if err := <-answered; err != nil {
					t.Error(err)
				}
				<-cl.done
				if cl.code != OK {
					t.Errorf("the caller is told %v", cl.code)
				}
				synctest.Wait()
				select {
				case ev := <-events:
					if _, more := <-events; more || ev.Type != EventLost || !errors.Is(ev.Err, ErrClosed) {
						t.Errorf("event %+v, more: %v", ev, more)
					}
				default:
					t.Error("the watch is never told")
				}
			})
		})
	}
}
