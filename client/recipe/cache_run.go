package recipe

import (
	"context"
	"errors"
	"sync"

	"github.com/zkserver/zkserver/client"
)

// Run follows the servers until ctx or the session ends: in the next one call it again, or let Sessions do it. It goes on
// through disconnects; after each it compares every node with the servers', and reads those that have changed, 64 at a
// time. Errors: what ended ctx, client.ErrSessionExpired. It must not run twice at a time.
func (c *Cache) Run(ctx context.Context, cl *client.Client) error {
	f := &feed{cache: c, c: cl, dirty: make(map[string]bool)}
	defer c.sync(false)
	var a attempts
	for {
		err := f.follow(ctx)
		c.sync(false)
		switch code := client.CodeOf(err); {
		case code == client.ErrUnimplemented: // also when the client has moved to an older server
			f.oneShots = true
		case code != client.ErrWatchOverflow && code != client.ErrWatchRemoved && !passing(err):
			return err
		}
		if err := a.again(ctx, cl); err != nil {
			return err
		}
	}
}

// feed is one Run. Everything that an event names is read again, one read of a path at a time: whatever changes behind a
// read makes another event, so the last read is right.
type feed struct {
	cache    *Cache
	c        *client.Client
	oneShots bool // instead of a persistent watch
	lost     int  // connections that broke, in a row, when a persistent watch was asked for

	states *client.Subscription
	events <-chan client.Event
	away   bool            // there was a disconnect, and the watch is not armed again
	dirty  map[string]bool // paths that are to be read; true: compared and listed
}

// readsAtOnce bounds what a cache asks for at a time.
const readsAtOnce = 64

// losses is after how many of them a server is taken for one that knows no persistent watches and says so by closing.
const losses = 3

// follow arms the watch and keeps the picture, until the watch ends.
func (f *feed) follow(ctx context.Context) error {
	f.states = f.c.Subscribe()
	defer f.states.Stop()
	disarm, err := f.arm(ctx)
	if err != nil {
		return err
	}
	defer disarm()
	if err := f.rearmed(); err != nil {
		return err
	}
	for {
		if err := f.drain(); err != nil {
			return err
		}
		if len(f.dirty) > 0 {
			if err := f.read(ctx); err != nil {
				return err
			}
			continue
		}
		// A watch that was armed on another connection has said so before any read there was answered, so the picture is
		// that of a connection on which it is armed.
		f.cache.sync(!f.away)
		select {
		case ev, ok := <-f.events:
			err = f.event(ev, ok)
		case ch, ok := <-f.states.C:
			err = f.state(ch, ok)
		case <-ctx.Done():
			err = ctx.Err()
		}
		if err != nil {
			return err
		}
	}
}

// arm begins to listen. One-shot watches are not kept here: whatever the server sends comes through the client's stream of
// events.
func (f *feed) arm(ctx context.Context) (disarm func(), err error) {
	if f.oneShots {
		s := f.c.Events()
		f.events = s.C
		return s.Stop, nil
	}
	mode := client.WatchTree
	if f.cache.depth == 0 {
		mode = client.WatchNode
	}
	w, err := f.c.AddWatch(ctx, f.cache.root, mode)
	if err != nil {
		if client.MaybeApplied(err) {
			f.lost++
		}
		if f.lost >= losses {
			f.oneShots = true
		}
		return nil, err
	}
	f.lost = 0
	f.events = w.C
	return func() {
		ctx, cancel := context.WithCancel(ctx)
		cancel()
		_ = w.Remove(ctx) // asks, and does not wait
	}, nil
}

// drain takes in what has come.
func (f *feed) drain() error {
	for {
		select {
		case ch, ok := <-f.states.C:
			if err := f.state(ch, ok); err != nil {
				return err
			}
		case ev, ok := <-f.events:
			if err := f.event(ev, ok); err != nil {
				return err
			}
		default:
			return nil
		}
	}
}

func (f *feed) state(ch client.StateChange, ok bool) error {
	switch {
	case !ok:
		return client.ErrClosed // the final state was read before
	case ch.State.Final():
		return ch.Err
	case ch.State != client.Connected:
		f.away = true
		f.cache.sync(false)
	case f.oneShots && f.away:
		f.away = false
		f.lookAll()
	}
	return nil
}

