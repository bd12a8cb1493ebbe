package znode

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestParseTrack(t *testing.T) {
	for _, c := range []struct {
		text string
		want track
		back string // "": unreadable
	}{
		{"", track{count: -1, bytes: -1, hardCount: -1, hardBytes: -1}, "count=-1,bytes=-1"},
		{"count=5,bytes=8", track{count: 5, bytes: 8, hardCount: -1, hardBytes: -1}, "count=5,bytes=8"},
		{"bytes=8;;,count=+5,", track{count: 5, bytes: 8, hardCount: -1, hardBytes: -1}, "count=5,bytes=8"},
		{"count=-1,bytes=-1=;countHardLimit=3;byteHardLimit=10", track{count: -1, bytes: -1, hardCount: 3, hardBytes: 10, rest: "=;byteHardLimit=10;countHardLimit=3"}, "count=-1,bytes=-1=;byteHardLimit=10;countHardLimit=3"},
		{"count=1,count=2", track{count: 2, bytes: -1, hardCount: -1, hardBytes: -1}, "count=2,bytes=-1"},
		{"count==2", track{count: -1, bytes: -1, hardCount: -1, hardBytes: -1}, "count=-1,bytes=-1"},
		{",;", track{count: -1, bytes: -1, hardCount: -1, hardBytes: -1}, "count=-1,bytes=-1"},
		{",count=1", track{}, ""},
		{"count=", track{}, ""},
		{"count", track{}, ""},
		{"=", track{}, ""},
		{"count=1x", track{}, ""},
		{"count= 1", track{}, ""},
		{"count=9223372036854775808", track{}, ""},
		{"count=1," + strings.Repeat("x", maxTrackText), track{}, ""},
	} {
		got := parseTrack([]byte(c.text))
		if c.back == "" {
			if !got.bad {
				t.Errorf("%.40q is readable: %+v", c.text, got)
			}
			continue
		}
		if got != c.want || string(got.text()) != c.back {
			t.Errorf("%q: %+v, %s", c.text, got, got.text())
		}
	}
	if !parseTrack(nil).bad {
		t.Error("null is readable")
	}
}

// quotaOn makes the quota of a path, limits first, as clients do.
func (f *fixture) quotaOn(path, limits string) {
	f.t.Helper()
	at := QuotaPath
	for _, name := range strings.Split(path[1:], "/") {
		at += "/" + name
		if c := f.do(Request{Op: OpCreate, Path: at}); c != OK && c != NodeExists {
			f.t.Fatal(at, c)
		}
	}
	f.must(Request{Op: OpCreate, Path: at + "/" + limitsName, Data: []byte(limits)})
	f.must(Request{Op: OpCreate, Path: at + "/" + statsName, Data: []byte("whatever")})
}

func (f *fixture) stats(path string) string {
	data, _, _ := f.tree.GetData(QuotaPath+path+"/"+statsName, nil)
	return string(data)
}

