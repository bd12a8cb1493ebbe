package znode

import (
	"errors"
	"math"
	"slices"
	"testing"
)

// fixture is a tree with one session and direct access.
type fixture struct {
	t    *testing.T
	tree *Tree
	prep *Preparer
	zxid int64
	out  Applied
}

func newFixture(t *testing.T, o Options) *fixture {
	f := &fixture{t: t, tree: NewTree(o)}
	f.prep = NewPreparer(f.tree)
	f.must(Request{Op: OpCreateSession, Session: 1, Timeout: 4000, Ticket: Ticket{1, 1}})
	return f
}

// do prepares and applies; it gives the code and leaves the rest in out.
func (f *fixture) do(r Request) Code {
	f.t.Helper()
	if r.Session == 0 {
		r.Session = 1
	}
	if r.ACL == nil {
		r.ACL = openACL
	}
	if r.Op != OpCreateTTL {
		r.TTL = -1
	}
	f.zxid++
	f.tree.Apply(f.prep.Prepare(&r, f.zxid, 1000), &f.out)
	f.prep.Applied(f.zxid)
	if f.out.DigestMismatch {
		f.t.Errorf("%+v: digests differ", r)
	}
	return f.out.Result.Code
}

func (f *fixture) must(r Request) {
	f.t.Helper()
	if c := f.do(r); c != OK {
		f.t.Fatalf("%+v: %d", r, c)
	}
}

// Versions wrap, and pass through -1, which then matches as any.
func TestVersionsWrap(t *testing.T) {
	f := newFixture(t, Options{})
	f.must(Request{Op: OpCreate, Path: "/a"})
	n := f.tree.nodes["/a"]
	n.version, n.aversion = math.MaxInt32, math.MaxInt32
	f.must(Request{Op: OpSetData, Path: "/a", Version: math.MaxInt32})
	f.must(Request{Op: OpSetACL, Path: "/a", Version: math.MaxInt32})
	if n.version != math.MinInt32 || n.aversion != math.MinInt32 {
		t.Errorf("versions %d, %d", n.version, n.aversion)
	}
	n.version = -2
	f.must(Request{Op: OpSetData, Path: "/a", Version: -2})
	if n.version != -1 {
		t.Errorf("version %d after -2", n.version)
	}
	if c := f.do(Request{Op: OpSetData, Path: "/a", Version: 5}); c != BadVersion {
		t.Errorf("code %d", c)
	}
	f.must(Request{Op: OpSetData, Path: "/a", Version: -1})
	if n.version != 0 {
		t.Errorf("version %d after -1", n.version)
	}
	if c := f.do(Request{Op: OpDelete, Path: "/a", Version: -7}); c != BadVersion {
		t.Errorf("code %d", c)
	}
}

// At the end of the counter it stands still, and with it pzxid; other creates go on.
func TestCounterEnds(t *testing.T) {
	f := newFixture(t, Options{})
	f.must(Request{Op: OpCreate, Path: "/a"})
	f.tree.nodes["/a"].counter = math.MaxInt32 - 1
	for _, want := range []string{"/a/q2147483646", "/a/q2147483647"} {
		f.must(Request{Op: OpCreate, Path: "/a/q", Flags: 2})
		if f.out.Result.Path != want {
			t.Errorf("%s, want %s", f.out.Result.Path, want)
		}
	}
	st, _ := f.tree.Exists("/a", nil)
	if c := f.do(Request{Op: OpCreate, Path: "/a/q", Flags: 2}); c != NodeExists {
		t.Errorf("code %d", c)
	}
	f.must(Request{Op: OpCreate, Path: "/a/x"})
	after, _ := f.tree.Exists("/a", nil)
	if after.Pzxid != st.Pzxid || f.tree.nodes["/a"].counter != math.MaxInt32 || after.Cversion != st.Cversion-1 {
		t.Errorf("%+v, was %+v", after, st)
	}
	f.must(Request{Op: OpCreate, Path: "/b"})
	f.tree.nodes["/b"].counter = -3
	f.must(Request{Op: OpCreate, Path: "/b/q-", Flags: 2})
	if f.out.Result.Path != "/b/q--000000003" {
		t.Errorf("%s", f.out.Result.Path)
	}
}

