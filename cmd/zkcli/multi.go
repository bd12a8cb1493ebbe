package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/zkserver/zkserver/client"
)

// multi does several writes in one transaction: all of them, or none.
func multi(ctx context.Context, s *session, in *invocation) error {
	name, ok := in.opts["file"]
	if !ok {
		name = "-"
	}
	text, err := s.fileData(name)
	if err != nil {
		return err
	}
	var ops []client.Op
	var lines []string
	n := 0
	for line := range strings.Lines(string(text)) {
		n++
		w, err := words(line)
		if err == nil && (len(w) == 0 || strings.HasPrefix(w[0], "#")) {
			continue
		}
		var op client.Op
		if err == nil {
			op, err = s.operation(w)
		}
		if err != nil {
			return usagef("line %d: %v", n, err)
		}
		ops, lines = append(ops, op), append(lines, fmt.Sprintf("line %d: %s", n, strings.TrimSpace(line)))
	}
	if len(ops) == 0 {
		return usagef("there is nothing to do: want lines with create, set, delete or check")
	}
	c, err := s.client(ctx)
	if err != nil {
		return err
	}
	results, err := c.Multi(ctx, ops...)
	if err != nil {
		for i, r := range results {
			if r.Code != client.OK && r.Code != client.ErrRuntimeInconsistency {
				s.p.note("nothing is done: %s", lines[i])
			}
		}
		return ofLength(err, ops...)
	}
	paths := []string{}
	for i, r := range results {
		if _, made := ops[i].(client.CreateOp); made {
			paths = append(paths, r.Path)
		}
	}
	if s.p.format == jsonFormat {
		s.p.value(map[string]any{"done": len(ops), "created": paths})
		return nil
	}
	for _, p := range paths {
		if s.p.format == raw {
			s.p.line("%s", p)
		} else {
			s.p.note("Created %s", p)
		}
	}
	s.p.note("%s done", count(len(ops), "operation"))
	return nil
}

// check is an operation that there is in a transaction only.
func check() *command {
	return &command{name: "check", usage: "[-v version] path", min: 1, max: 1, options: []option{{name: "v", arg: "version"}}}
}

// operation is a line of a transaction.
func (s *session) operation(w []string) (client.Op, error) {
	cmd := commandNamed(w[0])
	if w[0] == "check" {
		cmd = check()
	}
	if cmd == nil || cmd.name != "check" && cmd.name != "create" && cmd.name != "set" && cmd.name != "delete" {
		return nil, usagef("%s: want create, set, delete or check", w[0])
	}
	in, err := cmd.parse(w[1:])
	if err != nil {
		return nil, err
	}
	if in.opts["file"] == "-" {
		return nil, usagef("%s --file -: the lines come from there", cmd.name)
	}
	switch cmd.name {
	case "create":
		if in.has("p") {
			return nil, usagef("create -p: what is above has to be made by a line of its own")
		}
		return s.createOp(in)
	case "set":
		return s.setOp(in)
	}
	version, err := in.version()
	if err == nil {
		err = checkPath(in.args[0])
	}
	if cmd.name == "delete" {
		return client.DeleteOp{Path: in.args[0], Version: version}, err
	}
	return client.CheckOp{Path: in.args[0], Version: version}, err
}
