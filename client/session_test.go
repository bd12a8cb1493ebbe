package client

import (
	"context"
	"errors"
	"math"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zkserver/zkserver/proto/jute"
)

func TestHandshakeAndCalls(t *testing.T) {
	bubble(t, "a:1", nil, func(t *testing.T, f *fakeServers, c *Client) {
		s := f.accept()
		req := s.welcome()
		if req.SessionID != 0 || req.LastZxidSeen != 0 || req.TimeOut != 10_000 || len(req.Passwd) != 16 {
			t.Errorf("connect request %+v", req)
		}
		synctest.Wait()
		if got := c.Session(); got.ID != fakeSession || got.Timeout != 10*time.Second || string(got.Password) != string(fakePassword()) {
			t.Errorf("session %+v", got)
		}
		got := background(func() ([]byte, error) { b, _, err := c.Get(t.Context(), "/n"); return b, err })
		r := s.expect(jute.OpGetData)
		if r.Xid != 1 {
			t.Errorf("first xid %d", r.Xid)
		}
		s.reply(r.Xid, 7, 0, &jute.GetDataResponse{Stat: jute.Stat{Czxid: 3, Version: 2, Ctime: 1500}})
		if g := <-got; g.err != nil || g.v != nil {
			t.Errorf("null data came as %v, %v", g.v, g.err)
		}
		got = background(func() ([]byte, error) { b, _, err := c.Get(t.Context(), "/n"); return b, err })
		r = s.expect(jute.OpGetData)
		s.reply(r.Xid, 7, 0, &jute.GetDataResponse{Data: []byte{}})
		if g := <-got; g.err != nil || g.v == nil || len(g.v) != 0 {
			t.Errorf("empty data came as %v, %v", g.v, g.err)
		}
		made := background(func() (string, error) { return c.Create(t.Context(), "/s-", nil, EphemeralSequential) })
		r = s.expect(jute.OpCreate)
		var q jute.CreateRequest
		q.Decode(r.d)
		if r.d.Err() != nil || q.Path.Value != "/s-" || q.Data != nil || q.Flags != 3 || len(q.ACL) != 1 {
			t.Errorf("create request %+v", q)
		}
		s.reply(r.Xid, 8, 0, &jute.CreateResponse{Path: jute.Str("/s-0000000001")})
		if g := <-made; g.err != nil || g.v != "/s-0000000001" {
			t.Errorf("create gave %v", g)
		}
		made = background(func() (string, error) { return c.Create(t.Context(), "/s", nil, Persistent) })
		r = s.expect(jute.OpCreate)
		s.reply(r.Xid, 9, jute.ErrorCode(ErrNodeExists), nil)
		wantCode(t, (<-made).err, ErrNodeExists, false)
		_, _, err := c.Get(t.Context(), "no-slash")
		wantCode(t, err, ErrBadArguments, false)
	})
}

func TestManyGoroutinesArePipelined(t *testing.T) {
	bubble(t, "a:1", nil, func(t *testing.T, f *fakeServers, c *Client) {
		s := f.accept()
		s.welcome()
		const n = 300
		var all []chan result[string]
		for range n {
			all = append(all, getData(c, "/n"))
		}
		var xids []int32
		for range n { // no reply before all requests are there
			xids = append(xids, s.expect(jute.OpGetData).Xid)
		}
		for i, x := range xids {
			if x != int32(i+1) {
				t.Fatalf("request %d has xid %d", i, x)
			}
			s.reply(x, 1, 0, &jute.GetDataResponse{Data: []byte("v")})
		}
		for _, ch := range all {
			if g := <-ch; g.err != nil || g.v != "v" {
				t.Fatalf("get gave %v", g)
			}
		}
	})
}

