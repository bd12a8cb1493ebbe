package election

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/zkserver/zkserver/zab"
)

var (
	seeds     = flag.Int("seeds", 200, "random elections to run")
	firstSeed = flag.Uint64("seed", 1, "the first of them")
)

// TestRandom runs elections under delay, loss, crashes, restarts, wipes and partitions, lets the faults end, and
// demands that one server then leads and that all others follow it. Each choice made by votes must be the best
// candidate of the quorum that made it.
func TestRandom(t *testing.T) {
	for i := range *seeds {
		seed := *firstSeed + uint64(i)
		if err := randomElection(seed); err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
	}
}

type chaos struct {
	*net
	r       *rand.Rand
	seed    uint64
	pauses  map[zab.ServerID]int
	blocked map[[2]zab.ServerID]bool
	err     error
}

func randomElection(seed uint64) error {
	r := rand.New(rand.NewPCG(seed, 0x5eed))
	c := &chaos{r: r, seed: seed, pauses: map[zab.ServerID]int{}, blocked: map[[2]zab.ServerID]bool{}}
	c.net = newNet(randomMembers(r), Options{ObserverMin: time.Duration(r.IntN(3)) * 50 * time.Millisecond}, seed)
	c.onStep = c.check
	fresh := r.IntN(4) == 0
	for _, id := range c.ids {
		nd := c.nodes[id]
		nd.disk = Look{Ensemble: 9, Transaction: true, Current: zab.Epoch(1 + r.IntN(3))}
		nd.disk.Last = zab.MakeZxid(nd.disk.Current, uint32(r.IntN(4)))
		if fresh {
			nd.disk = Look{}
		}
	}
	steps := 200 + r.IntN(1500)
	for range steps {
		c.fault()
		c.advance(true)
		if c.err != nil {
			return c.err
		}
	}
	// The faults end: everybody runs, all links come back.
	c.blocked = map[[2]zab.ServerID]bool{}
	for _, id := range c.ids {
		if c.nodes[id].core == nil {
			c.boot(id)
		}
	}
	// 1 s is the longest resend; the last resort against a dead candidate another one.
	for range 600 {
		c.advance(false)
		if c.err != nil {
			return c.err
		}
		if c.converged() != 0 {
			return nil
		}
	}
	c.log = nil
	c.state()
	return fmt.Errorf("no convergence: %v", c.log)
}

func randomMembers(r *rand.Rand) []zab.Member {
	var ms []zab.Member
	voters := []int{1, 2, 3, 3, 3, 5, 5, 7, 9}[r.IntN(9)]
	groups := voters == 9
	for i := range voters {
		m := zab.Member{ID: zab.ServerID(i + 1), Weight: 1}
		if groups {
			m.Group = uint64(i/3 + 1)
			if i%3 == 2 {
				m.Weight = uint64(r.IntN(2))
			}
		}
		ms = append(ms, m)
	}
	for i := range r.IntN(3) {
		ms = append(ms, zab.Member{ID: zab.ServerID(voters + i + 1), Observer: true, Weight: 1})
	}
	return ms
}

func (c *chaos) boot(id zab.ServerID) {
	c.start(id)
	c.look(id, nil)
}

func (c *chaos) any() zab.ServerID { return c.ids[c.r.IntN(len(c.ids))] }

func (c *chaos) fault() {
	a, b := c.any(), c.any()
	switch c.r.IntN(60) {
	case 0:
		if c.nodes[a].core != nil {
			c.crash(a, c.r.IntN(2) == 0)
		}
	case 1, 2, 3, 4, 5:
		if c.nodes[a].core == nil {
			c.boot(a)
		}
	case 6:
		if a != b {
			c.cut(a, b, c.r.IntN(2) == 0)
		}
	case 7:
		c.pauses[a] = c.r.IntN(100)
	case 8: // a partition, or its end
		c.blocked = map[[2]zab.ServerID]bool{}
		if c.r.IntN(2) == 0 {
			side := c.r.Uint64()
			for _, x := range c.ids {
				for _, y := range c.ids {
					if x < y && side>>x&1 != side>>y&1 {
						c.blocked[pair(x, y)] = true
						c.cut(x, y, false)
					}
				}
			}
		}
	case 9: // a partial one
		if a != b {
			c.blocked[pair(a, b)] = true
			c.cut(a, b, false)
		}
	case 10: // a leader gives up by itself
		if nd := c.nodes[a]; nd.core != nil && nd.core.Leader() != 0 {
			c.look(a, nil)
		}
	case 11:
		if nd := c.nodes[a]; nd.core != nil && nd.core.Leader() != 0 && a != b {
			c.look(a, func(l *Look) { l.Successor = b })
			if o := c.nodes[b]; o.core != nil && c.r.IntN(2) == 0 {
				c.look(b, func(l *Look) { l.Campaign = true })
			}
		}
	case 12: // a write that one server has alone
		nd := c.nodes[a]
		if nd.core != nil && nd.core.role == zab.Leading && nd.core.settled.Leader == a {
			nd.disk.Last, nd.disk.Transaction = max(nd.disk.Last, zab.MakeZxid(nd.disk.Current, 0))+1, true
		}
	}
}

