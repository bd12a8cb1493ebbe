package check

import "sort"

// Proposed: the leader of the transaction's epoch has broadcast it.
func (c *Checker) Proposed(s int, z, hash uint64) {
	if _, ok := c.broadcast[z]; ok {
		c.fail("Z3", "server %d proposes %s a second time", s, Zx(z))
	}
	if l, ok := c.leaders[epochOf(z)]; !ok || l != s {
		c.fail("Z1", "server %d proposes %s without leading that epoch", s, Zx(z))
	}
	c.broadcast[z] = hash
}

// Leads: a server has begun to synchronize others in an epoch, or serves in it. Its history is that epoch's.
func (c *Checker) Leads(s int, epoch uint32) {
	if l, ok := c.leaders[epoch]; ok {
		if l != s {
			c.fail("Z1", "servers %d and %d both lead epoch %d", l, s, epoch)
		}
		return
	}
	c.leaders[epoch] = s
	c.complete(s, epoch)
	own, ok := c.promised[epoch][s]
	if !ok || own.gone { // it has nobody to tell
		own = history{current: c.servers[s].durable.current, last: c.servers[s].durable.last().zxid}
	}
	if !c.Quorum(func(i int) bool {
		if i == s {
			return c.servers[s].durable.accepted >= epoch
		}
		h, ok := c.promised[epoch][i]
		return ok && c.hears[[2]int{s, i}] == epoch && (h.last == own.last || !h.ahead(own)) && (!h.blank || c.last().zxid == 0)
	}) {
		c.fail("Z8", "server %d begins epoch %d without the promises of a quorum whose histories are not ahead of its own", s, epoch)
	}
}

// HeardPromise: a leader has heard of a promise.
func (c *Checker) HeardPromise(s, from int, epoch uint32) { c.hears[[2]int{s, from}] = epoch }

// history is how votes and promises compare what servers hold.
type history struct {
	current uint32
	last    uint64
	blank   bool // its disk may have been lost: it counts only where nothing has been committed yet (interleavings 10)
	gone    bool // its disk has been lost since
}

func (h history) ahead(o history) bool {
	return h.current > o.current || h.current == o.current && h.last > o.last
}

// Established: a quorum holds the leader's history, and the epoch, on its disks.
func (c *Checker) Established(s int, epoch uint32) {
	c.Leads(s, epoch)
	c.complete(s, epoch)
	if !c.Quorum(func(i int) bool { return c.servers[i].durable.current >= epoch || c.servers[i].lost.current >= epoch }) {
		c.fail("Z9", "server %d serves epoch %d, which is not on the disks of a quorum", s, epoch)
	}
}

// Role is what a server does.
type Role struct {
	Leads  bool
	Leader int // whom it follows; -1: nobody
}

// SentAs: a server that had these roles since it last sent something has sent what only a learner says, to whom it
// follows. What an earlier role has promised leaves with it, or never (R20).
func (c *Checker) SentAs(s, to int, roles []Role, what string) {
	for _, r := range roles {
		if !r.Leads && r.Leader == to {
			return
		}
	}
	c.fail("R20", "server %d sends %s to server %d, which it does not follow", s, what, to)
}

// SentAsLeader: the same of what only a leader says.
func (c *Checker) SentAsLeader(s int, roles []Role, what string) {
	for _, r := range roles {
		if r.Leads {
			return
		}
	}
	c.fail("R20", "server %d sends %s and does not lead", s, what)
}

// complete checks that a leader's history has everything that was ever committed (Z8, Z9).
func (c *Checker) complete(s int, epoch uint32) {
	last := c.last()
	if epochOf(last.zxid) > epoch {
		return // an old leader, found out late
	}
	im := &c.servers[s].issued
	if chain, ok := im.chain(last.zxid); !ok || chain != last.chain {
		c.fail("Z9", "server %d leads epoch %d without the committed %s; its log ends at %s", s, epoch, Zx(last.zxid), Zx(im.last().zxid))
	}
}

