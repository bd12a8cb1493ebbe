package jute

import (
	"encoding/binary"
	"errors"
)

// The ways a record can be wrong. All of them are answered with MarshallingError where the header did decode.
var (
	ErrTruncated = errors.New("jute: the record goes on beyond its frame")
	ErrLength    = errors.New("jute: negative length")
	ErrNull      = errors.New("jute: null element in a vector")
	ErrSubOp     = errors.New("jute: operation not allowed in this multi")
)

// Decoder reads the fields of records from one frame (without its length). The first error sticks: everything after it
// reads as zero, and Err tells it. So a record is decoded field by field and checked once.
//
// The zero Decoder is an empty frame; Reset gives it another one, so that a connection can keep a single Decoder.
type Decoder struct {
	rest []byte
	err  error
}

// NewDecoder returns a Decoder of a frame's payload.
func NewDecoder(frame []byte) *Decoder { return &Decoder{rest: frame} }

// Reset starts on another frame.
func (d *Decoder) Reset(frame []byte) { *d = Decoder{rest: frame} }

// Err is the first error, or nil.
func (d *Decoder) Err() error { return d.err }

// Rest is what has not been read.
func (d *Decoder) Rest() []byte { return d.rest }

func (d *Decoder) fail(err error) {
	if d.err == nil {
		d.err = err
	}
	d.rest = nil
}

// take returns the next n bytes of the frame, or nil after an error. n is not negative.
func (d *Decoder) take(n int) []byte {
	if n > len(d.rest) || d.err != nil {
		d.fail(ErrTruncated)
		return nil
	}
	b := d.rest[:n:n]
	d.rest = d.rest[n:]
	return b
}

// Bool reads a boolean: any byte but zero is true.
func (d *Decoder) Bool() bool {
	b := d.take(1)
	return b != nil && b[0] != 0
}

// Int reads an int.
func (d *Decoder) Int() int32 {
	b := d.take(4)
	if b == nil {
		return 0
	}
	return int32(binary.BigEndian.Uint32(b))
}

// Long reads a long.
func (d *Decoder) Long() int64 {
	b := d.take(8)
	if b == nil {
		return 0
	}
	return int64(binary.BigEndian.Uint64(b))
}

// bytes reads a length and as many bytes, which alias the frame. Null (-1) gives nil and true; never nil otherwise
// unless the frame is wrong.
func (d *Decoder) bytes() (b []byte, null bool) {
	n := d.Int()
	switch {
	case d.err != nil:
		return nil, false
	case n == -1:
		return nil, true
	case n < -1:
		d.fail(ErrLength)
		return nil, false
	}
	return d.take(int(n)), false
}

// Buffer reads a buffer: nil for null. It is a copy.
func (d *Decoder) Buffer() []byte {
	b, _ := d.bytes()
	if b == nil {
		return b
	}
	if len(b) == 0 {
		return []byte{}
	}
	c := make([]byte, len(b))
	copy(c, b)
	return c
}

// String reads a ustring.
func (d *Decoder) String() String {
	b, null := d.bytes()
	return String{Value: string(b), Null: null}
}

// word reads a ustring that is likely one of a few: those cost no allocation.
func (d *Decoder) word() String {
	b, null := d.bytes()
	s := String{Null: null}
	switch string(b) {
	case "":
	case "world":
		s.Value = "world"
	case "anyone":
		s.Value = "anyone"
	case "auth":
		s.Value = "auth"
	case "digest":
		s.Value = "digest"
	case "ip":
		s.Value = "ip"
	default:
		s.Value = string(b)
	}
	return s
}

// StringBytes reads a ustring without copying: the bytes alias the frame.
func (d *Decoder) StringBytes() (b []byte, null bool) { return d.bytes() }

// count reads a vector's count. Null is -1; every other negative count is an empty vector, as ZooKeeper reads it.
func (d *Decoder) count() int {
	n := d.Int()
	if n < -1 {
		return 0
	}
	return int(n)
}

// room is the capacity to begin a vector of n elements with, each of at least size bytes: bounded by the frame, and by a
// constant, because the elements may turn out to be wrong early.
func (d *Decoder) room(n, size int) int {
	const first = 64
	return min(n, len(d.rest)/size, first)
}

// Strings reads a vector of ustring: nil for null. A null element is an error: no record has a meaning for it.
func (d *Decoder) Strings() []string {
	n := d.count()
	if n < 0 || d.err != nil {
		return nil
	}
	v := make([]string, 0, d.room(n, 4))
	for ; n > 0; n-- {
		b, null := d.bytes()
		if null {
			d.fail(ErrNull)
		}
		if d.err != nil {
			return nil
		}
		v = append(v, string(b))
	}
	return v
}

// ACLs reads a vector of ACL: nil for null.
func (d *Decoder) ACLs() []ACL {
	n := d.count()
	if n < 0 || d.err != nil {
		return nil
	}
	v := make([]ACL, 0, d.room(n, 12))
	for ; n > 0; n-- {
		var a ACL
		a.Decode(d)
		if d.err != nil {
			return nil
		}
		v = append(v, a)
	}
	return v
}
