//go:build linux

package hostile

import (
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/zkserver/zkserver/internal/testport"
)

func TestMain(m *testing.M) {
	Child()
	os.Exit(m.Run())
}

// TestStorm is a short one; ZKSERVER_FULL=1 makes it a minute on five voters. ZKSERVER_SEED repeats the order of faults.
func TestStorm(t *testing.T) {
	o := Options{
		Seed: rand.Uint64(), Length: 4 * time.Second, Voters: 3, Observers: 1, Workers: 6, Think: 20 * time.Millisecond,
		Dir: t.TempDir(), Calm: 2 * time.Minute, Out: t.Output(),
	}
	if s := os.Getenv("ZKSERVER_SEED"); s != "" {
		var err error
		if o.Seed, err = strconv.ParseUint(s, 10, 64); err != nil {
			t.Fatal(err)
		}
	}
	if os.Getenv("ZKSERVER_FULL") != "" {
		o.Length, o.Voters = time.Minute, 5
	}
	o.Ports = testport.Reserve(t, 3*(o.Voters+o.Observers))
	t.Logf("seed %d", o.Seed)
	r, err := Run(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range r.Faults {
		t.Error(f)
	}
	if r.Strikes == 0 || r.History.Operations < 10*o.Workers || r.Sessions < o.Workers {
		t.Errorf("a storm in which too little happened: %+v", r)
	}
	t.Logf("%+v", r)
}

// TestLatencies: the measurement runs to its end (ZKSERVER_FULL=1); what it says depends on the machine.
func TestLatencies(t *testing.T) {
	if os.Getenv("ZKSERVER_FULL") == "" {
		t.Skip("ZKSERVER_FULL=1 runs it")
	}
	all, err := Latencies(t.Context(), Options{
		Seed: 1, Voters: 3, Observers: 1, Workers: 4, Dir: t.TempDir(), Ports: testport.Reserve(t, 12), Calm: 2 * time.Minute, Out: t.Output(),
	}, 3, 200*time.Millisecond)
	if err != nil {
		t.Fatal(err)
	}
	if len(all) != 2*len(troubles) || all[0].Ratio() <= 0 {
		t.Errorf("%+v", all)
	}
}
