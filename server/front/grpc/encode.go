package grpcfront

import (
	"strings"
	"unicode/utf8"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/zkserver/zkserver/server/session"
	"github.com/zkserver/zkserver/znode"
)

// wire encodes answers as the field "answers" of a SessionResponse, so that any run of them is one. By hand, because it
// runs under the tree's lock: no message is built, nothing is allocated but the outbox. Field numbers are those of
// zk.proto; a test compares with the generated code.
type wire struct{}

// Slot implements session.Wire.
func (wire) Slot() int { return 1 }

// Fields of SessionResponse, Answer and Reply.
const (
	fieldAnswers   = 1
	fieldConnected = 1
	fieldReply     = 2
	fieldEvent     = 3

	fieldPing              = 5
	fieldAuth              = 6
	fieldSetWatches        = 7
	fieldClose             = 8
	fieldCreate            = 10
	fieldDelete            = 11
	fieldExists            = 12
	fieldGet               = 13
	fieldSet               = 14
	fieldGetACL            = 15
	fieldSetACL            = 16
	fieldChildren          = 17
	fieldAllChildrenNumber = 18
	fieldEphemerals        = 19
	fieldSync              = 20
	fieldMulti             = 21
	fieldMultiRead         = 22
	fieldWhoAmI            = 23
	fieldAddWatch          = 24
	fieldRemoveWatches     = 25
	fieldCheckWatches      = 26
	fieldReconfig          = 27
)

// AppendEvent implements session.Wire.
func (wire) AppendEvent(dst []byte, zxid int64, t znode.EventType, path string) []byte {
	path = valid(path)
	n := sizeInt(1, int64(t)) + sizeText(2, path) + sizeInt(3, zxid)
	dst = open(dst, fieldAnswers, sizeBlock(fieldEvent, n))
	dst = open(dst, fieldEvent, n)
	dst = appendInt(dst, 1, int64(t))
	dst = appendText(dst, 2, path)
	return appendInt(dst, 3, zxid)
}

// appendConnected encodes the answer to a Connect; no password: refused.
func appendConnected(dst []byte, r session.AttachResult) []byte {
	n := 0
	if r.OK {
		n = sizeInt(1, int64(r.Timeout)) + sizeInt(2, r.Session) + sizeBlock(3, len(r.Password))
	}
	dst = open(dst, fieldAnswers, sizeBlock(fieldConnected, n))
	dst = open(dst, fieldConnected, n)
	if r.OK {
		dst = appendInt(dst, 1, int64(r.Timeout))
		dst = appendInt(dst, 2, r.Session)
		dst = append(open(dst, 3, len(r.Password)), r.Password[:]...)
	}
	return dst
}

// AppendReply implements session.Wire.
func (wire) AppendReply(dst []byte, r *session.Reply) []byte {
	field := resultField(r.Op)
	n := sizeInt(1, int64(r.Xid)) + sizeInt(2, r.Zxid) + sizeInt(3, int64(r.Err))
	body := 0
	if r.Err == znode.OK && field != 0 {
		body = sizeResult(r)
		n += sizeBlock(field, body)
	}
	dst = open(dst, fieldAnswers, sizeBlock(fieldReply, n))
	dst = open(dst, fieldReply, n)
	dst = appendInt(dst, 1, int64(r.Xid))
	dst = appendInt(dst, 2, r.Zxid)
	dst = appendInt(dst, 3, int64(r.Err))
	if r.Err == znode.OK && field != 0 {
		dst = appendResult(open(dst, field, body), r)
	}
	return dst
}

