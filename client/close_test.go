package client

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zkserver/zkserver/proto/jute"
)

func TestCloseEndsTheSession(t *testing.T) {
	bubble(t, "a:1", nil, func(t *testing.T, f *fakeServers, c *Client) {
		s := f.accept()
		s.welcome()
		waits := getData(c, "/n")
		r := s.expect(jute.OpGetData)
		closed := background(func() (int, error) { return 0, c.Close() })
		q := s.expect(jute.OpCloseSession)
		_, _, err := c.Get(t.Context(), "/late")
		wantCode(t, err, ErrClosed, false)
		s.reply(r.Xid, 1, 0, &jute.GetDataResponse{Data: []byte("v")})
		s.reply(q.Xid, 2, 0, nil)
		if g := <-waits; g.err != nil || g.v != "v" {
			t.Errorf("the call before Close gave %v", g)
		}
		if err := (<-closed).err; err != nil {
			t.Errorf("Close: %v", err)
		}
		if err := c.Close(); err != nil || c.State() != Closed {
			t.Errorf("second Close: %v, state %v", err, c.State())
		}
		_, _, err = c.Get(t.Context(), "/n")
		wantCode(t, err, ErrClosed, false)
	})
}

// G9: Close returns within a second whatever the server does and however much waits to be sent. Calls after it fail at
// once, also another Close; what it leaves running fails the test.
func TestCloseDoesNotHang(t *testing.T) {
	for name, prepare := range map[string]func(f *fakeServers){
		"no server":       func(f *fakeServers) {},
		"silent server":   func(f *fakeServers) { s := f.accept(); s.welcome(); go s.drain() },
		"reads nothing":   func(f *fakeServers) { f.accept().welcome() },
		"half handshaken": func(f *fakeServers) { f.accept().readConnect() },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFakes(t)
				f.setUp(name != "no server")
				o := f.options()
				o.MaxPending = 3
				c, err := Dial(t.Context(), "a:1", o)
				if err != nil {
					t.Fatal(err)
				}
				sub := c.Subscribe()
				prepare(f)
				var waits []chan result[string] // more than there is room for
				for range 2 * o.MaxPending {
					waits = append(waits, getData(c, "/n"))
				}
				synctest.Wait()
				began := time.Now()
				_ = c.Close()
				if d := time.Since(began); d > time.Second {
					t.Errorf("Close took %v", d)
				}
				for _, w := range waits {
					if g := <-w; !errors.Is(g.err, ErrClosed) {
						t.Errorf("a waiting call gave %v", g.err)
					}
				}
				began = time.Now()
				for range 2 * o.MaxPending {
					_, _, err = c.Get(t.Context(), "/n")
					wantCode(t, err, ErrClosed, false)
				}
				if err := c.Close(); err != nil || !time.Now().Equal(began) {
					t.Errorf("Close again: %v, all after %v", err, time.Since(began))
				}
				var last State
				for ch := range sub.C {
					last = ch.State
				}
				if last != Closed {
					t.Errorf("last state %v", last)
				}
			})
		})
	}
}

func TestDialFailsCleanly(t *testing.T) {
	for _, connect := range []string{"", "/app", "a:0", "a:b", "a:1/app/", "a:1/x//y", ":1"} {
		if c, err := Dial(t.Context(), connect, Options{NoWait: true}); err == nil {
			c.Abandon()
			t.Errorf("%q is accepted", connect)
		}
	}
	if _, err := Dial(t.Context(), "a:1", Options{SessionTimeout: -1, MaxReply: -1}); err == nil {
		t.Error("bad options are accepted")
	}
}

// G12: who does not read loses old changes only.
func TestSlowSubscriberGetsTheLastStates(t *testing.T) {
	bubble(t, "a:1", nil, func(t *testing.T, f *fakeServers, c *Client) {
		sub := c.Subscribe()
		for range 3 * subscriptionRoom {
			s := f.accept()
			s.welcome()
			synctest.Wait()
			_ = s.Close()
			synctest.Wait()
		}
		s := f.accept()
		s.welcome()
		s.expect(jute.OpPing) // nobody reads the states, and pings go on
		_ = s.Close()
		f.accept().refuse()
		synctest.Wait()
		n, last := 0, Connecting
		for ch := range sub.C {
			n++
			last = ch.State
		}
		if n != subscriptionRoom || last != Expired {
			t.Errorf("%d changes, the last %v", n, last)
		}
	})
}

// G10: a hundred lost servers leave one connection and the same goroutines (goleak at the end of the package).
func TestManyReconnectsLeaveNothing(t *testing.T) {
	bubble(t, "a:1,b:1,c:1", nil, func(t *testing.T, f *fakeServers, c *Client) {
		for range 100 {
			s := f.accept()
			s.welcome()
			synctest.Wait()
			_ = s.Close()
		}
		s := f.accept()
		s.welcome()
		synctest.Wait()
		if len(f.conns) != 0 || c.State() != Connected {
			t.Errorf("%d connections too many, state %v", len(f.conns), c.State())
		}
		go s.serveClose()
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
}
