package client

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/zkserver/zkserver/proto/jute"
)

// closeWait bounds how long Close waits for the server's answer.
const closeWait = time.Second

// Client is one session. Make it with Dial.
type Client struct {
	o       Options
	servers []string
	chroot  string

	room    chan struct{} // one element for each call without a reply
	wake    chan struct{} // the writer has something to do
	cancel  context.CancelFunc
	stopped chan struct{} // run has returned

	mu       sync.Mutex
	last     StateChange
	moved    chan struct{} // closed at the next change of state
	lastErr  error         // of the last attempt to connect
	session  Session
	passing  bool // the session is known to one server alone: the next connection makes another
	readOnly bool // the server last connected to is in read-only mode
	lastZxid int64
	answered time.Time // sending time of the last request that was answered
	timer    *time.Timer
	subs     map[*Subscription]struct{}
	streams  map[*EventStream]struct{}
	holders  map[uint64]context.CancelCauseFunc

	holderSeq uint64
	finalCode Code  // OK while the client is of use
	finalErr  error // behind it

	xid     int32
	queue   []*call // to be sent
	pending calls   // sent, no reply yet, in order
	auths   calls   // likewise, auth packets: their replies have a queue of their own
	auth    []Auth  // sent first on every connection
	watches watchTable
	staying [2]map[string]*staying // by WatchMode and path
	conn    *connection            // nil while there is none
	closing bool                   // no new calls
}

// Dial makes a session on one of the servers of a connection string ("host1:2181,host2:2181/chroot", see
// ParseConnect), or resumes the one of Options.Resume, and waits until it is there. ctx bounds this wait only; the
// client lives until Close. With Options.NoWait there is no wait.
//
// Errors: ErrNoServer when ctx ended first (it wraps what the last attempt met), ErrSessionExpired when the session to
// resume is gone, ErrAuthFailed, or what is wrong with the arguments.
func Dial(ctx context.Context, connect string, o Options) (*Client, error) {
	servers, chroot, err := ParseConnect(connect)
	if err != nil {
		return nil, err
	}
	if err := o.Validate(); err != nil {
		return nil, err
	}
	o = o.withDefaults()
	if !o.KeepOrder {
		rand.Shuffle(len(servers), func(i, j int) { servers[i], servers[j] = servers[j], servers[i] })
	}
	run, cancel := context.WithCancel(context.Background())
	c := &Client{
		o: o, servers: servers, chroot: chroot,
		room: make(chan struct{}, o.MaxPending), wake: make(chan struct{}, 1),
		cancel: cancel, stopped: make(chan struct{}),
		moved: make(chan struct{}), subs: make(map[*Subscription]struct{}), streams: make(map[*EventStream]struct{}),
		holders: make(map[uint64]context.CancelCauseFunc),
		session: o.Resume,
	}
	for _, a := range o.Auth {
		c.keepAuth(Auth{Scheme: a.Scheme, Data: bytes.Clone(a.Data)})
	}
	c.session.Password = append([]byte(nil), o.Resume.Password...)
	c.timer = time.AfterFunc(time.Hour, c.watchDeadline)
	c.timer.Stop()
	go c.run(run) // ends with the session, or on cancel
	if o.NoWait {
		return c, nil
	}
	if err := c.wait(ctx); err != nil {
		_ = c.leave(err, false) // err says more than its own end
		return nil, err
	}
	return c, nil
}

// wait returns once the session is there, or will never be.
func (c *Client) wait(ctx context.Context) error {
	for {
		c.mu.Lock()
		state, moved := c.last.State, c.moved
		final, why := c.finalCode, c.finalErr
		c.mu.Unlock()
		switch {
		case final != OK:
			return &Error{Op: "dial", Code: final, Cause: why}
		case state != Connecting:
			return nil
		}
		select {
		case <-moved:
		case <-ctx.Done():
			c.mu.Lock()
			lastErr := c.lastErr
			c.mu.Unlock()
			return &Error{Op: "dial", Code: ErrNoServer, Cause: errors.Join(ctx.Err(), lastErr)}
		}
	}
}

// Close ends the session, and its ephemeral nodes with it, and all calls that wait: those already made get their
// replies if the server is quick, else ErrClosed. Without a connection the session is left to its timeout. It returns
// within about a second; the error says that the server did not confirm the end. Close may be called many times; after
// the first the error is nil.
func (c *Client) Close() error { return c.leave(nil, true) }

// Abandon leaves without ending the session: it lives on for its timeout and may be resumed (Session,
// Options.Resume). All calls that wait fail with ErrClosed.
func (c *Client) Abandon() { _ = c.leave(nil, false) }

// leave ends the client. It may be called from anywhere but the client's own goroutines, which never call out.
func (c *Client) leave(why error, end bool) error {
	c.mu.Lock()
	first := !c.closing && c.finalCode == OK
	c.closing = true
	var last *call
	if first && end && c.conn != nil {
		last = newCall(request{op: jute.OpCloseSession})
		if err := c.encode(last); err != nil {
			panic("client: " + err.Error()) // it has no argument
		}
		c.queue = append(c.queue, last)
		c.wakeWriter()
	}
	known := c.session.ID != 0
	c.mu.Unlock()
	if !first {
		<-c.stopped // it is over, or another Close is at work
		return nil
	}

	var err error
	if last != nil {
		t := time.NewTimer(closeWait)
		select {
		case <-last.done:
			if last.code != OK && last.code != ErrSessionExpired {
				err = &Error{Op: "close", Code: last.code, Sent: true, Cause: last.err}
			}
		case <-t.C:
			err = &Error{Op: "close", Code: ErrOperationTimeout, Sent: true}
		}
		t.Stop()
	} else if end && known {
		err = &Error{Op: "close", Code: ErrConnectionLoss, Cause: errors.New("no connection: the session is left to its timeout")}
	}
	c.finish(Closed, ErrClosed, why)
	c.cancel()
	<-c.stopped
	return err
}

