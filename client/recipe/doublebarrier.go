package recipe

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/zkserver/zkserver/client"
)

// DoubleBarrier lets a number of members begin together and end together, again and again: rounds. Each round has
// exactly so many members, all of which were there at one moment; whoever comes later is of a later round, which begins
// when all of this one have left. A member whose session ends has left.
//
// The members of the round are listed in one node, which is changed under a check of its version and of every member's
// node: that decides about a round for everybody at once. Curator's and kazoo's double barriers count nodes instead, and
// cannot be mixed with it.
type DoubleBarrier struct {
	c    *client.Client
	path string
	n    int
	o    Options
}

// NewDoubleBarrier names a double barrier of so many members, from 1 on; everybody has to give the same number. It does
// nothing yet. The path is used for it only.
func NewDoubleBarrier(c *client.Client, path string, members int, o Options) *DoubleBarrier {
	return &DoubleBarrier{c: c, path: path, n: members, o: o}
}

// Stay is the time between Enter and Leave.
type Stay struct {
	h     *Hold
	b     *DoubleBarrier
	party []string
}

// Enter waits until enough members are there for a round. Through disconnects it keeps its place. Errors: what ended ctx,
// client.ErrSessionExpired, ErrGone, or those of client.Create; when it fails the member's node is removed, if need be in
// the background: if the round has begun, it has left.
func (b *DoubleBarrier) Enter(ctx context.Context) (*Stay, error) {
	s, err := sit(ctx, b.c, b.path, "member-", b.o)
	if err != nil {
		return nil, err
	}
	stay := &Stay{b: b}
	err = do(ctx, b.c, func() error {
		for {
			if done, err := b.join(ctx, s, stay); done || err != nil {
				return err
			}
		}
	})
	if err == nil {
		stay.h, err = s.hold(ctx, nil, nil)
	}
	if err != nil {
		s.leave()
		return nil, err
	}
	return stay, nil
}

func (b *DoubleBarrier) round() string { return child(b.path, "round") }

// join looks at the round, begins one if it can, and waits until it may be worth another look.
func (b *DoubleBarrier) join(ctx context.Context, s *seat, stay *Stay) (done bool, err error) {
	data, st, changed, err := b.c.GetW(ctx, b.round())
	if errors.Is(err, client.ErrNoNode) {
		return false, ensure(ctx, b.c, b.round(), nil, b.o.ACL)
	}
	if err != nil {
		return false, err
	}
	stay.party = strings.Split(string(data), "\n")
	if slices.Contains(stay.party, s.name) {
		changed.Stop()
		return true, nil
	}
	names, _, moved, err := b.c.ChildrenW(ctx, b.path)
	if err != nil {
		changed.Stop()
		return false, err
	}
	switch all := line(names); {
	case !slices.Contains(names, s.name):
		err = ErrGone
	case len(all) < b.n || slices.ContainsFunc(stay.party, func(n string) bool { return slices.Contains(names, n) }):
		return false, await(ctx, changed, moved)
	default:
		// Nobody of the last round is there, and none of them can come back: their names are used once.
		err = b.begin(ctx, all[:b.n], st.Version)
	}
	changed.Stop()
	moved.Stop()
	return false, err
}

// begin begins a round, unless somebody was quicker, or one of its members has gone.
func (b *DoubleBarrier) begin(ctx context.Context, all []place, version int32) error {
	var ops []client.Op
	var names []string
	for _, p := range all {
		ops = append(ops, client.CheckOp{Path: child(b.path, p.name), Version: client.AnyVersion})
		names = append(names, p.name)
	}
	ops = append(ops, client.SetOp{Path: b.round(), Data: []byte(strings.Join(names, "\n")), Version: version})
	_, err := b.c.Multi(ctx, ops...)
	if errors.Is(err, client.ErrBadVersion) || errors.Is(err, client.ErrNoNode) {
		return nil
	}
	return err // of a lost reply the round itself tells
}

// Context ends with the member's place in the round, as that of a Hold: at the latest two thirds of the session's timeout
// after the last sign of the servers, so before the others can see it leave.
func (s *Stay) Context() context.Context { return s.h.Context() }

// Leave ends the stay, and waits until every member of the round has left, those included whose session has ended. Through
// disconnects it goes on. Errors: what ended ctx, or client.ErrSessionExpired; the member has left all the same, if need
// be in the background. It may be called again.
func (s *Stay) Leave(ctx context.Context) error {
	if err := s.h.Release(ctx); err != nil {
		return err
	}
	return do(ctx, s.b.c, func() error {
		for {
			names, _, w, err := s.b.c.ChildrenW(ctx, s.b.path)
			if err != nil {
				return s.h.s.gone(err)
			}
			if !slices.ContainsFunc(s.party, func(n string) bool { return slices.Contains(names, n) }) {
				w.Stop()
				return nil
			}
			if err := await(ctx, w); err != nil {
				return err
			}
		}
	})
}
