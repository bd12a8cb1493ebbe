package recipe

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/zkserver/zkserver/client"
)

// Fence guards data in the tree against earlier holders, as Kafka's controllers do it: a node has the token of the newest
// Hold that has made a Fence of it, and every change is a multi that checks that nobody has written to that node since.
// A multi of an earlier holder that is late fails as a whole, whatever its clock says.
type Fence struct {
	c       *client.Client
	path    string
	version int32
}

// Fence writes the Hold's token into the epoch node, which it makes if need be (its parents have to be there), in a multi
// that also checks that the Hold's own node is still there. The node has to be used for one election or lock only.
// Errors: ErrFenced when a larger token is there, ErrGone when the own node is not, or those of client.Set.
func (h *Hold) Fence(ctx context.Context, epoch string) (*Fence, error) {
	f := &Fence{c: h.s.c, path: epoch}
	token := strconv.AppendInt(nil, h.Token(), 10)
	err := do(ctx, f.c, func() error {
		for {
			data, st, err := f.c.Get(ctx, epoch)
			write := client.Op(client.SetOp{Path: epoch, Data: token, Version: st.Version})
			switch {
			case errors.Is(err, client.ErrNoNode):
				write = client.CreateOp{Path: epoch, Data: token, ACL: h.s.o.ACL}
			case err != nil:
				return err
			default:
				was, err := strconv.ParseInt(string(data), 10, 64)
				switch {
				case err != nil:
					return fmt.Errorf("recipe: fence %s: its data is no token: %w", epoch, err)
				case was > h.Token():
					return ErrFenced
				case was == h.Token(): // made before, or its reply was lost
					f.version = st.Version
					return nil
				}
			}
			ops := []client.Op{write}
			for own := h; own != nil; own = own.under {
				ops = append(ops, client.CheckOp{Path: own.Path(), Version: client.AnyVersion})
			}
			slices.Reverse(ops)
			results, err := f.c.Multi(ctx, ops...)
			switch {
			case err == nil:
				f.version = results[len(results)-1].Stat.Version
				return nil
			case missing(results):
				return ErrGone
			case !errors.Is(err, client.ErrBadVersion) && !errors.Is(err, client.ErrNodeExists):
				return err
			}
		}
	})
	if err != nil {
		return nil, err
	}
	return f, nil
}

// missing reports whether a check in front of the last operation has found its node gone.
func missing(results []client.OpResult) bool {
	for _, r := range results[:max(0, len(results)-1)] {
		if r.Code == client.ErrNoNode {
			return true
		}
	}
	return false
}

// Check is the operation that fails once a later holder has taken over, for a multi of one's own.
func (f *Fence) Check() client.CheckOp { return client.CheckOp{Path: f.path, Version: f.version} }

// Multi is client.Multi behind the Check, whose result is left out. Errors: ErrFenced when the Check failed, with
// nothing executed; else those of client.Multi: after client.MaybeApplied it may have been executed.
func (f *Fence) Multi(ctx context.Context, ops ...client.Op) ([]client.OpResult, error) {
	results, err := f.c.Multi(ctx, append([]client.Op{f.Check()}, ops...)...)
	if len(results) == 0 {
		return nil, err
	}
	if code := results[0].Code; code == client.ErrBadVersion || code == client.ErrNoNode {
		err = errors.Join(ErrFenced, err)
	}
	return results[1:], err
}
