package main

import (
	"context"
	"errors"

	"github.com/zkserver/zkserver/client"
)

// remove deletes a node, or a tree. It shows how far it is, and can be stopped at any time: what is deleted by then is
// told.
func remove(ctx context.Context, s *session, in *invocation) error {
	path := in.args[0]
	if path == "/" {
		return usagef("Arguments are not valid : the root cannot be deleted")
	}
	c, err := s.node(ctx, path)
	if err != nil {
		return err
	}
	if in.has("dry-run") {
		w := walking{system: true}
		if !in.has("r") {
			w.levels = 1
		}
		found := 0
		would := func(p string) {
			found++
			if s.p.format != jsonFormat {
				s.p.line("%s", p)
			}
		}
		w.refused = func(p string, _ error) { would(p) } // to be deleted a node need not be readable
		err := s.walk(ctx, c, path, w, func(n *node) error {
			if !in.has("r") && len(n.names) > 0 {
				return &client.Error{Op: "delete", Path: path, Code: client.ErrNotEmpty}
			}
			would(n.path)
			return nil
		})
		return s.removed(path, "would be deleted", found, err)
	}
	if !in.has("r") {
		if err := c.Delete(ctx, path, client.AnyVersion); err != nil {
			return err
		}
		return s.removed(path, "deleted", 1, nil)
	}
	batch, err := in.batch()
	if err != nil {
		return err
	}
	deleted, err := s.deleteTree(ctx, c, path, batch)
	return s.removed(path, "deleted", deleted, err)
}

func (s *session) removed(path, what string, n int, err error) error {
	s.p.meter("", 0, 0)
	switch {
	case client.MaybeApplied(err):
		s.p.note("stopped: %s %s (perhaps those of the last transaction too), the rest is there", count(n, "node"), what)
	case errors.Is(err, context.Canceled) && n == 0:
		s.p.note("stopped: nothing %s", what)
	case err != nil && n > 0:
		s.p.note("stopped: %s %s, the rest is there", count(n, "node"), what)
	case err != nil:
	case s.p.format == jsonFormat:
		s.p.value(map[string]any{"path": path, what: n})
	default:
		s.p.note("%s %s", count(n, "node"), what)
	}
	return err
}