// B14, C1: what the next connection says of the last.
func TestReconnectResumesTheSession(t *testing.T) {
	bubble(t, "a:1,b:1", nil, func(t *testing.T, f *fakeServers, c *Client) {
		sub := c.Subscribe()
		defer sub.Stop()
		s := f.accept()
		s.welcome()
		got := getData(c, "/n")
		r := s.expect(jute.OpGetData)
		s.reply(r.Xid, 42, 0, &jute.GetDataResponse{})
		<-got
		s.event(jute.EventType(EventCreated), "/other", 99) // moves no zxid
		lost := getData(c, "/lost")
		s.expect(jute.OpGetData)
		_ = s.Close()
		synctest.Wait()
		wantCode(t, (<-lost).err, ErrConnectionLoss, true)
		waits := getData(c, "/waits") // made while there is no connection

		s = f.accept()
		if s.addr != "b:1" {
			t.Errorf("went to %s, not on to the next server", s.addr)
		}
		req := s.welcome()
		if req.SessionID != fakeSession || string(req.Passwd) != string(fakePassword()) || req.LastZxidSeen != 42 {
			t.Errorf("reconnected with %+v", req)
		}
		r = s.expect(jute.OpGetData)
		s.reply(r.Xid, 43, 0, &jute.GetDataResponse{Data: []byte("w")})
		if g := <-waits; g.err != nil || g.v != "w" {
			t.Errorf("the waiting call gave %v", g)
		}
		wantStates(t, sub, Connecting, Connected, Suspended, Connected)
	})
}

// What was behind a lost request, but not sent, is not executed and fails.
func TestUnsentCallsFailWithTheConnection(t *testing.T) {
	bubble(t, "a:1", nil, func(t *testing.T, f *fakeServers, c *Client) {
		s := f.accept()
		s.welcome()
		synctest.Wait()
		big := background(func() (Stat, error) { return c.Set(t.Context(), "/big", make([]byte, 1<<20), AnyVersion) })
		synctest.Wait() // the writer is stuck in it: nobody reads
		small := background(func() (Stat, error) { return c.Set(t.Context(), "/small", nil, AnyVersion) })
		synctest.Wait()
		_ = s.Close()
		synctest.Wait()
		wantCode(t, (<-big).err, ErrConnectionLoss, true)
		wantCode(t, (<-small).err, ErrConnectionLoss, false)
	})
}

func TestPingsKeepAnIdleSession(t *testing.T) {
	bubble(t, "a:1", nil, func(t *testing.T, f *fakeServers, c *Client) {
		s := f.accept()
		s.welcome()
		synctest.Wait()
		began := time.Now()
		for range 50 {
			r := s.expect(jute.OpPing)
			if r.Xid != jute.XidPing {
				t.Fatalf("ping with xid %d", r.Xid)
			}
			s.reply(jute.XidPing, 1000, 0, nil)
		}
		if d := time.Since(began); d != 50*2*time.Second {
			t.Errorf("50 pings took %v", d)
		}
		if c.State() != Connected || len(f.conns) != 0 {
			t.Errorf("state %v, %d more connections", c.State(), len(f.conns))
		}
		if until := c.HoldUntil(); time.Until(until) < 6*time.Second {
			t.Errorf("hold ends in %v", time.Until(until))
		}
		_ = s.Close()
		synctest.Wait()
		if z := f.accept().readConnect().LastZxidSeen; z != 0 {
			t.Errorf("a ping moved the last zxid to %d", z)
		}
	})
}

// A server that falls silent is left in time to find another before the deadline.
func TestSilentServerIsLeft(t *testing.T) {
	bubble(t, "a:1,b:1", nil, func(t *testing.T, f *fakeServers, c *Client) {
		sub := c.Subscribe()
		defer sub.Stop()
		s := f.accept()
		s.welcome()
		began := time.Now()
		go s.drain()
		f.accept().welcome()
		wantStates(t, sub, Connecting, Connected, Suspended, Connected)
		if d := time.Since(began); d < 5*time.Second || d > 6500*time.Millisecond {
			t.Errorf("another server after %v", d)
		}
	})
}

// C19: without servers the holder stops at two thirds, and the truth is learnt when servers return.
func TestLostByTheClock(t *testing.T) {
	bubble(t, "a:1,b:1", nil, func(t *testing.T, f *fakeServers, c *Client) {
		sub := c.Subscribe()
		defer sub.Stop()
		s := f.accept()
		s.welcome()
		synctest.Wait()
		time.Sleep(time.Second)
		sent := time.Now()
		got := getData(c, "/n")
		r := s.expect(jute.OpGetData)
		time.Sleep(500 * time.Millisecond) // the deadline counts from the sending
		s.reply(r.Xid, 1, 0, &jute.GetDataResponse{})
		<-got
		hold, cancel := c.HoldContext(t.Context())
		defer cancel()
		f.setUp(false)
		_ = s.Close()
		synctest.Wait()
		wantStates(t, sub, Connecting, Connected, Suspended)
		if hold.Err() != nil || c.HoldUntil().IsZero() {
			t.Fatal("the hold ended with the connection")
		}
		<-hold.Done()
		d := time.Since(sent)
		if want := fakeTimeoutD() * 2 / 3; d < want || d > want+10*time.Millisecond {
			t.Errorf("the hold ended %v after the sending, want %v", d, want)
		}
		if err := context.Cause(hold); !errors.Is(err, ErrLost) {
			t.Errorf("cause %v", err)
		}
		wantStates(t, sub, Lost)
		if h, cancel := c.HoldContext(t.Context()); !errors.Is(context.Cause(h), ErrLost) || !c.HoldUntil().IsZero() {
			t.Error("a hold can begin while the session is lost")
		} else {
			cancel()
		}
		time.Sleep(40 * time.Second)
		f.setUp(true)
		s = f.accept()
		if req := s.welcome(); req.SessionID != fakeSession {
			t.Errorf("came back with %+v", req)
		}
		wantStates(t, sub, Connected)
	})
}

