package sim

import (
	"maps"
	"slices"
)

// Coverage counts what runs have reached.
type Coverage map[string]uint64

func (c Coverage) hit(what string) { c[what]++ }

// Add takes another's counts over.
func (c Coverage) Add(o Coverage) {
	for k, n := range o {
		c[k] += n
	}
}

// Missing lists what of a list was never reached.
func (c Coverage) Missing(want []string) []string {
	var out []string
	for _, k := range want {
		if c[k] == 0 {
			out = append(out, k)
		}
	}
	return out
}

// Names are all that was reached, in order.
func (c Coverage) Names() []string { return slices.Sorted(maps.Keys(c)) }

// Required are the lists of what runs must have reached: ci by a few thousand seeds, all by a hundred thousand.
var Required = map[string][]string{
	"ci":  requiredCI,
	"all": slices.Concat(requiredCI, requiredAll),
}

var requiredCI = []string{}

var requiredAll = []string{}
