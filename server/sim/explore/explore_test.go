package explore

import (
	"flag"
	"fmt"
	"os"
	"runtime/debug"
	"strconv"
	"strings"
	"testing"
	"time"
)

var (
	fTx     = flag.Int("transactions", 2, "of TestFull")
	fCr     = flag.Int("crashes", 2, "of TestFull")
	fCut    = flag.Int("cuts", 1, "of TestFull")
	fEl     = flag.Int("elections", 3, "of TestFull")
	fBest   = flag.Bool("best", false, "TestFull elects the better of two, as votes have it")
	fElect  = flag.Bool("elected", false, "TestFull begins with a leader")
	fWhole  = flag.Bool("whole", false, "TestFull lists every event in every state")
	fStates = flag.Uint64("states", 0, "TestFull stops after so many states")
	fGiB    = flag.Float64("gib", 1, "size of TestFull's table of visited states, rounded down to a power of two")
)

func report(t *testing.T, name string, r Result) {
	t.Helper()
	t.Logf("%s: %d states, %d transitions, %d quiet, %d nodes, depth %d, %v, complete: %v", name, r.States, r.Transitions, r.Quiet, r.Nodes, r.Depth,
		r.Took.Round(time.Millisecond), r.Complete)
	if r.Fault != "" {
		t.Errorf("%s: %s\n%s", name, r.Fault, strings.Join(r.Trace, "\n"))
	}
}

// TestSmall explores every small world to its end.
func TestSmall(t *testing.T) {
	b := Bounds{Bytes: 16 << 20}
	if racing {
		b.States = 2000
	}
	for _, c := range Small() {
		r := New(c).Wide(b)
		report(t, c.Name, r)
		if !r.Complete && !racing {
			t.Errorf("%s: not all was visited", c.Name)
		}
	}
}

// TestFull explores the bounds that the flags give, with ZKSERVER_FULL=1: nice go test ./server/sim/explore -run Full -timeout 0 -v
func TestFull(t *testing.T) {
	if os.Getenv("ZKSERVER_FULL") == "" {
		t.Skip("takes hours: ZKSERVER_FULL=1")
	}
	debug.SetGCPercent(10) // most of the memory is the table, in which there is nothing to collect
	c := Config{
		Transactions: *fTx, Crashes: *fCr, Cuts: *fCut, Elections: *fEl, Best: *fBest, Elected: *fElect, Whole: *fWhole, Flush: true, Start: same(at(1, 1, 0, 0)),
	}
	r := New(c).Deep(Bounds{States: *fStates, Bytes: uint64(*fGiB * (1 << 30)), Progress: func(r Result) {
		fmt.Fprintf(os.Stderr, "%d million states, %d transitions, %d nodes, depth %d, %v\n", r.States>>20, r.Transitions, r.Nodes, r.Depth, r.Took.Round(time.Second))
	}})
	report(t, "full", r)
}

// TestMutant looks for the fault that an overlay has planted; server/sim/mutation runs it.
func TestMutant(t *testing.T) {
	if os.Getenv("ZKSERVER_MUTANT") == "" {
		t.Skip("for planted faults")
	}
	limit, err := strconv.ParseUint(os.Getenv("ZKSERVER_MUTANT_STATES"), 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	var states uint64
	caught := func(world string, r Result) bool {
		states += r.States
		if r.Fault == "" {
			return false
		}
		fault, _, _ := strings.Cut(r.Fault, "\n")
		fmt.Fprintf(os.Stdout, "MUTANT caught after=%d %s (%s)\n", states, fault, world)
		t.Log(strings.Join(r.Trace, "\n"))
		return true
	}
	for _, b := range Ballots() {
		if !strings.Contains(os.Getenv("ZKSERVER_MUTANT_FILES"), "election/") {
			break
		}
		for _, newest := range []bool{true, false} {
			if caught(b.Name, NewTeller(b).Run(Bounds{States: min(limit, 40_000)}, newest)) {
				return
			}
		}
	}
	for _, c := range Small() {
		if !strings.Contains(os.Getenv("ZKSERVER_MUTANT_FILES"), "zab/") {
			break
		}
		if caught(c.Name, New(c).Wide(Bounds{States: limit, Bytes: 64 << 20})) {
			return
		}
	}
	fmt.Fprintf(os.Stdout, "MUTANT survived after=%d\n", states)
}

// TestBallots follows small elections, to their end where that is near.
func TestBallots(t *testing.T) {
	limit := uint64(20_000)
	switch {
	case os.Getenv("ZKSERVER_FULL") != "":
		limit = *fStates
	case racing:
		limit = 1000
	}
	for _, b := range Ballots() {
		e := NewTeller(b)
		report(t, b.Name, e.Run(Bounds{States: limit}, true))
		t.Logf("%d states not followed because of their round", e.Late)
	}
}
