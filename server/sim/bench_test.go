package sim

import "testing"

// BenchmarkRun tells what a seed costs.
func BenchmarkRun(b *testing.B) {
	b.ReportAllocs()
	seed := uint64(0)
	for b.Loop() {
		seed++
		if r := Run(seed, Limits{}, nil); r.Fault != nil {
			b.Fatal(seed, r.Fault)
		}
	}
}
