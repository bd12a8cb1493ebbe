package main

import (
	"bufio"
	"net"
	"sync"
	"time"

	"github.com/zkserver/zkserver/proto/jute"
	"github.com/zkserver/zkserver/znode"
)

// fakeServer serves one tree to many connections on a loopback port: requests take effect at once, sessions never expire.
// It is the real tree behind the real wire, without an ensemble, a disk or a clock.
type fakeServer struct {
	listener net.Listener
	done     sync.WaitGroup

	mu      sync.Mutex
	tree    *znode.Tree
	prep    *znode.Preparer
	opts    znode.Options
	zxid    int64
	session int64
	conns   map[net.Conn]bool
	data    map[string]map[*fakeConn]bool // one-shot watches
	child   map[string]map[*fakeConn]bool
}

type fakeConn struct {
	s       *fakeServer
	conn    net.Conn
	session int64
	auth    []znode.AuthID
}

// startFake gives the server's address and what stops it.
func startFake() (addr string, stop func(), err error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", nil, err
	}
	o := znode.Options{ExtendedTypes: true, SuperDigest: znode.DigestID([]byte("super:test"))}
	tree := znode.NewTree(o)
	s := &fakeServer{
		listener: l, tree: tree, prep: znode.NewPreparer(tree), opts: o, session: 0x100000000000000,
		conns: map[net.Conn]bool{}, data: map[string]map[*fakeConn]bool{}, child: map[string]map[*fakeConn]bool{},
	}
	s.done.Go(s.accept) // ends with the listener
	return l.Addr().String(), func() {
		_ = l.Close()
		s.mu.Lock()
		for c := range s.conns {
			_ = c.Close()
		}
		s.mu.Unlock()
		s.done.Wait()
	}, nil
}

func (s *fakeServer) accept() {
	for {
		conn, err := s.listener.Accept()
		if err != nil {
			return
		}
		s.mu.Lock()
		s.conns[conn] = true
		s.mu.Unlock()
		s.done.Go(func() { // ends with the connection
			defer conn.Close()
			c := &fakeConn{s: s, conn: conn, auth: []znode.AuthID{{Scheme: "ip", ID: "127.0.0.1"}}}
			c.serve()
		})
	}
}

func (c *fakeConn) serve() {
	frames := jute.NewFrameReader(bufio.NewReader(c.conn), 0)
	frame, err := frames.Next()
	if err != nil {
		return
	}
	var hello jute.ConnectRequest
	hello.Decode(jute.NewDecoder(frame))
	c.s.mu.Lock()
	c.session = hello.SessionID
	if c.session == 0 {
		c.s.session++
		c.session = c.s.session
		c.s.write(&znode.Request{Op: znode.OpCreateSession, Session: c.session, Timeout: hello.TimeOut})
	}
	c.s.mu.Unlock()
	welcome := jute.ConnectResponse{TimeOut: hello.TimeOut, SessionID: c.session, Passwd: make([]byte, 16), HasReadOnly: true}
	c.send(welcome.Append(nil))
	for {
		frame, err := frames.Next()
		if err != nil {
			return
		}
		d := jute.NewDecoder(frame)
		var h jute.RequestHeader
		h.Decode(d)
		body := jute.NewRequest(h.Type)
		if body != nil {
			body.Decode(d)
		}
		c.s.mu.Lock()
		zxid, code, reply := c.s.handle(c, h, body)
		head := jute.ReplyHeader{Xid: h.Xid, Zxid: zxid, Err: jute.ErrorCode(code)}
		out := head.Append(nil)
		if code == znode.OK && reply != nil {
			out = reply.Append(out)
		}
		c.send(out)
		c.s.mu.Unlock()
		if h.Type == jute.OpCloseSession || code == znode.AuthFailed {
			return
		}
	}
}

func (c *fakeConn) send(payload []byte) {
	b, at := jute.BeginFrame(nil)
	_, _ = c.conn.Write(jute.EndFrame(append(b, payload...), at)) // a broken connection ends the reader
}

// write puts one transaction through the tree and sends the events.
func (s *fakeServer) write(r *znode.Request) znode.Applied {
	s.zxid++
	txn := s.prep.Prepare(r, s.zxid, time.Now().UnixMilli())
	var a znode.Applied
	s.tree.Apply(txn, &a)
	s.prep.Applied(s.zxid)
	for _, ev := range a.Events {
		to := map[*fakeConn]bool{}
		take := func(m map[string]map[*fakeConn]bool) {
			for c := range m[ev.Path] {
				to[c] = true
			}
			delete(m, ev.Path)
		}
		if ev.Type != znode.EventChildrenChanged {
			take(s.data)
		}
		if ev.Type == znode.EventChildrenChanged || ev.Type == znode.EventDeleted {
			take(s.child)
		}
		for c := range to {
			c.send(jute.AppendEvent(nil, s.zxid, jute.EventType(ev.Type), ev.Path)[4:])
		}
	}
	return a
}

func watch(m map[string]map[*fakeConn]bool, path string, c *fakeConn) {
	if m[path] == nil {
		m[path] = map[*fakeConn]bool{}
	}
	m[path][c] = true
}

