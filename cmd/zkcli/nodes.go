package main

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"path"
	"strconv"
	"strings"
)

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
	r := refusals{s: s}
	err = s.walk(ctx, c, top, walking{levels: limit + 1, refused: r.tell}, func(n *node) error {
		list = append(list, entry{n.path, n.stat.DataLength, n.depth()})
		return nil
	})
	if err != nil {
		return err
	}
	if s.p.format == jsonFormat {
		s.p.value(map[string]any{"path": top, "nodes": list})
		return r.first
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
	return r.first
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
	r := refusals{s: s}
	err = s.walk(ctx, c, top, walking{data: holds, refused: r.tell}, func(n *node) error {
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
	return cmp.Or(err, r.first)
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
	r := refusals{s: s}
	err = s.walk(ctx, c, top, walking{refused: r.tell}, func(n *node) error {
		down(n.depth())
		above = append(above, sum{n.path, int64(n.stat.DataLength), 1})
		return nil
	})
	if err != nil {
		return err
	}
	down(0)
	if s.p.format == jsonFormat {
		s.p.value(map[string]any{"path": top, "trees": sums})
		return r.first
	}
	for _, t := range sums {
		s.p.line("%12d bytes %9d nodes  %s", t.Bytes, t.Nodes, t.Path)
	}
	return r.first
}
