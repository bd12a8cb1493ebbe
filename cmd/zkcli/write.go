package main

import (
	"context"
	"encoding/base64"
	"errors"
	"io"
	"os"
	"slices"
	"strconv"
	"time"

	"github.com/zkserver/zkserver/client"
)

// maxTTLMs is the longest time to live, in ms.
const maxTTLMs = 1<<40 - 1

// fileData reads what --file names.
func (s *session) fileData(name string) ([]byte, error) {
	if name == "-" {
		return io.ReadAll(s.stdin)
	}
	return os.ReadFile(name)
}

func create(ctx context.Context, s *session, in *invocation) error {
	op, err := s.createOp(in)
	if err != nil {
		return err
	}
	c, err := s.client(ctx)
	if err != nil {
		return err
	}
	if in.has("p") {
		if err := makeParents(ctx, c, op.Path); err != nil {
			return err
		}
	}
	var final string
	if in.has("t") {
		final, _, err = c.CreateTTL(ctx, op.Path, op.Data, op.Mode, op.TTL, op.ACL...)
	} else {
		final, err = c.Create(ctx, op.Path, op.Data, op.Mode, op.ACL...)
	}
	if err != nil {
		return ofLength(err, op)
	}
	switch s.p.format {
	case jsonFormat:
		s.p.value(map[string]any{"path": final})
	case raw:
		s.p.line("%s", final)
	default:
		s.p.note("Created %s", final)
	}
	return nil
}

// createOp is what a create says.
func (s *session) createOp(in *invocation) (op client.CreateOp, err error) {
	args := in.args
	op.Path = args[0]
	if err := checkPath(op.Path); err != nil {
		return op, err
	}
	if op.Mode, op.TTL, err = createMode(in); err != nil {
		return op, err
	}
	if name, ok := in.opts["file"]; ok {
		if len(args) > 2 {
			return op, usagef("create: data and --file")
		}
		if op.Data, err = s.fileData(name); err != nil {
			return op, err
		}
		args = slices.Insert(slices.Clone(args), 1, "")
	} else if len(args) > 1 {
		op.Data = append([]byte{}, args[1]...)
	}
	if len(args) > 2 {
		op.ACL, err = parseACL(args[2])
	}
	return op, err
}

// createMode reads the options in zkCli's combinations.
func createMode(in *invocation) (client.CreateMode, time.Duration, error) {
	seq, eph := in.has("s"), in.has("e")
	if in.has("c") {
		if seq || eph || in.has("t") {
			return 0, 0, usagef("-c cannot be combined with -s or -e. Containers cannot be ephemeral or sequential.")
		}
		return client.Container, 0, nil
	}
	if t, ok := in.opts["t"]; ok {
		ms, err := strconv.ParseInt(t, 10, 64)
		switch {
		case err != nil:
			return 0, 0, usagef("ttl %q: want milliseconds", t)
		case ms < 1 || ms > maxTTLMs:
			return 0, 0, usagef("ttl must be positive and cannot be larger than: %d", int64(maxTTLMs))
		case eph:
			return 0, 0, usagef("TTLs cannot be used with Ephemeral znodes")
		case seq:
			return client.PersistentSequentialWithTTL, time.Duration(ms) * time.Millisecond, nil
		}
		return client.PersistentWithTTL, time.Duration(ms) * time.Millisecond, nil
	}
	switch {
	case seq && eph:
		return client.EphemeralSequential, 0, nil
	case seq:
		return client.PersistentSequential, 0, nil
	case eph:
		return client.Ephemeral, 0, nil
	}
	return client.Persistent, 0, nil
}

func set(ctx context.Context, s *session, in *invocation) error {
	op, err := s.setOp(in)
	if err != nil {
		return err
	}
	c, err := s.client(ctx)
	if err != nil {
		return err
	}
	st, err := c.Set(ctx, op.Path, op.Data, op.Version)
	if err != nil {
		return ofLength(err, op)
	}
	s.changed(in, op.Path, st)
	return nil
}

// setOp is what a set says.
func (s *session) setOp(in *invocation) (op client.SetOp, err error) {
	op.Path = in.args[0]
	if err := checkPath(op.Path); err != nil {
		return op, err
	}
	if op.Version, err = in.version(); err != nil {
		return op, err
	}
	name, fromFile := in.opts["file"]
	switch {
	case fromFile && len(in.args) == 2:
		return op, usagef("set: data and --file")
	case !fromFile && len(in.args) < 2:
		return op, in.cmd.wrongCall(in.args)
	case fromFile:
		if op.Data, err = s.fileData(name); err != nil {
			return op, err
		}
	default:
		op.Data = []byte(in.args[1])
	}
	if in.has("b") {
		if op.Data, err = base64.StdEncoding.DecodeString(string(op.Data)); err != nil {
			return op, usagef("data is not base64: %v", err)
		}
	}
	return op, nil
}

// changed prints the new stat if it was asked for.
func (s *session) changed(in *invocation, path string, st client.Stat) {
	switch {
	case s.p.format == jsonFormat:
		s.p.value(map[string]any{"path": path, "stat": toJSON(st)})
	case in.has("s"):
		s.p.stat(st)
	}
}

