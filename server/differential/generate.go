package differential

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/zkserver/zkserver/proto/jute"
)

// generator makes a program from a seed. It keeps a rough idea of the tree, taking every request for granted, so that
// most requests meet something; where it is wrong, requests fail, which is wanted too.
type generator struct {
	*rand.Rand
	p *Program
	belief
	gone   []string // paths that were deleted
	looked []string // paths without a node that were looked at
	slots  []slotState
	quota  bool // a program about quotas: one write a burst
}

// belief is what the generator takes the tree for.
type belief struct {
	known []string       // paths, oldest first
	made  map[string]int // children made below a path
	vers  map[string]int32
	owner map[string]int // slot of an ephemeral
	acls  map[string]string
	last  string // a path deep down
	wrong bool   // the last request is expected to fail
}

func (b *belief) clone() belief {
	c := *b
	c.known, c.made, c.vers = slices.Clone(b.known), maps.Clone(b.made), maps.Clone(b.vers)
	c.owner, c.acls = maps.Clone(b.owner), maps.Clone(b.acls)
	return c
}

type slotState struct{ connected, open bool }

// Generate makes the program of a seed: about size requests in sessions that clash.
func Generate(seed uint64, size int) *Program {
	g := &generator{Rand: rand.New(rand.NewPCG(seed, 0x5eed)), belief: belief{made: map[string]int{}, vers: map[string]int32{},
		owner: map[string]int{}, acls: map[string]string{}, known: []string{"~"}, last: "~"}}
	g.quota = g.IntN(3) == 0
	g.p = &Program{Seed: seed, Sessions: 3 + g.IntN(2)}
	for range g.p.Sessions {
		g.slots = append(g.slots, slotState{true, true})
	}
	if g.quota {
		g.setQuotas()
	}
	for n := 0; n < size; {
		before := len(g.p.Steps)
		g.step(size - n)
		for _, s := range g.p.Steps[before:] {
			for _, b := range s.Bursts {
				n += len(b.Requests)
			}
		}
	}
	return g.p
}

func (g *generator) add(s Step) { g.p.Steps = append(g.p.Steps, s) }

func (g *generator) burst(slot int, v ...Request) {
	if len(v) > 0 {
		g.add(Step{Kind: Burst, Bursts: []SlotBurst{{Slot: slot, Requests: v}}})
	}
}

func (g *generator) step(room int) {
	slot := g.IntN(len(g.slots))
	if !g.slots[slot].connected {
		g.attach(slot)
		return
	}
	switch n := g.IntN(1000); {
	case n < 70: // several read at once
		g.readTogether()
	case n < 100:
		users := []string{"amy:pw", "amy:pw", "bob:pw", "bob:pw", "carol", "super:test"}
		g.burst(slot, Request{Op: OpName(jute.OpAuth), Path: "digest", Data: pick(g, users)})
	case n < 103:
		g.burst(slot, Request{Op: OpName(jute.OpAuth), Path: "ip", Data: "x"})
	case n < 106:
		bad := []Request{{Path: "nosuch", Data: "x"}, {Path: "digest", NullData: true}, {Null: true, Data: "x"}, {Path: "world", Data: "x"}}
		q := pick(g, bad)
		q.Op = OpName(jute.OpAuth)
		g.burst(slot, q)
		g.slots[slot].connected = false
	case n < 110:
		unknown := []jute.OpCode{13, 13, 13, 13, 13, 0, -1, 23, 99, 108, 1000}
		g.burst(slot, Request{Op: OpName(pick(g, unknown)), Path: "~", Version: -1})
		g.slots[slot].connected = false
	case n < 113:
		g.burst(slot, Request{Op: OpName(jute.OpSASL), Data: "x"})
	case n < 117:
		g.burst(slot, Request{Op: OpName(jute.OpReconfig), Path: "server.9=127.0.0.1:1:2"})
	case n < 147:
		v := append(g.requests(slot, g.IntN(8)), Request{Op: OpName(jute.OpCloseSession)})
		for range g.IntN(3) {
			v = append(v, g.read())
		}
		g.burst(slot, v...)
		g.ended(slot)
	case n < 170:
		g.attach(slot)
	default:
		g.burst(slot, g.requests(slot, min(room, 1+g.IntN(1+g.IntN(12))))...)
	}
}

