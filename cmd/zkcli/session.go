package main

import (
	"bufio"
	"context"
	"errors"
	"io"
	"os"
	"os/signal"
	"strings"
	"sync/atomic"
	"time"

	"github.com/zkserver/zkserver/client"
)

// session is one run of zkcli: the client, made at its first use, and what the commands share.
type session struct {
	o     options
	p     *printer
	stdin io.Reader

	c            *client.Client // nil before the first use and after close
	closed       bool           // by the command close: nothing connects until connect
	interactive  bool           // more commands may follow: watches are printed
	interrupts   bool           // Ctrl-C ends the command, not the program
	printWatches atomic.Bool
	live         atomic.Pointer[liveWatch] // of the command watch, the last one; nil: there was none
	shown        chan struct{}             // closed when all that watches told is printed; nil: nobody prints
	watches      map[watchKey]func()       // those that stand, by what drops them here
	history      []string                  // every command of a shell or script, by number
	last         error                     // of the last command: the exit code
	progress     func()                    // a command of many steps calls it after each: it ends when one takes too long
	quitting     bool

	usualTerminal func() (back func()) // of a shell: makes the terminal what programs expect
}

// historyShown is how many commands the command history lists.
const historyShown = 11

// client gives the client once it is connected, and makes it if need be.
func (s *session) client(ctx context.Context) (*client.Client, error) {
	if s.closed {
		return nil, errNotConnected
	}
	ctx, cancel := context.WithTimeout(ctx, s.o.wait)
	defer cancel()
	if s.c == nil {
		err := s.dial(ctx, false)
		return s.c, err
	}
	return s.c, connected(ctx, s.c)
}

// dial makes the client. Without background it waits for the connection, and there is no client if that fails.
func (s *session) dial(ctx context.Context, background bool) error {
	c, err := client.Dial(ctx, s.o.server, client.Options{
		Wire:           s.o.wire,
		ReadOnly:       s.o.readOnly,
		SessionTimeout: s.o.timeout,
		Auth:           s.o.auth,
		NoWait:         background,
	})
	if err != nil {
		return err
	}
	s.c, s.closed = c, false
	s.watches = map[watchKey]func(){}
	if s.interactive {
		events, shown := c.Events(), make(chan struct{})
		s.shown = shown
		go func() { // ends with the client
			defer close(shown)
			s.show(events)
		}()
	}
	return nil
}

// connected waits until the session is served, or says why it is not.
func connected(ctx context.Context, c *client.Client) error {
	sub := c.Subscribe()
	defer sub.Stop()
	var last error
	for {
		select {
		case ch, ok := <-sub.C:
			switch {
			case ok && ch.State == client.Connected:
				return nil
			case ok && ch.State.Final():
				return ch.Err
			case !ok:
				return last
			}
			if ch.Err != nil {
				last = ch.Err
			}
		case <-ctx.Done():
			if last == nil {
				last = errors.New("no server answers")
			}
			return &client.Error{Op: "connect", Code: client.ErrNoServer, Cause: last}
		}
	}
}

// hangUp ends the session with the server.
func (s *session) hangUp() error {
	if s.c == nil {
		return nil
	}
	err := s.c.Close()
	s.c = nil
	if s.shown != nil {
		<-s.shown
		s.shown = nil
	}
	return err
}

func (s *session) close() { _ = s.hangUp() }

// execute runs one command and prints what went wrong.
func (s *session) execute(words []string) error {
	err := s.dispatch(words)
	if err != nil {
		var shown *shownError
		if !errors.As(err, &shown) {
			s.p.failure(err)
		}
	}
	return err
}

func (s *session) dispatch(words []string) error {
	cmd := commandNamed(words[0])
	if cmd == nil {
		return unknownCommand{words[0]}
	}
	in, err := cmd.parse(words[1:])
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancelCause(context.Background())
	defer cancel(nil)
	if (s.interrupts || cmd.long) && !cmd.signals {
		pressed, ended := make(chan os.Signal, 1), make(chan struct{})
		defer close(ended)
		signal.Notify(pressed, os.Interrupt)
		go func() { // ends with the command
			defer signal.Stop(pressed)
			select {
			case <-pressed:
				if s.p.errTTY && !s.interrupts { // the terminal has shown ^C
					s.p.note("")
				}
				cancel(errPressed)
				if s.interrupts { // else a second one ends the program
					<-ended
				}
			case <-ended:
			}
		}()
	}
	limit := s.o.wait + s.o.timeout
	if s.o.request != 0 {
		limit = s.o.request
	}
	idle := time.AfterFunc(limit, func() { cancel(errIdle) })
	defer idle.Stop()
	s.progress = func() { idle.Reset(limit) }
	if cmd.endless {
		idle.Stop()
		s.progress = func() {}
	}
	err = cmd.run(ctx, s, in)
	switch cause := context.Cause(ctx); {
	case err == nil:
	case cause == errPressed: //nolint:errorlint // it is given as it is
		return interrupted{err}
	case cause == errIdle: //nolint:errorlint // likewise
		return overdue{err, limit}
	}
	return err
}

// Why a command is ended from outside.
var (
	errPressed = errors.New("Ctrl-C was pressed")
	errIdle    = errors.New("nothing has happened for too long")
)

// shownError is an error that the command has printed already.
type shownError struct{ err error }

func (e *shownError) Error() string { return e.err.Error() }
func (e *shownError) Unwrap() error { return e.err }

// executeLine runs a line of a shell or script. It is remembered under the next number.
func (s *session) executeLine(line string) {
	w, err := words(line)
	if err == nil && len(w) == 0 {
		return
	}
	s.history = append(s.history, strings.TrimSpace(line))
	if err != nil {
		s.p.failure(err)
		s.last = err
		return
	}
	if err = s.execute(w); !s.quitting {
		s.last = err
	}
}

// script reads commands line by line. Its exit code is that of the last command, as zkCli's.
func (s *session) script(in io.Reader) int {
	s.interactive = true
	r := bufio.NewReader(in)
	for !s.quitting {
		line, err := r.ReadString('\n')
		s.executeLine(line)
		if err != nil {
			break
		}
	}
	return exitCode(s.last, s.o.compatExit)
}
