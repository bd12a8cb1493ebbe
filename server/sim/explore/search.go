package explore

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/zkserver/zkserver/zab"
)

// Explorer visits the states of a world. What nodes, messages and ghosts there are is kept once each, and what a node
// makes of an input is computed once, so that a step of the world costs little more than a few look-ups.
type Explorer struct {
	cfg Config

	nodes    []*node
	nodeOf   map[string]uint32
	nodeHash [][renamings]uint64
	steps    map[uint64]*outcome // by node and input

	messages  []message
	messageOf map[string]uint16

	ghosts    []*ghost
	ghostOf   map[string]uint32
	ghostHash []uint64

	states  [][]zab.Zxid // trees of snapshots
	stateOf map[string]uint8

	perms [renamings][servers]int
	names [renamings]zab.Names
	buf   []byte

	visited *table
	onQuiet func(*world)
	Result  Result
}

type message struct {
	msg  zab.Message
	beat bool
	text string
	hash [renamings]uint64
}

// renamings is the number of permutations of the servers.
const renamings = 6

// Result of a search.
type Result struct {
	States      uint64 // distinct, up to renaming; one that comes again with more left of a budget counts again
	Transitions uint64
	Quiet       uint64 // states in which nothing is under way: from each a healed run made progress
	Nodes       int    // distinct states of one server
	Depth       int
	Took        time.Duration
	Complete    bool     // everything within the bounds was visited
	Fault       string   // the broken invariant, if any
	Trace       []string // the way to it
}

// New makes an explorer of a world.
func New(c Config) *Explorer {
	c.draws = &draws{}
	e := &Explorer{
		cfg: c, nodeOf: map[string]uint32{}, steps: map[uint64]*outcome{}, messageOf: map[string]uint16{},
		ghostOf: map[string]uint32{}, stateOf: map[string]uint8{},
	}
	k := 0
	for a := range servers {
		for b := range servers {
			if b != a {
				e.perms[k] = [servers]int{a, b, servers - a - b}
				e.names[k] = names(e.perms[k])
				e.names[k].Still = c.still()
				k++
			}
		}
	}
	return e
}

func (e *Explorer) intern(n *node) uint32 {
	e.buf = n.dump(e.buf[:0], e.names[0])
	if k, ok := e.nodeOf[string(e.buf)]; ok {
		return k
	}
	k := uint32(len(e.nodes))
	e.nodes = append(e.nodes, n)
	e.nodeOf[string(e.buf)] = k
	var h [renamings]uint64
	for p := range renamings {
		e.buf = n.dump(e.buf[:0], e.names[p])
		h[p] = hash64(e.buf)
	}
	e.nodeHash = append(e.nodeHash, h)
	return k
}

func (e *Explorer) message(m zab.Message) uint16 {
	b := zab.AppendMessage(nil, m, e.names[0])
	if k, ok := e.messageOf[string(b)]; ok {
		return k
	}
	k := len(e.messages)
	if k > 1<<16-1 {
		panic("more distinct messages than the explorer can number")
	}
	e.messageOf[string(b)] = uint16(k)
	x := message{msg: m, text: strings.TrimPrefix(fmt.Sprintf("%T%+v", m, m), "*zab.")}
	switch m.(type) {
	case *zab.Ping, *zab.Pong:
		x.beat = true
	}
	for p := range renamings {
		x.hash[p] = hash64(zab.AppendMessage([]byte("m"), m, e.names[p]))
	}
	e.messages = append(e.messages, x)
	return uint16(k)
}

func (e *Explorer) ghost(g *ghost) uint32 {
	b := g.dump()
	if k, ok := e.ghostOf[string(b)]; ok {
		return k
	}
	k := uint32(len(e.ghosts))
	e.ghostOf[string(b)] = k
	e.ghosts = append(e.ghosts, g)
	e.ghostHash = append(e.ghostHash, hash64(b))
	return k
}

func (e *Explorer) state(tree []zab.Zxid) uint8 {
	key := fmt.Sprint(tree)
	if k, ok := e.stateOf[key]; ok {
		return k
	}
	e.states = append(e.states, tree)
	e.stateOf[key] = uint8(len(e.states) - 1)
	return e.stateOf[key]
}

// stepped is what a node makes of an input.
func (e *Explorer) stepped(node uint32, i int, in input) *outcome {
	key := in.key(node)
	if out, ok := e.steps[key]; ok {
		return out
	}
	n, out := e.step(i, e.nodes[node], in)
	if out.fault == "" {
		out.node = e.intern(n)
	}
	e.steps[key] = out
	return out
}

// start is the first state.
func (e *Explorer) start() (world, string) {
	w := world{
		transactions: uint8(e.cfg.Transactions), crashes: uint8(e.cfg.Crashes), cuts: uint8(e.cfg.Cuts),
		elections: uint8(e.cfg.Elections), handOvers: uint8(e.cfg.HandOvers), ticks: uint8(e.cfg.Ticks),
	}
	g := &ghost{}
	for i := range servers {
		n, fault := e.reborn(i, e.cfg.Start[i], 0, 0)
		if fault != "" {
			return w, fault
		}
		n.facts = factsOf(n)
		w.node[i] = e.intern(n)
		g.commit = max(g.commit, n.facts.committed)
		g.remember(&n.disk)
		if len(n.tree) > len(g.order) {
			g.order = n.tree
		}
	}
	w.ghost = e.ghost(g)
	for a := range servers {
		for b := range a {
			if f := e.relink(&w, a, b); f != "" {
				return w, f
			}
		}
	}
	if !e.cfg.Elected {
		return w, ""
	}
	left := w.elections
	for _, x := range []action{{what: doElect, a: 0, b: 1}, {what: doJoin, a: 2, b: 0}} {
		if f := e.do(&w, x); f != "" {
			return w, f
		}
		if f := e.settle(&w); f != "" {
			return w, f
		}
	}
	w.elections = left
	return w, ""
}