func (g *generator) readTogether() {
	s := Step{Kind: Burst}
	for slot := range g.slots {
		if !g.slots[slot].connected || len(s.Bursts) > 1 && g.IntN(2) == 0 {
			continue
		}
		b := SlotBurst{Slot: slot}
		for range 1 + g.IntN(4) {
			b.Requests = append(b.Requests, g.read())
		}
		s.Bursts = append(s.Bursts, b)
	}
	g.add(s)
}

// attach gives a session another connection, and mostly its watches.
func (g *generator) attach(slot int) {
	s := Step{Kind: Attach, Slot: slot}
	if g.slots[slot].open && g.IntN(5) == 0 {
		s.Kind = WrongAttach
	}
	g.add(s)
	g.slots[slot] = slotState{true, true}
	if g.IntN(3) > 0 {
		g.burst(slot, g.setWatches())
	}
}

func (g *generator) ended(slot int) {
	g.slots[slot] = slotState{}
	for _, p := range slices.Clone(g.known) {
		if s, ok := g.owner[p]; ok && s == slot {
			g.forget(p)
		}
	}
}

// requests makes a burst for a session within the rules of pipelining.
func (g *generator) requests(slot, n int) []Request {
	var v []Request
	quiet := false // no more writes
	for range n {
		r := g.request(slot)
		if quiet && writes(jute.OpCode(r.Op)) {
			r = g.read()
		}
		v = append(v, r)
		quiet = quiet || r.Op == OpName(jute.OpSetACL) || g.quota && writes(jute.OpCode(r.Op))
	}
	return v
}

func (g *generator) request(slot int) Request {
	if g.quota && g.IntN(12) == 0 {
		return g.quotaRequest()
	}
	switch n := g.IntN(100); {
	case n < 9:
		return g.clash()
	case n < 24:
		return g.malform(func() Request { return g.create(slot) })
	case n < 33:
		return g.malform(g.delete)
	case n < 43:
		return g.malform(g.setData)
	case n < 46:
		return g.malform(g.setACL)
	case n < 72:
		return g.multi(slot)
	default:
		return g.read()
	}
}

// malform spoils a few requests.
func (g *generator) malform(make func() Request) Request {
	was := g.belief.clone()
	r := make()
	rare := r.Op == OpName(jute.OpCreateContainer) || r.Op == OpName(jute.OpCreateTTL)
	if g.IntN(30) == 0 || rare && g.IntN(20) == 0 {
		r.Cut = 1 + g.IntN(5)
		g.belief = was
	}
	return r
}

