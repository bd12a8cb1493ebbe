package main

import (
	"context"
	"math"
	"strconv"
	"time"

	"github.com/zkserver/zkserver/client"
)

// watchLive prints events of a node, or of a tree, until it is stopped or has seen as many as asked for.
func watchLive(ctx context.Context, s *session, in *invocation) error {
	count := noLimit
	if n, ok := in.opts["c"]; ok {
		var err error
		if count, err = strconv.Atoi(n); err != nil || count < 1 {
			return usagef("count %q: want a positive number", n)
		}
	}
	path, mode := in.args[0], client.WatchNode
	if in.has("r") {
		mode = client.WatchTree
	}
	c, err := s.node(ctx, path)
	if err != nil {
		return err
	}
	live := liveWatch{path: path, tree: mode == client.WatchTree, last: math.MaxInt64}
	s.live.Store(&live)
	ended := live
	ended.last = math.MinInt64
	defer func() { s.live.Store(&ended) }()
	w, err := c.AddWatch(ctx, path, mode)
	if err != nil {
		return err
	}
	defer func() {
		end, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		_ = w.Remove(end)
	}()
	s.p.note("watching %s", path)
	for range count {
		select {
		case ev, ok := <-w.C:
			if ev.Zxid > 0 { // else the server does not tell it
				ended.last = ev.Zxid
			}
			switch {
			case !ok || ev.Type == client.EventLost:
				return ev.Err
			case s.p.format == jsonFormat:
				s.p.value(map[string]any{"event": ev.Type.String(), "path": ev.Path, "zxid": ev.Zxid})
			case ev.Type == client.EventRearmed:
				s.p.line("reconnected: what happened meanwhile is not told")
			default:
				s.p.line("%#x %s %s", uint64(ev.Zxid), s.p.paint(eventColours[ev.Type], ev.Type.String()), ev.Path)
			}
		case <-ctx.Done():
			if in.has("c") {
				return ctx.Err()
			}
			return nil // this is how it ends
		}
	}
	return nil
}

// eventColours are of what has happened to a node.
var eventColours = map[client.EventType]colour{client.EventCreated: green, client.EventDeleted: red, client.EventDataChanged: yellow}
