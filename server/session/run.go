package session

import (
	"github.com/zkserver/zkserver/znode"
	"github.com/zkserver/zkserver/znode/watch"
)

// Bounds of one run and of what a connection may have unanswered.
const (
	runRequests = 64
	runBytes    = 64 << 10

	// A connection with more than this unanswered is not read from.
	maxOutstanding      = 1024
	maxOutstandingBytes = 4 << 20
	// With more than this unanswered by all together, no connection that has something unanswered is read from: what a
	// server has under way to its leader stays below where their link is cut.
	maxBytesOfAll = 32 << 20
)

// Do runs or parks requests in the order given, and submits the writes among them. It waits while too much is
// outstanding or the serving lease has passed, flushes what it produced, and returns ErrEnded once nothing more may
// follow. It keeps nothing of the slice, only what its elements point to.
func (c *Conn) Do(rs []Request) error {
	if len(rs) == 0 {
		return nil
	}
	if err := c.Run(rs); err != nil {
		return err
	}
	return c.Settle()
}

// Settle is the end of Do, and of what a front answers at reception: it writes what is queued and waits while too much is
// outstanding or the client does not read. It returns ErrEnded once nothing more may follow.
func (c *Conn) Settle() error {
	c.flush()
	return c.throttle()
}

// Run is Do without its end: what it produced is not flushed, and whether there is too much is not looked at.
func (c *Conn) Run(rs []Request) error {
	c.out.mu.Lock()
	c.out.stats.Received += int64(len(rs))
	c.out.mu.Unlock()
	c.hub.stats.received.Add(int64(len(rs)))
	if len(c.hub.opts.EnforceSchemes) > 0 {
		var err error
		if rs, err = c.enforce(rs); err != nil {
			return err
		}
	}
	for len(rs) > 0 {
		if c.Ended() {
			return ErrEnded
		}
		c.mu.Lock()
		idle := c.order.Idle()
		c.mu.Unlock()
		n := 0
		if idle {
			// Only this goroutine makes the order busy, so it stays idle while the run goes on.
			for n < len(rs) && !rs[n].InFlight() {
				n++
			}
		}
		var err error
		if n > 0 {
			err = c.runReads(rs[:n])
		} else {
			n, err = c.push(rs)
		}
		if err != nil {
			return err
		}
		rs = rs[n:]
	}
	return nil
}

// Blocked reports whether Run would wait for the serving lease before this request.
func (c *Conn) Blocked(r *Request) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.order.Idle() && !r.InFlight() && !c.hub.leaseValid()
}

// runReads executes requests with nothing in flight before them, in runs under one read lock each. Replies are encoded,
// and watches armed, before the lock is released.
func (c *Conn) runReads(rs []Request) error {
	h := c.hub
	auth := c.Auth()
	rep := h.replies.Get().(*Reply)
	defer func() {
		*rep = Reply{}
		h.replies.Put(rep)
	}()
	var sums tally
	for len(rs) > 0 {
		if !h.gate.pass(c) {
			return ErrEnded
		}
		if rs[0].Lists != nil && rs[0].Err == znode.OK {
			if err := c.setWatchesInSteps(&rs[0], rep); err != nil {
				return err
			}
			rs = rs[1:]
			continue
		}
		n, size, queued := 0, 0, 0
		t := h.backend.RLock()
		now := h.backend.Now()
		for n < len(rs) && n < runRequests && size < runBytes && (rs[n].Lists == nil || rs[n].Err != znode.OK) {
			r := &rs[n]
			c.execute(t, r, auth, rep)
			c.out.mu.Lock()
			before := c.out.pending()
			c.append(rep, c.heard.Load(), now, &sums)
			queued = c.out.pending()
			size += queued - before
			c.out.mu.Unlock()
			n++
		}
		h.backend.RUnlock()
		h.stats.add(&sums)
		rs = rs[n:]
		if queued > SoftOutbox/4 {
			c.flush()
			if err := c.throttle(); err != nil {
				return err
			}
		}
	}
	return nil
}

// push queues requests behind what is in flight, as far as there is room, and submits the writes among them in one go.
func (c *Conn) push(rs []Request) (n int, err error) {
	auth := c.Auth()
	ticket := c.Ticket()
	var submit []*znode.Request
	c.mu.Lock()
	before := c.order.Bytes()
	for n < len(rs) && (c.order.Len() < maxOutstanding && c.order.Bytes() < maxOutstandingBytes || c.order.Idle()) {
		r := &rs[n]
		if c.order.Idle() && !r.InFlight() {
			break // what was in flight has completed meanwhile: the rest runs directly
		}
		w := r.Write
		if w != nil && w.Auth == nil { // a front that speaks for several clients names each one's
			w.Auth = auth
		}
		if !c.order.Push(Item{Req: *r, Auth: auth, At: c.heard.Load()}) {
			break // behind closeSession: neither answered nor done
		}
		if w != nil {
			w.Op, w.Session, w.Cxid, w.Ticket = r.Op, c.session.Load(), r.Xid, ticket
			if submit == nil {
				submit = make([]*znode.Request, 0, len(rs)-n)
			}
			submit = append(submit, w)
		}
		n++
	}
	closed, grown := c.order.Closed(), c.order.Bytes()-before
	c.mu.Unlock()
	c.hub.stats.waiting(n, grown)
	if len(submit) > 0 {
		c.flush() // what the reads before the writes gave need not wait for them
		c.hub.backend.Submit(c, submit)
	}
	if closed {
		return n, ErrEnded
	}
	if n == 0 {
		return 0, c.throttle()
	}
	return n, nil
}

