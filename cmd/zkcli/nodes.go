package main

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"path"
	"strconv"
	"strings"

	"github.com/zkserver/zkserver/client"
)

// node is one of a tree that is walked. rel is its path below the top, "/" for the top itself.
type node struct {
	path, rel string
	data      []byte
	stat      client.Stat
	acl       []client.ACL
}

// relative is a path below top, which it is or lies below.
func relative(top, p string) string {
	if top == "/" {
		return p
	}
	return cmp.Or(p[len(top):], "/")
}

// at is the path that rel, as of relative, has below top.
func at(top, rel string) string {
	switch {
	case rel == "/":
		return top
	case top == "/":
		return rel
	}
	return top + rel
}

// nodes visits a node and all below it with their data, and their ACLs if wanted, parents first. A node that goes away
// meanwhile is left out. The server's own tree is, unless it is asked for.
func (s *session) nodes(ctx context.Context, c *client.Client, top string, acl bool, visit func(n *node) error) error {
	return s.walk(ctx, c, top, false, func(p string) error {
		if top == "/" && (p == "/zookeeper" || strings.HasPrefix(p, "/zookeeper/")) {
			return nil
		}
		n := &node{path: p, rel: relative(top, p)}
		var err error
		if n.data, n.stat, err = c.Get(ctx, p); err == nil && acl {
			n.acl, _, err = c.GetACL(ctx, p)
		}
		switch {
		case client.CodeOf(err) == client.ErrNoNode && p != top:
			return nil
		case err != nil:
			return err
		}
		return visit(n)
	})
}

// depth is how far below the top a node lies.
func (n *node) depth() int {
	if n.rel == "/" {
		return 0
	}
	return strings.Count(n.rel, "/")
}

// depthLimit is the value of -d, or no limit.
func (in *invocation) depthLimit() (int, error) {
	d, ok := in.opts["d"]
	if !ok {
		return noLimit, nil
	}
	n, err := strconv.Atoi(d)
	if err != nil || n < 0 {
		return 0, usagef("depth %q: want a number", d)
	}
	return n, nil
}

// tree prints a tree with lines, and the bytes of each node's data if asked for.
func tree(ctx context.Context, s *session, in *invocation) error {
	limit, err := in.depthLimit()
	if err != nil {
		return err
	}
	top := in.args[0]
	c, err := s.node(ctx, top)
	if err != nil {
		return err
	}
	type entry struct {
		Path  string `json:"path"`
		Bytes int32  `json:"bytes"`
		depth int
	}
	list := []entry{}
	err = s.nodes(ctx, c, top, false, func(n *node) error {
		if n.depth() <= limit {
			list = append(list, entry{n.path, n.stat.DataLength, n.depth()})
		}
		return nil
	})
	if err != nil {
		return err
	}
	if s.p.format == jsonFormat {
		s.p.value(map[string]any{"path": top, "nodes": list})
		return nil
	}
	// From below: whether a node has a later brother is known once those behind it are seen.
	lines := make([]string, len(list))
	var more []bool // by depth: a brother follows
	for i := len(list) - 1; i >= 0; i-- {
		e := list[i]
		for len(more) <= e.depth {
			more = append(more, false)
		}
		var b strings.Builder
		for d := 1; d < e.depth; d++ {
			b.WriteString(map[bool]string{true: "│   ", false: "    "}[more[d]])
		}
		name := e.Path
		if e.depth > 0 {
			b.WriteString(map[bool]string{true: "├── ", false: "└── "}[more[e.depth]])
			name = path.Base(e.Path)
		}
		b.WriteString(name)
		if in.has("s") {
			fmt.Fprintf(&b, "  %d", e.Bytes)
		}
		lines[i] = b.String()
		more[e.depth] = true
		more = more[:e.depth+1]
	}
	for _, l := range lines {
		s.p.line("%s", l)
	}
	return nil
}

// find prints the paths of the nodes that meet every condition.
func find(ctx context.Context, s *session, in *invocation) error {
	top := in.args[0]
	glob, named := in.opts["name"]
	if _, err := path.Match(glob, ""); err != nil {
		return usagef("-name %q: %v", glob, err)
	}
	text, holds := in.opts["data"]
	c, err := s.node(ctx, top)
	if err != nil {
		return err
	}
	found := []string{}
	err = s.nodes(ctx, c, top, false, func(n *node) error {
		match, err := path.Match(glob, path.Base(n.path))
		if err != nil || named && !match || holds && !bytes.Contains(n.data, []byte(text)) || in.has("e") && n.stat.EphemeralOwner == 0 {
			return err
		}
		if s.p.format == jsonFormat {
			found = append(found, n.path)
			return nil
		}
		s.p.line("%s", n.path)
		return nil
	})
	if err == nil && s.p.format == jsonFormat {
		s.p.value(map[string]any{"path": top, "paths": found})
	}
	return err
}

// du prints the bytes of data and the nodes of each tree, the largest one last.
func du(ctx context.Context, s *session, in *invocation) error {
	limit, err := in.depthLimit()
	if err != nil {
		return err
	}
	top := in.args[0]
	c, err := s.node(ctx, top)
	if err != nil {
		return err
	}
	type sum struct {
		Path  string `json:"path"`
		Bytes int64  `json:"bytes"`
		Nodes int    `json:"nodes"`
	}
	sums := []sum{}        // done, children first
	var above []sum        // from the top to the last node
	down := func(to int) { // those deeper than that are complete
		for len(above) > to {
			last := above[len(above)-1]
			above = above[:len(above)-1]
			if len(above) <= limit {
				sums = append(sums, last)
			}
			if len(above) > 0 {
				p := &above[len(above)-1]
				p.Bytes, p.Nodes = p.Bytes+last.Bytes, p.Nodes+last.Nodes
			}
		}
	}
	err = s.nodes(ctx, c, top, false, func(n *node) error {
		down(n.depth())
		above = append(above, sum{n.path, int64(len(n.data)), 1})
		return nil
	})
	if err != nil {
		return err
	}
	down(0)
	if s.p.format == jsonFormat {
		s.p.value(map[string]any{"path": top, "trees": sums})
		return nil
	}
	for _, t := range sums {
		s.p.line("%12d bytes %9d nodes  %s", t.Bytes, t.Nodes, t.Path)
	}
	return nil
}
