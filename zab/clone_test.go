package zab

import (
	"bytes"
	"math/rand/v2"
	"reflect"
	"testing"
)

// A new field of the core's state needs a decision: is it copied deeply, and does it belong in the dump?
func TestCloneAndDumpKnowEveryField(t *testing.T) {
	for _, tt := range []struct {
		of     any
		fields int
	}{
		{Core{}, 42}, {leadership{}, 22}, {learner{}, 27}, {learning{}, 15}, {peerState{}, 5}, {mark{}, 4}, {ring{}, 5},
		{handing{}, 2}, {syncWait{}, 4}, {syncGroup{}, 2},
	} {
		if n := reflect.TypeOf(tt.of).NumField(); n != tt.fields {
			t.Errorf("%T has %d fields, clone.go and dump.go were written for %d", tt.of, n, tt.fields)
		}
	}
}

// A clone steps as the original does, and neither disturbs the other.
func TestCloneIsIndependent(t *testing.T) {
	same := Names{Server: func(id ServerID) ServerID { return id }, ID: func(id ID) uint64 { return uint64(id) }}
	step := func(c *Core, in Input) (Batch, []byte) {
		c.Step(in)
		b, _ := c.Ready()
		return b, c.AppendState(nil, same)
	}
	compared := 0
	for seed := range uint64(40) {
		x := watch(seed, func(n *node, in Input, take func()) {
			take() // a clone has no batch
			before := n.core.AppendState(nil, same)
			a, b := n.core.Clone(), n.core.Clone()
			for _, c := range []*Core{a, b, n.core} { // the only thing they share
				c.rand = rand.New(rand.NewPCG(seed, uint64(compared)))
			}
			if !bytes.Equal(before, a.AppendState(nil, same)) {
				t.Fatalf("seed %d: a clone has another dump", seed)
			}
			batch, after := step(a, in)
			if !bytes.Equal(before, n.core.AppendState(nil, same)) {
				t.Fatalf("seed %d: %T of the clone changed the original", seed, in)
			}
			n.core.Step(in)
			take()
			if again, state := step(b, in); !reflect.DeepEqual(batch, again) || !bytes.Equal(after, state) {
				t.Fatalf("seed %d: %T of the original changed the clone", seed, in)
			}
			compared++
		})
		if x.err != "" {
			t.Fatalf("seed %d: %s", seed, x.err)
		}
	}
	if compared < 10000 {
		t.Errorf("only %d steps compared", compared)
	}
}
