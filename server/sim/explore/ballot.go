package explore

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/zkserver/zkserver/election"
	"github.com/zkserver/zkserver/zab"
)

// Ballot bounds a world of election cores. What the zab core does is told in one event: a leader that a quorum follows
// serves if none of it is ahead.
type Ballot struct {
	Name    string
	Disks   [servers]election.Look
	Crashes int
	Cuts    int
	Ticks   int    // deadlines that pass while something is under way; else they pass when nothing is
	Rounds  uint64 // states with a later round are not followed
	Two     bool   // two notifications may be under way on a link: the newest replaces the second, else the first
}

// voter is one server of a ballot: core and disk. Voters are immutable once interned.
type voter struct {
	core *election.Core
	disk election.Look
	now  time.Duration
	// What became of the last decision, for the checks and the events of the world.
	up      bool
	chosen  int // whom it has chosen, -1 for nobody
	settled bool
	round   uint64
}

// poll is a state of the whole ballot.
type poll struct {
	voter [servers]uint32
	box   [servers][servers][2]uint16 // notifications under way, oldest first; zero: none
	heard [servers][servers]uint16    // the last notification that each has of each
	cut   uint8                       // links that are down, by unordered pair

	crashes, cuts, ticks, settles uint8
}

// Teller explores a ballot.
type Teller struct {
	cfg     Ballot
	voters  []*voter
	voterOf map[string]uint32
	notes   []election.Notification // from 1
	noteOf  map[string]uint16
	memo    map[move]*turn
	visited map[poll]bool
	buf     []byte
	Result  Result
	Late    uint64 // states that were not followed because of their round
}

// move is an input of a voter.
type move struct {
	voter   uint32
	what    string
	a, b    int
	current zab.Epoch
	last    zab.Zxid
}

// turn is what a voter makes of an input.
type turn struct {
	voter uint32
	sends []sent
	fault string
}

// maxSettles bounds how often anybody begins to serve.
const maxSettles = 2

// NewTeller makes an explorer of a ballot.
func NewTeller(b Ballot) *Teller {
	return &Teller{
		cfg: b, voterOf: map[string]uint32{}, notes: make([]election.Notification, 1), noteOf: map[string]uint16{},
		memo: map[move]*turn{}, visited: map[poll]bool{},
	}
}

// steady is a source without chance: no two deadlines meet, since each tick passes them all.
type steady struct{}

func (steady) Uint64() uint64 { return 0x9e3779b97f4a7c15 }

const (
	resend = time.Second
	beat   = 2 * time.Second // passes every deadline
)

func (t *Teller) fresh(i int, disk election.Look, now time.Duration) *voter {
	members := make([]zab.Member, servers)
	for j := range members {
		members[j] = zab.Member{ID: id(j)}
	}
	core, err := election.New(election.Boot{
		Self: id(i), Members: members, Verifier: zab.NewVerifier(members), ConfigSum: zab.ConfigSum(members), Rand: rand.New(steady{}),
		Options: election.Options{ResendMax: resend},
	})
	if err != nil {
		panic(err)
	}
	core.Step(election.Quantum{Now: now})
	return &voter{core: core, disk: disk, now: now, up: true, chosen: -1}
}

func (t *Teller) intern(i int, v *voter) uint32 {
	b := t.buf[:0]
	b = append(b, byte(i), byte(v.chosen+1))
	if v.up {
		b = append(b, 1)
		b = v.core.AppendState(b)
	}
	b = binary.AppendUvarint(b, uint64(v.disk.Last))
	b = binary.AppendUvarint(b, uint64(v.disk.Current))
	b = binary.AppendUvarint(b, uint64(v.disk.Ensemble))
	t.buf = b
	if k, ok := t.voterOf[string(b)]; ok {
		return k
	}
	k := uint32(len(t.voters))
	t.voters = append(t.voters, v)
	t.voterOf[string(b)] = k
	return k
}

func (t *Teller) note(n election.Notification) uint16 {
	b := n.Append(nil)
	if k, ok := t.noteOf[string(b)]; ok {
		return k
	}
	k := uint16(len(t.notes))
	t.notes = append(t.notes, n)
	t.noteOf[string(b)] = k
	return k
}

