package recipe

import (
	"context"
	"errors"
	"slices"
	"sync"

	"github.com/zkserver/zkserver/client"
)

// ErrMoved is why a Hold of a Partitioner has ended whose name is another member's now.
var ErrMoved = errors.New("recipe: moved to another member")

// Partitioner shares a set of names among the members of a group: each name is worked on by one member at a time, and the
// members have equally many, give or take one. Who is to have a name follows from the members alone; that nobody else has
// it is ensured by a Mutex of each name, so what is said of a Hold holds for every name, whatever the members believe of
// each other.
type Partitioner struct {
	path  string
	id    string
	names []string
	o     Options
	group *Group
}

// NewPartitioner names a partitioner and a member of it by an id that nobody else has. Everybody has to give the same
// names; a name that not all give is worked on by whoever gives it, one at a time. It does nothing until Run. The path is
// used for it only: the members are below "members", the locks below "locks".
func NewPartitioner(path, id string, names []string, o Options) *Partitioner {
	names = slices.Clone(names)
	slices.Sort(names)
	return &Partitioner{path: path, id: id, names: slices.Compact(names), o: o, group: NewGroup(child(path, "members"), id, nil, o)}
}

// Group is that of the members.
func (p *Partitioner) Group() *Group { return p.group }

// Run takes part until ctx or the session ends: in the next one call it again, or let Sessions do it with a function that
// calls Run. For each name that it has it calls work in a goroutine, which has to return soon after the Hold's context has
// ended: when the name moves to another member (ErrMoved), and as every Hold ends, on a long disconnect and on expiry among
// others. Until then nobody else works on the name. When work returns nil, or the Hold had ended, the name is free for a
// moment, and this member asks for it again if it is still its own.
//
// It returns when every work has returned. Errors: what ended ctx, client.ErrSessionExpired, those of Group.Run and of
// Mutex.Lock, or the error of a work whose Hold was live.
func (p *Partitioner) Run(ctx context.Context, c *client.Client, work func(name string, h *Hold) error) error {
	return Together(ctx, c, p.group.Run, func(ctx context.Context, c *client.Client) error { return p.share(ctx, c, work) })
}

// share begins and ends the work on names as the members come and go.
func (p *Partitioner) share(ctx context.Context, c *client.Client, work func(string, *Hold) error) error {
	ctx, fail := context.WithCancelCause(ctx)
	running := make(map[string]context.CancelCauseFunc)
	var wg sync.WaitGroup
	for _, err := range p.group.Cache().Watch(ctx) {
		if err != nil {
			break
		}
		mine, ok := p.mine()
		if !ok {
			continue
		}
		for name, stop := range running {
			if !slices.Contains(mine, name) {
				stop(ErrMoved)
				delete(running, name)
			}
		}
		for _, name := range mine {
			if _, ok := running[name]; !ok {
				tenure, stop := context.WithCancelCause(ctx)
				running[name] = stop
				wg.Go(func() {
					if err := p.tend(tenure, c, name, work); err != nil {
						fail(err)
					}
				})
			}
		}
	}
	fail(nil) // ctx has ended: Watch ends by nothing else
	wg.Wait()
	return context.Cause(ctx)
}

// mine are the names that are this member's, as far as is known: not while the picture is stale, or it is not in it.
func (p *Partitioner) mine() (names []string, ok bool) {
	if !p.group.Cache().Synced() {
		return nil, false
	}
	var ids []string
	for _, m := range p.group.Members() {
		ids = append(ids, m.ID)
	}
	return shareOut(p.names, ids)[p.id], slices.Contains(ids, p.id)
}

// tend works on a name until ctx ends, as often as it gets it.
func (p *Partitioner) tend(ctx context.Context, c *client.Client, name string, work func(string, *Hold) error) error {
	m := NewMutex(c, child(child(p.path, "locks"), nodeName(name)), p.o)
	for {
		h, err := m.Lock(ctx)
		if ctx.Err() == nil && errors.Is(err, ErrGone) {
			continue
		}
		if err == nil {
			stop := context.AfterFunc(ctx, func() { h.end(context.Cause(ctx)) })
			err = work(name, h)
			stop()
			if live := h.Context().Err() == nil; !live {
				err = nil
			}
			err = errors.Join(err, h.Release(ctx)) // goes on in the background when ctx has ended
		}
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// shareOut gives each name to a member, the same for everybody that knows of the same members: of those that have room
// the one that the name and its id draw. Every member has as many as the others, or one more.
func shareOut(names, ids []string) map[string][]string {
	share := make(map[string][]string, len(ids))
	if len(ids) == 0 {
		return share
	}
	ids = slices.Sorted(slices.Values(ids))
	least, more := len(names)/len(ids), len(names)%len(ids)
	for _, name := range names {
		best, most := "", uint64(0)
		for _, id := range ids {
			n := len(share[id])
			if room := n < least || n == least && more > 0; !room {
				continue
			}
			if w := weight(name, id); best == "" || w > most {
				best, most = id, w
			}
		}
		if len(share[best]) == least {
			more--
		}
		share[best] = append(share[best], name)
	}
	return share
}