func (g *generator) read() Request {
	r := Request{Path: g.path(), Watch: g.IntN(2) == 0}
	op := jute.OpExists
	switch n := g.IntN(100); {
	case n < 16:
	case n < 32:
		op = jute.OpGetData
	case n < 42:
		op = jute.OpGetChildren
	case n < 52:
		op = jute.OpGetChildren2
	case n < 60:
		op = jute.OpGetACL
	case n < 66:
		op, r.Ops = jute.OpMultiRead, g.multiRead()
	case n < 67:
		op = jute.OpSync
	case n < 78:
		op, r.Mode = jute.OpAddWatch, int32(g.IntN(2))
		if g.IntN(20) == 0 {
			r.Mode = pick(g, []int32{2, -1})
		}
	case n < 83:
		op, r.Mode = jute.OpRemoveWatches, g.watcherType()
	case n < 87:
		op, r.Mode = jute.OpCheckWatches, g.watcherType()
	case n < 90:
		r = g.malform(g.setWatches)
		if g.IntN(15) == 0 {
			r.Cut = 4
		}
		return r
	case n < 92:
		op = jute.OpGetEphemerals
	case n < 95:
		op = jute.OpGetAllChildrenNumber
	case n < 96:
		return Request{Op: OpName(jute.OpWhoAmI)}
	case n < 98:
		return Request{Op: OpName(jute.OpPing)}
	default:
		op = jute.OpGetData
	}
	r.Op = OpName(op)
	if op == jute.OpSync || op == jute.OpGetEphemerals {
		r.Watch = false
	}
	r.Null = g.IntN(40) == 0
	if (op == jute.OpSync || op == jute.OpGetEphemerals) && g.IntN(6) == 0 {
		r.Cut = 2
		return r
	}
	if op == jute.OpExists && g.IntN(40) == 0 {
		r.Path += "\x00"
	}
	if (op == jute.OpGetAllChildrenNumber || op == jute.OpGetACL) && g.IntN(2) == 0 {
		r.Path = g.denying(pick(g, []int32{jute.PermRead, jute.PermRead, jute.PermAdmin}))
	}
	return g.malform(func() Request { return r })
}

func (g *generator) watcherType() int32 {
	if g.IntN(15) == 0 {
		return pick(g, []int32{0, 6, -1})
	}
	return 1 + int32(g.IntN(5))
}

func (g *generator) multiRead() []Request {
	var v []Request
	for range g.IntN(5) {
		op := pick(g, []jute.OpCode{jute.OpGetData, jute.OpGetData, jute.OpGetChildren})
		if g.IntN(25) == 0 {
			op = pick(g, []jute.OpCode{jute.OpExists, jute.OpCheck, jute.OpSetData})
		}
		r := Request{Op: OpName(op), Path: g.path(), Watch: g.IntN(2) == 0}
		if g.IntN(4) == 0 {
			r.Path = g.denying(jute.PermRead)
		}
		v = append(v, r)
	}
	return v
}

func (g *generator) setWatches() Request {
	r := Request{Op: OpName(pick(g, []jute.OpCode{jute.OpSetWatches, jute.OpSetWatches2})), Rel: int64(g.IntN(len(g.p.Steps)*2 + 2))}
	lists := 3
	if r.Op == OpName(jute.OpSetWatches2) {
		lists = 5
	}
	for i := range lists {
		r.Lists[i] = []string{}
		for range g.IntN(3) {
			r.Lists[i] = append(r.Lists[i], g.path())
		}
	}
	return r
}

func (g *generator) create(slot int) Request {
	parent := g.last
	switch n := g.IntN(20); {
	case n < 11:
		parent = pick(g, g.known)
	case n < 13:
		parent = g.guarded()
	}
	r := Request{Op: OpName(jute.OpCreate), ACL: g.acl(), Path: parent + "/" + g.name()}
	if g.IntN(6) == 0 && len(g.looked) > 0 { // where a watch waits
		r.Path = pick(g, g.looked)
		parent = r.Path[:max(0, strings.LastIndex(r.Path, "/"))]
	}
	g.fill(&r)
	switch n := g.IntN(100); {
	case n < 45:
	case n < 65:
		r.Flags = jute.FlagsEphemeral
	case n < 80:
		r.Flags = jute.FlagsPersistentSequential
	default:
		r.Flags = jute.FlagsEphemeralSequential
	}
	switch n := g.IntN(100); {
	case n < 60:
	case n < 85:
		r.Op = OpName(jute.OpCreate2)
	case n < 92:
		r.Op, r.Flags = OpName(jute.OpCreateContainer), pick(g, []int32{4, 4, 4, 4, 0})
	default:
		r.Op, r.Flags, r.TTL = OpName(jute.OpCreateTTL), pick(g, []int32{5, 6}), pick(g, []int64{1 << 30, 1<<40 - 1})
		if g.IntN(6) == 0 {
			r.TTL = pick(g, []int64{0, -1, 1 << 40})
		}
		if g.IntN(10) == 0 { // a negative time without a TTL flag would end Apache's process
			r.Flags, r.TTL = 0, 1000
		}
	}
	if g.IntN(40) == 0 {
		r.Flags = pick(g, []int32{4, 5, 6, 7, -1})
		if r.Op == OpName(jute.OpCreateTTL) {
			r.Flags = 7
		}
	}
	if seq := r.Flags == 2 || r.Flags == 3 || r.Flags == 6; seq && g.IntN(4) == 0 {
		r.Path = parent + "/"
	}
	if g.IntN(20) == 0 {
		if r.Path = g.oddPath(); strings.HasPrefix(r.Path, "/") {
			r.Flags &^= 2 // no sequential nodes outside the program's root
			if r.Op == OpName(jute.OpCreateTTL) {
				r.Flags = 5
			}
		}
	}
	g.learn(slot, &r, parent)
	return r
}

