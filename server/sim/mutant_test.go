package sim

import (
	"fmt"
	"os"
	"strconv"
	"testing"
)

// TestMutant runs seeds 1, 2, ... over code in which a fault has been planted (server/sim/mutation), until a check
// notices. The last line says after how many.
func TestMutant(t *testing.T) {
	name := os.Getenv("ZKSERVER_MUTANT")
	if name == "" {
		t.Skip("no fault is planted: make mutations")
	}
	n, err := strconv.Atoi(os.Getenv("ZKSERVER_MUTANT_SEEDS"))
	if err != nil {
		t.Fatal(err)
	}
	for seed := 1; seed <= n; seed++ {
		if r := Run(uint64(seed), Limits{}, nil); r.Fault != nil {
			fmt.Fprintf(os.Stdout, "MUTANT caught after=%d %v\n", seed, r.Fault)
			return
		}
	}
	fmt.Fprintf(os.Stdout, "MUTANT survived after=%d\n", n)
}
