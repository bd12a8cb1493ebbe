package session

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/zkserver/zkserver/znode"
)

// ErrEnded says that a connection has ended or is about to: its goroutine stops reading and calls Release.
var ErrEnded = errors.New("session: the connection has ended")

// Conn is the shared half of a client connection. Attach, Heard, Do, Authenticate, Answer and Release belong to the
// connection's own goroutine; everything else may be called from anywhere.
//
// There may be tens of thousands that are idle, so it is small and holds nothing that an idle one does not need.
type Conn struct {
	hub  *Hub
	wire Wire
	sink Sink
	name string
	num  uint32

	timeout atomic.Int32
	session atomic.Int64
	ticket  atomic.Pointer[znode.Ticket]
	auth    atomic.Pointer[[]znode.AuthID] // immutable lists; nil: address alone
	address [1]znode.AuthID                // the identity that every connection has
	watches atomic.Bool                    // has armed one, ever
	touched atomic.Bool                    // on the hub's list of touched sessions

	ended    atomic.Bool
	released atomic.Bool
	done     atomic.Pointer[chan struct{}] // made for who asks
	reason   Reason                        // set before done is closed
	waiting  atomic.Pointer[chan struct{}] // while its goroutine waits: where to wake it
	attached atomic.Pointer[AttachResult]  // the answer to Attach
	linger   *time.Timer                   // under out.mu

	established int64        // wall clock, ms
	heard       atomic.Int64 // when the client was last heard, or its session last asked for
	silence     int64        // before that; own goroutine only

	mu    sync.Mutex // the order lock
	order Order

	out     outbox
	counted bool // the hub waits for it
	fresh   bool // the client has not been told of its new session yet; own goroutine only
}

// Number names the connection within this process; it is Origin.Conn of its requests.
func (c *Conn) Number() uint32 { return c.num }

// Name is the client's address and port.
func (c *Conn) Name() string { return c.name }

// Session is the id of the attached session, or zero.
func (c *Conn) Session() int64 { return c.session.Load() }

// Timeout is the session's negotiated timeout in ms.
func (c *Conn) Timeout() int32 { return c.timeout.Load() }

// Ticket is the one under which the connection holds its session.
func (c *Conn) Ticket() znode.Ticket {
	if t := c.ticket.Load(); t != nil {
		return *t
	}
	return znode.Ticket{}
}

// Auth is the list of identities of the connection. It is immutable.
func (c *Conn) Auth() []znode.AuthID {
	if list := c.auth.Load(); list != nil {
		return *list
	}
	return c.address[:]
}

// Ended reports whether Done is closed.
func (c *Conn) Ended() bool { return c.ended.Load() }

// Done is closed when the connection is to end.
func (c *Conn) Done() <-chan struct{} {
	if c.done.Load() == nil {
		d := make(chan struct{})
		c.done.CompareAndSwap(nil, &d) // else another has made it, or it has ended
	}
	return *c.done.Load()
}

// Reason says why the connection ended; empty before Done is closed.
func (c *Conn) Reason() Reason {
	select {
	case <-c.Done():
		return c.reason
	default:
		return ""
	}
}

// Close ends the connection at once: what is still in the outbox is lost. The first reason counts.
func (c *Conn) Close(r Reason) {
	if c.end(r) {
		c.hangUp()
	}
}

// hangUp tells the client, then the connection's goroutine: that one may go on with the socket as soon as done is
// closed, and nothing may come between.
func (c *Conn) hangUp() {
	_ = c.sink.Close() // nothing is left to be told to this client
	if !c.done.CompareAndSwap(nil, &c.hub.closed) {
		close(*c.done.Load())
	}
	c.wake()
}

// end marks the connection as ended; false if it was already.
func (c *Conn) end(r Reason) bool {
	if !c.ended.CompareAndSwap(false, true) {
		return false
	}
	c.reason = r
	if r == ReasonSlow || r == ReasonOrder || r == ReasonMalformed || r == ReasonSilent {
		c.hub.stats.dropped.Add(1)
	}
	return true
}

// AwaitServing waits until the serving lease is valid: for the moment that an election takes, so that clients need not
// go on to the next server, which may be worse off. It ends the connection and returns false when that takes too long.
func (c *Conn) AwaitServing(limit time.Duration) bool {
	if c.hub.leaseValid() {
		return true
	}
	timer := time.AfterFunc(limit, func() { c.Close(ReasonNotServing) })
	defer timer.Stop()
	return c.hub.gate.pass(c)
}