func TestSessions(t *testing.T) {
	f := newFixture(t, Options{})
	if c := f.do(Request{Op: OpCreateSession, Session: 1}); c != NodeExists {
		t.Errorf("a session twice: %d", c)
	}
	if c := f.do(Request{Op: OpCreate, Session: 9, Path: "/a"}); c != SessionExpired {
		t.Errorf("unknown session: %d", c)
	}
	// The checks before the session's.
	if c := f.do(Request{Op: OpCreate, Session: 9, Path: "/a", Flags: 7}); c != BadArguments {
		t.Errorf("flags of an unknown session: %d", c)
	}
	if c := f.do(Request{Op: OpCreateTTL, Session: 9, Path: "/a", Flags: 5, TTL: 1}); c != Unimplemented {
		t.Errorf("TTL of an unknown session: %d", c)
	}
	if c := f.do(Request{Op: OpMulti, Session: 9}); c != SessionExpired {
		t.Errorf("empty multi of an unknown session: %d", c)
	}
	f.do(Request{Op: OpMulti, Session: 9, Multi: []Request{{Op: OpDelete, Path: "/a"}, {Op: OpDelete, Path: "/a"}}})
	if got := []Code{f.out.Multi[0].Code, f.out.Multi[1].Code}; !slices.Equal(got, []Code{SessionExpired, RuntimeInconsistency}) {
		t.Errorf("multi of an unknown session: %v", got)
	}
	if c := f.do(Request{Op: OpCloseSession, Session: 9}); c != SessionExpired {
		t.Errorf("close of an unknown session: %d", c)
	}
	f.must(Request{Op: OpCreate, Path: "/p"})
	for _, p := range []string{"/z", "/p/e", "/a", "/p-e"} {
		f.must(Request{Op: OpCreate, Path: p, Flags: 1})
	}
	if f.tree.EphemeralCount() != 4 || !equal(f.tree.Ephemerals(1, "/p", false), NamesOf([]string{"/p-e", "/p/e"})) {
		t.Errorf("%d ephemerals, %q", f.tree.EphemeralCount(), f.tree.Ephemerals(1, "/p", false).chunks)
	}
	f.must(Request{Op: OpCloseSession})
	var deleted []string
	for _, ev := range f.out.Events {
		if ev.Type == EventDeleted {
			deleted = append(deleted, ev.Path)
		}
	}
	if want := []string{"/a", "/p-e", "/p/e", "/z"}; !slices.Equal(deleted, want) {
		t.Errorf("deleted %v, want %v", deleted, want)
	}
	if f.out.Ended != 1 || f.tree.SessionCount() != 0 || f.tree.EphemeralCount() != 0 {
		t.Errorf("%+v, %d sessions", f.out, f.tree.SessionCount())
	}
}

// Prepared behind a pending closeSession: refused, whatever has been applied.
func TestWriteBehindClose(t *testing.T) {
	f := newFixture(t, Options{})
	closing := f.prep.Prepare(&Request{Op: OpCloseSession, Session: 1}, 2, 0)
	late := f.prep.Prepare(&Request{Op: OpCreate, Session: 1, Path: "/a", ACL: openACL, TTL: -1}, 3, 0)
	again := f.prep.Prepare(&Request{Op: OpCloseSession, Session: 1}, 4, 0)
	if f.prep.SessionExists(1) || closing.Failed() || late.Err != SessionExpired || again.Err != SessionExpired {
		t.Errorf("%+v\n%+v\n%+v", closing, late, again)
	}
}

