package znode

// aclList is an interned access list: nodes with equal lists share one. Immutable but for refs.
type aclList struct {
	entries []ACL
	key     string // the list's encoding
	hash    uint64 // of the content, for the state digest
	refs    int    // nodes of the tree
}

func newACLList(acl []ACL, key []byte) *aclList {
	return &aclList{entries: acl, key: string(key), hash: hashBytes(key)}
}

// findACL looks for an equal list; it changes nothing but the buffer, so preparing may use it. The result may be one
// that is not interned.
func (t *Tree) findACL(acl []ACL, buf *[]byte) *aclList {
	if isOpen(acl) {
		return t.open
	}
	*buf = appendACL((*buf)[:0], acl)
	if l := t.acls[string(*buf)]; l != nil {
		return l
	}
	return newACLList(acl, *buf)
}

// intern gives the shared list for a node of the tree to hold.
func (t *Tree) intern(acl []ACL) *aclList {
	l := t.findACL(acl, &t.buf)
	if l.refs == 0 {
		t.acls[l.key] = l
	}
	l.refs++
	return l
}

// release takes back what intern gave.
func (t *Tree) release(l *aclList) {
	if l.refs--; l.refs == 0 {
		delete(t.acls, l.key)
	}
}
