package recipe

import (
	"bytes"
	"context"
	"errors"
	"sync"

	"github.com/zkserver/zkserver/client"
)

// KeptNode is an ephemeral node of a given path that comes back: when somebody deletes it, or changes its data, and in the
// next session when one has expired. As long as another session has a node there (that of this program before it was
// started anew, perhaps) it waits for its end; it never takes over somebody else's node, which would go with that session.
type KeptNode struct {
	path string
	o    Options

	mu    sync.Mutex
	data  []byte
	there bool          // with this data
	moved chan struct{} // closed when any of them changes
	left  chan struct{} // closed when the node of the last Run is removed
}

// NewKeptNode names a node; it does nothing until Run.
func NewKeptNode(path string, data []byte, o Options) *KeptNode {
	return &KeptNode{path: path, o: o, data: bytes.Clone(data), moved: make(chan struct{}), left: closed()}
}

func closed() chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}

// Run keeps the node there, and what is above it, until ctx or the session ends: in the next one call it again, or let
// Sessions do it. During a disconnect the node stays as long as the session lives. When ctx ends it removes the node, in
// the background. Errors: what ended ctx, client.ErrSessionExpired, or those of client.Create and client.Set. It must not
// run twice at a time.
func (n *KeptNode) Run(ctx context.Context, c *client.Client) error {
	select {
	case <-n.left: // else it would remove what is made now
	case <-ctx.Done():
		return ctx.Err()
	}
	err := do(ctx, c, func() error {
		for {
			if err := n.tend(ctx, c); err != nil {
				return err
			}
		}
	})
	n.tell(nil, false)
	n.left = make(chan struct{})
	go func() { // ends with the removal, or with the session
		defer close(n.left)
		_ = removeOwn(context.Background(), c, n.path, 0) // Run has an error already
	}()
	return err
}

// tend looks at the node, does what is to be done about it, and waits when nothing is.
func (n *KeptNode) tend(ctx context.Context, c *client.Client) error {
	want, moved := n.wanted()
	data, st, w, err := c.GetW(ctx, n.path)
	if errors.Is(err, client.ErrNoNode) {
		n.tell(want, false)
		_, err := c.Create(ctx, n.path, want, client.Ephemeral, n.o.ACL...)
		switch {
		case errors.Is(err, client.ErrNoNode):
			return makeDir(ctx, c, parent(n.path), n.o.ACL)
		case errors.Is(err, client.ErrNodeExists):
			return nil
		}
		return err // a lost reply: the next look tells
	}
	if err != nil {
		return err
	}
	defer w.Stop()
	mine := st.EphemeralOwner == c.Session().ID
	if mine && !bytes.Equal(data, want) {
		_, err := c.Set(ctx, n.path, want, st.Version)
		if errors.Is(err, client.ErrBadVersion) || errors.Is(err, client.ErrNoNode) {
			return nil
		}
		return err
	}
	n.tell(want, mine)
	select {
	case ev := <-w.C:
		return ev.Err
	case <-moved:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (n *KeptNode) wanted() (data []byte, moved <-chan struct{}) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.data, n.moved
}

// tell notes whether the node is there with these data.
func (n *KeptNode) tell(data []byte, there bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if there && !bytes.Equal(data, n.data) || there == n.there {
		return
	}
	n.there = there
	close(n.moved)
	n.moved = make(chan struct{})
}

// Set changes the data, of the node as soon as there is a connection, and of those that come later.
func (n *KeptNode) Set(data []byte) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.data, n.there = bytes.Clone(data), false
	close(n.moved)
	n.moved = make(chan struct{})
}

// Wait returns once the node has been seen there with the newest data. It may be gone again: during a disconnect nobody
// can tell. Errors: what ended ctx.
func (n *KeptNode) Wait(ctx context.Context) error {
	for {
		n.mu.Lock()
		there, moved := n.there, n.moved
		n.mu.Unlock()
		if there {
			return nil
		}
		select {
		case <-moved:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