func TestQuotaAccounting(t *testing.T) {
	f := newFixture(t, Options{})
	f.must(Request{Op: OpCreate, Path: "/a", Data: []byte("12345678")})
	f.must(Request{Op: OpCreate, Path: "/a/k"})
	f.quotaOn("/a", "count=1,bytes=1=;countHardLimit=1;byteHardLimit=1") // not enforced here
	before, _ := f.tree.Exists(QuotaPath+"/a/"+statsName, nil)
	digests := f.tree.Digests()
	step := func(want string, r Request) {
		t.Helper()
		f.must(r)
		if got := f.stats("/a"); got != want {
			t.Errorf("%+v: %s, want %s", r, got, want)
		}
	}
	step("count=3,bytes=15", Request{Op: OpCreate, Path: "/a/x", Data: []byte("7654321")})
	if n := len(f.out.Events); n != 2 {
		t.Errorf("%d events", n)
	}
	if last := f.out.Changes[len(f.out.Changes)-1]; last != (Change{Path: QuotaPath + "/a/" + statsName, Data: true}) {
		t.Errorf("the stats are not stored: %+v", f.out.Changes)
	}
	step("count=3,bytes=10", Request{Op: OpSetData, Path: "/a/x", Data: []byte("12"), Version: -1})
	step("count=2,bytes=8", Request{Op: OpDelete, Path: "/a/x", Version: -1})
	step("count=2,bytes=8", Request{Op: OpCreate, Path: "/ab"})
	step("count=2,bytes=0", Request{Op: OpSetData, Path: "/a", Version: -1})
	after, _ := f.tree.Exists(QuotaPath+"/a/"+statsName, nil)
	if before.DataLength = after.DataLength; after != before {
		t.Errorf("the stat changed: %+v, was %+v", after, before)
	}
	f.must(Request{Op: OpSetData, Path: "/a", Data: []byte("12345678"), Version: -1})
	f.must(Request{Op: OpDelete, Path: "/ab", Version: -1})
	if f.tree.Digests() == digests {
		t.Error("digests stand still")
	}

	// An inner quota takes over what lies below it; the outer one's stats do not see that any more.
	f.must(Request{Op: OpCreate, Path: "/a/in", Data: []byte("1")})
	f.quotaOn("/a/in", "count=9,bytes=9")
	step("count=3,bytes=9", Request{Op: OpCreate, Path: "/a/in/x", Data: []byte("11")})
	if got := f.stats("/a/in"); got != "count=2,bytes=3" {
		t.Error(got)
	}
	f.must(Request{Op: OpDelete, Path: QuotaPath + "/a/in/" + limitsName, Version: -1})
	step("count=4,bytes=9", Request{Op: OpCreate, Path: "/a/in/y"})

	// What a client writes counts until it cannot be read: then everything is counted anew, as of that moment.
	f.must(Request{Op: OpSetData, Path: QuotaPath + "/a/" + statsName, Data: []byte("count=100,bytes=7=;x=1"), Version: -1})
	step("count=101,bytes=7=;x=1", Request{Op: OpCreate, Path: "/a/z"})
	for _, unreadable := range [][]byte{[]byte("junk"), nil} {
		f.must(Request{Op: OpSetData, Path: QuotaPath + "/a/" + statsName, Data: unreadable, Version: -1})
		f.must(Request{Op: OpCreate, Path: "/a/zz"})
		step("count=6,bytes=11", Request{Op: OpDelete, Path: "/a/zz", Version: -1})
	}

	f.must(Request{Op: OpDelete, Path: QuotaPath + "/a/" + statsName, Version: -1})
	f.must(Request{Op: OpDelete, Path: QuotaPath + "/a/" + limitsName, Version: -1})
	f.must(Request{Op: OpDelete, Path: QuotaPath + "/a/in/" + statsName, Version: -1})
	f.must(Request{Op: OpCreate, Path: "/a/last"})
	if len(f.tree.quotas) != 0 || f.tree.quotaLen != 0 {
		t.Errorf("quotas left: %v", f.tree.quotas)
	}
}

// Names of quota nodes elsewhere, and for the root, are ordinary nodes.
func TestQuotaNodesElsewhereAreOrdinary(t *testing.T) {
	f := newFixture(t, Options{EnforceQuota: true})
	for _, dir := range []string{QuotaPath, SystemPath, "/", QuotaPath + "x"} {
		if dir == QuotaPath+"x" {
			f.must(Request{Op: OpCreate, Path: dir})
		}
		for _, name := range []string{limitsName, statsName} {
			p := strings.TrimSuffix(dir, "/") + "/" + name
			f.must(Request{Op: OpCreate, Path: p, Data: []byte("count=0,bytes=0=;countHardLimit=0")})
			f.must(Request{Op: OpCreate, Path: fmt.Sprintf("/n%d", f.zxid)})
			if data, _, _ := f.tree.GetData(p, nil); string(data) != "count=0,bytes=0=;countHardLimit=0" {
				t.Errorf("%s became %s", p, data)
			}
		}
	}
	if len(f.tree.quotas) != 0 {
		t.Errorf("%v", f.tree.quotas)
	}
	for _, p := range []string{QuotaPath + "/" + limitsName, SystemPath + "/" + limitsName} {
		f.must(Request{Op: OpDelete, Path: p, Version: -1})
	}
}

