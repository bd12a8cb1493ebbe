package differential_test

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/zkserver/zkserver/server/differential"
)

// TestEndings runs DIFF_ENDINGS programs of sessions that expire and nodes that are reaped, all at once, on Apache
// ZooKeeper and on this server: what is seen of each end, its order, what is left, and that each comes in time.
func TestEndings(t *testing.T) {
	needServers(t)
	const tick, slots = 400 * time.Millisecond, 4
	p := startPairWith(t, tick, tick)
	first, n := number(t, "DIFF_FIRST", 0), number(t, "DIFF_ENDINGS", 24)
	began := time.Now()
	var wg sync.WaitGroup
	ends := make([]int, n)
	for i := range n {
		prog := differential.GenerateEnding(uint64(first+i), tick, slots)
		wg.Go(func() { // ends with the program
			var out [2]*differential.Endings
			var errs [2]error
			var both sync.WaitGroup
			for k, addr := range []string{p.apache[0], p.ours[0]} {
				both.Go(func() { out[k], errs[k] = differential.ExecuteEnding(addr, fmt.Sprintf("/e%d", i), prog) })
			}
			both.Wait()
			for k, name := range []string{"apache", "zkserver"} {
				if errs[k] == nil {
					errs[k] = prog.Check(out[k], 2*time.Second)
				}
				if errs[k] != nil {
					t.Errorf("%s on %s: %v\n%+v", prog, name, errs[k], out[k])
				}
			}
			if err := differential.CompareEndings(out[0], out[1]); err != nil {
				t.Errorf("%s: %v", prog, err)
			}
			ends[i] = len(out[0].Ends)
			if d := out[0].Lateness(); i == 0 {
				t.Logf("seed %d: late by %v (apache), %v (zkserver)", prog.Seed, d, out[1].Lateness())
			}
		})
	}
	wg.Wait()
	sum := 0
	for _, n := range ends {
		sum += n
	}
	t.Logf("%d programs, %d ends, in %s", n, sum, time.Since(began).Round(time.Second))
}

func TestEndingsDependOnTheSeedAlone(t *testing.T) {
	script := func(seed uint64) string { return differential.GenerateEnding(seed, time.Second, 6).String() }
	if a, b := script(5), script(5); a != b || a == script(6) {
		t.Error("one seed, two programs, or two seeds, one program")
	}
}
