package sim

import (
	"bufio"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"
)

// TestSameSeedSameRun: one seed decides everything.
func TestSameSeedSameRun(t *testing.T) {
	for range 2 {
		seed := rand.Uint64()
		a, b := Run(seed, Limits{}, nil), Run(seed, Limits{}, nil)
		if a.Hash != b.Hash || a.Stats != b.Stats {
			t.Fatalf("seed %d: %x %+v, then %x %+v", seed, a.Hash, a.Stats, b.Hash, b.Stats)
		}
	}
}

// TestFreshSeeds runs seeds that nobody has run before: a few, for `make sim` runs as many as there is time for.
func TestFreshSeeds(t *testing.T) {
	const seeds, enough = 200, 4 * time.Second
	first := rand.Uint64()
	began := time.Now()
	n := uint64(0)
	for ; n < seeds && (n < 2 || time.Since(began) < enough); n++ {
		held(t, first+n)
	}
	t.Logf("seeds %d and the %d that follow", first, n-1)
}

// TestFailedSeeds runs every seed that has ever failed.
func TestFailedSeeds(t *testing.T) {
	f, err := os.Open("testdata/failed.txt")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for in := bufio.NewScanner(f); in.Scan(); {
		line, _, _ := strings.Cut(strings.TrimSpace(in.Text()), " ")
		if line == "" || line[0] == '#' {
			continue
		}
		seed, err := strconv.ParseUint(line, 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		held(t, seed)
	}
}

func held(t *testing.T, seed uint64) {
	t.Helper()
	r := Run(seed, Limits{}, nil)
	switch {
	case r.Fault != nil:
		t.Fatalf("%v\nreplay: go run ./server/sim/storm -seed %d -trace", r.Fault, seed)
	case r.Stats.Ops < minOps || r.Stats.Faults < 10 || r.Stats.Simulated < time.Minute:
		t.Fatalf("seed %d is too small: %+v", seed, r.Stats)
	}
}
