package main

import (
	"context"
	"slices"
	"strings"

	"github.com/zkserver/zkserver/client"
)

// watchKey names the watches that are one to the server.
type watchKey struct {
	kind client.WatcherType
	path string
}

// show prints what watches tell while more commands follow, each event of the server's once.
func (s *session) show(events *client.EventStream) {
	for ev := range events.C {
		if ev.Type != client.EventLost && s.printWatches.Load() && !s.live.Load().tells(ev) {
			s.p.event(ev.Type.String(), ev.Path, ev.Zxid)
		}
	}
}

// liveWatch is the command watch, which prints what its watch tells itself.
type liveWatch struct {
	path string
	tree bool
	last int64 // no event of a later transaction: the command has ended
}

// tells reports whether an event is printed by the command. Of none it is not.
func (w *liveWatch) tells(ev client.Event) bool {
	switch {
	case w == nil || ev.Zxid > w.last:
		return false
	case w.tree:
		return ev.Type != client.EventChildrenChanged && (ev.Path == w.path || strings.HasPrefix(ev.Path, strings.TrimSuffix(w.path, "/")+"/"))
	}
	return ev.Path == w.path
}

// follow keeps a watch, so that it is armed again after a reconnect. One command alone does not wait for its event.
func (s *session) follow(key watchKey, w *client.Watch) {
	switch {
	case w == nil:
	case !s.interactive:
		w.Stop()
	default:
		s.drop(key)
		s.watches[key] = w.Stop
	}
}

// drop forgets a watch here, and reports whether there was one.
func (s *session) drop(key watchKey) bool {
	stop, ok := s.watches[key]
	if ok {
		delete(s.watches, key)
		stop()
	}
	return ok
}

func addWatch(ctx context.Context, s *session, in *invocation) error {
	mode := client.WatchTree
	if m, ok := in.opts["m"]; ok {
		switch strings.ToUpper(m) {
		case "PERSISTENT":
			mode = client.WatchNode
		case "PERSISTENT_RECURSIVE":
		default:
			return usageError{in.cmd.usageText()}
		}
	}
	path := in.args[0]
	c, err := s.node(ctx, path)
	if err != nil {
		return err
	}
	w, err := c.AddWatch(ctx, path, mode)
	if err != nil {
		return err
	}
	go func() { // ends with the watch: show prints what it tells
		for range w.C {
		}
	}()
	key := watchKey{client.WatchersNode + client.WatcherType(mode), path}
	s.drop(key)
	s.watches[key] = func() { _ = w.Remove(ctx) }
	if s.p.format == jsonFormat {
		s.p.value(map[string]any{"path": path, "recursive": mode == client.WatchTree})
	}
	return nil
}

// removals are the kinds of watches that the server tells apart, and the events that tell of their removal.
var removals = []struct {
	option string
	kind   client.WatcherType
	event  string
}{
	{"c", client.WatchersChildren, "ChildWatchRemoved"},
	{"d", client.WatchersData, "DataWatchRemoved"},
	{"p", client.WatchersNode, "PersistentWatchRemoved"},
	{"r", client.WatchersTree, "PersistentWatchRemoved"},
}

func removeWatches(ctx context.Context, s *session, in *invocation) error {
	path := in.args[0]
	kinds := removals
	for i, r := range removals {
		if in.has(r.option) {
			kinds = removals[i : i+1]
			break
		}
	}
	if err := checkPath(path); err != nil {
		return err
	}
	var gone []string
	c, err := s.client(ctx)
	switch {
	case err != nil && !in.has("l"):
		return err
	case err != nil:
		for _, r := range kinds {
			if s.drop(watchKey{r.kind, path}) {
				gone = append(gone, r.event)
			}
		}
		if gone == nil {
			return &client.Error{Op: "removeWatches", Path: path, Code: client.ErrNoWatcher}
		}
	default:
		for _, r := range kinds {
			if c.CheckWatches(ctx, path, r.kind) == nil {
				gone = append(gone, r.event)
			}
		}
		kind := client.WatchersAny
		if len(kinds) == 1 {
			kind = kinds[0].kind
		}
		if err := c.RemoveWatches(ctx, path, kind); err != nil {
			return err
		}
		for _, r := range kinds {
			delete(s.watches, watchKey{r.kind, path}) // they have ended
		}
	}
	gone = slices.Compact(gone)
	if s.p.format == jsonFormat {
		s.p.value(map[string]any{"path": path, "removed": gone})
	}
	if s.interactive && s.printWatches.Load() {
		for _, event := range gone {
			s.p.event(event, path, -1)
		}
	}
	return nil
}
