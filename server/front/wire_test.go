package front

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/zkserver/zkserver/proto/jute"
	"github.com/zkserver/zkserver/znode"
)

// A pipelined read sees every write sent before it and none sent after it, also when the writes wait.
func TestPipelinedReadsSeeTheWritesBeforeThem(t *testing.T) {
	s := start(t, nil)
	c := s.session()
	c.call(jute.OpCreate, create("/a", "", 0))
	for _, held := range []bool{false, true} {
		if held {
			s.b.Hold()
		}
		var batch []byte
		first := c.xid + 1
		for i := range 40 {
			batch = append(batch, frameOf(request(c.xid+1, jute.OpSetData, set("/a", fmt.Sprint(i))))...)
			batch = append(batch, frameOf(request(c.xid+2, jute.OpGetData, get("/a", false)))...)
			batch = append(batch, frameOf(request(c.xid+3, jute.OpPing, nil))...)
			batch = append(batch, frameOf(request(c.xid+4, jute.OpSync, &jute.SyncRequest{Path: jute.Str("/a")}))...)
			c.xid += 4
		}
		c.raw(batch)
		if held {
			until(t, "all writes", func() bool { return s.b.Queued() == 80 })
			s.b.Resume()
		}
		for i := range 40 {
			c.want(first, 0)
			if got := dataOf(t, c.want(first+1, 0)); got != fmt.Sprint(i) {
				t.Fatalf("read behind write %d saw %q", i, got)
			}
			c.want(jute.XidPing, 0)
			c.want(first+3, 0)
			first += 4
		}
	}
}

func TestEventBeforeReply(t *testing.T) {
	s := start(t, nil)
	c, other := s.session(), s.session()
	c.call(jute.OpCreate, create("/a", "", 0))
	c.call(jute.OpGetData, get("/a", true))
	other.call(jute.OpExists, get("/a", true))
	other.call(jute.OpGetChildren2, get("/a", true))

	xid := c.req(jute.OpSetData, set("/a", "1"))
	if e := c.event(); e.Type != 3 || e.Path.Value != "/a" || e.State != 3 {
		t.Fatalf("event %+v", e)
	}
	c.want(xid, 0)
	if e := other.event(); e.Type != 3 {
		t.Fatalf("event %+v", e)
	}
	c.call(jute.OpSetData, set("/a", "2")) // one-shot: no second event
	other.call(jute.OpExists, get("/a", true))
	c.call(jute.OpDelete, del("/a"))
	if e := other.event(); e.Type != 2 { // data and child watch: one event
		t.Fatalf("event %+v", e)
	}
	other.ping()
}

// An event is queued before any result that shows its change, on a connection that only reads.
func TestEventBeforeTheReadThatShowsIt(t *testing.T) {
	s := start(t, nil)
	w, r := s.session(), s.session()
	w.call(jute.OpCreate, create("/a", "0", 0))
	for i := 1; i <= 200; i++ {
		want := fmt.Sprint(i)
		r.call(jute.OpGetData, get("/a", true))
		w.req(jute.OpSetData, set("/a", want))
		for seen := false; ; {
			r.req(jute.OpGetData, get("/a", false))
			got := r.reply()
			if got.Xid == jute.XidEvent {
				seen = true
				got = r.reply()
			}
			if dataOf(t, got) == want {
				if !seen {
					t.Fatalf("round %d: the read shows the change and no event came before it", i)
				}
				break
			}
			if seen {
				t.Fatalf("round %d: an event, and then a read of the old state", i)
			}
		}
		w.reply()
	}
}

func TestCloseSession(t *testing.T) {
	s := start(t, nil)
	c, other := s.session(), s.session()
	other.want(other.req(jute.OpExists, get("/e", true)), jute.ErrorCode(znode.NoNode))
	s.b.Hold()
	c.raw(append(append(append(
		frameOf(request(1, jute.OpCreate, create("/e", "", 1))),
		frameOf(request(2, jute.OpCloseSession, nil))...),
		frameOf(request(3, jute.OpExists, get("/", false)))...),
		frameOf(request(4, jute.OpCreate, create("/b", "", 0)))...))
	until(t, "two writes", func() bool { return s.b.Queued() == 2 })
	s.b.Resume()
	c.want(1, 0)
	c.want(2, 0)
	c.closed()
	if e := other.event(); e.Type != 1 {
		t.Fatalf("event %+v", e)
	}
	r := other.want(other.req(jute.OpExists, get("/e", false)), jute.ErrorCode(znode.NoNode))
	if r.Zxid != s.b.LastApplied() {
		t.Fatalf("zxid %d, applied %d", r.Zxid, s.b.LastApplied())
	}
	other.want(other.req(jute.OpExists, get("/b", false)), jute.ErrorCode(znode.NoNode))
}

