package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/zkserver/zkserver/client"
	"github.com/zkserver/zkserver/client/recipe"
)

// The tree.
const (
	idsPath      = "/brokers/ids"              // an ephemeral node for each broker that lives
	topicPath    = "/topics/orders/partitions" // a node for each partition
	electionPath = "/controller"               // the controllers' election
	epochPath    = "/controller_epoch"         // the newest controller's token, checked in each of its writes
)

func partitionPath(i int) string { return topicPath + "/" + strconv.Itoa(i) }

// broker is one process: it registers, follows the partitions, and takes part in the election of the controller.
type broker struct {
	id      int
	connect string
	timeout time.Duration // of its sessions

	ctx context.Context // of run

	// Of one session after the other; the goroutine of recipe.Lead has them.
	c  *client.Client
	wg sync.WaitGroup

	late sync.WaitGroup // of the writes of a former controller

	mu  sync.Mutex
	out io.Writer
}

func (b *broker) say(format string, args ...any) {
	b.mu.Lock()
	defer b.mu.Unlock()
	fmt.Fprintln(b.out, strings.ReplaceAll(fmt.Sprintf(format, args...), "\n", "; "))
}

// run takes part in as many sessions as it takes, until ctx ends.
func (b *broker) run(ctx context.Context) error {
	b.ctx = ctx
	defer b.late.Wait()
	defer b.wg.Wait()
	return recipe.Lead(ctx, b.dial, electionPath, recipe.Options{ID: strconv.Itoa(b.id)}, b.control)
}

// dial makes a session, and everything that lives as long as one.
func (b *broker) dial(ctx context.Context) (*client.Client, error) {
	b.wg.Wait() // what followed the partitions by the last one has ended with it
	c, err := client.Dial(ctx, b.connect, client.Options{SessionTimeout: b.timeout})
	if err != nil {
		return nil, err
	}
	if err := b.register(ctx, c); err != nil {
		_ = c.Close()
		return nil, err
	}
	b.c = c
	b.wg.Go(func() { b.follow(ctx, c) }) // ends with the session, or with ctx
	return c, nil
}

// register makes the broker's node. One that is there belongs to this broker's former session: it is waited for until that
// has ended, never written into, as it goes when that session does. After a lost reply it is this session's own.
func (b *broker) register(ctx context.Context, c *client.Client) error {
	path := idsPath + "/" + strconv.Itoa(b.id)
	for waits := false; ; {
		_, err := c.Create(ctx, path, []byte(b.connect), client.Ephemeral)
		switch {
		case err == nil:
			b.say("registered, session %#x", c.Session().ID)
			return nil
		case errors.Is(err, client.ErrConnectionLoss):
			continue
		case !errors.Is(err, client.ErrNodeExists):
			return err
		}
		st, there, w, err := c.ExistsW(ctx, path)
		switch {
		case errors.Is(err, client.ErrConnectionLoss):
			continue
		case err != nil:
			return err
		case there && st.EphemeralOwner == c.Session().ID:
			w.Stop()
			b.say("registered, session %#x", c.Session().ID)
			return nil
		}
		if there && !waits {
			waits = true
			b.say("waits for the end of its former session %#x", st.EphemeralOwner)
		}
		if there {
			select {
			case <-w.C:
			case <-ctx.Done():
			}
		}
		w.Stop()
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
}

// follow tells which partitions this broker leads, as long as the session may be alive: past two thirds of its timeout
// without an answer somebody else may lead.
func (b *broker) follow(ctx context.Context, c *client.Client) {
	hold, done := c.HoldContext(ctx)
	defer func() { done() }()
	leads := map[int]int{} // partition to leader epoch
	w, err := c.AddWatch(ctx, topicPath, client.WatchTree)
	for errors.Is(err, client.ErrConnectionLoss) {
		w, err = c.AddWatch(ctx, topicPath, client.WatchTree)
	}
	if err != nil {
		return
	}
	newest := map[int]int64{} // by partition, the newest controller that was heard of
	for look := true; ; {
		if look {
			all, err := readPartitions(ctx, c)
			for errors.Is(err, client.ErrConnectionLoss) {
				all, err = readPartitions(ctx, c)
			}
			if err != nil && (ctx.Err() != nil || c.State().Final()) {
				b.stopLeading(leads)
				return
			}
			for i, p := range all {
				if p.Controller < newest[i] {
					b.say("REFUSED: partition %d was written under token %#x, after %#x", i, p.Controller, newest[i])
				}
				newest[i] = max(newest[i], p.Controller)
				if epoch, led := leads[i]; p.Leader == b.id && (!led || epoch != p.LeaderEpoch) {
					leads[i] = p.LeaderEpoch
					b.say("leads partition %d, leader epoch %d", i, p.LeaderEpoch)
				} else if p.Leader != b.id && led {
					delete(leads, i)
					b.say("leads partition %d no more", i)
				}
			}
		}
		select {
		case ev, open := <-w.C:
			if !open || ev.Type == client.EventLost {
				b.stopLeading(leads)
				return
			}
			look = true
		case <-hold.Done():
			b.stopLeading(leads)
			if ctx.Err() != nil || c.State().Final() {
				return
			}
			done()
			// The session may turn out to be alive: what it leads is then read again.
			look = c.Sync(ctx, topicPath) == nil
			hold, done = c.HoldContext(ctx)
		}
	}
}

func (b *broker) stopLeading(leads map[int]int) {
	if len(leads) > 0 {
		b.say("leads partitions %v no more: its session may be over", slices.Sorted(maps.Keys(leads)))
		clear(leads)
	}
}

func liveBrokers(names []string) map[int]bool {
	live := map[int]bool{}
	for _, n := range names {
		if id, err := strconv.Atoi(n); err == nil {
			live[id] = true
		}
	}
	return live
}

// readToken is the newest controller's token, 0 before there is one; the watch tells of the next.
func readToken(ctx context.Context, c *client.Client) (int64, *client.Watch, error) {
	data, _, w, err := c.GetW(ctx, epochPath)
	if errors.Is(err, client.ErrNoNode) {
		_, _, w, err = c.ExistsW(ctx, epochPath)
		return 0, w, err
	}
	if err != nil {
		return 0, nil, err
	}
	token, err := strconv.ParseInt(string(data), 10, 64)
	return token, w, err
}
