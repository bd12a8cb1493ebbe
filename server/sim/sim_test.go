package sim

import "testing"

// TestSameSeedSameRun: one seed decides everything.
func TestSameSeedSameRun(t *testing.T) {
	for seed := uint64(1); seed <= 8; seed++ {
		a, b := Run(seed, Limits{}, nil), Run(seed, Limits{}, nil)
		if a.Hash != b.Hash || a.Stats != b.Stats {
			t.Fatalf("seed %d: %x %+v, then %x %+v", seed, a.Hash, a.Stats, b.Hash, b.Stats)
		}
	}
}
