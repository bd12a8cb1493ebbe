package sim

import (
	"cmp"
	"slices"

	"github.com/zkserver/zkserver/server/session"
)

// conn is a client connection: what is on its way in both directions, and the server's half of it with its goroutine.
type conn struct {
	w      *World
	i      int
	chk    int // its number at the checker
	cl     *client
	s      *server
	gen    uint32 // of the server's process
	rnd    rng
	sc     *session.Conn
	state  connState
	until  int64 // how long it waits to be served
	attach session.Attach
	seen   int64

	in       []arrival // from the client
	asked    []asked   // what the server has read and not answered
	out      []departure
	reading  bool // an evRead is on the agenda
	coming   bool // an evDown is
	cut      bool // nothing passes any more, and nobody has been told
	closed   bool // the server has closed it
	gone     bool // the client has
	released bool
}

type connState uint8

const (
	connOpening connState = iota
	connWaiting           // for the server to serve
	connAsking            // for its session
	connReady
	connConfirming
	connDone
)

type arrival struct {
	at  int64
	req session.Request
}

// asked is a request that its server has read.
type asked struct {
	at      int64
	ordered bool  // a write or a sync: it takes its turn with those of the server's other connections
	turn    int64 // when it was read, or what was read before it was answered
	passed  int64 // when one that was read long behind that was answered
}

type departure struct {
	at int64
	f  *frame
}

// servingWait is how long a connection waits for the server to serve, as in server/front.
const servingWait = 500 * ms

func (w *World) connEvent(e event) {
	c := w.conns[e.a]
	s := c.s
	if !s.up || s.gen != c.gen {
		return
	}
	if s.paused > w.now {
		e.at = s.paused + s.rnd.between(0, 100*us)
		w.agenda.push(e)
		return
	}
	switch e.kind {
	case evRead:
		c.reading = false
		c.read()
	case evConnFlush:
		c.sc.Flush()
	case evConnEnd:
		c.release()
	}
	s.settleConns()
}

func (c *conn) event(k kind, in int64) {
	c.w.at(in, event{kind: k, a: int32(c.i), gen: c.gen})
}

func (c *conn) readSoon(in int64) {
	if !c.reading && c.state != connDone {
		c.reading = true
		c.event(evRead, in)
	}
}

// open: the connection has reached the server.
func (c *conn) open() {
	s := c.s
	if !s.up {
		c.cl.lost(c)
		return
	}
	c.gen = s.gen
	c.sc = s.hub.Open(&s.wire, c, "10.0.0.1", "client")
	c.w.origins[uint64(s.process)<<32|uint64(c.sc.Number())] = c.i
	c.state, c.until = connWaiting, c.w.now+servingWait
	s.conns = append(s.conns, c)
	c.readSoon(s.thread())
}

// read is a turn of the connection's goroutine.
func (c *conn) read() {
	s, w := c.s, c.w
	if c.sc.Ended() {
		c.state = connDone
		return
	}
	switch c.state {
	case connWaiting:
		if !s.hub.Serving() {
			if w.now >= c.until {
				w.cover.hit("turned away: not serving")
				c.sc.Close(session.ReasonNotServing)
				return
			}
			c.readSoon(s.rnd.between(5*ms, 15*ms))
			return
		}
		if c.seen > s.hub.LastApplied() {
			w.cover.hit("turned away: has seen more")
			c.sc.Close(session.ReasonAhead)
			return
		}
		c.state = connAsking
		c.sc.Ask(c.attach)
	case connAsking:
		if r, ok := c.sc.Answered(); ok {
			c.attached(r)
		}
	case connConfirming:
		r, ok := c.sc.Answered()
		if !ok {
			return
		}
		if !r.OK {
			w.cover.hit("not confirmed")
			c.sc.Close(session.ReasonRevalidation)
			return
		}
		w.cover.hit("confirmed after a silence")
		c.state = connReady
		c.touch()
		c.run()
	case connReady:
		if len(c.in) == 0 || c.in[0].at > w.now {
			c.nextRead()
			return
		}
		again, silent := c.sc.Hear()
		if silent {
			c.state = connConfirming
			c.sc.Ask(again)
			return
		}
		c.touch()
		c.run()
	}
}

func (c *conn) touch() {
	c.sc.Touch()
	c.w.heard[c.sc.Session()] = c.w.now
}

func (c *conn) attached(r session.AttachResult) {
	f := frame{kind: frameConnect, ok: r.OK}
	if r.OK {
		f.session, f.timeout, f.password = r.Session, r.Timeout, r.Password
	}
	c.sc.Send(c.s.wire.add(nil, &f))
	if !r.OK {
		c.w.cover.hit("session refused")
		c.state = connDone
		c.sc.CloseAfterFlush(session.ReasonRefused)
		return
	}
	c.state = connReady
	c.event(evConnFlush, c.s.thread())
	c.nextRead()
}

// run works off what has arrived, or a part of it.
func (c *conn) run() {
	n := 0
	for n < len(c.in) && c.in[n].at <= c.w.now {
		n++
	}
	if n > 1 && c.rnd.n(3) == 0 {
		n = 1 + c.rnd.n(n)
	}
	if n == 0 {
		c.nextRead()
		return
	}
	if c.sc.Blocked(&c.in[0].req) {
		c.w.cover.hit("read waits for the lease")
		c.readSoon(c.s.rnd.between(5*ms, 15*ms))
		return
	}
	reqs := make([]session.Request, n)
	for i := range reqs {
		reqs[i] = c.in[i].req
		c.asked = append(c.asked, asked{at: c.w.now, turn: c.w.now, ordered: reqs[i].Write != nil})
	}
	c.in = slices.Delete(c.in, 0, n)
	if err := c.sc.Run(reqs); err != nil {
		c.state = connDone
	}
	c.event(evConnFlush, c.s.thread())
	c.nextRead()
}

