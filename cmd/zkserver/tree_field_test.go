package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/zkserver/zkserver/proto/jute"
)

// TestFieldTree holds entries of part D of docs/field-reports.md, on one server that is killed after each of them and
// comes back with the same tree.
func TestFieldTree(t *testing.T) {
	ps := newEnsemble(t, 1, 0, "extendedTypesEnabled=true\nenforceQuota=true\nznode.container.checkIntervalMs=86400000\n"+
		"DigestAuthenticationProvider.superDigest=super:D/InIHSb7yEEbrWz8b9l71RjZJU=\n")
	p := ps[0]
	startAll(ps)
	for _, c := range []struct {
		name string
		run  func(t *testing.T, p *proc, c *rawConn)
	}{
		{"D3 the root and the empty path", rootAndEmpty},
		{"D4 malformed ACLs", malformedACLs},
		{"D7 quotas count right", quotaCounts},
		{"D8 a quota made with its subtree", quotaInMulti},
		{"D9 a multi that fails", failingMulti},
		{"D10 a multi that builds on itself", selfMulti},
		{"D11 whose permission counts", permissions},
		{"D13 children of ephemerals", childrenOf},
		{"D14 accounting of children", accounting},
		{"D16 sync", syncEchoes},
	} {
		t.Run(c.name, func(t *testing.T) {
			conn := mustDial(t, p.addr, 20*time.Second)
			c.run(t, p, conn)
			conn.must(jute.OpCloseSession, nil, nil)
			before := p.dump(t)
			p.kill()
			p.start()
			p.serve()
			for path, after := range p.dump(t) {
				if before[path] != after {
					t.Errorf("after a restart %s is %s, before %s", path, after, before[path])
				}
				delete(before, path)
			}
			if len(before) > 0 {
				t.Errorf("gone after a restart: %v", before)
			}
		})
	}
}

// dump is all of a tree as the superuser sees it.
func (p *proc) dump(t *testing.T) map[string]string {
	t.Helper()
	c := mustDial(t, p.addr, 20*time.Second)
	c.must(jute.OpAuth, &jute.AuthPacket{Scheme: jute.Str("digest"), Auth: []byte("super:test")}, nil)
	out := map[string]string{}
	var walk func(path string)
	walk = func(path string) {
		var kids jute.GetChildrenResponse
		var data jute.GetDataResponse
		var list jute.GetACLResponse
		c.must(jute.OpGetData, get(path, false), &data)
		c.must(jute.OpGetACL, &jute.PathRequest{Path: jute.Str(path)}, &list)
		c.must(jute.OpGetChildren, get(path, false), &kids)
		out[path] = fmt.Sprintf("%q %+v %v", data.Data, data.Stat, list.ACL)
		for _, k := range kids.Children {
			walk(strings.TrimSuffix(path, "/") + "/" + k)
		}
	}
	walk("/")
	c.must(jute.OpCloseSession, nil, nil)
	return out
}

// refused fails unless a request is answered with an error.
func (r *rawConn) refused(code jute.ErrorCode, op jute.OpCode, rec jute.Record) {
	r.t.Helper()
	if h, err := r.call(op, rec, nil); err != nil || h.Err != code {
		r.t.Errorf("%v %+v: %v %v, want %v", op, rec, h.Err, err, code)
	}
}

// rootAndEmpty (D3): the root has data like any node; an empty path is BADARGUMENTS.
func rootAndEmpty(t *testing.T, _ *proc, c *rawConn) {
	c.must(jute.OpSetData, set("/", "of the root"), nil)
	c.refused(jute.BadArguments, jute.OpSetData, set("", "x"))
	c.refused(jute.BadArguments, jute.OpCreate, create("", "x"))
	var got jute.GetDataResponse
	c.must(jute.OpGetData, get("/", false), &got)
	if string(got.Data) != "of the root" {
		t.Errorf("%q", got.Data)
	}
}

