package znode

import "fmt"

// Tree is the applied state: nodes and sessions. It is not locked. Reads may run concurrently with each other and with
// a Preparer; everything that changes it needs it alone.
//
// Invariant: only delivered transactions are in it.
type Tree struct {
	opts     Options
	nodes    map[string]*node // by path; the root is "/"
	acls     map[string]*aclList
	open     *aclList // openACL, held for ever
	sessions map[int64]*Session

	// ephemerals holds the paths that each session owns.
	ephemerals     map[int64]map[string]struct{}
	ephemeralCount int

	mortals map[string]struct{} // paths of containers and TTL nodes

	quotas   map[string]*quota // by the path that they are for
	quotaLen int               // no key is longer
	charges  []charge          // of the present transaction
	touched  []string          // quotas that it touched

	applied  int64
	sums     Digests
	dataSize int64 // bytes of all paths and data

	digester
	buf   []byte   // for intern
	paths []string // for closeSession
}

// InvariantError is the value of a panic: a transaction that no correct leader can have made for this tree.
type InvariantError struct {
	Zxid int64
	What string
}

func (e *InvariantError) Error() string { return fmt.Sprintf("znode: txn %#x: %s", e.Zxid, e.What) }

// NewTree makes a tree that holds only the nodes that always exist.
func NewTree(o Options) *Tree {
	t := &Tree{
		opts:       o,
		nodes:      make(map[string]*node),
		acls:       make(map[string]*aclList),
		sessions:   make(map[int64]*Session),
		ephemerals: make(map[int64]map[string]struct{}),
		mortals:    make(map[string]struct{}),
		quotas:     make(map[string]*quota),
	}
	t.open = newACLList(openACL, appendACL(nil, openACL))
	t.open.refs = 1
	t.acls[t.open.key] = t.open

	readOnly := []ACL{{Perms: PermRead, Scheme: schemeWorld, ID: idAnyone}}
	t.attach(RootPath, &node{meta: meta{acl: t.intern(openACL)}})
	t.attach(SystemPath, &node{meta: meta{acl: t.intern(openACL)}})
	t.attach(QuotaPath, &node{meta: meta{acl: t.intern(openACL)}})
	t.attach(ConfigPath, &node{meta: meta{aversion: -1, acl: t.intern(readOnly)}})
	return t
}

// attach puts a new node into the tree and its sums. The parent, if it is not the root's, must be there; its stat
// besides the number of children is the caller's.
func (t *Tree) attach(path string, n *node) {
	n.sum = sumContent(path, n.content())
	t.nodes[path] = n
	t.dataSize += int64(len(path) + len(n.content()))
	t.sums.add(t.digestOf(path, &n.meta))
	if path != RootPath {
		parent, name := split(path)
		p := t.nodes[parent]
		if p.kids == nil {
			p.kids = make(map[string]*node)
		}
		p.kids[name] = n
		p.children++ // is not part of the digests
		p.noteChild(name, true)
	}
	t.own(path, n.owner)
}

// detach is the reverse of attach.
func (t *Tree) detach(path string, n *node) {
	parent, name := split(path)
	p := t.nodes[parent]
	delete(p.kids, name)
	p.children--
	p.noteChild(name, false)
	delete(t.nodes, path)
	t.dataSize -= int64(len(path) + len(n.content()))
	t.sums.sub(t.digestOf(path, &n.meta))
	t.release(n.acl)
	t.disown(path, n.owner)
}

// own enters a node among those that do not stay for ever, if it is one.
func (t *Tree) own(path string, owner int64) {
	switch t.opts.ownerKind(owner) {
	case ownerSession:
		paths := t.ephemerals[owner]
		if paths == nil {
			paths = make(map[string]struct{})
			t.ephemerals[owner] = paths
		}
		paths[path] = struct{}{}
		t.ephemeralCount++
	case ownerContainer, ownerTTL:
		t.mortals[path] = struct{}{}
	}
}

// disown is the reverse of own.
func (t *Tree) disown(path string, owner int64) {
	switch t.opts.ownerKind(owner) {
	case ownerSession:
		if paths := t.ephemerals[owner]; paths != nil {
			delete(paths, path)
			if len(paths) == 0 {
				delete(t.ephemerals, owner)
			}
		}
		t.ephemeralCount--
	case ownerContainer, ownerTTL:
		delete(t.mortals, path)
	}
}

// find looks a path up; the empty path is the root.
func (t *Tree) find(path string) *node { return t.nodes[canonical(path)] }

// Applied is the zxid of the last transaction applied or loaded.
func (t *Tree) Applied() int64 { return t.applied }

// Digests are the sums over the present state.
func (t *Tree) Digests() Digests { return t.sums }

// NodeCount is the number of nodes, those that always exist included.
func (t *Tree) NodeCount() int { return len(t.nodes) }

// ApproximateDataSize is the number of bytes in all paths and data.
func (t *Tree) ApproximateDataSize() int64 { return t.dataSize }

// EphemeralCount is the number of nodes that sessions own.
func (t *Tree) EphemeralCount() int { return t.ephemeralCount }

// SessionCount is the number of sessions.
func (t *Tree) SessionCount() int { return len(t.sessions) }

// SetConfigNode writes this server's configuration into /zookeeper/config: on an ensemble's members, at start and
// after loading; it is no transaction, and neither digest covers the node. A standalone server leaves it empty.
// version is the configuration's (it becomes mzxid), nowMs the wall clock.
func (t *Tree) SetConfigNode(text []byte, version, nowMs int64) {
	n := t.nodes[ConfigPath]
	t.dataSize += int64(len(text) - len(n.content()))
	n.setContent(text)
	n.sum = sumContent(ConfigPath, text)
	n.version, n.mzxid, n.mtime = -1, version, nowMs
}
