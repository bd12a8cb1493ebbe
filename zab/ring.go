package zab

import "sort"

// ring keeps the newest entries of the log in memory as immutable runs, bounded by bytes, so that a cursor near the
// end never needs the disk. It holds (start, last].
type ring struct {
	runs  []run // runs[head:] are live
	head  int
	bytes int
	limit int
	start Zxid
}

// run is a piece of the log as it was proposed or received, never changed again.
type run struct {
	prev    Zxid
	entries []Entry
	bytes   int
}

func (r run) last() Zxid { return r.entries[len(r.entries)-1].Zxid }

// entryOverhead is what an entry costs beside its data, in memory and on a link.
const entryOverhead = 64

func sizeOf(e *Entry) int { return len(e.Data) + entryOverhead }

// push adds entries behind prev, cut into runs of at most runBytes (one entry at least).
func (r *ring) push(prev Zxid, entries []Entry, runBytes int) {
	from, bytes := 0, 0
	for i := range entries {
		n := sizeOf(&entries[i])
		if i > from && bytes+n > runBytes {
			r.add(run{prev: prev, entries: entries[from:i:i], bytes: bytes})
			prev, from, bytes = entries[i-1].Zxid, i, 0
		}
		bytes += n
	}
	r.add(run{prev: prev, entries: entries[from:len(entries):len(entries)], bytes: bytes})
}

func (r *ring) add(x run) {
	r.runs = append(r.runs, x)
	r.bytes += x.bytes
	for r.bytes > r.limit && len(r.runs)-r.head > 1 {
		old := &r.runs[r.head]
		r.bytes -= old.bytes
		r.start = old.last()
		*old = run{}
		r.head++
	}
	if r.head > 64 && r.head > len(r.runs)/2 {
		n := copy(r.runs, r.runs[r.head:])
		clear(r.runs[n:])
		r.runs, r.head = r.runs[:n], 0
	}
}

// reset empties the ring: the log ends at last.
func (r *ring) reset(last Zxid) {
	clear(r.runs)
	r.runs, r.head, r.bytes, r.start = r.runs[:0], 0, 0, last
}

// truncate drops everything beyond z.
func (r *ring) truncate(z Zxid) {
	if z <= r.start {
		r.reset(z)
		return
	}
	for n := len(r.runs); n > r.head; n = len(r.runs) {
		x := &r.runs[n-1]
		if x.last() <= z {
			return
		}
		r.bytes -= x.bytes
		keep := sort.Search(len(x.entries), func(i int) bool { return x.entries[i].Zxid > z })
		if keep > 0 {
			x.entries = x.entries[:keep:keep]
			x.bytes = 0
			for i := range x.entries {
				x.bytes += sizeOf(&x.entries[i])
			}
			r.bytes += x.bytes
			return
		}
		*x = run{}
		r.runs = r.runs[:n-1]
	}
}

// after returns entries behind z, at most upTo, about maxBytes of them but at least one. It returns nothing when z is
// not in (or at the start of) the ring, or nothing lies behind it. The slice is shared and must not be changed.
func (r *ring) after(z, upTo Zxid, maxBytes int) (entries []Entry, bytes int) {
	live := r.runs[r.head:]
	if z < r.start || len(live) == 0 || z >= upTo {
		return nil, 0
	}
	i := len(live) - 1
	if live[i].prev != z {
		i = sort.Search(len(live), func(i int) bool { return live[i].last() > z })
	}
	for ; i < len(live); i++ {
		x := &live[i]
		if x.prev >= upTo {
			break
		}
		part, n := x.entries, x.bytes
		if x.prev < z || x.last() > upTo {
			part, n = slice(part, z, upTo)
		}
		if len(entries) == 0 && n <= maxBytes {
			entries, bytes = part, n
			continue
		}
		if bytes+n > maxBytes {
			if len(entries) == 0 {
				entries, bytes = head(part, maxBytes)
			}
			break
		}
		// A slice of a run has no spare capacity, so the first append copies: runs are never written to.
		entries, bytes = append(entries, part...), bytes+n
	}
	return entries, bytes
}

// slice cuts entries to (z, upTo].
func slice(entries []Entry, z, upTo Zxid) (part []Entry, bytes int) {
	lo := sort.Search(len(entries), func(i int) bool { return entries[i].Zxid > z })
	hi := sort.Search(len(entries), func(i int) bool { return entries[i].Zxid > upTo })
	part = entries[lo:hi:hi]
	for i := range part {
		bytes += sizeOf(&part[i])
	}
	return part, bytes
}

// head cuts entries to about maxBytes, one at least.
func head(entries []Entry, maxBytes int) (part []Entry, bytes int) {
	for i := range entries {
		n := sizeOf(&entries[i])
		if i > 0 && bytes+n > maxBytes {
			return entries[:i:i], bytes
		}
		bytes += n
	}
	return entries[:len(entries):len(entries)], bytes
}
