package replica

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"testing"

	"github.com/zkserver/zkserver/zab"
	"github.com/zkserver/zkserver/znode"
)

// history is what a random run remembers to be checked at its end.
type history struct {
	s     *simulation
	rnd   *rand.Rand
	sent  map[uint32]int    // creates sent by each connection
	acked map[string]bool   // paths
	owner map[int64]uint32  // the connection that attached last
	chain map[uint32]uint32 // connection -> its predecessor on the session
	txns  map[int64]string  // agreement: what each zxid is
}

func (h *history) note(format string, args ...any) {
	h.s.printf("> "+format, args...)
}

func (h *history) fail(format string, args ...any) {
	h.s.t.Helper()
	h.s.t.Log(h.s.out.String())
	h.s.t.Fatalf(format, args...)
}

// applied is called for every transaction that a server applies.
func (h *history) applied(id int, t *znode.Txn, a *znode.Applied) {
	got := fmt.Sprintf("%d %s %d.%d.%d", t.Type, t.Op.Path, t.Origin.Server, t.Origin.Instance, t.Origin.Seq)
	if was, ok := h.txns[t.Zxid]; ok && was != got {
		h.fail("server %d applies %q at %#x, another %q", id, got, t.Zxid, was)
	}
	h.txns[t.Zxid] = got
	if a.Result.Code == znode.NodeExists {
		h.fail("%s at %#x was prepared twice: %s", h.s.conns[t.Origin.Conn].ops[t.Origin.Seq], t.Zxid, got)
	}
}

// TestRandomRuns drives Machines through random faults and checks what clients may rely on. REPLICA_SEEDS runs more
// seeds, REPLICA_SEED one.
func TestRandomRuns(t *testing.T) {
	from, n := uint64(1), uint64(100)
	if v, err := strconv.ParseUint(os.Getenv("REPLICA_SEEDS"), 10, 64); err == nil {
		n = v
	}
	if v, err := strconv.ParseUint(os.Getenv("REPLICA_SEED"), 10, 64); err == nil {
		from, n = v, 1
	}
	for seed := from; seed < from+n; seed++ {
		t.Run(fmt.Sprint(seed), func(t *testing.T) { randomRun(t, seed) })
	}
}

func randomRun(t *testing.T, seed uint64) {
	rnd := rand.New(rand.NewPCG(seed, 9))
	n := []int{1, 3, 3, 3, 5}[rnd.IntN(5)]
	limit := uint32(0)
	if rnd.IntN(4) == 0 {
		limit = 40
	}
	s := newSimulation(t, n, limit)
	h := &history{
		s: s, rnd: rnd, sent: map[uint32]int{}, acked: map[string]bool{}, owner: map[int64]uint32{},
		chain: map[uint32]uint32{}, txns: map[int64]string{},
	}
	s.watch = h
	s.run(50)
	for range 150 {
		h.step()
		s.run(rnd.IntN(6))
	}
	h.note("heal")
	h.heal()
	h.check()
}

func (h *history) pick() int { return 1 + h.rnd.IntN(h.s.n) }

func (h *history) up() int {
	n := 0
	for _, x := range h.s.nodes {
		if x != nil {
			n++
		}
	}
	return n
}

// step does one random thing.
func (h *history) step() {
	s, id, other := h.s, h.pick(), h.pick()
	x := s.nodes[id-1]
	switch k := h.rnd.IntN(100); {
	case k < 15:
		h.attach(id)
	case k < 65:
		h.write()
	case k < 68:
		if x != nil && (h.up() > s.n/2+1 || h.rnd.IntN(3) == 0) {
			h.note("crash %d", id)
			s.crash(id)
		}
	case k < 74:
		if x == nil {
			h.note("restart %d", id)
			s.boot(id)
		}
	case k < 78:
		if id != other && s.links[key(id, other)] != nil {
			h.note("cut %d %d", id, other)
			s.cut(id, other)
		}
	case k < 84:
		if id != other && s.links[key(id, other)] == nil && x != nil && s.nodes[other-1] != nil {
			h.note("join %d %d", id, other)
			s.connect(id, other)
		}
	case k < 90:
		if l := s.links[key(id, other)]; id != other && l != nil {
			l.held[other] = !l.held[other]
			h.note("mute %d->%d %v", id, other, l.held[other])
		}
	case k < 96:
		if what := []string{"disk", "apply"}[h.rnd.IntN(2)]; x != nil {
			x.held[what] = !x.held[what]
			h.note("hold %d %s %v", id, what, x.held[what])
		}
	case k < 97:
		if x != nil && !x.m.leaving.asked && h.up() > s.n/2+1 {
			h.note("leave %d", id)
			s.push(id, Leave{})
		}
	case k < 99:
		if x != nil && !x.held["disk"] {
			z := zab.Zxid(x.tree.Applied())
			if d := s.disks[id-1]; z <= d.last() && z >= d.base && len(x.persist) == 0 {
				h.note("cutlog %d", id)
				s.cutLog(id)
			}
		}
	default:
		h.note("run")
		s.run(120)
	}
	for i, x := range s.nodes {
		if x != nil && x.m.leaving.gone {
			h.note("%d left", i+1)
			s.crash(i + 1)
		}
	}
}