// resultField is the field of Reply that holds an operation's result.
func resultField(op znode.Op) protowire.Number {
	switch op {
	case znode.OpPing:
		return fieldPing
	case znode.OpAuth:
		return fieldAuth
	case znode.OpSetWatches, znode.OpSetWatches2:
		return fieldSetWatches
	case znode.OpCloseSession:
		return fieldClose
	case znode.OpCreate2, znode.OpCreateContainer, znode.OpCreateTTL:
		return fieldCreate
	case znode.OpDelete:
		return fieldDelete
	case znode.OpExists:
		return fieldExists
	case znode.OpGetData:
		return fieldGet
	case znode.OpSetData:
		return fieldSet
	case znode.OpGetACL:
		return fieldGetACL
	case znode.OpSetACL:
		return fieldSetACL
	case znode.OpGetChildren2:
		return fieldChildren
	case znode.OpGetAllChildrenNumber:
		return fieldAllChildrenNumber
	case znode.OpGetEphemerals:
		return fieldEphemerals
	case znode.OpSync:
		return fieldSync
	case znode.OpMulti:
		return fieldMulti
	case znode.OpMultiRead:
		return fieldMultiRead
	case znode.OpWhoAmI:
		return fieldWhoAmI
	case znode.OpAddWatch:
		return fieldAddWatch
	case znode.OpRemoveWatches:
		return fieldRemoveWatches
	case znode.OpCheckWatches:
		return fieldCheckWatches
	case znode.OpReconfig:
		return fieldReconfig
	}
	return 0
}

func sizeResult(r *session.Reply) int {
	switch r.Op {
	case znode.OpCreate2, znode.OpCreateContainer, znode.OpCreateTTL:
		return sizeCreated(r.Path, &r.Stat)
	case znode.OpExists, znode.OpSetData, znode.OpSetACL:
		return sizeBlock(1, sizeStat(&r.Stat))
	case znode.OpGetData:
		return sizeGot(r.Data, &r.Stat)
	case znode.OpReconfig:
		return sizeText(1, string(r.Data)) + sizeBlock(2, sizeStat(&r.Stat))
	case znode.OpGetACL:
		return sizeACL(r.ACL) + sizeBlock(2, sizeStat(&r.Stat))
	case znode.OpGetChildren2:
		return sizeNames(r.Names) + sizeBlock(2, sizeStat(&r.Stat))
	case znode.OpGetAllChildrenNumber:
		return sizeInt(1, int64(r.Count))
	case znode.OpGetEphemerals:
		return sizeNames(r.Names)
	case znode.OpSync:
		return sizeText(1, valid(r.Path))
	case znode.OpWhoAmI:
		n := 0
		for i := range r.IDs {
			n += sizeBlock(1, sizeText(1, valid(r.IDs[i].Scheme))+sizeText(2, valid(r.IDs[i].ID)))
		}
		return n
	case znode.OpMulti:
		n, failed := 0, multiFailed(r.Multi)
		for i := range r.Multi {
			n += sizeBlock(1, sizeOpResult(&r.Multi[i], failed))
		}
		return n
	case znode.OpMultiRead:
		n := 0
		for i := range r.Reads {
			n += sizeBlock(1, sizeReadResult(&r.Reads[i]))
		}
		return n
	}
	return 0
}

