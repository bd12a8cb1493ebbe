package znode

import (
	"cmp"
	"slices"
)

// listing is the sorted names of a node's children as of the last time somebody asked, and what has changed since. So a
// listing after each create, as lock and election recipes do it, costs a chunk and not a sort.
//
// It is changed only by who has the tree alone; readers replace it by a merged one, each by an equal one.
type listing struct {
	names   Names
	changes []childChange
}

type childChange struct {
	name    string
	created bool
}

// noteChild remembers a change for the next listing, or forgets the listing if that is cheaper.
func (n *node) noteChild(name string, created bool) {
	l := n.listing.Load()
	switch {
	case l == nil:
	case len(l.changes) >= l.names.n/4+16:
		n.listing.Store(nil)
	default:
		l.changes = append(l.changes, childChange{name: name, created: created})
	}
}

// names gives the present listing.
func (n *node) names() Names {
	l := n.listing.Load()
	switch {
	case l == nil:
		l = &listing{names: n.sortedNames()}
	case len(l.changes) > 0:
		l = &listing{names: merge(l.names, l.changes)}
	default:
		return l.names
	}
	n.listing.Store(l)
	return l.names
}

func (n *node) sortedNames() Names {
	names := make([]string, 0, len(n.kids))
	for name := range n.kids {
		names = append(names, name)
	}
	slices.Sort(names)
	return NamesOf(names)
}

// merge applies changes, in the order in which they came, to sorted names.
func merge(names Names, changes []childChange) Names {
	changes = lasting(changes)
	b := namesBuilder{list: Names{n: names.n, chunks: make([]string, 0, len(names.chunks)+1)}}
	rest := names.chunks
	for len(changes) > 0 {
		at := max(0, chunksUpTo(rest, changes[0].name)-1)
		b.share(rest[:at])
		rest = rest[at:]
		chunk, here := "", len(changes)
		if len(rest) > 0 {
			chunk, rest = rest[0], rest[1:]
		}
		if len(rest) > 0 {
			here, _ = slices.BinarySearchFunc(changes, firstName(rest[0]), childChange.compare)
		}
		b.change(chunk, changes[:here])
		changes = changes[here:]
	}
	b.share(rest)
	return b.done()
}

func (c childChange) compare(name string) int { return cmp.Compare(c.name, name) }

// lasting sorts changes and leaves the last one of each name.
func lasting(changes []childChange) []childChange {
	changes = slices.Clone(changes)
	slices.Reverse(changes)
	slices.SortStableFunc(changes, func(a, b childChange) int { return a.compare(b.name) })
	return slices.CompactFunc(changes, func(a, b childChange) bool { return a.name == b.name })
}

// chunksUpTo counts the chunks that begin with a name or before it.
func chunksUpTo(chunks []string, name string) int {
	n, _ := slices.BinarySearchFunc(chunks, name, func(chunk, name string) int {
		if firstName(chunk) <= name {
			return -1
		}
		return 1
	})
	return n
}

// change adds a chunk whose names have been counted, with its changes.
func (b *namesBuilder) change(chunk string, changes []childChange) {
	b.open.Grow(len(chunk) + prefix + len(changes[0].name)) // for the usual one change
	for chunk != "" || len(changes) > 0 {
		name, order := "", 1 // where the first change is, seen from the first name
		if chunk != "" {
			name = firstName(chunk)
		}
		switch {
		case len(changes) == 0:
			order = -1
		case chunk != "":
			order = cmp.Compare(name, changes[0].name)
		}
		if order <= 0 {
			chunk = chunk[prefix+len(name):]
			b.list.n--
		}
		if order < 0 {
			b.add(name)
			continue
		}
		if changes[0].created {
			b.add(changes[0].name)
		}
		changes = changes[1:]
	}
}
