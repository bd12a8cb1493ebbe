package testport

import (
	"slices"
	"testing"
)

func TestReserve(t *testing.T) {
	var all []int
	for range 3 {
		for _, p := range Reserve(t, 12) {
			if slices.Contains(all, p) || p >= 32768 {
				t.Errorf("port %d, others are %v", p, all)
			}
			all = append(all, p)
			l, err := listen(p)
			if err != nil {
				t.Fatal(err)
			}
			if err := l.Close(); err != nil {
				t.Fatal(err)
			}
		}
	}
	t.Run("until the test ends", func(t *testing.T) { all = Reserve(t, 1) })
	if !slices.Equal(all, Reserve(t, 1)) {
		t.Error("a block is held for longer")
	}
}
