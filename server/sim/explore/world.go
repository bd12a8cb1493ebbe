package explore

import (
	"fmt"
	"math/bits"
	"slices"

	"github.com/zkserver/zkserver/zab"
)

// Config bounds a world.
type Config struct {
	Name         string
	Transactions int
	Crashes      int  // with an immediate restart: one that stays down is one that nobody elects
	Cuts         int  // links that break and come back, or all links of the leader at once
	Elections    int  // of a leader and its first follower. Others join at any time
	Best         bool // the leader is the better of the two, as votes have it; else any
	HandOvers    int
	CounterLimit uint32 // of transactions in an epoch; zero: none
	Start        [servers]disk
	Elected      bool // begin with a leader that both others follow

	// Whole lists every event in every state. Else a server that does not lead takes what its leader has sent, and its
	// disk does what was issued, before anything else happens: nobody but itself could tell the difference. What can
	// come in between is its own crash, and that the rest of what its leader sends is lost (see enabled).
	Whole bool
	// EarlyElections may come before a server's disk has done everything that was issued; the core must wait.
	EarlyElections bool
	// Flush lets a crash find the applied state durable or not.
	Flush bool
	// Runs lets two transactions come as one proposal.
	Runs bool
	// Ticks is how many heartbeats may pass, when nothing is under way: a blank server waits for rounds of pings.
	Ticks int

	draws *draws
}

// still: nothing depends on rounds of pings. They promise nothing and change nothing that others ask for, so there are
// none.
func (c *Config) still() bool { return c.Ticks == 0 && c.HandOvers == 0 }

// world is a state of the whole: three nodes, what is under way between them, what no server knows, and what the
// budgets leave.
type world struct {
	node  [servers]uint32
	ghost uint32
	pipe  [servers][servers]pipe
	bulk  [servers][servers]uint8 // a snapshot on its way: its number in Explorer.states plus one
	stale [servers]uint8          // links that this leader has not noticed to be broken
	deaf  uint8                   // servers that nothing reaches any more from their leader; a fault to come explains it

	transactions, crashes, cuts, elections, handOvers, ticks uint8
}

// pipe is what is on its way from one server to another, in order.
type pipe struct {
	n   uint8
	msg [maxPipe]uint16
}

const maxPipe = 12

func (p *pipe) push(m uint16) bool {
	if p.n == maxPipe {
		return false
	}
	p.msg[p.n] = m
	p.n++
	return true
}

func (p *pipe) pop() uint16 {
	m := p.msg[0]
	copy(p.msg[:], p.msg[1:p.n])
	p.n--
	p.msg[p.n] = 0
	return m
}

// action is something that may happen in a world.
type action struct {
	what act
	a, b uint8
	arg  uint8
	flag bool
}

type act uint8

const (
	doDeliver act = iota
	doPersist
	doNotice
	doDeafen
	doSnapshot
	doElect
	doJoin
	doPropose
	doStepDown
	doCrash
	doCut
	doIsolate
	doHandOver
	doTick
)

func (e *Explorer) facts(w *world, i int) *facts { return &e.nodes[w.node[i]].facts }

// linked: what is sent from a to b arrives.
func (w *world) linked(a, b int) bool { return w.stale[a]>>b&1 == 0 && w.stale[b]>>a&1 == 0 }

// do lets an action happen. Where there are pings, they and their answers arrive at once when it is their turn.
func (e *Explorer) do(w *world, x action) string {
	fault := e.act(w, x)
	for moved := true; moved && fault == ""; {
		moved = false
		for a := range servers {
			for b := range servers {
				for w.pipe[a][b].n > 0 && e.messages[w.pipe[a][b].msg[0]].beat && fault == "" {
					m := w.pipe[a][b].pop()
					fault = e.input(w, b, input{kind: deliver, peer: a, arg: int(m)})
					moved = true
				}
			}
		}
	}
	return fault
}