// advance: a quantum passes. Links come up, some notifications arrive, zab does its part.
func (c *chaos) advance(faults bool) {
	for i, x := range c.ids {
		for _, y := range c.ids[i+1:] {
			if !c.blocked[pair(x, y)] && !c.linked[pair(x, y)] && c.r.IntN(4) == 0 {
				c.connect(x, y)
			}
			if up, down := c.nodes[x].core != nil, c.nodes[y].core == nil; up && down && c.r.IntN(10) == 0 {
				c.step(x, PeerDown{Peer: y, Refused: c.r.IntN(2) == 0})
			}
		}
	}
	for range 3 {
		for _, x := range c.ids {
			for _, y := range c.ids {
				if c.pauses[y] > 0 || faults && c.r.IntN(3) == 0 {
					continue
				}
				k := [2]zab.ServerID{x, y}
				if q := c.queues[k]; faults && len(q) > 0 && c.r.IntN(20) == 0 {
					c.queues[k] = q[1:] // lost: the core must not depend on delivery
				}
				c.deliver(x, y, 1+c.r.IntN(3))
			}
		}
	}
	for _, id := range c.ids {
		if c.pauses[id] > 0 {
			if c.pauses[id]--; c.pauses[id] == 0 {
				c.tick(id, time.Second)
			}
			continue
		}
		c.tick(id, 0)
		c.zab(id)
	}
}

// zab is a caricature of discovery: a leader that a quorum follows serves if none of it is ahead; a learner whose
// leader is not one, or is gone, looks again.
func (c *chaos) zab(id zab.ServerID) {
	nd := c.nodes[id]
	if nd.core == nil || nd.core.Leader() == 0 || c.r.IntN(3) != 0 {
		return
	}
	l := nd.core.Leader()
	if l == id {
		c.lead(nd)
		return
	}
	o := c.nodes[l]
	linked := c.linked[pair(id, l)]
	switch {
	case !linked && c.r.IntN(5) == 0, linked && o.core.Leader() != l && c.r.IntN(20) == 0:
		c.look(id, nil)
	case linked && o.core.Leader() == l && o.core.settled.Leader == l && nd.core.settled != o.core.settled:
		nd.disk.Current, nd.disk.Last, nd.disk.Ensemble = o.disk.Current, o.disk.Last, o.disk.Ensemble
		nd.disk.Transaction = o.disk.Transaction
		c.settle(id, l, o.disk.Current)
	}
}

func (c *chaos) lead(nd *node) {
	id := nd.id
	v := zab.NewVerifier(c.members)
	follows := func(o zab.ServerID) bool {
		return o == id || c.nodes[o].core != nil && c.nodes[o].core.Leader() == id && c.linked[pair(o, id)]
	}
	if nd.core.settled.Leader == id {
		if !v.Quorum(follows) && c.r.IntN(5) == 0 {
			c.look(id, nil)
		}
		return
	}
	if !v.Quorum(follows) {
		if c.r.IntN(300) == 0 {
			c.look(id, nil) // initLimit
		}
		return
	}
	for _, o := range v.Voters() {
		if follows(o) && v.Weight(o) > 0 && better(candidate(c.nodes[o].disk, 0), candidate(nd.disk, 0)) {
			c.look(id, nil) // behind a learner that counts
			return
		}
	}
	if nd.disk.Ensemble == 0 {
		nd.disk.Ensemble = 9
	}
	c.serve(id)
}

func candidate(l Look, id zab.ServerID) Vote {
	return Vote{Leader: id, Zxid: l.Last, PeerEpoch: l.Current}
}

