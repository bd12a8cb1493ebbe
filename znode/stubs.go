package znode

func NewTree(o Options) *Tree { panic("stub") }
func (t *Tree) Applied() int64 { panic("stub") }
func (t *Tree) Digests() Digests { panic("stub") }
func (t *Tree) NodeCount() int { panic("stub") }
func (t *Tree) ApproximateDataSize() int64 { panic("stub") }
func (t *Tree) EphemeralCount() int { panic("stub") }
func (t *Tree) SessionCount() int { panic("stub") }
func (t *Tree) Apply(txn *Txn, out *Applied) { panic("stub") }
func (t *Tree) Exists(path string, auth []AuthID) (Stat, Code) { panic("stub") }
func (t *Tree) GetData(path string, auth []AuthID) ([]byte, Stat, Code) { panic("stub") }
func (t *Tree) GetACL(path string, auth []AuthID) ([]ACL, Stat, Code) { panic("stub") }
func (t *Tree) Children(path string, auth []AuthID) ([]string, Stat, Code) { panic("stub") }
func (t *Tree) AllChildrenNumber(path string, auth []AuthID) (int32, Code) { panic("stub") }
func (t *Tree) Ephemerals(session int64, prefix string, null bool) []string { panic("stub") }
func (t *Tree) WatchState(path string) (exists bool, mzxid, pzxid int64) { panic("stub") }
func (t *Tree) CheckRead(acl []ACL, auth []AuthID) bool { panic("stub") }
func (t *Tree) Session(id int64) (Session, bool) { panic("stub") }
func (t *Tree) Sessions(f func(Session) bool) { panic("stub") }
func (t *Tree) MultiRead(ops []ReadOp, auth []AuthID) ([]ReadResult, Code) { panic("stub") }
func (t *Tree) Record(path string) (NodeRecord, bool) { panic("stub") }
func (t *Tree) Walk(f func(NodeRecord) bool) { panic("stub") }
func (t *Tree) Load(r NodeRecord) error { panic("stub") }
func (t *Tree) LoadSession(s Session) error { panic("stub") }
func (t *Tree) Loaded(applied int64, d Digests) error { panic("stub") }
func (t *Tree) SetConfigNode(text []byte, version, nowMs int64) { panic("stub") }
func AppendTxn(dst []byte, t *Txn) []byte { panic("stub") }
func DecodeTxn(b []byte) (*Txn, error) { panic("stub") }
func AppendRequest(dst []byte, r *Request) []byte { panic("stub") }
func DecodeRequest(b []byte) (*Request, error) { panic("stub") }
func NewPreparer(t *Tree) *Preparer { panic("stub") }
func (p *Preparer) Prepare(r *Request, zxid, nowMs int64) *Txn { panic("stub") }
func (p *Preparer) Applied(zxid int64) { panic("stub") }
func (p *Preparer) SessionExists(id int64) bool { panic("stub") }
func (p *Preparer) Pending() int { panic("stub") }
func DigestID(userColonPassword []byte) string { panic("stub") }
func Authenticate(scheme string, data []byte, remoteIP string, o Options) ([]AuthID, Code) { panic("stub") }
func WhoAmI(auth []AuthID) []AuthID { panic("stub") }

type Tree struct{}
type Preparer struct{}