func (e *Explorer) act(w *world, x action) string {
	a, b := int(x.a), int(x.b)
	switch x.what {
	case doDeliver:
		m := w.pipe[a][b].pop()
		return e.input(w, b, input{kind: deliver, peer: a, arg: int(m)})
	case doPersist:
		return e.input(w, a, input{kind: persist})
	case doDeafen:
		w.deaf |= 1 << a
		w.pipe[b][a] = pipe{}
	case doNotice:
		w.stale[a] &^= 1 << b
		w.pipe[b][a] = pipe{}
		if f := e.input(w, a, input{kind: linkDown, peer: b}); f != "" {
			return f
		}
		return e.relink(w, a, b)
	case doSnapshot:
		k := int(w.bulk[a][b]) - 1
		w.bulk[a][b] = 0
		if f := e.input(w, b, input{kind: snapshot, peer: a, arg: k}); f != "" {
			return f
		}
		return e.input(w, a, input{kind: snapshotSent, peer: b})
	case doElect:
		w.elections--
		if f := e.input(w, a, input{kind: elected, peer: a}); f != "" {
			return f
		}
		return e.input(w, b, input{kind: elected, peer: a})
	case doJoin:
		return e.input(w, a, input{kind: elected, peer: b})
	case doPropose:
		w.transactions -= x.arg
		return e.input(w, a, input{kind: propose, arg: int(x.arg)})
	case doStepDown:
		return e.input(w, a, input{kind: stepDown})
	case doHandOver:
		w.handOvers--
		return e.input(w, a, input{kind: handOver})
	case doTick:
		w.ticks--
		return e.input(w, a, input{kind: tick})
	case doCrash:
		w.crashes--
		for j := range servers {
			w.pipe[j][a], w.bulk[a][j], w.bulk[j][a] = pipe{}, 0, 0
		}
		w.stale[a] = 0
		w.deaf &^= 1 << a
		if f := e.input(w, a, input{kind: crash, arg: int(x.arg), flag: x.flag}); f != "" {
			return f
		}
		for j := range servers {
			if j == a {
				continue
			}
			if f := e.lose(w, j, a); f != "" {
				return f
			}
			if f := e.relink(w, a, j); f != "" {
				return f
			}
		}
	case doCut:
		w.cuts--
		return e.cut(w, a, b)
	case doIsolate:
		w.cuts--
		for j := range servers {
			if j != a && w.linked(a, j) {
				if f := e.cut(w, a, j); f != "" {
					return f
				}
			}
		}
	}
	return ""
}

// cut breaks a link. What is under way to a learner is lost; had it arrived, the learner would have taken it before.
func (e *Explorer) cut(w *world, a, b int) string {
	w.bulk[a][b], w.bulk[b][a] = 0, 0
	if f := e.lose(w, a, b); f != "" {
		return f
	}
	if f := e.lose(w, b, a); f != "" {
		return f
	}
	return e.relink(w, a, b)
}

// lose tells a server that its link with a peer is gone. A leader may hear of it later than it happens, and until then
// goes on with that learner and takes what it has sent; for a learner that makes no difference, as nothing comes in
// between.
func (e *Explorer) lose(w *world, i, peer int) string {
	if w.stale[i]>>peer&1 == 1 {
		return "" // it has not noticed the last time either
	}
	f := e.facts(w, i)
	if f.role == zab.Leading && f.learners>>peer&1 == 1 {
		w.stale[i] |= 1 << peer
		return ""
	}
	w.pipe[peer][i] = pipe{}
	if f.role == zab.Following && f.leader == peer {
		w.deaf &^= 1 << i
	}
	return e.input(w, i, input{kind: linkDown, peer: peer})
}

// relink connects two servers again once both know that the last link is gone. A link that nobody uses has no effect,
// so one that comes back late is one that is used late.
func (e *Explorer) relink(w *world, a, b int) string {
	if !w.linked(a, b) {
		return ""
	}
	if f := e.input(w, a, input{kind: linkUp, peer: b}); f != "" {
		return f
	}
	return e.input(w, b, input{kind: linkUp, peer: a})
}

