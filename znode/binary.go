package znode

import (
	"encoding/binary"
	"errors"
)

// ErrEncoding says that bytes are no encoded transaction or request.
var ErrEncoding = errors.New("znode: malformed encoding")

// Encodings are compact: variable-length integers, fixed eight bytes for what is random or dense (ids, digests), and a
// length plus one before what may be null.

func appendUint64(dst []byte, v uint64) []byte { return binary.BigEndian.AppendUint64(dst, v) }

func appendString(dst []byte, s string) []byte {
	return append(binary.AppendUvarint(dst, uint64(len(s))), s...)
}

// appendData keeps null (nil) and empty apart.
func appendData(dst, b []byte) []byte {
	if b == nil {
		return append(dst, 0)
	}
	return append(binary.AppendUvarint(dst, uint64(len(b))+1), b...)
}

// What an entry's first byte says of its nulls.
const (
	aclSchemeNull = 1 << iota
	aclIDNull
)

// appendACL keeps null and empty apart.
func appendACL(dst []byte, acl []ACL) []byte {
	if acl == nil {
		return append(dst, 0)
	}
	dst = binary.AppendUvarint(dst, uint64(len(acl))+1)
	for i := range acl {
		a := &acl[i]
		var nulls byte
		if a.SchemeNull {
			nulls |= aclSchemeNull
		}
		if a.IDNull {
			nulls |= aclIDNull
		}
		dst = append(dst, nulls)
		dst = binary.AppendVarint(dst, int64(a.Perms))
		dst = appendString(dst, a.Scheme)
		dst = appendString(dst, a.ID)
	}
	return dst
}

// reader takes an encoding apart. Its error is sticky: after the first, everything reads as zero. It allocates what it
// returns, never more than a constant times the bytes that are there.
type reader struct {
	rest []byte
	bad  bool
}

func (r *reader) fail() {
	r.bad = true
	r.rest = nil
}

// done reports whether everything was read, and read well.
func (r *reader) done() bool { return !r.bad && len(r.rest) == 0 }

func (r *reader) uvarint() uint64 {
	v, n := binary.Uvarint(r.rest)
	if n <= 0 {
		r.fail()
		return 0
	}
	r.rest = r.rest[n:]
	return v
}

func (r *reader) varint() int64 {
	v, n := binary.Varint(r.rest)
	if n <= 0 {
		r.fail()
		return 0
	}
	r.rest = r.rest[n:]
	return v
}

func (r *reader) int32() int32 {
	v := r.varint()
	if int64(int32(v)) != v {
		r.fail()
		return 0
	}
	return int32(v)
}

func (r *reader) uint32() uint32 {
	v := r.uvarint()
	if uint64(uint32(v)) != v {
		r.fail()
		return 0
	}
	return uint32(v)
}

func (r *reader) byte() byte {
	if len(r.rest) == 0 {
		r.fail()
		return 0
	}
	b := r.rest[0]
	r.rest = r.rest[1:]
	return b
}

func (r *reader) uint64() uint64 {
	b := r.take(8)
	if b == nil {
		return 0
	}
	return binary.BigEndian.Uint64(b)
}

// take gives the next n bytes, shared with the input, or nil if they are not there.
func (r *reader) take(n uint64) []byte {
	if n > uint64(len(r.rest)) {
		r.fail()
		return nil
	}
	b := r.rest[:n]
	r.rest = r.rest[n:]
	return b
}

func (r *reader) string() string { return string(r.take(r.uvarint())) }

func (r *reader) data() []byte {
	n := r.uvarint()
	if n == 0 {
		return nil
	}
	b := r.take(n - 1)
	if r.bad {
		return nil
	}
	return append(make([]byte, 0, len(b)), b...)
}

// count reads the length of a list whose elements take at least size bytes each.
func (r *reader) count(size int) int {
	n := r.uvarint()
	if n > uint64(len(r.rest)/size) {
		r.fail()
		return 0
	}
	return int(n)
}

// openEncoded is how openACL is encoded: nearly every create carries it, and shares the one list.
var openEncoded = string(appendACL(nil, openACL))

// acl reads what appendACL wrote.
func (r *reader) acl() []ACL {
	if n := len(openEncoded); len(r.rest) >= n && string(r.rest[:n]) == openEncoded {
		r.rest = r.rest[n:]
		return openACL
	}
	n := r.uvarint()
	if n == 0 {
		return nil
	}
	if n--; n > uint64(len(r.rest)/4) {
		r.fail()
		return nil
	}
	acl := make([]ACL, n)
	for i := range acl {
		nulls := r.byte()
		if nulls&^(aclSchemeNull|aclIDNull) != 0 {
			r.fail()
		}
		acl[i] = ACL{
			SchemeNull: nulls&aclSchemeNull != 0, IDNull: nulls&aclIDNull != 0,
			Perms: r.int32(), Scheme: r.scheme(), ID: r.string(),
		}
		if r.bad {
			return nil
		}
	}
	return acl
}

// scheme reads a string that is mostly one of few.
func (r *reader) scheme() string {
	switch b := r.take(r.uvarint()); string(b) {
	case schemeWorld:
		return schemeWorld
	case schemeDigest:
		return schemeDigest
	case schemeIP:
		return schemeIP
	default:
		return string(b)
	}
}
