package watch

import "github.com/zkserver/zkserver/znode"

// List is one of the lists of setWatches.
type List uint8

// The lists of setWatches, in the order in which they are worked off.
const (
	DataList List = iota
	ExistList
	ChildList
)

// Kind is the table in which a list's watches are armed.
func (l List) Kind() Kind {
	if l == ChildList {
		return Child
	}
	return Data
}

// CatchUp decides what setWatches does with one path: either an event that was missed since the zxid rel, or arm. The
// rest is the path's state, znode.Tree.WatchState. The caller must decide and arm under one lock, else one arming could
// give two events (I9).
func CatchUp(list List, exists bool, mzxid, pzxid, rel int64) (ev znode.EventType, arm bool) {
	switch {
	case list == ExistList && exists:
		return znode.EventCreated, false // however old the node is
	case list == ExistList:
		return 0, true
	case !exists:
		return znode.EventDeleted, false
	case list == DataList && mzxid > rel:
		return znode.EventDataChanged, false
	case list == ChildList && pzxid > rel:
		return znode.EventChildrenChanged, false
	}
	return 0, true
}