// unheard: what a sends is lost on the way to b, who has become deaf to it.
func (e *Explorer) unheard(w *world, a, b int) bool {
	return w.deaf>>b&1 == 1 && e.facts(w, b).leader == a
}

// input steps a node and performs what comes of it.
func (e *Explorer) input(w *world, i int, in input) string {
	out := e.stepped(w.node[i], i, in)
	if out.fault != "" {
		return fmt.Sprintf("%d: %s", i+1, out.fault)
	}
	if out.node != w.node[i] {
		if f := e.observe(w, i, e.nodes[w.node[i]], e.nodes[out.node], in.kind == crash); f != "" {
			return f
		}
		w.node[i] = out.node
	}
	for _, s := range out.sends {
		if w.linked(i, s.to) && !e.unheard(w, i, s.to) && out.cuts>>s.to&1 == 0 && !w.pipe[i][s.to].push(s.msg) {
			return "a link holds more messages than the explorer has room for"
		}
	}
	for _, s := range out.streams {
		if w.linked(i, s.to) && !e.unheard(w, i, s.to) {
			w.bulk[i][s.to] = e.state(e.nodes[w.node[i]].tree[:s.n]) + 1
		}
	}
	for j := range servers {
		if out.cuts>>j&1 == 0 {
			continue
		}
		w.stale[i] &^= 1 << j
		w.pipe[j][i], w.bulk[i][j], w.bulk[j][i] = pipe{}, 0, 0
		if f := e.lose(w, j, i); f != "" {
			return f
		}
		if f := e.relink(w, i, j); f != "" {
			return f
		}
	}
	return ""
}

// quiet: nothing is under way between two servers, and their disks are done.
func (e *Explorer) quiet(w *world, a, b int) bool {
	return w.pipe[a][b].n == 0 && w.pipe[b][a].n == 0 && w.bulk[a][b] == 0 && w.bulk[b][a] == 0 &&
		e.facts(w, a).barrier && e.facts(w, b).barrier
}

// moves lists what is under way: it happens without anybody's doing.
func (e *Explorer) moves(w *world, xs []action) []action {
	for a := range servers {
		if len(e.nodes[w.node[a]].queue) > 0 {
			xs = append(xs, action{what: doPersist, a: uint8(a)})
		}
		for b := range servers {
			if w.pipe[a][b].n > 0 {
				xs = append(xs, action{what: doDeliver, a: uint8(a), b: uint8(b)})
			}
			if w.bulk[a][b] > 0 {
				xs = append(xs, action{what: doSnapshot, a: uint8(a), b: uint8(b)})
			}
			if w.stale[a]>>b&1 == 1 {
				xs = append(xs, action{what: doNotice, a: uint8(a), b: uint8(b)})
			}
		}
	}
	return xs
}

// timeouts lists the roles that a deadline would end: a leader that no quorum talks with, one that comes no further, a
// learner that comes no further.
func (e *Explorer) timeouts(w *world, xs []action) []action {
	for a := range servers {
		f := e.facts(w, a)
		ends := false
		switch f.role {
		case zab.Leading:
			ends = true
			alone := f.alive == 0
			for b := range servers {
				if b == a {
					continue
				}
				if alone {
					ends = ends && w.pipe[b][a].n == 0
				} else {
					ends = ends && f.phase != "established" && f.phase != "serving" && e.quiet(w, a, b)
				}
			}
		case zab.Following:
			ends = f.phase != "up to date" && f.phase != "serving" && w.deaf>>a&1 == 0 && e.quiet(w, a, f.leader) && w.linked(a, f.leader)
		}
		if ends {
			xs = append(xs, action{what: doStepDown, a: uint8(a)})
		}
	}
	return xs
}