// malformedACLs (D4): what is no ACL is never stored, whether ACLs are checked or not.
func malformedACLs(t *testing.T, _ *proc, c *rawConn) {
	open := newEnsemble(t, 1, 0, "skipACL=yes\n")
	startAll(open)
	for _, c := range []*rawConn{c, mustDial(t, open[0].addr, 20*time.Second)} {
		c.must(jute.OpCreate, create("/d4", ""), nil)
		for _, bad := range [][]jute.ACL{
			{{Perms: 31, Scheme: jute.Str("ip"), ID: jute.Str("not/an/ip")}},
			{{Perms: 31, Scheme: jute.Str("ip"), ID: jute.Str("10.0.0.1/33")}},
			{{Perms: 31, Scheme: jute.Str("nosuch"), ID: jute.Str("x")}},
			{{Perms: 31, Scheme: jute.Str("digest"), ID: jute.Str("nocolon")}},
			{{Perms: 31, Scheme: jute.Str("world"), ID: jute.Str("somebody")}},
			{openACL[0], {Perms: 31, Scheme: jute.Str(""), ID: jute.Str("")}},
			{},
		} {
			r := create("/d4/x", "")
			r.ACL = bad
			c.refused(jute.InvalidACL, jute.OpCreate, r)
			c.refused(jute.InvalidACL, jute.OpSetACL, &jute.SetACLRequest{Path: jute.Str("/d4"), ACL: bad, Version: -1})
		}
		c.refused(jute.NoNode, jute.OpExists, get("/d4/x", false))
	}
}

// quota makes a quota for a path, by the operations of a multi.
func quota(path, limits string) []jute.Op {
	op := func(path, data string) jute.Op {
		return jute.Op{Type: jute.OpCreate, Path: jute.Str(path), Data: []byte(data), ACL: openACL}
	}
	return []jute.Op{op("/zookeeper/quota"+path, ""), op("/zookeeper/quota"+path+"/zookeeper_limits", limits), op("/zookeeper/quota"+path+"/zookeeper_stats", "count=0,bytes=0")}
}

// quotaCounts (D7): the stats equal a count by hand after creates, sets and deletes inside and outside of multis and the
// end of a session; the hard limit holds everywhere, and a multi that meets it leaves nothing.
func quotaCounts(t *testing.T, p *proc, c *rawConn) {
	c.must(jute.OpCreate, create("/d7", "12345"), nil)
	c.multi(quota("/d7", "count=-1,bytes=-1=;byteHardLimit=-1;countHardLimit=8"))
	c.must(jute.OpCreate, create("/d7/a", "123"), nil)
	c.multi([]jute.Op{
		{Type: jute.OpCreate, Path: jute.Str("/d7/b"), Data: []byte("1234567"), ACL: openACL},
		{Type: jute.OpSetData, Path: jute.Str("/d7/a"), Data: []byte("1"), Version: -1},
		{Type: jute.OpCreate, Path: jute.Str("/d7/b/c"), ACL: openACL},
		{Type: jute.OpDelete, Path: jute.Str("/d7/b/c"), Version: -1},
	})
	other := mustDial(t, p.addr, time.Second)
	other.must(jute.OpCreate, createEphemeral("/d7/e"), nil)
	c.must(jute.OpExists, get("/d7/e", true), nil)
	other.c.Close()
	if f, err := c.recv(patience); err != nil || f.event == nil || f.event.Type != jute.EventNodeDeleted {
		t.Fatalf("%+v %v", f, err)
	}
	stats := func(want string) {
		t.Helper()
		var got jute.GetDataResponse
		c.must(jute.OpGetData, get("/zookeeper/quota/d7/zookeeper_stats", false), &got)
		if text := string(got.Data); !strings.HasPrefix(text, want) {
			t.Errorf("stats %s, counted by hand %s", text, want)
		}
	}
	stats("count=3,bytes=13")
	for i := range 5 {
		c.must(jute.OpCreate, create(fmt.Sprintf("/d7/n%d", i), ""), nil)
	}
	c.refused(jute.QuotaExceeded, jute.OpCreate, create("/d7/more", ""))
	var resp jute.MultiResponse
	c.must(jute.OpMulti, &jute.MultiRequest{Ops: []jute.Op{
		{Type: jute.OpSetData, Path: jute.Str("/d7/a"), Data: []byte("gone"), Version: -1},
		{Type: jute.OpCreate, Path: jute.Str("/d7/more"), ACL: openACL},
	}}, &resp)
	if len(resp.Results) != 2 || resp.Results[0].Err != 0 || resp.Results[1].Err != jute.QuotaExceeded {
		t.Errorf("multi over the limit: %+v", resp.Results)
	}
	stats("count=8,bytes=13")
}

