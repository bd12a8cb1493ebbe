package recipe

import (
	"context"
	"errors"
	"strings"

	"github.com/zkserver/zkserver/client"
)

// seat is a place in a line: an ephemeral sequential node of this session.
type seat struct {
	c     *client.Client
	o     Options
	dir   string
	name  string
	token int64 // its czxid
}

// sit makes the node, and its parents if need be.
func sit(ctx context.Context, c *client.Client, dir, label string, o Options) (*seat, error) {
	p := newProtected(c, dir+"/"+label, []byte(o.ID), client.EphemeralSequential, o.ACL)
	for {
		path, st, err := p.create(ctx)
		if errors.Is(err, client.ErrNoNode) {
			err = makeDir(ctx, c, dir, o.ACL)
			if err == nil {
				continue
			}
		}
		if err != nil {
			p.abandon()
			return nil, err
		}
		return &seat{c: c, o: o, dir: dir, name: path[len(dir)+1:], token: st.Czxid}, nil
	}
}

// makeDir makes a directory and what is above it. The directory itself is a container: the server removes it some time
// after the last one has left.
func makeDir(ctx context.Context, c *client.Client, dir string, acl []client.ACL) error {
	for at := 1; at < len(dir); at++ {
		mode := client.Container
		if i := strings.IndexByte(dir[at:], '/'); i >= 0 {
			at += i
			mode = client.Persistent
		} else {
			at = len(dir)
		}
		err := do(ctx, c, func() error {
			_, err := c.Create(ctx, dir[:at], nil, mode, acl...)
			return err
		})
		if err != nil && !errors.Is(err, client.ErrNodeExists) {
			return err
		}
	}
	return nil
}

func (s *seat) path() string { return s.dir + "/" + s.name }

// rule decides about the place at index me of a line: admitted, or the name of the one that it has to wait for. Herd is
// the answer of one that has to look again whenever the line changes.
type rule func(line []place, me int) (wait string, admitted bool)

// herd is no node's name.
const herd = ""

// wait returns once the rule admits. With once it does not wait: ErrBusy.
func (s *seat) wait(ctx context.Context, r rule, once bool) error {
	return do(ctx, s.c, func() error {
		for {
			if done, err := s.round(ctx, r, once); done || err != nil {
				return err
			}
		}
	})
}

// round looks at the line, and waits until it may be worth another look.
func (s *seat) round(ctx context.Context, r rule, once bool) (admitted bool, err error) {
	names, _, err := s.c.Children(ctx, s.dir)
	if err != nil {
		return false, s.gone(err)
	}
	blocker, admitted, err := s.judge(names, r)
	switch {
	case err != nil || admitted:
		return admitted, err
	case once:
		return false, ErrBusy
	}
	var w *client.Watch
	if blocker == herd {
		// Whatever changed since the first look is seen by this one; only who has to wait arms a watch.
		if names, _, w, err = s.c.ChildrenW(ctx, s.dir); err != nil {
			return false, s.gone(err)
		}
		if _, admitted, err = s.judge(names, r); err != nil || admitted {
			w.Stop()
			return admitted, err
		}
	} else {
		_, _, w, err = s.c.GetW(ctx, s.dir+"/"+blocker)
		if errors.Is(err, client.ErrNoNode) {
			return false, nil
		}
		if err != nil {
			return false, err
		}
	}
	defer w.Stop()
	select {
	case ev := <-w.C:
		return false, ev.Err
	case <-ctx.Done():
		return false, ctx.Err()
	}
}

func (s *seat) judge(names []string, r rule) (blocker string, admitted bool, err error) {
	all := line(names)
	for i, p := range all {
		if p.name == s.name {
			blocker, admitted = r(all, i)
			return blocker, admitted, nil
		}
	}
	return "", false, ErrGone
}

// gone translates the absence of the directory, or of the node.
func (s *seat) gone(err error) error {
	if errors.Is(err, client.ErrNoNode) {
		return ErrGone
	}
	return err
}

// leave removes the node in the background; the channel is closed when that is done.
func (s *seat) leave() <-chan struct{} {
	done := make(chan struct{})
	go func() { // ends with the removal, or with the session
		defer close(done)
		_ = remove(context.Background(), s.c, s.path()) // whoever gave up has an error already
	}()
	return done
}

// take makes a seat, waits, and turns it into a Hold, which its context knows by the key unless that is nil, above another
// one if that is not nil. With once it does not wait: ErrBusy, when the node is removed again.
func take(ctx context.Context, c *client.Client, dir, label string, o Options, r rule, once bool, key any, under *Hold) (*Hold, error) {
	s, err := sit(ctx, c, dir, label, o)
	if err != nil {
		return nil, err
	}
	var h *Hold
	if err = s.wait(ctx, r, once); err == nil {
		h, err = s.hold(ctx, key, under)
	}
	if err != nil {
		left := s.leave()
		if once {
			select {
			case <-left:
			case <-ctx.Done():
			}
		}
		return nil, err
	}
	return h, nil
}