func (h *history) attach(id int) {
	s := h.s
	if s.nodes[id-1] == nil {
		return
	}
	c := &simConn{num: uint32(len(s.conns) + 1), server: id, ops: map[uint64]string{}}
	c.name = fmt.Sprint("c", c.num)
	s.seqs[id-1]++
	in := Attach{Conn: c.num, Seq: s.seqs[id-1], Timeout: 600000}
	if old := s.sortedConns(); len(old) > 0 && h.rnd.IntN(3) > 0 {
		if o := old[h.rnd.IntN(len(old))]; o.session != 0 {
			in.Session, in.Password = o.session, o.password
			h.chain[c.num] = h.owner[o.session]
			h.owner[o.session] = c.num
		}
	}
	s.conns[c.num] = c
	h.note("attach c%d at %d, session %s", c.num, id, ses36(in.Session))
	s.push(id, in)
}

func (h *history) write() {
	s := h.s
	var open []*simConn
	for _, c := range s.sortedConns() {
		if !c.closed && c.session != 0 && s.nodes[c.server-1] != nil {
			open = append(open, c)
		}
	}
	if len(open) == 0 {
		return
	}
	c := open[h.rnd.IntN(len(open))]
	var rs []*znode.Request
	for range 1 + h.rnd.IntN(4) {
		r := &znode.Request{Op: znode.OpSync, Session: c.session, Ticket: c.ticket, TTL: -1, Version: -1}
		if h.rnd.IntN(5) > 0 {
			h.sent[c.num]++
			r.Op, r.Path, r.ACL = znode.OpCreate, fmt.Sprintf("/c%d-%d", c.num, h.sent[c.num]), openACL
		}
		s.seqs[c.server-1]++
		r.Origin = znode.Origin{
			Server: uint64(c.server), Instance: uint64(s.nodes[c.server-1].process), Conn: c.num, Seq: s.seqs[c.server-1],
		}
		c.ops[r.Origin.Seq] = r.Path
		c.order = append(c.order, r.Origin.Seq)
		rs = append(rs, r)
	}
	h.note("c%d writes up to %d", c.num, h.sent[c.num])
	s.push(c.server, Requests{Conn: c.num, Requests: rs})
}

// heal ends all faults, and a new client must be able to write everywhere within a bounded time (I12).
func (h *history) heal() {
	s := h.s
	for id := 1; id <= s.n; id++ {
		if x := s.nodes[id-1]; x != nil && x.m.leaving.asked {
			s.crash(id)
		}
		if s.nodes[id-1] == nil {
			s.boot(id)
		}
		s.nodes[id-1].held = map[string]bool{}
	}
	for a := 1; a <= s.n; a++ {
		for b := a + 1; b <= s.n; b++ {
			if l := s.links[key(a, b)]; l == nil {
				s.connect(a, b)
			} else {
				l.held = map[int]bool{}
			}
		}
	}
	s.run(500)
	for id := 1; id <= s.n; id++ {
		c := &simConn{num: uint32(len(s.conns) + 1), server: id, name: fmt.Sprint("last", id), ops: map[uint64]string{}}
		s.conns[c.num] = c
		s.seqs[id-1]++
		s.push(id, Attach{Conn: c.num, Seq: s.seqs[id-1], Timeout: 600000})
		s.run(100)
		if c.session == 0 {
			for _, x := range s.nodes {
				s.printf("s%d: %+v", x.id, x.m.Status().Zab)
			}
			h.fail("server %d gives no session after healing", id)
		}
	}
	s.run(200)
}

// check compares what clients were told with what the trees hold.
func (h *history) check() {
	s := h.s
	s.check()
	first := s.nodes[0].tree
	for _, x := range s.nodes {
		if x.tree.Applied() != first.Applied() {
			h.fail("server %d has applied %#x, server 1 %#x", x.id, x.tree.Applied(), first.Applied())
		}
	}
	for p := range h.acked {
		if _, c := first.Exists(p, nil); c != znode.OK {
			h.fail("%s was acknowledged and is gone", p)
		}
	}
	span := map[uint32][2]int64{}
	for num, n := range h.sent {
		var last int64
		gap := 0
		for k := 1; k <= n; k++ {
			st, c := first.Exists(fmt.Sprintf("/c%d-%d", num, k), nil)
			switch {
			case c != znode.OK:
				gap = k
			case gap != 0:
				h.fail("connection %d: write %d took effect, %d before it did not", num, k, gap)
			case st.Czxid <= last:
				h.fail("connection %d: write %d took effect before the one before it", num, k)
			default:
				if last == 0 {
					span[num] = [2]int64{st.Czxid, st.Czxid}
				}
				last = st.Czxid
				span[num] = [2]int64{span[num][0], last}
			}
		}
	}
	for num, sp := range span {
		for p := h.chain[num]; p != 0; p = h.chain[p] {
			if old, ok := span[p]; ok && h.order(p, num) && old[1] > sp[0] {
				h.fail("connection %d wrote at %#x, after its successor %d had written at %#x", p, old[1], num, sp[0])
			}
		}
	}
}

// order reports whether the tickets of two connections of a session are in that order: an attach that was answered
// late may have been drawn first.
func (h *history) order(a, b uint32) bool {
	return ticketLess(h.s.conns[a].ticket, h.s.conns[b].ticket)
}