// Attach asks the backend for a session and waits for the answer.
func (c *Conn) Attach(ctx context.Context, a Attach) (AttachResult, error) {
	woken := c.awaken()
	defer c.waiting.Store(nil)
	c.Ask(a)
	for {
		if r, ok := c.Answered(); ok {
			return r, nil
		}
		if c.Ended() {
			return AttachResult{}, ErrEnded
		}
		select {
		case <-woken:
		case <-ctx.Done():
			return AttachResult{}, ctx.Err()
		}
	}
}

// Ask is Attach without waiting: Answered tells, then or later. The client's silence counts from the question: the leader
// answers it at once, while the answer may wait here for the tree (I10).
func (c *Conn) Ask(a Attach) {
	if !a.Again {
		c.fresh = a.Session == 0
	}
	c.heard.Store(c.hub.backend.Now())
	c.hub.backend.Attach(c, a)
}

// Answered takes the answer to Ask, if it has come. One that has waited here for as long as the session lives says
// nothing of it any more: the leader is asked whether it still does.
func (c *Conn) Answered() (AttachResult, bool) {
	r := c.attached.Swap(nil)
	if r == nil {
		return AttachResult{}, false
	}
	if r.OK && c.hub.backend.Now()-c.heard.Load() >= c.lifetime() {
		c.Ask(Attach{Session: r.Session, Password: r.Password[:], Timeout: r.Timeout, Again: true})
		return AttachResult{}, false
	}
	if !r.OK && c.fresh {
		c.Close(ReasonTooLate) // it knows of no session that could be over (I10), and comes again
		return AttachResult{}, false
	}
	c.fresh = false
	return *r, true
}

// Asked reports whether the answer to Ask is still to come.
func (c *Conn) Asked() bool { return c.attached.Load() == nil && !c.Ended() }

// Heard notes that bytes have come from the client. After a silence of the session's whole timeout the leader may have
// ended the session, so nothing is answered before it has confirmed that it lives (interleavings 14).
func (c *Conn) Heard(ctx context.Context) error {
	if again, silent := c.Hear(); silent {
		r, err := c.Attach(ctx, again)
		if err != nil {
			return err
		}
		if !r.OK {
			c.Close(ReasonRevalidation)
			return ErrEnded
		}
	}
	c.Touch()
	return nil
}

// Hear is the first half of Heard: silent says that the session must be confirmed, by asking that, before anything is
// answered. Touch is the other half.
func (c *Conn) Hear() (again Attach, silent bool) {
	now := c.hub.backend.Now()
	c.silence = now - c.heard.Swap(now)
	id := c.session.Load()
	silent = id != 0 && c.silence >= c.lifetime()
	return Attach{Session: id, Timeout: c.timeout.Load(), Again: true}, silent
}

// lifetime is for how long, in ns, the session lives without a sign of its client.
func (c *Conn) lifetime() int64 { return int64(c.timeout.Load()) * int64(time.Millisecond) }

// Touch counts as a sign of life of the session.
func (c *Conn) Touch() {
	if c.session.Load() != 0 && !c.touched.Load() && c.touched.CompareAndSwap(false, true) {
		c.hub.touch(c)
	}
}

// Silence is how long the client had said nothing before it was last heard. It belongs to the connection's goroutine.
func (c *Conn) Silence() time.Duration { return time.Duration(c.silence) }

// Authenticate adds an identity, at reception: requests received before keep the identities they had (semantics 10).
func (c *Conn) Authenticate(scheme string, data []byte) znode.Code {
	if scheme == schemeEnsemble && c.hub.opts.Ensemble != nil {
		if len(data) > 0 && !slices.Contains(c.hub.opts.Ensemble, string(data)) {
			c.Close(ReasonEnsemble) // without an answer
			return znode.AuthFailed
		}
		return znode.OK
	}
	ids, code := znode.Authenticate(scheme, data, c.address[0].ID, c.hub.opts.Tree)
	if code != znode.OK {
		return code
	}
	if !c.AddAuth(ids...) {
		return znode.AuthFailed
	}
	return znode.OK
}

// schemeEnsemble proves nothing of a client: with it a client makes sure that it has come to the right ensemble.
const schemeEnsemble = "ensemble"

// What a client can make its connection hold (I13). Every write carries all of it to the leader.
const (
	maxIdentities    = 1024
	maxIdentityBytes = 64 << 10
)

// AddAuth adds identities that the wire has verified, or none of them and reports false: there would be too many.
func (c *Conn) AddAuth(ids ...znode.AuthID) bool {
	list, ok := JoinAuth(c.Auth(), ids...)
	if ok {
		c.auth.Store(&list)
	}
	return ok
}

