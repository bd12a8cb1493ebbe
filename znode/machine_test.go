package znode

import (
	"encoding/binary"
	"hash/crc32"
	"reflect"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// javaDigest is ZooKeeper's tree digest by its definition, from records alone.
func javaDigest(nodes []NodeRecord) (sum uint64) {
	for _, n := range nodes {
		if strings.HasPrefix(n.Path, "/zookeeper/") {
			continue
		}
		b := []byte(n.Path)
		if n.Path == "/" {
			b = nil
		}
		b = append(b, n.Data...)
		for _, v := range []int64{n.Czxid, n.Mzxid, n.Pzxid, n.Ctime, n.Mtime} {
			b = binary.BigEndian.AppendUint64(b, uint64(v))
		}
		for _, v := range []int32{n.Version, n.CreateCounter, n.Aversion} {
			b = binary.BigEndian.AppendUint32(b, uint32(v))
		}
		b = binary.BigEndian.AppendUint64(b, uint64(n.Owner))
		sum += uint64(crc32.ChecksumIEEE(b))
	}
	return sum
}

func records(t *Tree) (out []NodeRecord) {
	t.Walk(func(r NodeRecord) bool {
		out = append(out, r)
		return true
	})
	return out
}

func sessions(t *Tree) (out []Session) {
	t.Sessions(func(s Session) bool {
		out = append(out, s)
		return true
	})
	return out
}

// clone stores a tree and loads it again, which verifies both digests.
func clone(t rapidOrTest, from *Tree) *Tree {
	to := NewTree(from.opts)
	for _, r := range records(from) {
		if err := to.Load(r); err != nil {
			t.Fatal(err)
		}
	}
	for _, s := range sessions(from) {
		if err := to.LoadSession(s); err != nil {
			t.Fatal(err)
		}
	}
	if err := to.Loaded(from.Applied(), from.Digests()); err != nil {
		t.Fatal(err)
	}
	return to
}

type rapidOrTest interface {
	Helper()
	Fatal(...any)
	Fatalf(string, ...any)
}

// sameState compares two trees completely, private counters and lists included.
func sameState(t rapidOrTest, a, b *Tree) {
	t.Helper()
	if a.Applied() != b.Applied() || a.Digests() != b.Digests() {
		t.Fatalf("applied %d, %d; digests %v, %v", a.Applied(), b.Applied(), a.Digests(), b.Digests())
	}
	if !reflect.DeepEqual(records(a), records(b)) {
		t.Fatalf("nodes differ:\n%+v\n%+v", records(a), records(b))
	}
	if !reflect.DeepEqual(sessions(a), sessions(b)) {
		t.Fatalf("sessions differ:\n%+v\n%+v", sessions(a), sessions(b))
	}
	if a.dataSize != b.dataSize || a.ephemeralCount != b.ephemeralCount || !reflect.DeepEqual(a.ephemerals, b.ephemerals) ||
		!reflect.DeepEqual(a.mortals, b.mortals) {
		t.Fatalf("counters differ: %d %d, %d %d", a.dataSize, a.ephemeralCount, b.dataSize, b.ephemeralCount)
	}
	if len(a.acls) != len(b.acls) {
		t.Fatalf("%d and %d interned lists", len(a.acls), len(b.acls))
	}
	for k, l := range a.acls {
		if b.acls[k] == nil || b.acls[k].refs != l.refs {
			t.Fatalf("references of %v differ", l.entries)
		}
	}
}

var (
	genPath = rapid.SampledFrom([]string{
		"/a", "/a", "/a", "/a", "/a", "/a/x", "/a/x", "/a/x", "/a/x", "/b", "/b", "/b", // often, for them to meet
		"/a/y", "/a/x/1", "/b/x", "/a-", "/a/", "/", "/zookeeper", "/zookeeper/q", "/zookeeper/config", "/c/d",
	})
	genAuth = rapid.SampledFrom([][]AuthID{
		nil,
		{{Scheme: "ip", ID: "127.0.0.1"}},
		{{Scheme: "digest", ID: "bob:x"}, {Scheme: "ip", ID: "127.0.0.1"}},
		{{Scheme: "super"}},
	})
	genACL = rapid.SampledFrom([][]ACL{
		openACL, openACL, openACL, openACL, openACL, openACL, openACL, openACL, openACL, openACL, openACL, openACL,
		{{Perms: 31, Scheme: "world", ID: "anyone"}, {Perms: 31, Scheme: "world", ID: "anyone"}},
		{{Perms: 1, Scheme: "world", ID: "anyone"}, {Perms: 31, Scheme: "digest", ID: "bob:x"}},
		{{Perms: 31, Scheme: "auth"}},
		{{Perms: 30, Scheme: "ip", ID: "127.0.0.0/8"}},
		{{Perms: 31, Scheme: "digest", IDNull: true}},
		{},
		nil,
	})
	genData    = rapid.SampledFrom([][]byte{nil, {}, []byte("1"), []byte("four")})
	genVersion = rapid.SampledFrom([]int32{-1, -1, -1, -1, -1, 0, 0, 1})
	genNodeOp  = rapid.SampledFrom([]Op{
		OpCreate, OpCreate, OpCreate, OpCreate2, OpCreateContainer, OpCreateTTL, OpDelete, OpDelete, OpDelete, OpSetData,
		OpSetData, OpSetACL,
	})
	genMultiOp = rapid.SampledFrom([]Op{OpCreate, OpCreate, OpCreate2, OpCreateTTL, OpDelete, OpSetData, OpCheck})
)

func drawOp(t *rapid.T, op Op) Request {
	r := Request{
		Op: op, Path: genPath.Draw(t, "path"), Data: genData.Draw(t, "data"), Version: genVersion.Draw(t, "version"), TTL: -1,
	}
	if op.creates() || op == OpSetACL {
		r.ACL = genACL.Draw(t, "acl")
	}
	if op.creates() {
		r.Flags = rapid.Int32Range(0, 3).Draw(t, "flags")
	}
	if op == OpCreateTTL {
		r.Flags = rapid.Int32Range(4, 6).Draw(t, "ttl flags")
		r.TTL = rapid.SampledFrom([]int64{-1, 0, 1, MaxTTL, MaxTTL + 1}).Draw(t, "ttl")
	}
	return r
}

func drawRequest(t *rapid.T) *Request {
	var r Request
	switch rapid.IntRange(0, 12).Draw(t, "kind") {
	case 0:
		r = Request{Op: OpCreateSession, Timeout: 4000, TTL: -1}
		r.Password[3] = byte(rapid.IntRange(0, 255).Draw(t, "password"))
	case 1:
		r = Request{Op: OpCloseSession, TTL: -1}
	case 2, 3, 4, 5:
		r = Request{Op: OpMulti, TTL: -1}
		for range rapid.IntRange(0, 5).Draw(t, "n") {
			r.Multi = append(r.Multi, drawOp(t, genMultiOp.Draw(t, "sub")))
		}
	default:
		r = drawOp(t, genNodeOp.Draw(t, "op"))
	}
	r.Session = rapid.SampledFrom([]int64{1, 1, 2, 2, 3, -5 << 56}).Draw(t, "session")
	r.Auth = genAuth.Draw(t, "auth")
	r.Ticket = Ticket{Epoch: 1, Number: rapid.Uint64Range(1, 4).Draw(t, "ticket")}
	r.Origin = Origin{Server: 1, Instance: 99, Conn: 7, Seq: 8}
	return &r
}

// pipeline is a leader and a follower of the test: the leader's tree lags behind what is prepared, and the notice of
// that behind the tree.
type pipeline struct {
	opts     Options
	model    *model
	leader   *Tree
	follower *Tree
	prep     *Preparer
	zxid     int64
	waiting  []prepared
}

type prepared struct {
	txn     *Txn
	req     *Request
	results []OpResult
	whole   Code
}

func newPipeline(o Options) *pipeline {
	p := &pipeline{opts: o, model: newModel(o), leader: NewTree(o), follower: NewTree(o)}
	p.prep = NewPreparer(p.leader)
	return p
}

func (p *pipeline) prepare(t rapidOrTest, req *Request) {
	p.zxid++
	now := 1000 + p.zxid*7
	txn := p.prep.Prepare(req, p.zxid, now)
	results, whole := p.model.run(req, p.zxid, now)
	for s := int64(1); s < 4; s++ {
		if _, want := p.model.sessions[s]; p.prep.SessionExists(s) != want {
			t.Fatalf("session %d exists: want %v", s, want)
		}
	}
	p.waiting = append(p.waiting, prepared{txn: txn, req: req, results: results, whole: whole})
}

// apply applies the oldest transaction to the leader's tree and, from its encoding, to the follower's.
func (p *pipeline) apply(t rapidOrTest, out *Applied) {
	w := p.waiting[0]
	p.waiting = p.waiting[1:]
	p.leader.Apply(w.txn, out)
	decoded, err := DecodeTxn(AppendTxn(nil, w.txn))
	if err != nil {
		t.Fatal(err)
	}
	var second Applied
	p.follower.Apply(decoded, &second)
	if out.DigestMismatch || second.DigestMismatch {
		t.Fatalf("%+v: digests after %v, leader %v, follower %v", w.txn, w.txn.Digest, p.leader.sums, p.follower.sums)
	}
	if out.Origin != w.req.Origin || out.Session != w.req.Session {
		t.Fatalf("%+v does not name its request", out)
	}
	p.compare(t, &w, out)
	if !slices.EqualFunc(out.Events, second.Events, sameEvent) || !slices.Equal(out.Changes, second.Changes) ||
		!slices.Equal(out.Multi, second.Multi) || out.Result != second.Result || !slices.Equal(out.Sessions, second.Sessions) {
		t.Fatalf("leader %+v\nfollower %+v", out, &second)
	}
}

func sameEvent(a, b Event) bool {
	return a.Type == b.Type && a.Path == b.Path && slices.Equal(a.ACL, b.ACL)
}

func (p *pipeline) compare(t rapidOrTest, w *prepared, out *Applied) {
	t.Helper()
	switch {
	case w.whole != OK:
		if out.Type != OpError || out.Result.Code != w.whole || out.Result.Op != w.req.Op {
			t.Fatalf("%+v:\nwant code %d, got %+v", w.req, w.whole, out)
		}
	case w.req.Op == OpMulti:
		if out.Type != OpMulti || !slices.Equal(out.Multi, w.results) {
			t.Fatalf("%+v:\nwant %+v\ngot  %+v", w.req, w.results, out.Multi)
		}
	case len(w.results) == 1:
		if out.Result != w.results[0] {
			t.Fatalf("%+v:\nwant %+v\ngot  %+v", w.req, w.results[0], out.Result)
		}
	case out.Result.Code != OK:
		t.Fatalf("%+v:\ngot %+v", w.req, out.Result)
	}
	if (w.whole != OK || out.Result.Code != OK) && len(out.Events)+len(out.Changes)+len(out.Sessions) > 0 {
		t.Fatalf("a refused request changed something: %+v", out)
	}
}

// settle applies all, and compares everything with the model and with digests computed from scratch.
func (p *pipeline) settle(t rapidOrTest, out *Applied) {
	for len(p.waiting) > 0 {
		p.apply(t, out)
	}
	p.prep.Applied(p.zxid)
	if n := p.prep.Pending(); n != 0 || len(p.prep.nodes)+len(p.prep.overlay.sessions)+len(p.prep.ephemerals)+len(p.prep.undo) != 0 {
		t.Fatalf("%d records stay in the overlay", n)
	}
	got := records(p.leader)
	if d := javaDigest(got); d != p.leader.Digests().Tree {
		t.Fatalf("tree digest %d, from scratch %d", p.leader.Digests().Tree, d)
	}
	var want []NodeRecord
	for _, n := range p.model.nodes {
		want = append(want, n)
	}
	slices.SortFunc(want, func(a, b NodeRecord) int { return strings.Compare(a.Path, b.Path) })
	if !reflect.DeepEqual(got, want) {
		t.Fatalf("nodes differ:\ngot  %+v\nwant %+v", got, want)
	}
	for _, r := range want {
		if st, c := p.leader.Exists(r.Path, []AuthID{{Scheme: "super"}}); c != OK || st != p.model.stat(r.Path) {
			t.Fatalf("%s: %+v, want %+v", r.Path, st, p.model.stat(r.Path))
		}
		names, _, _ := p.leader.Children(r.Path, []AuthID{{Scheme: "super"}})
		if int32(names.Len()) != p.model.children(r.Path) || !equal(names, p.leader.nodes[r.Path].sortedNames()) {
			t.Fatalf("%s: children %q", r.Path, names.chunks)
		}
	}
	if len(p.model.sessions) != p.leader.SessionCount() {
		t.Fatalf("sessions %v, want %v", sessions(p.leader), p.model.sessions)
	}
	for _, s := range sessions(p.leader) {
		if p.model.sessions[s.ID] != s {
			t.Fatalf("session %+v, want %+v", s, p.model.sessions[s.ID])
		}
	}
	sameState(t, p.leader, p.follower)
	sameState(t, p.leader, clone(t, p.leader))
}

func testMachine(t *rapid.T, o Options) {
	p := newPipeline(o)
	var out Applied
	for s := int64(1); s < 3; s++ {
		p.prepare(t, &Request{Op: OpCreateSession, Session: s, Timeout: 4000})
	}
	for range rapid.IntRange(1, 60).Draw(t, "steps") {
		switch k := rapid.IntRange(0, 9).Draw(t, "step"); {
		case k < 6:
			p.prepare(t, drawRequest(t))
		case k < 8:
			for n := rapid.IntRange(0, len(p.waiting)).Draw(t, "apply"); n > 0; n-- {
				p.apply(t, &out)
			}
		case k == 8: // the notice may lag
			if done := p.leader.Applied(); done > 0 {
				p.prep.Applied(rapid.Int64Range(1, done).Draw(t, "notice"))
			}
		default:
			p.settle(t, &out)
		}
	}
	p.settle(t, &out)
}

// Pipelined preparing and applying gives what executing one by one gives, on every server, with digests that hold.
func TestMachine(t *testing.T) {
	for name, o := range map[string]Options{"plain": {}, "extended": {ExtendedTypes: true}, "skipACL": {SkipACL: true}} {
		t.Run(name, func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) { testMachine(t, o) })
		})
	}
}
