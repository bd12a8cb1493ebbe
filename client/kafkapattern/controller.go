package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/zkserver/zkserver/client"
	"github.com/zkserver/zkserver/client/recipe"
)

// control is what the broker that leads the election does, until it does not any more: it keeps the partitions as the plan
// wants them. Each change is a multi that checks the epoch node (recipe.Fence), so that nothing of it takes effect once
// another controller has begun.
func (b *broker) control(h *recipe.Hold) error {
	ctx := h.Context()
	fence, err := h.Fence(ctx, epochPath)
	if err != nil {
		b.say("no controller after all: %v", err)
		return nil
	}
	b.say("controller, by token %#x", h.Token())
	var view []client.Op
	for fenced := false; ctx.Err() == nil && !fenced; {
		now, w, err := b.assign(ctx, fence, h.Token())
		switch {
		case err == nil:
			view = now
			select {
			case <-w.C:
			case <-ctx.Done():
			}
			w.Stop()
		case errors.Is(err, recipe.ErrFenced):
			b.say("fenced: %v", err)
			fenced = true
		case errors.Is(err, client.ErrBadVersion), errors.Is(err, client.ErrConnectionLoss):
			_ = b.c.Sync(ctx, idsPath) // somebody else has written, or the connection broke: look again
		case ctx.Err() == nil && !b.c.State().Final():
			return err
		}
	}
	b.say("no controller any more: %v", context.Cause(ctx))
	stale := &staleWrite{fence: fence, token: h.Token(), ops: view}
	b.late.Go(func() { stale.send(b.ctx, b) }) // ends when it was refused, or with the process
	return nil
}

// assign looks who lives, writes what has to change, and returns a watch for the next change of who lives. It also returns
// the view that it went by, as operations that would write it again.
func (b *broker) assign(ctx context.Context, fence *recipe.Fence, token int64) (view []client.Op, w *client.Watch, err error) {
	names, _, w, err := b.c.ChildrenW(ctx, idsPath)
	if err != nil {
		return nil, nil, err
	}
	defer func() {
		if err != nil {
			w.Stop()
		}
	}()
	all, err := readPartitions(ctx, b.c)
	if err != nil {
		return nil, nil, err
	}
	live := liveBrokers(names)
	var changes []client.Op
	for _, p := range all {
		next, changed := plan(p.partition, live)
		next.Controller = token
		data, err := json.Marshal(next)
		if err != nil {
			return nil, nil, err
		}
		if changed {
			changes = append(changes, client.SetOp{Path: p.path, Data: data, Version: p.version})
		}
		view = append(view, client.SetOp{Path: p.path, Data: data, Version: client.AnyVersion})
	}
	if len(changes) == 0 {
		return view, w, nil
	}
	_, err = fence.Multi(ctx, changes...)
	if err == nil {
		b.say("controller: brokers %v live, %d partitions changed", names, len(changes))
	}
	return view, w, err
}

// staleWrite is what a former controller had under way when it was stopped: it knows nothing of what came after.
type staleWrite struct {
	fence *recipe.Fence
	token int64
	ops   []client.Op
}

// send lets it arrive once another controller has begun, by a session that is alive. It has to be refused.
func (s *staleWrite) send(ctx context.Context, b *broker) {
	c, err := client.Dial(ctx, b.connect, client.Options{})
	if err != nil {
		return // the process ends
	}
	defer func() { _ = c.Close() }() // where it cannot, the session is left to its timeout
	for ctx.Err() == nil && !c.State().Final() {
		token, w, err := readToken(ctx, c)
		if err != nil {
			continue // it waits for a connection
		}
		if token > s.token {
			w.Stop()
			_, err = c.Multi(ctx, append([]client.Op{s.fence.Check()}, s.ops...)...)
			switch {
			case errors.Is(err, client.ErrBadVersion):
				b.say("fenced: a late write under token %#x was refused, the controller's is %#x", s.token, token)
				return
			case err == nil:
				b.say("NOT FENCED: a late write under token %#x took effect, the controller's is %#x", s.token, token)
				return
			}
			continue
		}
		select {
		case <-w.C:
		case <-ctx.Done():
		}
	}
}

// placed is a partition with its node.
type placed struct {
	partition
	path    string
	version int32
}

func readPartitions(ctx context.Context, c *client.Client) ([]placed, error) {
	names, _, err := c.Children(ctx, topicPath)
	if err != nil {
		return nil, err
	}
	var all []placed
	for i := range names {
		p, err := readPartition(ctx, c, partitionPath(i))
		if err != nil {
			return nil, err
		}
		all = append(all, p)
	}
	return all, nil
}

func readPartition(ctx context.Context, c *client.Client, path string) (placed, error) {
	data, st, err := c.Get(ctx, path)
	if err != nil {
		return placed{}, err
	}
	p := placed{path: path, version: st.Version}
	if err := json.Unmarshal(data, &p.partition); err != nil {
		return placed{}, fmt.Errorf("%s: %w", path, err)
	}
	return p, nil
}
