package znode

import (
	"sync/atomic"
	"unsafe"
)

// meta is a node without its path, data and children's names: what the overlay keeps of a pending one.
type meta struct {
	czxid, mzxid, pzxid int64
	ctime, mtime        int64
	owner               int64 // raw ephemeralOwner
	version, aversion   int32
	counter             int32 // children ever created; Java's name for it on disk is cversion
	children            int32 // now
	size                int32 // of the data; -1: null
	sum                 contentSum
	acl                 *aclList
}

// node is a znode of the tree.
type node struct {
	meta
	data *byte            // see content
	kids map[string]*node // by name; nil until the first

	listing atomic.Pointer[listing] // nil until the first; readers may replace it concurrently
}

// content is the node's data; nil: null. The node keeps only where it begins, for meta has its length: so a node takes
// 112 bytes instead of 128.
func (n *node) content() []byte {
	switch n.size {
	case -1:
		return nil
	case 0:
		return []byte{}
	}
	return unsafe.Slice(n.data, n.size)
}

// setContent replaces the data and its length. The bytes are the node's from now on and never change.
func (n *node) setContent(data []byte) {
	n.data, n.size = nil, sizeOf(data)
	if len(data) > 0 {
		n.data = unsafe.SliceData(data)
	}
}

func sizeOf(data []byte) int32 {
	if data == nil {
		return -1
	}
	return int32(len(data))
}

// stat is what clients see of a node.
func (m *meta) stat(o *Options) Stat {
	st := Stat{
		Czxid: m.czxid, Mzxid: m.mzxid, Ctime: m.ctime, Mtime: m.mtime, Pzxid: m.pzxid,
		Version: m.version, Cversion: 2*m.counter - m.children, Aversion: m.aversion,
		DataLength: max(m.size, 0), NumChildren: m.children,
	}
	if o.ownerKind(m.owner) == ownerSession {
		st.EphemeralOwner = m.owner
	}
	return st
}
