package client

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"sync"
	"time"

	"github.com/zkserver/zkserver/proto/jute"
)

// Shares of the session timeout. A ping leaves after pingShare without a request; a connection that has not answered
// for quietShare is given up, which leaves some time before the deadline (two thirds) for finding another server.
const (
	pingShare  = 5  // a fifth
	quietShare = 40 // percent
)

// stable is how long a connection has to live to set the back-off back.
const stable = time.Second

// errRefused says that the server does not know the session any more.
var errRefused = errors.New("the server refused the session")

// connection is one link and the two goroutines that use it.
type connection struct {
	link   link
	done   chan struct{} // closed when it is to end
	closed chan struct{} // closed when the link is
	once   sync.Once
	err    error // why; after done
}

// stop ends a connection, and does not wait for that: the end of a hold may not depend on how soon a dead connection can
// be closed.
func (n *connection) stop(why error) {
	n.once.Do(func() {
		n.err = why
		close(n.done)
		go func() { // serve waits for its end
			defer close(n.closed)
			n.link.close()
		}()
	})
}

// run keeps the session connected until ctx ends or the session is over.
func (c *Client) run(ctx context.Context) {
	defer close(c.stopped)
	next, failed, rounds := 0, 0, 0
	pause := c.o.BackoffMin
	for ctx.Err() == nil {
		server := c.servers[next]
		next = (next + 1) % len(c.servers)
		lived, err := c.tryServer(ctx, server, c.o.connectTimeout(len(c.servers), rounds))
		switch {
		case ctx.Err() != nil || c.over():
			return
		case errors.Is(err, errRefused):
			c.finish(Expired, ErrSessionExpired, nil)
			return
		case errors.Is(err, errReauth):
			c.finish(AuthFailed, ErrAuthFailed, err)
			return
		}
		c.mu.Lock()
		c.lastErr = fmt.Errorf("%s: %w", server, err)
		c.mu.Unlock()
		c.o.Log.Debug().Str("server", server).Err(err).Msg("no connection")
		if lived >= stable {
			failed, rounds, pause = 0, 0, c.o.BackoffMin
		}
		var wait time.Duration
		failed++
		switch {
		case failed >= len(c.servers):
			wait = pause/2 + rand.N(pause/2+1)
			pause = min(2*pause, c.o.BackoffMax)
			failed = 0
			rounds++
		case lived > 0:
			wait = rand.N(c.o.BackoffMin/2 + 1) // many clients lose one server at once
		}
		sleep(ctx, wait)
	}
}

func sleep(ctx context.Context, d time.Duration) {
	if d <= 0 {
		return
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}

func (c *Client) over() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.finalCode != OK
}

// tryServer connects to one of a server's addresses and serves until that ends. lived is how long a connection lasted,
// zero if there was none; the error says why it has ended.
func (c *Client) tryServer(ctx context.Context, server string, limit time.Duration) (lived time.Duration, err error) {
	host, port, err := net.SplitHostPort(server)
	if err != nil {
		return 0, err
	}
	addrs := []string{host}
	if net.ParseIP(host) == nil {
		rctx, cancel := context.WithTimeout(ctx, limit)
		addrs, err = c.o.LookupHost(rctx, host)
		cancel()
		if err != nil {
			return 0, err
		}
		if len(addrs) == 0 {
			return 0, fmt.Errorf("%s has no address", host)
		}
		rand.Shuffle(len(addrs), func(i, j int) { addrs[i], addrs[j] = addrs[j], addrs[i] })
	}
	for _, a := range addrs {
		var n *connection
		if n, err = c.establish(ctx, net.JoinHostPort(a, port), limit); err == nil {
			began := time.Now()
			err = c.serve(n, server)
			return max(time.Since(began), 1), err
		}
		if ctx.Err() != nil || errors.Is(err, errRefused) {
			break
		}
	}
	return 0, err
}

// establish connects to one address and asks for the session.
func (c *Client) establish(ctx context.Context, addr string, limit time.Duration) (*connection, error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	l, err := c.dial(ctx, addr)
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	h := hello{lastZxid: c.lastZxid, timeout: int32(c.o.SessionTimeout.Milliseconds()), session: c.session, readOnly: c.o.ReadOnly}
	if c.passing {
		h.session = Session{}
	}
	c.mu.Unlock()
	sent := time.Now()
	w, err := l.connect(ctx, h)
	if err != nil {
		l.close()
		return nil, err
	}
	if w.timeout <= 0 {
		l.close()
		if h.session.ID == 0 {
			return nil, errors.New("the server gave no session")
		}
		return nil, errRefused
	}
	if err := c.adopt(h, w, sent); err != nil {
		l.close()
		return nil, err
	}
	return &connection{link: l, done: make(chan struct{}), closed: make(chan struct{})}, nil
}

