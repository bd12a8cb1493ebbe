package front

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/zkserver/zkserver/proto/jute"
)

// program is what two clients do, drawn from the bytes of a fuzz target: everything is sent before anything is read, so
// that the requests of both are pipelined and clash.
type program struct {
	t       *testing.T
	b       []byte
	root    string
	clients [2]*programClient
}

// programClient is one client of it.
type programClient struct {
	*client
	sent   []sentRequest
	auths  int
	closed bool // closeSession is sent
	armed  bool // has ever asked for a watch
}

type sentRequest struct {
	xid int32
	op  jute.OpCode
}

func (p *program) byte() int {
	if len(p.b) == 0 {
		return 0
	}
	v := p.b[0]
	p.b = p.b[1:]
	return int(v)
}

func (p *program) path() jute.String {
	names := [...]string{"", "/a", "/a/b", "/a/b/c", "/d", "/s-", "/", "/.", "//"}
	if n := p.byte() % 32; n < 27 {
		return jute.Str(p.root + names[n%len(names)])
	} else if n == 27 {
		return jute.String{Null: true}
	}
	return jute.Str([...]string{"", "/zookeeper/config", "/zookeeper/quota" + p.root + "/zookeeper_limits", "rel"}[p.byte()%4])
}

func (p *program) acl() []jute.ACL {
	lists := [...][]jute.ACL{
		openACL, openACL, openACL, nil, {{Perms: 1, Scheme: jute.Str("world"), ID: jute.Str("anyone")}},
		{{Perms: 31, Scheme: jute.Str("auth")}}, {{Perms: 31, Scheme: jute.String{Null: true}}},
	}
	return lists[p.byte()%len(lists)]
}

func (p *program) data() []byte {
	if n := p.byte(); n < 250 {
		return make([]byte, n%7)
	}
	return nil
}

func (p *program) create() jute.CreateRequest {
	return jute.CreateRequest{Path: p.path(), Data: p.data(), ACL: p.acl(), Flags: int32(p.byte() % 8)}
}

func (p *program) list() (out []string) {
	for range p.byte() % 3 {
		out = append(out, p.path().Value)
	}
	return append(out, p.root+"/a")
}

func (p *program) multi(reads bool) *jute.MultiRequest {
	var m jute.MultiRequest
	for range p.byte() % 4 {
		op := jute.Op{
			Type: [...]jute.OpCode{jute.OpCreate, jute.OpDelete, jute.OpSetData, jute.OpCheck, jute.OpCreate2, jute.OpCreateTTL}[p.byte()%6],
			Path: p.path(), Data: p.data(), ACL: p.acl(), Flags: int32(p.byte() % 4), Version: int32(p.byte()%3) - 1,
		}
		if reads {
			op.Type = [...]jute.OpCode{jute.OpGetData, jute.OpGetChildren}[p.byte()%2]
		}
		m.Ops = append(m.Ops, op)
	}
	return &m
}

// request draws a request, or a body that is cut off or none of its own.
func (p *program) request() (jute.OpCode, jute.Record, bool) {
	watch := p.byte()%2 == 0
	switch p.byte() % 22 {
	case 0, 1, 2:
		c := p.create()
		return [...]jute.OpCode{jute.OpCreate, jute.OpCreate2, jute.OpCreateContainer}[p.byte()%3], &c, false
	case 3:
		return jute.OpCreateTTL, &jute.CreateTTLRequest{CreateRequest: p.create(), TTL: int64(p.byte()) - 1}, false
	case 4, 5:
		return jute.OpDelete, &jute.DeleteRequest{Path: p.path(), Version: int32(p.byte()%3) - 1}, false
	case 6, 7:
		return jute.OpSetData, &jute.SetDataRequest{Path: p.path(), Data: p.data(), Version: int32(p.byte()%4) - 1}, false
	case 8:
		return jute.OpSetACL, &jute.SetACLRequest{Path: p.path(), ACL: p.acl(), Version: -1}, false
	case 9, 10:
		op := [...]jute.OpCode{jute.OpGetData, jute.OpExists, jute.OpGetChildren, jute.OpGetChildren2}[p.byte()%4]
		return op, &jute.GetDataRequest{Path: p.path(), Watch: watch}, watch
	case 11:
		return jute.OpMulti, p.multi(false), false
	case 12:
		return jute.OpMultiRead, p.multi(p.byte()%8 != 0), false
	case 13:
		return jute.OpAddWatch, &jute.AddWatchRequest{Path: p.path(), Mode: jute.AddWatchMode(p.byte() % 3)}, true
	case 14:
		return [...]jute.OpCode{jute.OpCheckWatches, jute.OpRemoveWatches}[p.byte()%2], &jute.CheckWatchesRequest{Path: p.path(), Type: jute.WatcherType(p.byte() % 7)}, false
	case 15:
		return jute.OpSetWatches2, &jute.SetWatches2{
			SetWatches:        jute.SetWatches{RelativeZxid: int64(p.byte()), DataWatches: p.list(), ExistWatches: p.list(), ChildWatches: p.list()},
			PersistentWatches: p.list(), PersistentRecursiveWatches: p.list(),
		}, true
	case 16:
		return jute.OpSync, &jute.SyncRequest{Path: p.path()}, false
	case 17:
		return jute.OpPing, nil, false
	case 18:
		return [...]jute.OpCode{jute.OpWhoAmI, jute.OpGetACL, jute.OpGetEphemerals, jute.OpGetAllChildrenNumber}[p.byte()%4], &jute.SyncRequest{Path: p.path()}, false
	case 19:
		return jute.OpAuth, &jute.AuthPacket{Scheme: jute.Str("digest"), Auth: []byte{byte('a' + p.byte()%3), ':', 'x'}}, false
	case 20:
		if p.byte()%8 == 0 {
			return jute.OpCloseSession, nil, false
		}
		return jute.OpReconfig, &jute.ReconfigRequest{}, false
	}
	return [...]jute.OpCode{jute.OpCreate, jute.OpMulti, jute.OpGetData, jute.OpSetWatches}[p.byte()%4], &jute.SyncRequest{Path: p.path()}, false
}

