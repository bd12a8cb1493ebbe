package election

import (
	"encoding/binary"
	"maps"

	"github.com/zkserver/zkserver/zab"
)

// Clone is an independent copy of a core whose batch has been taken (Ready); what never changes, and the source of
// randomness, are shared. It is for those who try out more than one future of a state (server/sim/explore).
func (c *Core) Clone() *Core {
	d := *c
	d.batch = Batch{}
	d.latest = make(map[zab.ServerID]*heard, len(c.latest))
	for id, h := range c.latest {
		x := *h
		d.latest[id] = &x
	}
	d.links = make(map[zab.ServerID]*link, len(c.links))
	for id, l := range c.links {
		x := *l
		d.links[id] = &x
	}
	d.refused, d.barred = maps.Clone(c.refused), maps.Clone(c.barred)
	d.since, d.pending = maps.Clone(c.since), maps.Clone(c.pending)
	return &d
}

// AppendState appends what the core's further doings depend on, time apart: two cores with the same dump do the same
// with the same inputs once every deadline that runs has passed. Of a deadline only whether it runs is written.
func (c *Core) AppendState(dst []byte) []byte {
	num := func(vs ...uint64) {
		for _, v := range vs {
			dst = binary.AppendUvarint(dst, v)
		}
	}
	flag := func(bs ...bool) {
		for _, b := range bs {
			v := uint64(0)
			if b {
				v = 1
			}
			num(v)
		}
	}
	l := &c.look
	num(uint64(l.Last), uint64(l.Current), uint64(l.Ensemble))
	flag(l.Transaction, l.NeedSnap)
	num(uint64(c.role), uint64(c.leader), uint64(c.settled.Leader), uint64(c.settled.Epoch), c.round, c.leaderRound, uint64(c.class.id))
	dst = c.proposal.append(dst)
	flag(c.class.everyone, c.closed, c.resigned, c.finalizeAt != 0, c.now < c.decidedAt+c.opts.ResendMax)
	for _, id := range c.members {
		k := c.links[id]
		_, waits := c.since[id]
		flag(k.up, k.refused, c.barred[id], waits)
		dst = append(append(dst, c.refused[id]...), 0)
		h := c.latest[id]
		flag(h != nil)
		if h != nil {
			flag(h.fresh)
			dst = h.n.Append(dst)
		}
	}
	return dst
}

// Append appends a notification's fields.
func (n *Notification) Append(dst []byte) []byte {
	transaction := uint64(0)
	if n.Transaction {
		transaction = 1
	}
	for _, v := range []uint64{
		uint64(n.Ensemble), transaction, n.Round, uint64(n.State), uint64(n.Established.Leader), uint64(n.Established.Epoch), n.ConfigSum,
	} {
		dst = binary.AppendUvarint(dst, v)
	}
	return n.Vote.append(dst)
}

func (v Vote) append(dst []byte) []byte {
	for _, x := range []uint64{uint64(v.Leader), uint64(v.Zxid), uint64(v.PeerEpoch)} {
		dst = binary.AppendUvarint(dst, x)
	}
	return dst
}