func (f *feed) event(ev client.Event, ok bool) error {
	switch {
	case !ok:
		return client.ErrClosed
	case ev.Type == client.EventLost:
		return ev.Err
	case ev.Type == client.EventRearmed:
		return f.rearmed()
	case f.cache.level(ev.Path) < 0:
	case f.oneShots || ev.Type != client.EventChildrenChanged:
		f.mark(ev.Path, f.oneShots)
	}
	return nil
}

// rearmed begins anew, with a watch that is armed. The disconnect before that is in the channel already, and is not to be
// taken for a later one.
func (f *feed) rearmed() error {
	for len(f.states.C) > 0 {
		ch, ok := <-f.states.C
		if err := f.state(ch, ok); err != nil {
			return err
		}
	}
	f.away = false
	f.lookAll()
	return nil
}

func (f *feed) mark(path string, look bool) { f.dirty[path] = f.dirty[path] || look }

// lookAll has the whole picture compared.
func (f *feed) lookAll() {
	f.mark(f.cache.root, true)
	for _, n := range f.cache.Nodes() {
		f.mark(n.Path, true)
	}
}

// found is what a read has found.
type found struct {
	path  string
	look  bool
	there bool
	node  CacheNode
	names []string
	err   error
}

// read reads some of the dirty paths, all at the same time.
func (f *feed) read(ctx context.Context) error {
	var all []*found
	for p, look := range f.dirty {
		if all = append(all, &found{path: p, look: look}); len(all) == readsAtOnce {
			break
		}
	}
	var wg sync.WaitGroup
	for _, r := range all {
		wg.Go(func() { r.err = f.readOne(ctx, r) })
	}
	wg.Wait()
	again := false
	for _, r := range all {
		switch {
		case r.err == nil:
			delete(f.dirty, r.path)
			f.apply(r)
		case passing(r.err):
			again = true
		default:
			return r.err
		}
	}
	if !again {
		return nil
	}
	var a attempts
	return a.again(ctx, f.c)
}

// readOne reads a node; when it is to be looked at, its data only if they have changed.
func (f *feed) readOne(ctx context.Context, r *found) (err error) {
	defer func() {
		if errors.Is(err, client.ErrNoNode) || errors.Is(err, client.ErrNoAuth) {
			r.there, err = false, nil
		}
	}()
	if r.look {
		st, err := f.look(ctx, r)
		if err != nil || !r.there {
			return err
		}
		if known, ok := f.cache.Get(r.path); ok && known.Stat.Czxid == st.Czxid && known.Stat.Mzxid == st.Mzxid {
			r.node = CacheNode{Path: r.path, Data: known.Data, Stat: st}
			return nil
		}
	}
	data, st, err := f.c.Get(ctx, r.path)
	r.there, r.node = err == nil, CacheNode{Path: r.path, Data: data, Stat: st}
	return err
}

// look lists a node's children, if they are of the cache, and has watches armed if need be.
func (f *feed) look(ctx context.Context, r *found) (st client.Stat, err error) {
	deep := f.cache.level(r.path) < f.cache.depth
	if !f.oneShots {
		if !deep {
			st, r.there, err = f.c.Exists(ctx, r.path)
			return st, err
		}
		r.names, st, err = f.c.Children(ctx, r.path)
		r.there = err == nil
		return st, err
	}
	st, there, w, err := f.c.ExistsW(ctx, r.path)
	if err != nil {
		return st, err
	}
	w.Stop() // the server's watch stays
	if r.there = there; !there || !deep {
		return st, nil
	}
	names, _, w, err := f.c.ChildrenW(ctx, r.path)
	if err != nil {
		return st, err
	}
	w.Stop()
	r.names = names
	return st, nil
}

// apply takes what was read into the picture.
func (f *feed) apply(r *found) {
	if !r.there {
		f.cache.remove(r.path)
		return
	}
	f.cache.set(r.node)
	if !r.look || f.cache.level(r.path) >= f.cache.depth {
		return
	}
	listed := make(map[string]bool, len(r.names))
	for _, n := range r.names {
		p := child(r.path, n)
		listed[p] = true
		if _, known := f.cache.Get(p); !known {
			f.mark(p, true)
		}
	}
	for _, n := range f.cache.Children(r.path) {
		if !listed[n.Path] {
			f.mark(n.Path, true)
		}
	}
}