// better is the order of A.2 once more, so that the core's own is not its own judge.
func better(a, b Vote) bool {
	return slices.Compare([]uint64{uint64(a.PeerEpoch), uint64(a.Zxid), uint64(a.Leader)},
		[]uint64{uint64(b.PeerEpoch), uint64(b.Zxid), uint64(b.Leader)}) > 0
}

// check: what a quorum of votes chose is the best of the candidates among it.
func (c *chaos) check(nd *node, b Batch) {
	k := nd.core
	if b.Decided == nil || k.look.Campaign || k.look.Successor != 0 {
		return
	}
	l := b.Decided.Leader
	if h := k.latest[l]; l != nd.id && h != nil && h.n.State == zab.Leading {
		return // told, not chosen
	}
	quorum := func(id zab.ServerID) bool {
		if id == nd.id {
			return true
		}
		n, ok := k.vote(id)
		return ok && n.Vote.Leader == l
	}
	if !k.verifier.Quorum(quorum) {
		c.err = fmt.Errorf("%d decided %d without a quorum", nd.id, l)
	}
	for _, v := range k.verifier.Voters() {
		if !quorum(v) || k.verifier.Weight(v) == 0 {
			continue
		}
		n := k.proposal
		if v != nd.id {
			n = k.latest[v].n.Vote
		}
		if better(n, k.proposal) {
			c.err = fmt.Errorf("%d decided %v, yet %d says %v", nd.id, k.proposal, v, n)
		}
		o := c.nodes[v]
		if o.core != nil && o.core.Round() == k.round && o.core.Looking() && better(candidate(o.core.look, v), k.proposal) {
			c.err = fmt.Errorf("%d decided %v, yet %d has %v", nd.id, k.proposal, v, candidate(o.core.look, v))
		}
	}
	if k.verifier.Weight(l) == 0 {
		c.err = fmt.Errorf("%d decided %d of weight zero", nd.id, l)
	}
}

// converged names the leader that all follow, settled.
func (c *chaos) converged() zab.ServerID {
	l := c.nodes[c.ids[0]].core.settled.Leader
	for _, id := range c.ids {
		if s := c.nodes[id].core.settled; s.Leader == 0 || s.Leader != l || s != c.nodes[l].core.settled {
			return 0
		}
	}
	return l
}

// TestPartial: links of some pairs never work. As long as a quorum of voters can all talk with each other, somebody
// serves with a quorum. The election does not promise that (those outside the quorum may lead it astray for ever), but
// nine graphs in ten must end well.
func TestPartial(t *testing.T) {
	vain := 0
	for i := range *seeds / 2 {
		seed := *firstSeed + uint64(i)
		r := rand.New(rand.NewPCG(seed, 0xa11))
		c := &chaos{r: r, seed: seed, pauses: map[zab.ServerID]int{}, blocked: map[[2]zab.ServerID]bool{}}
		var ms []zab.Member
		voters := 3 + 2*r.IntN(3)
		for id := range voters {
			ms = append(ms, zab.Member{ID: zab.ServerID(id + 1), Weight: 1})
		}
		c.net = newNet(ms, Options{}, seed)
		c.onStep = c.check
		order := r.Perm(voters)
		inside := map[zab.ServerID]bool{}
		for _, x := range order[:voters/2+1] {
			inside[zab.ServerID(x+1)] = true
		}
		for _, x := range c.ids {
			c.nodes[x].disk.Last = zab.MakeZxid(1, uint32(r.IntN(3)))
			for _, y := range c.ids {
				if x < y && !(inside[x] && inside[y]) && r.IntN(2) == 0 {
					c.blocked[pair(x, y)] = true
				}
			}
		}
		for _, x := range c.ids {
			c.boot(x)
		}
		served := false
		for range 1000 {
			c.advance(false)
			for _, x := range c.ids {
				served = served || c.nodes[x].core.settled.Leader == x
			}
			if c.err != nil {
				t.Fatalf("seed %d: %v", seed, c.err)
			}
			if served {
				break
			}
		}
		if !served {
			c.log = nil
			c.state()
			vain++
			t.Logf("seed %d: nobody serves: %v, blocked %v", seed, c.log, c.blocked)
		}
	}
	if vain*10 > *seeds/2 {
		t.Errorf("%d of %d graphs without a leader", vain, *seeds/2)
	}
}
