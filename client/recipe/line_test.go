package recipe

import (
	"slices"
	"testing"
)

func TestSequence(t *testing.T) {
	for _, tt := range []struct {
		name string
		seq  int32
		ok   bool
	}{
		{"_c_0f-lock-0000000007", 7, true},
		{"0f__lock__0000000007", 7, true},
		{"_c_0f-__READ__2147483647", 2147483647, true},
		{"0000000007", 7, true},
		{"_c_0f-lock-1999999999", 1999999999, true},
		{"_c_0f-lock--2147483648", -2147483648, true},
		{"_c_0f-lock--1999999999", -1999999999, true},
		{"0f__lock__-1999999999", -1999999999, true},
		{"_c_0f-lock--000000005", -5, true},
		{"0f__lock__-000000005", -5, true},
		{"_c_0f-lock-000000007", -7, true}, // nine digits: no server makes such a name but behind the wrap
		{"lock", 0, false},
		{"lock-00000x0007", 0, false},
		{"lock-9999999999", 0, false},
		{"", 0, false},
	} {
		if seq, ok := sequence(tt.name); seq != tt.seq || ok != tt.ok {
			t.Errorf("%s: %d, %v", tt.name, seq, ok)
		}
	}
}

// By the number alone, whoever made the node, and over the wrap of the counter.
func TestLine(t *testing.T) {
	want := []string{"z-lock-2147483646", "b__lock__2147483647", "y-lock--2147483648", "a__lock__-2147483647"}
	got := line([]string{want[3], "config", want[1], want[0], want[2]})
	var names []string
	for _, p := range got {
		names = append(names, p.name)
	}
	if !slices.Equal(names, want) {
		t.Errorf("%q", names)
	}
}

func FuzzSequence(f *testing.F) {
	f.Add("_c_0f-lock--2147483648")
	f.Fuzz(func(t *testing.T, name string) { sequence(name) })
}
