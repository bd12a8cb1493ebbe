package zab

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// TestExplore runs seeded random schedules of everything that can happen around three and five cores, checks the
// invariants at each step, then heals the faults and wants progress (L1). About ten seconds, or ZAB_SEEDS schedules (from
// ZAB_FROM on), or the one that ZAB_SEED names, with its story.
func TestExplore(t *testing.T) {
	if s := os.Getenv("ZAB_SEED"); s != "" {
		seed, err := strconv.ParseUint(s, 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		x := explore(seed, true)
		t.Log(x.c.out.String())
		if err := x.err; err != "" {
			t.Fatal(err)
		}
		return
	}
	count, until := 1<<30, time.Now().Add(10*time.Second)
	first := uint64(time.Now().UnixNano()) % 1e9
	if s := os.Getenv("ZAB_FROM"); s != "" {
		first, _ = strconv.ParseUint(s, 10, 64)
	}
	if s := os.Getenv("ZAB_SEEDS"); s != "" {
		count, _ = strconv.Atoi(s)
		until = time.Now().Add(24 * time.Hour)
	}
	if testing.Short() {
		until = time.Now().Add(2 * time.Second)
	}
	ran, failed := 0, 0
	total := map[string]int{}
	for ; ran < count && time.Now().Before(until); ran++ {
		x := explore(first+uint64(ran), false)
		if x.err != "" {
			t.Errorf("ZAB_SEED=%d: %s", x.seed, x.err)
			if failed++; failed >= 5 {
				break
			}
		}
		for k, v := range x.saw {
			total[k] += v
		}
	}
	var saw []string
	for k, v := range total {
		saw = append(saw, fmt.Sprintf("%s=%d", k, v))
	}
	slices.Sort(saw)
	t.Logf("%d schedules from seed %d: %s", ran, first, strings.Join(saw, " "))
}

// The same inputs give the same outputs, to the byte.
func TestDeterminism(t *testing.T) {
	for seed := range uint64(20) {
		a, b := explore(seed, true), explore(seed, true)
		if a.err != "" || a.c.out.String() != b.c.out.String() || a.c.out.Len() < 1000 {
			t.Fatalf("seed %d: two runs differ, or failed: %s", seed, a.err)
		}
	}
}

type explorer struct {
	c     *cluster
	seed  uint64
	err   string
	saw   map[string]int
	split map[[2]ServerID]bool // pairs that may not connect
	syncs uint64
	stall map[ServerID]time.Duration // paused processes
	wild  bool                       // wipes and damage too
	// cutting runs cut their logs eagerly, so that snapshots are frequent.
	cutting bool
}

func explore(seed uint64, trace bool) *explorer { return schedule(seed, trace, nil) }

// watch lets somebody else step the cores.
func watch(seed uint64, w func(n *node, in Input, take func())) *explorer {
	return schedule(seed, false, w)
}

func schedule(seed uint64, trace bool, w func(*node, Input, func())) (x *explorer) {
	x = &explorer{seed: seed, saw: map[string]int{}, split: map[[2]ServerID]bool{}, stall: map[ServerID]time.Duration{}}
	defer func() {
		if r := recover(); r != nil {
			x.err = fmt.Sprintf("panic: %v", r)
			if trace {
				panic(fmt.Sprintf("%v\n%s", r, x.c.out.String()))
			}
		}
	}()
	x.c = newCluster(nil, Options{}, seed)
	r := x.c.rand
	n := []int{3, 3, 3, 5}[r.IntN(4)]
	ms := voters(n)
	for range r.IntN(2) {
		ms = append(ms, Member{ID: ServerID(len(ms) + 1), Observer: true})
	}
	if n == 5 && r.IntN(4) == 0 {
		for i := range ms {
			ms[i].Group, ms[i].Weight = uint64(i/2+1), 1
		}
	}
	o := Options{InitLimit: 2 * time.Second, SyncLimit: time.Second, SilenceLimit: 400 * time.Millisecond, Heartbeat: 50 * time.Millisecond}
	o.RunBytes, o.Window = 200+r.IntN(400), 400+r.IntN(2000)
	if r.IntN(3) == 0 {
		o.CounterLimit = uint32(5 + r.IntN(30))
	}
	x.wild = r.IntN(2) == 0
	x.c = newCluster(ms, o, seed)
	x.c.trace, x.c.watch = trace, w
	x.c.lazy = r.IntN(2) == 0
	x.cutting = r.IntN(2) == 0
	for _, id := range x.c.ids {
		if err := x.c.start(x.c.nodes[id]); err != nil {
			x.err = err.Error()
			return x
		}
	}
	steps := 400 + r.IntN(1600)
	for i := 0; i < steps && x.ok(); i++ {
		x.event()
	}
	if x.ok() {
		x.heal()
	}
	x.ok()
	x.saw["installs"] = x.c.installs
	return x
}

func (x *explorer) ok() bool {
	if len(x.c.faults) > 0 && x.err == "" {
		x.err = strings.Join(x.c.faults, "; ")
	}
	for _, id := range x.c.ids {
		if d := x.c.nodes[id].dead; d != "" && x.err == "" {
			x.err = fmt.Sprintf("server %d stopped for the operator: %s", id, d)
		}
	}
	if x.err == "" && strings.Contains(x.c.out.String(), "ALARM") {
		x.err = "an alarm"
	}
	if !x.c.trace {
		x.c.out.Reset()
	}
	return x.err == ""
}

func (x *explorer) say(format string, args ...any) {
	if x.c.trace {
		x.c.logf("* "+format, args...)
	}
}

func (x *explorer) node(up bool) *node {
	r := x.c.rand
	for range 20 {
		if n := x.c.nodes[x.c.ids[r.IntN(len(x.c.ids))]]; n.up == up {
			return n
		}
	}
	return nil
}

func (x *explorer) pair() (a, b ServerID) {
	r := x.c.rand
	a = x.c.ids[r.IntN(len(x.c.ids))]
	for b = a; b == a; {
		b = x.c.ids[r.IntN(len(x.c.ids))]
	}
	return a, b
}

// event lets one thing happen.
func (x *explorer) event() {
	c, r := x.c, x.c.rand
	n := x.node(true)
	if n == nil {
		x.restart(x.node(false))
		return
	}
	switch p := r.IntN(1000); {
	case p < 420: // a burst on one link
		a, b := x.pair()
		for k := r.IntN(8); k >= 0; k-- {
			c.receive(a, b)
		}
	case p < 560:
		if len(n.queue) > 0 {
			upto := n.queue[r.IntN(len(n.queue))].op.Seq
			x.say("sync %d upto %d", n.id, upto)
			n.sync(upto)
		}
	case p < 620:
		n.apply(1 + r.IntN(6))
	case p < 660 || x.cutting && p < 670:
		n.answerReads()
		n.offerSnapshots(func(low, applied Zxid) Zxid {
			zs := []Zxid{applied}
			for _, e := range n.tree {
				if e.Zxid >= max(low, n.issued.base) {
					zs = append(zs, e.Zxid)
				}
			}
			return zs[r.IntN(len(zs))]
		})
	case p < 700:
		if len(c.moves) > 0 {
			x.saw["snapshot"]++
			c.move(c.moves[r.IntN(len(c.moves))], r.IntN(5) > 0)
		}
	case p < 780:
		x.time(10 * time.Millisecond)
	case p < 830:
		x.electSome()
	case p < 900:
		for _, id := range c.ids {
			if c.propose(c.nodes[id], 1+r.IntN(5)) {
				x.say("propose at %d", id)
				x.saw["proposed"]++
			}
		}
	case p < 910:
		x.syncs++
		x.say("sync read %d at %d", x.syncs, n.id)
		c.askSync(n, x.syncs)
	case p < 935 || x.cutting && p < 960:
		n.flushState()
		if x.cutting || r.IntN(3) == 0 {
			n.cutLog(n.core.Committed()-Zxid(r.IntN(6)), r.IntN(4) == 0)
		}
	default:
		x.fault(n)
	}
}

// fault breaks or mends something.
func (x *explorer) fault(n *node) {
	c, r := x.c, x.c.rand
	a, b := x.pair()
	switch p := r.IntN(100); {
	case p < 12:
		keep := r.IntN(len(n.queue) + 1)
		x.say("crash %d keeping %d of %d", n.id, keep, len(n.queue))
		x.saw["crash"]++
		c.crash(n, keep)
	case p < 36:
		x.restart(x.node(false))
	case p < 40:
		x.say("cut %d-%d", a, b)
		c.disconnect(a, b)
	case p < 44:
		x.say("relink %d-%d", a, b)
		c.relink(a, b)
	case p < 50:
		x.say("split %d-%d", a, b)
		x.split[[2]ServerID{min(a, b), max(a, b)}] = true
		c.disconnect(a, b)
	case p < 56:
		x.say("mend")
		clear(x.split)
	case p < 60:
		c.links[[2]ServerID{a, b}].blocked = true
	case p < 66:
		for _, l := range c.links {
			l.blocked = false
		}
	case p < 72:
		x.saw["handover"]++
		x.say("hand over %d", n.id)
		n.step(HandOver{})
	case p < 75:
		x.say("step down %d", n.id)
		n.step(StepDown{ReasonStopping})
	case p < 80:
		x.stall[n.id] += time.Duration(10*(1+r.IntN(80))) * time.Millisecond
	default:
		for range 3 {
			a, b := x.pair()
			if !x.split[[2]ServerID{min(a, b), max(a, b)}] {
				c.connect(a, b)
			}
		}
	}
}

// restart starts a stopped server, now and then with a lost or damaged disk.
func (x *explorer) restart(n *node) {
	if n == nil {
		return
	}
	c, r := x.c, x.c.rand
	// A quorum must not lose its disks; a voter that has never joined counts as lost (I6).
	lost := 0
	for _, id := range c.ids {
		if m, _ := (&Core{members: c.members}).member(id); !m.Observer && (c.nodes[id].disk.ensemble == 0 || c.nodes[id].disk.ensemble != c.ghost.ensemble || c.nodes[id].disk.needSnap) {
			lost++
		}
	}
	voters := len(NewVerifier(c.members).Voters())
	_, grouped := NewVerifier(c.members).(*Hierarchical)
	switch p := r.IntN(20); {
	case x.wild && !grouped && p == 0 && n.disk.ensemble != 0 && lost+1 <= (voters-1)/2:
		x.say("wipe %d", n.id)
		x.saw["wipe"]++
		n.disk = image{}
	case x.wild && !grouped && p < 4 && n.disk.last() > 0 && lost+1 <= (voters-1)/2:
		x.say("damage %d", n.id)
		x.saw["damage"]++
		n.disk.needSnap, n.disk.tree = true, nil
	}
	x.say("restart %d", n.id)
	if err := c.start(n); err != nil {
		c.fault(n, "start: %v", err)
	}
}

// time passes; a stalled process sees it at once later.
func (x *explorer) time(d time.Duration) {
	for _, id := range x.c.ids {
		n := x.c.nodes[id]
		if s := x.stall[id]; s > 0 {
			if x.stall[id] -= d; x.stall[id] <= 0 {
				delete(x.stall, id)
				x.say("stalled %d goes on", id)
				n.tick(d+500*time.Millisecond, 500*time.Millisecond)
			}
			continue
		}
		n.tick(d, 0)
	}
}

// candidate is the best by (current, last) of those that may stand, as the election would find it.
func (x *explorer) candidate(from []*node) ServerID {
	var best *node
	stamped := slices.ContainsFunc(from, func(n *node) bool { return n.core.Ensemble() != 0 && !n.core.observer })
	for _, n := range from {
		c := n.core
		if c.observer || c.NeedSnap() || stamped && c.Ensemble() == 0 || !c.BarrierPassed() {
			continue
		}
		if best == nil || (summary{c.hard.Current, c.last}).ahead(summary{best.core.hard.Current, best.core.last}) {
			best = n
		}
	}
	if best == nil {
		return 0
	}
	return best.id
}

// electSome is an election that may be wrong: of some of those that look, with some of the facts.
func (x *explorer) electSome() {
	c, r := x.c, x.c.rand
	var looking, leading []*node
	for _, id := range c.ids {
		if n := c.nodes[id]; n.up && n.core.Role() == Looking && r.IntN(5) > 0 {
			looking = append(looking, n)
		} else if n.up && n.core.Role() == Leading {
			leading = append(leading, n)
		}
	}
	if len(looking) == 0 {
		return
	}
	leader := x.candidate(looking)
	if next := looking[0].next; next != 0 && r.IntN(2) == 0 {
		leader = next
	}
	if len(leading) > 0 && r.IntN(4) > 0 {
		leader = leading[r.IntN(len(leading))].id
	}
	if r.IntN(8) == 0 {
		leader = looking[r.IntN(len(looking))].id
	}
	if leader == 0 {
		return
	}
	x.say("elect %d", leader)
	x.saw["elected"]++
	for _, n := range looking {
		if r.IntN(10) > 0 {
			n.step(Elected{leader})
		}
	}
}

// heal ends all faults and wants progress within ten seconds.
func (x *explorer) heal() {
	c := x.c
	x.say("heal")
	x.wild = false
	clear(x.split)
	clear(x.stall)
	for _, l := range c.links {
		l.blocked = false
	}
	for round := 0; round < 1000 && x.ok(); round++ {
		for _, id := range c.ids {
			if !c.nodes[id].up {
				x.restart(c.nodes[id])
			}
			for _, b := range c.ids {
				c.connect(id, b)
			}
		}
		c.settle()
		x.time(10 * time.Millisecond)
		c.settle()
		if x.healthy() {
			x.probe()
			return
		}
		var looking []*node
		var leader ServerID
		var leads Epoch
		for _, id := range c.ids {
			switch n := c.nodes[id]; {
			case !n.up:
			case n.core.Role() == Looking:
				looking = append(looking, n)
			case n.core.Role() == Leading && (leader == 0 || n.core.Epoch() > leads):
				leader, leads = id, n.core.Epoch()
			}
		}
		// The election's abandon rule: whoever leads or follows in vain gives up when a quorum looks.
		if leader == 0 {
			leader = x.candidate(looking)
			if v := NewVerifier(c.members); !v.Quorum(func(id ServerID) bool {
				return slices.ContainsFunc(looking, func(n *node) bool { return n.id == id })
			}) {
				leader = 0
			}
		}
		if leader != 0 {
			for _, n := range looking {
				n.step(Elected{leader})
			}
		}
	}
	if x.ok() {
		x.err = "L1: no progress after healing: " + x.states()
	}
}

func (x *explorer) states() string {
	var s []string
	for _, id := range x.c.ids {
		n := x.c.nodes[id]
		if !n.up {
			s = append(s, fmt.Sprintf("%d down", id))
			continue
		}
		st := n.core.Status()
		s = append(s, fmt.Sprintf("%d %v(%d) %s epoch %d hard %v last %s committed %s snap=%v ens=%x", id, st.Role, st.Leader, st.Phase, st.Epoch, st.Hard, zx(st.Last), zx(st.Committed), n.core.NeedSnap(), uint64(st.Ensemble)))
	}
	return strings.Join(s, "; ")
}

func (x *explorer) healthy() bool {
	leaders := 0
	for _, id := range x.c.ids {
		n := x.c.nodes[id]
		if !n.up || !n.serving || n.lease < n.now {
			return false
		}
		if n.core.Role() == Leading {
			leaders++
			if s := n.core.Status(); s.SyncedFollowers+s.SyncedObservers != len(x.c.ids)-1 {
				return false
			}
		}
	}
	return leaders == 1
}

// probe wants a write to be applied everywhere, and a sync to be answered.
func (x *explorer) probe() {
	c := x.c
	for _, id := range c.ids {
		n := c.nodes[id]
		x.syncs++
		c.askSync(n, x.syncs)
		if n.core.Role() == Leading {
			for k := 0; k < 300 && !c.propose(n, 3); k++ {
				x.time(10 * time.Millisecond)
				c.settle()
				if n = c.leaderNode(); n == nil {
					x.heal()
					return
				}
			}
		}
	}
	c.settle()
	want := len(c.ghost.order)
	for _, id := range c.ids {
		n := c.nodes[id]
		if len(n.tree) != want || n.core.Role() != Looking && n.core.Committed() != c.ghost.maxCom {
			x.err = "L1: a probe write did not arrive everywhere: " + x.states()
		}
	}
	x.saw["delivered"] += want
}

func (c *cluster) leaderNode() *node {
	for _, id := range c.ids {
		if n := c.nodes[id]; n.up && n.core.Role() == Leading {
			return n
		}
	}
	return nil
}
