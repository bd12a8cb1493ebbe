package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
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
	done := 0
	defer func() { s.p.meter("", 0, 0) }()
	return s.walk(ctx, c, top, walking{data: true, acl: true}, func(n *node) error {
		if done++; !s.p.tty {
			s.p.meter("exporting", done, 0)
		}
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
	if n.masked() {
		return maskedError{&client.Error{Op: "getAcl", Path: n.path, Code: client.ErrNoAuth}}
	}
	for _, a := range n.acl {
		if !utf8.ValidString(a.ID + a.Scheme + n.path) {
			return usagef("%s: its path or its ACL is not UTF-8, a copy would differ", n.path)
		}
	}
	return nil
}

// masked reports whether the ACL's hashes were left out, as the server does it for who may not administrate the node.
func (n *node) masked() bool {
	return slices.ContainsFunc(n.acl, func(a client.ACL) bool { return a.Scheme == "digest" && strings.HasSuffix(a.ID, ":x") })
}

// maskedError is an ACL that was not told in full.
type maskedError struct{ err *client.Error }

func (e maskedError) Error() string {
	return message(e.err) + " (its ACL is told in full only to who has the permission a on it, see -auth)"
}
func (e maskedError) Unwrap() error { return e.err }

// node is what an exported one stands for, below top.
func (e *exported) node(top string) (*node, error) {
	if !strings.HasPrefix(e.Path, "/") {
		return nil, usagef("path %q: want one that begins with /", e.Path)
	}
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
	if err := checkPath(top); err != nil {
		return err
	}
	text, err := s.fileData(cmp.Or(in.opts["file"], "-"))
	if err != nil {
		return err
	}
	var all []*node // read first, so that what is wrong is told before anything is written
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	for {
		var e exported
		err := d.Decode(&e)
		if errors.Is(err, io.EOF) {
			break
		}
		var n *node
		if err == nil {
			n, err = e.node(top)
		}
		if err != nil {
			return usagef("node %d of the import: %v (want what export writes)", len(all)+1, err)
		}
		all = append(all, n)
	}
	if len(all) == 0 {
		return usagef("there is nothing to import: want what export writes")
	}
	c, err := s.client(ctx)
	if err != nil {
		return err
	}
	return newPlacer(s, c, in, "imported").all(ctx, top, all)
}

// copyNodes copies a node, or a tree, with data and ACLs.
func copyNodes(ctx context.Context, s *session, in *invocation) error {
	from, to := in.args[0], in.args[1]
	if err := checkPair(from, to); err != nil {
		return err
	}
	c, err := s.node(ctx, from)
	if err != nil {
		return err
	}
	w := walking{data: true, acl: true}
	if !in.has("r") {
		w.levels = 1
	}
	var all []*node // listed first, so that what fails to be read fails before anything is written
	err = s.walk(ctx, c, from, w, func(n *node) error {
		if !in.has("r") && len(n.names) > 0 {
			return usagef("%s has children: cp -r copies them too", from)
		}
		all = append(all, n)
		s.p.meter("reading", len(all), 0)
		return n.whole()
	})
	s.p.meter("", 0, 0)
	if err != nil {
		return err
	}
	for _, n := range all {
		n.path = at(to, n.rel)
	}
	return newPlacer(s, c, in, "copied").all(ctx, to, all)
}

// checkPair is for what is to become of one tree in another place.
func checkPair(from, to string) error {
	for _, p := range []string{from, to} {
		if err := checkPath(p); err != nil {
			return err
		}
	}
	if to == from || strings.HasPrefix(to, strings.TrimSuffix(from, "/")+"/") {
		return usagef("%s lies in %s", to, from)
	}
	return nil
}

// The bounds of what mv moves: it is one transaction.
const (
	moveNodes = 1000
	moveBytes = 512 << 10
)

// move gives a tree another place: all of it, or nothing where anybody changes it meanwhile.
func move(ctx context.Context, s *session, in *invocation) error {
	from, to := in.args[0], in.args[1]
	if err := checkPair(from, to); err != nil {
		return err
	}
	c, err := s.node(ctx, from)
	if err != nil {
		return err
	}
	var made, gone []client.Op
	size := 0
	err = s.walk(ctx, c, from, walking{data: true, acl: true}, func(n *node) error {
		size += len(n.data) + 2*len(n.path) + len(to)
		switch {
		case n.stat.EphemeralOwner != 0:
			return usagef("%s is ephemeral, it belongs to its session: it cannot be moved", n.path)
		case len(made) == moveNodes || size > moveBytes:
			return usagef("%s is too large for one transaction, mv moves up to %d nodes and %d bytes: use cp -r, diff and rm -r", from, moveNodes, moveBytes)
		}
		made = append(made, client.CreateOp{Path: at(to, n.rel), Data: n.data, ACL: n.acl})
		gone = append(gone, client.DeleteOp{Path: n.path, Version: n.stat.Version})
		return n.whole()
	})
	if err != nil {
		return err
	}
	slices.Reverse(gone)
	if _, err := c.Multi(ctx, append(made, gone...)...); err != nil {
		return err
	}
	if s.p.format == jsonFormat {
		s.p.value(map[string]any{"path": to, "moved": len(made)})
		return nil
	}
	s.p.note("%s moved", count(len(made), "node"))
	return nil
}

// errDiffer is the end of a diff that found something: it has been printed.
var errDiffer = &shownError{errors.New("the trees differ")}

// diff compares two trees, the second one maybe another ensemble's.
func diff(ctx context.Context, s *session, in *invocation) error {
	a, b := in.args[0], in.args[len(in.args)-1]
	if len(in.args) == 1 && !in.has("to") {
		return usageError{in.cmd.usageText()}
	}
	c, err := s.node(ctx, a)
	if err == nil {
		err = checkPath(b)
	}
	if err != nil {
		return err
	}
	other, second := c, s
	if server, ok := in.opts["to"]; ok {
		to, err := s.o.to(server)
		if err != nil {
			return err
		}
		second = &session{o: to, p: s.p, stdin: s.stdin, progress: s.progress}
		if other, err = second.client(ctx); err != nil {
			return err
		}
		defer second.close()
	}
	seen, masked := 0, 0
	look := func(n *node) {
		seen++
		s.p.meter("comparing", seen, 0)
		if n.masked() {
			masked++
		}
	}
	defer func() { s.p.meter("", 0, 0) }()
	first := map[string]*node{}
	if err := s.walk(ctx, c, a, walking{data: true, acl: true}, func(n *node) error { look(n); first[n.rel] = n; return nil }); err != nil {
		return err
	}
	differ := false
	tell := func(mark, rel, what string) {
		differ = true
		s.p.meter("", 0, 0)
		if s.p.format == jsonFormat {
			s.p.value(map[string]any{"path": rel, "difference": what})
			return
		}
		s.p.line("%s", s.p.paint(markColours[mark], mark+" "+rel+"  "+what))
	}
	err = second.walk(ctx, other, b, walking{data: true, acl: true}, func(n *node) error {
		look(n)
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
	if masked > 0 {
		s.p.meter("", 0, 0)
		s.p.note("the ACLs of %s are masked, their hashes are not compared: that takes the permission a on them", count(masked, "node"))
	}
	if differ {
		return errDiffer
	}
	return nil
}

// markColours are of diff's marks.
var markColours = map[string]colour{"<": red, ">": green, "!": yellow}
