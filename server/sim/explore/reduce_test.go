package explore

import "testing"

// Leaving out orders of independent events leaves out no outcome: the states in which nothing is under way include
// those of the whole, with the completion of each disk op in any order with everything else, and some more: those of
// servers that time out while what is sent to them is lost.
func TestReductionLosesNothing(t *testing.T) {
	if racing {
		t.Skip("as any other run, only slower")
	}
	for _, c := range []Config{
		{Transactions: 2, Elections: 1},
		{Transactions: 2, Elections: 1, Runs: true},
		{Transactions: 1, Elections: 1, Crashes: 1, Flush: true},
		{Transactions: 1, Elections: 2, Crashes: 1, Flush: true},
		{Transactions: 1, Elections: 1, Cuts: 1},
	} {
		c.Start = same(at(1, 1, 0, 0))
		ends := func(whole bool) (*Explorer, map[uint64]world) {
			c.Whole = whole
			e, ends := New(c), map[uint64]world{}
			e.onQuiet = func(w *world) {
				if w.deaf == 0 {
					ends[e.key(w)^mix(budget(w))] = *w
				}
			}
			if r := e.Deep(Bounds{Bytes: 16 << 20}); !r.Complete {
				t.Fatalf("%+v", r)
			}
			return e, ends
		}
		e, all := ends(true)
		f, some := ends(false)
		for k, w := range all {
			if _, ok := some[k]; !ok {
				t.Errorf("not reached by the reduced search:\n%s", e.describe(&w))
				break
			}
		}
		t.Logf("%d transactions, %d crashes, %d cuts: %d states and %d quiet ones, reduced %d and %d",
			c.Transactions, c.Crashes, c.Cuts, e.Result.States, len(all), f.Result.States, len(some))
	}
}
