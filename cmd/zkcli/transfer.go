package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/zkserver/zkserver/client"
)

// exported is a node as export writes it, one line of JSON each. Its path is below the top, "/" for the top itself. Data
// that is not UTF-8 is in base64; null data is neither field.
type exported struct {
	Path      string      `json:"path"`
	Data      *string     `json:"data,omitempty"`
	Base64    []byte      `json:"dataBase64,omitempty"`
	ACL       []aclExport `json:"acl"`
	Ephemeral bool        `json:"ephemeral,omitempty"`
}

type aclExport struct {
	Scheme string `json:"scheme"`
	ID     string `json:"id"`
	Perms  string `json:"perms"`
}

func export(ctx context.Context, s *session, in *invocation) error {
	top := in.args[0]
	c, err := s.node(ctx, top)
	if err != nil {
		return err
	}
	return s.nodes(ctx, c, top, true, func(n *node) error {
		if err := n.whole(); err != nil {
			return err
		}
		e := exported{Path: n.rel, ACL: []aclExport{}, Ephemeral: n.stat.EphemeralOwner != 0}
		switch {
		case n.data == nil:
		case utf8.Valid(n.data):
			t := string(n.data)
			e.Data = &t
		default:
			e.Base64 = n.data
		}
		for _, a := range n.acl {
			e.ACL = append(e.ACL, aclExport{a.Scheme, a.ID, formatPerms(a.Perms)})
		}
		s.p.value(e)
		return nil
	})
}

// whole refuses a node whose ACL was not told in full: a copy of it would let nobody in.
func (n *node) whole() error {
	for _, a := range n.acl {
		if a.Scheme == "digest" && strings.HasSuffix(a.ID, ":x") {
			return &client.Error{Op: "getAcl", Path: n.path, Code: client.ErrNoAuth, Cause: errors.New("without the permission to administrate it, its ACL is masked")}
		}
	}
	return nil
}

// node is what an exported one stands for, below top.
func (e *exported) node(top string) (*node, error) {
	n := &node{rel: e.Path, path: at(top, e.Path), data: e.Base64}
	if e.Data != nil {
		n.data = []byte(*e.Data)
	}
	if e.Ephemeral {
		n.stat.EphemeralOwner = -1
	}
	for _, a := range e.ACL {
		perms, err := parsePerms(a.Perms)
		if err != nil {
			return nil, err
		}
		n.acl = append(n.acl, client.ACL{Perms: perms, Scheme: a.Scheme, ID: a.ID})
	}
	return n, checkPath(n.path)
}

func importNodes(ctx context.Context, s *session, in *invocation) error {
	top := in.args[0]
	c, err := s.node(ctx, top)
	if err != nil {
		return err
	}
	text, err := s.fileData(orStdin(in.opts["file"]))
	if err != nil {
		return err
	}
	p := &placer{s: s, c: c, dry: in.has("dry-run"), force: in.has("f")}
	d := json.NewDecoder(bufio.NewReader(bytes.NewReader(text)))
	d.DisallowUnknownFields()
	for line := 1; ; line++ {
		var e exported
		err := d.Decode(&e)
		if errors.Is(err, io.EOF) {
			return p.done("imported", top)
		}
		var n *node
		if err == nil {
			n, err = e.node(top)
		}
		if err != nil {
			return usagef("node %d of the import: %v", line, err)
		}
		if err := p.place(ctx, n); err != nil {
			return err
		}
	}
}

func orStdin(file string) string {
	if file == "" {
		return "-"
	}
	return file
}

// placer makes nodes, and counts them.
type placer struct {
	s          *session
	c          *client.Client
	dry, force bool
	made, left int
}