// JoinAuth gives a new list of some identities and those of others that are not among them; false: they are too many, or
// too long, for one client.
func JoinAuth(have []znode.AuthID, more ...znode.AuthID) ([]znode.AuthID, bool) {
	list := append(make([]znode.AuthID, 0, len(have)+len(more)), have...)
	for _, id := range more {
		if slices.Contains(list, id) {
			continue
		}
		if list = append(list, id); len(list) > maxIdentities {
			return nil, false
		}
	}
	return list, znode.AuthSize(list) <= maxIdentityBytes
}

// Answer queues a reply out of order, at reception: auth, sasl, refused operations, and what a wire says before there
// is a session. The caller settles, so that who does not read is not read from.
func (c *Conn) Answer(r *Reply) {
	var t tally
	now := c.hub.backend.Now()
	c.out.mu.Lock()
	c.append(r, c.heard.Load(), now, &t)
	c.out.mu.Unlock()
	c.hub.stats.add(&t)
}

// Send queues bytes that are no reply (the ZooKeeper wire's connect response). The caller flushes.
func (c *Conn) Send(frame []byte) {
	c.out.mu.Lock()
	if b := c.out.room(c.hub.pools, len(frame)); b != nil {
		b.b = append(b.b, frame...)
		c.out.stats.Sent++
		c.hub.stats.sent.Add(1)
	}
	c.out.mu.Unlock()
}

// Received counts packets that are no requests: the connect request, auth.
func (c *Conn) Received(n int) {
	c.out.mu.Lock()
	c.out.stats.Received += int64(n)
	c.out.mu.Unlock()
	c.hub.stats.received.Add(int64(n))
}

// Flush writes what is queued.
func (c *Conn) Flush() { c.flush() }

// append encodes one reply to a request received at, now. Under out.mu.
func (c *Conn) append(r *Reply, at, now int64, t *tally) {
	o := &c.out
	n := r.size()
	if o.over() || r.Op == znode.OpMultiRead && n > HardReplies {
		o.drop(c.hub.pools)
		c.Close(ReasonSlow)
		return
	}
	if o.crowded() {
		it := lateItem{rep: *r, size: n}
		it.rep.Multi = slices.Clone(r.Multi) // the applier's
		o.delay(it)
	} else {
		b := o.room(c.hub.pools, n)
		if b == nil {
			return
		}
		n = len(b.b)
		b.b = c.wire.AppendReply(b.b, r)
		n = len(b.b) - n
	}
	lat := latency(now, at)
	o.stats.reply(r, lat, now)
	t.reply(n, lat)
}

// appendEvent queues an event that is encoded already. Under no lock of the connection.
func (c *Conn) appendEvent(frame []byte) {
	o := &c.out
	o.mu.Lock()
	if o.overEvents() {
		o.drop(c.hub.pools)
		o.mu.Unlock()
		c.Close(ReasonSlow)
		return
	}
	switch {
	case o.ended:
	case o.late != nil:
		o.delay(lateItem{frame: bytes.Clone(frame), size: len(frame)})
		o.stats.Sent++
	default:
		b := o.room(c.hub.pools, len(frame))
		b.b = append(b.b, frame...)
		b.events += len(frame)
		o.stats.Sent++
	}
	o.mu.Unlock()
}

// awaken gives the channel on which the connection's goroutine is woken until it clears waiting. What it waits for it
// must look at afterwards.
func (c *Conn) awaken() <-chan struct{} {
	woken := make(chan struct{}, 1)
	c.waiting.Store(&woken)
	return woken
}

// wake lets the connection's goroutine, if it waits, look again whether it may go on.
func (c *Conn) wake() {
	if w := c.waiting.Load(); w != nil {
		select {
		case *w <- struct{}{}:
		default:
		}
	}
}

// Release forgets the connection, because its client has left: the last call of its goroutine.
func (c *Conn) Release() { c.ReleaseFor(ReasonClient) }

// ReleaseFor ends the connection, if it has not ended, and forgets it, before its client can see the end.
// Releasing twice does nothing.
func (c *Conn) ReleaseFor(r Reason) {
	if !c.released.CompareAndSwap(false, true) {
		return
	}
	first := c.end(r)
	c.hub.remove(c)
	if first {
		c.hangUp()
	} else {
		<-c.Done() // whoever ended it hangs up at once
	}
	c.mu.Lock()
	n, bytes := c.order.Drop()
	c.mu.Unlock()
	c.hub.stats.waiting(-n, -bytes)
	c.hub.crowd.thin(c.hub)
	c.out.mu.Lock()
	c.out.drop(c.hub.pools)
	if c.linger != nil {
		c.linger.Stop()
	}
	c.out.mu.Unlock()
	c.hub.backend.Detach(c)
}
