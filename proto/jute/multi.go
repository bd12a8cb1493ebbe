package jute

// MultiHeader stands before each operation and each result of a multi, and ends the list (Done).
type MultiHeader struct {
	Type OpCode
	Done bool
	Err  ErrorCode
}

// Append appends the record.
func (r *MultiHeader) Append(dst []byte) []byte {
	dst = AppendInt(dst, int32(r.Type))
	dst = AppendBool(dst, r.Done)
	return AppendInt(dst, int32(r.Err))
}

// Decode reads the record.
func (r *MultiHeader) Decode(d *Decoder) {
	r.Type = OpCode(d.Int())
	r.Done = d.Bool()
	r.Err = ErrorCode(d.Int())
}

func appendDone(dst []byte) []byte {
	return append(dst, 0xff, 0xff, 0xff, 0xff, 1, 0xff, 0xff, 0xff, 0xff)
}

// Op is one operation of a multi or multiRead. Which fields mean something depends on Type:
// Path always; Data of creates and setData; ACL and Flags of creates; TTL of createTTL; Version of delete, setData and
// check; Watch of getData and getChildren (servers ignore it).
type Op struct {
	Type    OpCode // create, create2, createContainer, createTTL, delete, setData, check; getData, getChildren
	Path    String
	Data    []byte
	ACL     []ACL
	Flags   int32
	Version int32
	TTL     int64 // ms
	Watch   bool
}

// MultiKind is what a multi's operations do.
type MultiKind uint8

// The kinds: none for an empty list, else all operations write (or check), or all read.
const (
	MultiEmpty MultiKind = iota
	MultiWrites
	MultiReads
)

// kind is the kind an operation belongs to; MultiEmpty if it may not be in a multi.
func (o OpCode) kind() MultiKind {
	switch o {
	case OpCreate, OpCreate2, OpCreateContainer, OpCreateTTL, OpDelete, OpSetData, OpCheck:
		return MultiWrites
	case OpGetData, OpGetChildren:
		return MultiReads
	}
	return MultiEmpty
}

// MultiRequest is the body of multi and multiRead (ops 14, 22): the same form, told apart by the opcode. Its operations
// are of one kind, or it does not decode (ErrSubOp); whether the kind fits the opcode is for the server to say.
type MultiRequest struct{ Ops []Op }

// Kind is the kind of all operations.
func (r *MultiRequest) Kind() MultiKind {
	if len(r.Ops) == 0 {
		return MultiEmpty
	}
	return r.Ops[0].Type.kind()
}

// Append appends the record.
func (r *MultiRequest) Append(dst []byte) []byte {
	for i := range r.Ops {
		o := &r.Ops[i]
		h := MultiHeader{Type: o.Type, Err: -1}
		dst = o.append(h.Append(dst))
	}
	return appendDone(dst)
}

func (o *Op) append(dst []byte) []byte {
	dst = o.Path.Append(dst)
	switch o.Type {
	case OpCreate, OpCreate2, OpCreateContainer, OpCreateTTL:
		dst = AppendBuffer(dst, o.Data)
		dst = AppendACLs(dst, o.ACL)
		dst = AppendInt(dst, o.Flags)
		if o.Type == OpCreateTTL {
			dst = AppendLong(dst, o.TTL)
		}
	case OpSetData:
		dst = AppendBuffer(dst, o.Data)
		dst = AppendInt(dst, o.Version)
	case OpDelete, OpCheck:
		dst = AppendInt(dst, o.Version)
	case OpGetData, OpGetChildren:
		dst = AppendBool(dst, o.Watch)
	}
	return dst
}

// Decode reads the record. The list ends at the first header that is done, whatever else that says. After an error Ops
// are the operations before the one that does not decode.
func (r *MultiRequest) Decode(d *Decoder) {
	r.Ops = nil
	kind := MultiEmpty
	for {
		var h MultiHeader
		h.Decode(d)
		if d.err != nil {
			return
		}
		if h.Done {
			return
		}
		k := h.Type.kind()
		if k == MultiEmpty || kind != MultiEmpty && k != kind {
			d.fail(ErrSubOp)
			return
		}
		kind = k
		o := Op{Type: h.Type}
		if o.decode(d); d.err != nil {
			return
		}
		r.Ops = append(r.Ops, o)
	}
}

func (o *Op) decode(d *Decoder) {
	o.Path = d.String()
	switch o.Type {
	case OpCreate, OpCreate2, OpCreateContainer, OpCreateTTL:
		o.Data = d.Buffer()
		o.ACL = d.ACLs()
		o.Flags = d.Int()
		if o.Type == OpCreateTTL {
			o.TTL = d.Long()
		}
	case OpSetData:
		o.Data = d.Buffer()
		o.Version = d.Int()
	case OpDelete, OpCheck:
		o.Version = d.Int()
	case OpGetData, OpGetChildren:
		o.Watch = d.Bool()
	}
}

// OpResult is one result of a multi or multiRead. Which fields mean something depends on Type, as the wire has it:
// create (Path), create2 (Path and Stat: also of createContainer and createTTL), delete, setData (Stat), check,
// getData (Data and Stat), getChildren (Children), error (Err).
type OpResult struct {
	Type     OpCode
	Err      ErrorCode // of OpError; may be OK there: rolled back because another operation failed
	Path     String
	Stat     Stat
	Data     []byte
	Children []string
}

// MultiResponse is the body of the replies to multi and multiRead. A failed multi has one error result per operation
// under a header that says OK.
type MultiResponse struct{ Results []OpResult }

// Append appends the record.
func (r *MultiResponse) Append(dst []byte) []byte {
	for i := range r.Results {
		dst = r.Results[i].append(dst)
	}
	return appendDone(dst)
}

func (o *OpResult) append(dst []byte) []byte {
	h := MultiHeader{Type: o.Type}
	if o.Type == OpError {
		h.Err = o.Err
	}
	dst = h.Append(dst)
	switch o.Type {
	case OpCreate:
		dst = o.Path.Append(dst)
	case OpCreate2:
		dst = o.Stat.Append(o.Path.Append(dst))
	case OpSetData:
		dst = o.Stat.Append(dst)
	case OpGetData:
		dst = o.Stat.Append(AppendBuffer(dst, o.Data))
	case OpGetChildren:
		dst = AppendStrings(dst, o.Children)
	case OpError:
		dst = AppendInt(dst, int32(o.Err))
	}
	return dst
}

// Decode reads the record.
func (r *MultiResponse) Decode(d *Decoder) {
	r.Results = nil
	var v []OpResult
	for {
		var h MultiHeader
		h.Decode(d)
		if d.err != nil {
			return
		}
		if h.Done {
			r.Results = v
			return
		}
		v = append(v, OpResult{Type: h.Type})
		v[len(v)-1].decode(d)
	}
}

func (o *OpResult) decode(d *Decoder) {
	switch o.Type {
	case OpCreate:
		o.Path = d.String()
	case OpCreate2:
		o.Path = d.String()
		o.Stat.Decode(d)
	case OpSetData:
		o.Stat.Decode(d)
	case OpGetData:
		o.Data = d.Buffer()
		o.Stat.Decode(d)
	case OpGetChildren:
		o.Children = d.Strings()
	case OpError:
		o.Err = ErrorCode(d.Int())
	case OpDelete, OpCheck:
	default:
		d.fail(ErrSubOp)
	}
}
