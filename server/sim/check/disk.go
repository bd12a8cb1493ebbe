package check

import "sort"

// Entry is one transaction of a log.
type Entry struct{ Zxid, Hash uint64 }

// Op is one atomic change of a log.
type Op struct {
	Accepted, Current uint32 // zero: as they are
	Stamp, Unstamp    bool
	Truncate          bool
	To                uint64 // of Truncate
	Append            []Entry
	Commit            uint64
	Install           bool
	Zxid, Common      uint64 // of Install
}

// image is what a log holds.
type image struct {
	accepted, current uint32
	stamped           bool
	base, baseChain   uint64
	log               []rec
	commit            uint64
}

// rec is an entry with the hash of the whole history up to it.
type rec struct{ zxid, chain, hash uint64 }

func (im *image) last() rec {
	if n := len(im.log); n > 0 {
		return im.log[n-1]
	}
	return rec{zxid: im.base, chain: im.baseChain}
}

// chain returns the history's hash at z, if the log holds z.
func (im *image) chain(z uint64) (uint64, bool) {
	if z == im.base {
		return im.baseChain, true
	}
	i := sort.Search(len(im.log), func(i int) bool { return im.log[i].zxid >= z })
	if i < len(im.log) && im.log[i].zxid == z {
		return im.log[i].chain, true
	}
	return 0, false
}

// holds reports whether the history reaches z: what lies below the base is committed.
func (im *image) holds(z uint64) bool {
	_, ok := im.chain(z)
	return ok || z < im.base
}

func (im *image) clone() image {
	out := *im
	out.log = append([]rec(nil), im.log...)
	return out
}

// perform changes an image as an op says.
func (c *Checker) perform(s int, what string, im *image, op *Op) {
	if op.Install {
		t := c.find(op.Zxid)
		if t == nil {
			c.fail("Z9", "server %d: %s: snapshot at %s, which is not committed", s, what, Zx(op.Zxid))
			return
		}
		keep := im.log[:0:0]
		for _, r := range im.log {
			if r.zxid > op.Zxid && r.zxid <= op.Common {
				keep = append(keep, r)
			}
		}
		im.log, im.base, im.baseChain = keep, op.Zxid, t.chain
		if len(keep) > 0 && mix(mix(t.chain, keep[0].zxid), keep[0].hash) != keep[0].chain {
			c.fail("Z14", "server %d: %s: kept %s does not continue the snapshot at %s", s, what, Zx(keep[0].zxid), Zx(op.Zxid))
		}
	}
	if op.Truncate {
		n := len(im.log)
		for n > 0 && im.log[n-1].zxid > op.To {
			n--
		}
		im.log = im.log[:n]
		if im.last().zxid != op.To {
			c.fail("Z14", "server %d: %s: truncated to %s, which the log does not hold", s, what, Zx(op.To))
		}
		// The tree may be ahead of the disk, never of what has been issued to it.
		if im == &c.servers[s].issued && op.To < c.treeAt(s) {
			c.fail("Z15", "server %d: %s: truncated to %s below its tree at %s", s, what, Zx(op.To), Zx(c.treeAt(s)))
		}
	}
	for _, e := range op.Append {
		prev := im.last()
		if !continues(prev.zxid, e.Zxid) {
			c.fail("Z14", "server %d: %s: %s appended behind %s", s, what, Zx(e.Zxid), Zx(prev.zxid))
		}
		if h, ok := c.broadcast[e.Zxid]; !ok || h != e.Hash {
			c.fail("Z3", "server %d: %s: %s appended, which nobody proposed so", s, what, Zx(e.Zxid))
		}
		im.log = append(im.log, rec{zxid: e.Zxid, chain: mix(mix(prev.chain, e.Zxid), e.Hash), hash: e.Hash})
	}
	if op.Accepted != 0 || op.Current != 0 {
		if op.Accepted < im.accepted || op.Current < im.current {
			c.fail("Z11", "server %d: %s: epochs %d,%d after %d,%d", s, what, op.Accepted, op.Current, im.accepted, im.current)
		}
		im.accepted, im.current = op.Accepted, op.Current
	}
	if op.Unstamp {
		im.stamped = false
	}
	if op.Stamp {
		im.stamped = true
	}
	im.commit = max(im.commit, min(op.Commit, im.last().zxid))
	if epochOf(im.last().zxid) > im.current || im.current > im.accepted {
		c.fail("Z10", "server %d: %s: log ends at %s, epochs %d,%d", s, what, Zx(im.last().zxid), im.accepted, im.current)
	}
}

func (c *Checker) treeAt(s int) uint64 {
	if n := c.servers[s].at; n > 0 {
		return c.order[n-1].zxid
	}
	return c.genesis.zxid
}

// Aged gives a server a disk that was used before the run.
func (c *Checker) Aged(s int, epoch uint32) {
	im := image{accepted: epoch, current: epoch, stamped: true, base: c.genesis.zxid, commit: c.genesis.zxid}
	c.servers[s].issued, c.servers[s].durable = im, im
}

// Issued: a server has given an op to its disk.
func (c *Checker) Issued(s int, op *Op) { c.perform(s, "issued", &c.servers[s].issued, op) }

