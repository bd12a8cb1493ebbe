package recipe

import (
	"context"
	"errors"
	"slices"

	"github.com/zkserver/zkserver/client"
)

// MultiLock is the mutexes of several paths, held together or not at all. They are taken one after the other in the order
// of their names, whatever order they are given in, so that two sets that overlap cannot wait for each other. Who locks
// one of the paths by a Mutex, or by another client's lock, takes part.
type MultiLock struct {
	c     *client.Client
	paths []string
	o     Options
}

// NewMultiLock names the locks, at least one; it does nothing yet. A path that is given twice counts once.
func NewMultiLock(c *client.Client, paths []string, o Options) *MultiLock {
	paths = slices.Clone(paths)
	slices.Sort(paths)
	return &MultiLock{c: c, paths: slices.Compact(paths), o: o}
}

// Lock waits until all are held. The Hold ends as soon as one of them does, and Release gives up all, the last one first.
// When one is lost while another is waited for, Lock fails with the reason, as the cause of a Hold's context. Other
// errors as of Mutex.Lock; when it fails nothing is held, and the nodes are removed as those of Mutex.Lock are.
//
// With Options.Reentrant a Lock with the context of a Hold of the same paths, or one derived from it, returns that Hold
// again. A set that shares only some paths with it waits for itself.
func (m *MultiLock) Lock(ctx context.Context) (*Hold, error) { return m.lock(ctx, false) }

// TryLock is Lock without waiting for others: ErrBusy.
func (m *MultiLock) TryLock(ctx context.Context) (*Hold, error) { return m.lock(ctx, true) }

func (m *MultiLock) lock(ctx context.Context, once bool) (*Hold, error) {
	if len(m.paths) == 0 {
		return nil, errors.New("recipe: a multi-lock without paths")
	}
	if h := m.held(ctx); h != nil && h.enter() {
		return h, nil
	}
	var top *Hold
	for _, path := range m.paths {
		h, err := m.next(ctx, path, once, top)
		if err != nil {
			if top != nil {
				err = errors.Join(err, top.Release(ctx))
			}
			return nil, err
		}
		top = h
	}
	return top, nil
}

// next takes one more lock above those that are held, as long as they are.
func (m *MultiLock) next(ctx context.Context, path string, once bool, under *Hold) (*Hold, error) {
	var key any
	if m.o.Reentrant {
		key = owned{m.c, path}
	}
	if under == nil {
		return take(ctx, m.c, path, label, m.o, first, once, key, nil)
	}
	both, end := context.WithCancel(ctx)
	defer end()
	defer context.AfterFunc(under.ctx, end)()
	h, err := take(both, m.c, path, label, m.o, first, once, key, under)
	if err != nil && ctx.Err() == nil && under.ctx.Err() != nil {
		return nil, context.Cause(under.ctx)
	}
	return h, err
}

// held is the Hold of exactly these paths that the context is of.
func (m *MultiLock) held(ctx context.Context) *Hold {
	if !m.o.Reentrant {
		return nil
	}
	last, _ := ctx.Value(owned{m.c, m.paths[len(m.paths)-1]}).(*Hold)
	h := last
	for i := len(m.paths) - 1; i >= 0; i-- {
		if h == nil || h.s.dir != m.paths[i] {
			return nil
		}
		h = h.under
	}
	if h != nil {
		return nil
	}
	return last
}

// Tokens are the fencing tokens by the path of the lock: one, or those of a multi-lock. Where sets overlap, a store that
// is guarded by one path has to look at that path's token; Token, the largest, is for those who lock the same set.
func (h *Hold) Tokens() map[string]int64 {
	all := map[string]int64{}
	for ; h != nil; h = h.under {
		all[h.s.dir] = h.s.token
	}
	return all
}
