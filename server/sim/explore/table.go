package explore

// table is a set of 64-bit hashes. Two states may share one: with n of them the chance that any state was passed over
// is about n*n/2^65, 0.3 % for 300 million.
type table struct {
	slots []uint64
	n     uint64
}

func newTable(slots uint64) *table {
	size := uint64(1 << 16)
	for size*2 <= slots {
		size *= 2
	}
	return &table{slots: make([]uint64, size)}
}

// add reports whether the hash is new.
func (t *table) add(h uint64) bool {
	if h == 0 {
		h = 1
	}
	last := uint64(len(t.slots) - 1)
	for i := h & last; ; i = (i + 1) & last {
		switch t.slots[i] {
		case 0:
			t.slots[i] = h
			t.n++
			return true
		case h:
			return false
		}
	}
}

func (t *table) full() bool { return t.n > uint64(len(t.slots))/16*15 }

func (t *table) grow() {
	old := t.slots
	t.slots, t.n = make([]uint64, 2*len(old)), 0
	for _, h := range old {
		if h != 0 {
			t.add(h)
		}
	}
}
