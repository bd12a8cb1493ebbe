package watch

import (
	"maps"
	"slices"
	"strings"

	"github.com/zkserver/zkserver/znode"
)

// Subtree holds the recursive watches. They see creations, deletions and changes of data of their node and of all below
// it, never a list of children, and they stay.
type Subtree struct {
	paths    map[string][]Watcher // ascending
	watchers map[Watcher]map[string]struct{}
	watches  int
	longest  int // bytes; no armed path is longer
}

// NewSubtree makes an empty one.
func NewSubtree() *Subtree {
	return &Subtree{paths: make(map[string][]Watcher), watchers: make(map[Watcher]map[string]struct{})}
}

// Add arms a watch; arming it again changes nothing.
func (s *Subtree) Add(path string, w Watcher) {
	i, there := slices.BinarySearch(s.paths[path], w)
	if there {
		return
	}
	s.paths[path] = slices.Insert(s.paths[path], i, w)
	if s.watchers[w] == nil {
		s.watchers[w] = make(map[string]struct{})
	}
	s.watchers[w][path] = struct{}{}
	s.watches++
	s.longest = max(s.longest, len(path))
}

// Armed says whether a watch is there.
func (s *Subtree) Armed(path string, w Watcher) bool {
	_, there := s.watchers[w][path]
	return there
}

// Disarm takes one watch away and says whether it was there.
func (s *Subtree) Disarm(path string, w Watcher) bool {
	if !s.Armed(path, w) {
		return false
	}
	s.take(path, w)
	delete(s.watchers[w], path)
	if len(s.watchers[w]) == 0 {
		delete(s.watchers, w)
	}
	return true
}

func (s *Subtree) take(path string, w Watcher) {
	list := s.paths[path]
	i, _ := slices.BinarySearch(list, w)
	if list = slices.Delete(list, i, i+1); len(list) > 0 {
		s.paths[path] = list
	} else {
		delete(s.paths, path)
	}
	if s.watches--; s.watches == 0 {
		s.longest = 0
	}
}

// Remove forgets a watcher: its connection is gone.
func (s *Subtree) Remove(w Watcher) {
	for path := range s.watchers[w] {
		s.take(path, w)
	}
	delete(s.watchers, w)
}

// Match appends to out the watchers that ev reaches: out[from:], which the Table of its path has given, stays
// ascending and free of repetitions. The ancestors that it looks up are no longer than the longest armed path.
func (s *Subtree) Match(ev *znode.Event, out []Watcher, from int) []Watcher {
	if s.watches == 0 || ev.Type == znode.EventChildrenChanged {
		return out
	}
	n := len(out)
	out = append(out, s.paths["/"]...)
	for end := 1; end < len(ev.Path) && end <= s.longest; end++ {
		if i := strings.IndexByte(ev.Path[end:], '/'); i >= 0 {
			end += i
		} else {
			end = len(ev.Path)
		}
		out = append(out, s.paths[ev.Path[:end]]...)
	}
	if len(out) == n {
		return out
	}
	return Unique(out, from)
}

// Count says how many watches there are, at how many paths, of how many watchers.
func (s *Subtree) Count() (watches, paths, watchers int) {
	return s.watches, len(s.paths), len(s.watchers)
}

// Each calls f for every watch until f says no: paths in order, watchers ascending.
func (s *Subtree) Each(f func(path string, w Watcher) bool) {
	for _, p := range slices.Sorted(maps.Keys(s.paths)) {
		for _, w := range s.paths[p] {
			if !f(p, w) {
				return
			}
		}
	}
}
