package sim

import (
	"fmt"
	"slices"
	"strings"

	"github.com/zkserver/zkserver/server/hostile/history"
	"github.com/zkserver/zkserver/server/session"
	"github.com/zkserver/zkserver/server/sim/check"
	"github.com/zkserver/zkserver/znode"
)

// client is a program that uses the ensemble as real ones do: it has a session, pipelines, watches, goes to the next
// server when one does not answer, and takes its watches along.
type client struct {
	w        *World
	i        int
	rnd      rng
	pin      int // the only server that it uses; -1: any
	conn     *conn
	ordinal  int
	attached bool
	deadline int64
	next     int64 // not to connect before
	busy     int64 // until when it has nothing to ask

	session  int64
	password [16]byte
	timeout  int64 // ns
	seen     int64
	xid      int32
	waiting  []sent
	heard    int64
	said     int64
	paused   int64
	stopped  bool
	hurry    bool // it has moved with writes under way, and goes on at once

	ops     int
	created []string // nodes of its own that it may delete
	watches []clientWatch
	acked   int // writes
}

type sent struct {
	xid   int32
	op    znode.Op
	path  string
	watch bool
	mode  int32
	note  *history.Op // nil: not of the history
}

type clientWatch struct {
	kind watchKind
	path string
}

type watchKind uint8

const (
	onData watchKind = iota
	onExist
	onChild
	onAll
	onTree
)

var openACL = []znode.ACL{{Perms: znode.PermAll, Scheme: "world", ID: "anyone"}}

func newClient(w *World, i int) *client {
	c := &client{w: w, i: i, rnd: stream(w.cfg.Seed, 5000, i), pin: -1}
	c.timeout = c.rnd.between(int64(w.cfg.sessions[0]), int64(w.cfg.sessions[1])+1) * ms
	return c
}

func (w *World) clientEvent(e event) {
	switch e.kind {
	case evOpen:
		c := w.conns[e.a]
		if s := c.s; s.up && s.paused > w.now {
			e.at = s.paused + s.rnd.between(0, ms)
			w.agenda.push(e)
			return
		}
		if !c.gone {
			c.open()
		}
	case evDown:
		w.conns[e.a].down()
	case evClient:
		w.clients[e.a].tick()
	}
}

// tick is a client's turn.
func (c *client) tick() {
	w := c.w
	if c.stopped {
		return
	}
	again := c.rnd.between(w.cfg.think[0], w.cfg.think[1])
	rush := w.now < w.rush
	if rush {
		again = c.rnd.between(4*ms, 60*ms)
	}
	switch {
	case c.paused > w.now:
		again = c.paused - w.now
	case c.conn == nil:
		if w.now >= c.next {
			c.connect()
		}
		again = min(again, 50*ms)
	case !c.attached:
		if w.now > c.deadline {
			c.leave(true)
		}
	case len(c.waiting) > 0 && w.now-c.heard > c.timeout*2/3:
		c.w.cover.hit("client gives a silent server up")
		c.unanswered()
		c.leave(true)
	case w.now >= c.busy || rush:
		c.busy = w.now + again
		c.turn()
	case len(c.waiting) == 0 && w.now-c.said > c.timeout/3:
		c.send(session.Request{Op: znode.OpPing}, check.Request{Kind: check.Ping})
	}
	again = min(again, c.timeout/8, 100*ms)
	w.at(again, event{kind: evClient, a: int32(c.i)})
}

// unanswered: a request was not answered. That must not be where nothing is out of order and the server serves.
func (c *client) unanswered() {
	w, k := c.w, c.conn
	s := k.s
	if w.now < w.disturbed || k.cut || k.closed || !s.up || !s.serving || w.now-s.servingSince < 2*s1 || w.now-c.heard < s1 {
		return
	}
	w.fail("L1", "client %d has waited %.1f s for an answer to its request %d; server %d has been serving undisturbed", c.i,
		float64(w.now-c.heard)/float64(s1), c.waiting[0].xid, s.i+1)
}

func (c *client) logf(format string, args ...any) {
	if c.w.trace != nil {
		c.w.logf("c%d: %s", c.i, fmt.Sprintf(format, args...))
	}
}

