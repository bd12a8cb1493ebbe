package znode

import (
	"cmp"
	"slices"
)

// listing is the sorted names of a node's children as of the last time somebody asked, and what has changed since. So a
// listing after each create, as lock and election recipes do it, costs a merge and not a sort.
//
// It is changed only by who has the tree alone; readers replace it by a merged one, each by an equal one.
type listing struct {
	names   []string // immutable: handed out
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
	case len(l.changes) >= len(l.names)/4+16:
		n.listing.Store(nil)
	default:
		l.changes = append(l.changes, childChange{name: name, created: created})
	}
}

// names gives the present listing.
func (n *node) names() []string {
	l := n.listing.Load()
	switch {
	case l == nil:
		l = &listing{names: n.sortedNames()}
	case len(l.changes) > 0:
		l = &listing{names: merge(l.names, l.changes, len(n.kids))}
	default:
		return l.names
	}
	n.listing.Store(l)
	return l.names
}

func (n *node) sortedNames() []string {
	names := make([]string, 0, len(n.kids))
	for name := range n.kids {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// merge applies changes, in the order in which they came, to sorted names. The result has size names.
func merge(names []string, changes []childChange, size int) []string {
	changes = slices.Clone(changes)
	slices.SortStableFunc(changes, func(a, b childChange) int { return cmp.Compare(a.name, b.name) })
	merged := make([]string, 0, size)
	for i, c := range changes {
		if i+1 < len(changes) && changes[i+1].name == c.name {
			continue // the last change of a name decides
		}
		at, there := slices.BinarySearch(names, c.name)
		merged = append(merged, names[:at]...)
		if c.created {
			merged = append(merged, c.name)
		}
		if there {
			at++
		}
		names = names[at:]
	}
	return append(merged, names...)
}
