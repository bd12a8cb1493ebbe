package session_test

import (
	"slices"
	"testing"

	"github.com/zkserver/zkserver/server/session"
	"github.com/zkserver/zkserver/znode"
)

// Where authentication is enforced, nothing is done for a connection without an identity of a named scheme: its first
// request is refused, and it is closed once that is told.
func TestEnforcedAuthentication(t *testing.T) {
	r := start(t, session.Options{EnforceSchemes: []string{"digest"}})
	for name, rs := range map[string][]session.Request{
		"ping":  {{Op: znode.OpPing, Xid: 1}, {Op: znode.OpPing, Xid: 2}},
		"read":  {getReq(1, "/", false)},
		"write": {createReq(1, "/refused", open)},
		"close": {{Op: znode.OpCloseSession, Xid: 1, Write: &znode.Request{}}},
	} {
		s := newSink(1 << 20)
		c := r.open(&lineWire{}, s, session.Attach{})
		if err := c.Do(rs); err == nil || !ended(c) || c.Reason() != session.ReasonUnproved {
			t.Errorf("%s: %v, %s", name, err, c.Reason())
		}
		if got := s.lines(); !slices.Equal(got, []string{"1:-124:"}) {
			t.Errorf("%s: told %q", name, got)
		}
	}
	s := newSink(1 << 20)
	c := r.open(&lineWire{}, s, session.Attach{})
	if code := c.Authenticate("digest", []byte("bob:pw")); code != znode.OK {
		t.Fatal(code)
	}
	if got := r.do(c, s, 2, getReq(1, "/", false), getReq(2, "/refused", false)); !slices.Equal(got, []string{"1:0:", "2:-101:"}) {
		t.Errorf("%q", got)
	}
}

// Writes that carry identities of their own are judged by these, and refused without an end of the connection.
func TestEnforcedAuthenticationOfSeveralClients(t *testing.T) {
	r := start(t, session.Options{EnforceSchemes: []string{"digest"}})
	s := newSink(1 << 20)
	c := r.open(&lineWire{}, s, session.Attach{})
	good, bad := createReq(1, "/good", open), createReq(2, "/bad", open)
	good.Write.Auth = []znode.AuthID{{Scheme: "ip", ID: "1.1.1.1"}, {Scheme: "digest", ID: "bob:x"}}
	bad.Write.Auth = good.Write.Auth[:1]
	got := r.do(c, s, 2, good, bad)
	slices.Sort(got)
	if !slices.Equal(got, []string{"1:0:", "2:-124:"}) || c.Ended() {
		t.Errorf("%q, ended %v", got, c.Ended())
	}
}

func TestEnsembleNames(t *testing.T) {
	r := start(t, session.Options{Ensemble: []string{"main", "alias"}})
	c := r.open(&lineWire{}, newSink(1<<20), session.Attach{})
	for _, name := range [][]byte{nil, {}, []byte("main"), []byte("alias")} {
		if code := c.Authenticate("ensemble", name); code != znode.OK || len(c.Auth()) != 1 {
			t.Errorf("%q: %d, ids %v", name, code, c.Auth())
		}
	}
	if code := c.Authenticate("ensemble", []byte("other")); code != znode.AuthFailed || c.Reason() != session.ReasonEnsemble {
		t.Errorf("another name: %d, %s", code, c.Reason())
	}
	r = start(t, session.Options{})
	c = r.open(&lineWire{}, newSink(1<<20), session.Attach{})
	if code := c.Authenticate("ensemble", []byte("main")); code != znode.AuthFailed {
		t.Errorf("not offered: %d", code)
	}
}