// Durable: an op is on the disk.
func (c *Checker) Durable(s int, op *Op) {
	d := &c.servers[s].durable
	blank := !d.stamped
	c.perform(s, "durable", d, op)
	if blank && d.stamped && !c.members[s].Observer {
		c.counts(s)
	}
}

// counts: a voter that has lost its disk has stamped itself, and is counted from now on. Those of whom none holds what is
// committed must not be a quorum then: they could go on without it (I6, interleavings 10).
func (c *Checker) counts(s int) {
	last := c.last()
	if c.Quorum(func(i int) bool {
		d := &c.servers[i].durable
		chain, ok := d.chain(last.zxid)
		return d.stamped && !(ok && chain == last.chain)
	}) {
		c.fail("I6", "server %d counts again, with its log up to %s; those that count and have not the committed %s are a quorum now",
			s, Zx(c.servers[s].durable.last().zxid), Zx(last.zxid))
	}
}

// Cut: a server has dropped its log up to base.
func (c *Checker) Cut(s int, base uint64) {
	for _, im := range []*image{&c.servers[s].issued, &c.servers[s].durable} {
		chain, ok := im.chain(base)
		if !ok {
			c.fail("Z14", "server %d: log cut at %s, which it does not hold", s, Zx(base))
			return
		}
		i := sort.Search(len(im.log), func(i int) bool { return im.log[i].zxid > base })
		im.log, im.base, im.baseChain = im.log[i:], base, chain
	}
}

// Booted: a server has started again from its disk, its tree (before the log is replayed) at applied.
func (c *Checker) Booted(s int, applied uint64) {
	x := &c.servers[s]
	x.issued = x.durable.clone()
	c.installed(s, applied)
	if last := x.durable.last().zxid; applied > last {
		c.fail("Z15", "server %d: state at %s ahead of the log's end %s", s, Zx(applied), Zx(last))
	}
}

// Wiped: a server has lost its disk. One that is lost before it was stamped had never counted: what the one before it
// held is what others may still have been told of.
func (c *Checker) Wiped(s int) {
	x := &c.servers[s]
	lost := x.durable
	if !lost.stamped {
		lost = x.lost
	}
	*x = server{lost: lost}
	for _, p := range c.promised {
		if h, ok := p[s]; ok {
			h.gone = true // it may still be heard of, or the next disk promises the same epoch
			p[s] = h
		}
	}
	for k := range c.hears {
		if k[0] == s {
			delete(c.hears, k)
		}
	}
}

// Voted: a server stands for election with this history.
func (c *Checker) Voted(s int, epoch uint32, last uint64) {
	if d := &c.servers[s].durable; d.last().zxid != last || d.current != epoch {
		c.fail("Z12", "server %d votes with %s in epoch %d; durable: %s in %d", s, Zx(last), epoch, Zx(d.last().zxid), d.current)
	}
}

// VotedFor: a server that stands for election has voted for somebody with this history, which is never behind its own.
func (c *Checker) VotedFor(s int, epoch uint32, last uint64) {
	d := &c.servers[s].durable
	if own := (history{current: d.current, last: d.last().zxid}); own.ahead(history{current: epoch, last: last}) {
		c.fail("vote", "server %d, with %s in epoch %d, votes for %s in epoch %d", s, Zx(own.last), own.current, Zx(last), epoch)
	}
}

// SentAck: a server has said that its log is durable up to z.
func (c *Checker) SentAck(s int, z uint64) {
	if d := &c.servers[s].durable; !d.holds(z) {
		c.fail("Z12", "server %d acks %s; durable: %s", s, Zx(z), Zx(c.servers[s].durable.last().zxid))
	}
}

// SentAckNewLeader: a server has said that it holds the initial history of an epoch.
func (c *Checker) SentAckNewLeader(s int, epoch uint32, end uint64) {
	d := &c.servers[s].durable
	if !d.holds(end) || d.current != epoch || !d.stamped {
		c.fail("Z12", "server %d acks NewLeader of %d up to %s; durable: %s, epoch %d, stamped %v", s, epoch, Zx(end), Zx(d.last().zxid), d.current, d.stamped)
	}
}

// SentPromise: a server has said that it accepts an epoch (LeaderInfo, AckEpoch).
func (c *Checker) SentPromise(s int, epoch uint32) {
	d := &c.servers[s].durable
	if d.accepted < epoch {
		c.fail("Z12", "server %d promises epoch %d; durable: %d", s, epoch, d.accepted)
	}
	p := c.promised[epoch]
	if p == nil {
		p = map[int]history{}
		c.promised[epoch] = p
	}
	if h, again := p[s]; !again || h.gone {
		p[s] = history{current: d.current, last: d.last().zxid, blank: !d.stamped}
	}
}

// SentHistory: a server has said in AckEpoch where its log ends.
func (c *Checker) SentHistory(s int, last uint64) {
	if d := &c.servers[s].durable; d.last().zxid != last {
		c.fail("Z12", "server %d says its log ends at %s; durable: %s", s, Zx(last), Zx(d.last().zxid))
	}
}

// Joined reports whether a server's disk holds everything committed: it is as good as one that was never lost.
func (c *Checker) Joined(s int) bool {
	d := &c.servers[s].durable
	chain, ok := d.chain(c.last().zxid)
	return d.stamped && (ok && chain == c.last().chain)
}
