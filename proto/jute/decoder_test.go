package jute

import (
	"bytes"
	"errors"
	"runtime"
	"strings"
	"testing"
)

func TestNullAndEmpty(t *testing.T) {
	for _, tc := range []struct {
		in      string
		wantNil bool
		err     error
	}{
		{"\xff\xff\xff\xff", true, nil},
		{"\x00\x00\x00\x00", false, nil},
		{"\x00\x00\x00\x02ab", false, nil},
		{"\xff\xff\xff\xfe", true, ErrLength},
		{"\x80\x00\x00\x00", true, ErrLength},
		{"\x00\x00\x00\x03ab", true, ErrTruncated},
		{"\x7f\xff\xff\xffab", true, ErrTruncated},
		{"\x00\x00\x00", true, ErrTruncated},
		{"", true, ErrTruncated},
	} {
		d := NewDecoder([]byte(tc.in))
		b := d.Buffer()
		if (b == nil) != tc.wantNil || !errors.Is(d.Err(), tc.err) {
			t.Errorf("buffer %q: %q, nil %v, %v", tc.in, b, b == nil, d.Err())
		}
		if tc.err == nil && string(AppendBuffer(nil, b)) != tc.in {
			t.Errorf("buffer %q goes out as %q", tc.in, AppendBuffer(nil, b))
		}
		d = NewDecoder([]byte(tc.in))
		s := d.String()
		if tc.err == nil && (s.Null != tc.wantNil || string(s.Append(nil)) != tc.in) || !errors.Is(d.Err(), tc.err) {
			t.Errorf("string %q: %+v, %v", tc.in, s, d.Err())
		}
	}
}

func TestBuffersAreCopies(t *testing.T) {
	frame := []byte("\x00\x00\x00\x02ab")
	own := NewDecoder(frame).Buffer()
	copy(frame, bytes.Repeat([]byte{'x'}, len(frame)))
	if string(own) != "ab" {
		t.Errorf("copy %q", own)
	}
}

func TestVectors(t *testing.T) {
	for _, tc := range []struct {
		in      string
		want    int
		wantNil bool
		err     error
	}{
		{"\xff\xff\xff\xff", 0, true, nil},
		{"\xff\xff\xff\xfe", 0, false, nil}, // as Apache ZooKeeper reads it
		{"\x80\x00\x00\x00", 0, false, nil},
		{"\x00\x00\x00\x00", 0, false, nil},
		{"\x00\x00\x00\x02\x00\x00\x00\x01a\x00\x00\x00\x00", 2, false, nil},
		{"\x00\x00\x00\x02\x00\x00\x00\x01a", 0, true, ErrTruncated},
		{"\x7f\xff\xff\xff\x00\x00\x00\x01a", 0, true, ErrTruncated},
		{"\x00\x00\x00\x01\xff\xff\xff\xff", 0, true, ErrNull},
		{"\x00\x00\x00\x01\xff\xff\xff\xf0", 0, true, ErrLength},
	} {
		d := NewDecoder([]byte(tc.in))
		v := d.Strings()
		if len(v) != tc.want || (v == nil) != tc.wantNil || !errors.Is(d.Err(), tc.err) {
			t.Errorf("%q: %q, nil %v, %v", tc.in, v, v == nil, d.Err())
		}
	}
}

// TestCountsAllocateNothing gives every record with a vector a count of 2^31-1 in front of a frame that has no elements
// that decode.
func TestCountsAllocateNothing(t *testing.T) {
	many := "\x7f\xff\xff\xff"
	junk := many + strings.Repeat("\xf0", 1<<20)
	for name, f := range map[string]func(d *Decoder){
		"strings": func(d *Decoder) { d.Strings() },
		"acls":    func(d *Decoder) { d.ACLs() },
		"whoami":  func(d *Decoder) { new(WhoAmIResponse).Decode(d) },
		"buffer":  func(d *Decoder) { d.Buffer() },
		"string":  func(d *Decoder) { _ = d.String() },
	} {
		frame := []byte(junk)
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		d := NewDecoder(frame)
		f(d)
		runtime.ReadMemStats(&after)
		if d.Err() == nil {
			t.Errorf("%s: decoded", name)
		}
		if n := after.TotalAlloc - before.TotalAlloc; n > 16<<10 {
			t.Errorf("%s: %d bytes allocated", name, n)
		}
	}
}

