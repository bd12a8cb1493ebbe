package jute

import "encoding/binary"

// StatSize is the length of a Stat in bytes.
const StatSize = 68

// Stat describes a node. Fields and order are those of znode.Stat: each converts to the other.
type Stat struct {
	Czxid, Mzxid, Ctime, Mtime  int64 // times in ms since the epoch
	Version, Cversion, Aversion int32
	EphemeralOwner              int64 // session id of an ephemeral, else 0
	DataLength, NumChildren     int32
	Pzxid                       int64
}

// Append appends the record.
func (r *Stat) Append(dst []byte) []byte {
	n := len(dst)
	dst = append(dst, zeroStat[:]...)
	b := dst[n : n+StatSize]
	binary.BigEndian.PutUint64(b[0:], uint64(r.Czxid))
	binary.BigEndian.PutUint64(b[8:], uint64(r.Mzxid))
	binary.BigEndian.PutUint64(b[16:], uint64(r.Ctime))
	binary.BigEndian.PutUint64(b[24:], uint64(r.Mtime))
	binary.BigEndian.PutUint32(b[32:], uint32(r.Version))
	binary.BigEndian.PutUint32(b[36:], uint32(r.Cversion))
	binary.BigEndian.PutUint32(b[40:], uint32(r.Aversion))
	binary.BigEndian.PutUint64(b[44:], uint64(r.EphemeralOwner))
	binary.BigEndian.PutUint32(b[52:], uint32(r.DataLength))
	binary.BigEndian.PutUint32(b[56:], uint32(r.NumChildren))
	binary.BigEndian.PutUint64(b[60:], uint64(r.Pzxid))
	return dst
}

var zeroStat [StatSize]byte

// Decode reads the record.
func (r *Stat) Decode(d *Decoder) {
	b := d.take(StatSize)
	if b == nil {
		*r = Stat{}
		return
	}
	r.Czxid = int64(binary.BigEndian.Uint64(b[0:]))
	r.Mzxid = int64(binary.BigEndian.Uint64(b[8:]))
	r.Ctime = int64(binary.BigEndian.Uint64(b[16:]))
	r.Mtime = int64(binary.BigEndian.Uint64(b[24:]))
	r.Version = int32(binary.BigEndian.Uint32(b[32:]))
	r.Cversion = int32(binary.BigEndian.Uint32(b[36:]))
	r.Aversion = int32(binary.BigEndian.Uint32(b[40:]))
	r.EphemeralOwner = int64(binary.BigEndian.Uint64(b[44:]))
	r.DataLength = int32(binary.BigEndian.Uint32(b[52:]))
	r.NumChildren = int32(binary.BigEndian.Uint32(b[56:]))
	r.Pzxid = int64(binary.BigEndian.Uint64(b[60:]))
}

// ACL is one entry of a node's list. On the wire scheme and id are a record Id of their own, which adds no bytes.
type ACL struct {
	Perms      int32
	Scheme, ID String
}

// Append appends the record.
func (r *ACL) Append(dst []byte) []byte {
	dst = AppendInt(dst, r.Perms)
	dst = r.Scheme.Append(dst)
	return r.ID.Append(dst)
}

// Decode reads the record.
func (r *ACL) Decode(d *Decoder) {
	r.Perms = d.Int()
	r.Scheme = d.word()
	r.ID = d.word()
}

// CreateRequest is the body of create, create2 and createContainer (ops 1, 15, 19).
type CreateRequest struct {
	Path  String
	Data  []byte
	ACL   []ACL
	Flags int32
}

// Append appends the record.
func (r *CreateRequest) Append(dst []byte) []byte {
	dst = r.Path.Append(dst)
	dst = AppendBuffer(dst, r.Data)
	dst = AppendACLs(dst, r.ACL)
	return AppendInt(dst, r.Flags)
}

// Decode reads the record.
func (r *CreateRequest) Decode(d *Decoder) {
	r.Path = d.String()
	r.Data = d.Buffer()
	r.ACL = d.ACLs()
	r.Flags = d.Int()
}

// CreateTTLRequest is the body of createTTL (op 21).
type CreateTTLRequest struct {
	CreateRequest
	TTL int64 // ms
}

// Append appends the record.
func (r *CreateTTLRequest) Append(dst []byte) []byte {
	return AppendLong(r.CreateRequest.Append(dst), r.TTL)
}

