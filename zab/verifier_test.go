package zab

import (
	"slices"
	"testing"
)

func has(ids ...ServerID) func(ServerID) bool {
	return func(id ServerID) bool { return slices.Contains(ids, id) }
}

func voters(n int) []Member {
	var ms []Member
	for i := 1; i <= n; i++ {
		ms = append(ms, Member{ID: ServerID(i), Weight: 1})
	}
	return ms
}

func TestMajority(t *testing.T) {
	for _, c := range []struct {
		n    int
		have []ServerID
		want bool
	}{
		{1, []ServerID{1}, true}, {1, nil, false},
		{2, []ServerID{1}, false}, {2, []ServerID{1, 2}, true},
		{3, []ServerID{2}, false}, {3, []ServerID{2, 3}, true},
		{4, []ServerID{1, 2}, false}, {4, []ServerID{1, 2, 4}, true},
		{5, []ServerID{1, 5}, false}, {5, []ServerID{1, 3, 5}, true},
		{3, []ServerID{3, 4, 5}, false}, // strangers do not count
	} {
		if got := NewMajority(voters(c.n)).Quorum(has(c.have...)); got != c.want {
			t.Errorf("%d voters, %v: %v", c.n, c.have, got)
		}
	}
}

func TestObserversNeverCount(t *testing.T) {
	ms := append(voters(3), Member{ID: 4, Observer: true}, Member{ID: 5, Observer: true, Group: 1})
	for _, v := range []Verifier{NewMajority(ms), NewVerifier(ms), NewHierarchical(ms)} {
		if v.Voter(4) || v.Weight(4) != 0 || v.Voter(9) || v.Weight(9) != 0 || len(v.Voters()) != 3 {
			t.Errorf("%T counts an observer", v)
		}
		if v.Quorum(has(1, 4, 5)) || !v.Quorum(has(1, 2)) {
			t.Errorf("%T: wrong quorum", v)
		}
	}
	if _, ok := NewVerifier(ms).(*Majority); !ok {
		t.Error("an observer's group made the quorum hierarchical")
	}
}

func TestHierarchical(t *testing.T) {
	ms := []Member{
		{ID: 1, Group: 1, Weight: 1}, {ID: 2, Group: 1, Weight: 1}, {ID: 3, Group: 1, Weight: 1},
		{ID: 4, Group: 2, Weight: 1}, {ID: 5, Group: 2, Weight: 3}, {ID: 6, Group: 2, Weight: 1},
		{ID: 7, Group: 3, Weight: 0}, {ID: 8, Group: 3, Weight: 0},
		{ID: 9, Group: 4, Weight: 2},
	}
	v := NewVerifier(ms)
	if _, ok := v.(*Hierarchical); !ok {
		t.Fatalf("got %T", v)
	}
	for _, c := range []struct {
		have []ServerID
		want bool
	}{
		{[]ServerID{1, 2, 5}, true},           // two of three groups that have weight
		{[]ServerID{1, 2, 4, 6}, false},       // 2 of 5 in group 2
		{[]ServerID{1, 2, 3, 7, 8}, false},    // a group without weight does not count
		{[]ServerID{1, 4, 6, 9}, false},       // only group 4
		{[]ServerID{5, 9}, true},              //
		{[]ServerID{1, 2, 3, 4, 6, 9}, true},  //
		{[]ServerID{1, 3, 4, 6, 7, 8}, false}, //
	} {
		if got := v.Quorum(has(c.have...)); got != c.want {
			t.Errorf("%v: %v", c.have, got)
		}
	}
	if v.Weight(5) != 3 || v.Weight(7) != 0 || !v.Voter(7) {
		t.Error("weights")
	}
}

// Any two quorums of one verifier intersect: the one property that everything in this package rests on.
func TestQuorumsIntersect(t *testing.T) {
	sets := [][]Member{voters(1), voters(2), voters(3), voters(4), voters(5), {
		{ID: 1, Group: 1, Weight: 2}, {ID: 2, Group: 1, Weight: 1}, {ID: 3, Group: 1, Weight: 1},
		{ID: 4, Group: 2, Weight: 1}, {ID: 5, Group: 2, Weight: 1}, {ID: 6, Group: 3, Weight: 5}, {ID: 7, Group: 3, Weight: 0},
	}}
	for _, ms := range sets {
		v := NewVerifier(ms)
		n := len(ms)
		for a := 0; a < 1<<n; a++ {
			in := func(id ServerID) bool { return a&(1<<(id-1)) != 0 }
			out := func(id ServerID) bool { return a&(1<<(id-1)) == 0 }
			if v.Quorum(in) && v.Quorum(out) {
				t.Errorf("%v: %b and its complement are both quorums", ms, a)
			}
		}
		if !v.Quorum(func(ServerID) bool { return true }) {
			t.Errorf("%v: all together are no quorum", ms)
		}
	}
}

func TestConfigSum(t *testing.T) {
	a := ConfigSum(voters(3))
	if a != ConfigSum([]Member{{ID: 3}, {ID: 1}, {ID: 2}, {ID: 9, Observer: true}}) {
		t.Error("order, observers or weights without groups change the sum")
	}
	if a == ConfigSum(voters(4)) || a == ConfigSum([]Member{{ID: 1, Group: 1}, {ID: 2, Group: 1}, {ID: 3, Group: 2}}) {
		t.Error("differing quorums have one sum")
	}
}
