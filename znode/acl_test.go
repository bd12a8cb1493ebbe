package znode

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

func TestFixACL(t *testing.T) {
	one := func(scheme, id string) []ACL { return []ACL{{Perms: 31, Scheme: scheme, ID: id}} }
	auth := []AuthID{{"ip", "127.0.0.1"}, {"digest", "bob:x"}, {"super", ""}, {"digest", "amy:y"}}
	for _, c := range []struct {
		name string
		acl  []ACL
		auth []AuthID
		want []ACL // nil: as given
		code Code
	}{
		{name: "null", acl: nil, code: InvalidACL},
		{name: "empty", acl: []ACL{}, code: InvalidACL},
		{name: "open", acl: openACL},
		{name: "odd perms", acl: []ACL{{Perms: -1, Scheme: "world", ID: "anyone"}}},
		{name: "world other", acl: one("world", "other"), code: InvalidACL},
		{name: "World", acl: one("World", "anyone"), code: InvalidACL},
		{name: "auth without ids", acl: one("auth", ""), auth: []AuthID{{"ip", "1.1.1.1"}, {"super", ""}}, code: InvalidACL},
		{name: "auth", acl: []ACL{{Perms: 1, Scheme: "auth", ID: "x"}, openACL[0]}, auth: auth, want: []ACL{
			{Perms: 1, Scheme: "digest", ID: "bob:x"}, {Perms: 1, Scheme: "digest", ID: "amy:y"}, openACL[0],
		}},
		{name: "auth with a null id", acl: []ACL{{Scheme: "auth", IDNull: true}}, auth: auth[1:2],
			want: []ACL{{Scheme: "digest", ID: "bob:x"}}},
		{name: "super", acl: one("super", ""), code: InvalidACL},
		{name: "x509", acl: one("x509", "CN=a"), code: InvalidACL},
		{name: "sasl", acl: one("sasl", "bob"), code: InvalidACL},
		{name: "null scheme", acl: []ACL{{SchemeNull: true, ID: "x"}}, code: InvalidACL},
		{name: "null world id", acl: []ACL{{Scheme: "world", IDNull: true}}, code: MarshallingError},
		{name: "null digest id", acl: []ACL{{Scheme: "digest", IDNull: true}}, code: MarshallingError},
		{name: "null id of no scheme", acl: []ACL{{Scheme: "nosuch", IDNull: true}}, code: InvalidACL},
		{name: "digest", acl: one("digest", "a:b")},
		{name: "digest, empty user", acl: one("digest", ":b")},
		{name: "digest without colon", acl: one("digest", "a"), code: InvalidACL},
		{name: "digest, empty password", acl: one("digest", "a:"), code: InvalidACL},
		{name: "digest, three parts", acl: one("digest", "a:b:c"), code: InvalidACL},
		{name: "digest, empty", acl: one("digest", ""), code: InvalidACL},
		{name: "ip", acl: one("ip", "127.0.0.1")},
		{name: "ip bits", acl: one("ip", "127.0.0.0/0")},
		{name: "ip6", acl: one("ip", "::1/128")},
		{name: "ip too many bits", acl: one("ip", "127.0.0.1/33"), code: InvalidACL},
		{name: "ip negative bits", acl: one("ip", "127.0.0.1/-1"), code: InvalidACL},
		{name: "ip no bits", acl: one("ip", "127.0.0.1/"), code: InvalidACL},
		{name: "ip 256", acl: one("ip", "256.0.0.1"), code: InvalidACL},
		{name: "ip short", acl: one("ip", "10.0.0"), code: InvalidACL},
		{name: "ip long", acl: one("ip", "10.0.0.1.2"), code: InvalidACL},
		{name: "ip host", acl: one("ip", "host"), code: InvalidACL},
		{name: "ip6 twice shortened", acl: one("ip", "1::2::3"), code: InvalidACL},
		{name: "ip6 with ip4", acl: one("ip", "::ffff:1.2.3.4"), code: InvalidACL},
		{name: "ip6 zone", acl: one("ip", "fe80::1%eth0"), code: InvalidACL},
		{name: "one bad", acl: []ACL{openACL[0], {Perms: 31, Scheme: "bad", ID: "x"}}, code: InvalidACL},
		{name: "repeated", acl: []ACL{openACL[0], openACL[0], {Perms: 1, Scheme: "world", ID: "anyone"}, openACL[0]},
			want: []ACL{openACL[0], {Perms: 1, Scheme: "world", ID: "anyone"}}},
	} {
		want := c.want
		if want == nil && c.code == OK {
			want = c.acl
		}
		if got, code := fixed(new(Options), c.acl, c.auth); code != c.code || !slices.Equal(got, want) {
			t.Errorf("%s: %v, %d", c.name, got, code)
		}
	}
}