// step gives a voter an input and lets the host do its part: it tells the core that the role has begun, and looks again
// when the core gives it up.
func (t *Teller) step(p *poll, i int, key move, in func(*voter)) string {
	key.voter = p.voter[i]
	out, ok := t.memo[key]
	if !ok {
		out = t.turn(i, t.voters[p.voter[i]], in)
		t.memo[key] = out
	}
	if out.fault != "" {
		return fmt.Sprintf("%d: %s", i+1, out.fault)
	}
	before := t.at(p, i)
	p.voter[i] = out.voter
	if f := t.judge(p, i, before); f != "" {
		return f
	}
	for _, s := range out.sends {
		if box := &p.box[i][s.to]; t.linked(p, i, s.to) {
			if box[0] == 0 || !t.cfg.Two {
				box[0] = s.msg
			} else {
				box[1] = s.msg
			}
		}
	}
	return ""
}

func (t *Teller) turn(i int, was *voter, in func(*voter)) (out *turn) {
	out = &turn{}
	v := *was
	if v.core != nil {
		v.core = was.core.Clone()
	}
	defer func() {
		if r := recover(); r != nil {
			out.fault = fmt.Sprintf("panic: %v", r)
		}
	}()
	in(&v)
	for v.up && out.fault == "" {
		b, ok := v.core.Ready()
		if !ok {
			break
		}
		for _, s := range b.Send {
			out.sends = append(out.sends, sent{to: int(s.To) - 1, msg: t.note(s.N)})
		}
		for _, r := range b.Refused {
			out.fault = fmt.Sprintf("refuses %d: %s", r.Peer, r.Reason)
		}
		if b.Decided != nil {
			v.chosen, v.settled = int(b.Decided.Leader)-1, false
			role := zab.Following
			if v.chosen == i {
				role = zab.Leading
			}
			v.core.Step(election.Chosen{Role: role})
		}
		if b.Abandon != zab.ReasonNone {
			v.look()
		}
	}
	if v.up {
		v.round = v.core.Round()
	}
	out.voter = t.intern(i, &v)
	return out
}

func (v *voter) look() {
	v.chosen, v.settled = -1, false
	v.core.Step(v.disk)
}

func (t *Teller) at(p *poll, i int) *voter { return t.voters[p.voter[i]] }

func edge(a, b int) uint8 { return 1 << (a + b - 1) }

func (t *Teller) linked(p *poll, a, b int) bool {
	return t.at(p, a).up && t.at(p, b).up && p.cut&edge(a, b) == 0
}

// under: something is under way.
func (p *poll) under() bool { return p.box != [servers][servers][2]uint16{} }

// choice is something that may happen in a ballot.
type choice struct {
	what string
	a, b int
}

func (t *Teller) choices(p *poll) []choice {
	var xs []choice
	under := p.under()
	for a := range servers {
		for b := range servers {
			if p.box[a][b][0] != 0 {
				xs = append(xs, choice{"deliver", a, b})
			}
		}
	}
	for a := range servers {
		v := t.at(p, a)
		if !v.up {
			xs = append(xs, choice{"restart", a, a})
			continue
		}
		if p.crashes > 0 {
			xs = append(xs, choice{"crash", a, a})
		}
		if !under || p.ticks > 0 {
			xs = append(xs, choice{"tick", a, a})
		}
		if v.chosen == a && !v.settled && p.settles < maxSettles {
			for b := range servers {
				if b != a && t.linked(p, a, b) && t.at(p, b).chosen == a {
					xs = append(xs, choice{"serve", a, b})
				}
			}
		}
		if v.chosen >= 0 && v.chosen != a && !v.settled && t.linked(p, a, v.chosen) && t.at(p, v.chosen).settled && t.at(p, v.chosen).chosen == v.chosen {
			xs = append(xs, choice{"join", a, v.chosen})
		}
		// Nobody leads, or nobody follows: the deadline of a role passes.
		if !under && v.chosen >= 0 && t.vain(p, a) {
			xs = append(xs, choice{"give up", a, a})
		}
		for b := range a {
			switch {
			case p.cut&edge(a, b) != 0 && t.at(p, b).up:
				xs = append(xs, choice{"mend", b, a})
			case p.cuts > 0 && t.linked(p, a, b):
				xs = append(xs, choice{"cut", b, a})
			}
		}
	}
	return xs
}

