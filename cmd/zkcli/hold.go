package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"syscall"
	"time"

	"github.com/zkserver/zkserver/client"
	"github.com/zkserver/zkserver/client/recipe"
)

// elect runs a command while this process leads, or lists who takes part.
func elect(ctx context.Context, s *session, in *invocation) error {
	return s.held(ctx, in, func(c *client.Client, path string, o recipe.Options) func(context.Context) (*recipe.Hold, error) {
		return recipe.NewElection(c, path, o).Campaign
	})
}

// lock runs a command while this process has a lock, or lists who has it and who waits.
func lock(ctx context.Context, s *session, in *invocation) error {
	return s.held(ctx, in, func(c *client.Client, path string, o recipe.Options) func(context.Context) (*recipe.Hold, error) {
		// Nodes of a mutex are what other libraries' locks look for; readers wait for them too.
		m, readers := recipe.NewMutex(c, path, o), recipe.NewRWMutex(c, path, o)
		switch shared, once := in.has("s"), in.has("n"); {
		case shared && once:
			return readers.TryRLock
		case shared:
			return readers.RLock
		case once:
			return m.TryLock
		default:
			return m.Lock
		}
	})
}

// holding is one command that is run under a Hold.
type holding struct {
	s           *session
	c           *client.Client
	path        string
	argv        []string
	exe         string
	wait, grace time.Duration // a wait of 0 has no end; a negative grace is the usual one
	signals     chan os.Signal
}

// passedSignals are passed on to the command. While there is none they end the waiting.
var passedSignals = []os.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGUSR1, syscall.SIGUSR2}

func (s *session) held(ctx context.Context, in *invocation, by func(c *client.Client, path string, o recipe.Options) func(context.Context) (*recipe.Hold, error)) error {
	h := &holding{s: s, path: in.args[0], argv: in.args[1:], signals: make(chan os.Signal, 16)}
	if h.path == "/" {
		return usagef("the root is no place for a lock or an election: want a path like /locks/NAME")
	}
	var err error
	if h.wait, err = in.milliseconds("w", 0); err != nil {
		return err
	}
	if h.grace, err = in.milliseconds("grace", -1); err != nil {
		return err
	}
	if err := checkPath(h.path); err != nil {
		return err
	}
	if len(h.argv) > 0 {
		if h.exe, err = exec.LookPath(h.argv[0]); err != nil {
			s.p.failure(err)
			if errors.Is(err, exec.ErrNotFound) || errors.Is(err, fs.ErrNotExist) {
				return &shownError{statusError{exitNotFound, err.Error()}}
			}
			return &shownError{statusError{exitNotRunnable, err.Error()}}
		}
	}
	for _, sig := range passedSignals {
		if !signal.Ignored(sig) { // as nohup has it, and the shell for what runs in the background
			signal.Notify(h.signals, sig)
		}
	}
	defer signal.Stop(h.signals)
	own := session{o: s.o, p: s.p} // what it holds ends with the command, and a shell does not print what it watches
	if h.c, err = own.client(ctx); err != nil {
		return err
	}
	defer own.close()
	if len(h.argv) == 0 {
		return h.list(ctx)
	}
	if _, most := h.graces(); h.grace > most {
		return usagef("-grace %s: at most a third of the session's timeout, which the server has set to %s, is left from the loss until somebody else can hold",
			h.grace, h.c.Session().Timeout)
	}
	host, _ := os.Hostname() // empty if it cannot be told
	id := cmp.Or(in.opts["id"], fmt.Sprintf("%s pid %d", host, os.Getpid()))
	hold, err := h.take(ctx, by(h.c, h.path, recipe.Options{ID: id}))
	if err != nil {
		return err
	}
	code, err := h.run(hold)
	if e := h.release(hold); err == nil {
		err = e
	}
	if err == nil && code != 0 {
		err = &shownError{statusError{code, "the command ended with " + strconv.Itoa(code)}}
	}
	return err
}

// graces are how long the command has from SIGTERM to SIGKILL, and how long it may have. The session's timeout is the
// server's word, and another server may give another. At two thirds of it what is held is lost: a third is left until
// anybody else can hold.
func (h *holding) graces() (grace, most time.Duration) {
	timeout := h.c.Session().Timeout
	grace, most = h.grace, timeout/3
	if grace < 0 {
		grace = timeout / 4
	}
	return min(grace, most), most
}

// milliseconds is the value of an option.
func (in *invocation) milliseconds(name string, otherwise time.Duration) (time.Duration, error) {
	v, ok := in.opts[name]
	if !ok {
		return otherwise, nil
	}
	ms, err := strconv.ParseUint(v, 10, 31)
	if err != nil {
		return 0, usagef("-%s %q: want milliseconds", name, v)
	}
	return time.Duration(ms) * time.Millisecond, nil
}