func TestTickets(t *testing.T) {
	f := newFixture(t, Options{})
	check := func(r Request, want Ticket, stored bool) {
		t.Helper()
		f.do(r)
		s, _ := f.tree.Session(1)
		if s.Ticket != want || slices.Contains(f.out.Sessions, 1) != stored {
			t.Errorf("%+v: ticket %v, sessions %v", r, s.Ticket, f.out.Sessions)
		}
	}
	before := f.tree.Digests()
	check(Request{Op: OpSetData, Path: "/", Ticket: Ticket{1, 5}}, Ticket{1, 5}, true)
	check(Request{Op: OpSetData, Path: "/", Version: -1, Ticket: Ticket{1, 4}}, Ticket{1, 5}, false)
	check(Request{Op: OpSetData, Path: "/none", Ticket: Ticket{2, 1}}, Ticket{1, 5}, false)
	check(Request{Op: OpMulti, Multi: []Request{{Op: OpDelete, Path: "/none"}}, Ticket: Ticket{2, 1}}, Ticket{1, 5}, false)
	check(Request{Op: OpMulti, Ticket: Ticket{2, 0}}, Ticket{2, 0}, true)
	if s, _ := f.tree.Session(1); before.State == f.tree.Digests().State || s.Timeout != 4000 {
		t.Errorf("%+v", s)
	}
}

func TestRefusedOutright(t *testing.T) {
	f := newFixture(t, Options{})
	for _, c := range []struct {
		r    Request
		want Code
	}{
		{Request{Op: OpMulti, Undecodable: true}, MarshallingError},
		{Request{Op: OpMulti, Multi: []Request{{Op: OpGetData, Path: "/"}}}, MarshallingError},
		{Request{Op: OpMulti, Multi: []Request{{Op: OpSetACL, Path: "/", ACL: openACL}}}, MarshallingError},
		{Request{Op: OpMulti, Multi: []Request{{Op: OpDeleteContainer, Path: "/a"}}}, MarshallingError},
		{Request{Op: OpMulti, Multi: []Request{{Op: OpCreate, Path: "/a", ACL: openACL, Flags: 7}}}, MarshallingError},
		{Request{Op: OpMulti, Multi: []Request{{Op: OpSetData, PathNull: true}}}, MarshallingError},
		{Request{Op: OpMulti, Multi: []Request{
			{Op: OpCreate, Path: "/a", ACL: openACL, TTL: -1},
			{Op: OpCreate, Path: "/b", ACL: []ACL{{Scheme: "world", IDNull: true}}, TTL: -1},
		}}, MarshallingError},
		{Request{Op: OpCreate, PathNull: true}, MarshallingError},
		{Request{Op: OpDelete, PathNull: true}, MarshallingError},
		{Request{Op: OpSetData, PathNull: true}, BadArguments},
		{Request{Op: OpSetACL, PathNull: true}, BadArguments},
		{Request{Op: OpCheck, Path: "/"}, Unimplemented},
		{Request{Op: OpReconfig}, ReconfigDisabled},
		{Request{Op: 999}, Unimplemented},
		{Request{Op: OpGetData, Path: "/"}, Unimplemented},
		{Request{Op: OpCreateTTL, Path: "/t", Flags: 5, TTL: 1000}, Unimplemented},
		{Request{Op: OpCreate, Path: "/t", Flags: 5}, Unimplemented},
		{Request{Op: OpCreateTTL, Path: "/t", Flags: 0, TTL: 1000}, BadArguments},
		{Request{Op: OpCreateTTL, Path: "/t", Flags: 0, TTL: -1}, BadArguments}, // ends a Java server
		{Request{Op: OpCreateTTL, Path: "/t", Flags: 4, TTL: -1}, BadArguments},
		{Request{Op: OpDeleteContainer, Path: "/zookeeper/quota"}, BadArguments},
		{Request{Op: OpDeleteContainer, Path: "/none"}, NoNode},
	} {
		before := f.tree.Digests()
		if got := f.do(c.r); got != c.want || f.out.Type != OpError || f.out.Result.Op != c.r.Op {
			t.Errorf("%+v: %d, want %d; %+v", c.r, got, c.want, f.out)
		}
		if f.tree.Digests() != before || f.tree.Applied() != f.zxid {
			t.Errorf("%+v: changed the state", c.r)
		}
	}
}

