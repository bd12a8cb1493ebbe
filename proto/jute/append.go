package jute

import "encoding/binary"

// AppendBool appends a boolean.
func AppendBool(dst []byte, v bool) []byte {
	if v {
		return append(dst, 1)
	}
	return append(dst, 0)
}

// AppendInt appends an int.
func AppendInt(dst []byte, v int32) []byte { return binary.BigEndian.AppendUint32(dst, uint32(v)) }

// AppendLong appends a long.
func AppendLong(dst []byte, v int64) []byte { return binary.BigEndian.AppendUint64(dst, uint64(v)) }

// AppendBuffer appends a buffer; nil is null.
func AppendBuffer(dst, v []byte) []byte {
	if v == nil {
		return AppendInt(dst, -1)
	}
	dst = AppendInt(dst, int32(len(v)))
	return append(dst, v...)
}

// AppendString appends a ustring that is not null.
func AppendString(dst []byte, v string) []byte {
	dst = AppendInt(dst, int32(len(v)))
	return append(dst, v...)
}

// AppendStrings appends a vector of ustring; nil is null.
func AppendStrings(dst []byte, v []string) []byte {
	if v == nil {
		return AppendInt(dst, -1)
	}
	dst = AppendInt(dst, int32(len(v)))
	for _, s := range v {
		dst = AppendString(dst, s)
	}
	return dst
}

// AppendACLs appends a vector of ACL; nil is null.
func AppendACLs(dst []byte, v []ACL) []byte {
	if v == nil {
		return AppendInt(dst, -1)
	}
	dst = AppendInt(dst, int32(len(v)))
	for i := range v {
		dst = v[i].Append(dst)
	}
	return dst
}
