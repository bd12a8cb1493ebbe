package recipe

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"

	"github.com/zkserver/zkserver/client"
)

// Claim is an item that nobody else gets as long as the claim is held: what is said of a Hold holds for its Context and
// its Token. It ends by Finish, which takes the item out of the queue, by Release, which gives it back, and by itself as
// a Hold does; then the item is back too, at the latest when the session has ended.
type Claim struct {
	q    *Queue
	h    *Hold
	item Item
}

// Claim claims the first item that nobody has claimed, and waits for one. It goes on through disconnects. Errors: what
// ended ctx, client.ErrSessionExpired, or those of client.Create; when it fails nothing is claimed, or the claim is removed
// in the background.
func (q *Queue) Claim(ctx context.Context) (*Claim, error) {
	for {
		free, err := q.free(ctx)
		if err != nil {
			return nil, err
		}
		for _, name := range free {
			cl, err := q.claimOne(ctx, name)
			if err == nil {
				return cl, nil
			}
			if !another(err) && !errors.Is(err, ErrGone) {
				return nil, err
			}
		}
	}
}

// claimOne claims an item. Errors that another reports say that it is gone or claimed by somebody else.
func (q *Queue) claimOne(ctx context.Context, name string) (*Claim, error) {
	s := &seat{c: q.c, o: q.o, dir: child(q.path, "taken"), name: name}
	var err error
	if s.token, err = q.sign(ctx, name); err != nil {
		return nil, err
	}
	cl := &Claim{q: q}
	if cl.item, _, err = q.read(ctx, name); err == nil {
		cl.h, err = s.hold(ctx, nil, nil)
	}
	if err != nil {
		go func() { _ = removeOwn(context.Background(), q.c, s.path(), s.token) }() // ends with the removal, or with the session
		return nil, err
	}
	return cl, nil
}

// sign makes the node of a claim, if the item is there, and returns its czxid. If its reply is lost it tells its own node
// by its data. When it fails the node is not there, or is removed in the background.
func (q *Queue) sign(ctx context.Context, name string) (czxid int64, err error) {
	var raw [16]byte
	_, _ = rand.Read(raw[:]) // it never fails
	id := hex.AppendEncode(nil, raw[:])
	doubt := false
	err = do(ctx, q.c, func() error {
		if doubt {
			found, err := q.signed(ctx, name, id)
			if err != nil || found != 0 {
				czxid = found
				return err
			}
		}
		results, err := q.c.Multi(ctx,
			client.CheckOp{Path: q.entry(name), Version: client.AnyVersion},
			client.CreateOp{Path: q.claim(name), Data: id, Mode: client.Ephemeral, ACL: q.o.ACL})
		if err == nil {
			czxid = results[1].Stat.Czxid
		}
		doubt = unsure(err)
		return err
	})
	if err != nil && doubt {
		go func() { // ends with the removal, or with the session
			ctx := context.Background()
			if found, err := q.signed(ctx, name, id); err == nil && found != 0 {
				_ = removeOwn(ctx, q.c, q.claim(name), found) // there is nobody to tell
			}
		}()
	}
	return czxid, err
}

// signed looks for the own claim: its czxid, or 0 when it is not there and will not come.
func (q *Queue) signed(ctx context.Context, name string, id []byte) (czxid int64, err error) {
	err = do(ctx, q.c, func() error {
		if err := overtake(ctx, q.c); err != nil {
			return err
		}
		data, st, err := q.c.Get(ctx, q.claim(name))
		if err == nil && bytes.Equal(data, id) && st.EphemeralOwner == q.c.Session().ID {
			czxid = st.Czxid
		}
		if errors.Is(err, client.ErrNoNode) {
			return nil
		}
		return err
	})
	return czxid, err
}

// Item is what was claimed, with its data as of then.
func (cl *Claim) Item() Item { return cl.item }

// Context ends with the claim, before anybody else can claim the item; context.Cause says why, as of Hold.Context.
func (cl *Claim) Context() context.Context { return cl.h.Context() }

// Token is the fencing token: larger than that of every earlier claim of the same item.
func (cl *Claim) Token() int64 { return cl.h.Token() }

// Finish takes the item out of the queue, and executes the operations with that: all, or none. So what becomes of an item
// can be written to the tree exactly once. It goes on through disconnects, and ends the claim in any case. Errors: that
// the claim has ended before (context.Cause of its Context), what ended ctx, client.ErrSessionExpired, or those of the
// operations: then nothing was executed and the item is back in the queue, unless client.MaybeApplied reports that nobody
// can know.
func (cl *Claim) Finish(ctx context.Context, ops ...client.Op) error {
	if cl.h.ctx.Err() != nil {
		return errors.Join(context.Cause(cl.h.ctx), cl.Release(ctx))
	}
	cl.h.end(ErrReleased) // nothing is done under it any more; until the session ends nobody else has the item
	all := append([]client.Op{
		client.DeleteOp{Path: cl.h.Path(), Version: client.AnyVersion},
		client.DeleteOp{Path: cl.q.entry(cl.item.Name), Version: client.AnyVersion},
	}, ops...)
	_, _, err := cl.q.r.multi(ctx, all...)
	if err != nil {
		return errors.Join(err, cl.Release(ctx))
	}
	return nil
}

// Release ends the claim and gives the item back. It waits for that as long as ctx allows, and goes on in the background.
// When the session is over the error is nil. It may be called many times.
func (cl *Claim) Release(ctx context.Context) error {
	cl.h.end(ErrReleased)
	done := make(chan error, 1)
	go func() { // ends with the removal, or with the session
		done <- removeOwn(context.Background(), cl.q.c, cl.h.Path(), cl.h.Token())
	}()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}
