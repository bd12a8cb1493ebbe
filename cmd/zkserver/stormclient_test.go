package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
	"time"

	"github.com/zkserver/zkserver/proto/jute"
)

// stormTimeout is the session timeout of the storm's clients: in the long form longer than any fault lasts.
var stormTimeout = time.Duration(rounds(6, 12)) * time.Second

// stormClient is one session that goes from server to server.
type stormClient struct {
	h   *history
	id  int
	ps  []*proc
	rng *rand.Rand

	conn    *rawConn
	old     *rawConn // holds session and password
	zxid    int64    // the newest that was seen
	heard   time.Time
	seen    map[string]int64 // newest mzxid of a key that was read
	armed   map[string]int64 // watches armed on this connection, or to be set again: the mzxid they were armed at
	count   int
	ends    int             // connections that ended
	nodes   map[string]bool // ephemerals: true there, false unknown
	longest time.Duration
}

func newStormClient(h *history, id int, ps []*proc, rng *rand.Rand) *stormClient {
	return &stormClient{h: h, id: id, ps: ps, rng: rng, seen: map[string]int64{}, armed: map[string]int64{}, nodes: map[string]bool{}}
}

// request is one of a pipelined batch. done hears the reply, or that there was none.
type request struct {
	op   jute.OpCode
	rec  jute.Record
	resp jute.Record
	done func(h jute.ReplyHeader, ok bool)
}

var errLost = errors.New("the session is gone")

// connect attaches the session, or a new one, to a server.
func (c *stormClient) connect(addr string) error {
	nc, err := net.DialTimeout("tcp", addr, time.Second)
	if err != nil {
		return err
	}
	r := &rawConn{t: c.h.t, c: nc, r: jute.NewFrameReader(bufio.NewReader(nc), 64<<20)}
	req := jute.ConnectRequest{TimeOut: int32(stormTimeout.Milliseconds()), Passwd: make([]byte, 16), HasReadOnly: true, LastZxidSeen: c.zxid}
	if c.old != nil {
		req.SessionID, req.Passwd = c.old.session, c.old.passwd
	}
	began := time.Now()
	_ = nc.SetDeadline(began.Add(3 * time.Second))
	b, at := jute.BeginFrame(nil)
	var body []byte
	if _, err = nc.Write(jute.EndFrame(req.Append(b), at)); err == nil {
		body, err = r.r.Next()
	}
	if err != nil {
		nc.Close()
		return err
	}
	var resp jute.ConnectResponse
	d := jute.NewDecoder(body)
	resp.Decode(d)
	if err := d.Err(); err != nil {
		c.h.fault("connect response: %v", err)
	}
	if resp.TimeOut <= 0 {
		nc.Close()
		return errLost
	}
	if c.old != nil && resp.SessionID != c.old.session {
		c.h.fault("client %d: asked for session %#x, got %#x", c.id, c.old.session, resp.SessionID)
	}
	r.session, r.passwd = resp.SessionID, append([]byte(nil), resp.Passwd...)
	c.conn, c.old, c.heard = r, r, began
	return nil
}

// reconnect goes on until the session is attached somewhere.
func (c *stormClient) reconnect(ctx context.Context) bool {
	began := time.Now()
	for c.conn == nil {
		p := c.ps[c.rng.IntN(len(c.ps))]
		err := c.connect(p.addr)
		if errors.Is(err, errLost) {
			if silent := time.Since(c.heard); silent < stormTimeout {
				c.h.fault("client %d: session %#x refused by server %d after %s of silence", c.id, c.old.session, p.id, silent)
			} else {
				c.h.t.Logf("client %d: session %#x expired after %s of silence", c.id, c.old.session, silent)
			}
			c.h.lost(c)
			c.old, c.armed, c.nodes = nil, map[string]int64{}, map[string]bool{}
			c.seen, c.zxid = map[string]int64{}, 0
			continue
		}
		if err == nil {
			break
		}
		if ctx.Err() != nil {
			return false
		}
		timer := time.NewTimer(time.Duration(5+c.rng.IntN(45)) * time.Millisecond)
		<-timer.C
	}
	if c.ends > 0 {
		c.longest = max(c.longest, time.Since(began))
	}
	var data []string
	for k := range c.armed {
		data = append(data, k)
	}
	if len(data) > 0 {
		rec := &jute.SetWatches{RelativeZxid: c.zxid, DataWatches: data, ExistWatches: []string{}, ChildWatches: []string{}}
		c.do(request{jute.OpSetWatches, rec, nil, func(h jute.ReplyHeader, ok bool) {
			if ok && h.Err != 0 {
				c.h.fault("client %d: setWatches: %v", c.id, h.Err)
			}
		}})
	}
	return true
}