func appendResult(dst []byte, r *session.Reply) []byte {
	switch r.Op {
	case znode.OpCreate2, znode.OpCreateContainer, znode.OpCreateTTL:
		return appendCreated(dst, r.Path, &r.Stat)
	case znode.OpExists, znode.OpSetData, znode.OpSetACL:
		return appendStat(dst, 1, &r.Stat)
	case znode.OpGetData:
		return appendGot(dst, r.Data, &r.Stat)
	case znode.OpReconfig:
		return appendStat(appendText(dst, 1, string(r.Data)), 2, &r.Stat)
	case znode.OpGetACL:
		return appendStat(appendACL(dst, r.ACL), 2, &r.Stat)
	case znode.OpGetChildren2:
		return appendStat(appendNames(dst, r.Names), 2, &r.Stat)
	case znode.OpGetAllChildrenNumber:
		return appendInt(dst, 1, int64(r.Count))
	case znode.OpGetEphemerals:
		return appendNames(dst, r.Names)
	case znode.OpSync:
		return appendText(dst, 1, valid(r.Path))
	case znode.OpWhoAmI:
		for i := range r.IDs {
			scheme, id := valid(r.IDs[i].Scheme), valid(r.IDs[i].ID)
			dst = open(dst, 1, sizeText(1, scheme)+sizeText(2, id))
			dst = appendText(appendText(dst, 1, scheme), 2, id)
		}
		return dst
	case znode.OpMulti:
		failed := multiFailed(r.Multi)
		for i := range r.Multi {
			o := &r.Multi[i]
			dst = appendOpResult(open(dst, 1, sizeOpResult(o, failed)), o, failed)
		}
		return dst
	case znode.OpMultiRead:
		for i := range r.Reads {
			o := &r.Reads[i]
			dst = appendReadResult(open(dst, 1, sizeReadResult(o)), o)
		}
		return dst
	}
	return dst
}

// multiFailed reports whether a multi was refused: all its results are then codes, OK for what was rolled back.
func multiFailed(results []znode.OpResult) bool {
	for i := range results {
		if results[i].Code != znode.OK {
			return true
		}
	}
	return false
}

// Fields of MultiOpResult.
const (
	fieldOpCreate = 2
	fieldOpDelete = 3
	fieldOpSet    = 4
	fieldOpCheck  = 5
)

func sizeOpResult(o *znode.OpResult, failed bool) int {
	if failed {
		return sizeInt(1, int64(o.Code))
	}
	switch o.Op {
	case znode.OpDelete:
		return sizeBlock(fieldOpDelete, 0)
	case znode.OpSetData:
		return sizeBlock(fieldOpSet, sizeBlock(1, sizeStat(&o.Stat)))
	case znode.OpCheck:
		return sizeBlock(fieldOpCheck, 0)
	}
	return sizeBlock(fieldOpCreate, sizeCreated(o.Path, &o.Stat))
}

func appendOpResult(dst []byte, o *znode.OpResult, failed bool) []byte {
	if failed {
		return appendInt(dst, 1, int64(o.Code))
	}
	switch o.Op {
	case znode.OpDelete:
		return open(dst, fieldOpDelete, 0)
	case znode.OpSetData:
		return appendStat(open(dst, fieldOpSet, sizeBlock(1, sizeStat(&o.Stat))), 1, &o.Stat)
	case znode.OpCheck:
		return open(dst, fieldOpCheck, 0)
	}
	return appendCreated(open(dst, fieldOpCreate, sizeCreated(o.Path, &o.Stat)), o.Path, &o.Stat)
}

// Fields of ReadResult.
const (
	fieldReadGet      = 2
	fieldReadChildren = 3
)

func sizeReadResult(o *znode.ReadResult) int {
	switch {
	case o.Code != znode.OK:
		return sizeInt(1, int64(o.Code))
	case o.Op == znode.OpGetData:
		return sizeBlock(fieldReadGet, sizeGot(o.Data, &o.Stat))
	}
	return sizeBlock(fieldReadChildren, sizeNames(o.Names))
}

func appendReadResult(dst []byte, o *znode.ReadResult) []byte {
	switch {
	case o.Code != znode.OK:
		return appendInt(dst, 1, int64(o.Code))
	case o.Op == znode.OpGetData:
		return appendGot(open(dst, fieldReadGet, sizeGot(o.Data, &o.Stat)), o.Data, &o.Stat)
	}
	return appendNames(open(dst, fieldReadChildren, sizeNames(o.Names)), o.Names)
}

func sizeCreated(path string, s *znode.Stat) int {
	return sizeText(1, valid(path)) + sizeBlock(2, sizeStat(s))
}

func appendCreated(dst []byte, path string, s *znode.Stat) []byte {
	return appendStat(appendText(dst, 1, valid(path)), 2, s)
}

