package sim

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/zkserver/zkserver/server/hostile/history"
)

// TestHistories: what clients of fresh seeds were told of registers, multis and sequences is linearizable.
func TestHistories(t *testing.T) {
	const seeds, enough = 40, 2 * time.Second
	first := rand.Uint64()
	began := time.Now()
	var sum history.Report
	n := uint64(0)
	for ; n < seeds && (n < 2 || time.Since(began) < enough); n++ {
		res := Run(first+n, Limits{Histories: true}, nil)
		r := res.History
		if res.Fault != nil {
			t.Fatalf("%v\nreplay: go run ./server/sim/storm -histories -seed %d -trace", res.Fault, first+n)
		}
		sum.Operations += r.Operations
		sum.Unknown += r.Unknown
		sum.Objects += r.Objects
		sum.Undecided = append(sum.Undecided, r.Undecided...)
	}
	if sum.Operations < 50*int(n) {
		t.Errorf("%d seeds have %d operations only", n, sum.Operations)
	}
	t.Logf("seeds %d and the %d that follow: %d operations, %d unknown, %d objects, %d undecided", first, n-1, sum.Operations, sum.Unknown, sum.Objects, len(sum.Undecided))
}
