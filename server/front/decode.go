package front

import (
	"hash/maphash"

	"github.com/zkserver/zkserver/proto/jute"
	"github.com/zkserver/zkserver/server/session"
	"github.com/zkserver/zkserver/znode"
)

// kind is what the connection does with a decoded frame.
type kind uint8

const (
	kindRequest kind = iota // for the session, in order
	kindAuth                // executed at reception
	kindSASL
	kindRefused // unknown or not for clients: answered at reception, then closed
	kindBroken  // no header: closed
)

// decoder turns frames into requests. It belongs to one run at a time and is pooled.
type decoder struct {
	d     jute.Decoder
	paths interner
}

// decode reads one frame into r. Whatever r keeps is copied out of the frame.
func (d *decoder) decode(frame []byte, r *session.Request) kind {
	*r = session.Request{}
	d.d.Reset(frame)
	var h jute.RequestHeader
	h.Decode(&d.d)
	if d.d.Err() != nil {
		return kindBroken
	}
	r.Xid, r.Op = h.Xid, znode.Op(h.Type)
	switch r.Op {
	case znode.OpExists, znode.OpGetData, znode.OpGetChildren, znode.OpGetChildren2:
		path, null, watch := d.d.PathWatch()
		d.path(r, path, null)
		r.Watch = watch
	case znode.OpGetACL, znode.OpGetAllChildrenNumber:
		path, null := d.d.StringBytes()
		d.path(r, path, null)
	case znode.OpGetEphemerals:
		r.Path, r.Null = d.string()
	case znode.OpSync:
		r.Path, r.Null = d.string()
		r.Write = &znode.Request{}
	case znode.OpPing, znode.OpWhoAmI:
	case znode.OpCloseSession:
		r.Write = &znode.Request{}
	case znode.OpCreate, znode.OpCreate2, znode.OpCreateContainer, znode.OpCreateTTL,
		znode.OpDelete, znode.OpSetData, znode.OpSetACL, znode.OpReconfig:
		d.write(r)
	case znode.OpMulti:
		d.multi(r)
		return kindRequest // also when it does not decode
	case znode.OpMultiRead:
		d.multiRead(r)
	case znode.OpSetWatches, znode.OpSetWatches2:
		d.setWatches(r)
	case znode.OpAddWatch, znode.OpCheckWatches, znode.OpRemoveWatches:
		if r.Path, r.Null = d.string(); r.Null {
			r.Path = nullPath // accepted: it is text like any other, and no node has it
		}
		r.Mode = d.d.Int()
	case znode.OpAuth:
		return kindAuth
	case znode.OpSASL:
		return kindSASL
	default: // also check, createSession and deleteContainer: no client sends them
		return kindRefused
	}
	if d.d.Err() != nil {
		*r = session.Request{Op: r.Op, Xid: r.Xid, Err: znode.MarshallingError}
	}
	return kindRequest
}

// nullPath stands for a null path where one is accepted; no node can have it.
const nullPath = "null"

func (d *decoder) string() (string, bool) {
	b, null := d.d.StringBytes()
	return d.paths.get(b), null
}

// path sets a path that may not be null.
func (d *decoder) path(r *session.Request, b []byte, null bool) {
	if null {
		r.Err = znode.MarshallingError
		return
	}
	r.Path = d.paths.get(b)
}

func (d *decoder) write(r *session.Request) {
	w := &znode.Request{TTL: -1}
	switch r.Op {
	case znode.OpCreate, znode.OpCreate2, znode.OpCreateContainer, znode.OpCreateTTL:
		var b jute.CreateTTLRequest
		if r.Op == znode.OpCreateTTL {
			b.Decode(&d.d)
			w.TTL = b.TTL
		} else {
			b.CreateRequest.Decode(&d.d)
		}
		w.Path, w.PathNull, w.Data, w.ACL, w.Flags = b.Path.Value, b.Path.Null, b.Data, acls(b.ACL), b.Flags
	case znode.OpDelete:
		var b jute.DeleteRequest
		b.Decode(&d.d)
		w.Path, w.PathNull, w.Version = b.Path.Value, b.Path.Null, b.Version
	case znode.OpSetData:
		var b jute.SetDataRequest
		b.Decode(&d.d)
		w.Path, w.PathNull, w.Data, w.Version = b.Path.Value, b.Path.Null, b.Data, b.Version
	case znode.OpSetACL:
		var b jute.SetACLRequest
		b.Decode(&d.d)
		w.Path, w.PathNull, w.ACL, w.Version = b.Path.Value, b.Path.Null, acls(b.ACL), b.Version
	case znode.OpReconfig:
		var b jute.ReconfigRequest
		b.Decode(&d.d)
	}
	r.Write = w
}