// drop ends the connection; the session lives on.
func (c *stormClient) drop() {
	if c.conn != nil {
		c.conn.c.Close()
		c.conn = nil
		c.ends++
	}
}

// do sends a batch and takes its replies; false once the connection has ended.
func (c *stormClient) do(rs ...request) bool {
	if c.conn == nil {
		for _, r := range rs {
			if r.done != nil {
				r.done(jute.ReplyHeader{}, false)
			}
		}
		return false
	}
	var b []byte
	xids := make([]int32, len(rs))
	for i, r := range rs {
		b, xids[i] = c.conn.appendRequest(b, r.op, r.rec)
	}
	began := time.Now()
	_ = c.conn.c.SetWriteDeadline(began.Add(3 * time.Second))
	_, err := c.conn.c.Write(b)
	for i, r := range rs {
		var h jute.ReplyHeader
		if err == nil {
			h, err = c.reply(xids[i], r)
		}
		if err != nil {
			if r.done != nil {
				r.done(h, false)
			}
			continue
		}
		c.heard = began
		if r.done != nil {
			r.done(h, true)
		}
	}
	if err != nil {
		c.drop()
		return false
	}
	return true
}

// reply takes frames up to one reply.
func (c *stormClient) reply(xid int32, r request) (jute.ReplyHeader, error) {
	for {
		f, err := c.conn.recv(3 * time.Second)
		if err != nil {
			return jute.ReplyHeader{}, err
		}
		if f.event != nil {
			c.event(f)
			continue
		}
		h := f.header
		if h.Xid != xid {
			c.h.fault("client %d: reply to %d, want %d", c.id, h.Xid, xid)
		}
		if h.Zxid > 0 {
			if h.Zxid < c.zxid {
				c.h.fault("client %d: %s answered at %#x, seen was %#x", c.id, r.op, h.Zxid, c.zxid)
			}
			c.zxid = max(c.zxid, h.Zxid)
		}
		if h.Err == jute.SessionExpired {
			c.h.fault("client %d: %s: session expired", c.id, r.op)
		}
		if h.Err == 0 && r.resp != nil {
			d := jute.NewDecoder(f.body)
			r.resp.Decode(d)
			if err := d.Err(); err != nil {
				c.h.fault("client %d: %s: %v", c.id, r.op, err)
			}
		}
		return h, nil
	}
}

func (c *stormClient) event(f frame) {
	path := f.event.Path.Value
	if _, ok := c.armed[path]; !ok {
		c.h.fault("client %d: event %d on %s with no watch armed", c.id, f.event.Type, path)
	}
	delete(c.armed, path)
	c.h.events.Add(1)
}

// run does one thing after another.
func (c *stormClient) run(ctx context.Context) {
	for ctx.Err() == nil {
		if c.conn == nil && !c.reconnect(ctx) {
			return
		}
		c.count++
		switch n := c.rng.IntN(100); {
		case n < 22:
			c.write()
		case n < 44:
			c.do(c.read(true)...)
		case n < 60:
			c.do(c.read(false)...)
		case n < 72:
			c.pipeline()
		case n < 82:
			c.sequence()
		case n < 88:
			c.increment()
		case n < 94:
			c.ephemeral()
		case n < 96:
			c.drop()
		case n < 98:
			c.move(ctx)
		default:
			c.shortSession(ctx)
		}
	}
}

func (c *stormClient) key() string { return "/reg/" + strconv.Itoa(c.rng.IntN(registers)) }

func (c *stormClient) value() string {
	c.count++
	return fmt.Sprintf("c%d-%d", c.id, c.count)
}

// setTo is a write of a register.
func (c *stormClient) setTo(key, value string) request {
	var stat jute.StatResponse
	w := c.h.begin(key, value)
	return request{jute.OpSetData, set(key, value), &stat, func(h jute.ReplyHeader, ok bool) {
		if ok && h.Err != 0 {
			c.h.fault("client %d: set %s: %v", c.id, key, h.Err)
		}
		if ok {
			if h.Zxid != stat.Stat.Mzxid {
				c.h.fault("client %d: set %s answered at %#x with mzxid %#x", c.id, key, h.Zxid, stat.Stat.Mzxid)
			}
			c.saw(key, stat.Stat.Mzxid, true)
			c.h.end(w, stat.Stat.Mzxid)
		}
	}}
}

