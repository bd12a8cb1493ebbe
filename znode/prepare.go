package znode

// Preparer makes transactions of requests. It lives as long as one leadership and belongs to one goroutine.
type Preparer struct {
	overlay
	opts *Options
	room int // what the scheme auth may still add to the present transaction
}

// NewPreparer starts a leadership over a tree that holds the leader's whole history.
func NewPreparer(t *Tree) *Preparer {
	return &Preparer{overlay: newOverlay(t), opts: &t.opts}
}

// Prepare makes the transaction of a request, against the tree and what is pending. It always gives one: a request that
// is refused gives a transaction that changes nothing (Txn.Failed). zxid is the transaction's and greater than any
// before; nowMs is the leader's wall clock. The host holds the tree's read lock. The transaction keeps the request's
// slices.
//
// A createSession whose id exists is refused with NodeExists: its server takes the next id.
func (p *Preparer) Prepare(r *Request, zxid, nowMs int64) *Txn {
	p.begin()
	p.room = maxExpanded
	txn := &Txn{
		Zxid: zxid, Time: nowMs, Type: r.Op,
		Session: r.Session, Cxid: r.Cxid, Ticket: r.Ticket, Origin: r.Origin,
	}
	var c Code
	switch r.Op {
	case OpMulti:
		c = p.multi(r, txn)
	case OpCreateSession:
		c = p.createSession(r, txn)
	case OpCloseSession:
		c = p.closeSession(r, txn)
	case OpCheck:
		c = Unimplemented // only in a multi
	default:
		c = p.op(r, r, txn, &txn.Op)
	}
	if c != OK {
		txn.Type, txn.Requested, txn.Err = OpError, r.Op, c
		txn.Op = TxnOp{}
	}
	if len(p.charges) > 0 {
		p.settleQuotas(zxid)
	}
	txn.Digest = p.sums
	return txn
}

// Applied tells that the tree has applied everything up to zxid: pending records up to there are dropped.
func (p *Preparer) Applied(zxid int64) { p.applied(zxid) }

// SessionExists says whether a session exists once everything prepared is applied: a closing one does not.
func (p *Preparer) SessionExists(id int64) bool { return p.session(id) != nil }

// Pending is the number of changes prepared and not yet dropped.
func (p *Preparer) Pending() int { return p.pending() }

// multi prepares all operations as one transaction, each against what those before it leave. If one fails nothing of
// it stays, and the transaction is a multi with Err. The result is the code of a request that is refused as a whole.
func (p *Preparer) multi(r *Request, txn *Txn) Code {
	if r.Undecodable || !decodable(r.Multi) {
		return MarshallingError
	}
	if len(r.Multi) == 0 && !p.SessionExists(r.Session) {
		return SessionExpired
	}
	start := p.pushLayer()
	ops := make([]TxnOp, len(r.Multi))
	for i := range r.Multi {
		c := p.op(r, &r.Multi[i], txn, &ops[i])
		if c == OK {
			continue
		}
		p.dropLayer(start)
		if c == MarshallingError {
			return c // an exception in ZooKeeper, which ends the whole request
		}
		txn.Err, txn.FailedAt = c, i
		txn.Refused = make([]Op, len(r.Multi))
		for j := range r.Multi {
			txn.Refused[j] = r.Multi[j].Op
		}
		return OK
	}
	p.keepLayer()
	txn.Multi = ops
	return OK
}

// decodable repeats what ZooKeeper's decoding of a multi refuses as a whole: operations that may not be in it, unknown
// create flags, null paths.
func decodable(ops []Request) bool {
	for i := range ops {
		switch op := &ops[i]; {
		case op.PathNull:
			return false
		case op.Op.creates():
			if op.Flags < flagPersistent || op.Flags > flagMax {
				return false
			}
		case op.Op != OpDelete && op.Op != OpSetData && op.Op != OpCheck:
			return false
		}
	}
	return true
}

func (p *Preparer) createSession(r *Request, txn *Txn) Code {
	if r.Session == 0 || p.SessionExists(r.Session) {
		return NodeExists
	}
	txn.Timeout, txn.Password = r.Timeout, r.Password
	p.setSession(Session{ID: r.Session, Timeout: r.Timeout, Password: r.Password, Ticket: r.Ticket}, false, txn.Zxid)
	return OK
}

func (p *Preparer) closeSession(r *Request, txn *Txn) Code {
	s := p.session(r.Session)
	if s == nil {
		return SessionExpired
	}
	p.removeSession(*s, txn.Zxid)
	return OK
}
