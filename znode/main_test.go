package znode

import (
	"flag"
	"os"
	"testing"
)

// TestMain gives the state machine tests more than the default 100 runs, unless the command line says otherwise.
func TestMain(m *testing.M) {
	flag.Parse()
	if f := flag.Lookup("rapid.checks"); f.Value.String() == f.DefValue {
		if err := f.Value.Set("1000"); err != nil {
			panic(err)
		}
	}
	os.Exit(m.Run())
}
