package znode

import (
	"maps"
	"slices"
	"strings"
)

// Less orders tickets: a later owner of a session has the greater one.
func (t Ticket) Less(o Ticket) bool {
	if t.Epoch != o.Epoch {
		return t.Epoch < o.Epoch
	}
	return t.Number < o.Number
}

// Session gives the replicated part of a session.
func (t *Tree) Session(id int64) (Session, bool) {
	s := t.sessions[id]
	if s == nil {
		return Session{}, false
	}
	return *s, true
}

// Sessions calls f for each session, ids ascending, until f says no.
func (t *Tree) Sessions(f func(Session) bool) {
	for _, id := range slices.Sorted(maps.Keys(t.sessions)) {
		if !f(*t.sessions[id]) {
			return
		}
	}
}

// Ephemerals gives the paths, sorted, that a session owns and that begin with prefix: as plain text, "/a" is a prefix
// of "/ab". A null or blank prefix and "/" mean all, where blanks are Java's: everything up to U+0020.
func (t *Tree) Ephemerals(session int64, prefix string, null bool) Names {
	trimmed := strings.TrimFunc(prefix, func(r rune) bool { return r <= ' ' })
	all := null || trimmed == RootPath || trimmed == ""
	paths := make([]string, 0, len(t.ephemerals[session]))
	for p := range t.ephemerals[session] {
		if all || strings.HasPrefix(p, prefix) {
			paths = append(paths, p)
		}
	}
	slices.Sort(paths)
	return NamesOf(paths)
}
