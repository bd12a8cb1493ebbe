package jute

import (
	"bytes"
	"errors"
	"testing"
)

// checkRecord asserts what holds for every record whatever the bytes are: it does not panic, what it decoded is encoded
// in as many bytes as were read, that encoding is canonical, and no prefix of it decodes.
func checkRecord(t *testing.T, fresh func() Record, body []byte, cut uint) {
	t.Helper()
	r, d := fresh(), NewDecoder(body)
	r.Decode(d)
	if d.Err() != nil {
		if len(d.Rest()) != 0 {
			t.Fatalf("%T: bytes are left after %v", r, d.Err())
		}
		return
	}
	out := r.Append(nil)
	if len(out) != len(body)-len(d.Rest()) {
		t.Fatalf("%T: %d bytes read, %d written", r, len(body)-len(d.Rest()), len(out))
	}
	again, d2 := fresh(), NewDecoder(out)
	again.Decode(d2)
	if d2.Err() != nil || len(d2.Rest()) != 0 {
		t.Fatalf("%T: its own encoding: %v, %d bytes left", r, d2.Err(), len(d2.Rest()))
	}
	if b := again.Append(nil); !bytes.Equal(b, out) {
		t.Fatalf("%T: %x, then %x", r, out, b)
	}
	if len(out) == 0 {
		return
	}
	n := int(cut % uint(len(out)))
	if _, ok := r.(optionalTail); ok && n == len(out)-1 {
		return
	}
	short, d3 := fresh(), NewDecoder(out[:n])
	short.Decode(d3)
	if d3.Err() == nil {
		t.Fatalf("%T: %d of %d bytes decode", r, n, len(out))
	}
}

// optionalTail marks the records whose last byte may be missing.
type optionalTail interface{ optionalTail() }

func (*ConnectRequest) optionalTail()  {}
func (*ConnectResponse) optionalTail() {}

// seed hands the bodies of all recorded frames to a fuzz target: of requests or of the server's.
func seed(f *testing.F, server bool, add func(op OpCode, body []byte)) {
	for _, file := range recordings(f) {
		ops := map[string]map[int32]OpCode{}
		for _, l := range readRecording(f, file) {
			if l.raw {
				continue
			}
			d := NewDecoder(l.data[4:])
			if ops[l.conn] == nil {
				ops[l.conn] = map[int32]OpCode{}
			}
			if !l.server {
				var h RequestHeader
				h.Decode(d)
				ops[l.conn][h.Xid] = h.Type
				if !server && d.Err() == nil {
					add(h.Type, d.Rest())
				}
			} else if server {
				var h ReplyHeader
				h.Decode(d)
				if d.Err() == nil {
					add(ops[l.conn][h.Xid], d.Rest())
				}
			}
		}
	}
}

func FuzzRequest(f *testing.F) {
	seed(f, false, func(op OpCode, body []byte) { f.Add(int32(op), body, uint(len(body)/2)) })
	f.Fuzz(func(t *testing.T, op int32, body []byte, cut uint) {
		if NewRequest(OpCode(op)) != nil {
			checkRecord(t, func() Record { return NewRequest(OpCode(op)) }, body, cut)
		}
		d := NewDecoder(body)
		path, null, watch := d.PathWatch()
		var r GetDataRequest
		d2 := NewDecoder(body)
		r.Decode(d2)
		if !errors.Is(d.Err(), d2.Err()) || d.Err() == nil && (string(path) != r.Path.Value || null != r.Path.Null || watch != r.Watch) {
			t.Fatalf("PathWatch %q %v %v %v, GetDataRequest %+v %v", path, null, watch, d.Err(), r, d2.Err())
		}
	})
}

func FuzzResponse(f *testing.F) {
	seed(f, true, func(op OpCode, body []byte) { f.Add(int32(op), body, uint(len(body)/2)) })
	f.Fuzz(func(t *testing.T, op int32, body []byte, cut uint) {
		if NewResponse(OpCode(op)) != nil {
			checkRecord(t, func() Record { return NewResponse(OpCode(op)) }, body, cut)
		}
	})
}

func FuzzSession(f *testing.F) {
	for _, file := range recordings(f) {
		for _, l := range readRecording(f, file) {
			if !l.raw {
				f.Add(l.data[4:], uint(20))
			}
		}
	}
	f.Fuzz(func(t *testing.T, body []byte, cut uint) {
		checkRecord(t, func() Record { return new(ConnectRequest) }, body, cut)
		checkRecord(t, func() Record { return new(ConnectResponse) }, body, cut)
		checkRecord(t, func() Record { return new(RequestHeader) }, body, cut)
		checkRecord(t, func() Record { return new(ReplyHeader) }, body, cut)
		checkRecord(t, func() Record { return new(MultiHeader) }, body, cut)
		checkRecord(t, func() Record { return new(WatcherEvent) }, body, cut)
		checkRecord(t, func() Record { return new(Stat) }, body, cut)
		checkRecord(t, func() Record { return new(ACL) }, body, cut)
		checkRecord(t, func() Record { return new(DeleteContainerRequest) }, body, cut)
		if s := Echo(string(body)); Echo(s) == "" != (len(body) == 0) {
			t.Fatalf("Echo(%q) = %q", body, s)
		}
	})
}

// FuzzFrames cuts a stream into frames twice, from a buffer and from a reader, which must see the same.
func FuzzFrames(f *testing.F) {
	f.Add([]byte("\x00\x00\x00\x02ab\x00\x00\x00\x00\xff\xff\xff\xff"))
	f.Add([]byte("\x00\x00\x00\x02a"))
	f.Add([]byte("ruok"))
	f.Fuzz(func(t *testing.T, stream []byte) {
		r, rest := NewFrameReader(bytes.NewReader(stream), 64), stream
		for {
			frame, more, ok, err := SplitFrame(rest, 64)
			got, rerr := r.Next()
			if ok != (rerr == nil) || (err != nil) != errors.Is(rerr, ErrFrameLength) || ok && !bytes.Equal(frame, got) {
				t.Fatalf("split %q %v %v, reader %q %v", frame, ok, err, got, rerr)
			}
			if !ok {
				return
			}
			rest = more
		}
	})
}