func TestQuotaEnforcement(t *testing.T) {
	f := newFixture(t, Options{EnforceQuota: true})
	f.must(Request{Op: OpCreate, Path: "/a"})
	f.quotaOn("/a", "count=-1,bytes=-1=;countHardLimit=3")
	expect := func(want Code, r Request) {
		t.Helper()
		if got := f.do(r); got != want {
			t.Errorf("%+v: %d, want %d", r, got, want)
		}
	}
	names := func(n int) (ops []Request) {
		for i := range n {
			ops = append(ops, Request{Op: OpCreate, Path: fmt.Sprintf("/a/m%d", i), ACL: openACL, TTL: -1})
		}
		return ops
	}
	// A multi is checked as of its start, and may go beyond; the next one may not.
	expect(OK, Request{Op: OpMulti, Multi: names(4)})
	if f.stats("/a") != "count=5,bytes=0" {
		t.Error(f.stats("/a"))
	}
	f.do(Request{Op: OpMulti, Multi: []Request{{Op: OpCreate, Path: "/a/n", ACL: openACL, TTL: -1}}})
	if f.out.Multi[0].Code != QuotaExceeded {
		t.Errorf("%+v", f.out.Multi)
	}
	expect(QuotaExceeded, Request{Op: OpCreate, Path: "/a/m0/x"})
	expect(NodeExists, Request{Op: OpCreate, Path: "/a/m0"})
	expect(OK, Request{Op: OpSetData, Path: "/a/m0", Data: []byte("no limit of bytes"), Version: -1})
	for i := range 4 {
		expect(OK, Request{Op: OpDelete, Path: fmt.Sprintf("/a/m%d", i), Version: -1})
	}

	// Pipelined requests are not ahead of the limit: what is pending counts.
	var codes []Code
	var txns []*Txn
	for i := range 6 {
		f.zxid++
		txn := f.prep.Prepare(&Request{Op: OpCreate, Session: 1, Path: fmt.Sprintf("/a/p%d", i), ACL: openACL, TTL: -1}, f.zxid, 1)
		codes, txns = append(codes, txn.Err), append(txns, txn)
	}
	if want := []Code{OK, OK, QuotaExceeded, QuotaExceeded, QuotaExceeded, QuotaExceeded}; !slices.Equal(codes, want) {
		t.Errorf("pipelined: %v", codes)
	}
	for _, txn := range txns {
		f.tree.Apply(txn, &f.out)
	}
	f.prep.Applied(f.zxid)
	if len(f.prep.overlay.quotas) != 0 {
		t.Errorf("pending quotas stay: %v", f.prep.overlay.quotas)
	}

	// Bytes: the version comes after the quota, a smaller value may still be too long, no difference is no check.
	limits := QuotaPath + "/a/" + limitsName
	expect(OK, Request{Op: OpSetData, Path: "/a", Data: []byte("1234567890"), Version: -1})
	expect(OK, Request{Op: OpSetData, Path: limits, Data: []byte("byteHardLimit=5"), Version: -1})
	expect(QuotaExceeded, Request{Op: OpSetData, Path: "/a", Data: []byte("123456789"), Version: 77})
	expect(OK, Request{Op: OpSetData, Path: "/a", Data: []byte("0987654321"), Version: -1})
	expect(OK, Request{Op: OpCreate, Path: "/a/empty"})
	expect(QuotaExceeded, Request{Op: OpCreate, Path: "/a/full", Data: []byte("1")})
	expect(OK, Request{Op: OpSetData, Path: "/a", Data: []byte("12345"), Version: -1})

	// Soft limits forbid nothing, a hard one of the same kind goes first.
	expect(OK, Request{Op: OpSetData, Path: limits, Data: []byte("count=1,bytes=1"), Version: -1})
	expect(OK, Request{Op: OpCreate, Path: "/a/soft", Data: []byte("1")})

	// Limits that cannot be read must not count as none.
	expect(OK, Request{Op: OpSetData, Path: limits, Data: []byte("junk"), Version: -1})
	expect(MarshallingError, Request{Op: OpCreate, Path: "/a/x"})
	f.do(Request{Op: OpMulti, Multi: []Request{{Op: OpSetData, Path: "/a", Version: -1}}})
	if f.out.Type != OpError || f.out.Result.Code != MarshallingError {
		t.Errorf("%+v", f.out)
	}
	expect(OK, Request{Op: OpDelete, Path: "/a/soft", Version: -1})

	// Without stats nothing is enforced.
	expect(OK, Request{Op: OpSetData, Path: limits, Data: []byte("countHardLimit=0"), Version: -1})
	expect(QuotaExceeded, Request{Op: OpCreate, Path: "/a/x"})
	expect(OK, Request{Op: OpDelete, Path: QuotaPath + "/a/" + statsName, Version: -1})
	expect(OK, Request{Op: OpCreate, Path: "/a/x"})
}

var (
	genQuotaPath = rapid.SampledFrom([]string{
		"/a", "/a/b", "/a/c", "/a/b/d", "/e", "/zookeeper/quota/a", "/zookeeper/quota/a/b", "/zookeeper/quota/e",
		"/zookeeper/quota/a/zookeeper_limits", "/zookeeper/quota/a/zookeeper_stats", "/zookeeper/quota/a/b/zookeeper_limits",
		"/zookeeper/quota/a/b/zookeeper_stats", "/zookeeper/quota/e/zookeeper_limits",
		"/zookeeper/quota/e/zookeeper_stats",
	})
	genQuotaData = rapid.SampledFrom([][]byte{
		nil, {}, []byte("1"), []byte("four"), []byte("countHardLimit=3"), []byte("byteHardLimit=4"), []byte("count=2,bytes=9"),
	})
)