// connect opens a connection to some server.
func (c *client) connect() {
	w := c.w
	at := c.pin
	if at < 0 {
		at = c.rnd.n(len(w.servers))
	}
	s := w.servers[at]
	c.ordinal++
	k := &conn{w: w, i: len(w.conns), cl: c, s: s, rnd: stream(w.cfg.Seed, 6000+c.i, c.ordinal)}
	k.chk = w.chk.Opened(c.i, c.ordinal)
	k.attach = session.Attach{Session: c.session, Timeout: int32(c.timeout / ms)}
	if c.session != 0 {
		k.attach.Password = append([]byte(nil), c.password[:]...)
	}
	k.seen = c.seen
	w.conns = append(w.conns, k)
	c.conn, c.attached, c.xid, c.waiting = k, false, 0, c.waiting[:0]
	c.deadline = w.now + max(c.timeout/3, 700*ms)
	c.logf("connects to s%d, session %x", at+1, c.session)
	w.at(c.rnd.delay(w.cfg.net[0], w.cfg.net[1]), event{kind: evOpen, a: int32(k.i)})
}

// leave gives the connection up. The server is told, or is left to find out.
func (c *client) leave(tell bool) {
	k := c.conn
	if k == nil {
		return
	}
	c.conn, c.attached = nil, false
	c.next = c.w.now + c.rnd.between(0, 100*ms)
	k.gone = true
	k.out = nil
	c.w.chk.Closed(k.chk)
	if k.state == connOpening {
		return
	}
	in := c.rnd.delay(ms, 100*ms)
	if !tell || k.cut || c.rnd.n(6) == 0 {
		in = c.rnd.between(200*ms, 10*s1) // half open
		c.w.cover.hit("half-open client connection")
	}
	k.event(evConnEnd, in)
}

// lost: the connection has ended under the client.
func (c *client) lost(k *conn) {
	if k.gone {
		return
	}
	k.gone = true
	c.w.chk.Closed(k.chk)
	if c.conn == k {
		c.logf("loses its connection")
		c.conn, c.attached = nil, false
		c.next = c.w.now + c.rnd.between(0, 100*ms)
	}
}

// receive takes a frame.
func (c *client) receive(k *conn, f *frame) {
	w := c.w
	c.heard = w.now
	w.note(uint64(f.zxid) ^ uint64(f.xid)<<32 ^ uint64(f.kind))
	switch f.kind {
	case frameConnect:
		c.connected(k, f)
	case frameEvent:
		z := uint64(f.zxid)
		if f.zxid < 0 {
			z = 0
		}
		if w.trace != nil {
			c.logf("event %d %s at %s", f.event, f.path, check.Zx(z))
		}
		w.chk.Event(k.chk, z, check.Kind(f.event), f.path)
		w.cover.hit("event")
		c.told(f.event, f.path)
		c.seen = max(c.seen, f.zxid)
	case frameReply:
		if w.trace != nil {
			c.logf("reply to %d: %d %s", f.xid, f.code, check.Zx(uint64(f.zxid)))
		}
		p := check.Reply{Xid: f.xid, Zxid: uint64(f.zxid), Code: f.code}
		if f.read {
			p.Node = &f.node
		}
		w.chk.Replied(k.chk, &p)
		if w.fault == nil && w.chk.Fault() == nil {
			c.replied(f)
		}
		c.seen = max(c.seen, f.zxid)
	}
}

func (c *client) connected(k *conn, f *frame) {
	w := c.w
	if !f.ok {
		c.logf("its session is over")
		w.chk.Refused(c.session)
		c.forget()
		return
	}
	if c.session == 0 {
		c.session, c.password = f.session, f.password
	} else {
		w.cover.hit("session moved")
	}
	c.attached, c.said = true, w.now
	c.logf("has session %x", f.session)
	w.chk.Attached(k.chk, f.session, k.attach.Session)
	if len(c.watches) > 0 {
		c.setWatches()
	}
	if c.hurry {
		c.hurry = false
		if c.rnd.n(2) == 0 {
			c.sync(root)
		}
		c.burst(1 + c.rnd.n(2))
	}
}

