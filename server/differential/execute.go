package differential

import (
	"bufio"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"time"

	"github.com/zkserver/zkserver/proto/jute"
)

// patience is how long a run waits for a frame; far below the sessions' timeouts it ends a program that hangs.
const patience = 20 * time.Second

// Line is what one connection saw at one point: a reply, an event, or its end.
type Line struct {
	Text  string
	Event bool
	Zxid  int64 // of the header
	Op    jute.OpCode
	Code  jute.ErrorCode
	Subs  []jute.OpResult // results of a multi
	Type  jute.EventType  // of an event
	Path  string          // of an event
	Req   *Request        // of a reply
}

// Transcript is what the sessions of a run saw: for each step, for each slot, the lines in their order. Step 0 is the
// set-up; the step after the program's last one closes the sessions.
type Transcript struct{ Steps [][][]Line }

// String shows what each session saw, step by step.
func (t *Transcript) String() string {
	var b strings.Builder
	for step, slots := range t.Steps {
		for slot, lines := range slots {
			for _, l := range lines {
				if l.Op != jute.OpPing {
					fmt.Fprintf(&b, "%3d S%d %s\n", step, slot, l.Text)
				}
			}
		}
	}
	return b.String()
}

// conn is one session's connection, or its place.
type conn struct {
	slot    int
	c       net.Conn // nil: not connected
	frames  *jute.FrameReader
	session int64 // 0: none, or closed
	passwd  []byte
	opened  int // sessions that this slot has had
	xid     int32
	dials   int
}

// run is one execution of a program on one server.
type run struct {
	renderer
	mu    sync.Mutex // of the renderer, while several sessions read at once
	addrs []string
	meet  []Request // what a barrier asks
	conns []*conn
	lines [][]Line
}

// Execute runs a program on a server, below root, which must not exist. Several addresses are those of an ensemble: each
// session begins on one of its own and moves to the next whenever it attaches, and the steps are kept apart by syncs. A
// transcript comes back also when the error is not nil, up to where the run came.
func Execute(addrs []string, root string, p *Program) (*Transcript, error) {
	meet := []Request{{Op: OpName(jute.OpPing)}}
	if len(addrs) > 1 {
		meet[0] = Request{Op: OpName(jute.OpSync), Path: "~"}
	}
	r := &run{addrs: addrs, meet: meet, renderer: renderer{env: env{root: root, noConfig: len(addrs) > 1}, sessions: map[int64]string{}}}
	p.each(func(q *Request) { r.sortACL = r.sortACL || q.ACL == "auth" })
	t := &Transcript{}
	defer func() {
		for _, c := range r.conns {
			c.hangUp()
		}
	}()
	r.lines = make([][]Line, p.Sessions)
	for i := range p.Sessions {
		r.conns = append(r.conns, &conn{slot: i})
	}
	step := func(err error) error {
		t.Steps = append(t.Steps, r.lines)
		r.lines = make([][]Line, p.Sessions)
		return err
	}
	if err := step(r.setUp()); err != nil {
		return t, fmt.Errorf("set-up: %w", err)
	}
	for i := range p.Steps {
		if err := step(r.step(&p.Steps[i])); err != nil {
			return t, fmt.Errorf("step %d: %w", i+1, err)
		}
	}
	return t, step(r.tearDown())
}

func (r *run) setUp() error {
	for i, c := range r.conns {
		if err := r.attach(c); err != nil {
			return err
		}
		if i > 0 {
			continue
		}
		// The lines of the set-up say nothing that depends on the base but the sessions' zxids, which come after it.
		q := Request{Op: OpName(jute.OpCreate), Path: "~", ACL: "open"}
		if err := r.send(c, []Request{q}); err != nil {
			return err
		}
		f, err := c.next()
		if err != nil {
			return err
		}
		if f.header.Err != 0 {
			return fmt.Errorf("root %s: %w", r.root, f.header.Err)
		}
		r.base = f.header.Zxid
	}
	return r.barrier(nil)
}

func (r *run) tearDown() error {
	closing := []Request{{Op: OpName(jute.OpCloseSession)}}
	for _, c := range r.conns {
		if c.session == 0 {
			continue
		}
		if c.c == nil {
			if err := r.attach(c); err != nil {
				return err
			}
		}
		if err := r.burst(c, closing); err != nil {
			return err
		}
		if err := r.barrier(c); err != nil {
			return err
		}
	}
	return nil
}

