package znode

import "strings"

// Reads take the identities of the asking connection. The empty path is an alias of the root; other paths are only
// looked up, so a malformed one is NoNode. A null path is not theirs: it is MarshallingError, by the caller.

// Exists needs READ only if the node is there. A caller that wants a watch sets it on OK and on NoNode.
func (t *Tree) Exists(path string, auth []AuthID) (Stat, Code) {
	if strings.IndexByte(path, 0) >= 0 {
		return Stat{}, BadArguments
	}
	n, c := t.read(path, auth)
	if c != OK {
		return Stat{}, c
	}
	return n.stat(&t.opts), OK
}

// GetData gives a node's data (nil: null), which is immutable and may be kept, and its stat.
func (t *Tree) GetData(path string, auth []AuthID) (data []byte, st Stat, c Code) {
	n, c := t.read(path, auth)
	if c != OK {
		return nil, Stat{}, c
	}
	return n.content(), n.stat(&t.opts), OK
}

// Children gives the sorted names of a node's children and its stat.
func (t *Tree) Children(path string, auth []AuthID) (names Names, st Stat, c Code) {
	n, c := t.read(path, auth)
	if c != OK {
		return Names{}, Stat{}, c
	}
	return n.names(), n.stat(&t.opts), OK
}

// GetACL needs READ or ADMIN; without ADMIN the digests are masked. The slice is shared and immutable.
func (t *Tree) GetACL(path string, auth []AuthID) ([]ACL, Stat, Code) {
	n := t.find(path)
	if n == nil {
		return nil, Stat{}, NoNode
	}
	acl := n.acl.entries
	if !t.opts.allowed(acl, PermRead|PermAdmin, auth) {
		return nil, Stat{}, NoAuth
	}
	if !t.opts.allowed(acl, PermAdmin, auth) {
		acl = masked(acl)
	}
	return acl, n.stat(&t.opts), OK
}

// AllChildrenNumber counts a node's descendants; under the root's alias "" the root counts too. It visits them all.
func (t *Tree) AllChildrenNumber(path string, auth []AuthID) (int32, Code) {
	n, c := t.read(path, auth)
	switch {
	case c != OK:
		return 0, c
	case path == "":
		return int32(len(t.nodes)), OK
	case path == RootPath:
		return int32(len(t.nodes) - 1), OK
	}
	return n.descendants(), OK
}

func (n *node) descendants() int32 {
	var total int32
	for todo := []*node{n}; len(todo) > 0; {
		last := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		total += last.children
		for _, kid := range last.kids {
			if kid.children > 0 {
				todo = append(todo, kid)
			}
		}
	}
	return total
}

// WatchState says what setWatches compares with: whether the node is there, when it and its children last changed.
func (t *Tree) WatchState(path string) (exists bool, mzxid, pzxid int64) {
	n := t.find(path)
	if n == nil {
		return false, 0, 0
	}
	return true, n.mzxid, n.pzxid
}

// CheckRead is the filter of events: whether a connection may read what the event tells.
func (t *Tree) CheckRead(acl []ACL, auth []AuthID) bool { return t.opts.allowed(acl, PermRead, auth) }

// read looks a node up and asks for READ.
func (t *Tree) read(path string, auth []AuthID) (*node, Code) {
	n := t.find(path)
	if n == nil {
		return nil, NoNode
	}
	if !t.opts.allowed(n.acl.entries, PermRead, auth) {
		return nil, NoAuth
	}
	return n, OK
}