func TestExpiredSessionIsClosedWithoutAFrame(t *testing.T) {
	s := start(t, nil)
	c := s.session()
	s.b.Expire(c.sid)
	c.closed()
	again := s.dial()
	again.attach(jute.ConnectRequest{TimeOut: 4000, SessionID: c.sid, Passwd: c.pw, HasReadOnly: true})
	if again.sid != 0 || again.resp.TimeOut != 0 {
		t.Fatalf("re-attached to an expired session: %+v", again.resp)
	}
	again.closed()
}

// Auth is executed at reception: its reply overtakes, and requests keep the identities they were received with.
func TestAuthOvertakes(t *testing.T) {
	s := start(t, nil)
	c := s.session()
	s.b.Hold()
	w := c.req(jute.OpCreate, create("/a", "", 0))
	who := c.req(jute.OpWhoAmI, nil)
	c.send(request(-4, jute.OpAuth, &jute.AuthPacket{Scheme: jute.Str("digest"), Auth: []byte("bob:pw")}))
	later := c.req(jute.OpWhoAmI, nil)
	if r := c.want(-4, 0); r.Zxid != 0 || len(r.body) != 0 {
		t.Fatalf("auth reply %+v", r)
	}
	s.b.Resume()
	c.want(w, 0)
	for _, step := range []struct {
		xid int32
		ids int
	}{{who, 1}, {later, 2}} {
		var ids jute.WhoAmIResponse
		ids.Decode(jute.NewDecoder(c.want(step.xid, 0).body))
		if len(ids.ClientInfo) != step.ids {
			t.Fatalf("xid %d: %d identities, want %d", step.xid, len(ids.ClientInfo), step.ids)
		}
	}
	c.send(request(-4, jute.OpAuth, &jute.AuthPacket{Scheme: jute.Str("world"), Auth: []byte("anyone")}))
	c.want(-4, jute.ErrorCode(znode.AuthFailed))
	c.closed()
	c2 := s.dial() // the session is still there
	c2.attach(jute.ConnectRequest{TimeOut: 4000, SessionID: c.sid, Passwd: c.pw, HasReadOnly: true})
	if c2.sid != c.sid {
		t.Fatal("a failed auth ended the session")
	}
}

// Past the serving lease nothing is answered, pings included; once it is renewed everything is.
func TestLease(t *testing.T) {
	s := start(t, nil)
	c := s.session()
	c.call(jute.OpCreate, create("/a", "x", 0))
	s.b.SetLease(-time.Second)
	p := c.req(jute.OpPing, nil)
	g := c.req(jute.OpGetData, get("/a", false))
	c.silent()
	s.b.SetLease(time.Hour)
	_ = p
	c.want(jute.XidPing, 0)
	c.want(g, 0)

	// A write that is applied while the lease is out: the reply stays in the outbox.
	s.b.Hold()
	w := c.req(jute.OpSetData, set("/a", "y"))
	g = c.req(jute.OpGetData, get("/a", false))
	until(t, "the write", func() bool { return s.b.Queued() == 1 })
	s.b.SetLease(-time.Second)
	s.b.Resume()
	c.silent()
	s.b.SetLease(time.Hour)
	c.want(w, 0)
	if got := dataOf(t, c.want(g, 0)); got != "y" {
		t.Fatalf("read %q", got)
	}
	// New connections are closed.
	s.b.SetLease(-time.Second)
	n := s.dial()
	r := jute.ConnectRequest{TimeOut: 4000, HasReadOnly: true}
	n.send(r.Append(nil))
	n.closed()
	s.b.SetLease(time.Hour)
}

