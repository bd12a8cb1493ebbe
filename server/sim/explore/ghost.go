package explore

import (
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/zkserver/zkserver/zab"
)

// ghost is what no server knows: which epochs had a leader, what was proposed in them and behind what, and the one order in
// which everything was delivered. Ghosts are immutable once interned.
type ghost struct {
	epochs []reign // ascending
	order  []zab.Zxid
	commit zab.Zxid // the highest commit point anybody has known
}

// reign is an epoch that got as far as synchronization.
type reign struct {
	epoch zab.Epoch
	prev  zab.Zxid // what its first transaction stands behind
	count uint32   // transactions proposed
}

func (g *ghost) reign(ep zab.Epoch) *reign {
	for i := range g.epochs {
		if g.epochs[i].epoch == ep {
			return &g.epochs[i]
		}
	}
	return nil
}

func (g *ghost) clone() *ghost {
	d := *g
	d.epochs, d.order = slices.Clone(g.epochs), slices.Clone(g.order)
	return &d
}

// remember takes what a disk holds at the start as proposed.
func (g *ghost) remember(d *disk) {
	prev := zab.Zxid(0)
	for _, z := range slices.Concat(d.state, d.log) {
		r := g.reign(z.Epoch())
		if r == nil {
			g.epochs = append(g.epochs, reign{epoch: z.Epoch(), prev: prev})
			slices.SortFunc(g.epochs, func(a, b reign) int { return int(a.epoch) - int(b.epoch) })
			r = g.reign(z.Epoch())
		}
		r.count = max(r.count, z.Counter())
		prev = z
	}
}

// observe checks what a step of server i has made true. A fresh server may know less of the commit point than before.
func (e *Explorer) observe(w *world, i int, was, n *node, fresh bool) string {
	g := e.ghosts[w.ghost]
	f := &n.facts
	own := false
	change := func() {
		if !own {
			g, own = g.clone(), true
		}
	}
	if f.role == zab.Leading && f.phase != "discovering" && f.phase != "promising" {
		r := g.reign(f.epoch)
		if p := was.facts.phase; p == "discovering" || p == "promising" {
			if r != nil {
				return fmt.Sprintf("I2: %d leads epoch %d, which had a leader before", i+1, f.epoch)
			}
			change()
			g.epochs = append(g.epochs, reign{epoch: f.epoch})
			slices.SortFunc(g.epochs, func(a, b reign) int { return int(a.epoch) - int(b.epoch) })
			r = g.reign(f.epoch)
		}
		if f.phase != "syncing" && was.facts.phase == "syncing" {
			have := 0
			for j := range servers {
				d := &e.nodes[w.node[j]].disk
				if j == i {
					d = &n.disk
				}
				if d.hard.Current >= f.epoch {
					have++
				}
			}
			if have <= servers/2 {
				return fmt.Sprintf("I1: %d begins epoch %d, which %d disk has", i+1, f.epoch, have)
			}
		}
		issued := n.issued()
		if f.phase != "syncing" {
			for _, z := range g.order {
				if z.Epoch() < f.epoch && !slices.Contains(issued, z) && !slices.Contains(n.tree, z) {
					return fmt.Sprintf("I5: %d leads epoch %d without %s, which was delivered", i+1, f.epoch, zx(z))
				}
			}
		}
		if last := f.last; last.Epoch() == f.epoch && last.Counter() > r.count {
			change()
			r = g.reign(f.epoch)
			if r.count == 0 {
				k := slices.Index(issued, zab.MakeZxid(f.epoch, 1))
				if k > 0 {
					r.prev = issued[k-1]
				} else {
					r.prev = n.disk.base
				}
			}
			r.count = last.Counter()
		}
	}
	if !slices.Equal(n.disk.log, was.disk.log) {
		prev := n.disk.base
		for _, z := range n.disk.log {
			if r := g.reign(z.Epoch()); z.Counter() == 1 && (r == nil || r.prev != prev) {
				return fmt.Sprintf("I5: %d has stored %s behind %s", i+1, zx(z), zx(prev))
			}
			prev = z
		}
	}
	for k := range n.tree {
		z := n.tree[k]
		switch {
		case k < len(g.order):
			if g.order[k] != z {
				return fmt.Sprintf("I4: %d delivers %s as number %d, others %s", i+1, zx(z), k+1, zx(g.order[k]))
			}
		default:
			if r := g.reign(z.Epoch()); r == nil || z.Counter() > r.count {
				return fmt.Sprintf("I3: %d delivers %s, which nobody has proposed", i+1, zx(z))
			}
			if k > 0 && z != g.order[k-1]+1 && (z.Epoch() <= g.order[k-1].Epoch() || z.Counter() != 1) {
				return fmt.Sprintf("I5: %d delivers %s behind %s", i+1, zx(z), zx(g.order[k-1]))
			}
			change()
			g.order = append(g.order, z)
		}
	}
	if f.committed < was.facts.committed && !fresh {
		return fmt.Sprintf("I1: %d takes its commit point back to %s", i+1, zx(f.committed))
	}
	if z := f.committed; z > g.commit {
		have := 0
		for j := range servers {
			d := &e.nodes[w.node[j]].disk
			if j == i {
				d = &n.disk
			}
			if d.has(z) {
				have++
			}
		}
		if have <= servers/2 {
			return fmt.Sprintf("I6: %d commits %s, which %d disk has", i+1, zx(z), have)
		}
		change()
		g.commit = z
	}
	if own {
		w.ghost = e.ghost(g)
	}
	return ""
}

func (g *ghost) dump() []byte {
	var b []byte
	put := func(vs ...uint64) {
		for _, v := range vs {
			b = binary.AppendUvarint(b, v)
		}
	}
	put(uint64(g.commit), uint64(len(g.order)))
	for _, z := range g.order {
		put(uint64(z))
	}
	for _, r := range g.epochs {
		put(uint64(r.epoch), uint64(r.prev), uint64(r.count))
	}
	return b
}
