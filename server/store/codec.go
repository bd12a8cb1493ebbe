package store

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/zkserver/zkserver/zab"
	"github.com/zkserver/zkserver/znode"
)

// Flags of a node's value. Any other bit is of a newer version.
const (
	flagDataNull     = 1 << iota // Data is nil
	flagDataExternal             // Data lies under keyData
)

// nodeFixed is the length of a node's value without its short data.
const nodeFixed = 1 + 6*8 + 3*4 + 4

// errMalformed marks what no version of ours has written.
var errMalformed = errors.New("malformed")

func malformed(format string, args ...any) error {
	return fmt.Errorf("%w: "+format, append([]any{errMalformed}, args...)...)
}

var errPath = errors.New("a path that is not absolute or holds a zero byte")

// appendPathKey writes a path in key order: '/' as zero. The root is one zero.
func appendPathKey(dst []byte, prefix byte, path string) ([]byte, error) {
	if path == "" || path[0] != '/' {
		return dst, errPath
	}
	dst = append(dst, prefix)
	for i := 0; i < len(path); i++ {
		switch c := path[i]; c {
		case 0:
			return dst, errPath
		case '/':
			dst = append(dst, 0)
		default:
			dst = append(dst, c)
		}
	}
	return dst, nil
}

// pathOfKey undoes appendPathKey; scratch is reused.
func pathOfKey(scratch, key []byte) ([]byte, string, error) {
	if len(key) < 2 || key[1] != 0 {
		return scratch, "", malformed("node with the key %x", key)
	}
	scratch = append(scratch[:0], key[1:]...)
	for i, c := range scratch {
		switch c {
		case 0:
			scratch[i] = '/'
		case '/':
			return scratch, "", malformed("node with the key %x", key)
		}
	}
	return scratch, string(scratch), nil
}

// appendNode encodes r without its path; data longer than inline goes elsewhere.
func appendNode(dst []byte, r *znode.NodeRecord, acl uint32, inline int) []byte {
	var flags byte
	data := r.Data
	switch {
	case data == nil:
		flags = flagDataNull
	case len(data) > inline:
		flags, data = flagDataExternal, nil
	}
	dst = append(dst, flags)
	for _, v := range [...]int64{r.Czxid, r.Mzxid, r.Ctime, r.Mtime, r.Pzxid, r.Owner} {
		dst = order.AppendUint64(dst, uint64(v))
	}
	for _, v := range [...]int32{r.Version, r.CreateCounter, r.Aversion} {
		dst = order.AppendUint32(dst, uint32(v))
	}
	dst = order.AppendUint32(dst, acl)
	return append(dst, data...)
}

// decodeNode fills everything but Path and ACL. Data is a fresh copy.
func decodeNode(b []byte, r *znode.NodeRecord) (acl uint32, external bool, err error) {
	if len(b) < nodeFixed {
		return 0, false, malformed("node of %d bytes", len(b))
	}
	flags, data := b[0], b[nodeFixed:]
	if flags&^(flagDataNull|flagDataExternal) != 0 || flags == flagDataNull|flagDataExternal || flags != 0 && len(data) != 0 {
		return 0, false, malformed("node with the flags %#x", flags)
	}
	r.Czxid, r.Mzxid = int64(order.Uint64(b[1:])), int64(order.Uint64(b[9:]))
	r.Ctime, r.Mtime = int64(order.Uint64(b[17:])), int64(order.Uint64(b[25:]))
	r.Pzxid, r.Owner = int64(order.Uint64(b[33:])), int64(order.Uint64(b[41:]))
	r.Version, r.CreateCounter = int32(order.Uint32(b[49:])), int32(order.Uint32(b[53:]))
	r.Aversion = int32(order.Uint32(b[57:]))
	r.Data = nil
	if flags == 0 {
		r.Data = append(make([]byte, 0, len(data)), data...)
	}
	return nodeACL(b), flags == flagDataExternal, nil
}

