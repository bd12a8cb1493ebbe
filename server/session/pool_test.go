package session

import (
	"runtime"
	"testing"
	"weak"
)

// The pools of a hub that nobody knows any more do not keep it: a process that makes many, as the simulator does, would
// hold all that it has made since the collection before the last.
func TestPoolsDoNotKeepTheirHub(t *testing.T) {
	made := func() weak.Pointer[Hub] {
		h := NewHub(Options{})
		h.put(h.get(0))
		h.put(h.get(2 * shortBuffer))
		h.replies.Put(h.replies.Get())
		return weak.Make(h)
	}()
	runtime.GC()
	if made.Value() != nil {
		t.Error("the hub is still there after a collection")
	}
}

// A long buffer is used again for as long a reply, and not for a much shorter one, whose client may keep it.
func TestLongBuffersFit(t *testing.T) {
	const long = 3 << 20
	for _, tt := range []struct {
		size int
		most int
	}{{long, long}, {long / 2, long}, {long / 8, long / 4}, {0, shortBuffer}} {
		p := NewHub(Options{}).pools
		p.put(p.get(long))
		if b := p.get(tt.size); cap(b.b) > tt.most || len(b.b) != 0 {
			t.Errorf("for %d bytes: %d of %d, want at most %d", tt.size, len(b.b), cap(b.b), tt.most)
		}
	}
	h := NewHub(Options{})
	h.put(&buffer{b: make([]byte, 0, keptBuffer+1)})
	if b := h.get(keptBuffer / 2); cap(b.b) != keptBuffer/2 {
		t.Errorf("%d bytes are kept", cap(b.b))
	}
}
