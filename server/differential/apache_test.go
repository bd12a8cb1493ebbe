package differential_test

import (
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/zkserver/zkserver/server/differential"
)

func number(t *testing.T, name string, def int) int {
	t.Helper()
	s := os.Getenv(name)
	if s == "" {
		return def
	}
	n, err := strconv.Atoi(s)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return n
}

// TestApache runs DIFF_SEEDS programs of DIFF_SIZE requests from seed DIFF_FIRST on, or the script DIFF_SCRIPT.
func TestApache(t *testing.T) {
	needServers(t)
	p := startPair(t)
	if name := os.Getenv("DIFF_SCRIPT"); name != "" {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		prog, err := differential.ParseScript(text)
		if err != nil {
			t.Fatal(err)
		}
		r := p.run(prog)
		t.Logf("apache:\n%s\nzkserver:\n%s", r.a, r.b)
		if r.diff != nil || r.errs[0] != nil || r.errs[1] != nil {
			t.Fatalf("%v\nerrors %v", r.diff, r.errs)
		}
		return
	}
	seeds, size, first := number(t, "DIFF_SEEDS", 25), number(t, "DIFF_SIZE", 400), number(t, "DIFF_FIRST", 1)
	began, failed := time.Now(), 0
	var cov differential.Coverage
	for seed := first; seed < first+seeds; seed++ {
		prog := differential.Generate(uint64(seed), size)
		r := p.run(prog)
		cov.Add(prog, r.a)
		if r.diff == nil && r.errs[0] == nil && r.errs[1] == nil {
			continue
		}
		t.Error(p.explain(t, prog, r))
		if failed++; failed >= number(t, "DIFF_FAILURES", 3) {
			break
		}
	}
	t.Logf("%d requests of %d programs, %d differ, in %s\n%s", cov.Requests, cov.Programs, failed, time.Since(began).Round(time.Second), cov.Table())
	if min := number(t, "DIFF_MINIMUM", 0); min > 0 && !t.Failed() {
		for _, m := range cov.Missing(min) {
			t.Error(m)
		}
	}
}
