package jute

import (
	"bytes"
	"errors"
	"io"
	"runtime"
	"strings"
	"testing"
	"testing/iotest"
)

func TestFrameReader(t *testing.T) {
	long := strings.Repeat("0123456789abcdef", 6000) // beyond what is kept
	var stream []byte
	payloads := []string{"", "a", long, "b", "", long[:20000], "c"}
	for _, p := range payloads {
		var at int
		stream, at = BeginFrame(stream)
		stream = EndFrame(append(stream, p...), at)
	}
	for name, r := range map[string]io.Reader{
		"whole":      bytes.NewReader(stream),
		"byte":       iotest.OneByteReader(bytes.NewReader(stream)),
		"half":       iotest.HalfReader(bytes.NewReader(stream)),
		"data + EOF": iotest.DataErrReader(bytes.NewReader(stream)),
	} {
		f := NewFrameReader(r, 0)
		for i, p := range payloads {
			got, err := f.Next()
			if err != nil || string(got) != p {
				t.Fatalf("%s: frame %d: %d bytes, %v", name, i, len(got), err)
			}
		}
		if _, err := f.Next(); !errors.Is(err, io.EOF) {
			t.Errorf("%s: at the end: %v", name, err)
		}
	}
}

func TestFrameReaderEnds(t *testing.T) {
	for in, want := range map[string]error{
		"":                                      io.EOF,
		"\x00":                                  io.ErrUnexpectedEOF,
		"\x00\x00\x00\x02":                      io.ErrUnexpectedEOF,
		"\x00\x00\x00\x02a":                     io.ErrUnexpectedEOF,
		"\xff\xff\xff\xff":                      ErrFrameLength,
		"\x80\x00\x00\x00":                      ErrFrameLength,
		"\x00\x00\x00\x11":                      ErrFrameLength,
		"abcd":                                  ErrFrameLength,
		"\x00\x00\x00\x10" + "0123456789abcdef": nil,
	} {
		if _, err := NewFrameReader(strings.NewReader(in), 16).Next(); !errors.Is(err, want) {
			t.Errorf("%q: %v, want %v", in, err, want)
		}
		frame, rest, ok, err := SplitFrame([]byte(in), 16)
		if errors.Is(want, ErrFrameLength) != errors.Is(err, ErrFrameLength) || ok != (want == nil) {
			t.Errorf("SplitFrame(%q): %q, %q, %v, %v", in, frame, rest, ok, err)
		}
	}
}

// TestLengthAllocatesNothing sends a length at the limit and nothing behind it.
func TestLengthAllocatesNothing(t *testing.T) {
	const limit = 512 << 20
	f := NewFrameReader(strings.NewReader("\x20\x00\x00\x00abc"), limit)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	_, err := f.Next()
	runtime.ReadMemStats(&after)
	if !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Fatal(err)
	}
	if n := after.TotalAlloc - before.TotalAlloc; n > 64<<10 {
		t.Errorf("%d bytes allocated for three that came", n)
	}
}

func TestSplitFrame(t *testing.T) {
	buf := []byte("\x00\x00\x00\x02ab\x00\x00\x00\x00\x00\x00\x00\x01")
	frame, rest, ok, err := SplitFrame(buf, 16)
	if string(frame) != "ab" || !ok || err != nil || cap(frame) != 2 {
		t.Fatalf("%q %v %v", frame, ok, err)
	}
	frame, rest, ok, err = SplitFrame(rest, 16)
	if len(frame) != 0 || !ok || err != nil || len(rest) != 4 {
		t.Fatalf("%q %v %v", frame, ok, err)
	}
	if _, again, ok, err := SplitFrame(rest, 16); ok || err != nil || len(again) != 4 {
		t.Fatalf("%v %v", ok, err)
	}
}
