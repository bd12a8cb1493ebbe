package watch

import (
	"cmp"
	"maps"
	"slices"

	"github.com/zkserver/zkserver/znode"
)

// Watcher names a connection. Zero is nobody.
type Watcher uint32

// Kind is the table that a watch belongs to.
type Kind uint8

// Data watches are set by getData and exists, Child watches by getChildren; they fire once. The other two are set by
// addWatch and stay: Persistent ones see all that happens to a node and to its list of children, Recursive ones what
// happens to the node and to everything below it, but no list of children. A Table holds the first three, a Subtree the
// recursive ones.
const (
	Data Kind = iota
	Child
	Persistent
	Recursive

	kinds = Recursive // of a Table
)

// Table holds the watches of one shard of the paths. A watch is an element of a set: (watcher, path, kind).
type Table struct {
	paths    map[string]*armed
	watchers map[Watcher]*watched
	watches  int
}

// armed are the watchers of one path, ascending, by kind. When the last one goes it is dropped for good: watches armed
// later make another.
type armed struct {
	path string
	by   [kinds][]Watcher
}

// watched is what a watcher has armed. refs may name watches that have fired since: the number of live ones says when
// to sweep.
type watched struct {
	refs []ref
	live int
}

// ref is a watch of a watcher; it holds no string of its own.
type ref struct {
	at   *armed
	kind Kind
}

// NewTable makes an empty table.
func NewTable() *Table {
	return &Table{paths: make(map[string]*armed), watchers: make(map[Watcher]*watched)}
}

// Add arms a watch; arming it again changes nothing.
func (t *Table) Add(kind Kind, path string, w Watcher) {
	a := t.paths[path]
	if a == nil {
		a = &armed{path: path}
		t.paths[path] = a
	}
	i, there := slices.BinarySearch(a.by[kind], w)
	if there {
		return
	}
	a.by[kind] = slices.Insert(a.by[kind], i, w)
	t.watches++
	of := t.watchers[w]
	if of == nil {
		of = new(watched)
		t.watchers[w] = of
	}
	of.live++
	of.refs = append(of.refs, ref{at: a, kind: kind})
	if len(of.refs) > 2*of.live+minSweep {
		of.sweep(w)
	}
}

// minSweep is how many fired watches a watcher's list may hold besides as many as live ones.
const minSweep = 16

// sweep drops the refs of fired watches.
func (of *watched) sweep(w Watcher) {
	refs := slices.DeleteFunc(of.refs, func(r ref) bool { return !r.armed(w) })
	slices.SortFunc(refs, ref.compare) // one armed a path is left
	of.refs = slices.Compact(refs)
	clear(refs[len(of.refs):])
}

func (r ref) compare(o ref) int {
	return cmp.Or(cmp.Compare(r.at.path, o.at.path), cmp.Compare(r.kind, o.kind))
}

func (r ref) armed(w Watcher) bool {
	_, there := slices.BinarySearch(r.at.by[r.kind], w)
	return there
}

// Armed says whether a watch is there.
func (t *Table) Armed(kind Kind, path string, w Watcher) bool {
	a := t.paths[path]
	return a != nil && ref{at: a, kind: kind}.armed(w)
}

// Fire appends to out the watchers to be told of ev, ascending, each once however many of its watches match, and
// removes the one-shot watches that match. Whether they may read the node is the caller's to check: a watch is consumed
// all the same (I9). Recursive watches are not here: Subtree.Match.
func (t *Table) Fire(ev *znode.Event, out []Watcher) []Watcher {
	a := t.paths[ev.Path]
	if a == nil {
		return out
	}
	from := len(out)
	switch ev.Type {
	case znode.EventCreated, znode.EventDataChanged:
		out = append(out, t.consume(a, Data)...)
	case znode.EventChildrenChanged:
		out = append(out, t.consume(a, Child)...)
	case znode.EventDeleted:
		out = append(out, t.consume(a, Data)...)
		out = append(out, t.consume(a, Child)...)
	}
	if len(a.by[Persistent]) > 0 || ev.Type == znode.EventDeleted {
		out = append(out, a.by[Persistent]...)
		out = Unique(out, from)
	}
	t.forgetIfEmpty(a)
	return out
}

// Unique sorts the watchers in out[from:] and drops those that are there twice.
func Unique(out []Watcher, from int) []Watcher {
	slices.Sort(out[from:])
	return out[:from+len(slices.Compact(out[from:]))]
}

// consume takes all watches of one kind away from a path.
func (t *Table) consume(a *armed, kind Kind) []Watcher {
	fired := a.by[kind]
	a.by[kind] = nil
	t.watches -= len(fired)
	for _, w := range fired {
		t.spend(w)
	}
	return fired
}

func (t *Table) spend(w Watcher) {
	of := t.watchers[w]
	if of.live--; of.live == 0 {
		delete(t.watchers, w)
	}
}

func (t *Table) forgetIfEmpty(a *armed) {
	if len(a.by[Data]) == 0 && len(a.by[Child]) == 0 && len(a.by[Persistent]) == 0 {
		delete(t.paths, a.path)
	}
}

// Disarm takes one watch away and says whether it was there.
func (t *Table) Disarm(kind Kind, path string, w Watcher) bool {
	a := t.paths[path]
	if a == nil || !t.take(ref{at: a, kind: kind}, w) {
		return false
	}
	t.spend(w)
	return true
}

func (t *Table) take(r ref, w Watcher) bool {
	list := r.at.by[r.kind]
	i, there := slices.BinarySearch(list, w)
	if !there {
		return false
	}
	r.at.by[r.kind] = slices.Delete(list, i, i+1)
	t.watches--
	t.forgetIfEmpty(r.at)
	return true
}

// Remove forgets a watcher: its connection is gone.
func (t *Table) Remove(w Watcher) {
	of := t.watchers[w]
	if of == nil {
		return
	}
	for _, r := range of.refs {
		t.take(r, w)
	}
	delete(t.watchers, w)
}

// Count says how many watches there are, at how many paths, of how many watchers.
func (t *Table) Count() (watches, paths, watchers int) {
	return t.watches, len(t.paths), len(t.watchers)
}

// Each calls f for every watch until f says no: paths in order, kinds in theirs, watchers ascending.
func (t *Table) Each(f func(path string, kind Kind, w Watcher) bool) {
	for _, p := range slices.Sorted(maps.Keys(t.paths)) {
		for kind, list := range t.paths[p].by {
			for _, w := range list {
				if !f(p, Kind(kind), w) {
					return
				}
			}
		}
	}
}
