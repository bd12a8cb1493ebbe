package znode

// Txn is one transaction: a deterministic change of the tree or of the sessions, or a refusal (see Failed). Slices and
// strings are owned by it and immutable; applying shares them with the tree.
type Txn struct {
	Zxid    int64
	Time    int64 // the leader's wall clock, ms since 1970
	Type    Op    // as in the request; OpError: refused, with Err
	Session int64
	Cxid    int32
	Ticket  Ticket
	Origin  Origin
	Digest  Digests // of the state after this transaction

	// Err of an OpError is the code of the refusal. Err of an OpMulti is the code of its operation FailedAt, one of
	// Refused; the codes of the others follow from that.
	Err       Code
	Requested Op // OpError: the operation that was refused
	FailedAt  int
	Refused   []Op

	Op    TxnOp   // a single operation on a node
	Multi []TxnOp // OpMulti that succeeded

	Timeout  int32    // OpCreateSession: ms
	Password [16]byte // OpCreateSession
}

// Failed says that the transaction changes nothing but the zxid: a refused request, or a multi one of whose operations
// failed.
func (t *Txn) Failed() bool { return t.Type == OpError || t.Err != OK }

// refusal is the code of one operation of a failed multi.
func (t *Txn) refusal(i int) Code {
	switch {
	case i < t.FailedAt:
		return OK
	case i == t.FailedAt:
		return t.Err
	}
	return RuntimeInconsistency
}

// TxnOp is one resolved operation on a node.
type TxnOp struct {
	Op   Op
	Path string // final name
	Data []byte // creates, setData; nil: null
	ACL  []ACL  // creates, setACL: resolved list

	Owner int64 // creates: raw ephemeralOwner (session, container or TTL encoding; 0: none)

	// Version is absolute: the node's version after setData, its aversion after setACL, its parent's create counter
	// after a create.
	Version int32
}

// creates says that an operation makes a node.
func (o Op) creates() bool {
	return o == OpCreate || o == OpCreate2 || o == OpCreateContainer || o == OpCreateTTL
}