// fixed is fixACL in a transaction of its own.
func fixed(o *Options, acl []ACL, auth []AuthID) ([]ACL, Code) {
	room := maxExpanded
	return o.fixACL(acl, auth, &room)
}

// A client chooses all factors of what the scheme auth expands to: identities and their length, entries, operations.
func TestAuthExpansionIsBounded(t *testing.T) {
	many := make([]AuthID, 1000)
	for i := range many {
		many[i] = AuthID{Scheme: "digest", ID: fmt.Sprintf("user%d:x", i)}
	}
	acl := make([]ACL, 1000)
	for i := range acl {
		acl[i] = ACL{Perms: int32(i), Scheme: "auth"}
	}
	if got, c := fixed(new(Options), acl, many); c != InvalidACL {
		t.Errorf("many entries and identities: %d, %d", len(got), c)
	}
	long := []AuthID{{Scheme: "digest", ID: strings.Repeat("u", 64<<10) + ":x"}}
	if got, c := fixed(new(Options), acl, long); c != InvalidACL {
		t.Errorf("long identities: %d, %d", len(got), c)
	}
	multi := func(n int) (txn *Txn, size int) {
		r := Request{Op: OpMulti, Session: 1, Auth: long, Multi: make([]Request, n)}
		for i := range r.Multi {
			r.Multi[i] = Request{Op: OpCreate, Path: fmt.Sprintf("/n%d", i), ACL: acl[31:32], TTL: -1}
		}
		p := NewPreparer(NewTree(Options{}))
		p.Prepare(&Request{Op: OpCreateSession, Session: 1, Timeout: 4000}, 1, 1)
		txn = p.Prepare(&r, 2, 2)
		return txn, len(AppendTxn(nil, txn))
	}
	if txn, size := multi(100); txn.Err != OK || size < 100*64<<10 {
		t.Errorf("a multi that has room: %d, %d bytes", txn.Err, size)
	}
	if txn, size := multi(200); txn.Err != InvalidACL || txn.FailedAt < 100 || size > 8<<10 {
		t.Errorf("a multi that has none: %d at %d, %d bytes", txn.Err, txn.FailedAt, size)
	}
}

func TestAllowed(t *testing.T) {
	world := func(perms int32) ACL { return ACL{Perms: perms, Scheme: "world", ID: "anyone"} }
	bob := []AuthID{{"ip", "127.0.0.1"}, {"digest", "bob:x"}}
	for _, c := range []struct {
		name string
		o    Options
		acl  []ACL
		auth []AuthID
		want bool
	}{
		{name: "empty list", want: true},
		{name: "world", acl: []ACL{world(1)}, want: true},
		{name: "other permission", acl: []ACL{world(30)}},
		{name: "skipACL", o: Options{SkipACL: true}, acl: []ACL{world(30)}, want: true},
		{name: "super", acl: []ACL{world(0)}, auth: []AuthID{{"super", ""}}, want: true},
		{name: "digest", acl: []ACL{world(30), {Perms: 1, Scheme: "digest", ID: "bob:x"}}, auth: bob, want: true},
		{name: "other digest", acl: []ACL{{Perms: 1, Scheme: "digest", ID: "bob:y"}}, auth: bob},
		{name: "digest of another scheme", acl: []ACL{{Perms: 1, Scheme: "ip", ID: "bob:x"}}, auth: bob},
		{name: "unknown scheme with an equal id", acl: []ACL{{Perms: 1, Scheme: "x509", ID: "a"}}, auth: []AuthID{{"x509", "a"}}},
		{name: "world:other", acl: []ACL{{Perms: 1, Scheme: "world", ID: "other"}}, auth: []AuthID{{"world", "other"}}},
		{name: "ip", acl: []ACL{{Perms: 1, Scheme: "ip", ID: "127.0.0.1"}}, auth: bob, want: true},
		{name: "ip both masked", acl: []ACL{{Perms: 1, Scheme: "ip", ID: "127.1.2.3/8"}}, auth: bob, want: true},
		{name: "ip odd bits", acl: []ACL{{Perms: 1, Scheme: "ip", ID: "126.0.0.0/7"}}, auth: bob, want: true},
		{name: "ip all", acl: []ACL{{Perms: 1, Scheme: "ip", ID: "0.0.0.0/0"}}, auth: bob, want: true},
		{name: "ip other", acl: []ACL{{Perms: 1, Scheme: "ip", ID: "127.0.0.2"}}, auth: bob},
		{name: "ip family", acl: []ACL{{Perms: 1, Scheme: "ip", ID: "::/0"}}, auth: bob},
		{name: "x509", o: Options{X509: true}, acl: []ACL{{Perms: 1, Scheme: "x509", ID: "CN=a"}}, auth: []AuthID{{"x509", "CN=a"}}, want: true},
		{name: "x509 other", o: Options{X509: true, SASL: true}, acl: []ACL{{Perms: 1, Scheme: "x509", ID: "CN=a"}}, auth: []AuthID{{"x509", "CN=b"}, {"sasl", "CN=a"}}},
		{name: "x509 super user", o: Options{X509: true, X509SuperUser: "CN=root"}, acl: []ACL{{Perms: 1, Scheme: "x509", ID: "CN=a"}}, auth: []AuthID{{"x509", "CN=root"}}, want: true},
		{name: "sasl", o: Options{SASL: true}, acl: []ACL{{Perms: 1, Scheme: "sasl", ID: "bob"}}, auth: []AuthID{{"sasl", "bob"}}, want: true},
		{name: "sasl not configured", acl: []ACL{{Perms: 1, Scheme: "sasl", ID: "bob"}}, auth: []AuthID{{"sasl", "bob"}}},
		{name: "sasl other", o: Options{SASL: true}, acl: []ACL{{Perms: 1, Scheme: "sasl", ID: "bob"}}, auth: []AuthID{{"sasl", "amy"}}},
		{name: "sasl super", o: Options{SASL: true}, acl: []ACL{{Perms: 1, Scheme: "sasl", ID: "bob"}}, auth: []AuthID{{"sasl", "super"}}, want: true},
		{name: "sasl anybody", o: Options{SASL: true, AnySASLUser: "all"}, acl: []ACL{{Perms: 1, Scheme: "sasl", ID: "all"}}, auth: []AuthID{{"sasl", "amy"}}, want: true},
		{name: "ip6", acl: []ACL{{Perms: 1, Scheme: "ip", ID: "fe80::/10"}}, auth: []AuthID{{"ip", "fe81::2"}}, want: true},
	} {
		if got := c.o.allowed(c.acl, PermRead, c.auth); got != c.want {
			t.Errorf("%s: %v", c.name, got)
		}
	}
}