// Decode reads the record.
func (r *CreateTTLRequest) Decode(d *Decoder) {
	r.CreateRequest.Decode(d)
	r.TTL = d.Long()
}

// CreateResponse is the body of create's reply: the final path, with the sequence suffix.
type CreateResponse struct{ Path String }

// Append appends the record.
func (r *CreateResponse) Append(dst []byte) []byte { return r.Path.Append(dst) }

// Decode reads the record.
func (r *CreateResponse) Decode(d *Decoder) { r.Path = d.String() }

// Create2Response is the body of the replies to create2, createContainer and createTTL.
type Create2Response struct {
	Path String
	Stat Stat
}

// Append appends the record.
func (r *Create2Response) Append(dst []byte) []byte { return r.Stat.Append(r.Path.Append(dst)) }

// Decode reads the record.
func (r *Create2Response) Decode(d *Decoder) {
	r.Path = d.String()
	r.Stat.Decode(d)
}

// DeleteRequest is the body of delete (op 2).
type DeleteRequest struct {
	Path    String
	Version int32 // -1: any
}

// Append appends the record.
func (r *DeleteRequest) Append(dst []byte) []byte { return AppendInt(r.Path.Append(dst), r.Version) }

// Decode reads the record.
func (r *DeleteRequest) Decode(d *Decoder) {
	r.Path = d.String()
	r.Version = d.Int()
}

// CheckVersionRequest is an operation of a multi (op 13).
type CheckVersionRequest = DeleteRequest

// GetDataRequest is the body of getData (op 4).
type GetDataRequest struct {
	Path  String
	Watch bool
}

// Append appends the record.
func (r *GetDataRequest) Append(dst []byte) []byte { return AppendBool(r.Path.Append(dst), r.Watch) }

// Decode reads the record.
func (r *GetDataRequest) Decode(d *Decoder) {
	r.Path = d.String()
	r.Watch = d.Bool()
}

// PathWatch reads a record of the form of GetDataRequest without allocating: path aliases the frame.
func (d *Decoder) PathWatch() (path []byte, null, watch bool) {
	path, null = d.bytes()
	return path, null, d.Bool()
}

// The reads of one path that may set a watch share their form: exists, getChildren, getChildren2 (ops 3, 8, 12).
type (
	ExistsRequest       = GetDataRequest
	GetChildrenRequest  = GetDataRequest
	GetChildren2Request = GetDataRequest
)

// StatResponse is the body of the replies to exists, setData and setACL.
type StatResponse struct{ Stat Stat }

// Append appends the record.
func (r *StatResponse) Append(dst []byte) []byte { return r.Stat.Append(dst) }

// Decode reads the record.
func (r *StatResponse) Decode(d *Decoder) { r.Stat.Decode(d) }

// The replies that are a Stat.
type (
	ExistsResponse  = StatResponse
	SetDataResponse = StatResponse
	SetACLResponse  = StatResponse
)

// GetDataResponse is the body of the replies to getData and reconfig.
type GetDataResponse struct {
	Data []byte
	Stat Stat
}

// Append appends the record.
func (r *GetDataResponse) Append(dst []byte) []byte { return r.Stat.Append(AppendBuffer(dst, r.Data)) }

// Decode reads the record.
func (r *GetDataResponse) Decode(d *Decoder) {
	r.Data = d.Buffer()
	r.Stat.Decode(d)
}

// SetDataRequest is the body of setData (op 5).
type SetDataRequest struct {
	Path    String
	Data    []byte
	Version int32 // -1: any
}

// Append appends the record.
func (r *SetDataRequest) Append(dst []byte) []byte {
	dst = r.Path.Append(dst)
	dst = AppendBuffer(dst, r.Data)
	return AppendInt(dst, r.Version)
}

// Decode reads the record.
func (r *SetDataRequest) Decode(d *Decoder) {
	r.Path = d.String()
	r.Data = d.Buffer()
	r.Version = d.Int()
}

// PathRequest is a body that is a path: getACL, sync, getAllChildrenNumber, getEphemerals (ops 6, 9, 104, 103).
type PathRequest struct{ Path String }

// Append appends the record.
func (r *PathRequest) Append(dst []byte) []byte { return r.Path.Append(dst) }

// Decode reads the record.
func (r *PathRequest) Decode(d *Decoder) { r.Path = d.String() }

