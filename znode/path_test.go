package znode

import (
	"fmt"
	"math"
	"testing"
)

func TestValidPath(t *testing.T) {
	for _, p := range []string{
		"/", "/a", "/a/b", "/...", "/.x", "/x.", "/a..b", "/ ", "/\u00a0", "/\ud7ff", "/\uf900", "/\uffef", "/a/ä/日本",
	} {
		if !ValidPath(p) {
			t.Errorf("%q is refused", p)
		}
	}
	for _, p := range []string{
		"", "a", "a/b", "//", "//x", "/a/", "/a//b", "/.", "/..", "/a/./b", "/a/../b", "/a/..", "/\x00", "/a\x00", "/\x01",
		"/\x1f", "/\x7f", "/\u0080", "/\u009f", "/\ue000", "/\uf8ff", "/\ufff0", "/\ufffd", "/\uffff", "/\U0001f600",
		"/\xff\xfe", "/\xed\xa0\x80", "/a\xc3", "/\x1f/x",
	} {
		if ValidPath(p) {
			t.Errorf("%q is accepted", p)
		}
	}
}

func TestAppendCounter(t *testing.T) {
	for _, n := range []int32{0, 1, 9, 10, 1234567890, math.MaxInt32, -1, -3, -999999999, math.MinInt32} {
		if got, want := string(appendCounter(nil, n)), fmt.Sprintf("%010d", n); got != want {
			t.Errorf("%d: %q, want %q", n, got, want)
		}
	}
}

func TestOwnerKind(t *testing.T) {
	for owner, want := range map[int64][2]ownerKind{ // extended types off, on
		0:                         {ownerNone, ownerNone},
		1 << 56:                   {ownerSession, ownerSession},
		ContainerOwner:            {ownerContainer, ownerContainer},
		TTLOwner(1):               {ownerSession, ownerTTL},
		TTLOwner(MaxTTL):          {ownerSession, ownerTTL},
		TTLOwner(0) | 1<<40:       {ownerSession, ownerSession}, // another feature
		-0x0100000000000000 * 2:   {ownerSession, ownerSession}, // server 254
		-0x0200000000000000 + 500: {ownerSession, ownerSession},
	} {
		for i, o := range []Options{{}, {ExtendedTypes: true}} {
			if got := o.ownerKind(owner); got != want[i] {
				t.Errorf("%#x, %+v: %d, want %d", uint64(owner), o, got, want[i])
			}
		}
	}
	if uint64(TTLOwner(1)) != 0xFF00000000000001 || uint64(TTLOwner(MaxTTL)) != 0xFF0000FFFFFFFFFF {
		t.Errorf("TTL owners %#x, %#x", uint64(TTLOwner(1)), uint64(TTLOwner(MaxTTL)))
	}
}