// enabled lists what may happen: everything, or a part of it that leaves out nothing but the order of events that are
// independent of each other (a persistent set).
//
// The events of a server that does not lead, with nothing on its way to it but from its leader, are: the next message
// of its leader, the completion of a disk op, its crash. Nobody else's doing comes between them but a fault that loses
// the rest of what its leader has sent. Which part is lost does not depend on when the fault happens, so it is chosen
// when a message would arrive: the server is deaf from then on, and a fault with its leader must follow.
func (e *Explorer) enabled(w *world, xs []action) []action {
	if !e.cfg.Whole {
		for a := range servers {
			if some := e.alone(w, a, xs); len(some) > 0 {
				return some
			}
		}
	}
	xs = e.moves(w, xs)
	xs = e.timeouts(w, xs)
	looking := func(i int) bool {
		f := e.facts(w, i)
		return f.role == zab.Looking && (f.barrier || e.cfg.EarlyElections)
	}
	for a := range servers {
		f := e.facts(w, a)
		for b := range servers {
			if a == b || !w.linked(a, b) {
				continue
			}
			if looking(a) && looking(b) && w.elections > 0 && !(e.cfg.Best && ahead(e.facts(w, b), f)) {
				xs = append(xs, action{what: doElect, a: uint8(a), b: uint8(b)})
			}
			if looking(a) && e.facts(w, b).role == zab.Leading {
				xs = append(xs, action{what: doJoin, a: uint8(a), b: uint8(b)})
			}
			if g := e.facts(w, b); w.cuts > 0 && g.role == zab.Following && g.leader == a && e.mayFail(w, a, b) {
				xs = append(xs, action{what: doCut, a: uint8(a), b: uint8(b)})
			}
		}
		if f.next != 0 && w.transactions > 0 {
			xs = append(xs, action{what: doPropose, a: uint8(a), arg: 1})
			if w.transactions > 1 && e.cfg.Runs {
				xs = append(xs, action{what: doPropose, a: uint8(a), arg: 2})
			}
		}
		if w.handOvers > 0 && f.phase == "serving" && f.role == zab.Leading {
			xs = append(xs, action{what: doHandOver, a: uint8(a)})
		}
		if w.cuts > 0 && f.role == zab.Leading && bits.OnesCount8(f.learners) > 1 && e.mayFail(w, a, a) {
			xs = append(xs, action{what: doIsolate, a: uint8(a)})
		}
		xs = e.crashes(w, a, len(e.nodes[w.node[a]].queue), xs)
	}
	if w.ticks > 0 && len(e.moves(w, nil)) == 0 {
		for a := range servers {
			if e.facts(w, a).role == zab.Leading {
				xs = append(xs, action{what: doTick, a: uint8(a)})
			}
		}
	}
	return xs
}

// alone lists the events of a server that does not lead, if they are a persistent set.
func (e *Explorer) alone(w *world, a int, xs []action) []action {
	f := e.facts(w, a)
	if f.role == zab.Leading {
		return nil
	}
	if k := len(e.nodes[w.node[a]].queue); k > 0 {
		return e.crashes(w, a, k-1, append(xs, action{what: doPersist, a: uint8(a)}))
	}
	if f.role != zab.Following || w.pipe[f.leader][a].n == 0 {
		return nil
	}
	for b := range servers {
		if w.bulk[b][a] > 0 || b != f.leader && w.pipe[b][a].n > 0 {
			return nil
		}
	}
	xs = append(xs, action{what: doDeliver, a: uint8(f.leader), b: uint8(a)})
	if w.crashes+w.cuts > 0 {
		xs = append(xs, action{what: doDeafen, a: uint8(a), b: uint8(f.leader)})
	}
	return e.crashes(w, a, 0, xs)
}