func drawQuotaOp(t *rapid.T) Request {
	return Request{
		Op:   rapid.SampledFrom([]Op{OpCreate, OpCreate, OpCreate, OpDelete, OpSetData}).Draw(t, "op"),
		Path: genQuotaPath.Draw(t, "path"), Data: genQuotaData.Draw(t, "data"), ACL: openACL, Version: -1, TTL: -1,
		Session: 1, Flags: rapid.SampledFrom([]int32{0, 0, 0, 1}).Draw(t, "flags"),
	}
}

// The quotas that the overlay holds are those of the tree once everything is applied; every server and every reload
// has the same, the digests hold.
func TestQuotaMachine(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		o := Options{EnforceQuota: true}
		tree, ahead := NewTree(o), NewTree(o)
		prep := NewPreparer(tree)
		var waiting []*Txn
		var out Applied
		zxid := int64(0)
		prepare := func(r *Request) {
			zxid++
			txn := prep.Prepare(r, zxid, zxid)
			waiting = append(waiting, txn)
			ahead.Apply(txn, &out)
			if out.DigestMismatch {
				t.Fatalf("digests after %+v", txn)
			}
			for p, q := range ahead.quotas {
				if got := prep.quota(p); got == nil || *got != *q {
					t.Fatalf("%s: pending %+v, will be %+v", p, got, q)
				}
			}
			for p := range tree.quotas {
				if got := prep.quota(p); ahead.quotas[p] == nil && (got.limited || got.counted) {
					t.Fatalf("%s: pending %+v, will be gone", p, got)
				}
			}
		}
		prepare(&Request{Op: OpCreateSession, Session: 1, Timeout: 4000})
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			switch k := rapid.IntRange(0, 9).Draw(t, "step"); {
			case k < 6:
				r := drawQuotaOp(t)
				prepare(&r)
			case k == 6:
				r := Request{Op: OpMulti, Session: 1, TTL: -1}
				for range rapid.IntRange(0, 4).Draw(t, "n") {
					r.Multi = append(r.Multi, drawQuotaOp(t))
				}
				prepare(&r)
			case k == 7 && rapid.IntRange(0, 9).Draw(t, "close") == 0:
				prepare(&Request{Op: OpCloseSession, Session: 1})
				prepare(&Request{Op: OpCreateSession, Session: 1, Timeout: 4000})
			case k == 8 && zxid > 0:
				prep.Applied(rapid.Int64Range(0, tree.Applied()).Draw(t, "notice"))
			default:
				for n := rapid.IntRange(0, len(waiting)).Draw(t, "apply"); n > 0; n-- {
					tree.Apply(waiting[0], &out)
					waiting = waiting[1:]
				}
			}
		}
		for _, txn := range waiting {
			tree.Apply(txn, &out)
		}
		prep.Applied(zxid)
		if len(prep.overlay.quotas) != 0 || len(prep.overlay.charges) != 0 {
			t.Fatalf("pending: %v", prep.overlay.quotas)
		}
		loaded := clone(t, tree)
		for _, other := range []*Tree{ahead, loaded} {
			sameState(t, tree, other)
			same := func(a, b *quota) bool { return *a == *b }
			if !maps.EqualFunc(tree.quotas, other.quotas, same) || tree.dataSize != other.dataSize {
				t.Fatalf("%v\n%v", tree.quotas, other.quotas)
			}
		}
	})
}

// A tree without quotas pays next to nothing for them.
func TestNoQuotaNoCharges(t *testing.T) {
	f := newFixture(t, Options{EnforceQuota: true})
	f.must(Request{Op: OpCreate, Path: "/a"})
	if cap(f.tree.charges) != 0 || cap(f.prep.charges) != 0 || f.prep.overlay.quotas != nil {
		t.Error("charges were collected")
	}
}

func BenchmarkCreateDeleteUnderQuota(b *testing.B) {
	tree := NewTree(Options{EnforceQuota: true})
	prep := NewPreparer(tree)
	var out Applied
	zxid := int64(0)
	do := func(r *Request) {
		zxid++
		tree.Apply(prep.Prepare(r, zxid, 1), &out)
		prep.Applied(zxid)
		if out.Result.Code != OK {
			b.Fatal(r.Path, out.Result.Code)
		}
	}
	do(&Request{Op: OpCreateSession, Session: 1, Timeout: 1})
	for _, p := range []string{"/a", QuotaPath + "/a", QuotaPath + "/a/" + limitsName, QuotaPath + "/a/" + statsName} {
		do(&Request{Op: OpCreate, Session: 1, Path: p, Data: []byte("countHardLimit=100"), ACL: openACL, TTL: -1})
	}
	b.ReportAllocs()
	for b.Loop() {
		do(&Request{Op: OpCreate, Session: 1, Path: "/a/x", ACL: openACL, TTL: -1})
		do(&Request{Op: OpDelete, Session: 1, Path: "/a/x", Version: -1, TTL: -1})
	}
}