// handle answers one request. The zxid is that of the write, else the last one.
func (s *fakeServer) handle(c *fakeConn, h jute.RequestHeader, body jute.Record) (int64, znode.Code, jute.Record) {
	switch h.Type {
	case jute.OpPing:
		return s.zxid, znode.OK, nil
	case jute.OpAuth:
		p := body.(*jute.AuthPacket)
		ids, code := znode.Authenticate(p.Scheme.Value, p.Auth, "127.0.0.1", s.opts)
		c.auth = append(c.auth, ids...)
		return 0, code, nil
	case jute.OpWhoAmI:
		r := &jute.WhoAmIResponse{ClientInfo: []jute.ClientInfo{}}
		for _, id := range znode.WhoAmI(c.auth) {
			r.ClientInfo = append(r.ClientInfo, jute.ClientInfo{AuthScheme: jute.Str(id.Scheme), User: jute.Str(id.ID)})
		}
		return s.zxid, znode.OK, r
	case jute.OpExists, jute.OpGetData, jute.OpGetChildren2, jute.OpGetACL, jute.OpSync, jute.OpGetEphemerals, jute.OpGetAllChildrenNumber:
		code, r := s.read(c, h.Type, body)
		return s.zxid, code, r
	}
	req := request(h, body)
	if req == nil {
		return -1, znode.Unimplemented, nil
	}
	req.Session, req.Cxid, req.Auth = c.session, h.Xid, c.auth
	a := s.write(req)
	switch h.Type {
	case jute.OpCreate:
		return s.zxid, a.Result.Code, &jute.CreateResponse{Path: jute.Str(a.Result.Path)}
	case jute.OpCreate2, jute.OpCreateContainer, jute.OpCreateTTL:
		return s.zxid, a.Result.Code, &jute.Create2Response{Path: jute.Str(a.Result.Path), Stat: jute.Stat(a.Result.Stat)}
	case jute.OpSetData, jute.OpSetACL:
		return s.zxid, a.Result.Code, &jute.StatResponse{Stat: jute.Stat(a.Result.Stat)}
	case jute.OpMulti:
		return s.zxid, a.Result.Code, multiResponse(a.Multi)
	}
	return s.zxid, a.Result.Code, nil
}

func (s *fakeServer) read(c *fakeConn, op jute.OpCode, body jute.Record) (znode.Code, jute.Record) {
	if r, ok := body.(*jute.GetDataRequest); ok {
		path := r.Path.Value
		switch op {
		case jute.OpExists:
			st, code := s.tree.Exists(path, c.auth)
			if r.Watch && code != znode.NoAuth {
				watch(s.data, path, c)
			}
			return code, &jute.StatResponse{Stat: jute.Stat(st)}
		case jute.OpGetData:
			data, st, code := s.tree.GetData(path, c.auth)
			if r.Watch && code == znode.OK {
				watch(s.data, path, c)
			}
			return code, &jute.GetDataResponse{Data: data, Stat: jute.Stat(st)}
		}
		names, st, code := s.tree.Children(path, c.auth)
		if r.Watch && code == znode.OK {
			watch(s.child, path, c)
		}
		return code, &jute.GetChildren2Response{Children: names, Stat: jute.Stat(st)}
	}
	path := body.(*jute.PathRequest).Path
	switch op {
	case jute.OpGetACL:
		list, st, code := s.tree.GetACL(path.Value, c.auth)
		r := &jute.GetACLResponse{ACL: []jute.ACL{}, Stat: jute.Stat(st)}
		for _, a := range list {
			r.ACL = append(r.ACL, jute.ACL{Perms: a.Perms, Scheme: jute.Str(a.Scheme), ID: jute.Str(a.ID)})
		}
		return code, r
	case jute.OpGetEphemerals:
		return znode.OK, &jute.GetEphemeralsResponse{Ephemerals: s.tree.Ephemerals(c.session, path.Value, path.Null)}
	case jute.OpGetAllChildrenNumber:
		n, code := s.tree.AllChildrenNumber(path.Value, c.auth)
		return code, &jute.GetAllChildrenNumberResponse{TotalNumber: n}
	}
	return znode.OK, &jute.SyncResponse{Path: path}
}

func request(h jute.RequestHeader, body jute.Record) *znode.Request {
	req := &znode.Request{Op: znode.Op(h.Type), TTL: -1}
	switch r := body.(type) {
	case *jute.CreateRequest:
		req.Path, req.Data, req.ACL, req.Flags = r.Path.Value, r.Data, acls(r.ACL), r.Flags
	case *jute.CreateTTLRequest:
		req.Path, req.Data, req.ACL, req.Flags, req.TTL = r.Path.Value, r.Data, acls(r.ACL), r.Flags, r.TTL
	case *jute.DeleteRequest:
		req.Path, req.Version = r.Path.Value, r.Version
	case *jute.SetDataRequest:
		req.Path, req.Data, req.Version = r.Path.Value, r.Data, r.Version
	case *jute.SetACLRequest:
		req.Path, req.ACL, req.Version = r.Path.Value, acls(r.ACL), r.Version
	case *jute.MultiRequest:
		for _, o := range r.Ops {
			req.Multi = append(req.Multi, znode.Request{
				Op: znode.Op(o.Type), Path: o.Path.Value, Data: o.Data, ACL: acls(o.ACL), Flags: o.Flags, Version: o.Version, TTL: -1,
			})
		}
	default:
		if h.Type != jute.OpCloseSession {
			return nil
		}
	}
	return req
}

func acls(list []jute.ACL) []znode.ACL {
	var out []znode.ACL
	for _, a := range list {
		out = append(out, znode.ACL{Perms: a.Perms, Scheme: a.Scheme.Value, ID: a.ID.Value})
	}
	return out
}

func multiResponse(results []znode.OpResult) *jute.MultiResponse {
	r := &jute.MultiResponse{}
	failed := false
	for _, o := range results {
		failed = failed || o.Code != znode.OK
	}
	for _, o := range results {
		res := jute.OpResult{Type: jute.OpCode(o.Op), Path: jute.Str(o.Path), Stat: jute.Stat(o.Stat)}
		if failed {
			res = jute.OpResult{Type: jute.OpError, Err: jute.ErrorCode(o.Code)}
		}
		r.Results = append(r.Results, res)
	}
	return r
}