func TestAuthenticate(t *testing.T) {
	o := Options{SuperDigest: "super:D/InIHSb7yEEbrWz8b9l71RjZJU="}
	for _, c := range []struct {
		scheme string
		data   []byte
		want   []AuthID
		code   Code
	}{
		{"digest", []byte("bob:pw"), []AuthID{{"digest", "bob:ikIaKsbtGweaHnb/jKn7OHqbunM="}}, OK},
		{"digest", []byte("amy:pw"), []AuthID{{"digest", "amy:ytedbzoRRPHPjfCmtagR0pUO0cI="}}, OK},
		{"digest", []byte("nocolon"), []AuthID{{"digest", "nocolon:Ra+cHr2ZoHvBjtNArFGNGlVie4g="}}, OK},
		{"digest", []byte(""), []AuthID{{"digest", ":2jmj7l5rSw0yVb/vlWAYkK/YBwk="}}, OK},
		{"digest", []byte("super:test"), []AuthID{{"digest", o.SuperDigest}, {"super", ""}}, OK},
		{"digest", nil, nil, AuthFailed},
		{"ip", []byte("x"), []AuthID{{"ip", "10.0.0.9"}}, OK},
		{"world", []byte("anyone"), nil, AuthFailed},
		{"sasl", []byte("x"), nil, AuthFailed},
		{"", []byte("x"), nil, AuthFailed},
	} {
		if got, code := Authenticate(c.scheme, c.data, "10.0.0.9", o); code != c.code || !slices.Equal(got, c.want) {
			t.Errorf("%s %q: %v, %d", c.scheme, c.data, got, code)
		}
	}
	if ids, _ := Authenticate("digest", []byte("super:test"), "", Options{}); len(ids) != 1 {
		t.Errorf("a super user without a super digest: %v", ids)
	}
}

func TestInternedListsAreShared(t *testing.T) {
	tree := NewTree(Options{})
	var out Applied
	acl := func() []ACL {
		return []ACL{{Perms: 1, Scheme: "world", ID: "anyone"}, {Perms: 31, Scheme: "ip", ID: "::1"}}
	}
	apply := func(op TxnOp) {
		tree.Apply(&Txn{Zxid: tree.Applied() + 1, Type: op.Op, Op: op}, &out)
	}
	before := len(tree.acls)
	apply(TxnOp{Op: OpCreate, Path: "/a", ACL: acl()})
	apply(TxnOp{Op: OpCreate, Path: "/b", ACL: acl()})
	if tree.nodes["/a"].acl != tree.nodes["/b"].acl || len(tree.acls) != before+1 {
		t.Error("equal lists are not shared")
	}
	apply(TxnOp{Op: OpDelete, Path: "/a"})
	apply(TxnOp{Op: OpSetACL, Path: "/b", ACL: openACL, Version: 1})
	if len(tree.acls) != before {
		t.Error("an unused list is kept")
	}
}