// nodeACL is the number of the list in a node's value.
func nodeACL(b []byte) uint32 { return order.Uint32(b[nodeFixed-4:]) }

func appendString(dst []byte, s string) []byte {
	return append(binary.AppendUvarint(dst, uint64(len(s))), s...)
}

// takeString cuts a string from b; ok is false when b is too short for it.
func takeString(b []byte) (s string, rest []byte, ok bool) {
	n, w := binary.Uvarint(b)
	if w <= 0 || n > uint64(len(b)-w) {
		return "", nil, false
	}
	return string(b[w : w+int(n)]), b[w+int(n):], true
}

// appendACL encodes a list; nil and empty are told apart.
func appendACL(dst []byte, list []znode.ACL) []byte {
	if list == nil {
		return append(dst, 0)
	}
	dst = binary.AppendUvarint(dst, uint64(len(list))+1)
	for _, a := range list {
		dst = order.AppendUint32(dst, uint32(a.Perms))
		dst = appendString(appendString(dst, a.Scheme), a.ID)
	}
	return dst
}

func decodeACL(b []byte) ([]znode.ACL, error) {
	n, w := binary.Uvarint(b)
	if w <= 0 || n > uint64(len(b)) { // each entry takes more than a byte: n bounds the allocation
		return nil, malformed("ACL list")
	}
	b = b[w:]
	if n == 0 {
		if len(b) != 0 {
			return nil, malformed("ACL list")
		}
		return nil, nil
	}
	list := make([]znode.ACL, n-1)
	for i := range list {
		if len(b) < 4 {
			return nil, malformed("ACL list")
		}
		list[i].Perms = int32(order.Uint32(b))
		var ok1, ok2 bool
		list[i].Scheme, b, ok1 = takeString(b[4:])
		list[i].ID, b, ok2 = takeString(b)
		if !ok1 || !ok2 {
			return nil, malformed("ACL list")
		}
	}
	if len(b) != 0 {
		return nil, malformed("ACL list")
	}
	return list, nil
}

const sessionLen = 4 + 16 + 4 + 8

func appendSession(dst []byte, s *znode.Session) []byte {
	dst = order.AppendUint32(dst, uint32(s.Timeout))
	dst = append(dst, s.Password[:]...)
	dst = order.AppendUint32(dst, s.Ticket.Epoch)
	return order.AppendUint64(dst, s.Ticket.Number)
}

func decodeSession(id int64, b []byte) (znode.Session, error) {
	if len(b) != sessionLen {
		return znode.Session{}, malformed("session of %d bytes", len(b))
	}
	s := znode.Session{ID: id, Timeout: int32(order.Uint32(b))}
	copy(s.Password[:], b[4:])
	s.Ticket = znode.Ticket{Epoch: order.Uint32(b[20:]), Number: order.Uint64(b[24:])}
	return s, nil
}

func sessionKey(id int64) []byte { return order.AppendUint64([]byte{keySession}, uint64(id)) }

func aclKey(id uint32) []byte { return order.AppendUint32([]byte{keyACL}, id) }

// applied is the value of keyApplied: in the same batch as the changes, so state and zxid never part.
type applied struct {
	zxid    zab.Zxid
	digests znode.Digests
}

func (a applied) append(dst []byte) []byte {
	dst = order.AppendUint64(dst, uint64(a.zxid))
	dst = order.AppendUint64(dst, a.digests.Tree)
	return order.AppendUint64(dst, a.digests.State)
}

func decodeApplied(b []byte) (applied, error) {
	if len(b) != 24 {
		return applied{}, malformed("applied of %d bytes", len(b))
	}
	return applied{
		zxid:    zab.Zxid(order.Uint64(b)),
		digests: znode.Digests{Tree: order.Uint64(b[8:]), State: order.Uint64(b[16:])},
	}, nil
}