func (c *stormClient) write() { c.do(c.setTo(c.key(), c.value())) }

// saw checks what this session may see of a key: never something older, and no change that an armed watch has not
// reported (I8, I9). The reply of a write of its own may come before the event of a later one.
func (c *stormClient) saw(key string, mzxid int64, own bool) {
	if mzxid < c.seen[key] {
		c.h.fault("client %d: %s at %#x, seen was %#x", c.id, key, mzxid, c.seen[key])
	}
	c.seen[key] = mzxid
	if at, ok := c.armed[key]; ok && mzxid > at {
		c.h.fault("client %d: %s shows %#x (own write: %v), the watch armed at %#x has not fired", c.id, key, mzxid, own, at)
		delete(c.armed, key)
	}
}

// read reads a register, behind a sync or not, sometimes with a watch.
func (c *stormClient) read(sync bool) []request {
	key := c.key()
	watch := c.rng.IntN(3) == 0
	var data jute.GetDataResponse
	var op *operation
	if sync {
		op = c.h.begin(key, "")
	}
	get := request{jute.OpGetData, get(key, watch), &data, func(h jute.ReplyHeader, ok bool) {
		if !ok {
			return
		}
		if h.Err != 0 {
			c.h.fault("client %d: get %s: %v", c.id, key, h.Err)
			return
		}
		c.saw(key, data.Stat.Mzxid, false)
		c.h.value(key, data.Stat.Mzxid, string(data.Data))
		if watch {
			c.armed[key] = data.Stat.Mzxid
		}
		if sync {
			c.h.end(op, data.Stat.Mzxid)
		}
	}}
	if sync {
		return []request{{jute.OpSync, &jute.SyncRequest{Path: jute.Str(key)}, nil, nil}, get}
	}
	return []request{get}
}

// pipeline sends set, get, set, get in one go: each get shows its set or something newer, and not the set behind it
// unless somebody else wrote in between.
func (c *stormClient) pipeline() {
	key := c.key()
	var rs []request
	var last int64
	for range 4 {
		v := c.value()
		w := c.setTo(key, v)
		stat := w.resp.(*jute.StatResponse)
		done := w.done
		w.done = func(h jute.ReplyHeader, ok bool) {
			done(h, ok)
			last = stat.Stat.Mzxid
		}
		var data jute.GetDataResponse
		rs = append(rs, w, request{jute.OpGetData, get(key, false), &data, func(h jute.ReplyHeader, ok bool) {
			if ok && (data.Stat.Mzxid != last || string(data.Data) != v) {
				// Read right behind the write, before the next transaction.
				c.h.fault("client %d: get %s behind set %s at %#x shows %s at %#x", c.id, key, v, last, data.Data, data.Stat.Mzxid)
			}
			if ok {
				c.saw(key, data.Stat.Mzxid, false)
			}
		}})
	}
	c.do(rs...)
}

// sequence creates nodes with sequential names; each carries the name of its request.
func (c *stormClient) sequence() {
	var rs []request
	for range 1 + c.rng.IntN(3) {
		v := c.value()
		req := create("/seq/n-", v)
		req.Flags = 2
		var resp jute.CreateResponse
		rs = append(rs, request{jute.OpCreate, req, &resp, func(h jute.ReplyHeader, ok bool) {
			if ok && h.Err != 0 {
				c.h.fault("client %d: sequential create: %v", c.id, h.Err)
			} else {
				c.h.created(v, resp.Path.Value, ok)
			}
		}})
	}
	c.do(rs...)
}

// increment adds one to two counters in a multi, if nobody was faster.
func (c *stormClient) increment() {
	var data jute.GetDataResponse
	read := false
	if !c.do(request{jute.OpGetData, get("/ctr/a", false), &data, func(h jute.ReplyHeader, ok bool) { read = ok && h.Err == 0 }}) || !read {
		return
	}
	n := int64(data.Stat.Version) + 1
	v := []byte(strconv.FormatInt(n, 10))
	multi := &jute.MultiRequest{Ops: []jute.Op{
		{Type: jute.OpCheck, Path: jute.Str("/ctr/a"), Version: data.Stat.Version},
		{Type: jute.OpSetData, Path: jute.Str("/ctr/a"), Data: v, Version: -1},
		{Type: jute.OpSetData, Path: jute.Str("/ctr/b"), Data: v, Version: -1},
	}}
	var resp jute.MultiResponse
	c.do(request{jute.OpMulti, multi, &resp, func(h jute.ReplyHeader, ok bool) {
		switch {
		case !ok:
			c.h.increments(n, false)
		case len(resp.Results) != 3:
			c.h.fault("client %d: multi with %d results, %v", c.id, len(resp.Results), h.Err)
		case resp.Results[0].Type != jute.OpError:
			c.h.increments(n, true)
		}
	}})
}

