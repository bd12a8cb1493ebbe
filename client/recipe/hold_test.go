package recipe

import (
	"context"
	"errors"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/zkserver/zkserver/client"
)

// Every recipe: one node, though the replies of its create and of its delete get lost, and the token is its czxid.
func TestLostReplies(t *testing.T) {
	onBothWires(t, func(e *env) {
		c := e.dial()
		for path, acquire := range recipes(Options{ID: "me"}) {
			h := e.hold(acquire(e.ctx, c))
			e.ok(h.Release(e.ctx))
			before := e.s.LostReplies()
			e.s.LoseReply()
			second := e.hold(acquire(e.ctx, c))
			e.children(c, path, 1)
			data, st, err := c.Get(e.ctx, second.Path())
			if err != nil || string(data) != "me" || st.Czxid != second.Token() || second.Token() <= h.Token() {
				e.Errorf("%s: %q, %+v, %v, token %#x after %#x", path, data, st, err, second.Token(), h.Token())
			}
			if err := second.Context().Err(); err != nil {
				e.Errorf("%s: %v", path, err)
			}
			e.s.LoseReply()
			e.ok(second.Release(e.ctx))
			e.children(c, path, 0)
			if err := e.ended(second); !errors.Is(err, ErrReleased) {
				e.Errorf("%s: ended by %v", path, err)
			}
			if n := e.s.LostReplies() - before; n != 2 {
				e.Errorf("%s: %d replies lost", path, n)
			}
			e.ok(second.Release(e.ctx))
		}
	})
}

// Every recipe: the end of the session ends a Hold, and whoever waits is told at once (G2), both for good: also one whose
// session ends alone, before the Hold that it waits for does.
func TestExpiry(t *testing.T) {
	onBothWires(t, func(e *env) {
		other := e.dial()
		for path, acquire := range recipes(Options{}) {
			c := e.dial()
			h := e.hold(acquire(e.ctx, c))
			if path != "/a/b/read" {
				early := e.dial()
				ends := background(func() (*Hold, error) { return acquire(e.ctx, early) })
				e.children(other, path, 2)
				e.ok(e.s.Expire(early.Session()))
				if r := <-ends; !errors.Is(r.err, client.ErrSessionExpired) {
					e.Errorf("%s: the one that waited for another: %v", path, r.err)
				}
				e.children(other, path, 1)
				e.ok(h.Context().Err())
			}
			var waits <-chan taken
			if path != "/a/b/read" {
				waits = background(func() (*Hold, error) { return acquire(e.ctx, c) })
				e.children(other, path, 2)
			}
			e.ok(e.s.Expire(c.Session()))
			if err := e.ended(h); !errors.Is(err, client.ErrSessionExpired) {
				e.Errorf("%s: ended by %v", path, err)
			}
			if waits != nil {
				if r := <-waits; !errors.Is(r.err, client.ErrSessionExpired) {
					e.Errorf("%s: the one that waited: %v", path, r.err)
				}
			}
			e.children(other, path, 0)
			e.ok(h.Release(e.ctx))
			if _, err := acquire(e.ctx, c); !errors.Is(err, client.ErrSessionExpired) {
				e.Errorf("%s: again: %v", path, err)
			}
		}
	})
}

// A disconnect that is over in time changes nothing, or ends the Hold at once.
func TestSuspension(t *testing.T) {
	onBothWires(t, func(e *env) {
		c := e.dial()
		keep, giveUp := recipes(Options{}), recipes(Options{OnSuspend: GiveUp})
		for path := range keep {
			h := e.hold(keep[path](e.ctx, c))
			e.cut(c)
			e.cut(c)
			e.ok(h.Context().Err())
			e.ok(h.Release(e.ctx))
			h = e.hold(giveUp[path](e.ctx, c))
			e.s.Cut()
			if err := e.ended(h); !errors.Is(err, ErrSuspended) {
				e.Errorf("%s: ended by %v", path, err)
			}
			e.children(c, path, 1) // the place is kept until the work has stopped
			e.ok(h.Release(e.ctx))
			e.children(c, path, 0)
		}
	})
}

// A disconnect ends a Hold at once also while its node, which somebody has written into, is read again.
func TestSuspensionDuringARead(t *testing.T) {
	onBothWires(t, func(e *env) {
		admin, last := e.dial(), &lastWords{}
		c := e.dialWith(client.Options{DialContext: last.dial})
		h := e.hold(NewMutex(c, "/m", Options{OnSuspend: GiveUp}).Lock(e.ctx))
		last.said.Store(true)
		_, err := admin.Set(e.ctx, h.Path(), []byte("note"), client.AnyVersion)
		e.ok(err)
		if err := e.ended(h); !errors.Is(err, ErrSuspended) {
			e.Errorf("ended by %v", err)
		}
		last.said.Store(false)
		e.ok(h.Release(e.ctx))
	})
}

// lastWords makes connections that break at the next write once all is said, and no new ones until that is taken back.
type lastWords struct{ said atomic.Bool }

func (l *lastWords) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	if l.said.Load() {
		return nil, net.ErrClosed
	}
	conn, err := (&net.Dialer{}).DialContext(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	return lastConn{conn, l}, nil
}

type lastConn struct {
	net.Conn
	l *lastWords
}

func (c lastConn) Write(b []byte) (int, error) {
	if c.l.said.Load() {
		return 0, errors.Join(net.ErrClosed, c.Close())
	}
	return c.Conn.Write(b)
}

