package znode

import (
	"slices"
	"testing"
)

func TestReapable(t *testing.T) {
	f := newFixture(t, Options{ExtendedTypes: true}) // its clock stands at 1000
	for _, p := range []string{"/used", "/never", "/full"} {
		f.must(Request{Op: OpCreateContainer, Path: p, Flags: 4})
	}
	for _, p := range []string{"/used/x", "/full/x"} {
		f.must(Request{Op: OpCreate, Path: p})
	}
	f.must(Request{Op: OpDelete, Path: "/used/x", Version: -1})
	f.must(Request{Op: OpCreateTTL, Path: "/ttl", Flags: 5, TTL: 500})
	f.must(Request{Op: OpCreateTTL, Path: "/ttl-long", Flags: 5, TTL: 5000})
	f.must(Request{Op: OpCreateTTL, Path: "/ttl-full", Flags: 5, TTL: 500})
	f.must(Request{Op: OpCreate, Path: "/ttl-full/x"})
	f.must(Request{Op: OpCreate, Path: "/plain"})
	f.must(Request{Op: OpCreate, Path: "/ephemeral", Flags: 1})
	for _, c := range []struct {
		now, never int64
		limit      int
		want       []string
	}{
		{1000, 0, 10, []string{"/used"}},
		{1500, 0, 10, []string{"/used"}},
		{1501, 0, 10, []string{"/ttl", "/used"}},
		{1501, 0, 1, []string{"/ttl"}},
		{1501, 0, 0, []string{}},
		{1501, 500, 10, []string{"/never", "/ttl", "/used"}},
		{1501, 501, 10, []string{"/ttl", "/used"}},
		{6001, 0, 10, []string{"/ttl", "/ttl-long", "/used"}},
	} {
		if got := f.tree.Reapable(c.now, c.never, c.limit); !slices.Equal(got, c.want) {
			t.Errorf("%+v: %v", c, got)
		}
	}
	reap := func(path string, now int64) Code {
		f.zxid++
		f.tree.Apply(f.prep.Prepare(&Request{Op: OpDeleteContainer, Path: path}, f.zxid, now), &f.out)
		f.prep.Applied(f.zxid)
		return f.out.Result.Code
	}
	for _, c := range []struct {
		path string
		now  int64
		want Code
	}{
		{"/used", 1000, OK},
		{"/used", 1000, NoNode},
		{"/full", 1000, NotEmpty},
		{"/ttl", 1500, BadVersion}, // not yet, or no longer, due
		{"/ttl", 1501, OK},
		{"/ttl-full", 9999, NotEmpty},
		{"/plain", 9999, BadVersion},
		{"/ephemeral", 9999, BadVersion},
	} {
		if got := reap(c.path, c.now); got != c.want {
			t.Errorf("%+v: %d", c, got)
		}
	}
	if got := f.tree.Reapable(9999, 0, 10); !slices.Equal(got, []string{"/ttl-long"}) {
		t.Errorf("left: %v", got)
	}
}

// A setData restarts the clock of a TTL node, also one that is still pending.
func TestSetDataRestartsTTL(t *testing.T) {
	f := newFixture(t, Options{ExtendedTypes: true})
	f.must(Request{Op: OpCreateTTL, Path: "/ttl", Flags: 5, TTL: 500})
	f.prep.Prepare(&Request{Op: OpSetData, Session: 1, Path: "/ttl", Version: -1}, 3, 2000)
	if txn := f.prep.Prepare(&Request{Op: OpDeleteContainer, Path: "/ttl"}, 4, 2100); txn.Err != BadVersion {
		t.Errorf("%+v", txn)
	}
}