// key is the hash of the state without its budgets, the least of those under each renaming of the servers.
func (e *Explorer) key(w *world) uint64 {
	least := ^uint64(0)
	for p := range renamings {
		to := &e.perms[p]
		h := mix(e.ghostHash[w.ghost])
		for i := range servers {
			h += mix(e.nodeHash[w.node[i]][p] + uint64(to[i])*0xbf58476d1ce4e5b9 + uint64(w.deaf>>i&1)<<40)
			for j := range servers {
				q := &w.pipe[i][j]
				if q.n == 0 && w.bulk[i][j] == 0 && w.stale[i]>>j&1 == 0 {
					continue
				}
				at := uint64(w.bulk[i][j])<<8 | uint64(w.stale[i]>>j&1)<<6 | uint64(to[i])<<2 | uint64(to[j])
				x := mix(at + 0x94d049bb133111eb)
				for _, m := range q.msg[:q.n] {
					x = mix(x ^ e.messages[m].hash[p])
				}
				h += x
			}
		}
		least = min(least, h)
	}
	return least
}

func mix(x uint64) uint64 {
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// Bounds of a search; zero means none.
type Bounds struct {
	States   uint64
	Time     time.Duration
	Bytes    uint64 // of the table of visited states
	Progress func(Result)
}

type frame struct {
	w    world
	todo []action
	next int
}

// Deep visits everything, depth first: it needs memory for little more than a hash of each state.
func (e *Explorer) Deep(b Bounds) Result {
	r := &e.Result
	began := time.Now()
	w, fault := e.start()
	if fault != "" {
		r.Fault = fault
		return *r
	}
	e.visited = newTable(b.Bytes / 8)
	e.visited.add(e.key(&w), budget(&w))
	r.States = 1
	stack := []frame{{w: w, todo: e.enabled(&w, nil)}}
	var free [][]action
	for len(stack) > 0 {
		f := &stack[len(stack)-1]
		if f.next == len(f.todo) {
			free = append(free, f.todo[:0])
			stack = stack[:len(stack)-1]
			continue
		}
		x := f.todo[f.next]
		f.next++
		w := f.w
		r.Transitions++
		fault := e.do(&w, x)
		if fault == "" {
			if !e.visited.add(e.key(&w), budget(&w)) {
				continue
			}
			r.States++
			if r.States&(1<<20-1) == 0 {
				r.Took, r.Nodes = time.Since(began), len(e.nodes)
				if b.Progress != nil {
					b.Progress(*r)
				}
			}
			fault = e.look(&w)
		}
		if fault != "" {
			r.Fault = fault
			for k := range stack {
				fr := &stack[k]
				r.Trace = append(r.Trace, e.tell(&fr.w, fr.todo[fr.next-1]))
			}
			r.Trace = append(r.Trace, e.describe(&w))
			break
		}
		if b.States > 0 && r.States >= b.States || e.visited.full() || b.Time > 0 && r.States&1023 == 0 && time.Since(began) > b.Time {
			break
		}
		var todo []action
		if k := len(free); k > 0 {
			todo, free = free[k-1], free[:k-1]
		}
		stack = append(stack, frame{w: w, todo: e.enabled(&w, todo)})
		r.Depth = max(r.Depth, len(stack))
	}
	r.Complete = len(stack) == 0 && r.Fault == ""
	r.Took, r.Nodes = time.Since(began), len(e.nodes)
	return *r
}

// Wide visits states in the order of their distance, so that the way to a fault is a shortest one.
func (e *Explorer) Wide(b Bounds) Result {
	r := &e.Result
	began := time.Now()
	type visit struct {
		w    world
		from int32
		by   action
	}
	w, fault := e.start()
	if fault != "" {
		r.Fault = fault
		return *r
	}
	e.visited = newTable(b.Bytes / 8)
	e.visited.add(e.key(&w), budget(&w))
	all := []visit{{w: w, from: -1}}
	r.States = 1
	var todo []action
	var ends []int
	at := 0
search:
	for ; at < len(all); at++ {
		if at == 0 || len(ends) > 0 && at == ends[len(ends)-1] {
			ends = append(ends, len(all))
			r.Depth = len(ends)
		}
		todo = e.enabled(&all[at].w, todo[:0])
		for _, x := range todo {
			w := all[at].w
			r.Transitions++
			fault := e.do(&w, x)
			if fault == "" {
				if !e.visited.add(e.key(&w), budget(&w)) {
					continue
				}
				r.States++
				fault = e.look(&w)
			}
			if fault != "" {
				r.Fault = fault
				r.Trace = []string{e.describe(&w), e.tell(&all[at].w, x)}
				for k := at; all[k].from >= 0; k = int(all[k].from) {
					r.Trace = append(r.Trace, e.tell(&all[all[k].from].w, all[k].by))
				}
				slices.Reverse(r.Trace)
				break search
			}
			all = append(all, visit{w, int32(at), x})
		}
		if b.States > 0 && r.States >= b.States || e.visited.full() || b.Time > 0 && at&255 == 0 && time.Since(began) > b.Time {
			break
		}
	}
	r.Complete = at == len(all) && r.Fault == ""
	r.Took, r.Nodes = time.Since(began), len(e.nodes)
	return *r
}