// vain: a leader that no quorum follows, a learner whose leader does not lead.
func (t *Teller) vain(p *poll, a int) bool {
	v := t.at(p, a)
	if v.chosen != a {
		return t.at(p, v.chosen).chosen != v.chosen || !t.linked(p, a, v.chosen)
	}
	for b := range servers {
		if b != a && t.linked(p, a, b) && t.at(p, b).chosen == a {
			return false
		}
	}
	return true
}

func (t *Teller) do(p *poll, x choice) string {
	a, b := x.a, x.b
	switch x.what {
	case "deliver":
		box := &p.box[a][b]
		n := box[0]
		box[0], box[1] = box[1], 0
		p.heard[b][a] = n
		return t.step(p, b, move{what: "deliver", a: a, b: int(n)}, func(v *voter) { v.core.Step(election.Received{From: id(a), N: t.notes[n]}) })
	case "tick":
		if p.ticks > 0 && p.under() {
			p.ticks--
		}
		return t.step(p, a, move{what: "tick"}, func(v *voter) {
			v.now += beat
			v.core.Step(election.Quantum{Now: v.now})
		})
	case "give up":
		return t.step(p, a, move{what: "look"}, (*voter).look)
	case "serve":
		return t.serve(p, a, b)
	case "join":
		leader := t.at(p, b).disk
		return t.step(p, a, move{what: "serve", a: b, current: leader.Current, last: leader.Last}, func(v *voter) { v.settle(b, leader) })
	case "crash":
		p.crashes--
		p.heard[a] = [servers]uint16{}
		f := t.step(p, a, move{what: "crash"}, func(v *voter) { v.up, v.core, v.chosen, v.settled = false, nil, -1, false })
		for j := range servers {
			p.box[a][j], p.box[j][a] = [2]uint16{}, [2]uint16{}
			if j != a && f == "" && t.at(p, j).up {
				f = t.down(p, j, a, true)
			}
		}
		return f
	case "restart":
		f := t.step(p, a, move{what: "restart"}, func(v *voter) {
			*v = *t.fresh(a, v.disk, v.now)
			v.look()
		})
		for j := range servers {
			if j != a && f == "" && t.linked(p, a, j) {
				f = t.connect(p, a, j)
			}
		}
		return f
	case "cut":
		p.cuts--
		p.cut |= edge(a, b)
		p.box[a][b], p.box[b][a] = [2]uint16{}, [2]uint16{}
		if f := t.down(p, a, b, false); f != "" {
			return f
		}
		return t.down(p, b, a, false)
	case "mend":
		p.cut &^= edge(a, b)
		return t.connect(p, a, b)
	}
	return "no such choice"
}

func b2i(b bool) int {
	if b {
		return 1
	}
	return 0
}

// down tells a server that a peer is gone; a learner of it looks again.
func (t *Teller) down(p *poll, i, peer int, refused bool) string {
	p.heard[i][peer] = 0
	return t.step(p, i, move{what: "down", a: peer, b: b2i(refused)}, func(v *voter) {
		v.core.Step(election.PeerDown{Peer: id(peer), Refused: refused})
		if v.chosen == peer {
			v.look()
		}
	})
}

func (t *Teller) connect(p *poll, a, b int) string {
	for _, e := range [2][2]int{{a, b}, {b, a}} {
		if f := t.step(p, e[0], move{what: "up", a: e[1]}, func(v *voter) { v.core.Step(election.PeerUp{Peer: id(e[1])}) }); f != "" {
			return f
		}
	}
	return ""
}