// quotaInMulti (D8): a subtree and its quota come in one transaction, and the server is killed at once.
func quotaInMulti(_ *testing.T, _ *proc, c *rawConn) {
	ops := []jute.Op{createOp("/d8", 0), createOp("/d8/x", 0)}
	c.multi(append(ops, quota("/d8", "count=10,bytes=100")...))
}

// failingMulti (D9): nothing of it is seen, and it tells which operation failed.
func failingMulti(t *testing.T, _ *proc, c *rawConn) {
	c.must(jute.OpCreate, create("/d9", ""), nil)
	before := c.must(jute.OpSetData, set("/d9", "before"), nil).Zxid
	var resp jute.MultiResponse
	h := c.must(jute.OpMulti, &jute.MultiRequest{Ops: []jute.Op{
		createOp("/d9/new", 0),
		{Type: jute.OpSetData, Path: jute.Str("/d9"), Data: []byte("after"), Version: -1},
		{Type: jute.OpCheck, Path: jute.Str("/d9"), Version: 77},
		{Type: jute.OpDelete, Path: jute.Str("/d9"), Version: -1},
	}}, &resp)
	var codes []jute.ErrorCode
	for _, r := range resp.Results {
		codes = append(codes, r.Err)
	}
	if want := []jute.ErrorCode{0, 0, jute.BadVersion, jute.RuntimeInconsistency}; !slices.Equal(codes, want) {
		t.Errorf("results %v, want %v", codes, want)
	}
	if h.Zxid != before+1 {
		t.Errorf("zxid %#x, want %#x", h.Zxid, before+1)
	}
	var got jute.GetDataResponse
	c.must(jute.OpGetData, get("/d9", false), &got)
	if string(got.Data) != "before" || got.Stat.NumChildren != 0 || got.Stat.Cversion != 0 {
		t.Errorf("%q %+v", got.Data, got.Stat)
	}
	c.refused(jute.NoNode, jute.OpExists, get("/d9/new", false))
}

// selfMulti (D10): operations see what those before them did; two sequential nodes have two names.
func selfMulti(t *testing.T, _ *proc, c *rawConn) {
	c.multi([]jute.Op{
		createOp("/m", 0), createOp("/m/a", 0),
		{Type: jute.OpSetData, Path: jute.Str("/m/a"), Data: []byte("x"), Version: 0},
		{Type: jute.OpDelete, Path: jute.Str("/m/a"), Version: 1},
		{Type: jute.OpDelete, Path: jute.Str("/m"), Version: 0},
	})
	c.refused(jute.NoNode, jute.OpExists, get("/m", false))
	c.must(jute.OpCreate, create("/d10", ""), nil)
	var resp jute.MultiResponse
	c.must(jute.OpMulti, &jute.MultiRequest{Ops: []jute.Op{createOp("/d10/s", 2), createOp("/d10/s", 2)}}, &resp)
	if a, b := resp.Results[0].Path.Value, resp.Results[1].Path.Value; a != "/d10/s0000000000" || b != "/d10/s0000000001" {
		t.Errorf("%q and %q", a, b)
	}
}