func deleteNode(ctx context.Context, s *session, in *invocation) error {
	path := in.args[0]
	version, err := in.version()
	if err != nil {
		return err
	}
	if len(in.args) == 2 {
		s.p.note("'delete path [version]' has been deprecated. Please use 'delete [-v version] path' instead.")
		if version, err = parseVersion(in.args[1]); err != nil {
			return err
		}
	}
	c, err := s.node(ctx, path)
	if err != nil {
		return err
	}
	if err := c.Delete(ctx, path, version); err != nil {
		return err
	}
	if s.p.format == jsonFormat {
		s.p.value(map[string]any{"path": path, "deleted": 1})
	}
	return nil
}

func deleteAll(ctx context.Context, s *session, in *invocation) error {
	path := in.args[0]
	batch, err := in.batch()
	if err != nil {
		return err
	}
	if path == "/" {
		return usagef("Arguments are not valid : the root cannot be deleted")
	}
	c, err := s.node(ctx, path)
	if err != nil {
		return err
	}
	deleted, err := s.deleteTree(ctx, c, path, batch)
	s.p.meter("", 0, 0)
	if err != nil {
		return err
	}
	if s.p.format == jsonFormat {
		s.p.value(map[string]any{"path": path, "deleted": deleted})
	}
	return nil
}

// batch is the value of -b: nodes in one transaction.
func (in *invocation) batch() (int, error) {
	b, ok := in.opts["b"]
	if !ok {
		return 1000, nil
	}
	n, err := strconv.Atoi(b)
	if err != nil || n < 1 {
		return 0, usagef("batch size %q: want a positive number", b)
	}
	return n, nil
}

// batchBytes bounds the paths of one transaction, in bytes, far below a server's limit of a request.
const batchBytes = 256 << 10

// deleteRounds bounds how often a tree that others change is listed again.
const deleteRounds = 10

// deleteTree deletes children before their parents, batch by batch. Where others add or delete nodes meanwhile it
// lists again.
func (s *session) deleteTree(ctx context.Context, c *client.Client, top string, batch int) (deleted int, err error) {
	for round := range deleteRounds {
		var all []string
		var refused error // what cannot be read is deleted all the same, if nothing is below it
		w := walking{system: true, refused: func(p string, err error) { all, refused = append(all, p), err }}
		err = s.walk(ctx, c, top, w, func(n *node) error {
			all = append(all, n.path)
			s.p.meter("counting", len(all), 0)
			return nil
		})
		if client.CodeOf(err) == client.ErrNoNode && round > 0 {
			return deleted, nil
		}
		if err != nil {
			return deleted, err
		}
		slices.Reverse(all)
		total := deleted + len(all)
		for len(all) > 0 && err == nil {
			var ops []client.Op
			for size := 0; len(ops) < min(batch, len(all)) && size < batchBytes; size += len(all[len(ops)-1]) {
				ops = append(ops, client.DeleteOp{Path: all[len(ops)], Version: client.AnyVersion})
			}
			all = all[len(ops):]
			if _, err = c.Multi(ctx, ops...); err == nil {
				deleted += len(ops)
				s.progress()
				s.p.meter("deleting", deleted, total)
			}
		}
		switch client.CodeOf(err) {
		case client.OK:
			return deleted, nil
		case client.ErrNoNode, client.ErrNotEmpty:
			if refused != nil {
				return deleted, refused
			}
		default:
			return deleted, err
		}
	}
	return deleted, err
}

func setACL(ctx context.Context, s *session, in *invocation) error {
	path := in.args[0]
	if err := checkPath(path); err != nil {
		return err
	}
	acl, err := parseACL(in.args[1])
	if err != nil {
		return err
	}
	version, err := in.version()
	if err != nil {
		return err
	}
	c, err := s.client(ctx)
	if err != nil {
		return err
	}
	if in.has("R") {
		return s.setACLs(ctx, c, path, acl, version)
	}
	st, err := c.SetACL(ctx, path, acl, version)
	if err != nil {
		return err
	}
	s.changed(in, path, st)
	return nil
}

// setACLs goes on where one node refuses; the first refusal is the command's.
func (s *session) setACLs(ctx context.Context, c *client.Client, top string, acl []client.ACL, version int32) error {
	var first error
	set := 0
	err := s.walk(ctx, c, top, walking{system: true}, func(n *node) error {
		_, err := c.SetACL(ctx, n.path, acl, version)
		switch {
		case err == nil:
			set++
		case client.CodeOf(err) == client.ErrNoNode && n.path != top:
		default:
			if exitCode(err, false) == exitNoConnection {
				return err
			}
			s.p.failure(err)
			if first == nil {
				first = err
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	if s.p.format == jsonFormat {
		s.p.value(map[string]any{"path": top, "changed": set})
	}
	if first != nil {
		return &shownError{first}
	}
	return nil
}

func addAuth(ctx context.Context, s *session, in *invocation) error {
	c, err := s.client(ctx)
	if err != nil {
		return err
	}
	err = c.AddAuth(ctx, in.args[0], []byte(in.args[1]))
	if client.CodeOf(err) == client.ErrAuthFailed {
		var ce *client.Error
		if errors.As(err, &ce) {
			return &client.Error{Op: ce.Op, Path: in.args[0], Code: ce.Code}
		}
	}
	if err == nil && s.p.format == jsonFormat {
		s.p.value(map[string]any{"scheme": in.args[0]})
	}
	return err
}
