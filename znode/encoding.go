package znode

import "encoding/binary"

// The first byte of each encoding says its format.
const (
	txnFormat     = 1
	requestFormat = 1
)

// AppendTxn appends the encoding of a transaction, as logs and peers have it.
func AppendTxn(dst []byte, t *Txn) []byte {
	dst = append(dst, txnFormat)
	dst = appendOp(dst, t.Type)
	dst = binary.AppendUvarint(dst, uint64(t.Zxid))
	dst = binary.AppendVarint(dst, t.Time)
	dst = appendOrigin(dst, t.Session, t.Cxid, t.Ticket, t.Origin)
	dst = appendUint64(dst, t.Digest.Tree)
	dst = appendUint64(dst, t.Digest.State)
	switch t.Type {
	case OpError:
		dst = appendOp(dst, t.Requested)
		dst = binary.AppendVarint(dst, int64(t.Err))
	case OpMulti:
		dst = appendMulti(dst, t)
	case OpCreateSession:
		dst = binary.AppendVarint(dst, int64(t.Timeout))
		dst = append(dst, t.Password[:]...)
	case OpCloseSession:
	default:
		dst = appendTxnOp(dst, &t.Op)
	}
	return dst
}

func appendOp(dst []byte, o Op) []byte { return binary.AppendVarint(dst, int64(o)) }

func appendOrigin(dst []byte, session int64, cxid int32, t Ticket, o Origin) []byte {
	dst = appendUint64(dst, uint64(session))
	dst = binary.AppendVarint(dst, int64(cxid))
	dst = binary.AppendUvarint(dst, uint64(t.Epoch))
	dst = binary.AppendUvarint(dst, t.Number)
	dst = binary.AppendUvarint(dst, o.Server)
	dst = appendUint64(dst, o.Instance)
	dst = binary.AppendUvarint(dst, uint64(o.Conn))
	return binary.AppendUvarint(dst, o.Seq)
}

// appendMulti: code; then the resolved operations, or which failed of which.
func appendMulti(dst []byte, t *Txn) []byte {
	dst = binary.AppendVarint(dst, int64(t.Err))
	if t.Err != OK {
		dst = binary.AppendUvarint(dst, uint64(t.FailedAt))
		dst = binary.AppendUvarint(dst, uint64(len(t.Refused)))
		for _, op := range t.Refused {
			dst = appendOp(dst, op)
		}
		return dst
	}
	dst = binary.AppendUvarint(dst, uint64(len(t.Multi)))
	for i := range t.Multi {
		dst = appendOp(dst, t.Multi[i].Op)
		dst = appendTxnOp(dst, &t.Multi[i])
	}
	return dst
}

func appendTxnOp(dst []byte, op *TxnOp) []byte {
	dst = appendString(dst, op.Path)
	switch {
	case op.Op.creates():
		dst = binary.AppendVarint(dst, int64(op.Version))
		dst = appendUint64(dst, uint64(op.Owner))
		dst = appendACL(dst, op.ACL)
		dst = appendData(dst, op.Data)
	case op.Op == OpSetData:
		dst = binary.AppendVarint(dst, int64(op.Version))
		dst = appendData(dst, op.Data)
	case op.Op == OpSetACL:
		dst = binary.AppendVarint(dst, int64(op.Version))
		dst = appendACL(dst, op.ACL)
	}
	return dst
}

// DecodeTxn reads what AppendTxn wrote. The result shares nothing with b. The error is ErrEncoding.
func DecodeTxn(b []byte) (*Txn, error) {
	r := &reader{rest: b}
	if r.byte() != txnFormat {
		return nil, ErrEncoding
	}
	t := &Txn{Type: Op(r.int32()), Zxid: int64(r.uvarint()), Time: r.varint()}
	t.Session, t.Cxid, t.Ticket, t.Origin = r.origin()
	t.Digest = Digests{Tree: r.uint64(), State: r.uint64()}
	switch t.Type {
	case OpError:
		t.Requested, t.Err = Op(r.int32()), Code(r.int32())
		if t.Err == OK {
			r.fail()
		}
	case OpMulti:
		r.multi(t)
	case OpCreateSession:
		t.Timeout = r.int32()
		copy(t.Password[:], r.take(16))
	case OpCloseSession:
	default:
		t.Op.Op = t.Type
		r.txnOp(&t.Op)
	}
	if !r.done() {
		return nil, ErrEncoding
	}
	return t, nil
}

func (r *reader) origin() (session int64, cxid int32, t Ticket, o Origin) {
	session, cxid = int64(r.uint64()), r.int32()
	t = Ticket{Epoch: r.uint32(), Number: r.uvarint()}
	o = Origin{Server: r.uvarint(), Instance: r.uint64(), Conn: r.uint32(), Seq: r.uvarint()}
	return session, cxid, t, o
}

