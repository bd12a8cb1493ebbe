package recipe

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/zkserver/zkserver/client"
)

// Every name has one member, and the members have equally many, give or take one.
func TestShareOut(t *testing.T) {
	for n := range 30 {
		for m := 1; m < 8; m++ {
			var names, ids []string
			for i := range n {
				names = append(names, fmt.Sprint("n", i))
			}
			for i := range m {
				ids = append(ids, fmt.Sprint("m", i))
			}
			share := shareOut(names, ids)
			slices.Reverse(ids)
			again := shareOut(names, ids)
			var all []string
			for _, id := range ids {
				all = append(all, share[id]...)
				if k := len(share[id]); k != n/m && k != n/m+1 || !slices.Equal(share[id], again[id]) {
					t.Errorf("%d names, %d members: %s has %d", n, m, id, k)
				}
			}
			slices.Sort(all)
			slices.Sort(names)
			if !slices.Equal(all, names) {
				t.Errorf("%d names, %d members: %q", n, m, all)
			}
		}
	}
	if len(shareOut([]string{"a"}, nil)) != 0 {
		t.Error("nobody has something")
	}
}

// desk is told who works on what.
type desk struct {
	s     *storm
	mu    sync.Mutex
	holds map[string][]*Hold // by name
	works map[string]string  // who works, by name
	found []string
	moved chan struct{}
}

func (d *desk) begins(name, who string, h *Hold) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if h.Context().Err() != nil {
		return // over before it was looked at
	}
	for _, old := range d.holds[name] {
		if d.s.holds(old) {
			d.found = append(d.found, name+" has two")
		}
		if old.Token() >= h.Token() {
			d.found = append(d.found, name+": a token goes back")
		}
	}
	d.holds[name] = append(d.holds[name], h)
	d.works[name] = who
	d.tell()
}

func (d *desk) ends(name, who string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.works[name] == who {
		delete(d.works, name)
	}
	d.tell()
}

func (d *desk) tell() {
	select {
	case d.moved <- struct{}{}:
	default:
	}
}

// Members come and go in a storm, and their sessions end: a name has one at a time, and in the end each has its share.
func TestPartitionerInStorms(t *testing.T) {
	inStorms(t, func(e *env, s *storm) {
		names := []string{"a", "b", "c", "d/e", "f", "g", "h"}
		d := &desk{s: s, holds: make(map[string][]*Hold), works: make(map[string]string), moved: make(chan struct{}, 1)}
		type member struct {
			clients <-chan *client.Client
			end     func() error
		}
		members := make(map[string]member)
		join := func(id string) {
			p := NewPartitioner("/deep/p", id, names, Options{ID: id})
			ch, end := e.shortSessions(4*time.Second, func(ctx context.Context, c *client.Client) error {
				return p.Run(ctx, c, func(name string, h *Hold) error {
					d.begins(name, id, h)
					<-h.Context().Done()
					d.ends(name, id)
					return nil
				})
			})
			members[id] = member{ch, end}
		}
		settles := func() {
			e.Helper()
			var ids []string
			for id := range members {
				ids = append(ids, id)
			}
			want := make(map[string]string)
			for id, mine := range shareOut(slices.Sorted(slices.Values(names)), ids) {
				for _, n := range mine {
					want[n] = id
				}
			}
			for {
				d.mu.Lock()
				same := len(d.works) == len(want)
				for n, id := range want {
					same = same && d.works[n] == id
				}
				d.mu.Unlock()
				if same {
					return
				}
				select {
				case <-d.moved:
				case <-e.ctx.Done():
					e.Fatalf("%v, want %v", d.works, want)
				}
			}
		}
		join("m0")
		settles()
		next := 1
		s.blow(6, func() {
			switch ids := slices.Sorted(maps.Keys(members)); {
			case len(ids) < 2 || len(ids) < 4 && s.rnd.IntN(2) == 0:
				join(fmt.Sprint("m", next))
				next++
			case s.rnd.IntN(2) == 0:
				id := ids[s.rnd.IntN(len(ids))]
				if err := members[id].end(); !errors.Is(err, context.Canceled) {
					e.Errorf("%s: ended by %v", id, err)
				}
				delete(members, id)
			default:
				select {
				case c := <-members[ids[s.rnd.IntN(len(ids))]].clients:
					s.expire(c)
				default:
				}
			}
			settles()
		})
		for _, f := range d.found {
			e.Error(f)
		}
	})
}

// An error of a work ends Run, and everything is free.
func TestPartitionerFails(t *testing.T) {
	onBothWires(t, func(e *env) {
		c := e.dial()
		p := NewPartitioner("/p", "a", []string{"x", "y"}, Options{})
		enough := errors.New("enough")
		err := p.Run(e.ctx, c, func(name string, h *Hold) error {
			if name == "x" {
				return enough
			}
			<-h.Context().Done()
			if cause := context.Cause(h.Context()); !errors.Is(cause, enough) {
				e.Errorf("y ended by %v", cause)
			}
			return nil
		})
		if !errors.Is(err, enough) {
			e.Errorf("ended by %v", err)
		}
		e.children(c, "/p/members", 0)
		for _, n := range []string{"x", "y"} {
			e.ok(e.hold(NewMutex(c, "/p/locks/"+n, Options{}).Lock(e.ctx)).Release(e.ctx))
		}
	})
}