// permissions (D11): creating and deleting are matters of the parent's list; a digest's hash is hidden from who has
// neither READ nor ADMIN.
func permissions(t *testing.T, _ *proc, c *rawConn) {
	world := func(perms int32) []jute.ACL {
		return []jute.ACL{{Perms: perms, Scheme: jute.Str("world"), ID: jute.Str("anyone")}}
	}
	add := func(path string, acl []jute.ACL) {
		r := create(path, "")
		r.ACL = acl
		c.must(jute.OpCreate, r, nil)
	}
	remove := func(path string) *jute.DeleteRequest {
		return &jute.DeleteRequest{Path: jute.Str(path), Version: -1}
	}
	add("/d11", world(31))
	add("/d11/kept", world(31&^8)) // no DELETE on the child
	add("/d11/fixed", world(31))
	add("/d11/fixed/x", world(31))
	c.must(jute.OpDelete, remove("/d11/kept"), nil)
	c.must(jute.OpSetACL, &jute.SetACLRequest{Path: jute.Str("/d11/fixed"), ACL: world(31 &^ (4 | 8)), Version: -1}, nil)
	c.refused(jute.NoAuth, jute.OpDelete, remove("/d11/fixed/x"))
	c.refused(jute.NoAuth, jute.OpCreate, create("/d11/fixed/y", ""))
	const hash = "amy:ytedbzoRRPHPjfCmtagR0pUO0cI="
	list := append(world(2), jute.ACL{Perms: 31, Scheme: jute.Str("digest"), ID: jute.Str(hash)})
	add("/d11/secret", list)
	add("/d11/told", append(world(1), list[1]))
	c.refused(jute.NoAuth, jute.OpGetACL, &jute.PathRequest{Path: jute.Str("/d11/secret")})
	var got jute.GetACLResponse
	c.must(jute.OpGetACL, &jute.PathRequest{Path: jute.Str("/d11/told")}, &got)
	if id := got.ACL[1].ID.Value; id != "amy:x" {
		t.Errorf("a reader is told %q", id)
	}
	c.must(jute.OpAuth, &jute.AuthPacket{Scheme: jute.Str("digest"), Auth: []byte("amy:pw")}, nil)
	c.must(jute.OpGetACL, &jute.PathRequest{Path: jute.Str("/d11/told")}, &got)
	if id := got.ACL[1].ID.Value; id != hash {
		t.Errorf("who has ADMIN is told %q", id)
	}
}

// childrenOf (D13): only an ephemeral node has no children.
func childrenOf(_ *testing.T, _ *proc, c *rawConn) {
	c.must(jute.OpCreate, create("/d13", ""), nil)
	c.must(jute.OpCreate, createEphemeral("/d13/e"), nil)
	container := create("/d13/c", "")
	container.Flags = 4
	c.must(jute.OpCreateContainer, container, nil)
	ttl := &jute.CreateTTLRequest{CreateRequest: *create("/d13/t", ""), TTL: 1 << 30}
	ttl.Flags = 5
	c.must(jute.OpCreateTTL, ttl, nil)
	c.refused(jute.NoChildrenForEphemerals, jute.OpCreate, create("/d13/e/x", ""))
	c.must(jute.OpCreate, create("/d13/c/x", ""), nil)
	c.must(jute.OpCreate, create("/d13/t/x", ""), nil)
}

// accounting (D14): a node counts the changes of its children's list, and nothing else does.
func accounting(t *testing.T, _ *proc, c *rawConn) {
	c.must(jute.OpCreate, create("/d14", ""), nil)
	var last int64
	for i := range 3 {
		path := fmt.Sprintf("/d14/%d", i)
		c.must(jute.OpCreate, create(path, ""), nil)
		last = c.must(jute.OpDelete, &jute.DeleteRequest{Path: jute.Str(path), Version: -1}, nil).Zxid
	}
	c.must(jute.OpSetData, set("/d14", "x"), nil)
	var got jute.GetDataResponse
	c.must(jute.OpGetData, get("/d14", false), &got)
	if s := got.Stat; s.Cversion != 6 || s.Pzxid != last || s.NumChildren != 0 || s.Version != 1 {
		t.Errorf("%+v, the last delete was %#x", s, last)
	}
}

// syncEchoes (D16): the reply to sync has the request's path, whether there is such a node or not.
func syncEchoes(t *testing.T, _ *proc, c *rawConn) {
	for _, path := range []string{"/", "/app/chroot", "/nothing/here"} {
		var got jute.PathRequest
		c.must(jute.OpSync, &jute.SyncRequest{Path: jute.Str(path)}, &got)
		if got.Path.Value != path {
			t.Errorf("sync of %q answered %q", path, got.Path.Value)
		}
	}
}