func (c *conn) nextRead() {
	if len(c.in) > 0 {
		c.readSoon(max(0, c.in[0].at-c.w.now) + c.s.thread())
	}
}

// release is the last call of the goroutine.
func (c *conn) release() {
	if c.released {
		return
	}
	c.released = true
	c.state = connDone
	c.sc.Release()
	if i := slices.Index(c.s.conns, c); i >= 0 {
		c.s.conns = slices.Delete(c.s.conns, i, i+1)
	}
}

// TryWrite, Write and Close are session.Sink.
func (c *conn) TryWrite(b []byte) (int, error) {
	w := c.w
	expired := c.s.lease <= c.s.local()
	if expired && c.state != connDone { // else it is the session's end, or a refusal
		w.fail("lease", "server %d writes to a client after its serving lease", c.s.i+1)
	}
	n := len(b)
	for len(b) >= frameSize {
		var f *frame
		f, b = c.s.wire.at(b)
		if f.kind == frameReply {
			if w.cfg.drift == 0 && !expired && c.cl.conn == c { // what a client has left is answered on, as in ZooKeeper; nobody hears it
				w.chk.Answered(c.sc.Session(), c.asked[0].at/ms)
			}
			if c.asked[0].ordered && !expired { // else others wait for the lease
				c.overtakes(c.asked[0].at)
			}
			if c.asked = slices.Delete(c.asked, 0, 1); len(c.asked) > 0 {
				c.asked[0].turn = w.now // it may have been held up behind what is answered now, which was a sync
			}
		}
		at := w.now + c.rnd.delay(w.cfg.net[0], w.cfg.net[1])
		if n := len(c.out); n > 0 {
			at = max(at, c.out[n-1].at)
		}
		c.out = append(c.out, departure{at, f})
	}
	c.comeDown()
	return n, nil
}

// overtakes: what the server read at that time is answered. Writes and syncs of all its connections go to the leader in
// one order and come back so: nobody can be waiting for the answer to something that was read long before (L1).
func (c *conn) overtakes(read int64) {
	const long, soon = 700 * ms, 200 * ms // each is flushed in its own time
	for _, o := range c.s.conns {
		if o == c || o.state != connReady || o.closed || len(o.asked) == 0 || o.asked[0].turn+long > read {
			continue
		}
		switch x := &o.asked[0]; {
		case x.passed == 0:
			x.passed = c.w.now
		case x.passed+soon < c.w.now:
			c.w.fail("L1", "server %d answers what it read %.1f s later than what client %d still waits for", c.s.i+1,
				float64(read-x.turn)/float64(s1), o.cl.i)
		}
	}
}

// Write never is needed: TryWrite takes everything.
func (c *conn) Write(b []byte) (int, error) { return c.TryWrite(b) }

// Close ends the connection. The order in which a hub closes many says nothing: settleConns sorts them.
func (c *conn) Close() error {
	c.closed = true
	c.s.closing = append(c.s.closing, c)
	return nil
}

// comeDown lets what is on its way to the client arrive.
func (c *conn) comeDown() {
	if c.coming || c.cut || c.gone || len(c.out) == 0 && !c.closed {
		return
	}
	c.coming = true
	at := c.w.now + c.rnd.between(50*us, 500*us)
	if len(c.out) > 0 {
		at = max(c.w.now, c.out[0].at)
	}
	c.w.agenda.push(event{at: at, kind: evDown, a: int32(c.i)})
}

// down hands over what has arrived at the client.
func (c *conn) down() {
	c.coming = false
	for !c.gone && !c.cut && len(c.out) > 0 && c.out[0].at <= c.w.now {
		f := c.out[0].f
		c.out = slices.Delete(c.out, 0, 1)
		c.cl.receive(c, f)
	}
	if c.closed && len(c.out) == 0 && !c.gone && !c.cut {
		c.cl.lost(c)
		return
	}
	c.comeDown()
}

// settleConns goes on with what the last step has answered or closed.
func (s *server) settleConns() {
	if !s.up {
		return
	}
	for len(s.closing) > 0 {
		list := s.closing
		s.closing = nil
		slices.SortFunc(list, func(a, b *conn) int { return cmp.Compare(a.i, b.i) })
		for _, c := range list {
			c.state = connDone
			s.w.cover.hit("closed: " + string(c.sc.Reason()))
			if c.sc.Reason() == session.ReasonOrder {
				s.w.fail("S3", "server %d: what became of a request came out of its turn, or of none: it closed client %d's connection", s.i+1, c.cl.i)
			}
			if c.sc.Reason() != session.ReasonSession && len(c.out) > 0 && c.rnd.n(2) == 0 {
				c.out = c.out[:c.rnd.n(len(c.out)+1)] // reset: what was on its way is lost
			}
			c.comeDown()
			c.event(evConnEnd, s.rnd.delay(10*us, 20*ms))
		}
	}
	for _, c := range s.conns {
		if c.state == connAsking || c.state == connConfirming {
			if c.sc.Asked() {
				continue
			}
			c.readSoon(s.thread())
		}
	}
}

// endConns: the process is gone, and its clients find out.
func (w *World) endConns(s *server, how crashKind) {
	for _, c := range s.conns {
		c.closed, c.released, c.state = true, true, connDone
		if how != crashStop {
			c.out = c.out[:c.rnd.n(len(c.out)+1)]
		}
		if how == crashPower && c.rnd.n(3) == 0 {
			c.cut = true // silence
		}
		c.comeDown()
	}
	s.conns, s.closing = nil, nil
}
