package session_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/zkserver/zkserver/server/session"
	"github.com/zkserver/zkserver/znode"
)

// A connection holds so many identities, and so long ones: every write carries them.
func TestIdentitiesAreBounded(t *testing.T) {
	r := start(t, session.Options{})
	for _, size := range []int{1, 2000, 100_000} {
		c := r.open(&lineWire{}, newSink(1<<20), session.Attach{})
		code, n := znode.OK, 0
		for ; code == znode.OK && n < 2000; n++ {
			code = c.Authenticate("digest", fmt.Appendf(nil, "%s%d:pw", strings.Repeat("u", size), n))
		}
		held := c.Auth()
		if code != znode.AuthFailed || len(held) != n || len(held) > 1024 || znode.AuthSize(held) > 64<<10 {
			t.Errorf("identities of %d bytes: the %dth gives %d; %d bytes are held", size, n, code, znode.AuthSize(held))
		}
		if code := c.Authenticate("ip", nil); code != znode.AuthFailed {
			t.Errorf("null data: %d", code)
		}
		if code := c.Authenticate("ip", []byte{}); code != znode.OK || len(c.Auth()) != len(held) {
			t.Errorf("one that it has: %d", code)
		}
	}
}

// What all connections together have outstanding is bounded in bytes too, with the identities that each write carries.
func TestGlobalOutstandingBytes(t *testing.T) {
	r := start(t, session.Options{})
	setup := newSink(1 << 20)
	c := r.open(&lineWire{}, setup, session.Attach{})
	r.do(c, setup, 1, createReq(1, "/a", open))
	const connections, each = 20, 1000
	identity := strings.Repeat("u", 60_000) + ":pw"
	var conns []*session.Conn
	for range connections {
		c := r.open(&lineWire{}, newSink(1<<20), session.Attach{})
		if code := c.Authenticate("digest", []byte(identity)); code != znode.OK {
			t.Fatal(code)
		}
		conns = append(conns, c)
	}
	r.b.Hold()
	done := make(chan error, connections)
	for _, c := range conns {
		go func() { // ends when its requests are answered
			var err error
			for i := int32(1); i <= each && err == nil; i++ {
				err = c.Do([]session.Request{setReq(i, "/a", "x")})
			}
			done <- err
		}()
	}
	// A connection may have one more than the bound of all leaves room for.
	const atMost = 32<<20/60_000 + 1 + connections
	until(t, "the bound", func() bool { return r.b.Queued() >= atMost-2*connections })
	if n := r.b.Queued(); n > atMost {
		t.Errorf("%d writes of 60 kB are outstanding, at most %d may be", n, atMost)
	}
	r.b.Resume()
	for range connections {
		if err := <-done; err != nil {
			t.Fatal(err)
		}
	}
	until(t, "all answers", func() bool { return r.hub.Stats().Outstanding == 0 })
}