// throttle waits while the connection, or the whole server, has too much outstanding, or the client does not read.
func (c *Conn) throttle() error {
	for {
		if c.Ended() {
			return ErrEnded
		}
		if !c.crowded() {
			return nil
		}
		woken := c.awaken()
		c.hub.crowd.add(c)
		if c.crowded() && !c.Ended() { // looked at again: a wake-up before awaken is lost
			<-woken
		}
		c.waiting.Store(nil)
	}
}

// crowded reports whether nothing more is to be read from this connection for now.
func (c *Conn) crowded() bool {
	c.mu.Lock()
	n, bytes := c.order.Len(), c.order.Bytes()
	c.mu.Unlock()
	if n >= maxOutstanding || bytes >= maxOutstandingBytes {
		return true
	}
	if n > 0 && c.hub.full() {
		return true // as Java: only connections that have something outstanding wait for the others
	}
	c.out.mu.Lock()
	defer c.out.mu.Unlock()
	return c.out.crowded()
}

// full reports whether all connections together have too much outstanding.
func (h *Hub) full() bool {
	return h.stats.outstanding.Load() > int64(h.opts.GlobalOutstanding) || h.stats.outstandingBytes.Load() > maxBytesOfAll
}

// execute runs a read, a ping, a watch operation or a refused body under the tree's lock and fills rep.
func (c *Conn) execute(t *znode.Tree, r *Request, auth []znode.AuthID, rep *Reply) {
	*rep = Reply{Op: r.Op, Xid: r.Xid, Zxid: t.Applied(), Err: r.Err, ErrBody: r.ErrBody}
	if r.Err != znode.OK {
		return
	}
	h := c.hub
	switch r.Op {
	case znode.OpPing:
	case znode.OpExists:
		rep.Stat, rep.Err = t.Exists(r.Path, auth)
		if r.Watch && (rep.Err == znode.OK || rep.Err == znode.NoNode) {
			h.watches.add(watch.Data, r.Path, c)
		}
	case znode.OpGetData:
		rep.Data, rep.Stat, rep.Err = t.GetData(r.Path, auth)
		if r.Watch && rep.Err == znode.OK {
			h.watches.add(watch.Data, r.Path, c)
		}
	case znode.OpGetChildren, znode.OpGetChildren2:
		rep.Names, rep.Stat, rep.Err = t.Children(r.Path, auth)
		if r.Watch && rep.Err == znode.OK {
			h.watches.add(watch.Child, r.Path, c)
		}
	case znode.OpGetACL:
		rep.ACL, rep.Stat, rep.Err = t.GetACL(r.Path, auth)
	case znode.OpGetAllChildrenNumber:
		rep.Count, rep.Err = t.AllChildrenNumber(r.Path, auth)
	case znode.OpGetEphemerals:
		rep.Names = t.Ephemerals(c.session.Load(), r.Path, r.Null)
	case znode.OpWhoAmI:
		rep.IDs = znode.WhoAmI(auth)
	case znode.OpMultiRead:
		rep.Reads, rep.Err = t.MultiRead(r.Reads, auth)
		rep.ErrBody = rep.Err != znode.OK
	case znode.OpSetWatches, znode.OpSetWatches2:
		for s := (steps{lists: r.Lists}); !s.done(); {
			c.setWatches(t, &s)
		}
		rep.Err = r.Lists.outcome()
	case znode.OpAddWatch, znode.OpCheckWatches, znode.OpRemoveWatches:
		rep.Err = c.watchOp(r)
	default:
		rep.Err = znode.MarshallingError
	}
}

// complete answers the request in flight with this number, then whatever it sets free. By the applier, under the tree's
// write lock. a is nil for a sync. Parked reads are run here also past the serving lease: what they give stays in the
// outbox until it is renewed.
func (c *Conn) complete(t *znode.Tree, seq uint64, a *znode.Applied, s *applier) {
	c.mu.Lock()
	before := c.order.Bytes()
	verdict := c.order.Complete(seq)
	if verdict == Broken {
		c.mu.Unlock()
		if !c.Ended() {
			c.Close(ReasonOrder)
		}
		return
	}
	n := 0
	if verdict == Turn {
		c.answer(t, c.order.Front(), a, s)
		c.order.Pop()
		n++
	}
	for it := c.order.Next(); it != nil; it = c.order.Next() {
		if it.Req.InFlight() {
			c.answer(t, it, nil, s)
		} else {
			c.execute(t, &it.Req, it.Auth, &s.reply)
			c.queue(&s.reply, it.At, s.now, &s.tally)
		}
		c.order.Pop()
		n++
	}
	grown := c.order.Bytes() - before
	c.mu.Unlock()
	c.hub.stats.waiting(-n, grown)
	c.wake()
}

// answer queues the reply of a request that went to the leader.
func (c *Conn) answer(t *znode.Tree, it *Item, a *znode.Applied, s *applier) {
	r, rep := &it.Req, &s.reply
	*rep = Reply{Op: r.Op, Xid: r.Xid, Zxid: t.Applied()}
	if a == nil { // a sync echoes its path
		rep.Path, rep.Null = r.Path, r.Null
		c.queue(rep, it.At, s.now, &s.tally)
		return
	}
	res := &a.Result
	if res.Code == znode.SessionMoved {
		c.Close(ReasonEvicted) // never answered
		return
	}
	rep.Zxid, rep.Err, rep.Path, rep.Stat, rep.Multi = a.Zxid, res.Code, res.Path, res.Stat, a.Multi
	c.queue(rep, it.At, s.now, &s.tally)
	if r.Op == znode.OpCloseSession {
		c.closeAfterFlush(ReasonSession)
	}
}

func (c *Conn) queue(rep *Reply, at, now int64, t *tally) {
	c.out.mu.Lock()
	c.append(rep, at, now, t)
	c.out.mu.Unlock()
}