func (r *run) step(s *Step) error {
	switch s.Kind {
	case Attach, WrongAttach:
		c := r.conns[s.Slot]
		if s.Kind == WrongAttach && c.session != 0 {
			if err := r.attachWrong(c); err != nil {
				return err
			}
		}
		if err := r.attach(c); err != nil {
			return err
		}
		if len(r.addrs) > 1 {
			c = nil // it may be behind
		}
		return r.barrier(c)
	}
	if len(s.Bursts) == 1 {
		c := r.conns[s.Bursts[0].Slot]
		if err := r.burst(c, s.Bursts[0].Requests); err != nil {
			return err
		}
		return r.barrier(c)
	}
	errs := make([]error, len(s.Bursts))
	var wg sync.WaitGroup
	for i, b := range s.Bursts {
		wg.Go(func() { errs[i] = r.burst(r.conns[b.Slot], b.Requests) })
	}
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		return err
	}
	return r.barrier(nil)
}

// barrier asks every connection but that of skip, and so brings in its events.
func (r *run) barrier(skip *conn) error {
	var waiting []*conn
	for _, c := range r.conns {
		if c == skip || c.c == nil {
			continue
		}
		if err := r.send(c, r.meet); err == nil {
			waiting = append(waiting, c)
		} else {
			r.say(c, Line{Text: "closed"})
			c.hangUp()
		}
	}
	for _, c := range waiting {
		if err := r.collect(c, r.meet); err != nil {
			return err
		}
	}
	return nil
}

func (r *run) burst(c *conn, requests []Request) error {
	if c.c == nil {
		r.say(c, Line{Text: "not connected"})
		return nil
	}
	// A write that fails is seen as the connection's end by the read.
	_ = r.send(c, requests)
	return r.collect(c, requests)
}

func (r *run) send(c *conn, requests []Request) error {
	var b []byte
	for i := range requests {
		c.xid++
		b = r.appendRequest(b, xidOf(jute.OpCode(requests[i].Op), c.xid), &requests[i])
	}
	_ = c.c.SetWriteDeadline(time.Now().Add(patience))
	_, err := c.c.Write(b)
	return err
}

// collect reads until every request of a burst, the last ones that were sent, is answered, or the connection ends.
func (r *run) collect(c *conn, requests []Request) error {
	first := c.xid - int32(len(requests)) + 1
	closing := false
	for i := 0; i < len(requests) || closing; {
		f, err := c.next()
		var timeout net.Error
		if errors.As(err, &timeout) && timeout.Timeout() {
			r.say(c, Line{Text: "no answer"})
			return fmt.Errorf("slot %d: no answer: %w", c.slot, err)
		}
		if err != nil {
			r.say(c, Line{Text: "closed"})
			c.hangUp()
			return nil
		}
		if f.event != nil {
			r.mu.Lock()
			l := Line{Text: r.event(f.header, f.event), Event: true, Zxid: f.header.Zxid, Type: f.event.Type, Path: r.text(f.event.Path.Value)}
			r.mu.Unlock()
			r.say(c, l)
			continue
		}
		if i >= len(requests) {
			r.say(c, Line{Text: fmt.Sprintf("a reply too many: %+v", f.header)})
			continue
		}
		q := &requests[i]
		op := jute.OpCode(q.Op)
		if want := xidOf(op, first+int32(i)); f.header.Xid != want {
			r.say(c, Line{Text: fmt.Sprintf("reply number %d has xid %d, not %d", i, f.header.Xid-first, want-first)})
		}
		r.mu.Lock()
		l := Line{Text: r.reply(op, f.header, f.body), Zxid: f.header.Zxid, Op: op, Code: f.header.Err, Req: q}
		r.mu.Unlock()
		if op == jute.OpMulti || op == jute.OpMultiRead {
			var m jute.MultiResponse
			m.Decode(jute.NewDecoder(f.body))
			l.Subs = m.Results
		}
		if op == jute.OpCloseSession && f.header.Err == 0 {
			// Nothing behind it is answered; what is left to come is the connection's end.
			c.session, closing = 0, true
		}
		// The connection's end belongs to the step of the request that made the server hang up.
		if i == len(requests)-1 && (f.header.Err == jute.AuthFailed || f.header.Err == jute.Unimplemented && l.Zxid == -1) {
			closing = true
		}
		r.say(c, l)
		i++
	}
	return nil
}