// TestFieldBrokers holds entries of part H: what Kafka's brokers do with ephemerals and versions.
func TestFieldBrokers(t *testing.T) {
	ps := newEnsemble(t, 3, 0, "")
	startAll(ps)
	t.Run("H1 the node of the broker's own old session", func(t *testing.T) { ownOldSession(t, ps) })
	t.Run("H2 a controller that was replaced", func(t *testing.T) { zombieController(t, ps) })
	t.Run("H3 controllers that expire again and again", func(t *testing.T) { controllersExpire(t, ps) })
}

// ownOldSession (H1): a broker comes back with another session while its node still is of the old one. It is told so,
// and can put its own in place in one transaction; the old session's end does not touch it.
func ownOldSession(t *testing.T, ps []*proc) {
	admin := mustDial(t, ps[0].addr, 20*time.Second)
	admin.must(jute.OpCreate, create("/ids", ""), nil)
	old := mustDial(t, ps[0].addr, 1500*time.Millisecond)
	old.must(jute.OpCreate, createEphemeral("/ids/1"), nil)
	old.must(jute.OpCreate, createEphemeral("/ids/2"), nil)
	old.c.Close()
	fresh := mustDial(t, ps[1].addr, 20*time.Second)
	fresh.must(jute.OpSync, &jute.SyncRequest{Path: jute.Str("/")}, nil)
	fresh.refused(jute.NodeExists, jute.OpCreate, createEphemeral("/ids/1"))
	var st jute.GetDataResponse
	fresh.must(jute.OpGetData, get("/ids/1", false), &st)
	if st.Stat.EphemeralOwner != old.session {
		t.Fatalf("/ids/1 is of %#x", uint64(st.Stat.EphemeralOwner))
	}
	fresh.multi([]jute.Op{
		{Type: jute.OpCheck, Path: jute.Str("/ids/1"), Version: st.Stat.Version},
		{Type: jute.OpDelete, Path: jute.Str("/ids/1"), Version: st.Stat.Version},
		createOp("/ids/1", 1),
	})
	admin.must(jute.OpExists, get("/ids/2", true), nil)
	if f, err := admin.recv(patience); err != nil || f.event == nil || f.event.Type != jute.EventNodeDeleted {
		t.Fatalf("%+v %v", f, err)
	}
	fresh.must(jute.OpGetData, get("/ids/1", false), &st)
	if st.Stat.EphemeralOwner != fresh.session {
		t.Errorf("/ids/1 is of %#x", uint64(st.Stat.EphemeralOwner))
	}
}