// Delivers: a server knows that everything up to z is committed.
func (c *Checker) Delivers(s int, z uint64) {
	im := &c.servers[s].issued
	last := c.last()
	chain, ok := im.chain(z)
	if !ok {
		c.fail("Z15", "server %d delivers %s beyond its log %s", s, Zx(z), Zx(im.last().zxid))
		return
	}
	if z <= last.zxid {
		if t := c.find(z); t == nil || t.chain != chain {
			c.fail("Z2", "server %d delivers up to %s, but its history there is not the committed one", s, Zx(z))
		}
		return
	}
	at, ok := im.chain(last.zxid)
	if !ok || at != last.chain {
		c.fail("Z2", "server %d delivers up to %s without the committed %s", s, Zx(z), Zx(last.zxid))
		return
	}
	for _, r := range im.log {
		if r.zxid > last.zxid && r.zxid <= z {
			c.order = append(c.order, txn{zxid: r.zxid, chain: r.chain, hash: r.hash, conn: -1})
			last = c.last()
		}
	}
	if !c.Quorum(func(i int) bool {
		x := &c.servers[i]
		got, ok := x.durable.chain(z)
		was, had := x.lost.chain(z)
		return ok && got == chain || had && was == chain
	}) {
		c.fail("Z13", "server %d delivers %s, which is not on the disks of a quorum", s, Zx(z))
	}
}

// Applied: a server's tree has applied a transaction, which gives these digests. The first one to do so also says what
// it was: Did must follow if it returns true.
func (c *Checker) Applied(s int, z, hash uint64, sums [2]uint64) (first bool) {
	x := &c.servers[s]
	if x.at >= len(c.order) {
		c.fail("Z15", "server %d applies %s, committed is only %s", s, Zx(z), Zx(c.last().zxid))
		return false
	}
	t := &c.order[x.at]
	if t.zxid != z || t.hash != hash {
		c.fail("Z4", "server %d applies %s where %s comes next", s, Zx(z), Zx(t.zxid))
		return false
	}
	x.at++
	if t.applied {
		if t.sums != sums {
			c.fail("Z16", "server %d has digests %x after %s, another %x", s, sums, Zx(z), t.sums)
		}
		return false
	}
	t.applied, t.sums = true, sums
	return true
}

// Installed: a server's tree comes from a snapshot at z now.
func (c *Checker) Installed(s int, z uint64, sums [2]uint64) {
	c.installed(s, z)
	if t := c.find(z); t != nil && t.applied && t.sums != sums {
		c.fail("Z16", "server %d has digests %x in a snapshot at %s, another %x", s, sums, Zx(z), t.sums)
	}
}

func (c *Checker) installed(s int, z uint64) {
	x := &c.servers[s]
	if z == c.genesis.zxid || z == 0 {
		x.at = 0
		return
	}
	for n := len(c.order); n > 0; n-- {
		if c.order[n-1].zxid == z {
			x.at = n
			return
		}
	}
	c.fail("Z9", "server %d has a state at %s, which is not committed", s, Zx(z))
}

// Outstanding: what a leader has in flight for a learner, in bytes, and what it may (I13).
func (c *Checker) Outstanding(s int, bytes, limit int) {
	if bytes > limit {
		c.fail("Z17", "leader %d has %d bytes in flight for a learner, more than %d", s, bytes, limit)
	}
}

// HashOf is the hash of an entry of a server's log, or of the history where the log no longer has it; zero: of neither.
func (c *Checker) HashOf(s int, z uint64) uint64 {
	im := &c.servers[s].issued
	i := sort.Search(len(im.log), func(i int) bool { return im.log[i].zxid >= z })
	if i < len(im.log) && im.log[i].zxid == z {
		return im.log[i].hash
	}
	if t := c.find(z); t != nil {
		return t.hash
	}
	return 0
}
