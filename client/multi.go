package client

import "time"

// Op is one operation of a Multi: CreateOp, DeleteOp, SetOp or CheckOp.
type Op interface{ path() string }

// CreateOp makes a node.
type CreateOp struct {
	Path string        // of the node; a sequential one gets its number behind it
	Data []byte        // nil: null, which is not the same as empty
	ACL  []ACL         // nil: OpenACL
	Mode CreateMode    // zero: Persistent
	TTL  time.Duration // of the modes with TTL: 1 ms to 2^40-1 ms
}

// DeleteOp removes a node without children.
type DeleteOp struct {
	Path    string // of the node
	Version int32  // the data version it must have, or AnyVersion
}

// SetOp replaces a node's data.
type SetOp struct {
	Path    string // of the node
	Data    []byte // nil: null
	Version int32  // the data version it must have, or AnyVersion
}

// CheckOp checks a node's data version.
type CheckOp struct {
	Path    string // of the node
	Version int32  // AnyVersion: it has to exist
}

func (o CreateOp) path() string { return o.Path }
func (o DeleteOp) path() string { return o.Path }
func (o SetOp) path() string    { return o.Path }
func (o CheckOp) path() string  { return o.Path }

// OpResult is the result of one operation of a Multi.
type OpResult struct {
	Code Code   // OK; of a failed multi: OK before the failed one (rolled back), its own code, ErrRuntimeInconsistency behind it
	Path string // of a create: the final name
	Stat Stat   // of a create and of a set, as of that operation
}

// ReadOp is one read of a MultiRead: GetOp or ChildrenOp.
type ReadOp interface{ readPath() string }

// GetOp reads a node.
type GetOp struct {
	Path string // of the node
}

// ChildrenOp lists the children of a node.
type ChildrenOp struct {
	Path string // of the node
}

func (o GetOp) readPath() string      { return o.Path }
func (o ChildrenOp) readPath() string { return o.Path }

// ReadResult is the result of one read of a MultiRead.
type ReadResult struct {
	Code     Code     // OK, or why this read has failed
	Data     []byte   // of a GetOp
	Stat     Stat     // of a GetOp
	Children []string // of a ChildrenOp
}