func (r *reader) multi(t *Txn) {
	if t.Err = Code(r.int32()); t.Err != OK {
		at := r.uvarint()
		t.Refused = make([]Op, r.count(1))
		for i := range t.Refused {
			t.Refused[i] = Op(r.int32())
		}
		if at >= uint64(len(t.Refused)) {
			r.fail()
			return
		}
		t.FailedAt = int(at)
		return
	}
	t.Multi = make([]TxnOp, r.count(2))
	for i := range t.Multi {
		t.Multi[i].Op = Op(r.int32())
		r.txnOp(&t.Multi[i])
	}
}

func (r *reader) txnOp(op *TxnOp) {
	op.Path = r.string()
	switch {
	case op.Op.creates():
		op.Version, op.Owner, op.ACL, op.Data = r.int32(), int64(r.uint64()), r.acl(), r.data()
	case op.Op == OpSetData:
		op.Version, op.Data = r.int32(), r.data()
	case op.Op == OpSetACL:
		op.Version, op.ACL = r.int32(), r.acl()
	case op.Op == OpDelete, op.Op == OpDeleteContainer, op.Op == OpCheck:
	default:
		r.fail()
	}
}

// AppendRequest appends the encoding of a request, as learners forward it.
func AppendRequest(dst []byte, q *Request) []byte {
	dst = append(dst, requestFormat)
	dst = appendOrigin(dst, q.Session, q.Cxid, q.Ticket, q.Origin)
	dst = binary.AppendUvarint(dst, uint64(len(q.Auth)))
	for i := range q.Auth {
		dst = appendString(dst, q.Auth[i].Scheme)
		dst = appendString(dst, q.Auth[i].ID)
	}
	dst = appendRequestOp(dst, q)
	switch q.Op {
	case OpCreateSession:
		dst = binary.AppendVarint(dst, int64(q.Timeout))
		dst = append(dst, q.Password[:]...)
	case OpMulti:
		dst = binary.AppendUvarint(dst, uint64(len(q.Multi)))
		for i := range q.Multi {
			dst = appendRequestOp(dst, &q.Multi[i])
		}
	}
	return dst
}

// What the byte behind a request's opcode says.
const (
	requestPathNull = 1 << iota
	requestUndecodable
)

// requestOpSize is what appendRequestOp writes at least.
const requestOpSize = 8

func appendRequestOp(dst []byte, q *Request) []byte {
	dst = appendOp(dst, q.Op)
	var flags byte
	if q.PathNull {
		flags |= requestPathNull
	}
	if q.Undecodable {
		flags |= requestUndecodable
	}
	dst = append(dst, flags)
	dst = appendString(dst, q.Path)
	dst = appendData(dst, q.Data)
	dst = appendACL(dst, q.ACL)
	dst = binary.AppendVarint(dst, int64(q.Flags))
	dst = binary.AppendVarint(dst, int64(q.Version))
	return binary.AppendVarint(dst, q.TTL)
}

// DecodeRequest reads what AppendRequest wrote. The result shares nothing with b. The error is ErrEncoding.
func DecodeRequest(b []byte) (*Request, error) {
	r := &reader{rest: b}
	if r.byte() != requestFormat {
		return nil, ErrEncoding
	}
	q := &Request{}
	q.Session, q.Cxid, q.Ticket, q.Origin = r.origin()
	if n := r.count(2); n > 0 {
		q.Auth = make([]AuthID, n)
	}
	for i := range q.Auth {
		q.Auth[i] = AuthID{Scheme: r.scheme(), ID: r.string()}
	}
	r.requestOp(q)
	switch q.Op {
	case OpCreateSession:
		q.Timeout = r.int32()
		copy(q.Password[:], r.take(16))
	case OpMulti:
		if n := r.count(requestOpSize); n > 0 {
			q.Multi = make([]Request, n)
		}
		for i := range q.Multi {
			r.requestOp(&q.Multi[i])
		}
	}
	if !r.done() {
		return nil, ErrEncoding
	}
	return q, nil
}

func (r *reader) requestOp(q *Request) {
	q.Op = Op(r.int32())
	flags := r.byte()
	if flags&^(requestPathNull|requestUndecodable) != 0 {
		r.fail()
	}
	q.PathNull, q.Undecodable = flags&requestPathNull != 0, flags&requestUndecodable != 0
	q.Path, q.Data, q.ACL = r.string(), r.data(), r.acl()
	q.Flags, q.Version, q.TTL = r.int32(), r.int32(), r.varint()
}
