package main

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/zkserver/zkserver/client"
)

func TestWords(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		in   string
		want []string
		err  string
	}{
		{"", nil, ""},
		{"  \t ", nil, ""},
		{"ls /", []string{"ls", "/"}, ""},
		{"  get   /a  ", []string{"get", "/a"}, ""},
		{`set /a "b c"`, []string{"set", "/a", "b c"}, ""},
		{`set /a 'b "c" d'`, []string{"set", "/a", `b "c" d`}, ""},
		{`set /a "it's"`, []string{"set", "/a", "it's"}, ""},
		{`set /a ''`, []string{"set", "/a", ""}, ""},
		{`set /a "\n"`, []string{"set", "/a", `\n`}, ""},          // nothing is special in quotes
		{`set /a x"y z"`, []string{"set", "/a", `x"y`, `z"`}, ""}, // nor a quote inside a word
		{`'a'b`, []string{"a", "b"}, ""},                          // all this as in zkCli
		{`set /a $'\x00\xff\n\t\r\0\\\'\"\u20ac'`, []string{"set", "/a", "\x00\xff\n\t\r\x00\\'\"€"}, ""},
		{`set /a $x`, []string{"set", "/a", "$x"}, ""},
		{`set /a "b`, nil, `no closing "`},
		{`set /a $'b`, nil, `no closing '`},
		{`set /a $'b\`, nil, `no closing '`},
		{`set /a $'\q'`, nil, `unknown escape \q`},
		{`set /a $'\xg0'`, nil, `\x wants 2 hex digits`},
		{`set /a $'\x1`, nil, `\x wants 2 hex digits`},
	} {
		got, err := words(tc.in)
		if err == nil && tc.err != "" || err != nil && err.Error() != tc.err {
			t.Errorf("%q: %v, want %q", tc.in, err, tc.err)
		}
		if err == nil && !cmp.Equal(got, tc.want) {
			t.Errorf("%q: %q, want %q", tc.in, got, tc.want)
		}
	}
}

func FuzzWords(f *testing.F) {
	for _, s := range []string{`set /a "b c"`, `$'\x00\u20ac\''`, `'a'b $'`} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		w, err := words(s)
		if err == nil && !strings.ContainsAny(s, `'"$`) && strings.Join(w, " ") != strings.Join(strings.FieldsFunc(s, isBlank), " ") {
			t.Fatalf("%q: %q", s, w)
		}
		if err != nil || len(w) == 0 {
			return
		}
		for _, c := range commands() {
			_, _ = c.parse(w) // no words panic
		}
	})
}

func isBlank(r rune) bool { return strings.ContainsRune(" \t\r\n\v\f", r) }

func TestParse(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		cmd  string
		in   []string
		opts map[string]string
		args []string
		err  string
	}{
		{"get", []string{"-s", "/a"}, map[string]string{"s": ""}, []string{"/a"}, ""},
		{"get", []string{"/a", "-sw"}, map[string]string{"s": "", "w": ""}, []string{"/a"}, ""},
		{"set", []string{"/a", "x", "-v", "-1"}, map[string]string{"v": "-1"}, []string{"/a", "x"}, ""},
		{"set", []string{"-v5", "/a", "x"}, map[string]string{"v": "5"}, []string{"/a", "x"}, ""},
		{"set", []string{"-sv=5", "/a", "x"}, map[string]string{"s": "", "v": "5"}, []string{"/a", "x"}, ""},
		{"set", []string{"--", "/a", "-v"}, map[string]string{}, []string{"/a", "-v"}, ""},
		{"set", []string{"--file", "f", "/a"}, map[string]string{"file": "f"}, []string{"/a"}, ""},
		{"set", []string{"--file=-", "/a"}, map[string]string{"file": "-"}, []string{"/a"}, ""},
		{"set", []string{"/a", "-"}, map[string]string{}, []string{"/a", "-"}, ""},
		{"set", []string{"/a", "x", "-v"}, nil, nil, "Missing argument for option: v"},
		{"set", []string{"/a", "x", "--file"}, nil, nil, "Missing argument for option: file"},
		{"get", []string{"-sZ", "/a"}, nil, nil, "Unrecognized option: -sZ"},
		{"get", []string{"--stat", "/a"}, nil, nil, "Unrecognized option: --stat"},
		{"sync", nil, nil, nil, "sync path\nmissing: path"},
		{"sync", []string{"/", "/"}, nil, nil, "sync path\nnot expected: /"},
	} {
		got, err := commandNamed(tc.cmd).parse(tc.in)
		if tc.err != "" {
			if err == nil || err.Error() != tc.err {
				t.Errorf("%s %q: %v, want %q", tc.cmd, tc.in, err, tc.err)
			}
			continue
		}
		if err != nil || !cmp.Equal(got.opts, tc.opts) || !cmp.Equal(got.args, tc.args) {
			t.Errorf("%s %q: %v, %v", tc.cmd, tc.in, got, err)
		}
	}
}

func TestACLs(t *testing.T) {
	t.Parallel()
	got, err := parseACL("world:anyone:cdrwa,digest:u:aGFzaA==:r,ip:10.0.0.0/8:")
	want := []client.ACL{{Perms: 31, Scheme: "world", ID: "anyone"}, {Perms: 1, Scheme: "digest", ID: "u:aGFzaA=="}, {Perms: 0, Scheme: "ip", ID: "10.0.0.0/8"}}
	if err != nil || !cmp.Equal(got, want) {
		t.Errorf("%v, %v", got, err)
	}
	for _, bad := range []string{"", "world", "world:anyone", "world:anyone:x", "world:anyone:r,", ":r"} {
		if got, err := parseACL(bad); err == nil {
			t.Errorf("%q: %v", bad, got)
		}
	}
	if s := formatPerms(31); s != "cdrwa" {
		t.Error(s)
	}
}

func TestClientConfig(t *testing.T) {
	t.Parallel()
	const config = "server.1=a:2888:3888:participant;0.0.0.0:2181\nserver.2=b:2888:3888:participant;2182\nserver.3=c:2888:3888\nversion=1a\n"
	if got := clientConfig(config); got != "1a 0.0.0.0:2181,b:2182" {
		t.Error(got)
	}
	if got := clientConfig(""); got != " " {
		t.Errorf("%q", got)
	}
}
