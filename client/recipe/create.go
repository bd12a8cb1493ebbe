package recipe

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"strings"

	"github.com/zkserver/zkserver/client"
)

// Create is client.Create2 with protection against a lost reply. The last part of the path gets a prefix, "_c_", a
// unique number and "-", as Curator and go-zookeeper do it, so that the node can be told from everybody else's: when the
// reply is lost it looks for the node, on the next connection, and makes it only if it is not there. It returns the
// node's path and Stat.
//
// It goes on until it knows, or ctx or the session ends. When it fails the node is not there, or is removed in the
// background as soon as there is a connection; with a session that ended an ephemeral node goes by itself.
// Errors: those of client.Create2 but ErrConnectionLoss.
func Create(ctx context.Context, c *client.Client, path string, data []byte, mode client.CreateMode, acl ...client.ACL) (string, client.Stat, error) {
	p := newProtected(c, path, data, mode, acl)
	name, st, err := p.create(ctx)
	if err != nil {
		p.abandon()
	}
	return name, st, err
}

// protected is one node that is to be made.
type protected struct {
	c      *client.Client
	dir    string
	name   string // what the node's name begins with; of one that is not sequential, all of it
	data   []byte
	mode   client.CreateMode
	acl    []client.ACL
	unsure bool // it may be there
}

func newProtected(c *client.Client, path string, data []byte, mode client.CreateMode, acl []client.ACL) *protected {
	var id [16]byte
	_, _ = rand.Read(id[:]) // it never fails
	at := strings.LastIndexByte(path, '/') + 1
	return &protected{c: c, dir: path[:at], name: "_c_" + hex.EncodeToString(id[:]) + "-" + path[at:], data: data, mode: mode, acl: acl}
}

// create makes the node, or finds it. It may be called again after it has failed.
func (p *protected) create(ctx context.Context) (name string, st client.Stat, err error) {
	var a attempts
	for {
		if p.unsure {
			var found bool
			if name, st, found, err = p.find(ctx); err != nil || found {
				return name, st, err
			}
			p.unsure = false // it is not there, and will not come
		}
		name, st, err = p.c.Create2(ctx, p.dir+p.name, p.data, p.mode, p.acl...)
		p.unsure = unsure(err)
		if err == nil || !passing(err) {
			return name, st, err
		}
		if e := a.again(ctx, p.c); e != nil {
			return "", st, errors.Join(e, err)
		}
	}
}

// find looks for the node: what is not seen then will never be there.
func (p *protected) find(ctx context.Context) (name string, st client.Stat, found bool, err error) {
	err = do(ctx, p.c, func() error {
		if err := overtake(ctx, p.c); err != nil {
			return err
		}
		names, _, err := p.c.Children(ctx, parent(p.dir+p.name))
		if errors.Is(err, client.ErrNoNode) {
			return nil
		}
		for _, n := range names {
			if n == p.name || p.mode.IsSequential() && strings.HasPrefix(n, p.name) {
				name = p.dir + n
				st, found, err = p.c.Exists(ctx, name)
			}
		}
		return err
	})
	return name, st, found, err
}

// abandon removes the node in the background if it may be there.
func (p *protected) abandon() {
	if !p.unsure {
		return
	}
	go func() { // ends with the removal, or with the session
		ctx := context.Background()
		if name, _, found, err := p.find(ctx); err == nil && found {
			_ = remove(ctx, p.c, name) // there is nobody to tell
		}
	}()
}

// remove deletes a node that nobody else makes again, until it is gone, or the session is over.
func remove(ctx context.Context, c *client.Client, path string) error {
	err := do(ctx, c, func() error { return c.Delete(ctx, path, client.AnyVersion) })
	if errors.Is(err, client.ErrNoNode) || over(err) {
		return nil
	}
	return err
}

// removeOwn is remove for a node whose name others use as well: it deletes the one that this session has made (its czxid
// tells it, 0: any of this session's, which may still be under way), and looks before every attempt.
func removeOwn(ctx context.Context, c *client.Client, path string, czxid int64) error {
	unsure := czxid == 0
	err := do(ctx, c, func() error {
		if unsure {
			if err := overtake(ctx, c); err != nil {
				return err
			}
		}
		unsure = true
		st, there, err := c.Exists(ctx, path)
		if err != nil || !there || st.EphemeralOwner != c.Session().ID || czxid != 0 && st.Czxid != czxid {
			return err
		}
		return c.Delete(ctx, path, client.AnyVersion)
	})
	if errors.Is(err, client.ErrNoNode) || over(err) {
		return nil
	}
	return err
}

// parent is the path above, "/" for what is below the root.
func parent(path string) string {
	if i := strings.LastIndexByte(path, '/'); i > 0 {
		return path[:i]
	}
	return "/"
}

// child is the path of a name in a directory.
func child(dir, name string) string {
	if dir == "/" {
		return "/" + name
	}
	return dir + "/" + name
}

// ensure makes a persistent node unless it is there, and what is above it.
func ensure(ctx context.Context, c *client.Client, path string, data []byte, acl []client.ACL) error {
	for {
		err := do(ctx, c, func() error {
			_, err := c.Create(ctx, path, data, client.Persistent, acl...)
			return err
		})
		if errors.Is(err, client.ErrNoNode) {
			if err = makeDir(ctx, c, parent(path), acl); err == nil {
				continue
			}
		}
		if errors.Is(err, client.ErrNodeExists) {
			return nil
		}
		return err
	}
}
