// Command storm runs the simulator: fresh seeds until it is stopped, some seeds, or one with a trace.
package main

import (
	"flag"
	"fmt"
	"os"
	"runtime/debug"

	"github.com/zkserver/zkserver/server/sim"
)

func main() {
	seed := flag.Uint64("seed", 1, "")
	n := flag.Int("n", 1, "")
	trace := flag.Bool("trace", false, "")
	flag.Parse()
	debug.SetGCPercent(1000)
	for i := range *n {
		var r sim.Result
		if *trace {
			r = sim.Run(*seed+uint64(i), sim.Limits{}, os.Stdout)
		} else {
			r = sim.Run(*seed+uint64(i), sim.Limits{}, nil)
		}
		if r.Fault != nil {
			fmt.Fprintln(os.Stdout, r.Seed, r.Stats, r.Fault)
		} else if *n < 20 {
			fmt.Fprintln(os.Stdout, r.Seed, r.Stats, "ok", r.Hash)
		}
	}
}