// learn foresees what a create does.
func (g *generator) learn(slot int, r *Request, parent string) {
	path := r.Path
	_, ephemeral := g.owner[parent]
	op := jute.OpCode(r.Op)
	g.wrong = g.quota && len(g.known) > 6 || !strings.HasPrefix(path, parent+"/") || !slices.Contains(g.known, parent) || ephemeral || refused(r.ACL) || r.Flags < 0 || r.Flags > 6 ||
		!g.allows(parent, jute.PermCreate) || (r.Flags > 4) != (op == jute.OpCreateTTL) || op == jute.OpCreateTTL && (r.TTL < 1 || r.TTL >= 1<<40)
	if g.wrong {
		return
	}
	if r.Flags == 2 || r.Flags == 3 || r.Flags == 6 {
		path += fmt.Sprintf("%010d", g.made[parent])
	}
	if g.wrong = slices.Contains(g.known, path); g.wrong {
		return
	}
	g.made[parent]++
	g.known = append(g.known, path)
	g.vers[path], g.made[path] = 0, 0
	delete(g.owner, path)
	g.acls[path] = r.ACL
	if (r.Flags == 1 || r.Flags == 3) && (op == jute.OpCreate || op == jute.OpCreate2) {
		g.owner[path] = slot
		return
	}
	if g.allows(path, jute.PermCreate) {
		g.last = path
	}
}

// allows reports whether a session without identities of its own has a permission.
func (g *generator) allows(path string, perm int32) bool {
	list, ok := acls[g.acls[path]]
	if !ok {
		return true
	}
	for _, a := range list {
		if a.Perms&perm != 0 && (a.Scheme.Value == "world" || a.Scheme.Value == "ip" && strings.HasPrefix(a.ID.Value, "127")) {
			return true
		}
	}
	return false
}

// refused reports whether an access list is one that no session may set.
func refused(acl string) bool {
	return strings.HasPrefix(acl, "bad-") || strings.HasPrefix(acl, "no-") || acl == "null" || acl == "empty" || acl == "one-bad" || acl == "auth"
}

func (g *generator) forget(path string) {
	g.known = slices.DeleteFunc(g.known, func(p string) bool { return p == path })
	if g.last == path {
		g.last = pick(g, g.known)
	}
	if g.gone = append(g.gone, path); len(g.gone) > 8 {
		g.gone = g.gone[1:]
	}
}

