package election

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/zkserver/zkserver/zab"
)

// net is a network of cores: a queue of notifications for each ordered pair that is connected.
type net struct {
	members []zab.Member
	nodes   map[zab.ServerID]*node
	ids     []zab.ServerID
	queues  map[[2]zab.ServerID][]Notification
	linked  map[[2]zab.ServerID]bool // lower id first
	log     []string
	opts    Options
	seed    uint64
	manual  bool // abandonments are not acted upon
	onStep  func(nd *node, b Batch)
}

// node is a server: its disk (disk), its core while it runs, and what it has decided.
type node struct {
	id     zab.ServerID
	core   *Core
	disk   Look
	starts int
	now    time.Duration
	sum    uint64
}

func newNet(members []zab.Member, opts Options, seed uint64) *net {
	t := &net{
		members: members, nodes: make(map[zab.ServerID]*node), opts: opts, seed: seed,
		queues: make(map[[2]zab.ServerID][]Notification), linked: make(map[[2]zab.ServerID]bool),
	}
	for _, m := range members {
		t.nodes[m.ID] = &node{id: m.ID, sum: 7, disk: Look{Last: zab.MakeZxid(1, 5), Current: 1, Ensemble: 9, Transaction: true}}
		t.ids = append(t.ids, m.ID)
	}
	slices.Sort(t.ids)
	return t
}

func (t *net) logf(format string, args ...any) { t.log = append(t.log, fmt.Sprintf(format, args...)) }

func pair(a, b zab.ServerID) [2]zab.ServerID { return [2]zab.ServerID{min(a, b), max(a, b)} }

func (t *net) start(id zab.ServerID) {
	nd := t.nodes[id]
	nd.starts++
	core, err := New(Boot{
		Self: id, Members: t.members, Verifier: zab.NewVerifier(t.members), ConfigSum: nd.sum,
		Rand: rand.New(rand.NewPCG(t.seed, uint64(id)<<32|uint64(nd.starts))), Options: t.opts,
	})
	if err != nil {
		panic(err)
	}
	nd.core = core
	core.Step(Quantum{Now: nd.now})
}

func (t *net) look(id zab.ServerID, change func(*Look)) {
	l := t.nodes[id].disk
	if change != nil {
		change(&l)
	}
	t.step(id, l)
}

func (t *net) step(id zab.ServerID, in Input) {
	nd := t.nodes[id]
	if nd.core == nil {
		return
	}
	nd.core.Step(in)
	t.pump(nd)
}

func (t *net) pump(nd *node) {
	b, ok := nd.core.Ready()
	if !ok {
		return
	}
	if t.onStep != nil {
		t.onStep(nd, b)
	}
	for _, s := range b.Send {
		if t.linked[pair(nd.id, s.To)] {
			k := [2]zab.ServerID{nd.id, s.To}
			t.queues[k] = append(t.queues[k], s.N)
		}
	}
	for _, r := range b.Refused {
		t.logf("%d refuses %d: %s", nd.id, r.Peer, r.Reason)
	}
	if b.Decided != nil {
		t.logf("%d decides %d in round %d", nd.id, b.Decided.Leader, nd.core.Round())
		t.step(nd.id, Chosen{Role: nd.core.role})
	}
	if b.Abandon != zab.ReasonNone {
		t.logf("%d abandons %s", nd.id, b.Abandon)
		if !t.manual {
			t.look(nd.id, nil)
		}
	}
}

func (t *net) connect(a, b zab.ServerID) {
	if t.nodes[a].core == nil || t.nodes[b].core == nil || t.linked[pair(a, b)] {
		return
	}
	t.linked[pair(a, b)] = true
	t.step(a, PeerUp{Peer: b, RTT: time.Millisecond})
	t.step(b, PeerUp{Peer: a, RTT: time.Millisecond})
}

// cut drops what is under way.
func (t *net) cut(a, b zab.ServerID, refused bool) {
	if !t.linked[pair(a, b)] {
		return
	}
	delete(t.linked, pair(a, b))
	delete(t.queues, [2]zab.ServerID{a, b})
	delete(t.queues, [2]zab.ServerID{b, a})
	t.step(a, PeerDown{Peer: b, Refused: refused})
	t.step(b, PeerDown{Peer: a, Refused: refused})
}

func (t *net) crash(id zab.ServerID, refused bool) {
	t.nodes[id].core = nil
	for _, o := range t.ids {
		t.cut(id, o, refused)
	}
}

// deliver hands over at most count notifications of a pair and says how many there were.
func (t *net) deliver(from, to zab.ServerID, count int) int {
	k := [2]zab.ServerID{from, to}
	done := 0
	for ; done < count && len(t.queues[k]) > 0; done++ {
		n := t.queues[k][0]
		t.queues[k] = t.queues[k][1:]
		t.step(to, Received{From: from, N: n})
	}
	return done
}

// quiet delivers everything, round by round, until nothing is under way; no time passes.
func (t *net) quiet() bool {
	for range 1000 {
		moved := 0
		for _, a := range t.ids {
			for _, b := range t.ids {
				moved += t.deliver(a, b, len(t.queues[[2]zab.ServerID{a, b}]))
			}
		}
		if moved == 0 {
			return true
		}
	}
	return false
}

func (t *net) tick(id zab.ServerID, late time.Duration) {
	nd := t.nodes[id]
	nd.now += zab.QuantumLength + late
	t.step(id, Quantum{Now: nd.now, Late: late})
}

// serve settles a leadership if a quorum has chosen it and is connected with it, as the zab core would.
func (t *net) serve(leader zab.ServerID) bool {
	nd := t.nodes[leader]
	follows := func(id zab.ServerID) bool {
		o := t.nodes[id]
		return o.core != nil && o.core.Leader() == leader && (id == leader || t.linked[pair(id, leader)])
	}
	if nd.core == nil || nd.core.Leader() != leader || !zab.NewVerifier(t.members).Quorum(follows) {
		return false
	}
	epoch := nd.disk.Current
	for _, id := range t.ids {
		if follows(id) {
			epoch = max(epoch, t.nodes[id].disk.Current)
		}
	}
	epoch++
	for _, id := range t.ids {
		if !follows(id) {
			continue
		}
		o := t.nodes[id]
		o.disk.Current, o.disk.Last, o.disk.Transaction, o.disk.NeedSnap = epoch, max(nd.disk.Last, o.disk.Last), nd.disk.Transaction, false
		o.disk.Ensemble = nd.disk.Ensemble
		t.settle(id, leader, epoch)
	}
	return true
}

func (t *net) settle(id, leader zab.ServerID, epoch zab.Epoch) {
	nd := t.nodes[id]
	t.step(id, Settled{Role: nd.core.role, Leader: leader, Epoch: epoch, Ensemble: nd.disk.Ensemble})
}

func (n Notification) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s r%d vote %s", roleName(n.State), n.Round, n.Vote)
	if n.Established.Leader != 0 {
		fmt.Fprintf(&b, " serves %d epoch %d", n.Established.Leader, n.Established.Epoch)
	}
	return b.String()
}

func (v Vote) String() string {
	if v.none() {
		return "none"
	}
	return fmt.Sprintf("%d(%d,%d:%d)", v.Leader, v.PeerEpoch, v.Zxid.Epoch(), v.Zxid.Counter())
}

func roleName(r zab.Role) string {
	return [...]string{"looking", "following", "leading", "observing"}[r]
}

func (t *net) state() {
	for _, id := range t.ids {
		nd := t.nodes[id]
		if nd.core == nil {
			t.logf("%d down", id)
			continue
		}
		t.logf("%d %s", id, nd.core.notification())
	}
}