func (p *program) run(addr string) {
	for i := range p.clients {
		nc := dialInput(p.t, addr)
		defer func() { _ = nc.Close() }()
		c := &programClient{client: &client{t: p.t, c: nc}}
		c.attach(jute.ConnectRequest{TimeOut: 10000, Passwd: make([]byte, 16)})
		p.clients[i] = c
	}
	for range 40 {
		if len(p.b) == 0 {
			break
		}
		c := p.clients[p.byte()%2]
		op, body, watch := p.request()
		if c.closed {
			continue
		}
		xid := int32(len(c.sent) + 1)
		switch op {
		case jute.OpAuth:
			xid = jute.XidAuth
			c.auths++
		case jute.OpCloseSession:
			c.closed = true
		}
		c.armed = c.armed || watch
		c.send(request(xid, op, body))
		if op != jute.OpAuth {
			c.sent = append(c.sent, sentRequest{xid: xid, op: op})
		}
	}
	for _, c := range p.clients {
		c.check()
	}
}

// check reads everything: one reply a request, in their order, writes' zxids ascending; events only to who asked for
// them; the connection ends if its session does, and otherwise lives.
func (c *programClient) check() {
	if !c.closed { // behind everything else
		c.send(request(int32(len(c.sent)+1), jute.OpSync, &jute.SyncRequest{Path: jute.Str("/")}))
		c.sent = append(c.sent, sentRequest{xid: int32(len(c.sent) + 1), op: jute.OpSync})
	}
	zxid := int64(0)
	for next := 0; next < len(c.sent); {
		r := c.reply()
		switch {
		case r.Xid == jute.XidEvent:
			if !c.armed {
				c.t.Fatal("an event that nobody asked for")
			}
		case r.Xid == jute.XidAuth:
			c.auths--
		default:
			want := c.sent[next]
			next++
			if want.op == jute.OpPing {
				want.xid = jute.XidPing
			}
			if r.Xid != want.xid || r.Zxid < zxid {
				c.t.Fatalf("reply %d with zxid %d after %d, want %+v", r.Xid, r.Zxid, zxid, want)
			}
			zxid = r.Zxid
		}
	}
	if c.auths != 0 {
		c.t.Fatalf("%d replies to auth are missing", c.auths)
	}
	if c.closed {
		c.rest()
	}
}

// FuzzTwoConnections runs programs of two pipelining clients through real sockets.
func FuzzTwoConnections(f *testing.F) {
	s := start(f, func(o *Options) { o.MaxClientConns = -1 })
	admin := s.session()
	runs := 0
	rng := rand.New(rand.NewPCG(1, 2))
	for range 20 {
		b := make([]byte, 400)
		for i := range b {
			b[i] = byte(rng.Uint32())
		}
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		runs++
		root := fmt.Sprintf("/r%d", runs)
		admin.t = t
		admin.call(jute.OpCreate, create(root, "", 0))
		p := &program{t: t, b: b, root: root}
		p.run(s.addr)
		admin.ping()
	})
}