// finish moves into a final state: everybody who waits is told.
func (c *Client) finish(s State, code Code, why error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.finalCode != OK {
		return
	}
	c.finalCode, c.finalErr = code, why
	c.timer.Stop()
	end := &Error{Op: "session", Code: code, Cause: why}
	if c.conn != nil {
		c.conn.stop(end)
		c.conn = nil
	}
	c.failAll(code, why)
	c.loseAllWatches(end)
	c.endStreams(end)
	c.release(code, why)
	c.move(StateChange{State: s, Err: end})
	c.o.Log.Info().Str("state", s.String()).Str("session", hex(c.session.ID)).Err(why).Msg("session over")
}

// failAll ends every call. With Client.mu held.
func (c *Client) failAll(code Code, why error) {
	for _, q := range []*calls{&c.pending, &c.auths} {
		for cl := q.pop(); cl != nil; cl = q.pop() {
			c.fail(cl, code, why)
		}
	}
	for _, cl := range c.queue {
		c.fail(cl, code, why)
	}
	c.queue = nil
}

// fail ends a call that got no reply. With Client.mu held.
func (c *Client) fail(cl *call, code Code, why error) {
	if cl.stays != nil {
		c.unwant(cl.stays)
	}
	cl.code, cl.err = code, why
	cl.end()
}

// roundTrip gives a call to the session and waits for its end.
func (c *Client) roundTrip(ctx context.Context, name, path string, cl *call) (reply, error) {
	fail := func(code Code, sent bool, cause error) (reply, error) {
		return reply{}, &Error{Op: name, Path: path, Code: code, Sent: sent, Cause: cause}
	}
	if needsPath(cl.req.op) {
		if err := wantSlash(path); err != nil {
			return reply{}, badArgument(name, path, err)
		}
		if !cl.req.whole {
			cl.req.path = c.serverPath(path)
		}
	}
	if err := c.encode(cl); err != nil {
		return reply{}, badArgument(name, path, err)
	}
	select {
	case c.room <- struct{}{}:
	default:
		select {
		case c.room <- struct{}{}:
		case <-ctx.Done():
			return fail(ErrOperationTimeout, false, ctx.Err())
		case <-c.stopped:
			c.mu.Lock()
			defer c.mu.Unlock()
			return fail(c.finalCode, false, c.finalErr)
		}
	}
	if ctx.Err() != nil {
		<-c.room
		return fail(ErrOperationTimeout, false, ctx.Err())
	}
	cl.done = make(chan struct{})
	cl.room = c.room
	if code, why := c.enqueue(cl); code != OK {
		return fail(code, false, why)
	}
	select {
	case <-cl.done:
	case <-ctx.Done():
		if sent, gone := c.abandon(cl); gone {
			return fail(ErrOperationTimeout, sent, ctx.Err())
		}
		<-cl.done
	}
	if cl.code != OK {
		rep, err := fail(cl.code, cl.unanswered(), cl.err)
		rep.results, rep.reads = cl.rep.results, cl.rep.reads
		return rep, err
	}
	return cl.rep, nil
}

// enqueue takes a call, or says why not.
func (c *Client) enqueue(cl *call) (Code, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.enqueueLocked(cl)
}

func (c *Client) enqueueLocked(cl *call) (Code, error) {
	switch {
	case c.finalCode != OK:
		cl.leaveRoom()
		return c.finalCode, c.finalErr
	case c.closing:
		cl.leaveRoom()
		return ErrClosed, nil
	case c.o.FailFast && c.conn == nil:
		cl.leaveRoom()
		return ErrConnectionLoss, c.last.Err
	}
	if cl.stays != nil {
		c.want(cl.stays)
	}
	c.queue = append(c.queue, cl)
	if len(c.queue) == 1 {
		c.wakeWriter()
	}
	return OK, nil
}

// abandon gives up a call. gone is false when it has ended meanwhile. One that was not sent never will be.
func (c *Client) abandon(cl *call) (sent, gone bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if cl.ended {
		return false, false
	}
	cl.abandoned = true
	if !cl.sent.IsZero() {
		return true, true
	}
	for i, q := range c.queue {
		if q == cl {
			c.queue = append(c.queue[:i], c.queue[i+1:]...)
			break
		}
	}
	if cl.stays != nil {
		c.unwant(cl.stays)
	}
	cl.leaveRoom()
	return false, true
}

func (c *Client) wakeWriter() {
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

// needsPath tells the operations on one path.
func needsPath(op jute.OpCode) bool {
	switch op {
	case jute.OpMulti, jute.OpMultiRead, jute.OpReconfig, jute.OpAuth, jute.OpWhoAmI, jute.OpCloseSession, jute.OpSetWatches, jute.OpSetWatches2, jute.OpPing:
		return false
	}
	return true
}

func hex(n int64) string { return fmt.Sprintf("%#x", uint64(n)) }
