package znode

import (
	"fmt"
	"maps"
	"slices"
)

// LoadError says what is wrong with a stored state.
type LoadError struct{ Path, What string }

func (e *LoadError) Error() string { return fmt.Sprintf("znode: loading %q: %s", e.Path, e.What) }

// DigestError says that a loaded state is not the one that was stored.
type DigestError struct{ Got, Want Digests }

func (e *DigestError) Error() string {
	return fmt.Sprintf("znode: loaded state has digests %x, %x; stored were %x, %x",
		e.Got.Tree, e.Got.State, e.Want.Tree, e.Want.State)
}

// Record gives a node as the store keeps it. Data is shared and immutable.
func (t *Tree) Record(path string) (NodeRecord, bool) {
	n := t.nodes[path]
	if n == nil {
		return NodeRecord{}, false
	}
	return n.record(path), true
}

func (n *node) record(path string) NodeRecord {
	return NodeRecord{
		Path: path, Czxid: n.czxid, Mzxid: n.mzxid, Ctime: n.ctime, Mtime: n.mtime, Pzxid: n.pzxid,
		Version: n.version, CreateCounter: n.counter, Aversion: n.aversion, Owner: n.owner,
		ACL: n.acl.entries, Data: n.content(),
	}
}

// Walk calls f for every node, in byte order of the paths, until f says no. Parents come before their children.
func (t *Tree) Walk(f func(NodeRecord) bool) {
	for _, p := range slices.Sorted(maps.Keys(t.nodes)) {
		if !f(t.nodes[p].record(p)) {
			return
		}
	}
}

// Load puts one stored node into a new tree. Records come in path order; those of nodes that always exist replace what
// NewTree made. Slices and strings become the tree's.
func (t *Tree) Load(r NodeRecord) error {
	if !ValidPath(r.Path) {
		return &LoadError{Path: r.Path, What: "malformed path"}
	}
	if old := t.nodes[r.Path]; old != nil {
		if !reserved(r.Path) {
			return &LoadError{Path: r.Path, What: "twice"}
		}
		t.reload(r, old)
		return nil
	}
	parent, _ := split(r.Path)
	if t.nodes[parent] == nil {
		return &LoadError{Path: r.Path, What: "its parent is missing"}
	}
	n := new(node)
	n.setContent(r.Data)
	n.setRecord(&r, t.intern(r.ACL))
	t.attach(r.Path, n)
	t.loadQuota(r.Path, r.Data)
	return nil
}

// reload replaces what NewTree made of a node that always exists.
func (t *Tree) reload(r NodeRecord, n *node) {
	t.sums.sub(t.digestOf(r.Path, &n.meta))
	t.dataSize += int64(len(r.Data) - len(n.content()))
	old := n.acl
	n.setRecord(&r, t.intern(r.ACL))
	t.release(old)
	n.setContent(r.Data)
	n.sum = sumContent(r.Path, r.Data)
	t.sums.add(t.digestOf(r.Path, &n.meta))
}

func (n *node) setRecord(r *NodeRecord, acl *aclList) {
	n.czxid, n.mzxid, n.pzxid = r.Czxid, r.Mzxid, r.Pzxid
	n.ctime, n.mtime, n.owner = r.Ctime, r.Mtime, r.Owner
	n.version, n.counter, n.aversion = r.Version, r.CreateCounter, r.Aversion
	n.acl = acl
}

// LoadSession puts one stored session into a new tree.
func (t *Tree) LoadSession(s Session) error {
	if t.sessions[s.ID] != nil {
		return &LoadError{Path: fmt.Sprintf("session %#x", s.ID), What: "twice"}
	}
	t.sessions[s.ID] = &s
	t.sums.State += s.stateHash()
	return nil
}

// Loaded ends loading: the state is that of the zxid applied. A *DigestError says that it is not the state stored
// under these digests.
func (t *Tree) Loaded(applied int64, d Digests) error {
	if t.sums != d {
		return &DigestError{Got: t.sums, Want: d}
	}
	t.applied = applied
	return nil
}
