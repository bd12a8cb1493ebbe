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
	var mu sync.Mutex
	var doubtful []*differential.Ending
	sum := 0
	var wg sync.WaitGroup
	for i := range n {
		prog := differential.GenerateEnding(uint64(first+i), tick, slots)
		wg.Go(func() { // ends with the program
			ends, err := p.runEnding(t, fmt.Sprintf("/e%d", i), prog)
			mu.Lock()
			defer mu.Unlock()
			if sum += ends; err != nil {
				t.Logf("once more, alone: %v", err)
				doubtful = append(doubtful, prog)
			}
		})
	}
	wg.Wait()
	// A machine that stands still for a second changes what comes first. It does not do so again and again.
	for i, prog := range doubtful {
		if _, err := p.runEnding(t, fmt.Sprintf("/again%d", i), prog); err != nil || i == 3 {
			t.Errorf("again, or the fourth: %v", err)
			break
		}
	}
	t.Logf("%d programs, %d ends, in %s", n, sum, time.Since(began).Round(time.Second))
}

// runEnding runs a program on both servers at once. What ends before its time fails the test.
func (p *pair) runEnding(t *testing.T, root string, prog *differential.Ending) (ends int, err error) {
	var out [2]*differential.Endings
	var errs [2]error
	var both sync.WaitGroup
	for k, addr := range []string{p.apache[0], p.ours[0]} {
		both.Go(func() { out[k], errs[k] = differential.ExecuteEnding(addr, root, prog) })
	}
	both.Wait()
	for k, name := range []string{"apache", "zkserver"} {
		if early := out[k].Early(); early != nil {
			t.Errorf("%s on %s: %v\n%+v", prog, name, early, out[k])
		}
		if errs[k] == nil {
			errs[k] = prog.Late(out[k], 2*time.Second)
		}
		if errs[k] != nil {
			return 0, fmt.Errorf("%s on %s: %w\n%+v", prog, name, errs[k], out[k])
		}
	}
	if err := differential.CompareEndings(out[0], out[1]); err != nil {
		return 0, fmt.Errorf("%s: %w", prog, err)
	}
	return len(out[0].Ends), nil
}

func TestEndingsDependOnTheSeedAlone(t *testing.T) {
	script := func(seed uint64) string { return differential.GenerateEnding(seed, time.Second, 6).String() }
	if a, b := script(5), script(5); a != b || a == script(6) {
		t.Error("one seed, two programs, or two seeds, one program")
	}
}