// A connection not heard from for its session's timeout is answered only after the session was confirmed.
func TestRevalidationAfterSilence(t *testing.T) {
	s := start(t, nil)
	c := s.session()
	s.b.SetAnswer(false)
	s.b.Advance(11 * time.Second)
	c.req(jute.OpPing, nil)
	c.silent()
	s.hub.Touched(func(id int64, _ int32) {
		if id == c.sid {
			t.Error("touched before it was confirmed")
		}
	})
	_ = c.c.Close()

	s.b.SetAnswer(true)
	c = s.session()
	s.b.Advance(11 * time.Second)
	c.ping()
	touched := false
	s.hub.Touched(func(id int64, ms int32) { touched = touched || id == c.sid && ms == 10000 })
	if !touched {
		t.Error("the session was not touched")
	}
	s.b.Hold()
	s.b.Advance(11 * time.Second)
	c.req(jute.OpPing, nil)
	until(t, "the question", func() bool { return s.b.Queued() == 1 })
	go s.b.Expire(c.sid) // queued behind the question: either order closes the connection
	until(t, "the expiry", func() bool { return s.b.Queued() == 2 })
	s.b.Resume()
	c.rest()
}

// A null path ends a multiRead; what it has read until then comes with the error.
func TestNullPathInMultiRead(t *testing.T) {
	s := start(t, nil)
	c := s.session()
	read := func(path jute.String) jute.Op { return jute.Op{Type: jute.OpGetChildren, Path: path} }
	good, null := read(jute.Str("/zookeeper")), read(jute.String{Null: true})
	want := "\x00\x00\x00\x08\x00\x00\x00\x00\x00\x00\x00\x00\x02\x00\x00\x00\x06config\x00\x00\x00\x05quota"
	end := "\xff\xff\xff\xff\x01\xff\xff\xff\xff"
	for _, q := range []struct {
		ops  []jute.Op
		body string
	}{{[]jute.Op{null, good}, end}, {[]jute.Op{good, null, good}, want + end}} {
		if r := c.want(c.req(jute.OpMultiRead, &jute.MultiRequest{Ops: q.ops}), -5); string(r.body) != q.body {
			t.Errorf("%q, want %q", r.body, q.body)
		}
	}
}

// A null token of sasl ends the connection; one that is empty is answered.
func TestNullToken(t *testing.T) {
	s := start(t, nil)
	c := s.session()
	c.call(jute.OpSASL, &jute.GetSASLRequest{Token: []byte{}})
	c.req(jute.OpSASL, &jute.GetSASLRequest{})
	c.closed()
}

// The path of an event of setWatches is what Java makes of the bytes that were sent.
func TestEventEchoesText(t *testing.T) {
	s := start(t, nil)
	c := s.session()
	c.req(jute.OpSetWatches, &jute.SetWatches{DataWatches: []string{"/\xff\U0001F600"}, ExistWatches: []string{}, ChildWatches: []string{}})
	if e := c.event(); e.Path.Value != "/\ufffd\xed\xa0\xbd\xed\xb8\x80" {
		t.Errorf("%q", e.Path.Value)
	}
	c.want(1, 0)
}

// A null path is a path to watch operations, one that nothing happens to.
func TestNullPathsOfWatchOperations(t *testing.T) {
	s := start(t, nil)
	c := s.session()
	for _, w := range []struct {
		op   jute.OpCode
		mode int32
		want jute.ErrorCode
	}{
		{jute.OpCheckWatches, 3, -121}, {jute.OpAddWatch, 0, 0}, {jute.OpAddWatch, 1, 0}, {jute.OpCheckWatches, 1, -121},
		{jute.OpCheckWatches, 4, 0}, {jute.OpCheckWatches, 5, 0}, {jute.OpRemoveWatches, 3, 0}, {jute.OpRemoveWatches, 4, -121},
		{jute.OpAddWatch, 2, -5}, {jute.OpCheckWatches, 6, -5}, {jute.OpRemoveWatches, 0, -5},
	} {
		body := &jute.CheckWatchesRequest{Path: jute.String{Null: true}, Type: jute.WatcherType(w.mode)}
		c.want(c.req(w.op, body), w.want)
	}
}

func TestRefusedOperations(t *testing.T) {
	s := start(t, nil)
	for _, op := range []jute.OpCode{0, 10, 13, 20, 23, 99, 108, 1000, -1, -10, -100} {
		c := s.session()
		before := s.b.LastApplied()
		c.send(append(request(7, op, nil), "rubbish"...))
		if r := c.want(7, jute.ErrorCode(znode.Unimplemented)); r.Zxid != -1 || len(r.body) != 0 {
			t.Errorf("op %d: %+v", op, r)
		}
		c.closed()
		if s.b.LastApplied() != before {
			t.Errorf("op %d took a zxid", op)
		}
	}
}