// A Hold that is past its deadline has ended, though the session turns out to be alive.
func TestDeadlineIsFinal(t *testing.T) {
	onBothWires(t, func(e *env) {
		h := locked(e, client.Options{SessionTimeout: time.Second})
		states := h.s.c.Subscribe()
		defer states.Stop()
		e.s.Pause()
		e.await(states, client.Lost)
		if h.Context().Err() == nil {
			e.Error("the client is lost, its hold is not")
		}
		e.s.Resume()
		if err := e.ended(h); !errors.Is(err, client.ErrLost) {
			e.Errorf("ended by %v", err)
		}
		e.ok(h.Release(e.ctx))
	})
}

func TestNodeRemovedByOthers(t *testing.T) {
	onBothWires(t, func(e *env) {
		c, admin := e.dial(), e.dial()
		m := NewMutex(c, "/m", Options{})
		h := e.hold(m.Lock(e.ctx))
		_, err := admin.Set(e.ctx, h.Path(), []byte("note"), client.AnyVersion)
		e.ok(err)
		waits := background(func() (*Hold, error) { return m.Lock(e.ctx) })
		e.children(admin, "/m", 2)
		names, _, err := admin.Children(e.ctx, "/m")
		e.ok(err)
		e.ok(h.Context().Err())
		all := line(names)
		e.ok(admin.Delete(e.ctx, "/m/"+all[1].name, client.AnyVersion))
		e.ok(admin.Delete(e.ctx, h.Path(), client.AnyVersion))
		if err := e.ended(h); !errors.Is(err, ErrGone) {
			e.Errorf("ended by %v", err)
		}
		if r := <-waits; !errors.Is(r.err, ErrGone) {
			e.Errorf("the one that waited: %v", r.err)
		}
		e.ok(h.Release(e.ctx))
	})
}

// G4: whoever gives up leaves nothing, at whatever moment, also twice in a row while the server is silent or away.
func TestGivingUp(t *testing.T) {
	onBothWires(t, func(e *env) {
		c, admin := e.dialWith(client.Options{SessionTimeout: 20 * time.Second}), e.dialWith(client.Options{SessionTimeout: 20 * time.Second})
		for path, acquire := range recipes(Options{}) {
			h := e.hold(acquire(e.ctx, c))
			ctx, cancel := context.WithCancel(e.ctx)
			cancel()
			if _, err := acquire(ctx, c); !errors.Is(err, context.Canceled) {
				e.Errorf("%s: %v", path, err)
			}
			e.children(admin, path, 1)
			if path != "/a/b/read" {
				ctx, cancel = context.WithCancel(e.ctx)
				waits := background(func() (*Hold, error) { return acquire(ctx, c) })
				e.children(admin, path, 2)
				cancel()
				if r := <-waits; !errors.Is(r.err, context.Canceled) {
					e.Errorf("%s: %v", path, r.err)
				}
				e.children(admin, path, 1)
			}
			for _, disconnected := range []bool{false, true} { // else the server is silent, and takes what was sent later
				if disconnected {
					h = e.hold(acquire(e.ctx, c))
				}
				states := c.Subscribe()
				e.await(states, client.Connected)
				e.s.Pause()
				if disconnected {
					e.s.Cut()
					e.await(states, client.Suspended)
				}
				for range 2 {
					ctx, cancel = context.WithTimeout(e.ctx, 20*time.Millisecond)
					if _, err := acquire(ctx, c); !errors.Is(err, context.DeadlineExceeded) {
						e.Errorf("%s: %v", path, err)
					}
					cancel()
				}
				ctx, cancel = context.WithTimeout(e.ctx, 20*time.Millisecond)
				if err := h.Release(ctx); !errors.Is(err, context.DeadlineExceeded) {
					e.Errorf("%s: release: %v", path, err)
				}
				cancel()
				e.s.Resume()
				if disconnected {
					e.await(states, client.Connected)
				}
				states.Stop()
				e.ok(h.Release(e.ctx))
				e.cut(c)
				e.ok(e.hold(acquire(e.ctx, c)).Release(e.ctx)) // nobody is in the way
				e.children(admin, path, 0)
			}
		}
	})
}

// A connection whose other end is gone, and which has no room for what is to be sent, is closed as late as its Close
// likes: a Hold ends in time nevertheless, and Close is called at once (gRPC by itself tries for five seconds to say
// good-bye).
func TestDeadConnection(t *testing.T) {
	onBothWires(t, func(e *env) {
		dead := &deadNet{frozen: frozen{factor: 1}, closing: make(chan struct{}), close: make(chan struct{})}
		h := locked(e, client.Options{SessionTimeout: 2 * time.Second, DialContext: dead.dial})
		states := h.s.c.Subscribe()
		defer states.Stop()
		dead.freeze()
		dead.dead.Store(true)
		if err := e.ended(h); !errors.Is(err, client.ErrLost) {
			e.Errorf("the hold has ended: %v", err)
		}
		e.await(states, client.Suspended)
		select {
		case <-dead.closing:
		case <-time.After(4 * time.Second):
			e.Error("the connection is not given up")
		}
		close(dead.close)
		dead.thaw()
	})
}

// deadNet makes connections that can be stopped, and whose Close waits until close is closed.
type deadNet struct {
	frozen
	dead           atomic.Bool
	once           sync.Once
	closing, close chan struct{}
}

func (n *deadNet) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	conn, err := n.frozen.dial(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	return &deadConn{conn, n}, nil
}

type deadConn struct {
	net.Conn
	n *deadNet
}

func (c *deadConn) Close() error {
	if c.n.dead.Load() {
		c.n.once.Do(func() { close(c.n.closing) })
		<-c.n.close
	}
	return c.Conn.Close()
}
