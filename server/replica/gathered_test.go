package replica

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/zkserver/zkserver/server/store"
	"github.com/zkserver/zkserver/zab"
	"github.com/zkserver/zkserver/znode"
)

// written is what batches, one after another, leave in a store: data only where a batch says that it changed.
type written struct {
	nodes    map[string]int32 // versions
	data     map[string]string
	sessions map[int64]int32
	applied  zab.Zxid
}

func (w *written) put(t *testing.T, b *store.StateBatch) {
	t.Helper()
	seen := map[string]bool{}
	for _, n := range b.Nodes {
		if seen[n.Path] {
			t.Fatalf("%s twice in one batch", n.Path)
		}
		seen[n.Path] = true
		if n.Deleted {
			delete(w.nodes, n.Path)
			delete(w.data, n.Path)
			continue
		}
		w.nodes[n.Path] = n.Record.Version
		if n.DataToo {
			w.data[n.Path] = string(n.Record.Data)
		}
	}
	for _, s := range b.Sessions {
		w.sessions[s.ID] = s.Timeout
	}
	for _, id := range b.EndedSessions {
		delete(w.sessions, id)
	}
	w.applied = b.Applied
}

// Whatever is gathered of batches leaves what the batches would have left one by one, as of the last of them.
func TestGatheredIsWhatTheBatchesWere(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	fresh := func() written {
		return written{nodes: map[string]int32{}, data: map[string]string{}, sessions: map[int64]int32{}}
	}
	for range 200 {
		one, all := fresh(), fresh()
		var g Gathered
		if g.Take() != nil {
			t.Fatal("nothing was gathered, but something taken")
		}
		for z := zab.Zxid(1); z <= 60; z++ {
			b := &store.StateBatch{Applied: z}
			for i := range 10 {
				path := fmt.Sprintf("/%d", i)
				_, there := one.nodes[path]
				switch n := (store.StateNode{Path: path}); rng.IntN(8) {
				case 0:
					n.Deleted = true
					b.Nodes = append(b.Nodes, n)
				case 1, 2:
					n.Record = znode.NodeRecord{Version: int32(z), Data: fmt.Append(nil, z)}
					n.DataToo = true
					b.Nodes = append(b.Nodes, n)
				case 3:
					if there { // its children changed
						n.Record = znode.NodeRecord{Version: int32(z), Data: []byte(one.data[path])}
						b.Nodes = append(b.Nodes, n)
					}
				}
			}
			switch id := rng.Int64N(4); rng.IntN(3) {
			case 0:
				b.Sessions = append(b.Sessions, znode.Session{ID: id, Timeout: int32(z)})
			case 1:
				b.EndedSessions = append(b.EndedSessions, id)
			}
			one.put(t, b)
			g.Add(b)
			if g.Applied() != z {
				t.Fatalf("gathered as of %v, want %v", g.Applied(), z)
			}
			if rng.IntN(10) > 0 {
				continue
			}
			taken := g.Take()
			if !slices.IsSortedFunc(taken.Nodes, func(x, y store.StateNode) int {
				return strings.Compare(x.Path, y.Path)
			}) {
				t.Fatal("not in path order")
			}
			all.put(t, taken)
			g.Reset()
			if !maps.Equal(one.nodes, all.nodes) || !maps.Equal(one.data, all.data) ||
				!maps.Equal(one.sessions, all.sessions) || one.applied != all.applied {
				t.Fatalf("one by one: %+v\ngathered: %+v", one, all)
			}
		}
	}
}

// What is gathered is bounded by its bytes as well as by its paths.
func TestGatheredIsBounded(t *testing.T) {
	var g Gathered
	add := func(path string, bytes int) {
		g.Add(&store.StateBatch{Applied: 1, Nodes: []store.StateNode{{Path: path, DataToo: true, Record: znode.NodeRecord{Data: make([]byte, bytes)}}}})
	}
	for range 100 {
		add("/a", dirtyBytes/10) // one node again and again: the last one counts
	}
	if g.full() {
		t.Fatal("full of one small node")
	}
	add("/b", dirtyBytes)
	if !g.full() {
		t.Fatalf("not full with %d bytes", g.bytes)
	}
	g.Reset()
	for i := range gatheredPaths {
		add(fmt.Sprint("/", i), 0)
	}
	if !g.full() {
		t.Fatalf("not full with %d paths", len(g.batch.Nodes))
	}
}