// place makes one node. An ephemeral one is left out: it would be this session's. One that exists is refused, or made
// equal.
func (p *placer) place(ctx context.Context, n *node) error {
	p.s.progress()
	if n.stat.EphemeralOwner != 0 {
		p.left++
		return nil
	}
	p.made++
	if p.dry {
		p.s.p.note("%s", n.path)
		return nil
	}
	_, err := p.c.Create(ctx, n.path, n.data, client.Persistent, n.acl...)
	if p.force && errors.Is(err, client.ErrNodeExists) {
		if _, err = p.c.Set(ctx, n.path, n.data, client.AnyVersion); err == nil {
			_, err = p.c.SetACL(ctx, n.path, n.acl, client.AnyVersion)
		}
	}
	return err
}

func (p *placer) done(what, path string) error {
	if p.s.p.format == jsonFormat {
		p.s.p.value(map[string]any{"path": path, what: p.made, "ephemerals": p.left, "dryRun": p.dry})
		return nil
	}
	text := fmt.Sprintf("%d nodes %s", p.made, what)
	if p.dry {
		text = fmt.Sprintf("%d nodes would be %s", p.made, what)
	}
	if p.left > 0 {
		text += fmt.Sprintf(", %d ephemeral ones left out", p.left)
	}
	p.s.p.note("%s", text)
	return nil
}

// copyNodes copies a node, or a tree, with data and ACLs.
func copyNodes(ctx context.Context, s *session, in *invocation) error {
	from, to := in.args[0], in.args[1]
	c, err := s.node(ctx, from)
	if err == nil {
		err = checkPath(to)
	}
	if err == nil && (to == from || strings.HasPrefix(to, strings.TrimSuffix(from, "/")+"/")) {
		err = usagef("%s lies in %s", to, from)
	}
	if err != nil {
		return err
	}
	p := &placer{s: s, c: c, dry: in.has("dry-run"), force: in.has("f")}
	var all []*node // listed first, so that what fails to be read fails before anything is written
	err = s.nodes(ctx, c, from, true, func(n *node) error {
		if !in.has("r") && n.rel != "/" {
			return usagef("%s has children: cp -r copies them too", from)
		}
		all = append(all, n)
		return n.whole()
	})
	if err != nil {
		return err
	}
	for _, n := range all {
		n.path = at(to, n.rel)
		if err := p.place(ctx, n); err != nil {
			return err
		}
	}
	return p.done("copied", to)
}

// errDiffer is the end of a diff that found something: it has been printed.
var errDiffer = &shownError{errors.New("the trees differ")}

// diff compares two trees, the second one maybe another ensemble's.
func diff(ctx context.Context, s *session, in *invocation) error {
	a, b := in.args[0], in.args[len(in.args)-1]
	c, err := s.node(ctx, a)
	if err == nil {
		err = checkPath(b)
	}
	if err != nil {
		return err
	}
	other := c
	if server, ok := in.opts["to"]; ok {
		o := &session{o: s.o, p: s.p, stdin: s.stdin}
		o.o.server = server
		if other, err = o.client(ctx); err != nil {
			return err
		}
		defer o.close()
	} else if len(in.args) == 1 {
		return usageError{in.cmd.usageText()}
	}
	first := map[string]*node{}
	if err := s.nodes(ctx, c, a, true, func(n *node) error { first[n.rel] = n; return nil }); err != nil {
		return err
	}
	differ := false
	tell := func(mark, rel, what string) {
		differ = true
		if s.p.format == jsonFormat {
			s.p.value(map[string]any{"path": rel, "difference": what})
			return
		}
		s.p.line("%s %s  %s", mark, rel, what)
	}
	err = s.nodes(ctx, other, b, true, func(n *node) error {
		was, ok := first[n.rel]
		delete(first, n.rel)
		switch {
		case !ok:
			tell(">", n.rel, "only in the second")
		case !bytes.Equal(was.data, n.data) || (was.data == nil) != (n.data == nil):
			tell("!", n.rel, "data")
		case !slices.Equal(was.acl, n.acl):
			tell("!", n.rel, "acl")
		}
		return nil
	})
	if err != nil {
		return err
	}
	var gone []string
	for rel := range first {
		gone = append(gone, rel)
	}
	slices.Sort(gone)
	for _, rel := range gone {
		tell("<", rel, "only in the first")
	}
	if differ {
		return errDiffer
	}
	return nil
}
