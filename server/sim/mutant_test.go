package sim

import (
	"fmt"
	"os"
	"runtime/debug"
	"strconv"
	"testing"
)

// TestMutant runs seeds 1, 2, ... over code in which a fault has been planted (server/sim/mutation), until a check has
// noticed so many times as asked for. A line says after how many seeds each time.
func TestMutant(t *testing.T) {
	name := os.Getenv("ZKSERVER_MUTANT")
	if name == "" {
		t.Skip("no fault is planted: make mutations")
	}
	number := func(name string) int {
		n, err := strconv.Atoi(os.Getenv(name))
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	seeds, times := number("ZKSERVER_MUTANT_SEEDS"), number("ZKSERVER_MUTANT_TIMES")
	debug.SetGCPercent(1000) // as server/sim/storm
	debug.SetMemoryLimit(2 << 30)
	last := 0
	for seed := 1; seed <= seeds && times > 0; seed++ {
		if r := Run(uint64(seed), Limits{}, nil); r.Fault != nil {
			fmt.Fprintf(os.Stdout, "MUTANT caught after=%d %v\n", seed-last, r.Fault)
			last = seed
			times--
		}
	}
	if last == 0 {
		fmt.Fprintf(os.Stdout, "MUTANT survived after=%d\n", seeds)
	}
}