func (g *generator) delete() Request {
	r := Request{Op: OpName(jute.OpDelete), Path: g.path()}
	if g.IntN(3) > 0 { // a leaf
		for range 6 {
			p := pick(g, g.known)
			if !slices.ContainsFunc(g.known, func(k string) bool { return strings.HasPrefix(k, p+"/") }) {
				r.Path = p
				break
			}
		}
	}
	if g.IntN(25) == 0 {
		r.Path = pick(g, []string{"/", "/zookeeper", "/zookeeper/quota", "/zookeeper/config", g.oddPath()})
	}
	if r.Path == "~" || g.quota && strings.HasPrefix("~/q/in", r.Path) {
		r.Path = "~/nothing" // what all the rest stands on stays
	}
	r.Version = g.version(r.Path)
	g.wrong = !slices.Contains(g.known, r.Path) || r.Version != -1 && r.Version != g.vers[r.Path] ||
		!g.allows(r.Path[:max(0, strings.LastIndex(r.Path, "/"))], jute.PermDelete) || slices.ContainsFunc(g.known, func(k string) bool { return strings.HasPrefix(k, r.Path+"/") })
	if !g.wrong {
		g.forget(r.Path)
	}
	return r
}

func (g *generator) setData() Request {
	r := Request{Op: OpName(jute.OpSetData), Path: g.path()}
	g.fill(&r)
	r.Version = g.version(r.Path)
	g.wrong = !slices.Contains(g.known, r.Path) || r.Version != -1 && r.Version != g.vers[r.Path] || !g.allows(r.Path, jute.PermWrite)
	if !g.wrong {
		g.vers[r.Path]++
	}
	return r
}

func (g *generator) setACL() Request {
	r := Request{Op: OpName(jute.OpSetACL), Path: g.path(), ACL: g.acl(), Version: g.Int32N(3) - 1}
	if g.IntN(2) == 0 {
		r.Version = -1
	}
	if g.IntN(5) == 0 {
		r.Path = g.denying(jute.PermAdmin)
	}
	// The root of all and that of the program stay open to every session.
	if !strings.HasPrefix(r.Path, "~/") {
		r.Path = pick(g, []string{"~//x", "~/nothing-here", "rel"})
	}
	if slices.Contains(g.known, r.Path) && !refused(r.ACL) && r.Version == -1 && g.allows(r.Path, jute.PermAdmin) {
		g.acls[r.Path] = r.ACL
	}
	return r
}

// clash is a write that is likely to be refused for one of the rarer reasons.
func (g *generator) clash() Request {
	if g.quota && g.IntN(10) < 8 {
		return g.overQuota()
	}
	r := Request{Op: OpName(jute.OpCreate), Path: pick(g, g.known) + "/new", ACL: "open", Version: -1}
	switch g.IntN(17) {
	case 0, 10:
		r.Path = pick(g, g.known)
	case 1, 2, 11, 12:
		r.Path = g.denying(jute.PermCreate) + "/new"
	case 3, 13:
		r.Path = pick(g, []string{"~//x", "~/.", "~/..", "~/x\x01", "~/\ue000", "rel"})
	case 4:
		r.ACL = pick(g, []string{"empty", "bad-world", "bad-digest", "bad-ip", "bad-scheme", "one-bad", "no-scheme"})
	case 5, 14, 15:
		r.Path = g.ephemeral() + "/new"
	case 6, 7:
		r.Op, r.Path = OpName(jute.OpSetData), g.denying(jute.PermWrite)
		if g.IntN(2) == 0 {
			r.Path = pick(g, []string{"~//x", "rel", "", "~/"})
		}
		return r
	default:
		r.Op, r.Path = OpName(jute.OpDelete), pick(g, []string{"/", "/zookeeper", g.denying(jute.PermDelete) + "/a", g.denying(jute.PermDelete) + "/b", g.denying(jute.PermDelete) + "/c"})
		return r
	}
	return g.anyCreate(r)
}

// denied is a write that an access list forbids.
func (g *generator) denied() Request {
	r := Request{Version: -1, ACL: "open"}
	switch g.IntN(4) {
	case 0:
		r.Op, r.Path = OpName(jute.OpCreate), g.denying(jute.PermCreate)+"/new"
	case 1:
		r.Op, r.Path = OpName(jute.OpCreate2), g.denying(jute.PermCreate)+"/new"
	case 2:
		r.Op, r.Path = OpName(jute.OpDelete), g.denying(jute.PermDelete)+"/new"
	default:
		r.Op, r.Path = OpName(jute.OpSetData), g.denying(jute.PermWrite)
	}
	return r
}

