package recipe

import (
	"context"
	"errors"
	"sync"

	"github.com/zkserver/zkserver/client"
)

// Hold is what a leader or the holder of a lock has. It ends at its deadline, with the session, when its node is removed
// by somebody else, on a disconnect if Options.OnSuspend says so, and by Release. Once it has ended it stays so.
//
// Release it whenever its work has stopped, also when it has ended by itself: until then its node may keep others
// waiting.
type Hold struct {
	s     *seat
	under *Hold // of a multi-lock: that of the path before, which ends with this one
	ctx   context.Context
	end   context.CancelCauseFunc

	revoked chan struct{} // closed by whoever reads the node

	mu      sync.Mutex
	entered int           // times that a reentrant mutex is locked
	leaving bool          // the removal has begun
	gone    chan struct{} // the node is removed
	err     error         // of the removal; after gone
}

// hold makes sure that the node is there and this session's, and begins the Hold. Its context knows it by the key, and
// ends with that of the one under it.
func (s *seat) hold(ctx context.Context, key any, under *Hold) (*Hold, error) {
	for {
		asked, w, err := s.own(ctx)
		if err != nil {
			return nil, err
		}
		// The context begins behind the answer: had the session ended before, the client would know or be past its
		// deadline.
		h := &Hold{s: s, under: under, entered: 1, revoked: make(chan struct{}), gone: make(chan struct{})}
		base := context.WithoutCancel(ctx)
		if under != nil {
			base = under.ctx
		}
		if key != nil {
			base = context.WithValue(base, key, h)
		}
		base, h.end = context.WithCancelCause(base)
		var stop context.CancelFunc
		h.ctx, stop = s.c.HoldContext(base)
		if h.ctx.Err() == nil {
			go func() { defer stop(); h.watch(w, asked) }() // ends with the Hold
			return h, nil
		}
		err = context.Cause(h.ctx)
		stop()
		w.Stop()
		if !errors.Is(err, client.ErrLost) {
			return nil, err
		}
	}
}

// own reads the own node and watches it; it reports whether somebody has asked for it.
func (s *seat) own(ctx context.Context) (asked bool, w *client.Watch, err error) {
	err = do(ctx, s.c, func() error {
		var data []byte
		var st client.Stat
		data, st, w, err = s.c.GetW(ctx, s.path())
		if err != nil {
			return s.gone(err)
		}
		asked = string(data) == revocation
		if st.Czxid != s.token || st.EphemeralOwner != s.c.Session().ID {
			w.Stop()
			return ErrGone
		}
		return nil
	})
	return asked, w, err
}

// watch ends the Hold when its node or its connection says so.
func (h *Hold) watch(w *client.Watch, asked bool) {
	defer func() { w.Stop() }()
	if h.s.o.OnSuspend == GiveUp {
		states := h.s.c.Subscribe()
		defer states.Stop()
		go h.giveUp(states) // ends with the subscription
	}
	for told := false; ; {
		if asked && !told {
			told = true
			close(h.revoked)
		}
		select {
		case <-h.ctx.Done():
			return
		case ev := <-w.C:
			switch ev.Type {
			case client.EventDeleted:
				h.end(ErrGone)
			case client.EventLost:
				h.end(ev.Err)
			default: // somebody has written into it
				again, next, err := h.s.own(h.ctx)
				if err != nil {
					h.end(err)
					return
				}
				asked, w = again, next
			}
		}
	}
}

// giveUp ends the Hold on a disconnect, whatever watch waits for.
func (h *Hold) giveUp(states *client.Subscription) {
	for ch := range states.C {
		if ch.State != client.Connected {
			h.end(errors.Join(ErrSuspended, ch.Err))
			return
		}
	}
}

// Context ends with the Hold; context.Cause says why: ErrReleased, ErrSuspended, ErrGone, or what wraps client.ErrLost
// (the deadline), client.ErrSessionExpired, client.ErrAuthFailed or client.ErrClosed. It has the values, and not the
// end, of the context that the Hold was asked for with. Its Err looks at the clock itself.
func (h *Hold) Context() context.Context { return h.ctx }

// Token is the fencing token: the zxid that created the node. It is larger than that of every Hold that was given
// before on the same path, those of a Semaphore and of readers apart, which are held together; of a multi-lock, on the
// same paths.
func (h *Hold) Token() int64 { return h.s.token }

// Path is the node's; of a multi-lock, that of the last path.
func (h *Hold) Path() string { return h.s.path() }

// Release ends the Hold and gives up the place: first the context ends, then the node is removed. It waits for the
// removal, which without a connection is when there is one again, as long as ctx allows: an error that wraps ctx's says
// that the removal goes on in the background. When the session is over the error is nil. It may be called many times.
// Of a reentrant lock each Hold is released as often as it was given.
func (h *Hold) Release(ctx context.Context) error {
	h.mu.Lock()
	if h.entered > 0 {
		h.entered--
	}
	if h.entered > 0 {
		h.mu.Unlock()
		return nil
	}
	if !h.leaving {
		h.leaving = true
		h.end(ErrReleased)
		go func() { // ends with the removal, or with the session
			defer close(h.gone)
			h.err = remove(context.Background(), h.s.c, h.Path())
			if h.under != nil {
				h.err = errors.Join(h.err, h.under.Release(context.Background()))
			}
		}()
	}
	h.mu.Unlock()
	select {
	case <-h.gone:
		return h.err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// enter counts another time, if the Hold is live.
func (h *Hold) enter() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.entered == 0 || h.ctx.Err() != nil {
		return false
	}
	h.entered++
	return true
}