// serve is discovery and synchronization of a leader and one follower.
func (t *Teller) serve(p *poll, a, b int) string {
	l, f := t.at(p, a).disk, t.at(p, b).disk
	if f.Current > l.Current || f.Current == l.Current && f.Last > l.Last {
		return t.step(p, a, move{what: "look"}, (*voter).look)
	}
	p.settles++
	l.Current = max(l.Current, f.Current) + 1
	for _, i := range []int{a, b} {
		if f := t.step(p, i, move{what: "serve", a: a, current: l.Current, last: l.Last}, func(v *voter) { v.settle(a, l) }); f != "" {
			return f
		}
	}
	return ""
}

func (v *voter) settle(leader int, disk election.Look) {
	v.disk.Current, v.disk.Last, v.disk.Ensemble, v.disk.Transaction = disk.Current, disk.Last, disk.Ensemble, disk.Transaction
	role := zab.Following
	if v.disk.Ensemble == 0 {
		v.disk.Ensemble = 1
	}
	if v.chosen = leader; v.core.Leader() == id(leader) {
		v.settled = true
	}
	v.core.Step(election.Settled{Role: v.role(leader, role), Leader: id(leader), Epoch: disk.Current, Ensemble: v.disk.Ensemble})
}

// role: the leader itself leads.
func (v *voter) role(leader int, other zab.Role) zab.Role {
	if v.core.Self() == id(leader) {
		return zab.Leading
	}
	return other
}

// judge checks a decision. Who chooses itself has the vote of another for this round, that counts; who chooses another
// has heard that one stand, and has no better history itself, unless the other serves already.
func (t *Teller) judge(p *poll, i int, before *voter) string {
	v := t.at(p, i)
	if !v.up || v.chosen < 0 || v.chosen == before.chosen {
		return ""
	}
	if v.chosen == i {
		for j := range servers {
			n := &t.notes[p.heard[i][j]]
			if p.heard[i][j] != 0 && n.Vote.Leader == id(i) && n.Round == v.round && n.Ensemble == v.disk.Ensemble {
				return ""
			}
		}
		return fmt.Sprintf("%d chooses itself without the vote of another", i+1)
	}
	n := &t.notes[p.heard[i][v.chosen]]
	if l := n.Established.Leader; p.heard[i][v.chosen] == 0 || l != id(v.chosen) && n.Vote.Leader != id(v.chosen) {
		return fmt.Sprintf("%d chooses %d, which it has not heard stand", i+1, v.chosen+1)
	}
	l := t.at(p, v.chosen)
	if n.Established.Leader == 0 && l.up && !l.settled &&
		(v.disk.Current > l.disk.Current || v.disk.Current == l.disk.Current && v.disk.Last > l.disk.Last) {
		return fmt.Sprintf("%d chooses %d, whose history is behind its own", i+1, v.chosen+1)
	}
	return ""
}

// Run visits everything: the newest first, which soon ends elections, or in the order of distance, which shows shortest
// ways to a fault.
func (t *Teller) Run(b Bounds, newest bool) Result {
	r := &t.Result
	began := time.Now()
	type visit struct {
		p    poll
		from int
		by   choice
	}
	var p poll
	p.crashes, p.cuts, p.ticks = uint8(t.cfg.Crashes), uint8(t.cfg.Cuts), uint8(t.cfg.Ticks)
	for i := range servers {
		v := t.fresh(i, t.cfg.Disks[i], 0)
		p.voter[i] = t.intern(i, v)
	}
	fault := ""
	for i := range servers {
		if fault == "" {
			fault = t.step(&p, i, move{what: "look"}, (*voter).look)
		}
		for j := range i {
			if fault == "" {
				fault = t.connect(&p, j, i)
			}
		}
	}
	all := []visit{{p: p, from: -1}}
	t.visited[p] = true
	r.States = 1
	next := []int{0} // those to follow
	for len(next) > 0 && fault == "" {
		at := next[0]
		if newest {
			at = next[len(next)-1]
			next = next[:len(next)-1]
		} else {
			next = next[1:]
		}
		for _, x := range t.choices(&all[at].p) {
			to := all[at].p
			r.Transitions++
			fault = t.do(&to, x)
			if fault == "" {
				if t.visited[to] {
					continue
				}
				t.visited[to] = true
				r.States++
				if len(t.choices(&to)) == 0 {
					fault = "nothing can happen any more"
				}
				if fault == "" && t.late(&to) {
					t.Late++
					continue
				}
				if fault == "" && !to.under() {
					r.Quiet++
					fault = t.converges(to)
				}
			}
			if fault != "" {
				r.Fault = fault
				r.Trace = []string{t.describe(&to), t.tell(&all[at].p, x)}
				for k := at; all[k].from >= 0; k = all[k].from {
					r.Trace = append(r.Trace, t.tell(&all[all[k].from].p, all[k].by))
				}
				slices.Reverse(r.Trace)
				break
			}
			next = append(next, len(all))
			all = append(all, visit{to, at, x})
		}
		if b.States > 0 && r.States >= b.States || b.Time > 0 && time.Since(began) > b.Time {
			break
		}
	}
	r.Fault = fault
	r.Complete = len(next) == 0 && fault == ""
	r.Took, r.Nodes = time.Since(began), len(t.voters)
	return *r
}