func fakeTimeoutD() time.Duration { return time.Duration(fakeTimeout) * time.Millisecond }

func TestExpiry(t *testing.T) {
	bubble(t, "a:1,b:1", nil, func(t *testing.T, f *fakeServers, c *Client) {
		sub := c.Subscribe()
		s := f.accept()
		s.welcome()
		watched := background(func() (*Watch, error) { _, _, w, err := c.GetW(t.Context(), "/n"); return w, err })
		r := s.expect(jute.OpGetData)
		s.reply(r.Xid, 1, 0, &jute.GetDataResponse{})
		w := (<-watched).v
		hold, cancel := c.HoldContext(t.Context())
		defer cancel()
		_ = s.Close()
		synctest.Wait()
		synctest.Wait()
		waits := getData(c, "/waits")
		f.accept().refuse()
		wantCode(t, (<-waits).err, ErrSessionExpired, false)
		wantStates(t, sub, Connecting, Connected, Suspended, Expired)
		if _, open := <-sub.C; open {
			t.Error("a state after Expired")
		}
		ev, open := <-w.C
		if !open || ev.Type != EventLost || !errors.Is(ev.Err, ErrSessionExpired) || ev.Path != "/n" {
			t.Errorf("the watch got %+v, %v", ev, open)
		}
		if _, open := <-w.C; open {
			t.Error("a second event")
		}
		<-hold.Done()
		if !errors.Is(context.Cause(hold), ErrSessionExpired) {
			t.Errorf("cause %v", context.Cause(hold))
		}
		_, _, err := c.Get(t.Context(), "/n")
		wantCode(t, err, ErrSessionExpired, false)
		time.Sleep(time.Minute)
		if n := len(f.dialled()); n != 2 {
			t.Errorf("%d connections, want 2: nothing after the expiry", n)
		}
	})
}

// C18: a process that slept past the deadline says so before anything else, and believes no stale answer.
func TestPausedPastTheDeadline(t *testing.T) {
	bubble(t, "a:1", nil, func(t *testing.T, f *fakeServers, c *Client) {
		sub := c.Subscribe()
		s := f.accept()
		s.welcome()
		synctest.Wait()
		got := getData(c, "/n")
		r := s.expect(jute.OpGetData)
		c.mu.Lock()
		c.answered = time.Now().Add(-20 * time.Second) // as after a stop of the process
		c.mu.Unlock()
		s.reply(r.Xid, 1, 0, &jute.GetDataResponse{Data: []byte("stale")})
		wantCode(t, (<-got).err, ErrConnectionLoss, true)
		wantStates(t, sub, Connecting, Connected, Suspended, Lost)
		f.accept().refuse()
		wantStates(t, sub, Expired)
	})
}

func TestReplyOutOfTurnEndsTheConnection(t *testing.T) {
	bubble(t, "a:1", nil, func(t *testing.T, f *fakeServers, c *Client) {
		s := f.accept()
		s.welcome()
		a := getData(c, "/a")
		r := s.expect(jute.OpGetData)
		s.reply(r.Xid+1, 1, 0, &jute.GetDataResponse{})
		wantCode(t, (<-a).err, ErrConnectionLoss, true)
		f.accept().welcome()
	})
}

func TestBrokenBodyEndsTheConnection(t *testing.T) {
	bubble(t, "a:1", nil, func(t *testing.T, f *fakeServers, c *Client) {
		s := f.accept()
		s.welcome()
		a := getData(c, "/a")
		r := s.expect(jute.OpGetData)
		s.reply(r.Xid, 1, 0, nil)
		wantCode(t, (<-a).err, ErrProtocol, false)
		f.accept().welcome()
	})
}

