package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/zkserver/zkserver/server/hostile"
)

// newFabric rewrites the configurations of an ensemble that does not run yet, so that its servers reach each other
// through a network that can hold things back.
func newFabric(t testing.TB, ps []*proc) *hostile.Network {
	t.Helper()
	n := hostile.NewNetwork()
	t.Cleanup(n.Close)
	for _, p := range ps {
		text, err := os.ReadFile(filepath.Join(p.dir, "zoo.cfg"))
		if err != nil {
			t.Fatal(err)
		}
		through, err := n.Through(p.id, string(text))
		if err != nil {
			t.Fatal(err)
		}
		p.write("zoo.cfg", through)
	}
	return n
}