// multi: one that does not decode, reads, or has a create with unknown flags (or a TTL's, where there is no TTL) is one
// transaction all the same, refused as a whole (semantics 9).
func (d *decoder) multi(r *session.Request) {
	var b jute.MultiRequest
	b.Decode(&d.d)
	w := &znode.Request{TTL: -1}
	r.Write = w
	if b.Kind() == jute.MultiReads {
		w.Undecodable = true
		return
	}
	w.Multi = make([]znode.Request, len(b.Ops))
	for i := range b.Ops {
		o := &b.Ops[i]
		s := &w.Multi[i]
		*s = znode.Request{
			Op: znode.Op(o.Type), Path: o.Path.Value, PathNull: o.Path.Null, Data: o.Data, ACL: acls(o.ACL),
			Flags: o.Flags, Version: o.Version, TTL: -1,
		}
		if refuse := session.InMulti(s, o.TTL); refuse != nil {
			r.Write, r.Err = refuse.Write, refuse.Err
			return
		}
	}
	if d.d.Err() != nil { // last: Java stops at the first operation that is wrong
		w.Multi, w.Undecodable = nil, true
	}
}

func (d *decoder) multiRead(r *session.Request) {
	var b jute.MultiRequest
	b.Decode(&d.d)
	if d.d.Err() != nil {
		return
	}
	if b.Kind() == jute.MultiWrites {
		r.Err, r.ErrBody = znode.MarshallingError, true
		return
	}
	r.Reads = make([]znode.ReadOp, len(b.Ops))
	for i := range b.Ops {
		o := &b.Ops[i]
		r.Reads[i] = znode.ReadOp{Op: znode.Op(o.Type), Path: o.Path.Value, PathNull: o.Path.Null}
	}
}

func (d *decoder) setWatches(r *session.Request) {
	var b jute.SetWatches2
	if r.Op == znode.OpSetWatches2 {
		b.Decode(&d.d)
	} else {
		b.SetWatches.Decode(&d.d)
	}
	if d.d.Err() != nil {
		return
	}
	lists := [...]*[]string{&b.DataWatches, &b.ExistWatches, &b.ChildWatches, &b.PersistentWatches, &b.PersistentRecursiveWatches}
	used := len(lists)
	if r.Op == znode.OpSetWatches {
		used = 3
	}
	null := false
	for i, l := range lists {
		if null = null || i < used && *l == nil; null {
			*l = nil // those before a null one are worked off, as ZooKeeper does
		}
	}
	r.Lists = &session.SetWatches{
		RelativeZxid: b.RelativeZxid, Data: b.DataWatches, Exist: b.ExistWatches, Child: b.ChildWatches,
		Persistent: b.PersistentWatches, Recursive: b.PersistentRecursiveWatches, Null: null,
	}
}

// acls converts a list, keeping null apart.
func acls(list []jute.ACL) []znode.ACL {
	if list == nil {
		return nil
	}
	out := make([]znode.ACL, len(list))
	for i := range list {
		a := &list[i]
		out[i] = znode.ACL{
			Perms: a.Perms, Scheme: a.Scheme.Value, ID: a.ID.Value, SchemeNull: a.Scheme.Null, IDNull: a.ID.Null,
		}
	}
	return out
}

// interner makes strings of paths; paths that come again and again cost nothing. It is bounded.
type interner struct {
	seed  maphash.Seed
	ready bool
	slots [512]string
}

// maxInterned is the length, in bytes, of the longest path that is kept.
const maxInterned = 256

func (t *interner) get(b []byte) string {
	if len(b) == 0 {
		return ""
	}
	if len(b) > maxInterned {
		return string(b)
	}
	if !t.ready {
		t.seed, t.ready = maphash.MakeSeed(), true
	}
	slot := &t.slots[maphash.Bytes(t.seed, b)%uint64(len(t.slots))]
	if *slot != string(b) {
		*slot = string(b)
	}
	return *slot
}