// B4: a reply over the limit costs its call only.
func TestReplyTooLarge(t *testing.T) {
	bubble(t, "a:1", func(o *Options) { o.MaxReply = 1000 }, func(t *testing.T, f *fakeServers, c *Client) {
		s := f.accept()
		s.welcome()
		a, b := getData(c, "/a"), chan result[string](nil)
		r := s.expect(jute.OpGetData)
		b = getData(c, "/b")
		s.reply(r.Xid, 1, 0, &jute.GetDataResponse{Data: make([]byte, 200_000)})
		wantCode(t, (<-a).err, ErrReplyTooLarge, false)
		r = s.expect(jute.OpGetData)
		s.reply(r.Xid, 1, 0, &jute.GetDataResponse{Data: []byte("b")})
		if g := <-b; g.err != nil || g.v != "b" {
			t.Errorf("the next call gave %v", g)
		}
	})
}

func TestCancelledCalls(t *testing.T) {
	bubble(t, "a:1", nil, func(t *testing.T, f *fakeServers, c *Client) {
		s := f.accept()
		s.welcome()
		synctest.Wait()
		ctx, cancel := context.WithCancel(t.Context())
		set := func(p string) chan result[Stat] {
			return background(func() (Stat, error) { return c.Set(ctx, p, nil, AnyVersion) })
		}
		sent := set("/sent")
		r := s.expect(jute.OpSetData)
		cancel()
		g := <-sent
		wantCode(t, g.err, ErrOperationTimeout, true)
		if !errors.Is(g.err, context.Canceled) {
			t.Errorf("%v does not say why", g.err)
		}
		wantCode(t, (<-set("/never")).err, ErrOperationTimeout, false)

		// One that waits for a connection is taken back.
		after := getData(c, "/after")
		s.reply(r.Xid, 1, 0, &jute.SetDataResponse{}) // for nobody
		r = s.expect(jute.OpGetData)                  // and /never was not sent
		s.reply(r.Xid, 1, 0, &jute.GetDataResponse{})
		if g := <-after; g.err != nil {
			t.Errorf("the next call gave %v", g.err)
		}
		_ = s.Close()
		synctest.Wait()
		s = f.accept()
		ctx, cancel = context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		wantCode(t, (<-set("/queued")).err, ErrOperationTimeout, false)
		s.welcome()
		after = getData(c, "/after")
		r = s.expect(jute.OpGetData)
		s.reply(r.Xid, 1, 0, &jute.GetDataResponse{})
		<-after
	})
}

func TestPendingIsBounded(t *testing.T) {
	bubble(t, "a:1", func(o *Options) { o.MaxPending = 2 }, func(t *testing.T, f *fakeServers, c *Client) {
		s := f.accept()
		s.welcome()
		a, b := getData(c, "/1"), getData(c, "/2")
		r1, _ := s.expect(jute.OpGetData), s.expect(jute.OpGetData)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, _, err := c.Get(ctx, "/3")
		wantCode(t, err, ErrOperationTimeout, false)
		third := getData(c, "/3")
		synctest.Wait()
		s.reply(r1.Xid, 1, 0, &jute.GetDataResponse{})
		s.expect(jute.OpGetData)
		_ = s.Close()
		synctest.Wait()
		n := 0
		for _, ch := range []chan result[string]{a, b, third} {
			if errors.Is((<-ch).err, ErrConnectionLoss) {
				n++
			}
		}
		if n != 2 {
			t.Errorf("%d calls lost, want 2", n)
		}
		go f.accept().drain()
		synctest.Wait()
		if len(c.room) != 0 {
			t.Errorf("%d places still taken", len(c.room))
		}
	})
}

func TestXidWrapsToOne(t *testing.T) {
	bubble(t, "a:1", nil, func(t *testing.T, f *fakeServers, c *Client) {
		s := f.accept()
		s.welcome()
		c.mu.Lock()
		c.xid = math.MaxInt32 - 1
		c.mu.Unlock()
		for _, want := range []int32{math.MaxInt32, 1, 2} {
			got := getData(c, "/n")
			r := s.expect(jute.OpGetData)
			if r.Xid != want {
				t.Errorf("xid %d, want %d", r.Xid, want)
			}
			s.reply(r.Xid, 1, 0, &jute.GetDataResponse{})
			<-got
		}
	})
}

func TestBackoffGrowsAndIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakes(t)
		f.setUp(false)
		o := f.options()
		o.NoWait, o.BackoffMin, o.BackoffMax = false, 100*time.Millisecond, 2*time.Second
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		_, err := Dial(ctx, "a:1,b:1", o)
		wantCode(t, err, ErrNoServer, false)
		if !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "refused") {
			t.Errorf("error %v", err)
		}
		// Rounds of two attempts: 0.1, 0.2, 0.4, ... 2 s, drawn from the upper half.
		if n := len(f.dialled()); n < 2*30 || n > 2*66 {
			t.Errorf("%d attempts in a minute", n)
		}
	})
}

func TestResume(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakes(t)
		o := f.options()
		o.Resume = Session{ID: 5, Password: []byte("sixteen bytes...")}
		c, err := Dial(t.Context(), "a:1", o)
		if err != nil {
			t.Fatal(err)
		}
		s := f.accept()
		if r := s.readConnect(); r.SessionID != 5 || string(r.Passwd) != "sixteen bytes..." {
			t.Errorf("connect request %+v", r)
		}
		s.writeConnected(jute.ConnectResponse{Passwd: make([]byte, 16)})
		_ = s.Close()
		synctest.Wait()
		wantCode(t, c.wait(t.Context()), ErrSessionExpired, false)
		if c.Close() != nil || c.State() != Expired {
			t.Errorf("state %v after Close", c.State())
		}
	})
}

func TestFailFast(t *testing.T) {
	bubble(t, "a:1", func(o *Options) { o.FailFast = true }, func(t *testing.T, f *fakeServers, c *Client) {
		_, _, err := c.Get(t.Context(), "/n")
		wantCode(t, err, ErrConnectionLoss, false)
		f.accept().welcome()
	})
}

func TestGiveUpAfter(t *testing.T) {
	bubble(t, "a:1", func(o *Options) { o.GiveUpAfter = time.Minute }, func(t *testing.T, f *fakeServers, c *Client) {
		sub := c.Subscribe()
		s := f.accept()
		s.welcome()
		synctest.Wait()
		began := time.Now()
		f.setUp(false)
		_ = s.Close()
		synctest.Wait()
		waits := getData(c, "/n")
		wantCode(t, (<-waits).err, ErrSessionExpired, false)
		if d := time.Since(began); d != time.Minute {
			t.Errorf("given up after %v", d)
		}
		wantStates(t, sub, Connecting, Connected, Suspended, Lost, Expired)
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
}

// G17: everything at once, under the race detector, while connections come and go.
func TestRacing(t *testing.T) {
	bubble(t, "a:1,b:1", nil, func(t *testing.T, f *fakeServers, c *Client) {
		const rounds = 8
		last := make(chan struct{}) // closed when the connection is there that is not closed here
		go func() {                 // ends with its last connection, which the test's end closes
			for i := range rounds + 1 {
				s := f.accept()
				s.welcome()
				if i == rounds {
					close(last)
				}
				for n := 0; n < 200 || i == rounds; n++ {
					r, err := s.next()
					if err != nil {
						return
					}
					if _, err := s.Write(jute.AppendReply(nil, jute.ReplyHeader{Xid: r.Xid, Zxid: 1, Err: errorFor(r.Type)})); err != nil {
						return
					}
				}
				_ = s.Close()
			}
		}()
		done := make(chan struct{})
		go func() { // ends with last
			defer close(done)
			for {
				select {
				case <-last:
					return
				default:
				}
				_ = c.AddAuth(t.Context(), "digest", []byte("u:p"))
				if _, _, w, err := c.ExistsW(t.Context(), "/x"); err == nil {
					w.Stop()
				}
			}
		}()
		for {
			_, cancel := c.HoldContext(t.Context())
			c.Session()
			c.State()
			c.Server()
			c.Subscribe().Stop()
			_ = c.Delete(t.Context(), "/x", AnyVersion)
			cancel()
			select {
			case <-done:
				return
			default:
			}
		}
	})
}

// errorFor lets operations succeed that have no body in their reply.
func errorFor(op jute.OpCode) jute.ErrorCode {
	if op == jute.OpExists {
		return jute.ErrorCode(ErrNoNode)
	}
	return 0
}