// A pending setACL counts at once: stricter than ZooKeeper, where it is a race.
func TestPendingACL(t *testing.T) {
	f := newFixture(t, Options{})
	f.must(Request{Op: OpCreate, Path: "/a"})
	f.prep.Prepare(&Request{Op: OpSetACL, Session: 1, Path: "/a", ACL: []ACL{{Perms: 17, Scheme: "world", ID: "anyone"}}, Version: -1}, 3, 0)
	if txn := f.prep.Prepare(&Request{Op: OpSetData, Session: 1, Path: "/a", Version: -1}, 4, 0); txn.Err != NoAuth {
		t.Errorf("setData: %d", txn.Err)
	}
	multi := f.prep.Prepare(&Request{Op: OpMulti, Session: 1, Multi: []Request{{Op: OpSetData, Path: "/a", Version: -1}}}, 5, 0)
	if multi.Type != OpMulti || multi.Err != NoAuth {
		t.Errorf("multi: %+v", multi)
	}
}

func TestApplyPanicsOnBrokenInvariant(t *testing.T) {
	for name, txn := range map[string]*Txn{
		"zxid":          {Zxid: 1, Type: OpError, Err: NoNode},
		"no parent":     {Zxid: 2, Type: OpCreate, Op: TxnOp{Op: OpCreate, Path: "/a/b", ACL: openACL}},
		"exists":        {Zxid: 2, Type: OpCreate, Op: TxnOp{Op: OpCreate, Path: "/zookeeper", ACL: openACL}},
		"malformed":     {Zxid: 2, Type: OpCreate, Op: TxnOp{Op: OpCreate, Path: "a", ACL: openACL}},
		"missing":       {Zxid: 2, Type: OpDelete, Op: TxnOp{Op: OpDelete, Path: "/a"}},
		"children":      {Zxid: 2, Type: OpDelete, Op: TxnOp{Op: OpDelete, Path: "/zookeeper"}},
		"set missing":   {Zxid: 2, Type: OpSetData, Op: TxnOp{Op: OpSetData, Path: "/a"}},
		"ACL missing":   {Zxid: 2, Type: OpSetACL, Op: TxnOp{Op: OpSetACL, Path: "/a", ACL: openACL}},
		"no operation":  {Zxid: 2, Type: OpGetData, Op: TxnOp{Op: OpGetData, Path: "/"}},
		"session twice": {Zxid: 2, Type: OpCreateSession, Session: 1},
		"no session":    {Zxid: 2, Type: OpCloseSession, Session: 2},
	} {
		f := newFixture(t, Options{})
		func() {
			defer func() {
				err, _ := recover().(error)
				var broken *InvariantError
				if !errors.As(err, &broken) || broken.Zxid != txn.Zxid {
					t.Errorf("%s: %v", name, err)
				}
			}()
			f.tree.Apply(txn, &f.out)
		}()
	}
}

func TestDigestMismatchIsReported(t *testing.T) {
	f := newFixture(t, Options{})
	txn := f.prep.Prepare(&Request{Op: OpCreate, Session: 1, Path: "/a", ACL: openACL, TTL: -1}, 2, 0)
	txn.Digest.State++
	f.tree.Apply(txn, &f.out)
	if !f.out.DigestMismatch {
		t.Error("not reported")
	}
}

