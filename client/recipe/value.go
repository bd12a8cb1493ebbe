package recipe

import (
	"context"
	"errors"
	"iter"
	"math/rand/v2"
	"time"

	"github.com/zkserver/zkserver/client"
)

// Value is a node whose data is shared. Changes are conditional on the data that they were worked out from, so that none
// is lost; and each is made once, also when its reply gets lost. Curator's SharedValue and DistributedAtomicValue on the
// same path see and change the same.
//
// A client that has changed the value has up to 16 ephemeral nodes below it, until its session ends.
type Value struct {
	c     *client.Client
	path  string
	o     Options
	first []byte // what the node is made with
	r     *receipts
}

// NewValue names a value; it does nothing yet. The node is made by the first change, as a persistent one.
func NewValue(c *client.Client, path string, o Options) *Value {
	return &Value{c: c, path: path, o: o, first: []byte{}, r: newReceipts(c, path, o.ACL)}
}

// Get reads the data, at least as new as what this client has read or written before, and its Stat; nil and the zero Stat
// when there is no node. It goes on through disconnects. Errors: what ended ctx, client.ErrSessionExpired, client.ErrNoAuth.
func (v *Value) Get(ctx context.Context) (data []byte, st client.Stat, err error) {
	err = do(ctx, v.c, func() error {
		data, st, err = v.c.Get(ctx, v.path)
		if errors.Is(err, client.ErrNoNode) {
			data, st, err = nil, client.Stat{}, nil
		}
		return err
	})
	return data, st, err
}

// Set replaces the data, whatever it is. It goes on through disconnects. Errors: what ended ctx, client.ErrSessionExpired
// (client.MaybeApplied then tells whether it may be executed), or those of client.Set.
func (v *Value) Set(ctx context.Context, data []byte) error {
	for {
		if _, _, err := v.r.multi(ctx, client.SetOp{Path: v.path, Data: data, Version: client.AnyVersion}); !errors.Is(err, client.ErrNoNode) {
			return err
		}
		if err := ensure(ctx, v.c, v.path, v.first, v.o.ACL); err != nil {
			return err
		}
	}
}

// Update replaces the data by what change makes of it, and returns that. When somebody else was quicker it calls change
// again with the data as it is then; an error of change ends it, and is returned. However many replies are lost the change
// is made once. Errors otherwise as of Set; with one that client.MaybeApplied reports, the data is what may have been
// written.
func (v *Value) Update(ctx context.Context, change func(old []byte) ([]byte, error)) ([]byte, error) {
	for tries := 0; ; tries++ {
		old, st, err := v.Get(ctx)
		if err != nil {
			return nil, err
		}
		if st.Czxid == 0 {
			if err := ensure(ctx, v.c, v.path, v.first, v.o.ACL); err != nil {
				return nil, err
			}
			continue
		}
		data, err := change(old)
		if err != nil {
			return nil, err
		}
		_, _, err = v.r.multi(ctx, client.SetOp{Path: v.path, Data: data, Version: st.Version})
		switch {
		case err == nil || client.MaybeApplied(err):
			return data, err
		case !errors.Is(err, client.ErrBadVersion) && !errors.Is(err, client.ErrNoNode):
			return nil, err
		}
		if err := jitter(ctx, tries); err != nil {
			return nil, err
		}
	}
}

// jitter waits for a while that is drawn, the longer the more often others were quicker.
func jitter(ctx context.Context, tries int) error {
	t := time.NewTimer(rand.N(min(time.Millisecond<<min(tries, 10), 50*time.Millisecond)))
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Watch yields the data, then every change, nil while there is no node, until ctx or the session ends: the last pair has
// the error. It goes on through disconnects, and may leave out what was soon replaced.
func (v *Value) Watch(ctx context.Context) iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		for last := int64(-1); ; {
			var data []byte
			var st client.Stat
			var w *client.Watch
			err := do(ctx, v.c, func() (err error) {
				data, st, w, err = v.look(ctx)
				return err
			})
			if err == nil && st.Mzxid != last {
				last = st.Mzxid
				if !yield(data, nil) {
					w.Stop()
					return
				}
			}
			if err == nil {
				err = await(ctx, w)
			}
			if err != nil {
				yield(nil, err)
				return
			}
		}
	}
}

// look reads the node and watches it, or for its creation.
func (v *Value) look(ctx context.Context) ([]byte, client.Stat, *client.Watch, error) {
	for {
		data, st, w, err := v.c.GetW(ctx, v.path)
		if !errors.Is(err, client.ErrNoNode) {
			return data, st, w, err
		}
		_, there, w, err := v.c.ExistsW(ctx, v.path)
		if !there || err != nil {
			return nil, client.Stat{}, w, err
		}
		w.Stop()
	}
}