// adopt takes the session that a server has answered with.
func (c *Client) adopt(h hello, w welcome, sent time.Time) error {
	timeout := time.Duration(w.timeout) * time.Millisecond
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.finalCode != OK:
		return c.finalCode
	case h.session.ID != 0 && w.session != h.session.ID:
		return fmt.Errorf("the server answered with session %s instead of %s", hex(w.session), hex(h.session.ID))
	case time.Since(sent) >= timeout*2/3:
		return errors.New("the answer came too late")
	}
	c.session = Session{ID: w.session, Password: append([]byte(nil), w.password...), Timeout: timeout}
	c.passing = w.readOnly && h.session.ID == 0
	c.readOnly = w.readOnly
	c.answered = sent
	return nil
}

func (c *Client) dial(ctx context.Context, addr string) (link, error) {
	if c.o.Wire == GRPC {
		return c.dialGRPC(ctx, addr)
	}
	nc, err := c.o.DialContext(ctx, "tcp", addr)
	if err != nil {
		return nil, err
	}
	return newZKLink(nc, c.o.MaxReply), nil
}

// serve uses a connection until it breaks.
func (c *Client) serve(n *connection, server string) error {
	c.mu.Lock()
	if c.finalCode != OK {
		c.mu.Unlock()
		n.link.close()
		return c.finalCode
	}
	timeout, id := c.session.Timeout, c.session.ID
	c.conn = n
	c.greet()
	c.move(StateChange{State: Connected, Server: server, ReadOnly: c.readOnly})
	c.timer.Reset(max(time.Until(c.deadline()), time.Millisecond))
	c.mu.Unlock()
	c.o.Log.Info().Str("server", server).Str("session", hex(id)).Dur("timeout", timeout).Msg("connected")

	var wg sync.WaitGroup
	wg.Add(2)
	go func() { defer wg.Done(); n.stop(c.writeLoop(n, timeout)) }() // ends with the connection
	go func() { defer wg.Done(); n.stop(c.readLoop(n)) }()           // ends with the connection
	c.supervise(n, timeout)
	wg.Wait()
	<-n.closed
	c.mu.Lock()
	c.disconnect(n, n.err)
	c.mu.Unlock()
	c.o.Log.Info().Str("server", server).Str("session", hex(id)).Err(n.err).Msg("disconnected")
	return n.err
}

// greet puts what has to be said first in front of the queue: the credentials, then the watches. With Client.mu held.
func (c *Client) greet() {
	var first []*call
	for _, a := range c.auth {
		first = append(first, &call{req: request{op: jute.OpAuth, scheme: a.Scheme, data: a.Data}})
	}
	for _, l := range c.rearm() {
		first = append(first, &call{req: request{op: l.op(), lists: l}})
	}
	for _, cl := range first {
		if err := c.encode(cl); err != nil {
			panic("client: " + err.Error()) // made here, of what was accepted before
		}
	}
	c.queue = append(first, c.queue...)
	c.wakeWriter()
}

// disconnect ends a connection: what it had to do has failed. With Client.mu held.
func (c *Client) disconnect(n *connection, why error) {
	if n == nil || c.conn != n {
		return
	}
	n.stop(why)
	c.conn = nil
	loss := &Error{Op: "connection", Code: ErrConnectionLoss, Cause: why}
	c.failAll(ErrConnectionLoss, why)
	c.move(StateChange{State: Suspended, Err: loss})
}

// supervise waits for the end of a connection, and ends one that has not answered for too long.
func (c *Client) supervise(n *connection, timeout time.Duration) {
	quiet := timeout * quietShare / 100
	t := time.NewTimer(quiet)
	defer t.Stop()
	for {
		select {
		case <-n.done:
			return
		case <-t.C:
		}
		c.mu.Lock()
		oldest := c.oldest()
		c.mu.Unlock()
		wait := quiet
		if !oldest.IsZero() {
			wait = time.Until(oldest.Add(quiet))
			if wait <= 0 {
				n.stop(fmt.Errorf("no answer for %v", quiet))
				return
			}
		}
		t.Reset(wait)
	}
}

// oldest is when the oldest unanswered request was sent, or zero. With Client.mu held.
func (c *Client) oldest() time.Time {
	var t time.Time
	for _, q := range []*calls{&c.pending, &c.auths} {
		if cl := q.front(); cl != nil && (t.IsZero() || cl.sent.Before(t)) {
			t = cl.sent
		}
	}
	return t
}

// writeRun bounds what is taken from the queue at once.
const writeRun = 256

