package znode

// Create flags as on the wire.
const (
	flagPersistent          = 0
	flagEphemeral           = 1
	flagSequential          = 2
	flagEphemeralSequential = 3
	flagContainer           = 4
	flagTTL                 = 5
	flagTTLSequential       = 6
	flagMax                 = flagTTLSequential
)

func sequential(flags int32) bool {
	return flags == flagSequential || flags == flagEphemeralSequential || flags == flagTTLSequential
}

// op prepares one operation on a node. req is the whole request (session, identities), r the operation: the same unless
// it is in a multi. The checks come in ZooKeeper's order (semantics 5 to 7): the first that fails decides.
func (p *Preparer) op(req, r *Request, txn *Txn, out *TxnOp) Code {
	out.Op = r.Op
	switch r.Op {
	case OpCreate, OpCreate2, OpCreateContainer, OpCreateTTL:
		if c := p.checkFlags(r); c != OK {
			return c
		}
	case OpDelete, OpSetData, OpSetACL, OpCheck:
	case OpDeleteContainer:
		return p.deleteContainer(r, txn, out)
	case OpReconfig:
		return ReconfigDisabled
	default:
		return Unimplemented
	}
	if !p.SessionExists(req.Session) {
		return SessionExpired
	}
	switch r.Op {
	case OpDelete:
		return p.delete(req, r, txn, out)
	case OpSetData:
		return p.setData(req, r, txn, out)
	case OpSetACL:
		return p.setACL(req, r, txn, out)
	case OpCheck:
		return p.check(req, r, out)
	}
	return p.create(req, r, txn, out)
}

// checkFlags is what comes before the session check of a create. TTL is -1 for operations that carry none.
func (p *Preparer) checkFlags(r *Request) Code {
	ttlFlag := r.Flags == flagTTL || r.Flags == flagTTLSequential
	ttl := r.TTL
	if r.Op != OpCreateTTL {
		ttl = -1
	}
	switch {
	case r.Flags < flagPersistent || r.Flags > flagMax:
		return BadArguments
	case ttlFlag && !p.opts.ExtendedTypes:
		return Unimplemented
	case ttlFlag && (ttl <= 0 || ttl > MaxTTL):
		return BadArguments
	case !ttlFlag && (ttl >= 0 || r.Op == OpCreateTTL): // the second ends the process of ZooKeeper
		return BadArguments
	}
	return OK
}

func (p *Preparer) create(req, r *Request, txn *Txn, out *TxnOp) Code {
	if r.PathNull {
		return MarshallingError
	}
	if !wellFormed(r.Path) {
		return BadArguments
	}
	acl, c := p.opts.fixACL(r.ACL, req.Auth, &p.room)
	if c != OK {
		return c
	}
	parentPath, _ := split(r.Path)
	parent := p.find(parentPath)
	if parent == nil {
		return NoNode
	}
	if !p.opts.allowed(parent.acl.entries, PermCreate, req.Auth) {
		return NoAuth
	}
	path := r.Path
	if sequential(r.Flags) {
		path = string(appendCounter(append(make([]byte, 0, len(path)+11), path...), parent.counter))
	}
	if !ValidPath(path) {
		return BadArguments
	}
	if p.find(path) != nil {
		return NodeExists
	}
	if p.opts.ownerKind(parent.owner) == ownerSession {
		return NoChildrenForEphemerals
	}
	if c := p.checkQuota(path, 1, int64(len(r.Data))); c != OK {
		return c
	}
	list := p.tree.findACL(acl, &p.buf)
	out.Path, out.Data, out.ACL = path, r.Data, list.entries
	out.Owner, out.Version = newOwner(req.Session, r), parent.counter+1
	p.overlay.create(path, parentPath, &meta{
		czxid: txn.Zxid, mzxid: txn.Zxid, pzxid: txn.Zxid, ctime: txn.Time, mtime: txn.Time,
		owner: out.Owner, size: sizeOf(r.Data), sum: sumContent(path, r.Data), acl: list,
	}, out.Version, txn.Zxid)
	p.charge(path, 1, int64(len(r.Data)), r.Data)
	return OK
}

// newOwner: the operation, not the flag, decides what is a container or a TTL node.
func newOwner(session int64, r *Request) int64 {
	switch {
	case r.Op == OpCreateContainer:
		return ContainerOwner
	case r.Op == OpCreateTTL:
		return TTLOwner(r.TTL)
	case r.Flags == flagEphemeral || r.Flags == flagEphemeralSequential:
		return session
	}
	return 0
}

