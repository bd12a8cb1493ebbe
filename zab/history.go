package zab

import (
	"fmt"
	"slices"
	"sort"
)

// history is an epoch table: one row for every epoch that has a transaction in this server's history, ascending.
// Two histories that both contain (e, c) are equal up to it, so tables compare whole histories exactly.
type history []EpochEnd

// validHistory checks a table against the end of the log it describes; it may come from a peer or a file.
func validHistory(t []EpochEnd, last Zxid) error {
	var prev Epoch
	for i, r := range t {
		if r.Last.Epoch() != r.Epoch || r.Last.Counter() == 0 || r.Epoch <= prev {
			return fmt.Errorf("zab: epoch table: row %d (%d, %v)", i, r.Epoch, r.Last)
		}
		prev = r.Epoch
	}
	if end := history(t).end(); end != last {
		return fmt.Errorf("zab: epoch table ends at %v, the log at %v", end, last)
	}
	return nil
}

// end is the last zxid, zero for no transaction.
func (h history) end() Zxid {
	if len(h) == 0 {
		return 0
	}
	return h[len(h)-1].Last
}

// floor is the largest zxid of the history that is <= z, zero if there is none.
func (h history) floor(z Zxid) Zxid {
	i := sort.Search(len(h), func(i int) bool { return h[i].Epoch > z.Epoch() })
	if i == 0 {
		return 0
	}
	if r := h[i-1]; r.Epoch == z.Epoch() && z.Counter() > 0 {
		return min(z, r.Last)
	} else if r.Epoch < z.Epoch() {
		return r.Last
	}
	return h[:i-1].end()
}

// contains reports whether z is in the history; zero always is.
func (h history) contains(z Zxid) bool { return h.floor(z) == z }

// upTo is a copy of the table cut at z, which the history contains.
func (h history) upTo(z Zxid) history {
	i := sort.Search(len(h), func(i int) bool { return h[i].Epoch >= z.Epoch() })
	t := slices.Clone(h[:i])
	if z != 0 {
		t = append(t, EpochEnd{Epoch: z.Epoch(), Last: z})
	}
	return t
}

// append adds a checked run.
func (h history) append(entries []Entry) history {
	last := entries[len(entries)-1].Zxid
	if n := len(h); n > 0 && h[n-1].Epoch == last.Epoch() {
		h[n-1].Last = last
		return h
	}
	for _, e := range entries {
		if n := len(h); n > 0 && h[n-1].Epoch == e.Zxid.Epoch() {
			h[n-1].Last = e.Zxid
		} else {
			h = append(h, EpochEnd{Epoch: e.Zxid.Epoch(), Last: e.Zxid})
		}
	}
	return h
}

// continues reports whether entries follow prev without a gap: the counter grows by one within an epoch, a later
// epoch begins at one (Z14). What lies between two epochs only Append.Prev can tell.
func continues(prev Zxid, entries []Entry) bool {
	for i := range entries {
		z := entries[i].Zxid
		if z.Epoch() == prev.Epoch() {
			if z != prev+1 || z.Counter() == 0 {
				return false
			}
		} else if z.Epoch() < prev.Epoch() || z.Counter() != 1 {
			return false
		}
		prev = z
	}
	return true
}

func sameHistory(a history, b []EpochEnd) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if a[i] != b[i] {
			return false
		}
	}
	return true
}