// writeLoop sends what is queued, and pings.
func (c *Client) writeLoop(n *connection, timeout time.Duration) error {
	idle := timeout / pingShare
	t := time.NewTimer(idle)
	defer t.Stop()
	last := time.Now()
	var batch []*call
	for {
		batch = c.take(n, batch[:0], last, idle)
		if len(batch) > 0 {
			last = time.Now()
			if err := n.link.write(batch); err != nil {
				return err
			}
			clear(batch)
			continue
		}
		t.Reset(max(idle-time.Since(last), time.Millisecond))
		select {
		case <-c.wake:
		case <-t.C:
		case <-n.done:
			return n.err
		}
	}
}

// take moves calls from the queue to those that await a reply. Where there are none and it is time it makes a ping.
func (c *Client) take(n *connection, batch []*call, last time.Time, idle time.Duration) []*call {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.conn != n {
		return batch
	}
	now := time.Now()
	count := min(len(c.queue), writeRun)
	for _, cl := range c.queue[:count] {
		cl.sent = now
		switch cl.req.op {
		case jute.OpAuth:
			cl.xid = jute.XidAuth
			c.auths.push(cl)
		default:
			cl.xid = c.nextXid()
			c.pending.push(cl)
		}
		batch = append(batch, cl)
	}
	rest := copy(c.queue, c.queue[count:])
	clear(c.queue[rest:])
	c.queue = c.queue[:rest]
	if count == 0 && now.Sub(last) >= idle {
		ping := &call{req: request{op: jute.OpPing}, xid: jute.XidPing, sent: now}
		if c.encode(ping) == nil {
			c.pending.push(ping)
			batch = append(batch, ping)
		}
	}
	return batch
}

// nextXid counts from 1 and wraps to 1: the numbers below are reserved. With Client.mu held.
func (c *Client) nextXid() int32 {
	c.xid++
	if c.xid <= 0 {
		c.xid = 1
	}
	return c.xid
}

// readLoop takes what the server says.
func (c *Client) readLoop(n *connection) error {
	for {
		in, err := n.link.next()
		if err != nil {
			return err
		}
		c.mu.Lock()
		if c.conn != n || c.late() {
			c.mu.Unlock()
			return errors.New("the connection was given up")
		}
		c.mu.Unlock()
		if in.event != 0 {
			c.fire(in.event, in.path, in.zxid)
			continue
		}
		if err := c.answer(n, in); err != nil {
			return err
		}
	}
}

// answer finds the call that a reply belongs to, and ends it.
func (c *Client) answer(n *connection, in inbound) error {
	c.mu.Lock()
	q := &c.pending
	if in.xid == jute.XidAuth {
		q = &c.auths
	}
	cl := q.front()
	if c.conn != n || cl == nil || cl.xid != in.xid {
		c.mu.Unlock()
		return fmt.Errorf("%w: reply %d out of turn", ErrProtocol, in.xid)
	}
	q.pop() // from here on the call is ended by nobody else
	cl.replied = true
	cl.code = in.code
	op := cl.req.op
	c.mu.Unlock()

	var bad error
	switch {
	case in.tooLarge:
		cl.code = ErrReplyTooLarge
	case in.code == OK:
		if bad = n.link.body(op, &cl.rep); bad != nil {
			cl.code, cl.err = ErrProtocol, bad
		}
	}

	c.mu.Lock()
	defer c.mu.Unlock()
	c.answered = cl.sent
	if op != jute.OpPing && op != jute.OpAuth && in.zxid > 0 {
		c.lastZxid = in.zxid
	}
	if err := c.settle(cl, in.code); err != nil {
		bad = err
	}
	if c.finalCode != OK { // over meanwhile: the watch that has just come was not there to be told
		c.loseAllWatches(&Error{Op: "session", Code: c.finalCode, Cause: c.finalErr})
	}
	cl.end()
	return bad
}

// settle does what a reply means beyond its caller. With Client.mu held.
func (c *Client) settle(cl *call, code Code) error {
	switch op := cl.req.op; {
	case op == jute.OpAuth:
		return c.settleAuth(cl, code)
	case op == jute.OpSetWatches || op == jute.OpSetWatches2:
		c.rearmed(cl.req.lists, code)
	case cl.stays != nil:
		c.settleStaying(cl)
	case op == jute.OpRemoveWatches && code == OK && cl.done != nil:
		c.removed(cl.req.path, WatcherType(cl.req.number))
	case cl.watch != nil && !cl.abandoned && cl.code == OK:
		c.register(cl.watch, cl.req.path)
	case cl.watch != nil && !cl.abandoned && op == jute.OpExists && code == ErrNoNode:
		cl.watch.kind = watchExist
		c.register(cl.watch, cl.req.path)
	}
	return nil
}
