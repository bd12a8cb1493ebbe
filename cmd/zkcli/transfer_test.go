package main

import (
	"bytes"
	"context"
	"crypto/rand"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/zkserver/zkserver/client"
)

// call runs one command in this process.
func call(t *testing.T, server string, args ...string) (stdout, stderr string, code int) {
	t.Helper()
	var out, said bytes.Buffer
	getenv := func(name string) string {
		return map[string]string{"ZKCLI_SERVER": server, "ZKCLI_AUTH": "digest:super:test", "ZKCLI_CONFIG": filepath.Join(t.TempDir(), "none")}[name]
	}
	code = run(args, getenv, strings.NewReader(""), &out, &said)
	return out.String(), said.String(), code
}

// must is call of what has to go well.
func must(t *testing.T, server string, args ...string) string {
	t.Helper()
	out, said, code := call(t, server, args...)
	if code != exitOK {
		t.Fatalf("%q: exit code %d: %s%s", args, code, out, said)
	}
	return out
}

// TestExportImportDiff: a tree with every scheme of access lists and any bytes comes through export and import as it was:
// diff, which compares data and lists, finds nothing, nor does a client that looks at each node.
func TestExportImportDiff(t *testing.T) {
	t.Parallel()
	server, stopFirst := startServer(t) // Apache ZooKeeper takes these schemes only where it is told to
	defer func() { _ = stopFirst() }()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	c, err := client.Dial(ctx, server, client.Options{Auth: []client.Auth{
		{Scheme: "digest", Data: []byte("super:test")}, {Scheme: "digest", Data: []byte("me:secret")},
	}})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	make1 := func(path string, data []byte, acl ...client.ACL) {
		t.Helper()
		if _, err := c.Create(ctx, path, data, client.Persistent, acl...); err != nil {
			t.Fatalf("%s: %v", path, err)
		}
	}
	make1("/from", nil)
	make1("/from/acl", []byte{}, client.ACL{Perms: client.PermRead, Scheme: "world", ID: "anyone"})
	for name, acl := range map[string][]client.ACL{
		"world":   {{Perms: client.PermAll, Scheme: "world", ID: "anyone"}},
		"nothing": {{Perms: client.PermDelete | client.PermAdmin, Scheme: "world", ID: "anyone"}},
		"auth":    client.CreatorACL(),
		"digest":  {{Perms: client.PermRead, Scheme: "digest", ID: "u:c29tZSBoYXNo"}, {Perms: client.PermWrite, Scheme: "digest", ID: "v:x="}},
		"ip":      {{Perms: client.PermRead, Scheme: "ip", ID: "10.0.0.0/8"}, {Perms: client.PermCreate, Scheme: "ip", ID: "127.0.0.1"}},
		"x509":    {{Perms: client.PermAll, Scheme: "x509", ID: "CN=a,OU=\"b, c\",O=\u00fc"}},
		"sasl":    {{Perms: client.PermAll, Scheme: "sasl", ID: "kafka/host@REALM"}},
		"many": {{Perms: client.PermRead, Scheme: "world", ID: "anyone"}, {Perms: client.PermAll, Scheme: "sasl", ID: "a:b"},
			{Perms: client.PermAdmin, Scheme: "ip", ID: "::1"}},
	} {
		make1("/from/acl/"+name, []byte(name), acl...)
		make1("/from/acl/"+name+"/below", []byte(name), acl...)
	}
	random := make([]byte, 100_000)
	_, _ = rand.Read(random)
	every := make([]byte, 256)
	for i := range every {
		every[i] = byte(i)
	}
	for name, data := range map[string][]byte{
		"null": nil, "empty": {}, "every": every, "random": random, "half": []byte("\xe2\x82"), "json": []byte("{\"a\":\"<&>\\\\\"}\n"),
		"controls": []byte("\x00\x01\u2028\u2029\ufffd\ufeff\U0001f600"), "newline": []byte("a\r\nb\n"),
	} {
		make1("/from/data-"+name, data)
	}
	make1("/from/ n\u00e4me with 'quotes\"", []byte("x"))

	file := filepath.Join(t.TempDir(), "tree.json")
	exported := must(t, server, "export", "/from")
	if err := os.WriteFile(file, []byte(exported), 0o600); err != nil {
		t.Fatal(err)
	}
	must(t, server, "import", "-p", "--file", file, "/to/here")
	if out := must(t, server, "diff", "/from", "/to/here"); out != "" {
		t.Errorf("diff finds %s", out)
	}
	if again := must(t, server, "export", "/to/here"); again != exported {
		t.Errorf("exported again it differs:\n%s", cmp.Diff(exported, again))
	}
	for path := range strings.Lines(must(t, server, "ls", "-R", "/from")) {
		path = strings.TrimSuffix(path, "\n")
		want, got := lookAt(ctx, t, c, path), lookAt(ctx, t, c, "/to/here"+strings.TrimPrefix(path, "/from"))
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("%s: %s", path, d)
		}
	}

	// Another ensemble, its root included; then a difference of each kind is seen.
	other, stop := startServer(t)
	defer func() { _ = stop() }()
	whole := must(t, server, "export", "/")
	if err := os.WriteFile(file, []byte(whole), 0o600); err != nil {
		t.Fatal(err)
	}
	must(t, other, "import", "--file", file, "/")
	if out := must(t, server, "diff", "--to", other, "/"); out != "" {
		t.Errorf("diff finds %s", out)
	}
	must(t, other, "set", "/from/data-empty", "-b", "AA==")
	must(t, other, "setAcl", "/from/acl/ip", "world:anyone:r")
	must(t, other, "rm", "/from/data-null")
	must(t, other, "create", "/from/data-zero")
	out, _, code := call(t, server, "diff", "--to", other, "/")
	if want := "! /from/acl/ip  acl\n! /from/data-empty  data\n> /from/data-zero  only in the second\n< /from/data-null  only in the first\n"; code != exitFailed || out != want {
		t.Errorf("exit code %d, %q, want %q", code, out, want)
	}
}

// looked is what a client sees of a node.
type looked struct {
	Null bool
	Data []byte
	ACL  []client.ACL
}

func lookAt(ctx context.Context, t *testing.T, c *client.Client, path string) looked {
	t.Helper()
	data, _, err := c.Get(ctx, path)
	if err != nil {
		t.Fatal(err)
	}
	acl, _, err := c.GetACL(ctx, path)
	if err != nil {
		t.Fatal(err)
	}
	return looked{data == nil, data, acl}
}
