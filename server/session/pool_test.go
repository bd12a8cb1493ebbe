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