// rarely is a create that is likely to be refused for one of the rarer reasons.
func (g *generator) rarely() Request {
	r := Request{Op: OpName(jute.OpCreate), Path: pick(g, g.known) + "/new", ACL: "open"}
	switch g.IntN(8) {
	case 0, 1, 2:
		r.Path = g.denying(jute.PermCreate) + "/new"
	case 3, 4:
		r.Path = g.ephemeral() + "/new"
	case 5:
		r.Path = pick(g, []string{"~//x", "~/..", "rel", g.known[0], "~/a", "~/b"})
	case 6:
		r.ACL = pick(g, []string{"empty", "bad-world", "bad-digest", "bad-ip", "bad-scheme", "one-bad"})
	default:
		r = g.overQuota()
	}
	return r
}

// extended makes a create a container or a TTL node.
func (g *generator) extended(r Request) Request {
	if op := jute.OpCode(r.Op); op != jute.OpCreate && op != jute.OpCreate2 {
		return r
	}
	if g.IntN(2) == 0 {
		r.Op, r.Flags = OpName(jute.OpCreateContainer), jute.FlagsContainer
	} else {
		r.Op, r.Flags, r.TTL = OpName(jute.OpCreateTTL), jute.FlagsPersistentTTL, 1<<30
	}
	return r
}

// anyCreate makes a create one of the four.
func (g *generator) anyCreate(r Request) Request {
	switch g.IntN(8) {
	case 0, 1:
		r.Op = OpName(jute.OpCreate2)
	case 2, 5:
		r.Op, r.Flags = OpName(jute.OpCreateContainer), jute.FlagsContainer
	case 3, 4:
		r.Op, r.Flags, r.TTL = OpName(jute.OpCreateTTL), jute.FlagsPersistentTTL, 1<<30
	}
	return r
}

// ephemeral is an ephemeral node, if there is one.
func (g *generator) ephemeral() string {
	for _, p := range g.known {
		if _, ok := g.owner[p]; ok {
			return p
		}
	}
	return pick(g, g.known)
}

// denying is a node that denies a permission, if there is one.
func (g *generator) denying(perm int32) string {
	var v []string
	for _, p := range g.known {
		if !g.allows(p, perm) {
			v = append(v, p)
		}
	}
	if len(v) == 0 {
		return pick(g, g.known)
	}
	return pick(g, v)
}

// multi makes a multi; half of them are meant to succeed.
func (g *generator) multi(slot int) Request {
	r := Request{Op: OpName(jute.OpMulti)}
	start, careful, fails := g.belief.clone(), g.IntN(2) == 0, false
	if !careful && g.IntN(3) > 0 {
		r.Ops, fails = append(r.Ops, g.clash()), true
		n := g.IntN(14)
		if g.quota && g.IntN(3) == 0 {
			n = 6
		}
		switch n {
		case 10, 11, 12, 13:
			r.Ops[0] = g.extended(g.rarely())
		case 5:
			r.Ops[0] = Request{Op: OpName(jute.OpCreate2), Path: pick(g, []string{"~/.", "rel", "~/new", g.ephemeral() + "/new"}), ACL: pick(g, []string{"empty", "open", "bad-ip"})}
		case 6, 7:
			r.Ops[0] = g.overQuotaInMulti()
		case 0, 1, 2:
			r.Ops[0] = g.denied()
		case 3, 4:
			r.Ops[0] = Request{Op: OpName(jute.OpCheck), Path: pick(g, []string{"~//x", "rel", "", "~/", g.denying(jute.PermRead)}), Version: -1}
		}
	}
	for range g.IntN(6) {
		for try := 0; ; try++ {
			was := g.belief.clone()
			o := g.operation(slot)
			if g.wrong && careful && try < 8 {
				g.belief = was
				continue
			}
			if o.ACL == "no-id" && len(r.Ops) > 0 {
				o.ACL = "no-scheme" // Apache does not take back what it had prepared
			}
			r.Ops = append(r.Ops, o)
			fails = fails || g.wrong
			break
		}
	}
	if !careful && g.IntN(30) == 0 {
		r.Cut, fails = 1+g.IntN(12), true
	}
	if fails {
		g.belief = start
	}
	return r
}

