package znode

import "slices"

// Apply applies a transaction, exactly once and in zxid order, and says in out what came of it. out is the caller's to
// reuse; what is in it shares strings, lists and data with the tree, all immutable.
//
// It does not fail: a transaction that this tree cannot take was made by no correct leader, and panics with an
// *InvariantError. A digest that differs is only reported.
func (t *Tree) Apply(txn *Txn, out *Applied) {
	t.require(txn, txn.Zxid > t.applied, "zxid does not grow")
	out.reset(txn)
	switch {
	case txn.Type == OpError:
		out.Result = OpResult{Op: txn.Requested, Code: txn.Err}
	case txn.Type == OpMulti && txn.Err != OK:
		for i, op := range txn.Refused {
			out.Multi = append(out.Multi, OpResult{Op: op, Code: txn.refusal(i)})
		}
	case txn.Type == OpMulti:
		for i := range txn.Multi {
			out.Multi = append(out.Multi, t.applyOp(txn, &txn.Multi[i], out))
		}
	case txn.Type == OpCreateSession:
		t.applyCreateSession(txn, out)
	case txn.Type == OpCloseSession:
		t.applyCloseSession(txn, out)
	default:
		out.Result = t.applyOp(txn, &txn.Op, out)
	}
	if len(t.charges) > 0 {
		t.settle(out)
	}
	if !txn.Failed() {
		t.raiseTicket(txn, out)
	}
	t.applied = txn.Zxid
	out.DigestMismatch = t.sums != txn.Digest
}

func (t *Tree) require(txn *Txn, ok bool, what string) {
	if !ok {
		panic(&InvariantError{Zxid: txn.Zxid, What: what})
	}
}

// reset keeps the slices' memory and drops what they hold.
func (a *Applied) reset(txn *Txn) {
	clear(a.Multi)
	clear(a.Events)
	clear(a.Changes)
	*a = Applied{
		Zxid: txn.Zxid, Type: txn.Type, Session: txn.Session, Cxid: txn.Cxid, Origin: txn.Origin,
		Multi: a.Multi[:0], Events: a.Events[:0], Changes: a.Changes[:0], Sessions: a.Sessions[:0],
	}
	a.Result.Op = txn.Type
}

func (t *Tree) applyOp(txn *Txn, op *TxnOp, out *Applied) OpResult {
	switch op.Op {
	case OpCreate, OpCreate2, OpCreateContainer, OpCreateTTL:
		return t.applyCreate(txn, op, out)
	case OpDelete, OpDeleteContainer:
		t.applyDelete(txn, op.Path, out)
	case OpSetData:
		return t.applySetData(txn, op, out)
	case OpSetACL:
		return t.applySetACL(txn, op, out)
	case OpCheck:
	default:
		t.require(txn, false, "unknown operation")
	}
	return OpResult{Op: op.Op}
}

func (t *Tree) applyCreate(txn *Txn, op *TxnOp, out *Applied) OpResult {
	t.require(txn, ValidPath(op.Path), "create of a malformed path")
	parentPath, _ := split(op.Path)
	parent := t.nodes[parentPath]
	t.require(txn, parent != nil, "create without a parent")
	t.require(txn, t.nodes[op.Path] == nil, "create of a node that exists")

	t.sums.sub(t.digestOf(parentPath, &parent.meta))
	if op.Version > parent.counter { // at the end of the counter both stand still, as in ZooKeeper
		parent.counter, parent.pzxid = op.Version, txn.Zxid
	}
	t.sums.add(t.digestOf(parentPath, &parent.meta))

	n := &node{meta: meta{
		czxid: txn.Zxid, mzxid: txn.Zxid, pzxid: txn.Zxid, ctime: txn.Time, mtime: txn.Time,
		owner: op.Owner, acl: t.intern(op.ACL),
	}}
	n.setContent(op.Data)
	t.attach(op.Path, n)
	t.charge(op.Path, 1, int64(len(op.Data)), op.Data)
	out.Events = append(out.Events,
		Event{Type: EventCreated, Path: op.Path, ACL: n.acl.entries},
		Event{Type: EventChildrenChanged, Path: parentPath, ACL: parent.acl.entries})
	out.Changes = append(out.Changes, Change{Path: op.Path, Data: true}, Change{Path: parentPath})
	return OpResult{Op: op.Op, Path: op.Path, Stat: n.stat(&t.opts)}
}