// mayFail keeps the last fault for what must be explained: somebody is deaf to its leader.
func (e *Explorer) mayFail(w *world, a, b int) bool {
	if w.deaf == 0 || w.crashes+w.cuts > 1 {
		return true
	}
	for i := range servers {
		if w.deaf>>i&1 == 1 && (i == a || i == b || e.facts(w, i).leader == a && (b == a || b == i)) {
			return true
		}
	}
	return false
}

// crashes of a server, with each number of ops up to most that the disk may have done.
func (e *Explorer) crashes(w *world, a, most int, xs []action) []action {
	if w.crashes == 0 || !e.mayFail(w, a, a) {
		return xs
	}
	n := e.nodes[w.node[a]]
	for keep := 0; keep <= most; keep++ {
		xs = append(xs, action{what: doCrash, a: uint8(a), arg: uint8(keep)})
		if e.cfg.Flush && len(n.tree) > 0 && n.tree[len(n.tree)-1] > n.disk.commit {
			xs = append(xs, action{what: doCrash, a: uint8(a), arg: uint8(keep), flag: true})
		}
	}
	return xs
}

func (e *Explorer) tell(w *world, x action) string {
	a, b := x.a+1, x.b+1
	switch x.what {
	case doDeliver:
		return fmt.Sprintf("%d->%d %s", a, b, e.messages[w.pipe[x.a][x.b].msg[0]].text)
	case doPersist:
		return fmt.Sprintf("%d: the disk has done %s", a, describeOp(e.nodes[w.node[x.a]].queue[0]))
	case doNotice:
		return fmt.Sprintf("%d notices that %d is gone", a, b)
	case doDeafen:
		return fmt.Sprintf("the rest of what %d has sent to %d will not arrive", b, a)
	case doSnapshot:
		return fmt.Sprintf("%d->%d snapshot", a, b)
	case doElect:
		return fmt.Sprintf("elected: %d leads, %d follows", a, b)
	case doJoin:
		return fmt.Sprintf("%d follows %d", a, b)
	case doPropose:
		return fmt.Sprintf("%d proposes %d from %s on", a, x.arg, zx(e.facts(w, int(x.a)).next))
	case doStepDown:
		return fmt.Sprintf("%d gives up", a)
	case doCrash:
		return fmt.Sprintf("%d crashes keeping %d of %d ops, state flushed: %v, and restarts", a, x.arg, len(e.nodes[w.node[x.a]].queue), x.flag)
	case doCut:
		return fmt.Sprintf("the link %d-%d breaks", a, b)
	case doIsolate:
		return fmt.Sprintf("all links of %d break", a)
	case doHandOver:
		return fmt.Sprintf("%d hands over", a)
	case doTick:
		return fmt.Sprintf("a heartbeat at %d", a)
	}
	return "?"
}

func describeOp(op zab.PersistOp) string {
	s := ""
	if op.Install != nil {
		s += " install " + zx(op.Install.Zxid)
	}
	if op.Truncate != nil {
		s += " truncate to " + zx(*op.Truncate)
	}
	if len(op.Append) > 0 {
		s += " append to " + zx(op.Append[len(op.Append)-1].Zxid)
	}
	if op.Hard != nil {
		s += fmt.Sprintf(" epochs %v", *op.Hard)
	}
	return s
}

// describe shows a world for people.
func (e *Explorer) describe(w *world) string {
	s := ""
	for i := range servers {
		n := e.nodes[w.node[i]]
		f := &n.facts
		s += fmt.Sprintf("  %d: %v %s epoch %d; disk %v base %s %s; %d ops; committed %s, applied %d\n", i+1, f.role, f.phase, f.epoch,
			n.disk.hard, zx(n.disk.base), slices.Collect(texts(n.disk.log)), len(n.queue), zx(f.committed), len(n.tree))
	}
	return s
}

func texts(zs []zab.Zxid) func(func(string) bool) {
	return func(yield func(string) bool) {
		for _, z := range zs {
			if !yield(zx(z)) {
				return
			}
		}
	}
}