// zombieController (H2): of what a controller does that has been replaced, nothing is applied, neither while its session
// lives nor after.
func zombieController(t *testing.T, ps []*proc) {
	admin := mustDial(t, ps[0].addr, 20*time.Second)
	admin.must(jute.OpCreate, create("/epoch", "1"), nil)
	admin.must(jute.OpCreate, create("/state", "0"), nil)
	write := func(epoch int32, data string) *jute.MultiRequest {
		return &jute.MultiRequest{Ops: []jute.Op{
			{Type: jute.OpCheck, Path: jute.Str("/epoch"), Version: epoch},
			{Type: jute.OpSetData, Path: jute.Str("/state"), Data: []byte(data), Version: -1},
		}}
	}
	for _, round := range []struct {
		timeout time.Duration
		expires bool
	}{{20 * time.Second, false}, {time.Second, true}} {
		var epoch jute.GetDataResponse
		admin.must(jute.OpGetData, get("/epoch", false), &epoch)
		one := mustDial(t, ps[1].addr, round.timeout)
		one.must(jute.OpCreate, createEphemeral("/controller"), nil)
		one.must(jute.OpMulti, write(epoch.Stat.Version, "one"), nil)
		two := mustDial(t, ps[2].addr, 20*time.Second)
		if round.expires { // it is stopped for longer than its session lasts
			until(t, "the first controller's session expires", func() bool {
				h, err := two.call(jute.OpCreate, createEphemeral("/controller"), nil)
				return err == nil && h.Err == 0
			})
		}
		two.multi([]jute.Op{
			{Type: jute.OpCheck, Path: jute.Str("/epoch"), Version: epoch.Stat.Version},
			{Type: jute.OpSetData, Path: jute.Str("/epoch"), Version: epoch.Stat.Version},
			{Type: jute.OpSetData, Path: jute.Str("/state"), Data: []byte("two"), Version: -1},
		})
		var b []byte
		for range 20 {
			b, _ = one.appendRequest(b, jute.OpMulti, write(epoch.Stat.Version, "zombie"))
		}
		_, err := one.c.Write(b)
		for i := 0; i < 20 && err == nil; i++ {
			var f frame
			if f, err = one.recv(patience); err != nil {
				break
			}
			var resp jute.MultiResponse
			resp.Decode(jute.NewDecoder(f.body))
			if f.header.Err != jute.SessionExpired && (len(resp.Results) != 2 || resp.Results[0].Err != jute.BadVersion) {
				t.Errorf("a write of the one that was replaced: %v %+v", f.header.Err, resp.Results)
			}
		}
		if round.expires == (err == nil) {
			t.Errorf("expired: %t, its connection: %v", round.expires, err)
		}
		if x, err := dialRaw(t, ps[1].addr, round.timeout, one); round.expires != errors.Is(err, errRefused) {
			t.Errorf("expired: %t, taken up again: %+v %v", round.expires, x, err)
		} else if err == nil {
			x.must(jute.OpCloseSession, nil, nil)
		}
		var st jute.GetDataResponse
		admin.must(jute.OpSync, &jute.SyncRequest{Path: jute.Str("/")}, nil)
		admin.must(jute.OpGetData, get("/state", false), &st)
		if string(st.Data) != "two" {
			t.Errorf("the state is of %q", st.Data)
		}
		two.must(jute.OpCloseSession, nil, nil)
	}
}

// controllersExpire (H3): controllers expire one after the other. Each time one of the others wins, the epoch goes
// up by one, and every watcher hears of it.
func controllersExpire(t *testing.T, ps []*proc) {
	brokers := rounds(3, 6)
	admin := mustDial(t, ps[0].addr, 60*time.Second)
	admin.must(jute.OpCreate, create("/controllers", "0"), nil)
	var all []*rawConn
	for i := range brokers {
		all = append(all, mustDial(t, ps[i%3].addr, 1500*time.Millisecond))
	}
	leader := all[0]
	leader.must(jute.OpCreate, createEphemeral("/boss"), nil)
	for n := int32(0); int(n) < brokers-1; n++ {
		var others []*rawConn
		for _, c := range all {
			if c == leader {
				continue
			}
			c.must(jute.OpSync, &jute.SyncRequest{Path: jute.Str("/")}, nil)
			c.must(jute.OpExists, get("/boss", true), nil)
			others = append(others, c)
		}
		leader.c.Close() // and its session expires, while the others are heard of
		heard := map[*rawConn]bool{}
		until(t, "every watcher hears that the controller is gone", func() bool {
			for _, c := range others {
				if got := c.events(); got["2 /boss"] == 1 {
					heard[c] = true
				} else if len(got) != 0 {
					t.Fatalf("events %v", got)
				}
			}
			return len(heard) == len(others)
		})
		var won *rawConn
		for _, c := range others {
			h, err := c.call(jute.OpCreate, createEphemeral("/boss"), nil)
			switch {
			case err != nil || h.Err != 0 && h.Err != jute.NodeExists:
				t.Fatal(h.Err, err)
			case h.Err == 0 && won != nil:
				t.Fatal("two controllers")
			case h.Err == 0:
				won = c
				c.must(jute.OpSetData, &jute.SetDataRequest{Path: jute.Str("/controllers"), Version: n}, nil)
			}
		}
		if won == nil {
			t.Fatal("no controller")
		}
		all, leader = others, won
	}
	var st jute.GetDataResponse
	admin.must(jute.OpSync, &jute.SyncRequest{Path: jute.Str("/")}, nil)
	admin.must(jute.OpGetData, get("/controllers", false), &st)
	if int(st.Stat.Version) != brokers-1 {
		t.Errorf("the epoch went up %d times", st.Stat.Version)
	}
}
