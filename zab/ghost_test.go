package zab

import (
	"slices"
	"strings"
)

// ghost is what no server knows.
type ghost struct {
	order    []Entry // the one committed sequence
	proposed map[Zxid]string
	leader   map[Epoch]ServerID
	maxCom   Zxid
	ensemble ID // of the last established leader
}

// perform does one op as the log store would.
func (im *image) perform(n *node, op PersistOp) {
	c := n.c
	if op.Install != nil {
		in := op.Install
		keep := im.log[:0:0]
		for _, e := range im.log {
			if e.Zxid > in.Zxid && e.Zxid <= in.Common {
				keep = append(keep, e)
			}
		}
		im.log, im.base, im.tree, im.needSnap = keep, in.Zxid, c.dirs[in.Dir], false
		im.epochs = slices.Clone(in.Epochs)
	}
	if op.Truncate != nil {
		z := *op.Truncate
		for len(im.log) > 0 && im.log[len(im.log)-1].Zxid > z {
			im.log = im.log[:len(im.log)-1]
		}
		im.log = slices.Clone(im.log)
		im.epochs = im.epochs.upTo(z)
		if im.last() != z {
			c.fault(n, "Z14: truncate to %s left %s", zx(z), zx(im.last()))
		}
	}
	if len(op.Append) > 0 {
		if !continues(im.last(), op.Append) {
			c.fault(n, "Z14: append of %s behind %s", zx(op.Append[0].Zxid), zx(im.last()))
		}
		prev := im.last()
		for _, e := range op.Append {
			if want := "@" + zx(prev) + " "; !strings.HasPrefix(string(e.Data), want) {
				c.fault(n, "Z14: %s (%s) stored behind %s", zx(e.Zxid), e.Data, zx(prev))
			}
			prev = e.Zxid
		}
		im.log = append(im.log, op.Append...)
		im.epochs = im.epochs.append(op.Append)
	}
	if op.Hard != nil {
		if op.Hard.Accepted < im.hard.Accepted || op.Hard.Current < im.hard.Current {
			c.fault(n, "Z11: epochs %v after %v", *op.Hard, im.hard)
		}
		im.hard = *op.Hard
	}
	if op.Unstamp {
		im.ensemble = 0
	}
	if op.Ensemble != 0 {
		im.ensemble = op.Ensemble
	}
	if op.Commit < im.commit && (len(op.Append) > 0 || op.Install != nil) {
		c.fault(n, "Z11: stored commit point %s after %s", zx(op.Commit), zx(im.commit))
	}
	im.commit = max(im.commit, op.Commit)
	if im.last().Epoch() > im.hard.Current || im.hard.Current > im.hard.Accepted {
		c.fault(n, "Z10: log end %s, epochs %v", zx(im.last()), im.hard)
	}
	if err := validHistory(im.epochs, im.last()); err != nil {
		c.fault(n, "epoch table: %v", err)
	}
}

// delivered compares what is applied with the one order of the ensemble (Z2-Z7).
func (c *cluster) delivered(n *node, i int, e Entry) {
	g := &c.ghost
	switch {
	case i > len(g.order):
		c.fault(n, "Z2: delivered %s as number %d, only %d known", zx(e.Zxid), i, len(g.order))
	case i == len(g.order):
		if d, ok := g.proposed[e.Zxid]; !ok || d != string(e.Data) {
			c.fault(n, "Z3: delivered %s %q, proposed %q", zx(e.Zxid), e.Data, d)
		}
		if i > 0 && !continues(g.order[i-1].Zxid, []Entry{e}) {
			c.fault(n, "Z6: delivered %s behind %s", zx(e.Zxid), zx(g.order[i-1].Zxid))
		}
		g.order = append(g.order, e)
	case g.order[i].Zxid != e.Zxid || string(g.order[i].Data) != string(e.Data):
		c.fault(n, "Z2: delivered %s as number %d, others %s", zx(e.Zxid), i, zx(g.order[i].Zxid))
	}
}

// observe checks what a step made true: leaders of epochs (Z1), what they hold (Z8, Z9), commit quorums (Z13).
func (n *node) observe() {
	c := n.c
	g := &c.ghost
	if l := n.core.lead; l != nil && l.phase >= syncing {
		if old := g.leader[n.core.epoch]; old == 0 {
			g.leader[n.core.epoch] = n.id
		} else if old != n.id {
			c.fault(n, "Z1: leads epoch %d, so does %d", n.core.epoch, old)
		}
		if l.phase == established {
			g.ensemble = l.ensemble
			for _, e := range g.order {
				if e.Zxid.Epoch() < n.core.epoch && !n.issued.has(e.Zxid) {
					c.fault(n, "Z8: leads epoch %d without %s", n.core.epoch, zx(e.Zxid))
					break
				}
			}
		}
	}
	if n.core.committed < n.commits {
		c.fault(n, "Z11: commit point %s after %s", zx(n.core.committed), zx(n.commits))
	}
	n.commits = n.core.committed
	if z := n.core.committed; z > g.maxCom {
		g.maxCom = z
		v := NewVerifier(c.members)
		if !v.Quorum(func(id ServerID) bool { return c.nodes[id].disk.has(z) }) {
			c.fault(n, "Z13: committed %s without a quorum of disks", zx(z))
		}
	}
}
