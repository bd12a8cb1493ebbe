package client

import (
	"testing"
	"testing/synctest"
)

// TestFieldG14EvenShuffle (docs/field-reports.md): clients with one list of servers begin evenly with each of them.
func TestFieldG14EvenShuffle(t *testing.T) {
	const clients, servers = 600, 3
	first := map[string]int{}
	synctest.Test(t, func(t *testing.T) {
		for range clients {
			f := newFakes(t)
			f.setUp(false)
			o := f.options()
			o.KeepOrder = false
			c, err := Dial(t.Context(), "a:1,b:1,c:1", o)
			if err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
			first[f.dialled()[0]]++
			c.Abandon()
		}
	})
	for _, addr := range []string{"a:1", "b:1", "c:1"} {
		if n := first[addr]; n < clients/servers*7/10 || n > clients/servers*13/10 { // five times the standard deviation
			t.Errorf("%d of %d begin with %s: %v", n, clients, addr, first)
		}
	}
}