// Apply must be cheap under a parent of a megabyte, and must allocate little.
func TestApplyAllocations(t *testing.T) {
	f := newFixture(t, Options{})
	f.must(Request{Op: OpCreate, Path: "/a", Data: []byte("x")})
	set := &Txn{Type: OpSetData, Op: TxnOp{Op: OpSetData, Path: "/a", Data: []byte("y")}}
	if n := testing.AllocsPerRun(100, func() {
		set.Zxid = f.tree.Applied() + 1
		f.tree.Apply(set, &f.out)
	}); n != 0 {
		t.Errorf("setData: %v allocations", n)
	}
	create := &Txn{Type: OpCreate, Op: TxnOp{Op: OpCreate, Path: "/a/x", ACL: openACL}}
	del := &Txn{Type: OpDelete, Op: TxnOp{Op: OpDelete, Path: "/a/x"}}
	if n := testing.AllocsPerRun(100, func() {
		create.Zxid = f.tree.Applied() + 1
		f.tree.Apply(create, &f.out)
		del.Zxid = f.tree.Applied() + 1
		f.tree.Apply(del, &f.out)
	}); n > 1 {
		t.Errorf("create and delete: %v allocations", n)
	}
}

// Preparing a write and encoding it for the log allocate the transaction, and little besides.
func TestPrepareAllocations(t *testing.T) {
	f := newFixture(t, Options{})
	f.must(Request{Op: OpCreate, Path: "/a", Data: []byte("x")})
	buf := make([]byte, 0, 1024)
	for _, x := range []struct {
		name   string
		r      Request
		allocs float64
	}{
		{"setData", Request{Op: OpSetData, Session: 1, Path: "/a", Data: []byte("y"), Version: -1}, 1},
		{"create", Request{Op: OpCreate, Session: 1, Path: "/a/x-", ACL: openACL, Flags: 2, TTL: -1}, 3},
	} {
		if n := testing.AllocsPerRun(100, func() {
			f.zxid++
			AppendTxn(buf, f.prep.Prepare(&x.r, f.zxid, 1000))
			f.prep.Applied(f.zxid)
		}); n > x.allocs {
			t.Errorf("%s: %v allocations, more than %v", x.name, n, x.allocs)
		}
	}
}

// A session ends, is made again and ends again while its first end is not applied: its node goes once, and is not charged
// or summed up a second time.
func TestSessionEndsTwiceBeforeItIsApplied(t *testing.T) {
	f := newFixture(t, Options{EnforceQuota: true})
	f.must(Request{Op: OpCreate, Path: "/a"})
	for _, path := range []string{"/zookeeper/quota/a", "/zookeeper/quota/a/" + limitsName, "/zookeeper/quota/a/" + statsName} {
		f.must(Request{Op: OpCreate, Path: path, Data: []byte("count=9")})
	}
	for _, path := range []string{"/a/x", "/a/y"} {
		f.must(Request{Op: OpCreate, Path: path, Data: []byte("1"), Flags: 1})
	}
	end, again := Request{Op: OpCloseSession, Session: 1}, Request{Op: OpCreateSession, Session: 1, Timeout: 4000}
	var txns []*Txn
	for _, r := range []Request{end, again, end, again, {Op: OpCreate, Session: 1, Path: "/a/y", ACL: openACL, Flags: 1, TTL: -1}, end} {
		f.zxid++
		txns = append(txns, f.prep.Prepare(&r, f.zxid, 1000))
	}
	pending := *f.prep.quota("/a")
	for _, txn := range txns {
		f.tree.Apply(txn, &f.out)
		if f.out.DigestMismatch || f.out.Result.Code != OK {
			t.Errorf("%#x: code %d, digests differ: %t", txn.Zxid, f.out.Result.Code, f.out.DigestMismatch)
		}
		f.prep.Applied(txn.Zxid)
		if f.prep.find("/a/x") != nil || f.prep.find("/a/y") != nil {
			t.Errorf("%#x applied: what the last one takes away is still to be seen", txn.Zxid)
		}
	}
	if q := *f.tree.quotas["/a"]; q != pending {
		t.Errorf("quota %+v, was pending as %+v", q, pending)
	}
	if f.tree.EphemeralCount() != 0 || f.prep.Pending()+len(f.prep.ended) != 0 {
		t.Errorf("%d ephemerals, %d records, ends %v", f.tree.EphemeralCount(), f.prep.Pending(), f.prep.ended)
	}
}