// ephemeral creates or deletes one of the session's own nodes.
func (c *stormClient) ephemeral() {
	for path, there := range c.nodes {
		if there && len(c.nodes) > 5 {
			c.nodes[path] = false
			c.do(request{jute.OpDelete, &jute.DeleteRequest{Path: jute.Str(path), Version: -1}, nil, func(h jute.ReplyHeader, ok bool) {
				if ok && h.Err != 0 {
					c.h.fault("client %d: delete of its ephemeral %s: %v", c.id, path, h.Err)
				}
				if ok {
					delete(c.nodes, path)
				}
			}})
			return
		}
	}
	path := "/eph/" + c.value()
	req := create(path, strconv.FormatInt(c.conn.session, 10))
	req.Flags = 1
	c.nodes[path] = false
	c.do(request{jute.OpCreate, req, nil, func(h jute.ReplyHeader, ok bool) {
		if ok && h.Err != 0 {
			c.h.fault("client %d: create of %s: %v", c.id, path, h.Err)
		}
		if ok {
			c.nodes[path] = true
		}
	}})
}

// move attaches the session elsewhere while its old connection is still open, then writes through the old one: that
// must have no effect once the new one has written (I8).
func (c *stormClient) move(ctx context.Context) {
	old := c.conn
	c.conn = nil
	c.ends++
	defer old.c.Close()
	if !c.reconnect(ctx) {
		return
	}
	key, v := c.key(), c.value()
	wrote := false
	if c.rng.IntN(2) == 0 {
		if wrote = c.do(c.setTo(c.key(), c.value())); !wrote {
			return
		}
		c.h.forbid(v, 0)
	}
	xid, err := old.send(jute.OpSetData, set(key, v))
	if err != nil {
		return
	}
	if c.do(c.setTo(key, c.value())) {
		c.h.forbid(v, c.seen[key])
	}
	for {
		f, err := old.recv(500 * time.Millisecond)
		if err != nil {
			return
		}
		if f.header.Xid == xid {
			if f.header.Err == 0 {
				c.h.late(wrote, f.header.Zxid)
			}
			return
		}
	}
}

// shortSession opens another session with an ephemeral, and closes or abandons it.
func (c *stormClient) shortSession(ctx context.Context) {
	p := c.ps[c.rng.IntN(len(c.ps))]
	r, err := dialRaw(c.h.t, p.addr, 2*time.Second, nil)
	if err != nil {
		return
	}
	defer r.c.Close()
	c.h.ended(r.session)
	req := create("/eph/"+c.value(), strconv.FormatInt(r.session, 10))
	req.Flags = 1
	if _, err := r.send(jute.OpCreate, req); err != nil {
		return
	}
	if c.rng.IntN(2) == 0 {
		_, _ = r.send(jute.OpCloseSession, nil)
		for {
			if _, err := r.recv(time.Second); err != nil {
				return
			}
		}
	}
}

// finish looks at the session once more, after the storm.
func (c *stormClient) finish() {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	if c.conn != nil {
		c.drop()
	}
	if c.old == nil || !c.reconnect(ctx) {
		c.h.fault("client %d: no session after the storm", c.id)
		return
	}
	for i := range registers {
		key := "/reg/" + strconv.Itoa(i)
		var data jute.GetDataResponse
		c.do(request{jute.OpSync, &jute.SyncRequest{Path: jute.Str(key)}, nil, nil},
			request{jute.OpGetData, get(key, false), &data, func(h jute.ReplyHeader, ok bool) {
				if ok && h.Err == 0 {
					c.saw(key, data.Stat.Mzxid, false)
					c.h.value(key, data.Stat.Mzxid, string(data.Data))
				}
			}})
	}
	var kids jute.GetChildrenResponse
	c.do(request{jute.OpGetChildren, get("/eph", false), &kids, func(h jute.ReplyHeader, ok bool) {
		have := map[string]bool{}
		for _, k := range kids.Children {
			have["/eph/"+k] = true
		}
		for path, there := range c.nodes {
			if ok && there && !have[path] {
				c.h.fault("client %d: its ephemeral %s is gone; the session lives", c.id, path)
			}
		}
	}})
}
