package jute

// ConnectRequest is the first frame of a connection. It has no header.
type ConnectRequest struct {
	ProtocolVersion int32 // 0; not checked by servers
	LastZxidSeen    int64
	TimeOut         int32 // ms wanted
	SessionID       int64 // 0: a new session
	Passwd          []byte
	ReadOnly        bool // a read-only server will do
	HasReadOnly     bool // the byte was there, or is to be sent; clients up to 3.3 and some others leave it out
}

// Append appends the record.
func (r *ConnectRequest) Append(dst []byte) []byte {
	dst = AppendInt(dst, r.ProtocolVersion)
	dst = AppendLong(dst, r.LastZxidSeen)
	dst = AppendInt(dst, r.TimeOut)
	dst = AppendLong(dst, r.SessionID)
	dst = AppendBuffer(dst, r.Passwd)
	if r.HasReadOnly {
		dst = AppendBool(dst, r.ReadOnly)
	}
	return dst
}

// Decode reads the record.
func (r *ConnectRequest) Decode(d *Decoder) {
	r.ProtocolVersion = d.Int()
	r.LastZxidSeen = d.Long()
	r.TimeOut = d.Int()
	r.SessionID = d.Long()
	r.Passwd = d.Buffer()
	r.HasReadOnly = len(d.rest) > 0
	r.ReadOnly = r.HasReadOnly && d.Bool()
}

// ConnectResponse answers a ConnectRequest. It has no header. The session was refused if TimeOut is not positive.
type ConnectResponse struct {
	ProtocolVersion int32
	TimeOut         int32 // negotiated ms
	SessionID       int64
	Passwd          []byte // 16 bytes
	ReadOnly        bool   // the server is in read-only mode
	HasReadOnly     bool   // as in the request that it answers
}

// Append appends the record.
func (r *ConnectResponse) Append(dst []byte) []byte {
	dst = AppendInt(dst, r.ProtocolVersion)
	dst = AppendInt(dst, r.TimeOut)
	dst = AppendLong(dst, r.SessionID)
	dst = AppendBuffer(dst, r.Passwd)
	if r.HasReadOnly {
		dst = AppendBool(dst, r.ReadOnly)
	}
	return dst
}

// Decode reads the record.
func (r *ConnectResponse) Decode(d *Decoder) {
	r.ProtocolVersion = d.Int()
	r.TimeOut = d.Int()
	r.SessionID = d.Long()
	r.Passwd = d.Buffer()
	r.HasReadOnly = len(d.rest) > 0
	r.ReadOnly = r.HasReadOnly && d.Bool()
}

// RequestHeader begins every request after the first frame.
type RequestHeader struct {
	Xid  int32
	Type OpCode
}

// RequestHeaderSize is its length in bytes.
const RequestHeaderSize = 8

// Append appends the record.
func (r *RequestHeader) Append(dst []byte) []byte {
	dst = AppendInt(dst, r.Xid)
	return AppendInt(dst, int32(r.Type))
}

// Decode reads the record.
func (r *RequestHeader) Decode(d *Decoder) {
	r.Xid = d.Int()
	r.Type = OpCode(d.Int())
}

// ReplyHeader begins every reply and every event. A body follows only if Err is OK (a failed multiRead apart).
type ReplyHeader struct {
	Xid  int32
	Zxid int64
	Err  ErrorCode
}

// ReplyHeaderSize is its length in bytes.
const ReplyHeaderSize = 16

// Append appends the record.
func (r *ReplyHeader) Append(dst []byte) []byte {
	dst = AppendInt(dst, r.Xid)
	dst = AppendLong(dst, r.Zxid)
	return AppendInt(dst, int32(r.Err))
}

// Decode reads the record.
func (r *ReplyHeader) Decode(d *Decoder) {
	r.Xid = d.Int()
	r.Zxid = d.Long()
	r.Err = ErrorCode(d.Int())
}

// AuthPacket adds an identity to the connection (op 100).
type AuthPacket struct {
	Type   int32 // 0, ignored
	Scheme String
	Auth   []byte
}

// Append appends the record.
func (r *AuthPacket) Append(dst []byte) []byte {
	dst = AppendInt(dst, r.Type)
	dst = r.Scheme.Append(dst)
	return AppendBuffer(dst, r.Auth)
}

// Decode reads the record.
func (r *AuthPacket) Decode(d *Decoder) {
	r.Type = d.Int()
	r.Scheme = d.String()
	r.Auth = d.Buffer()
}

// GetSASLRequest carries a client's token (op 102).
type GetSASLRequest struct{ Token []byte }

// Append appends the record.
func (r *GetSASLRequest) Append(dst []byte) []byte { return AppendBuffer(dst, r.Token) }

// Decode reads the record.
func (r *GetSASLRequest) Decode(d *Decoder) { r.Token = d.Buffer() }

// SetSASLResponse carries the server's token; null when there is none.
type SetSASLResponse = GetSASLRequest

// WhoAmIResponse lists the identities of the connection (op 107), in no particular order.
type WhoAmIResponse struct{ ClientInfo []ClientInfo }

// ClientInfo is one identity; of a digest only the user's name.
type ClientInfo struct{ AuthScheme, User String }

// Append appends the record.
func (r *WhoAmIResponse) Append(dst []byte) []byte {
	if r.ClientInfo == nil {
		return AppendInt(dst, -1)
	}
	dst = AppendInt(dst, int32(len(r.ClientInfo)))
	for i := range r.ClientInfo {
		dst = r.ClientInfo[i].AuthScheme.Append(dst)
		dst = r.ClientInfo[i].User.Append(dst)
	}
	return dst
}

// Decode reads the record.
func (r *WhoAmIResponse) Decode(d *Decoder) {
	r.ClientInfo = nil
	n := d.count()
	if n < 0 || d.err != nil {
		return
	}
	v := make([]ClientInfo, 0, d.room(n, 8))
	for ; n > 0; n-- {
		c := ClientInfo{AuthScheme: d.String(), User: d.String()}
		if d.err != nil {
			return
		}
		v = append(v, c)
	}
	r.ClientInfo = v
}
