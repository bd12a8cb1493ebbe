package replica

import (
	"slices"
	"strings"

	"github.com/zkserver/zkserver/server/store"
	"github.com/zkserver/zkserver/zab"
	"github.com/zkserver/zkserver/znode"
)

// Gathered is what has been copied of the tree and not yet written: the newest record of each path, all as of one
// zxid. A node that changes again and again is written once for all of its changes, and in path order, which is the
// cheapest for the store. The log has all that lies here, as it has what the store has not flushed.
type Gathered struct {
	batch    store.StateBatch
	index    map[string]int           // of batch.Nodes
	sessions map[int64]*znode.Session // nil: ended
	bytes    int
}

// Add takes over a batch that was copied after all that are here.
func (g *Gathered) Add(b *store.StateBatch) {
	if g.index == nil {
		g.index, g.sessions = make(map[string]int), make(map[int64]*znode.Session)
	}
	g.batch.Applied, g.batch.Digests = b.Applied, b.Digests
	for i := range b.Nodes {
		n := &b.Nodes[i]
		at, there := g.index[n.Path]
		if !there {
			at = len(g.batch.Nodes)
			g.index[n.Path] = at
			g.batch.Nodes = append(g.batch.Nodes, store.StateNode{Path: n.Path})
			g.bytes += len(n.Path)
		}
		old := &g.batch.Nodes[at]
		g.bytes += len(n.Record.Data) - len(old.Record.Data)
		data := old.DataToo || n.DataToo
		*old = *n
		old.DataToo = data
	}
	for i := range b.Sessions {
		g.sessions[b.Sessions[i].ID] = &b.Sessions[i]
	}
	for _, id := range b.EndedSessions {
		g.sessions[id] = nil
	}
}

// Applied is as of when it is; zero: there is nothing.
func (g *Gathered) Applied() zab.Zxid { return g.batch.Applied }

// full reports whether it should be written now, lest it takes long or much memory.
func (g *Gathered) full() bool { return len(g.batch.Nodes) >= gatheredPaths || g.bytes >= dirtyBytes }

// Take returns all of it, until the next Reset; nil when there is nothing.
func (g *Gathered) Take() *store.StateBatch {
	b := &g.batch
	if b.Applied == 0 {
		return nil
	}
	slices.SortFunc(b.Nodes, func(x, y store.StateNode) int { return strings.Compare(x.Path, y.Path) })
	for id, ses := range g.sessions {
		if ses != nil {
			b.Sessions = append(b.Sessions, *ses)
		} else {
			b.EndedSessions = append(b.EndedSessions, id)
		}
	}
	return b
}

// Reset begins anew, in the same memory.
func (g *Gathered) Reset() {
	clear(g.index)
	clear(g.sessions)
	clear(g.batch.Nodes)
	g.batch = store.StateBatch{Nodes: g.batch.Nodes[:0]}
	g.bytes = 0
}
