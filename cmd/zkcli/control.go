package main

import (
	"context"
	"runtime/debug"
	"strconv"
)

func closeSession(_ context.Context, s *session, _ *invocation) error {
	if s.closed {
		return errNotConnected
	}
	s.closed = true
	return s.hangUp()
}

// connect begins a new session and waits for it, so that its exit code tells whether the server is there.
func connect(ctx context.Context, s *session, in *invocation) error {
	if len(in.args) == 1 {
		to, err := s.o.to(in.args[0])
		if err != nil {
			return err
		}
		s.o = to
	}
	_ = s.hangUp() // what the old server says is of no interest
	s.closed = true
	ctx, cancel := context.WithTimeout(ctx, s.o.wait)
	defer cancel()
	return s.dial(ctx, false)
}

func quit(_ context.Context, s *session, _ *invocation) error {
	s.quitting = true
	return nil
}

func history(_ context.Context, s *session, _ *invocation) error {
	if s.p.format == jsonFormat {
		type entry struct {
			Number  int    `json:"number"`
			Command string `json:"command"`
		}
		list := []entry{}
		for i := max(0, len(s.history)-historyShown); i < len(s.history); i++ {
			list = append(list, entry{i, s.history[i]})
		}
		s.p.value(map[string]any{"history": list})
		return nil
	}
	for i := max(0, len(s.history)-historyShown); i < len(s.history); i++ {
		s.p.line("%d - %s", i, s.history[i])
	}
	return nil
}

func redo(_ context.Context, s *session, in *invocation) error {
	n, err := strconv.Atoi(in.args[0])
	if err != nil || n < 0 || n >= len(s.history)-1 {
		return usagef("Command index out of range")
	}
	w, err := words(s.history[n])
	if err != nil {
		return err
	}
	if w[0] == "redo" {
		return usagef("No redoing redos")
	}
	s.history[len(s.history)-1] = s.history[n]
	return s.dispatch(w)
}

func printWatches(_ context.Context, s *session, in *invocation) error {
	if len(in.args) == 1 {
		if in.args[0] != "on" && in.args[0] != "off" {
			return usageError{in.cmd.usageText()}
		}
		s.printWatches.Store(in.args[0] == "on")
		return nil
	}
	state := "off"
	if s.printWatches.Load() {
		state = "on"
	}
	s.p.line("printwatches is %s", state)
	return nil
}

func printVersion(_ context.Context, s *session, _ *invocation) error {
	v := "devel"
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		v = info.Main.Version
	}
	if s.p.format == jsonFormat {
		s.p.value(map[string]any{"version": v})
		return nil
	}
	s.p.line("zkcli %s (commands of ZooKeeper CLI version: 3.9)", v)
	return nil
}