// take waits for the Hold, a signal, or the end of the patience.
func (h *holding) take(ctx context.Context, take func(context.Context) (*recipe.Hold, error)) (*recipe.Hold, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var patience <-chan time.Time
	if h.wait > 0 {
		t := time.NewTimer(h.wait)
		defer t.Stop()
		patience = t.C
	}
	type taken struct {
		hold *recipe.Hold
		err  error
	}
	got := make(chan taken, 1)
	go func() { // ends with its context at the latest
		hold, err := take(ctx)
		got <- taken{hold, err}
	}()
	var end error
	for {
		select {
		case t := <-got:
			switch {
			case end != nil && t.err == nil:
				return nil, errors.Join(end, h.release(t.hold))
			case end != nil:
				return nil, end
			case errors.Is(t.err, recipe.ErrBusy):
				return nil, h.busy()
			case errors.Is(t.err, recipe.ErrGone):
				return nil, fmt.Errorf("%s: somebody has removed the node that was waited with", h.path)
			}
			return t.hold, t.err
		case sig := <-h.signals:
			end = statusError{exitSignal + number(sig), "not waiting any more: " + sig.String()}
			cancel()
		case <-patience:
			end = h.busy()
			cancel()
		}
	}
}

// busy says who has what was asked for.
func (h *holding) busy() error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	by := "somebody else"
	if p, ok, err := recipe.NewElection(h.c, h.path, recipe.Options{}).Leader(ctx); err == nil && ok {
		by = fmt.Sprintf("%s (%s)", cmp.Or(printable([]byte(p.ID)), "nobody who says a name"), p.Path)
	}
	return statusError{exitNotHad, h.path + " is held by " + by}
}

// lostWait is how long a place that is lost is tried to be given up.
const lostWait = time.Second

// release gives the place up. Where the server cannot be reached, the session's end does it.
func (h *holding) release(hold *recipe.Hold) error {
	wait := h.s.o.wait
	if hold.Context().Err() != nil {
		wait = min(wait, lostWait)
	}
	ctx, cancel := context.WithTimeout(context.Background(), wait)
	defer cancel()
	err := hold.Release(ctx)
	if errors.Is(err, context.DeadlineExceeded) {
		h.s.p.note("%s is given up when the session ends, which a server has to see: no server answers. Its timeout is %s", h.path, h.c.Session().Timeout)
		return nil
	}
	return err
}

// run runs the command until it ends, and ends it when the Hold does.
func (h *holding) run(hold *recipe.Hold) (code int, err error) {
	if h.s.usualTerminal != nil {
		defer h.s.usualTerminal()()
	}
	ch, err := h.start(hold)
	if err != nil {
		return 0, err
	}
	defer ch.leave()
	lost := hold.Context().Done()
	var why error
	var over <-chan time.Time
	killed := false
	var late time.Duration // how long ago it may have been lost
	for {
		select {
		case ws := <-ch.changes:
			switch {
			case ws.Stopped():
				began := time.Now()
				ch.suspend(func() bool { return hold.Context().Err() == nil })
				if why == nil && hold.Context().Err() != nil { // somebody else may have it by now
					late = time.Since(began)
				}
				continue
			case why != nil: // what it has started is to end too
				if !killed {
					ch.drain(over)
				}
				return 0, statusError{exitLost, fmt.Sprintf("%s was lost (%v): the command was ended", h.path, why)}
			case ws.Signaled():
				return exitSignal + int(ws.Signal()), nil
			}
			return ws.ExitStatus(), nil
		case sig := <-h.signals:
			ch.signal(sig)
		case <-lost:
			lost, why = nil, context.Cause(hold.Context())
			grace, _ := h.graces()
			grace = max(0, grace-late)
			h.s.p.note("%s is lost (%v): the command gets SIGTERM, and SIGKILL after %s", h.path, why, grace)
			ch.signal(syscall.SIGTERM)
			ch.signal(syscall.SIGCONT)
			t := time.NewTimer(grace)
			defer t.Stop()
			over = t.C
		case <-over:
			killed = true
			ch.signal(syscall.SIGKILL)
		}
	}
}

// list prints who takes part, the holder first.
func (h *holding) list(ctx context.Context) error {
	all, err := recipe.NewElection(h.c, h.path, recipe.Options{}).Participants(ctx)
	if err != nil {
		return err
	}
	if h.s.p.format == jsonFormat {
		type entry struct {
			ID      string `json:"id"`
			Token   int64  `json:"token"`
			Session string `json:"session"`
			Node    string `json:"node"`
		}
		list := []entry{}
		for _, p := range all {
			list = append(list, entry{p.ID, p.Token, fmt.Sprintf("%#x", uint64(p.Session)), p.Path})
		}
		h.s.p.value(map[string]any{"path": h.path, "participants": list})
		return nil
	}
	if len(all) == 0 {
		h.s.p.note("nobody takes part in %s", h.path)
		return nil
	}
	rows := [][]cell{{{text: "PLACE"}, {text: "TOKEN", right: true}, {text: "SESSION"}, {text: "WHO"}, {text: "NODE"}}}
	for i, p := range all {
		place := cell{text: "waits"}
		if i == 0 {
			place = cell{text: "first", colour: green}
		}
		rows = append(rows, []cell{place, {text: strconv.FormatInt(p.Token, 10), right: true}, {text: fmt.Sprintf("%#x", uint64(p.Session))}, {text: printable([]byte(p.ID))}, {text: p.Path}})
	}
	h.s.p.table(rows)
	return nil
}

func number(sig os.Signal) int {
	n, _ := sig.(syscall.Signal)
	return int(n)
}
