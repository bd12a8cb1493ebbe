package client

import (
	"context"
	"errors"
	"time"
)

// State is what a Client knows of its session.
type State int

// The states. Connecting comes first; Connected and Suspended alternate; Lost lies between Suspended and Connected or
// Expired; Expired, AuthFailed and Closed are final.
const (
	// Connecting: there is no session yet.
	Connecting State = iota
	// Connected: the session is served by a server.
	Connected
	// Suspended: there is no connection. The session lives as far as is known: its ephemeral nodes are there.
	Suspended
	// Lost: no answer for two thirds of the timeout (see HoldUntil). Who holds something by the session must have
	// stopped. The session may turn out to be alive.
	Lost
	// Expired: a server said that the session is over. Its ephemeral nodes are gone.
	Expired
	// AuthFailed: a server refuses credentials that are sent on every connection. The session was given up.
	AuthFailed
	// Closed: Close or Abandon was called.
	Closed
)

// String names the state.
func (s State) String() string {
	switch s {
	case Connecting:
		return "connecting"
	case Connected:
		return "connected"
	case Suspended:
		return "suspended"
	case Lost:
		return "lost"
	case Expired:
		return "expired"
	case AuthFailed:
		return "authentication failed"
	case Closed:
		return "closed"
	}
	return "unknown"
}

// Final reports whether no other state follows.
func (s State) Final() bool { return s >= Expired }

// StateChange is one step of the session.
type StateChange struct {
	State  State  // from now on
	Server string // host:port of the server, when Connected
	Err    error  // why, when not Connected

	ReadOnly bool // the server is in read-only mode, see Options.ReadOnly
}

// Subscription is a stream of state changes. Its channel begins with the state at the time of Subscribe, is closed
// after a final state, and never holds up the client: a reader that is 32 changes behind loses the oldest ones,
// never the newest, and never a final one.
type Subscription struct {
	C <-chan StateChange // the changes, the newest last

	c  *Client
	ch chan StateChange
}

const subscriptionRoom = 32

// Subscribe begins a stream of state changes.
func (c *Client) Subscribe() *Subscription {
	ch := make(chan StateChange, subscriptionRoom)
	s := &Subscription{C: ch, c: c, ch: ch}
	c.mu.Lock()
	defer c.mu.Unlock()
	ch <- c.last
	if c.last.State.Final() {
		close(ch)
		return s
	}
	c.subs[s] = struct{}{}
	return s
}

// Stop ends the stream and closes its channel.
func (s *Subscription) Stop() {
	s.c.mu.Lock()
	defer s.c.mu.Unlock()
	if _, ok := s.c.subs[s]; ok {
		delete(s.c.subs, s)
		close(s.ch)
	}
}

// put is called with Client.mu held, so that nobody else sends.
func (s *Subscription) put(ch StateChange) {
	select {
	case s.ch <- ch:
		return
	default:
	}
	select {
	case <-s.ch:
	default: // the reader was faster
	}
	s.ch <- ch
}

// State is the current state.
func (c *Client) State() State {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.last.State
}

// Session identifies the session, for resuming it by Options.Resume. Its ID is 0 while there is none.
func (c *Client) Session() Session {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.session
	s.Password = append([]byte(nil), s.Password...)
	return s
}

// Server is the host:port of the server that the client is connected to, or empty.
func (c *Client) Server() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.last.Server
}

// HoldUntil is the moment until which something may be held by this session (a lock, a leadership): two thirds of the
// timeout after the sending of the last request that was answered. It moves on with every answer. Zero: nothing may
// be held now.
func (c *Client) HoldUntil() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.holdUntil()
}

func (c *Client) holdUntil() time.Time {
	if s := c.last.State; s != Connected && s != Suspended {
		return time.Time{}
	}
	return c.deadline()
}

// HoldContext derives a context that ends as soon as nothing may be held by this session any longer: at HoldUntil, or
// when the session ends. Its cause (context.Cause) then wraps ErrLost, ErrSessionExpired, ErrAuthFailed or ErrClosed.
// Its Err looks at the clock itself: who asks is told in time even where a busy machine runs the timer, and with it
// Done, late. Call cancel when the context is no longer needed.
func (c *Client) HoldContext(parent context.Context) (context.Context, context.CancelFunc) {
	ctx, cancelCause := context.WithCancelCause(parent)
	hold := holdContext{ctx, c}
	c.mu.Lock()
	defer c.mu.Unlock()
	if until := c.holdUntil(); !time.Now().Before(until) {
		code := ErrLost
		if c.finalCode != OK {
			code = c.finalCode
		}
		cancelCause(&Error{Op: "hold", Code: code})
		return hold, func() { cancelCause(context.Canceled) }
	}
	c.holderSeq++
	id := c.holderSeq
	c.holders[id] = cancelCause
	stop := context.AfterFunc(ctx, func() { c.dropHolder(id) })
	return hold, func() {
		cancelCause(context.Canceled)
		if stop() {
			c.dropHolder(id)
		}
	}
}

// holdContext is what HoldContext returns.
type holdContext struct {
	context.Context
	c *Client
}

func (h holdContext) Err() error {
	if err := h.Context.Err(); err != nil {
		return err
	}
	h.c.mu.Lock()
	h.c.late()
	h.c.mu.Unlock()
	return h.Context.Err()
}

func (c *Client) dropHolder(id uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.holders, id)
}

// release ends all HoldContexts. With Client.mu held.
func (c *Client) release(code Code, cause error) {
	for id, cancel := range c.holders {
		delete(c.holders, id)
		cancel(&Error{Op: "hold", Code: code, Cause: cause})
	}
}

// move tells the subscribers of a new state. With Client.mu held.
func (c *Client) move(ch StateChange) {
	if c.last.State.Final() {
		return
	}
	c.last = ch
	for s := range c.subs {
		s.put(ch)
		if ch.State.Final() {
			delete(c.subs, s)
			close(s.ch)
		}
	}
	close(c.moved)
	c.moved = make(chan struct{})
}

// deadline is when a hold ends. With Client.mu held.
func (c *Client) deadline() time.Time { return c.answered.Add(c.session.Timeout * 2 / 3) }

// late reports, and says to everybody, that the deadline has passed. With Client.mu held. A connection that is still
// there is cut: what it has to say is older than the deadline.
func (c *Client) late() bool {
	s := c.last.State
	if s == Lost {
		return true
	}
	if s != Connected && s != Suspended || time.Now().Before(c.deadline()) {
		return false
	}
	why := errors.New("no answer for two thirds of the session timeout")
	c.disconnect(c.conn, why)
	c.move(StateChange{State: Lost, Err: &Error{Op: "session", Code: ErrLost, Cause: why}})
	c.release(ErrLost, why)
	return true
}

// watchDeadline is the timer's function: it declares the loss, or waits for the deadline as it is now. Past it, it does
// the same for Options.GiveUpAfter. The next connection sets the timer again.
func (c *Client) watchDeadline() {
	c.mu.Lock()
	if c.last.State.Final() {
		c.mu.Unlock()
		return
	}
	next := c.deadline()
	if c.late() {
		if c.o.GiveUpAfter == 0 {
			c.mu.Unlock()
			return
		}
		next = c.answered.Add(max(c.o.GiveUpAfter, c.session.Timeout))
		if !time.Now().Before(next) {
			c.mu.Unlock()
			c.finish(Expired, ErrSessionExpired, ErrLost)
			c.cancel()
			return
		}
	}
	c.timer.Reset(max(time.Until(next), time.Millisecond))
	c.mu.Unlock()
}