func (r *run) say(c *conn, l Line) { r.lines[c.slot] = append(r.lines[c.slot], l) }

// attach gives a slot a new connection: for its session, or with another one if it has none.
func (r *run) attach(c *conn) error {
	c.hangUp()
	resp, err := c.dial(r.next(c), sessionTimeout, c.session, c.passwd)
	if err != nil {
		return fmt.Errorf("slot %d: attach: %w", c.slot, err)
	}
	text := "attached"
	switch {
	case resp.TimeOut <= 0:
		text = "refused"
		c.hangUp()
		c.session = 0
	case c.session == 0:
		c.opened++
		c.session, c.passwd = resp.SessionID, append([]byte(nil), resp.Passwd...)
		r.sessions[c.session] = fmt.Sprintf("S%d.%d", c.slot, c.opened)
		text = "opened"
	case resp.SessionID != c.session:
		text = "attached to another session"
	}
	r.say(c, Line{Text: fmt.Sprintf("%s timeout=%d version=%d passwd=%d", text, resp.TimeOut, resp.ProtocolVersion, len(resp.Passwd))})
	return nil
}

func (r *run) attachWrong(c *conn) error {
	c.hangUp()
	resp, err := c.dial(r.next(c), sessionTimeout, c.session, make([]byte, 16))
	if err != nil {
		return fmt.Errorf("slot %d: attach with a wrong password: %w", c.slot, err)
	}
	r.say(c, Line{Text: fmt.Sprintf("wrong password: timeout=%d id zero=%t", resp.TimeOut, resp.SessionID == 0)})
	if _, err := c.next(); err == nil {
		r.say(c, Line{Text: "not closed after a wrong password"})
	}
	c.hangUp()
	return nil
}

// next is the server that a connection is opened to.
func (r *run) next(c *conn) string {
	c.dials++
	return r.addrs[(c.slot+c.dials)%len(r.addrs)]
}

func (c *conn) hangUp() {
	if c.c != nil {
		c.c.Close()
		c.c = nil
	}
}

// sessionTimeout is asked for by every session, ms: the most that the configuration allows.
const sessionTimeout = 20000

func (c *conn) dial(addr string, timeout int32, session int64, passwd []byte) (jute.ConnectResponse, error) {
	var resp jute.ConnectResponse
	nc, err := net.DialTimeout("tcp", addr, patience)
	if err != nil {
		return resp, err
	}
	c.c, c.frames, c.xid = nc, jute.NewFrameReader(bufio.NewReader(nc), 64<<20), 0
	if session == 0 {
		passwd = make([]byte, 16)
	}
	req := jute.ConnectRequest{TimeOut: timeout, SessionID: session, Passwd: passwd, HasReadOnly: true}
	b, at := jute.BeginFrame(nil)
	_ = nc.SetDeadline(time.Now().Add(patience))
	if _, err := nc.Write(jute.EndFrame(req.Append(b), at)); err != nil {
		return resp, err
	}
	body, err := c.frames.Next()
	if err != nil {
		return resp, err
	}
	d := jute.NewDecoder(body)
	resp.Decode(d)
	return resp, d.Err()
}

// frame is a reply or an event.
type frame struct {
	header jute.ReplyHeader
	body   []byte
	event  *jute.WatcherEvent
}

func (c *conn) next() (frame, error) {
	_ = c.c.SetReadDeadline(time.Now().Add(patience))
	return nextFrame(c.frames)
}

func nextFrame(r *jute.FrameReader) (frame, error) {
	b, err := r.Next()
	if err != nil {
		return frame{}, err
	}
	var f frame
	d := jute.NewDecoder(append([]byte(nil), b...))
	f.header.Decode(d)
	if d.Err() == nil && f.header.Xid == jute.XidEvent {
		f.event = &jute.WatcherEvent{}
		f.event.Decode(d)
	}
	f.body = d.Rest()
	return f, d.Err()
}
