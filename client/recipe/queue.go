package recipe

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/zkserver/zkserver/client"
)

// Queue is a queue of items, first those of the smallest priority, among them in the order in which they were put; with
// one priority for all it is first in, first out. An item is taken for good (Take), or claimed: then it comes back if the
// claim ends without Finish (Claim).
//
// kazoo's LockingQueue on the same path is the same queue: its items and claims are seen here, ours there. Items are below
// "entries", claims below "taken". A client that puts or takes has up to 16 ephemeral nodes in the path itself, until its
// session ends. It is for some thousand items: whoever waits lists them all.
type Queue struct {
	c    *client.Client
	path string
	o    Options
	r    *receipts
}

// Priorities of items: the smaller one comes first.
const (
	MinPriority     = 0
	DefaultPriority = 100
	MaxPriority     = 999
)

// Item is an item of a queue.
type Item struct {
	Data     []byte // what was put
	Name     string // its node's, unique in the queue
	Priority int    // DefaultPriority where somebody else's name has none
}

// NewQueue names a queue; it does nothing yet. The path is used for it only.
func NewQueue(c *client.Client, path string, o Options) *Queue {
	return &Queue{c: c, path: path, o: o, r: newReceipts(c, path, o.ACL)}
}

func (q *Queue) entry(name string) string { return child(q.path, "entries") + "/" + name }
func (q *Queue) claim(name string) string { return child(q.path, "taken") + "/" + name }

// Put puts an item. It goes on through disconnects, and however many replies are lost it puts it once. Errors: what ended
// ctx, client.ErrSessionExpired (client.MaybeApplied then tells whether it may be there), or those of client.Create.
func (q *Queue) Put(ctx context.Context, data []byte, priority int) error {
	if priority < MinPriority || priority > MaxPriority {
		return fmt.Errorf("recipe: queue %s: priority %d, want %d to %d", q.path, priority, MinPriority, MaxPriority)
	}
	put := client.CreateOp{Path: q.entry(fmt.Sprintf("entry-%03d-", priority)), Data: data, Mode: client.PersistentSequential, ACL: q.o.ACL}
	for {
		_, _, err := q.r.multi(ctx, put)
		if !errors.Is(err, client.ErrNoNode) {
			return err
		}
		if err := q.make(ctx); err != nil {
			return err
		}
	}
}

// make makes the queue's directories.
func (q *Queue) make(ctx context.Context) error {
	for _, d := range []string{"entries", "taken"} {
		if err := ensure(ctx, q.c, child(q.path, d), nil, q.o.ACL); err != nil {
			return err
		}
	}
	return nil
}

// Take takes the first item that nobody has claimed out of the queue, and waits for one. It goes on through disconnects,
// and however many replies are lost it takes one. Errors: what ended ctx, client.ErrSessionExpired, or those of
// client.Delete. An error that client.MaybeApplied reports comes with the Item: nobody can know whether it is still in
// the queue.
func (q *Queue) Take(ctx context.Context) (Item, error) {
	for {
		free, err := q.free(ctx)
		if err != nil {
			return Item{}, err
		}
		for _, name := range free {
			item, st, err := q.read(ctx, name)
			if errors.Is(err, client.ErrNoNode) {
				continue
			}
			if err != nil {
				return Item{}, err
			}
			// The claim, though it is over at once, is refused when somebody else has one.
			_, _, err = q.r.multi(ctx,
				client.CreateOp{Path: q.claim(name), ACL: q.o.ACL, Mode: client.Ephemeral},
				client.DeleteOp{Path: q.claim(name), Version: client.AnyVersion},
				client.DeleteOp{Path: q.entry(name), Version: st.Version})
			switch {
			case err == nil || client.MaybeApplied(err):
				return item, err
			case !another(err):
				return Item{}, err
			}
		}
	}
}

// another reports whether an item could not be had because it is gone, changed or claimed.
func another(err error) bool {
	return errors.Is(err, client.ErrNodeExists) || errors.Is(err, client.ErrNoNode) || errors.Is(err, client.ErrBadVersion)
}

func (q *Queue) read(ctx context.Context, name string) (item Item, st client.Stat, err error) {
	item = Item{Name: name, Priority: rank(name)}
	err = do(ctx, q.c, func() error {
		item.Data, st, err = q.c.Get(ctx, q.entry(name))
		return err
	})
	return item, st, err
}

// Len is the number of items, those claimed included. It goes on through disconnects. Errors: what ended ctx,
// client.ErrSessionExpired, client.ErrNoAuth.
func (q *Queue) Len(ctx context.Context) (n int, err error) {
	err = do(ctx, q.c, func() error {
		_, st, err := q.c.Get(ctx, child(q.path, "entries"))
		n = int(st.NumChildren)
		if errors.Is(err, client.ErrNoNode) {
			return nil
		}
		return err
	})
	return n, err
}

// free lists the items that nobody has claimed, in order, and waits for one.
func (q *Queue) free(ctx context.Context) (names []string, err error) {
	err = do(ctx, q.c, func() error {
		for {
			taken, _, changed, err := q.c.ChildrenW(ctx, child(q.path, "taken"))
			if errors.Is(err, client.ErrNoNode) {
				if err = q.make(ctx); err == nil {
					continue
				}
			}
			if err != nil {
				return err
			}
			all, _, grown, err := q.c.ChildrenW(ctx, child(q.path, "entries"))
			if err != nil {
				changed.Stop()
				if errors.Is(err, client.ErrNoNode) {
					if err = q.make(ctx); err == nil {
						continue
					}
				}
				return err
			}
			if names = unclaimed(all, taken); len(names) > 0 {
				changed.Stop()
				grown.Stop()
				return nil
			}
			if err := await(ctx, grown, changed); err != nil {
				return err
			}
		}
	})
	return names, err
}

// unclaimed sorts items by priority and number, without those that are claimed.
func unclaimed(all, taken []string) []string {
	claimed := make(map[string]bool, len(taken))
	for _, n := range taken {
		claimed[n] = true
	}
	var items []place
	for _, p := range line(all) {
		if !claimed[p.name] {
			items = append(items, p)
		}
	}
	slices.SortStableFunc(items, func(p, q place) int { return cmp.Compare(rank(p.name), rank(q.name)) })
	names := make([]string, len(items))
	for i, p := range items {
		names[i] = p.name
	}
	return names
}

// rank reads the priority out of "entry-100-0000000007".
func rank(name string) int {
	digits, _, _ := strings.Cut(strings.TrimPrefix(name, "entry-"), "-")
	n := 0
	for _, d := range digits {
		if d < '0' || d > '9' || len(digits) != 3 {
			return DefaultPriority
		}
		n = n*10 + int(d-'0')
	}
	if digits == "" {
		return DefaultPriority
	}
	return n
}