func (g *generator) operation(slot int) Request {
	switch n := g.IntN(100); {
	case n < 45:
		return g.create(slot)
	case n < 65:
		return g.delete()
	case n < 83:
		return g.setData()
	case n < 98:
		o := Request{Op: OpName(jute.OpCheck), Path: g.path()}
		o.Version = g.version(o.Path)
		g.wrong = !slices.Contains(g.known, o.Path) || o.Version != -1 && o.Version != g.vers[o.Path]
		return o
	}
	g.wrong = true
	return Request{Op: OpName(pick(g, []jute.OpCode{jute.OpGetData, jute.OpExists, jute.OpSetACL})), Path: g.path(), ACL: "open"}
}

func (g *generator) version(path string) int32 {
	switch n := g.IntN(10); {
	case n < 5:
		return -1
	case n < 8:
		return g.vers[path]
	}
	return pick(g, []int32{0, 1, 2, 3, -2, 77})
}

func (g *generator) fill(r *Request) {
	switch n := g.IntN(10); {
	case n == 0:
		r.NullData = true
	case n == 1:
	default:
		r.Data = strings.Repeat(string(rune('a'+g.IntN(26))), 1+g.IntN(6))
	}
}

func (g *generator) acl() string {
	if g.IntN(10) < 7 {
		return "open"
	}
	return pick(g, aclNames)
}

// aclNames are the names of acls, sorted: programs must not depend on the order of a map.
var aclNames = func() []string {
	var v []string
	for n := range acls {
		v = append(v, n)
	}
	slices.Sort(v)
	return v
}()

func (g *generator) name() string {
	return pick(g, []string{"a", "a", "b", "b", "c", "ab", "d", "q-", "é", "with space"})
}

// guarded is a node that not everybody may do everything with, if one is found.
func (g *generator) guarded() string {
	return g.denying(pick(g, []int32{jute.PermRead, jute.PermRead, jute.PermCreate, jute.PermWrite, jute.PermDelete}))
}

// path is mostly one that exists.
func (g *generator) path() string {
	switch n := g.IntN(100); {
	case n < 60:
		return pick(g, g.known)
	case n < 72:
		return g.guarded()
	case n < 84:
		p := pick(g, g.known) + "/" + g.name()
		if g.looked = append(g.looked, p); len(g.looked) > 6 {
			g.looked = g.looked[1:]
		}
		return p
	case n < 92 && len(g.gone) > 0:
		return pick(g, g.gone)
	case n < 97:
		return pick(g, g.known[max(0, len(g.known)-3):])
	}
	return g.oddPath()
}

// oddPath is one that some operation refuses, or that has a meaning of its own.
func (g *generator) oddPath() string {
	return pick(g, []string{"/", "", "~", "~/", "~//x", "//x", "~/.", "~/./x", "~/a/../b", "~/..", "~/...", "rel", "rel/a", "~/\x00", "~/a\x00b", "\x00", "\x00", "~/b\x00", "~/c\x00", "~/x\x01", "~/\u007f",
		"~/\U0001F600", "~/\ue000", "~/\ufff0", "~/\uffef", "/zookeeper", "/zookeeper/quota", "/zookeeper/config", "/nothing/here"})
}

func pick[T any](g *generator, v []T) T { return v[g.IntN(len(v))] }
