package replica

import (
	"path/filepath"
	"slices"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/zkserver/zkserver/server/session"
	"github.com/zkserver/zkserver/zab"
	"github.com/zkserver/zkserver/znode"
)

// TestSnapshotNobodyInstalls: a snapshot that is complete when the role is over that asked for it, whichever of the two
// comes first, or when another one is complete, is dropped: it takes as much of the disk as the tree.
func TestSnapshotNobodyInstalls(t *testing.T) {
	s := newSimulation(t, 3, 0)
	s.run(50)
	x := s.nodes[0]
	link := zab.Link{Peer: 3, Incarnation: s.links[key(1, 3)].inc}
	arrive := func(dir string) { x.m.Step(Core{zab.SnapshotReceived{Link: link, Zxid: 1, Dir: dir}}) }
	arrive("one")
	if e, _ := x.m.Ready(); len(e.Drop) > 0 {
		t.Fatalf("dropped at once: %v", e.Drop)
	}
	arrive("two")
	if e, _ := x.m.Ready(); !slices.Equal(e.Drop, []string{"one"}) {
		t.Fatalf("dropped: %v", e.Drop)
	}
	x.m.Step(LinkDown{Link: link})
	if e, _ := x.m.Ready(); !slices.Equal(e.Drop, []string{"two"}) {
		t.Fatalf("dropped: %v", e.Drop)
	}
	arrive("three") // its disk was slow
	if e, _ := x.m.Ready(); !slices.Equal(e.Drop, []string{"three"}) {
		t.Fatalf("dropped: %v", e.Drop)
	}
}

// TestDroppedSnapshotLeavesNothing: neither files nor an open database.
func TestDroppedSnapshotLeavesNothing(t *testing.T) {
	src := start(t, 1, 1, vfs.NewMem(), nil)
	src.serving()
	k := src.connect(session.Attach{})
	if l := k.must(createReq("/a", "x", 0)); l.Err != znode.OK {
		t.Fatalf("%+v", l)
	}
	z := src.r.Status().Applied
	if !src.r.state.waitWritten(z) {
		t.Fatal("the state is not written")
	}
	rd, err := src.r.store.SnapshotReader()
	if err != nil {
		t.Fatal(err)
	}
	fs := vfs.NewMem()
	to := open(t, 2, 3, fs)
	sink, err := to.r.SnapshotStart(zab.Link{Peer: 1, Incarnation: 1}, rd.Zxid())
	if err != nil {
		t.Fatal(err)
	}
	for done := false; !done; {
		var chunk []byte
		if chunk, done, err = rd.Next(1 << 10); err == nil {
			err = sink.Write(append([]byte(nil), chunk...))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := sink.Finish(); err != nil {
		t.Fatal(err)
	}
	states := func() (out []string) {
		names, err := fs.List("data")
		if err != nil {
			t.Fatal(err)
		}
		for _, n := range names {
			if ok, _ := filepath.Match("state.*", n); ok {
				out = append(out, n)
			}
		}
		return out
	}
	var dir string
	for _, in := range to.r.inbox.take() {
		if c, ok := in.(Core); ok {
			if s, ok := c.In.(zab.SnapshotReceived); ok {
				dir = s.Dir
			}
		}
	}
	if before := states(); len(before) != 2 || !slices.Contains(before, dir) {
		t.Fatalf("states %v, received %q", before, dir)
	}
	to.r.bulk.drop(dir)
	to.r.bulk.drop(dir) // again is nothing
	to.r.bulk.wg.Wait()
	if after := states(); len(after) != 1 || slices.Contains(after, dir) {
		t.Fatalf("states %v behind the drop of %q", after, dir)
	}
	if err := rd.Close(); err != nil {
		t.Fatal(err)
	}
	k.release()
	for _, end := range []func() error{src.end, to.r.Close} {
		if err := end(); err != nil {
			t.Fatal(err)
		}
	}
}
