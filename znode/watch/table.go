package watch

import "github.com/zkserver/zkserver/znode"

// Watcher names a connection. Zero is nobody.
type Watcher uint32

// Kind is the table a watch belongs to.
type Kind uint8

// Data watches are set by getData and exists, Child watches by getChildren.
const (
	Data Kind = iota
	Child
)

// Table holds the watches of one shard.
type Table struct{}

// NewTable makes an empty table.
func NewTable() *Table { panic("stub") }

// Add arms a one-shot watch; arming it again changes nothing.
func (t *Table) Add(kind Kind, path string, w Watcher) { panic("stub") }

// Fire appends to out the watchers to be told of ev, each once, and removes their one-shot watches.
func (t *Table) Fire(ev *znode.Event, out []Watcher) []Watcher { panic("stub") }

// Remove forgets a watcher: its connection is gone.
func (t *Table) Remove(w Watcher) { panic("stub") }

// Count says how many (watcher, path, kind) there are, at how many paths, of how many watchers.
func (t *Table) Count() (watches, paths, watchers int) { panic("stub") }

// Each calls f for every watch, in path order, data before child, watchers ascending.
func (t *Table) Each(f func(path string, kind Kind, w Watcher) bool) { panic("stub") }

// CatchUp decides what setWatches does with one path of a list.
func CatchUp(list List, exists bool, mzxid, pzxid, rel int64) (ev znode.EventType, arm bool) {
	panic("stub")
}

// List is one of the lists of setWatches.
type List uint8

// The lists of setWatches, in the order in which they are worked off.
const (
	DataList List = iota
	ExistList
	ChildList
)
