package jute

// WatcherEvent follows a ReplyHeader with xid -1.
type WatcherEvent struct {
	Type  EventType
	State KeeperState // SyncConnected
	Path  String
}

// Append appends the record.
func (r *WatcherEvent) Append(dst []byte) []byte {
	dst = AppendInt(dst, int32(r.Type))
	dst = AppendInt(dst, int32(r.State))
	return r.Path.Append(dst)
}

// Decode reads the record.
func (r *WatcherEvent) Decode(d *Decoder) {
	r.Type = EventType(d.Int())
	r.State = KeeperState(d.Int())
	r.Path = d.String()
}

// SetWatches restores a client's watches on a new connection (op 101).
type SetWatches struct {
	RelativeZxid                            int64 // what changed after it is reported
	DataWatches, ExistWatches, ChildWatches []string
}

// Append appends the record.
func (r *SetWatches) Append(dst []byte) []byte {
	dst = AppendLong(dst, r.RelativeZxid)
	dst = AppendStrings(dst, r.DataWatches)
	dst = AppendStrings(dst, r.ExistWatches)
	return AppendStrings(dst, r.ChildWatches)
}

// Decode reads the record.
func (r *SetWatches) Decode(d *Decoder) {
	r.RelativeZxid = d.Long()
	r.DataWatches = d.Strings()
	r.ExistWatches = d.Strings()
	r.ChildWatches = d.Strings()
}

// SetWatches2 is SetWatches with persistent watches (op 105).
type SetWatches2 struct {
	SetWatches
	PersistentWatches, PersistentRecursiveWatches []string
}

// Append appends the record.
func (r *SetWatches2) Append(dst []byte) []byte {
	dst = r.SetWatches.Append(dst)
	dst = AppendStrings(dst, r.PersistentWatches)
	return AppendStrings(dst, r.PersistentRecursiveWatches)
}

// Decode reads the record.
func (r *SetWatches2) Decode(d *Decoder) {
	r.SetWatches.Decode(d)
	r.PersistentWatches = d.Strings()
	r.PersistentRecursiveWatches = d.Strings()
}

// AddWatchRequest is the body of addWatch (op 106).
type AddWatchRequest struct {
	Path String
	Mode AddWatchMode
}

// Append appends the record.
func (r *AddWatchRequest) Append(dst []byte) []byte {
	return AppendInt(r.Path.Append(dst), int32(r.Mode))
}

// Decode reads the record.
func (r *AddWatchRequest) Decode(d *Decoder) {
	r.Path = d.String()
	r.Mode = AddWatchMode(d.Int())
}

// RemoveWatchesRequest is the body of removeWatches and checkWatches (ops 18, 17).
type RemoveWatchesRequest struct {
	Path String
	Type WatcherType
}

// CheckWatchesRequest is the body of checkWatches.
type CheckWatchesRequest = RemoveWatchesRequest

// Append appends the record.
func (r *RemoveWatchesRequest) Append(dst []byte) []byte {
	return AppendInt(r.Path.Append(dst), int32(r.Type))
}

// Decode reads the record.
func (r *RemoveWatchesRequest) Decode(d *Decoder) {
	r.Path = d.String()
	r.Type = WatcherType(d.Int())
}

// ErrorResponse is a code as a body: the reply to addWatch (always OK), and a failed result inside a multi.
type ErrorResponse struct{ Err ErrorCode }

// Append appends the record.
func (r *ErrorResponse) Append(dst []byte) []byte { return AppendInt(dst, int32(r.Err)) }

// Decode reads the record.
func (r *ErrorResponse) Decode(d *Decoder) { r.Err = ErrorCode(d.Int()) }