func TestErrorsStick(t *testing.T) {
	d := NewDecoder([]byte("\xff\xff\xff\xfe\x00\x00\x00\x07"))
	_ = d.String()
	if n := d.Int(); n != 0 || !errors.Is(d.Err(), ErrLength) || len(d.Rest()) != 0 {
		t.Errorf("after an error: %d, %v, %x", n, d.Err(), d.Rest())
	}
	d.Reset([]byte("\x00\x00\x00\x07"))
	if n := d.Int(); n != 7 || d.Err() != nil {
		t.Errorf("after Reset: %d, %v", n, d.Err())
	}
}

// TestEcho holds the texts of the recording raw-utf8-paths and what Java's decoder does with the rest.
func TestEcho(t *testing.T) {
	for in, want := range map[string]string{
		"":                         "",
		"/plain":                   "/plain",
		"/ü€":                      "/ü€",
		"/a\xff":                   "/a\uFFFD",
		"\U0001F600":               "\xed\xa0\xbd\xed\xb8\x80",
		"x\U0010FFFFy":             "x\xed\xaf\xbf\xed\xbf\xbfy",
		"\xed\xa0\xbd\xed\xb8\x80": "\uFFFD\uFFFD", // surrogates come in as no text
		"\xe4\xb8":                 "\uFFFD",       // cut short: one
		"\xe4\xb8/":                "\uFFFD/",
		"\xe4/":                    "\uFFFD/",
		"\xe0\x80\x80":             "\uFFFD\uFFFD\uFFFD", // overlong: one each
		"\xc0\x80":                 "\uFFFD\uFFFD",
		"\xf0\x9f\x98":             "\uFFFD",
		"\xf0\x9f\x98x":            "\uFFFDx",
		"\xf4\x90\x80\x80":         "\uFFFD\uFFFD\uFFFD\uFFFD",
		"\xf8\x88\x80\x80\x80":     "\uFFFD\uFFFD\uFFFD\uFFFD\uFFFD",
		"\uFFFD":                   "\uFFFD",
		"\x80\xbf":                 "\uFFFD\uFFFD",
		"\xf0\x9f":                 "\uFFFD",
		"\xf1":                     "\uFFFD",
		"\xed\xa0":                 "\uFFFD",
	} {
		if got := Echo(in); got != want {
			t.Errorf("Echo(%q) = %q, want %q", in, got, want)
		}
	}
}

// TestRecordedEcho asks what Apache ZooKeeper answered to every sync that was recorded.
func TestRecordedEcho(t *testing.T) {
	found := 0
	var asked []SyncRequest
	for _, l := range readRecording(t, "testdata/frames/raw-utf8-paths.txt") {
		d := NewDecoder(l.data[4:])
		if !l.server {
			var h RequestHeader
			if h.Decode(d); h.Type == OpSync {
				var r SyncRequest
				r.Decode(d)
				asked = append(asked, r)
			} else {
				asked = append(asked, SyncRequest{Path: NullString()})
			}
			continue
		}
		r := asked[0]
		asked = asked[1:]
		if r.Path.Null {
			continue
		}
		var h ReplyHeader
		h.Decode(d)
		var got SyncResponse
		got.Decode(d)
		found++
		if d.Err() != nil || Echo(r.Path.Value) != got.Path.Value {
			t.Errorf("line %d: %q echoed as %q, Apache ZooKeeper: %q", l.line, r.Path.Value, Echo(r.Path.Value), got.Path.Value)
		}
	}
	if found < 2 {
		t.Errorf("%d answers to sync recorded", found)
	}
}

func TestNames(t *testing.T) {
	for got, want := range map[string]string{
		NoNode.Name():                       "NONODE",
		NoNode.Error():                      "zookeeper: NONODE (-101)",
		ErrorCode(-99).Name():               "-99",
		OpGetChildren2.String():             "getChildren2",
		OpCode(77).String():                 "77",
		EventNodeDataChanged.String():       "NodeDataChanged",
		EventType(9).String():               "9",
		StateSyncConnected.String():         "SyncConnected",
		KeeperState(99).String():            "99",
		EventChildWatchRemoved.String():     "ChildWatchRemoved",
		StateExpired.String():               "Expired",
		SessionClosedRequireSASLAuth.Name(): "SESSIONCLOSEDREQUIRESASLAUTH",
	} {
		if got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	if WatcherType(0).Valid() || WatcherType(6).Valid() || !WatcherPersistentRecursive.Valid() || AddWatchMode(2).Valid() || AddWatchMode(-1).Valid() {
		t.Error("validity of watcher types and modes")
	}
}
