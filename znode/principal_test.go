package znode

import (
	"slices"
	"testing"
)

func TestValidPrincipal(t *testing.T) {
	for id, want := range map[string]bool{
		"bob": true, "": true, "a/b/c": true, "bob@REALM": true, "kafka/host@REALM": true, "@": true, "/@": true,
		"a@b@c": false, "a/b/c@R": false, "a@b/c": false, "@/": false,
	} {
		if got := validPrincipal(id); got != want {
			t.Errorf("%q: %v", id, got)
		}
	}
}

func TestValidDN(t *testing.T) {
	for id, want := range map[string]bool{
		"":                      true,
		"CN=bob":                true,
		"cn = bob , O=x":        true,
		"CN=bob+UID=7;C=DE":     true,
		"CN=a\\,b,O=\"x, y=z\"": true,
		"CN=":                   true,
		"1.2.3=x":               true,
		"OID.1.2.3=x":           true,
		"CN=#0c0141":            true,
		"CN=#0":                 false,
		"CN=#zz":                false,
		"bob":                   false,
		"CN":                    false,
		"XX=bob":                false,
		"=bob":                  false,
		"CN=a,":                 false,
		"CN=a,,O=b":             false,
		"CN=\"a":                false,
		"CN=\"a\"b":             false,
		"CN=a\\":                false,
		"  ":                    false, "3.1=x": false, "1.50.3=x": false, "2.50.3=x": true, "CN=<a>": false, "CN=a\\zb": false, "CN=a\\2cb": true,
		"CN=a=b": true,
		"1..2=x": false,
		"1=x":    false,
	} {
		if got := validDN(id); got != want {
			t.Errorf("%q: %v", id, got)
		}
	}
}

// Entries of x509 and sasl are accepted where their provider is configured, and the scheme auth resolves to them.
func TestFixACLWithProviders(t *testing.T) {
	o := Options{X509: true, SASL: true}
	auth := []AuthID{{"ip", "1.1.1.1"}, {"x509", "CN=a"}, {"sasl", "bob"}, {"super", ""}}
	for _, c := range []struct {
		acl  ACL
		want []ACL
		code Code
	}{
		{acl: ACL{Perms: 1, Scheme: "x509", ID: "CN=a"}, want: []ACL{{Perms: 1, Scheme: "x509", ID: "CN=a"}}},
		{acl: ACL{Perms: 1, Scheme: "x509", ID: "a"}, code: InvalidACL},
		{acl: ACL{Perms: 1, Scheme: "x509", IDNull: true}, code: MarshallingError},
		{acl: ACL{Perms: 1, Scheme: "sasl", ID: "bob@R"}, want: []ACL{{Perms: 1, Scheme: "sasl", ID: "bob@R"}}},
		{acl: ACL{Perms: 1, Scheme: "sasl", ID: "a@b@c"}, code: InvalidACL},
		{acl: ACL{Perms: 1, Scheme: "sasl", IDNull: true}, code: MarshallingError},
		{acl: ACL{Perms: 3, Scheme: "auth"}, want: []ACL{{Perms: 3, Scheme: "x509", ID: "CN=a"}, {Perms: 3, Scheme: "sasl", ID: "bob"}}},
	} {
		if got, code := fixed(&o, []ACL{c.acl}, auth); code != c.code || !slices.Equal(got, c.want) {
			t.Errorf("%+v: %v, %d", c.acl, got, code)
		}
	}
	if _, code := fixed(new(Options), []ACL{{Perms: 3, Scheme: "auth"}}, auth); code != InvalidACL {
		t.Errorf("auth without providers: %d", code)
	}
}
