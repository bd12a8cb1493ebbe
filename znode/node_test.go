package znode

import (
	"testing"
	"unsafe"
)

// A node lies in an allocation of 112 bytes; one byte more and it takes 128, which is 16 MB for a million nodes.
func TestNodeFitsItsSizeClass(t *testing.T) {
	if n := unsafe.Sizeof(node{}); n > 112 {
		t.Fatalf("a node takes %d bytes, want at most 112", n)
	}
}

// Null, empty and other data are told apart although only the length says which it is.
func TestContent(t *testing.T) {
	var n node
	for _, data := range [][]byte{nil, {}, {1}, make([]byte, 1000), {}, nil} {
		n.setContent(data)
		got := n.content()
		if (got == nil) != (data == nil) || string(got) != string(data) || n.size != sizeOf(data) {
			t.Fatalf("%v became %v, of size %d", data, got, n.size)
		}
	}
}