func (t *Tree) applyDelete(txn *Txn, path string, out *Applied) {
	n := t.nodes[path]
	t.require(txn, n != nil && !reserved(path), "delete of a missing or reserved node")
	t.require(txn, n.children == 0, "delete of a node with children")
	parentPath, _ := split(path)
	parent := t.nodes[parentPath]
	acl := n.acl.entries

	t.detach(path, n)
	t.charge(path, -1, -int64(len(n.content())), nil)
	out.Events = append(out.Events,
		Event{Type: EventDeleted, Path: path, ACL: acl},
		Event{Type: EventChildrenChanged, Path: parentPath, ACL: parent.acl.entries})
	out.Changes = append(out.Changes, Change{Path: path, Data: true})
	if parent.pzxid >= txn.Zxid {
		return // noted already: at the end of a session parents come by again and again
	}
	t.sums.sub(t.digestOf(parentPath, &parent.meta))
	parent.pzxid = txn.Zxid
	t.sums.add(t.digestOf(parentPath, &parent.meta))
	out.Changes = append(out.Changes, Change{Path: parentPath})
}

func (t *Tree) applySetData(txn *Txn, op *TxnOp, out *Applied) OpResult {
	n := t.nodes[op.Path]
	t.require(txn, n != nil, "setData of a missing node")
	t.sums.sub(t.digestOf(op.Path, &n.meta))
	t.dataSize += int64(len(op.Data) - len(n.content()))
	t.charge(op.Path, 0, int64(len(op.Data)-len(n.content())), op.Data)
	n.setContent(op.Data)
	n.sum = sumContent(op.Path, op.Data)
	n.version, n.mzxid, n.mtime = op.Version, txn.Zxid, txn.Time
	t.sums.add(t.digestOf(op.Path, &n.meta))
	out.Events = append(out.Events, Event{Type: EventDataChanged, Path: op.Path, ACL: n.acl.entries})
	out.Changes = append(out.Changes, Change{Path: op.Path, Data: true})
	return OpResult{Op: op.Op, Stat: n.stat(&t.opts)}
}

func (t *Tree) applySetACL(txn *Txn, op *TxnOp, out *Applied) OpResult {
	n := t.nodes[op.Path]
	t.require(txn, n != nil, "setACL of a missing node")
	t.sums.sub(t.digestOf(op.Path, &n.meta))
	old := n.acl
	n.acl, n.aversion = t.intern(op.ACL), op.Version
	t.release(old)
	t.sums.add(t.digestOf(op.Path, &n.meta))
	out.Changes = append(out.Changes, Change{Path: op.Path})
	return OpResult{Op: op.Op, Stat: n.stat(&t.opts)}
}

func (t *Tree) applyCreateSession(txn *Txn, out *Applied) {
	t.require(txn, t.sessions[txn.Session] == nil, "createSession of a session that exists")
	s := &Session{ID: txn.Session, Timeout: txn.Timeout, Password: txn.Password, Ticket: txn.Ticket}
	t.sessions[s.ID] = s
	t.sums.State += s.stateHash()
	out.Sessions = append(out.Sessions, s.ID)
}

// applyCloseSession removes the session's nodes, in path order, and the session (I10).
func (t *Tree) applyCloseSession(txn *Txn, out *Applied) {
	s := t.sessions[txn.Session]
	t.require(txn, s != nil, "closeSession of an unknown session")
	t.paths = t.paths[:0]
	for p := range t.ephemerals[s.ID] {
		t.paths = append(t.paths, p)
	}
	delete(t.ephemerals, s.ID) // as a whole: many are slow to take out one by one
	slices.Sort(t.paths)
	out.Events = slices.Grow(out.Events, 2*len(t.paths))
	out.Changes = slices.Grow(out.Changes, 2*len(t.paths))
	for _, p := range t.paths {
		t.applyDelete(txn, p, out)
	}
	clear(t.paths)
	delete(t.sessions, s.ID)
	t.sums.State -= s.stateHash()
	out.Sessions = append(out.Sessions, s.ID)
	out.Ended = s.ID
}

// raiseTicket keeps the highest ticket under which a session wrote, so that a delayed write of a former owner can be
// told also after a leader change.
func (t *Tree) raiseTicket(txn *Txn, out *Applied) {
	s := t.sessions[txn.Session]
	if s != nil && s.Ticket.Less(txn.Ticket) {
		s.Ticket = txn.Ticket
		out.Sessions = append(out.Sessions, s.ID)
	}
}
