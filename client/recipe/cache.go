package recipe

import (
	"context"
	"iter"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/zkserver/zkserver/client"
)

// Cache is a picture of a node (NewNodeCache), of a node and its children (NewChildrenCache), or of a whole tree
// (NewTreeCache), that follows the servers' as long as Run runs. It is made by a persistent watch; from a server before
// 3.6, which has none, by one-shot watches on every node.
//
// The picture may be late, and is never wrong for good: whatever has changed is read again, and after an outage
// everything is. Synced tells whether it is complete and there is a connection, and so do Watch's events. During an outage
// and between two sessions the picture stays as it was. A node that may not be read is left out.
type Cache struct {
	root  string
	depth int // of the nodes in the picture, below the root

	mu        sync.Mutex
	nodes     map[string]CacheNode
	below     map[string]map[string]bool // the paths right below one, of the nodes in the picture
	synced    bool
	moved     chan struct{} // closed when synced changes
	listeners map[*listener]struct{}
}

// CacheNode is a node of the picture.
type CacheNode struct {
	Path string      // from the root on
	Data []byte      // not to be changed
	Stat client.Stat // as of when the data was read: the fields about children may be older
}

// everything is the depth of a tree cache.
const everything = 1 << 30

// NewNodeCache makes the cache of one node, which need not be there.
func NewNodeCache(path string) *Cache { return newCache(path, 0) }

// NewChildrenCache makes the cache of a node and its children.
func NewChildrenCache(path string) *Cache { return newCache(path, 1) }

// NewTreeCache makes the cache of a node and all that is below it.
func NewTreeCache(path string) *Cache { return newCache(path, everything) }

func newCache(path string, depth int) *Cache {
	return &Cache{
		root: path, depth: depth, nodes: make(map[string]CacheNode), below: make(map[string]map[string]bool),
		moved: make(chan struct{}), listeners: make(map[*listener]struct{}),
	}
}

// level is how far below the root a path is, -1 for one that is not of the cache.
func (c *Cache) level(path string) int {
	if path == c.root {
		return 0
	}
	rest, ok := strings.CutPrefix(path, strings.TrimSuffix(c.root, "/")+"/")
	if !ok {
		return -1
	}
	if n := strings.Count(rest, "/") + 1; n <= c.depth {
		return n
	}
	return -1
}

// Get is the node of a path, if it is in the picture.
func (c *Cache) Get(path string) (CacheNode, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	n, ok := c.nodes[path]
	return n, ok
}

// Nodes are all nodes of the picture, by path.
func (c *Cache) Nodes() []CacheNode {
	c.mu.Lock()
	defer c.mu.Unlock()
	all := make([]CacheNode, 0, len(c.nodes))
	for _, p := range slices.Sorted(maps.Keys(c.nodes)) {
		all = append(all, c.nodes[p])
	}
	return all
}

// Children are the nodes right below a path, by path.
func (c *Cache) Children(path string) []CacheNode {
	c.mu.Lock()
	defer c.mu.Unlock()
	all := make([]CacheNode, 0, len(c.below[path]))
	for _, p := range slices.Sorted(maps.Keys(c.below[path])) {
		all = append(all, c.nodes[p])
	}
	return all
}

// Synced reports whether the picture is that of the servers, as far as they have told: it is complete, and the connection
// that tells of changes has been there since.
func (c *Cache) Synced() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.synced
}