func TestUndecodableBodies(t *testing.T) {
	s := start(t, nil)
	c := s.session()
	c.call(jute.OpCreate, create("/a", "", 0))
	marshalling := jute.ErrorCode(znode.MarshallingError)
	before := s.b.LastApplied()
	for _, op := range []jute.OpCode{1, 2, 3, 4, 5, 6, 7, 8, 9, 12, 15, 16, 17, 18, 19, 21, 22, 101, 103, 104, 105, 106} {
		c.xid++
		c.send(append(request(c.xid, op, nil), 0, 0, 0)) // cut in the first field
		if r := c.want(c.xid, marshalling); r.Zxid != before || len(r.body) != 0 {
			t.Errorf("op %v: %+v", op, r)
		}
	}
	c.xid++
	c.send(append(request(c.xid, jute.OpMulti, nil), 0, 0, 0))
	if r := c.want(c.xid, marshalling); r.Zxid != before+1 {
		t.Errorf("a multi that does not decode has zxid %d, want %d", r.Zxid, before+1)
	}
	// In their turn behind a write in flight.
	s.b.Hold()
	w := c.req(jute.OpSetData, set("/a", "1"))
	c.xid++
	c.send(append(request(c.xid, jute.OpSetData, nil), 0))
	g := c.req(jute.OpGetData, get("/a", false))
	c.silent()
	s.b.Resume()
	c.want(w, 0)
	c.want(g-1, marshalling)
	c.want(g, 0)
}

// In a multi Apache decides by the flags what a create is, and fails on a null list before it has taken a zxid.
func TestCreatesInMulti(t *testing.T) {
	s := start(t, nil)
	c := s.session()
	open := create("/", "", 0).ACL
	tests := []struct {
		op        jute.OpCode
		flags     int32
		ttl       int64
		null      bool
		header    jute.ErrorCode
		result    jute.OpCode
		err       jute.ErrorCode
		takesZxid bool
	}{
		{op: jute.OpCreate, flags: 4, result: jute.OpCreate2, takesZxid: true},
		{op: jute.OpCreate2, flags: 4, result: jute.OpCreate2, takesZxid: true},
		{op: jute.OpCreateTTL, ttl: -1, result: jute.OpCreate, takesZxid: true},
		{op: jute.OpCreateTTL, flags: 2, ttl: 1000, result: jute.OpCreate, takesZxid: true},
		{op: jute.OpCreateTTL, flags: 4, ttl: 0, result: jute.OpCreate2, takesZxid: true},
		{op: jute.OpCreateTTL, flags: 7, ttl: 1000, result: jute.OpError, err: jute.BadArguments, takesZxid: true},
		{op: jute.OpCreateTTL, null: true, result: jute.OpError, err: jute.InvalidACL, takesZxid: true},
		{op: jute.OpCreate, null: true, header: jute.MarshallingError},
		{op: jute.OpCreateContainer, flags: 4, null: true, header: jute.MarshallingError},
		{op: jute.OpCreate, flags: 7, null: true, header: jute.MarshallingError, takesZxid: true},
	}
	for i, tt := range tests {
		o := jute.Op{Type: tt.op, Path: jute.Str(fmt.Sprintf("/m%d", i)), Flags: tt.flags, TTL: tt.ttl, ACL: open}
		if tt.null {
			o.ACL = nil
		}
		before := s.b.LastApplied()
		r := c.want(c.req(jute.OpMulti, &jute.MultiRequest{Ops: []jute.Op{o}}), tt.header)
		if took := s.b.LastApplied() - before; took != map[bool]int64{true: 1}[tt.takesZxid] {
			t.Errorf("%+v took %d zxids", tt, took)
		}
		if tt.header != 0 {
			continue
		}
		var m jute.MultiResponse
		m.Decode(jute.NewDecoder(r.body))
		if len(m.Results) != 1 || m.Results[0].Type != tt.result || m.Results[0].Err != tt.err {
			t.Errorf("%+v: %+v", tt, m.Results)
		}
	}
}

