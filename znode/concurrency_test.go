package znode

import (
	"fmt"
	"slices"
	"sync"
	"testing"
)

// Reads, and one who prepares, may run at the same time while nobody applies. For the race detector.
func TestConcurrentReads(t *testing.T) {
	f := newFixture(t, Options{})
	f.must(Request{Op: OpCreate, Path: "/a"})
	for round := range 20 {
		for i := range 50 {
			f.must(Request{Op: OpCreate, Path: fmt.Sprintf("/a/%d-%d", round, i), Flags: 1})
		}
		f.must(Request{Op: OpDelete, Path: fmt.Sprintf("/a/%d-0", round), Version: -1})
		var wg sync.WaitGroup
		lists := make([]Names, 4)
		for i := range lists {
			wg.Go(func() { // ends by itself
				lists[i], _, _ = f.tree.Children("/a", nil)
				f.tree.AllChildrenNumber("/a", nil)
				f.tree.Ephemerals(1, "/a", false)
				f.tree.Record("/a")
				f.tree.Walk(func(NodeRecord) bool { return true })
			})
		}
		late := f.prep.Prepare(&Request{Op: OpSetACL, Session: 1, Path: "/a", ACL: openACL, Version: -1}, f.zxid+1, 0)
		wg.Wait()
		f.zxid++
		f.tree.Apply(late, &f.out)
		f.prep.Applied(f.zxid)
		for _, l := range lists {
			if l.Len() != 49*(round+1) || !slices.IsSorted(slices.Collect(l.All())) || !equal(l, lists[0]) {
				t.Fatalf("round %d: %d names", round, l.Len())
			}
		}
	}
}

// A listing once given out never changes.
func TestListingsAreImmutable(t *testing.T) {
	f := newFixture(t, Options{})
	f.must(Request{Op: OpCreate, Path: "/a"})
	var given []Names
	var copies [][]string
	for i := range 200 {
		path := fmt.Sprintf("/a/%d", i%23)
		if f.do(Request{Op: OpCreate, Path: path}) == NodeExists {
			f.must(Request{Op: OpDelete, Path: path, Version: -1})
		}
		if i%3 == 0 {
			names, _, _ := f.tree.Children("/a", nil)
			given, copies = append(given, names), append(copies, slices.Collect(names.All()))
			if !equal(names, f.tree.nodes["/a"].sortedNames()) {
				t.Fatalf("step %d: %q", i, copies[len(copies)-1])
			}
		}
	}
	for i := range given {
		if !slices.Equal(slices.Collect(given[i].All()), copies[i]) {
			t.Fatalf("listing %d has changed", i)
		}
	}
}
