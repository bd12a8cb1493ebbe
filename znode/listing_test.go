package znode

import (
	"encoding/binary"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

func equal(a, b Names) bool {
	return a.Len() == b.Len() && slices.Equal(slices.Collect(a.All()), slices.Collect(b.All()))
}

// A listing that is changed step by step is the listing of what is there, whatever the changes: its names, their number,
// their size and how they stand in a reply. It stays in few chunks, also where what was long has become short.
func TestListingsFollowChanges(t *testing.T) {
	rnd := rand.New(rand.NewPCG(3, 7))
	name := func(i int) string { return fmt.Sprintf("%0*d", 1+i%50, i) }
	for _, tt := range []struct {
		name         string
		first, steps int
		change       func(step int) (name string, created bool)
	}{
		{"from nothing", 0, 3000, func(step int) (string, bool) { return name(rnd.IntN(500)), step%3 != 0 }},
		{"at random", 5000, 3000, func(int) (string, bool) { return name(rnd.IntN(10_000)), rnd.IntN(2) == 0 }},
		{"a queue", 1000, 3000, func(step int) (string, bool) {
			if step%2 == 0 {
				return fmt.Sprintf("~%010d", step), true
			}
			return fmt.Sprintf("~%010d", step-500), false
		}},
		{"at one place", 1000, 2000, func(step int) (string, bool) { return fmt.Sprintf("5000-%d", step), true }},
		{"all but a few go", 5000, 5000, func(step int) (string, bool) { return name(step), step%500 == 0 }},
		{"long names", 10, 300, func(int) (string, bool) {
			return strings.Repeat(string(rune('a'+rnd.IntN(26))), 1+rnd.IntN(3*chunkSize)), rnd.IntN(3) > 0
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			n := &node{kids: map[string]*node{}}
			for i := range tt.first {
				n.kids[name(i)] = &node{}
			}
			for step := range tt.steps {
				c, created := tt.change(step)
				if _, there := n.kids[c]; there != created {
					if created {
						n.kids[c] = &node{}
					} else {
						delete(n.kids, c)
					}
					n.noteChild(c, created)
				}
				if rnd.IntN(3) == 0 && (tt.first < 5000 || rnd.IntN(10) == 0) || step == tt.steps-1 {
					check(t, step, n)
				}
			}
		})
	}
}

func check(t *testing.T, step int, n *node) {
	t.Helper()
	got := n.names()
	want := slices.Sorted(maps.Keys(n.kids))
	var packed []byte
	for _, name := range want {
		packed = append(binary.BigEndian.AppendUint32(packed, uint32(len(name))), name...)
	}
	if all := slices.Collect(got.All()); got.Len() != len(want) || !slices.Equal(all, want) {
		t.Fatalf("step %d: %d names %.200q, want %d %.200q", step, got.Len(), all, len(want), want)
	}
	if b := got.Append(nil); string(b) != string(packed) || got.Size() != len(packed) {
		t.Fatalf("step %d: %d bytes, said to be %d, want %d", step, len(b), got.Size(), len(packed))
	}
	if most := 2 + 2*len(packed)/chunkSize; len(got.chunks) > most {
		t.Fatalf("step %d: %d chunks for %d bytes, want at most %d", step, len(got.chunks), len(packed), most)
	}
}
