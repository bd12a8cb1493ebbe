package main

import (
	"context"
	"errors"
	"strconv"
	"strings"

	"github.com/zkserver/zkserver/client"
)

// placer makes nodes for import and cp, and counts them.
type placer struct {
	s                   *session
	c                   *client.Client
	what                string // "imported", "copied"
	dry, force, parents bool
	made, left          int
	batch               []*node
	size                int // of the batch, in bytes
}

func newPlacer(s *session, c *client.Client, in *invocation, what string) *placer {
	return &placer{s: s, c: c, what: what, dry: in.has("dry-run"), force: in.has("f"), parents: in.has("p")}
}

// placeBatch is how many nodes are made in one transaction.
const placeBatch = 500

// all makes a tree, parents first, and tells how it went, also when it was stopped.
func (p *placer) all(ctx context.Context, top string, nodes []*node) error {
	err := p.tree(ctx, top, nodes)
	p.s.p.meter("", 0, 0)
	if err != nil && p.made > 0 {
		p.s.p.note("stopped: %s %s, the rest is not", count(p.made, "node"), p.what)
	}
	if err != nil {
		return err
	}
	return p.done(top)
}

func (p *placer) tree(ctx context.Context, top string, nodes []*node) error {
	if p.parents && !p.dry {
		if err := makeParents(ctx, p.c, top); err != nil {
			return err
		}
	}
	for _, n := range nodes {
		p.s.progress()
		size := len(n.path) + len(n.data)
		switch {
		case n.stat.EphemeralOwner != 0: // it would be this session's
			p.left++
			continue
		case p.dry:
			p.made++
			p.s.p.note("%s", n.path)
			continue
		case len(p.batch) == placeBatch || p.size+size > batchBytes:
			if err := p.flush(ctx); err != nil {
				return err
			}
			p.s.p.meter(p.what, p.made, len(nodes))
		}
		p.batch, p.size = append(p.batch, n), p.size+size
	}
	return p.flush(ctx)
}

// flush makes the batch. A node that exists is refused, or made equal; the root, which always exists, is made equal.
func (p *placer) flush(ctx context.Context) error {
	batch := p.batch
	p.batch, p.size = nil, 0
	if len(batch) == 0 {
		return nil
	}
	var ops []client.Op
	for _, n := range batch {
		ops = append(ops, client.CreateOp{Path: n.path, Data: n.data, ACL: n.acl})
	}
	_, err := p.c.Multi(ctx, ops...)
	switch {
	case err == nil:
		p.made += len(batch)
		return nil
	case !errors.Is(err, client.ErrNodeExists) || !p.force && batch[0].path != "/":
		return ofLength(err, ops...)
	}
	for _, n := range batch {
		p.s.progress()
		_, err := p.c.Create(ctx, n.path, n.data, client.Persistent, n.acl...)
		if errors.Is(err, client.ErrNodeExists) && (p.force || n.path == "/") {
			if _, err = p.c.Set(ctx, n.path, n.data, client.AnyVersion); err == nil {
				_, err = p.c.SetACL(ctx, n.path, n.acl, client.AnyVersion)
			}
		}
		if err != nil {
			return err
		}
		p.made++
	}
	return nil
}

func (p *placer) done(path string) error {
	if p.s.p.format == jsonFormat {
		p.s.p.value(map[string]any{"path": path, p.what: p.made, "ephemerals": p.left, "dryRun": p.dry})
		return nil
	}
	text := count(p.made, "node") + " " + p.what
	if p.dry {
		text = count(p.made, "node") + " would be " + p.what
	}
	if p.left > 0 {
		text += ", " + strconv.Itoa(p.left) + " ephemeral left out"
	}
	p.s.p.note("%s", text)
	return nil
}

// count is a number of things: "1 node", "2 nodes".
func count(n int, thing string) string {
	if n != 1 {
		thing += "s"
	}
	return strconv.Itoa(n) + " " + thing
}

// makeParents makes what is missing above a path, open to everybody.
func makeParents(ctx context.Context, c *client.Client, path string) error {
	for i := 1; i < len(path); i++ {
		at := strings.IndexByte(path[i:], '/')
		if at < 0 {
			return nil
		}
		i += at
		_, found, err := c.Exists(ctx, path[:i]) // where it may not be made either, a create would be refused for that
		if err == nil && !found {
			_, err = c.Create(ctx, path[:i], nil, client.Persistent)
		}
		if err != nil && !errors.Is(err, client.ErrNodeExists) {
			return err
		}
	}
	return nil
}
