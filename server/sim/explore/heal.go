package explore

import (
	"fmt"

	"github.com/zkserver/zkserver/zab"
)

// look checks a new state. Where nothing is under way, a healed run must make progress (I12): no more faults, the
// election finds the best of those that look, what waits in vain times out, and a write is delivered everywhere. From
// any state what is under way leads to such a one, which is visited too.
func (e *Explorer) look(w *world) string {
	if len(e.moves(w, nil)) > 0 {
		return ""
	}
	e.Result.Quiet++
	if e.onQuiet != nil {
		e.onQuiet(w)
	}
	h := *w
	h.elections, h.transactions, h.ticks = 255, 255, 255
	for i := range servers {
		if w.deaf>>i&1 == 1 {
			if f := e.cut(&h, i, e.facts(w, i).leader); f != "" {
				return f
			}
		}
	}
	for round := range 64 {
		if f := e.settle(&h); f != "" {
			return f
		}
		if leader := e.healthy(&h); leader >= 0 {
			want := e.facts(&h, leader).next
			if f := e.do(&h, action{what: doPropose, a: uint8(leader), arg: 1}); f != "" {
				return f
			}
			if f := e.settle(&h); f != "" {
				return f
			}
			for i := range servers {
				if e.facts(&h, i).committed < want {
					return fmt.Sprintf("I12: %d does not hear of a write\n%s", i+1, e.describe(&h))
				}
			}
			return ""
		}
		if f := e.revive(&h, round%8 != 0); f != "" {
			return f
		}
	}
	return "I12: no progress, though all is healed:\n" + e.describe(&h)
}

// settle lets everything happen that is under way.
func (e *Explorer) settle(w *world) string {
	for range 10000 {
		xs := e.moves(w, nil)
		if len(xs) == 0 {
			return ""
		}
		if f := e.do(w, xs[0]); f != "" {
			return f
		}
	}
	return "I12: never quiet"
}

// healthy names the leader that serves with everybody.
func (e *Explorer) healthy(w *world) int {
	for i := range servers {
		f := e.facts(w, i)
		if f.role != zab.Leading || f.next == 0 {
			continue
		}
		if f.synced == (1<<servers-1)&^(1<<i) {
			return i
		}
	}
	return -1
}

// revive does what elections and deadlines do for those that wait.
func (e *Explorer) revive(w *world, beat bool) string {
	leader, stamped := -1, false
	for i := range servers {
		stamped = stamped || e.facts(w, i).stamped
	}
	for i := range servers {
		if f := e.facts(w, i); f.role == zab.Following && e.facts(w, f.leader).role != zab.Leading {
			return e.do(w, action{what: doStepDown, a: uint8(i)})
		}
	}
	for i := range servers {
		if f := e.facts(w, i); f.role == zab.Leading && (leader < 0 || f.epoch > e.facts(w, leader).epoch) {
			leader = i
		}
	}
	if leader < 0 {
		for i := range servers {
			f := e.facts(w, i)
			if f.role != zab.Looking || stamped && !f.stamped {
				continue
			}
			if leader < 0 || ahead(f, e.facts(w, leader)) {
				leader = i
			}
		}
		if leader >= 0 {
			for i := range servers {
				if i != leader && e.facts(w, i).role == zab.Looking {
					return e.do(w, action{what: doElect, a: uint8(leader), b: uint8(i)})
				}
			}
		}
	} else {
		for i := range servers {
			if e.facts(w, i).role == zab.Looking {
				return e.do(w, action{what: doJoin, a: uint8(i), b: uint8(leader)})
			}
		}
		if beat && !e.cfg.still() && e.facts(w, leader).next != 0 {
			return e.do(w, action{what: doTick, a: uint8(leader)})
		}
	}
	if xs := e.timeouts(w, nil); len(xs) > 0 {
		for _, x := range xs {
			if f := e.do(w, x); f != "" {
				return f
			}
		}
		return ""
	}
	if !e.cfg.still() {
		return ""
	}
	return "I12: stuck:\n" + e.describe(w)
}

func ahead(a, b *facts) bool {
	return a.current > b.current || a.current == b.current && a.last > b.last
}
