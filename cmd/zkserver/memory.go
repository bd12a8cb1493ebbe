package main

import (
	"math"
	"os"
	"runtime/debug"

	"github.com/KimMachineGun/automemlimit/memlimit"
	"github.com/rs/zerolog"
)

const (
	memoryShare = 0.9      // of the machine's memory, or the control group's: beyond it the collector works harder
	heapFloor   = 64 << 20 // bytes
	floorNeeds  = 1 << 30  // bytes of memory for the floor to be worth it
)

// floor is never touched: it takes address space and no memory, but the collector counts it as live. A small server then
// collects after a hundred megabytes of garbage instead of a few dozen; a sixth of the CPU of sets went into that.
var floor []byte

// chooseMemory tells the collector how much memory there is, unless the environment says (GOMEMLIMIT, GOGC).
func chooseMemory(log zerolog.Logger) {
	source := memlimit.WithProvider(memlimit.ApplyFallback(memlimit.FromCgroup, memlimit.FromSystem))
	limit, err := memlimit.Set(memlimit.WithRatio(memoryShare), source)
	if err != nil {
		log.Warn().Err(err).Msg("how much memory there is can not be found out: the collector has no limit")
	}
	if os.Getenv("GOGC") == "" && limit >= floorNeeds {
		floor = make([]byte, heapFloor)
	}
	e := log.Info().Int("floor_mib", len(floor)>>20)
	if limit != math.MaxInt64 {
		e = e.Int64("limit_mib", limit>>20)
	}
	e.Msg("memory")
}

// settleMemory gives back what loading the tree has left behind; with a million nodes that is as much as the tree.
func settleMemory() { debug.FreeOSMemory() }