// What is wrong behind the null list does not matter.
func TestNullACLBeforeWhatDoesNotDecode(t *testing.T) {
	s := start(t, nil)
	c := s.session()
	null := jute.Op{Type: jute.OpCreate, Path: jute.Str("/a")}
	for i, v := range [][]jute.Op{{null, {Type: jute.OpGetData}}, {{Type: jute.OpGetData}, null}} {
		before := s.b.LastApplied()
		c.want(c.req(jute.OpMulti, &jute.MultiRequest{Ops: v}), jute.MarshallingError)
		if took := s.b.LastApplied() - before; took != int64(i) {
			t.Errorf("multi %d took %d zxids, want %d", i, took, i)
		}
	}
}

func TestSetWatchesInSteps(t *testing.T) {
	s := start(t, nil)
	c := s.session()
	c.call(jute.OpCreate, create("/a", "", 0))
	rel := s.b.LastApplied()
	c.call(jute.OpSetData, set("/a", "1"))
	lists := &jute.SetWatches{RelativeZxid: rel}
	for i := range 1000 {
		lists.ExistWatches = append(lists.ExistWatches, fmt.Sprintf("/none/%d", i))
	}
	lists.DataWatches, lists.ChildWatches = []string{"/a", "/gone"}, []string{"/", "/gone"}
	n := s.session()
	n.xid = 41
	n.req(jute.OpSetWatches, lists)
	for _, want := range []jute.WatcherEvent{{Type: 3, Path: jute.Str("/a")}, {Type: 2, Path: jute.Str("/gone")}, {Type: 2, Path: jute.Str("/gone")}} {
		if e := n.event(); e.Type != want.Type || e.Path != want.Path {
			t.Fatalf("event %+v, want %+v", e, want)
		}
	}
	n.want(42, 0)
	if w := s.hub.Watches(); w.Watches != 1001 || w.Connections != 1 {
		t.Fatalf("armed %+v", w)
	}
	_ = n.c.Close()
	until(t, "the watches to go", func() bool { return s.hub.Watches().Watches == 0 })
}

// A null list is refused once those before it are worked off, as ZooKeeper does.
func TestSetWatchesWithANullList(t *testing.T) {
	s := start(t, nil)
	c := s.session()
	c.call(jute.OpCreate, create("/a", "", 0))
	rel := s.b.LastApplied()
	c.call(jute.OpSetData, set("/a", "1"))
	data := jute.SetWatches{RelativeZxid: rel, DataWatches: []string{"/a"}, ExistWatches: []string{"/none"}}
	for _, tt := range []struct {
		op     jute.OpCode
		body   jute.Record
		events int
		armed  int
	}{
		{jute.OpSetWatches, &data, 1, 1},
		{jute.OpSetWatches, &jute.SetWatches{RelativeZxid: rel, ExistWatches: []string{"/none"}, ChildWatches: []string{"/"}}, 0, 0},
		{jute.OpSetWatches2, &jute.SetWatches2{SetWatches: jute.SetWatches{
			RelativeZxid: rel, DataWatches: []string{"/a"}, ExistWatches: []string{}, ChildWatches: []string{"/a"},
		}, PersistentRecursiveWatches: []string{"/"}}, 1, 1},
	} {
		n := s.session()
		xid := n.req(tt.op, tt.body)
		for range tt.events {
			if e := n.event(); e.Type != 3 || e.Path != jute.Str("/a") {
				t.Errorf("event %+v", e)
			}
		}
		n.want(xid, jute.MarshallingError)
		if w := s.hub.Watches(); w.Watches != tt.armed {
			t.Errorf("%+v armed %+v", tt.body, w)
		}
		n.ping()
		_ = n.c.Close()
		until(t, "the watches to go", func() bool { return s.hub.Watches().Watches == 0 })
	}
}

// What the server says last arrives, also when the client goes on sending.
func TestLastReplyArrives(t *testing.T) {
	s := start(t, func(o *Options) { o.MaxClientConns = -1 })
	for range 100 {
		c := s.session()
		c.send(request(1, jute.OpCloseSession, nil))
		for i := range int32(20) { // the server may be through, but then it still listens
			c.send(request(2+i, jute.OpSetData, set("/", strings.Repeat("x", 5000))))
		}
		c.want(1, 0)
		c.closed()
		_ = c.c.Close()
	}
}