// forget begins with a new session.
func (c *client) forget() {
	c.session, c.seen, c.watches = 0, 0, nil
	c.created = nil
}

func (c *client) setWatches() {
	l := &check.Lists{Since: uint64(c.seen)}
	for _, x := range c.watches {
		switch x.kind {
		case onData:
			l.Data = append(l.Data, x.path)
		case onExist:
			l.Exist = append(l.Exist, x.path)
		case onChild:
			l.Child = append(l.Child, x.path)
		case onAll:
			l.Persistent = append(l.Persistent, x.path)
		default:
			l.Recursive = append(l.Recursive, x.path)
		}
	}
	c.w.cover.hit("setWatches")
	c.send(session.Request{Op: znode.OpSetWatches2, Lists: &session.SetWatches{
		RelativeZxid: c.seen, Data: l.Data, Exist: l.Exist, Child: l.Child, Persistent: l.Persistent, Recursive: l.Recursive,
	}}, check.Request{Kind: check.SetWatches, Lists: l})
}

func (c *client) armed(kind watchKind, path string) {
	x := clientWatch{kind, path}
	if !slices.Contains(c.watches, x) {
		c.watches = append(c.watches, x)
	}
}

// told drops the watches that an event has consumed.
func (c *client) told(t znode.EventType, path string) {
	c.watches = slices.DeleteFunc(c.watches, func(x clientWatch) bool {
		if x.path != path {
			return false
		}
		switch x.kind {
		case onData, onExist:
			return t != znode.EventChildrenChanged
		case onChild:
			return t == znode.EventChildrenChanged || t == znode.EventDeleted
		}
		return false
	})
}

func (c *client) replied(f *frame) {
	if len(c.waiting) == 0 {
		return
	}
	r := c.waiting[0]
	c.waiting = slices.Delete(c.waiting, 0, 1)
	if r.note != nil {
		c.tell(r.note, f)
	}
	ok := f.code == 0
	switch r.op {
	case znode.OpExists:
		if r.watch {
			if ok {
				c.armed(onData, r.path)
			} else {
				c.armed(onExist, r.path)
			}
		}
	case znode.OpGetData:
		if r.watch && ok {
			c.armed(onData, r.path)
		}
	case znode.OpGetChildren2:
		if r.watch && ok {
			c.armed(onChild, r.path)
		}
	case znode.OpAddWatch:
		if r.mode == 1 {
			c.armed(onTree, r.path)
		} else {
			c.armed(onAll, r.path)
		}
	case znode.OpRemoveWatches:
		if ok {
			c.watches = slices.DeleteFunc(c.watches, func(x clientWatch) bool { return x.path == r.path })
		}
	case znode.OpCreate:
		if ok {
			c.acked++
			if strings.Contains(f.path, "/s-") || strings.Contains(f.path, "/e") {
				c.created = append(c.created, f.path)
			}
		}
	case znode.OpSetData, znode.OpDelete, znode.OpMulti:
		if ok {
			c.acked++
		}
	case znode.OpCloseSession:
		c.w.cover.hit("session closed")
		c.forget()
	}
}

// send gives a request to the connection.
func (c *client) send(r session.Request, q check.Request) {
	w, k := c.w, c.conn
	c.xid++
	r.Xid = c.xid
	q.Xid, q.Path, q.Watch = c.xid, r.Path, r.Watch
	if q.Kind == check.Write {
		w.stats.Writes++
	}
	c.ops++
	c.waiting = append(c.waiting, sent{xid: c.xid, op: r.Op, path: r.Path, watch: r.Watch, mode: r.Mode})
	if len(c.waiting) == 1 {
		c.heard = w.now
	}
	c.said = w.now
	w.chk.Sent(k.chk, q)
	if k.cut {
		return
	}
	at := w.now + c.rnd.delay(w.cfg.net[0], w.cfg.net[1])
	if n := len(k.in); n > 0 {
		at = max(at, k.in[n-1].at)
	}
	k.in = append(k.in, arrival{at, r})
	k.nextRead()
}
