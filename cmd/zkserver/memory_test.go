package main

import (
	"bytes"
	"math"
	"runtime/debug"
	"strings"
	"testing"

	"github.com/rs/zerolog"
)

// A machine with room gets the floor; where the limit is low, or the operator tunes the collector, there is none.
func TestChooseMemory(t *testing.T) {
	before := debug.SetMemoryLimit(-1)
	defer func() { debug.SetMemoryLimit(before); floor = nil }()
	for _, c := range []struct {
		name, limit, gogc string // of the environment
		set               int64  // what the runtime has read from it
		want              string
	}{
		{"low", "100MiB", "", 100 << 20, `"floor_mib":0,"limit_mib":100,`},
		{"high", "2GiB", "", 2 << 30, `"floor_mib":64,"limit_mib":2048,`},
		{"tuned", "2GiB", "50", 2 << 30, `"floor_mib":0,"limit_mib":2048,`},
		{"off", "off", "", math.MaxInt64, `"floor_mib":64,"time"`},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Setenv("GOMEMLIMIT", c.limit)
			t.Setenv("GOGC", c.gogc)
			debug.SetMemoryLimit(c.set)
			floor = nil
			var log bytes.Buffer
			chooseMemory(zerolog.New(&log).With().Timestamp().Logger())
			if !strings.Contains(log.String(), c.want) {
				t.Errorf("logged %s, want %s", log.String(), c.want)
			}
		})
	}
}
