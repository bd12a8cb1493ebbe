package store

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/zkserver/zkserver/zab"
	"github.com/zkserver/zkserver/znode"
)

// listsOnDisk counts what lies under keyACL.
func listsOnDisk(t *testing.T, s *Store) int {
	t.Helper()
	n := 0
	if err := eachACL(s.state.db, func(uint32, []byte) error { n++; return nil }); err != nil {
		t.Fatal(err)
	}
	return n
}

func listOf(id string) []znode.ACL { return []znode.ACL{{Perms: 31, Scheme: "digest", ID: id}} }

// TestListsOfNobodyGo: a node whose ACL changes again and again keeps one list, not all of them.
func TestListsOfNobodyGo(t *testing.T) {
	noLeaks(t)
	o := testOptions(vfs.NewMem())
	s, _, m := mustOpen(t, o)
	long := strings.Repeat("u", 100_000)
	mustPersist(t, s, zab.PersistOp{Append: entries(z(1, 1), 50, 1), Hard: hard(1, 1), Commit: z(1, 50)})
	for i := range 50 {
		m.applied = z(1, uint32(i+1))
		m.nodes["/x"] = znode.NodeRecord{Path: "/x", Data: []byte{}, ACL: listOf(fmt.Sprint(i) + long)}
		b := &StateBatch{Applied: m.applied, Nodes: []StateNode{{Path: "/x", Record: m.nodes["/x"], DataToo: true}}, Digests: m.Digests()}
		if err := s.WriteState(b); err != nil {
			t.Fatal(err)
		}
		if n := len(s.state.acls.ids); n > 20 || n != listsOnDisk(t, s) {
			t.Fatalf("%d lists after %d changes, %d on the disk", n, i, listsOnDisk(t, s))
		}
	}
	mustClose(t, s)
	s, _, got := mustOpen(t, o)
	if err := m.equal(got); err != nil {
		t.Error(err)
	}
	if n := len(s.state.acls.ids); n != 2 {
		t.Errorf("%d lists after the start", n)
	}
	mustClose(t, s)
}

// TestSweepInParts: nodes and lists change while a sweep goes through them, a few nodes with each batch.
func TestSweepInParts(t *testing.T) {
	noLeaks(t)
	const last = 600
	o := testOptions(vfs.NewMem())
	s, _, m := mustOpen(t, o)
	mustPersist(t, s, zab.PersistOp{Append: entries(z(1, 1), last, 1), Hard: hard(1, 1), Commit: z(1, last)})
	rng := rand.New(rand.NewPCG(5, 6))
	most, parts := 0, 0
	for i := range last {
		m.applied = z(1, uint32(i+1))
		c := newChanges()
		for range 1 + rng.IntN(3) {
			p := fmt.Sprintf("/%02d", rng.IntN(60))
			if rng.IntN(4) == 0 {
				delete(m.nodes, p)
			} else {
				m.nodes[p] = znode.NodeRecord{Path: p, Data: []byte{}, ACL: listOf(fmt.Sprint(rng.IntN(400)))}
			}
			c.paths[p] = true
		}
		t0 := &s.state.acls
		t0.limit, t0.part = min(t0.limit, 500), 7
		if err := s.WriteState(m.batchOf(c)); err != nil {
			t.Fatal(err)
		}
		if t0.used != nil {
			parts++
		}
		most = max(most, len(t0.ids))
		if i%31 == 0 {
			if n := listsOnDisk(t, s); n != len(t0.ids) {
				t.Fatalf("%d lists, %d on the disk", len(t0.ids), n)
			}
			got := newModel()
			got.nodes = map[string]znode.NodeRecord{}
			sc := s.state.db.NewSnapshot()
			if _, _, err := s.state.scan(sc, got); err != nil {
				t.Fatal(err)
			}
			if err := sc.Close(); err != nil {
				t.Fatal(err)
			}
			if err := m.equal(got); err != nil {
				t.Fatal(err)
			}
		}
	}
	if most > 150 || parts < last/4 {
		t.Errorf("up to %d lists, %d batches within a sweep", most, parts)
	}
	mustClose(t, s)
	s, _, got := mustOpen(t, o)
	if err := m.equal(got); err != nil {
		t.Error(err)
	}
	mustClose(t, s)
}

// The first list of all (world:anyone, as a rule) is noted like any other, also by a part of a sweep that sees it alone.
func TestSweepNotesTheFirstList(t *testing.T) {
	noLeaks(t)
	o := testOptions(vfs.NewMem())
	s, _, m := mustOpen(t, o)
	const last = 40
	mustPersist(t, s, zab.PersistOp{Append: entries(z(1, 1), last, 1), Hard: hard(1, 1), Commit: z(1, last)})
	write := func(i int, path, list string) {
		m.applied = z(1, uint32(i))
		m.nodes[path] = znode.NodeRecord{Path: path, Data: []byte{}, ACL: listOf(list)}
		c := newChanges()
		c.paths[path] = true
		if err := s.WriteState(m.batchOf(c)); err != nil {
			t.Fatal(err)
		}
	}
	write(1, "/", "second")
	for i := 2; i <= 10; i++ {
		write(i, fmt.Sprintf("/%02d", i), "second")
	}
	t0 := &s.state.acls
	t0.limit, t0.part = 0, 5 // the third part sees /zookeeper, and what is below it
	swept := false
	for i := 11; i <= last && (t0.used != nil || !swept); i++ {
		write(i, "/00", "second")
		swept = swept || t0.used != nil
	}
	if !swept || t0.used != nil {
		t.Fatal("no sweep has come to its end")
	}
	mustClose(t, s)
	s, _, got := mustOpen(t, o)
	if err := m.equal(got); err != nil {
		t.Error(err)
	}
	mustClose(t, s)
}