func (p *Preparer) delete(req, r *Request, txn *Txn, out *TxnOp) Code {
	if r.PathNull {
		return MarshallingError
	}
	if !wellFormed(r.Path) || reserved(r.Path) {
		return BadArguments
	}
	parentPath, _ := split(r.Path)
	parent := p.find(parentPath)
	if parent == nil {
		return NoNode
	}
	if !p.opts.allowed(parent.acl.entries, PermDelete, req.Auth) {
		return NoAuth
	}
	n := p.find(r.Path)
	switch {
	case n == nil:
		return NoNode
	case !versionMatches(r.Version, n.version):
		return BadVersion
	case n.children > 0:
		return NotEmpty
	}
	out.Path = r.Path
	p.remove(r.Path, txn.Zxid)
	return OK
}

// deleteContainer is the reaper's delete of an empty container or TTL node, with neither session nor permission. What it
// found due may have changed since: a node made anew under the path, a TTL that setData started again.
func (p *Preparer) deleteContainer(r *Request, txn *Txn, out *TxnOp) Code {
	if r.PathNull || !wellFormed(r.Path) || reserved(r.Path) {
		return BadArguments
	}
	n := p.find(r.Path)
	switch {
	case n == nil:
		return NoNode
	case n.children > 0:
		return NotEmpty
	case !p.mortal(n, txn.Time):
		return BadVersion
	}
	out.Path = r.Path
	p.remove(r.Path, txn.Zxid)
	return OK
}

func (p *Preparer) mortal(n *meta, nowMs int64) bool {
	switch p.opts.ownerKind(n.owner) {
	case ownerContainer:
		return true
	case ownerTTL:
		return nowMs-n.mtime > ttlOf(n.owner)
	}
	return false
}

func (p *Preparer) setData(req, r *Request, txn *Txn, out *TxnOp) Code {
	n, c := p.existing(req, r, PermWrite)
	if c != OK {
		return c
	}
	delta := int64(len(r.Data)) - int64(max(n.size, 0))
	if c := p.checkQuota(r.Path, 0, delta); c != OK {
		return c
	}
	if !versionMatches(r.Version, n.version) {
		return BadVersion
	}
	p.charge(r.Path, 0, delta, r.Data)
	out.Path, out.Data, out.Version = r.Path, r.Data, n.version+1
	p.change(r.Path, txn.Zxid, func(n *meta) {
		n.size, n.sum = sizeOf(r.Data), sumContent(r.Path, r.Data)
		n.version, n.mzxid, n.mtime = out.Version, txn.Zxid, txn.Time
	})
	return OK
}

// setACL changes the pending list at once: writes prepared after it are judged by the new one.
func (p *Preparer) setACL(req, r *Request, txn *Txn, out *TxnOp) Code {
	if r.PathNull || !ValidPath(r.Path) {
		return BadArguments
	}
	acl, c := p.opts.fixACL(r.ACL, req.Auth, &p.room)
	if c != OK {
		return c
	}
	n, c := p.existing(req, r, PermAdmin)
	switch {
	case c != OK:
		return c
	case !versionMatches(r.Version, n.aversion):
		return BadVersion
	}
	list := p.tree.findACL(acl, &p.buf)
	out.Path, out.ACL, out.Version = r.Path, list.entries, n.aversion+1
	p.change(r.Path, txn.Zxid, func(n *meta) { n.acl, n.aversion = list, out.Version })
	return OK
}

// check is in multis only.
func (p *Preparer) check(req, r *Request, out *TxnOp) Code {
	n, c := p.existing(req, r, PermRead)
	switch {
	case c != OK:
		return c
	case !versionMatches(r.Version, n.version):
		return BadVersion
	}
	out.Path = r.Path
	return OK
}

// existing looks up the node that an operation is about and asks for a permission on it.
func (p *Preparer) existing(req, r *Request, perm int32) (*meta, Code) {
	if r.PathNull || !ValidPath(r.Path) {
		return nil, BadArguments
	}
	n := p.find(r.Path)
	if n == nil {
		return nil, NoNode
	}
	if !p.opts.allowed(n.acl.entries, perm, req.Auth) {
		return nil, NoAuth
	}
	return n, OK
}

// versionMatches: -1 means any; everything else is compared, other negative numbers too.
func versionMatches(expected, current int32) bool { return expected == -1 || expected == current }
