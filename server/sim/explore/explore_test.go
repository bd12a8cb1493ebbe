package explore

import (
	"flag"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/zkserver/zkserver/zab"
)

var (
	fWorld  = flag.String("world", "", "explore this world only, fully")
	fStates = flag.Uint64("states", 0, "stop after so many states")
	fGiB    = flag.Float64("gib", 1, "size of the table of visited states")
	fWide   = flag.Bool("wide", false, "breadth first")
	fTx     = flag.Int("tx", 2, "")
	fCr     = flag.Int("cr", 0, "")
	fCut    = flag.Int("cut", 0, "")
	fEl     = flag.Int("el", 1, "")
	fAsync  = flag.Bool("async", false, "")
)

func settled() (d [servers]disk) {
	for i := range d {
		d[i] = disk{hard: zab.HardState{Accepted: 1, Current: 1}, ensemble: 7}
	}
	return d
}

func report(t *testing.T, r Result) {
	t.Helper()
	t.Logf("%d states, %d transitions, %d quiet, %d nodes, depth %d, %v, complete %v (%.0f states/s)", r.States, r.Transitions, r.Quiet, r.Nodes, r.Depth,
		r.Took.Round(time.Millisecond), r.Complete, float64(r.States)/r.Took.Seconds())
	if r.Fault != "" {
		t.Errorf("%s\n%s", r.Fault, strings.Join(r.Trace, "\n"))
	}
}

func TestTry(t *testing.T) {
	c := Config{Transactions: *fTx, Crashes: *fCr, Cuts: *fCut, Elections: *fEl, Whole: *fAsync, Flush: true, Start: settled()}
	e := New(c)
	b := Bounds{States: *fStates, Bytes: uint64(*fGiB * (1 << 30)), Progress: func(r Result) {
		fmt.Printf("%d states %d transitions %d nodes depth %d %v\n", r.States, r.Transitions, r.Nodes, r.Depth, r.Took.Round(time.Second))
	}}
	if *fWide {
		report(t, e.Wide(b))
	} else {
		report(t, e.Deep(b))
	}
}