// The requests that are a path. Of GetEphemeralsRequest it is a prefix, which may be null.
type (
	GetACLRequest               = PathRequest
	SyncRequest                 = PathRequest
	GetAllChildrenNumberRequest = PathRequest
	GetEphemeralsRequest        = PathRequest
	SyncResponse                = CreateResponse
)

// GetACLResponse is the body of getACL's reply.
type GetACLResponse struct {
	ACL  []ACL
	Stat Stat
}

// Append appends the record.
func (r *GetACLResponse) Append(dst []byte) []byte { return r.Stat.Append(AppendACLs(dst, r.ACL)) }

// Decode reads the record.
func (r *GetACLResponse) Decode(d *Decoder) {
	r.ACL = d.ACLs()
	r.Stat.Decode(d)
}

// SetACLRequest is the body of setACL (op 7).
type SetACLRequest struct {
	Path    String
	ACL     []ACL
	Version int32 // aversion; -1: any
}

// Append appends the record.
func (r *SetACLRequest) Append(dst []byte) []byte {
	dst = r.Path.Append(dst)
	dst = AppendACLs(dst, r.ACL)
	return AppendInt(dst, r.Version)
}

// Decode reads the record.
func (r *SetACLRequest) Decode(d *Decoder) {
	r.Path = d.String()
	r.ACL = d.ACLs()
	r.Version = d.Int()
}

// GetChildrenResponse is the body of getChildren's reply: names, in no particular order.
type GetChildrenResponse struct{ Children []string }

// Append appends the record.
func (r *GetChildrenResponse) Append(dst []byte) []byte { return AppendStrings(dst, r.Children) }

// Decode reads the record.
func (r *GetChildrenResponse) Decode(d *Decoder) { r.Children = d.Strings() }

// GetEphemeralsResponse is the body of getEphemerals' reply: whole paths, in no particular order.
type GetEphemeralsResponse struct{ Ephemerals []string }

// Append appends the record.
func (r *GetEphemeralsResponse) Append(dst []byte) []byte { return AppendStrings(dst, r.Ephemerals) }

// Decode reads the record.
func (r *GetEphemeralsResponse) Decode(d *Decoder) { r.Ephemerals = d.Strings() }

// GetChildren2Response is the body of getChildren2's reply.
type GetChildren2Response struct {
	Children []string
	Stat     Stat
}

// Append appends the record.
func (r *GetChildren2Response) Append(dst []byte) []byte {
	return r.Stat.Append(AppendStrings(dst, r.Children))
}

// Decode reads the record.
func (r *GetChildren2Response) Decode(d *Decoder) {
	r.Children = d.Strings()
	r.Stat.Decode(d)
}

// GetAllChildrenNumberResponse is the body of getAllChildrenNumber's reply: all descendants.
type GetAllChildrenNumberResponse struct{ TotalNumber int32 }

// Append appends the record.
func (r *GetAllChildrenNumberResponse) Append(dst []byte) []byte {
	return AppendInt(dst, r.TotalNumber)
}

// Decode reads the record.
func (r *GetAllChildrenNumberResponse) Decode(d *Decoder) { r.TotalNumber = d.Int() }

// ReconfigRequest is the body of reconfig (op 16). Each list may be null; NewMembers not null selects the form that
// names the whole membership. The reply is a GetDataResponse.
type ReconfigRequest struct {
	JoiningServers, LeavingServers, NewMembers String
	CurConfigID                                int64 // -1: any
}

// ReconfigResponse is the new membership's text and the Stat of /zookeeper/config.
type ReconfigResponse = GetDataResponse

// Append appends the record.
func (r *ReconfigRequest) Append(dst []byte) []byte {
	dst = r.JoiningServers.Append(dst)
	dst = r.LeavingServers.Append(dst)
	dst = r.NewMembers.Append(dst)
	return AppendLong(dst, r.CurConfigID)
}

// Decode reads the record.
func (r *ReconfigRequest) Decode(d *Decoder) {
	r.JoiningServers = d.String()
	r.LeavingServers = d.String()
	r.NewMembers = d.String()
	r.CurConfigID = d.Long()
}

// DeleteContainerRequest is the body of deleteContainer (op 20), which only servers send to themselves.
type DeleteContainerRequest struct{ Path []byte }

// Append appends the record.
func (r *DeleteContainerRequest) Append(dst []byte) []byte { return AppendBuffer(dst, r.Path) }

// Decode reads the record.
func (r *DeleteContainerRequest) Decode(d *Decoder) { r.Path = d.Buffer() }