func (t *Teller) late(p *poll) bool {
	for i := range servers {
		if t.at(p, i).round > t.cfg.Rounds {
			return true
		}
	}
	return false
}

// converges: without further faults everybody soon follows one leader that serves.
func (t *Teller) converges(p poll) string {
	p.ticks = 255
	for range 60 {
		for range 1000 {
			xs := t.choices(&p)
			k := slices.IndexFunc(xs, func(x choice) bool { return x.what == "deliver" || x.what == "restart" || x.what == "mend" })
			if k < 0 {
				break
			}
			if f := t.do(&p, xs[k]); f != "" {
				return f
			}
		}
		done := true
		for i := range servers {
			v := t.at(&p, i)
			done = done && v.settled && v.chosen == t.at(&p, 0).chosen
		}
		if done {
			return ""
		}
		p.settles, p.ticks = 0, 255
		for _, what := range []string{"serve", "join", "give up", "tick"} {
			some := false
			for _, x := range t.choices(&p) {
				if x.what == what && (what == "tick" || !some) {
					some = true
					if f := t.do(&p, x); f != "" {
						return f
					}
				}
			}
			if some {
				break
			}
		}
	}
	return "no convergence, though all is healed:\n" + t.describe(&p)
}

func (t *Teller) tell(p *poll, x choice) string {
	s := fmt.Sprintf("%s %d", x.what, x.a+1)
	if x.b != x.a {
		s += fmt.Sprintf("-%d", x.b+1)
	}
	if x.what == "deliver" {
		s += fmt.Sprintf(" %+v", t.notes[p.box[x.a][x.b][0]])
	}
	return s
}

func (t *Teller) describe(p *poll) string {
	var s []string
	for i := range servers {
		v := t.at(p, i)
		s = append(s, fmt.Sprintf("  %d: up %v, round %d, chosen %d, serves %v, disk %d %s", i+1, v.up, v.round, v.chosen+1, v.settled, v.disk.Current, zx(v.disk.Last)))
	}
	return strings.Join(s, "\n")
}

// Ballots are small worlds of elections.
func Ballots() []Ballot {
	vote := func(current zab.Epoch, last zab.Zxid) election.Look {
		return election.Look{Last: last, Current: current, Ensemble: 1, Transaction: last > 0}
	}
	// The best by epoch has the lowest zxid, and the best by id is the worst by both.
	mixed := [servers]election.Look{vote(3, z(1, 2)), vote(2, z(2, 1)), vote(1, z(1, 1))}
	same := [servers]election.Look{vote(1, z(1, 1)), vote(1, z(1, 1)), vote(1, z(1, 1))}
	blank := [servers]election.Look{vote(2, z(2, 1)), vote(1, z(1, 1)), {}}
	return []Ballot{
		{Name: "calm votes", Disks: mixed, Ticks: 1, Rounds: 2},
		{Name: "equal votes", Disks: same, Ticks: 1, Rounds: 2},
		{Name: "a blank voter", Disks: blank, Ticks: 1, Rounds: 2},
		{Name: "a voter crashes", Disks: mixed, Crashes: 1, Rounds: 3},
		{Name: "a link breaks", Disks: mixed, Cuts: 1, Rounds: 3},
	}
}
