package recipe

import (
	"cmp"
	"math"
	"slices"
	"strconv"
	"strings"
)

// digits is how many a server appends to the name of a sequential node.
const digits = 10

// place is one node of a directory whose sequential nodes form a line.
type place struct {
	name string
	seq  int32
}

// before orders by the number alone. It is a difference, because the servers' counter wraps after 2^31 changes of the
// directory.
func (p place) before(q place) int {
	if c := cmp.Compare(p.seq-q.seq, 0); c != 0 {
		return c
	}
	return strings.Compare(p.name, q.name)
}

// line sorts the sequential nodes among a directory's children, whoever has made them and however they are called.
func line(names []string) []place {
	var all []place
	for _, n := range names {
		if seq, ok := sequence(n); ok {
			all = append(all, place{n, seq})
		}
	}
	slices.SortFunc(all, place.before)
	return all
}

// sequence is the number at the end of a sequential node's name. After the wrap it is negative: ten characters with the
// sign ("-000000005"), or eleven. A minus before ten digits that could be either is the sign if another separator is
// before it, as in "lock--1999999999" and "__lock__-1999999999".
func sequence(name string) (int32, bool) {
	if len(name) < digits {
		return 0, false
	}
	at := len(name) - digits
	tail := name[at:]
	for i := range tail {
		if (tail[i] < '0' || tail[i] > '9') && (i > 0 || tail[i] != '-') {
			return 0, false
		}
	}
	n, err := strconv.ParseInt(tail, 10, 64)
	if err != nil {
		return 0, false
	}
	if tail[0] != '-' && at > 0 && name[at-1] == '-' && (n > math.MaxInt32 || tail[0] != '0' && at > 1 && strings.IndexByte("-_", name[at-2]) >= 0) {
		n = -n
	}
	if n > math.MaxInt32 || n < math.MinInt32 {
		return 0, false
	}
	return int32(n), true
}