// sizeGot and appendGot: null data is absent, empty data is there.
func sizeGot(data []byte, s *znode.Stat) int {
	n := sizeBlock(2, sizeStat(s))
	if data != nil {
		n += sizeBlock(1, len(data))
	}
	return n
}

func appendGot(dst, data []byte, s *znode.Stat) []byte {
	if data != nil {
		dst = append(open(dst, 1, len(data)), data...)
	}
	return appendStat(dst, 2, s)
}

func sizeNames(names znode.Names) int {
	n := 0
	for s := range names.All() {
		n += sizeBlock(1, len(valid(s)))
	}
	return n
}

func appendNames(dst []byte, names znode.Names) []byte {
	for s := range names.All() {
		s = valid(s)
		dst = append(open(dst, 1, len(s)), s...)
	}
	return dst
}

func sizeACL(list []znode.ACL) int {
	n := 0
	for i := range list {
		n += sizeBlock(1, sizeACLEntry(&list[i]))
	}
	return n
}

func sizeACLEntry(a *znode.ACL) int {
	return sizeInt(1, int64(a.Perms)) + sizeText(2, valid(a.Scheme)) + sizeText(3, valid(a.ID))
}

func appendACL(dst []byte, list []znode.ACL) []byte {
	for i := range list {
		a := &list[i]
		dst = open(dst, 1, sizeACLEntry(a))
		dst = appendInt(dst, 1, int64(a.Perms))
		dst = appendText(appendText(dst, 2, valid(a.Scheme)), 3, valid(a.ID))
	}
	return dst
}

func sizeStat(s *znode.Stat) int {
	n := 0
	for i, v := range statFields(s) {
		n += sizeInt(protowire.Number(i+1), v)
	}
	return n
}

func appendStat(dst []byte, field protowire.Number, s *znode.Stat) []byte {
	dst = open(dst, field, sizeStat(s))
	for i, v := range statFields(s) {
		dst = appendInt(dst, protowire.Number(i+1), v)
	}
	return dst
}

// statFields are those of the message Stat, in the order of their numbers from 1.
func statFields(s *znode.Stat) [11]int64 {
	return [11]int64{
		s.Czxid, s.Mzxid, s.Ctime, s.Mtime, int64(s.Version), int64(s.Cversion), int64(s.Aversion),
		s.EphemeralOwner, int64(s.DataLength), int64(s.NumChildren), s.Pzxid,
	}
}

// valid makes a text UTF-8, which protobuf demands: what came over the other wire may not be.
func valid(s string) string {
	if utf8.ValidString(s) {
		return s
	}
	return strings.ToValidUTF8(s, "\uFFFD")
}

// Numbers and texts of their zero value are left out, as proto3 does; blocks are always there.

func sizeInt(field protowire.Number, v int64) int {
	if v == 0 {
		return 0
	}
	return protowire.SizeTag(field) + protowire.SizeVarint(uint64(v))
}

func appendInt(dst []byte, field protowire.Number, v int64) []byte {
	if v == 0 {
		return dst
	}
	return protowire.AppendVarint(protowire.AppendTag(dst, field, protowire.VarintType), uint64(v))
}

func sizeText(field protowire.Number, s string) int {
	if s == "" {
		return 0
	}
	return sizeBlock(field, len(s))
}

func appendText(dst []byte, field protowire.Number, s string) []byte {
	if s == "" {
		return dst
	}
	return append(open(dst, field, len(s)), s...)
}

// sizeBlock is the size of a field of n bytes: a message, bytes or text.
func sizeBlock(field protowire.Number, n int) int {
	return protowire.SizeTag(field) + protowire.SizeBytes(n)
}

// open begins such a field.
func open(dst []byte, field protowire.Number, n int) []byte {
	return protowire.AppendVarint(protowire.AppendTag(dst, field, protowire.BytesType), uint64(n))
}
