package recipe

import (
	"context"
	"errors"
	"slices"
	"sync"

	"github.com/zkserver/zkserver/client"
)

// receipts execute multis that others' nodes are changed by, each at most once and known to be: every multi also writes
// to a receipt, an ephemeral node of this session's own. When a reply was lost, the receipt's version tells on the next
// connection whether the multi has been executed.
type receipts struct {
	c    *client.Client
	dir  string // where they are
	acl  []client.ACL
	turn chan struct{} // bounds those in use

	mu   sync.Mutex
	free []*receipt
}

// receiptsAtOnce bounds the nodes that one client makes, and the multis that it has under way.
const receiptsAtOnce = 16

func newReceipts(c *client.Client, dir string, acl []client.ACL) *receipts {
	return &receipts{c: c, dir: dir, acl: acl, turn: make(chan struct{}, receiptsAtOnce)}
}

// receipt is one of them, used by one multi at a time.
type receipt struct {
	path    string // empty: there is none yet
	version int32
	unsure  bool // a multi that was given up may have changed the version, or may still
}

// multi is client.Multi, executed at most once, through as many connections as it takes. It fails when it was refused, or
// with what ended ctx or the session: only then client.MaybeApplied says that its fate is unknown. There are no results
// when the reply was lost. The Stat is the receipt's: its Mzxid is the transaction's.
func (rs *receipts) multi(ctx context.Context, ops ...client.Op) ([]client.OpResult, client.Stat, error) {
	select {
	case rs.turn <- struct{}{}:
	case <-ctx.Done():
		return nil, client.Stat{}, ctx.Err()
	}
	rs.mu.Lock()
	r := &receipt{}
	if n := len(rs.free); n > 0 {
		r, rs.free = rs.free[n-1], rs.free[:n-1]
	}
	rs.mu.Unlock()
	results, st, err := rs.execute(ctx, r, ops)
	rs.mu.Lock()
	rs.free = append(rs.free, r)
	rs.mu.Unlock()
	<-rs.turn
	return results, st, err
}

func (rs *receipts) execute(ctx context.Context, r *receipt, ops []client.Op) (results []client.OpResult, st client.Stat, err error) {
	var a attempts
	n := len(ops)
	for {
		if err := rs.prepare(ctx, r); err != nil {
			return nil, st, err
		}
		write := client.SetOp{Path: r.path, Version: client.AnyVersion}
		results, err = rs.c.Multi(ctx, append(slices.Clip(ops), write)...)
		switch {
		case err == nil:
			r.version = results[n].Stat.Version
			return results[:n], results[n].Stat, nil
		case len(results) == n+1 && results[n].Code == client.ErrNoNode:
			r.path = "" // somebody has removed it
			continue
		case len(results) == n+1:
			return results[:n], st, err
		case unsure(err):
			st, done, e := rs.look(ctx, r)
			if e != nil {
				return nil, st, errors.Join(err, e)
			}
			if done {
				return nil, st, nil
			}
		}
		if !passing(err) {
			return nil, st, err
		}
		if e := a.again(ctx, rs.c); e != nil {
			return nil, st, e // it was not executed
		}
	}
}

// prepare makes the receipt, or learns its version.
func (rs *receipts) prepare(ctx context.Context, r *receipt) error {
	if r.unsure {
		if _, _, err := rs.look(ctx, r); err != nil && !errors.Is(err, ErrGone) {
			return err
		}
	}
	for r.path == "" {
		p := newProtected(rs.c, child(rs.dir, "receipt"), nil, client.Ephemeral, rs.acl)
		path, st, err := p.create(ctx)
		if errors.Is(err, client.ErrNoNode) {
			if err = makeDir(ctx, rs.c, rs.dir, rs.acl); err == nil {
				continue
			}
		}
		if err != nil {
			p.abandon()
			return err
		}
		r.path, r.version = path, st.Version
	}
	return nil
}

// look reports whether a multi whose fate is unknown has been executed. If not, it never will be.
func (rs *receipts) look(ctx context.Context, r *receipt) (st client.Stat, done bool, err error) {
	r.unsure = true
	var there bool
	err = do(ctx, rs.c, func() error {
		if err := overtake(ctx, rs.c); err != nil {
			return err
		}
		st, there, err = rs.c.Exists(ctx, r.path)
		return err
	})
	if err != nil {
		return st, false, err
	}
	r.unsure = false
	if !there {
		r.path = ""
		return st, false, ErrGone
	}
	done = st.Version != r.version
	r.version = st.Version
	return st, done, nil
}