// WaitSynced returns once the picture is complete, at once if it is. Errors: what ended ctx.
func (c *Cache) WaitSynced(ctx context.Context) error {
	for {
		c.mu.Lock()
		synced, moved := c.synced, c.moved
		c.mu.Unlock()
		if synced {
			return nil
		}
		select {
		case <-moved:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// CacheChange is what an event of a Cache tells.
type CacheChange int

// The changes.
const (
	CacheAdded   CacheChange = 1 + iota // the node has come into the picture
	CacheUpdated                        // its data was replaced, or it was removed and made anew (its Stat.Czxid tells)
	CacheRemoved                        // it has gone; Node is as it was
	CacheSynced                         // the picture is complete, for the first time or again after an outage
	CacheStale                          // the connection broke, or the session has ended: changes are not told until CacheSynced
)

// String names the change.
func (t CacheChange) String() string {
	return [...]string{"none", "added", "updated", "removed", "synced", "stale"}[t]
}

// CacheEvent is one change of the picture.
type CacheEvent struct {
	Change CacheChange // what happened
	Node   CacheNode   // of the first three
}

// Watch yields what leads from nothing to the picture as it is, then every change, until ctx ends: the last pair has the
// error. For a reader that is slow changes of one node are put together, so that what waits for it is never more than the
// picture; a node that came and went meanwhile is left out.
func (c *Cache) Watch(ctx context.Context) iter.Seq2[CacheEvent, error] {
	return func(yield func(CacheEvent, error) bool) {
		l := c.listen()
		defer c.leave(l)
		for {
			ev, ok := l.next(&c.mu)
			if ok {
				if !yield(ev, nil) {
					return
				}
				continue
			}
			select {
			case <-l.more:
			case <-ctx.Done():
				yield(CacheEvent{}, ctx.Err())
				return
			}
		}
	}
}

func (c *Cache) listen() *listener {
	c.mu.Lock()
	defer c.mu.Unlock()
	l := &listener{pending: make(map[string]CacheEvent), more: make(chan struct{}, 1)}
	for _, p := range slices.Sorted(maps.Keys(c.nodes)) {
		l.put(CacheEvent{Change: CacheAdded, Node: c.nodes[p]})
	}
	if c.synced {
		l.put(CacheEvent{Change: CacheSynced})
	}
	c.listeners[l] = struct{}{}
	return l
}

func (c *Cache) leave(l *listener) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.listeners, l)
}

// set takes what was read of a node into the picture.
func (c *Cache) set(n CacheNode) {
	c.mu.Lock()
	defer c.mu.Unlock()
	old, was := c.nodes[n.Path]
	c.nodes[n.Path] = n
	switch {
	case !was:
		if n.Path != "/" {
			up := parent(n.Path)
			if c.below[up] == nil {
				c.below[up] = make(map[string]bool)
			}
			c.below[up][n.Path] = true
		}
		c.tell(CacheEvent{Change: CacheAdded, Node: n})
	case old.Stat.Czxid != n.Stat.Czxid || old.Stat.Mzxid != n.Stat.Mzxid:
		c.tell(CacheEvent{Change: CacheUpdated, Node: n})
	}
}

// remove takes a node, and all below it, out of the picture, the lowest first.
func (c *Cache) remove(path string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.prune(path)
}

// prune is remove, with mu held.
func (c *Cache) prune(path string) {
	for _, p := range slices.Sorted(maps.Keys(c.below[path])) {
		c.prune(p)
	}
	n, was := c.nodes[path]
	if !was {
		return
	}
	delete(c.nodes, path)
	if up := c.below[parent(path)]; up != nil {
		if delete(up, path); len(up) == 0 {
			delete(c.below, parent(path))
		}
	}
	c.tell(CacheEvent{Change: CacheRemoved, Node: n})
}

// sync notes whether the picture is complete.
func (c *Cache) sync(synced bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if synced == c.synced {
		return
	}
	c.synced = synced
	close(c.moved)
	c.moved = make(chan struct{})
	if synced {
		c.tell(CacheEvent{Change: CacheSynced})
	} else {
		c.tell(CacheEvent{Change: CacheStale})
	}
}

func (c *Cache) tell(ev CacheEvent) {
	for l := range c.listeners {
		l.put(ev)
	}
}

// listener is one Watch: what it has not been told yet, at most one event a node, in the order of the first one. Under
// Cache.mu.
type listener struct {
	pending map[string]CacheEvent // by path; "" for what is about no node
	order   []string              // may name what is not pending any more
	more    chan struct{}
}

func (l *listener) put(ev CacheEvent) {
	key := ev.Node.Path
	was, waits := l.pending[key]
	switch {
	case !waits:
	case key == "": // behind all that came before it
		l.drop(key)
		waits = false
	case ev.Change == CacheRemoved && was.Change == CacheAdded:
		l.drop(key) // it was never told of
		return
	case ev.Change == CacheAdded && was.Change == CacheRemoved:
		ev.Change = CacheUpdated
	case ev.Change == CacheUpdated:
		ev.Change = was.Change
	}
	if !waits {
		l.order = append(l.order, key)
	}
	l.pending[key] = ev
	select {
	case l.more <- struct{}{}:
	default:
	}
}

func (l *listener) drop(key string) {
	delete(l.pending, key)
	l.order = slices.DeleteFunc(l.order, func(k string) bool { return k == key })
}

// next takes the first event.
func (l *listener) next(mu *sync.Mutex) (CacheEvent, bool) {
	mu.Lock()
	defer mu.Unlock()
	if len(l.order) == 0 {
		return CacheEvent{}, false
	}
	key := l.order[0]
	l.order = l.order[1:]
	ev := l.pending[key]
	delete(l.pending, key)
	return ev, true
}
