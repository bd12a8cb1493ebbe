package explore

// table is a set of states: of each the upper part of its hash, and the budgets that were left. A state is not new when
// it was there with as much left of everything. Two states may share a hash; 52 bits of it and the place in the table
// are compared, about 72 bits for a hundred million states: the chance that any was passed over is then near 10^-6.
type table struct {
	slots []uint64
	n     uint64
}

// budgetBits hold what is left: 2 bits each for transactions, crashes and cuts, 3 for elections, 1 for hand-overs, 2 for
// ticks.
const budgetBits = 12

func budget(w *world) uint64 {
	return uint64(w.transactions&3) | uint64(w.crashes&3)<<2 | uint64(w.cuts&3)<<4 | uint64(w.elections&7)<<6 |
		uint64(w.handOvers&1)<<9 | uint64(w.ticks&3)<<10
}

// covers: a has as much left of everything as b.
func covers(a, b uint64) bool {
	return a&3 >= b&3 && a>>2&3 >= b>>2&3 && a>>4&3 >= b>>4&3 && a>>6&7 >= b>>6&7 && a>>9&1 >= b>>9&1 && a>>10&3 >= b>>10&3
}

func newTable(slots uint64) *table {
	size := uint64(1 << 16)
	for size*2 <= slots {
		size *= 2
	}
	return &table{slots: make([]uint64, size)}
}

// add reports whether the state is new.
func (t *table) add(h, budget uint64) bool {
	tag := h &^ (1<<budgetBits - 1)
	if tag == 0 {
		tag = 1 << budgetBits
	}
	last := uint64(len(t.slots) - 1)
	for i := mix(h) & last; ; i = (i + 1) & last {
		s := t.slots[i]
		switch {
		case s == 0:
			t.slots[i] = tag | budget
			t.n++
			return true
		case s&^(1<<budgetBits-1) != tag:
		case covers(s, budget):
			return false
		case covers(budget, s):
			t.slots[i] = tag | budget
			return true
		}
	}
}

func (t *table) full() bool { return t.n > uint64(len(t.slots))/16*15 }
