package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/peterh/liner"
	"golang.org/x/term"

	"github.com/zkserver/zkserver/client"
)

// shell reads commands from a terminal until quit or the end of input (Ctrl-D). Its exit code is that of the last command.
func (s *session) shell(getenv func(string) string) int {
	s.interactive, s.interrupts = true, true
	s.p.note("Connecting to %s", s.o.shown())
	if err := s.dial(context.Background(), true); err != nil {
		s.p.failure(err)
		return exitCode(err, s.o.compatExit)
	}
	ctx, cancel := context.WithTimeout(context.Background(), waits.prompt)
	_ = connected(ctx, s.c) // the prompt says how it went
	cancel()
	file := historyFile(getenv)
	stdin := int(os.Stdin.Fd())
	if usual, err := term.GetState(stdin); err == nil {
		s.usualTerminal = func() func() {
			editing, err := term.GetState(stdin)
			if err != nil {
				return func() {}
			}
			_ = term.Restore(stdin, usual) // else the command has an odd terminal
			return func() { _ = term.Restore(stdin, editing) }
		}
	}
	line := liner.NewLiner()
	defer func() { _ = line.Close() }() // gives the terminal back
	line.SetCtrlCAborts(true)
	line.SetTabCompletionStyle(liner.TabPrints)
	line.SetWordCompleter(s.complete)
	for _, l := range readHistory(file) {
		line.AppendHistory(l)
	}
	for !s.quitting {
		columns, _, _ := term.GetSize(int(os.Stdout.Fd())) // 0 if it cannot be told
		prompt := s.prompt(columns)
		s.p.setPrompt(prompt)
		text, err := line.Prompt(prompt)
		s.p.setPrompt("")
		switch {
		case errors.Is(err, liner.ErrPromptAborted):
			continue // Ctrl-C drops the line
		case errors.Is(err, io.EOF):
			s.p.note("")
			return exitCode(s.last, s.o.compatExit)
		case err != nil:
			s.p.failure(err)
			return exitFailed
		}
		if strings.TrimSpace(text) != "" {
			line.AppendHistory(text)
			appendHistory(file, text)
		}
		s.executeLine(text)
	}
	return exitCode(s.last, s.o.compatExit)
}

// prompt is zkCli's: server, state, number of the command. Of a list that takes more than half of a line the first server
// is shown, of a long name the first part: a line editor needs room.
func (s *session) prompt(columns int) string {
	text := func(server string) string {
		return fmt.Sprintf("[zk: %s(%s) %d] ", server, s.stateName(), len(s.history))
	}
	full := text(s.o.shown())
	if columns <= 0 || len(full) <= columns/2 {
		return full
	}
	first, _, more := strings.Cut(s.o.shown(), ",")
	if more {
		first += ",..."
	}
	if short := text(first); len(short) <= columns*3/4 {
		return short
	}
	return text("...")
}

func (s *session) stateName() string {
	if s.c == nil {
		return "CLOSED"
	}
	switch s.c.State() {
	case client.Connected:
		return "CONNECTED"
	case client.Connecting, client.Suspended, client.Lost:
		return "CONNECTING"
	case client.AuthFailed:
		return "AUTH_FAILED"
	}
	return "CLOSED"
}

// complete is what liner asks: what the word before the cursor may become, and what stands around it.
func (s *session) complete(text string, cursor int) (head string, words []string, tail string) {
	runes := []rune(text)
	before := string(runes[:cursor])
	start := strings.LastIndexByte(before, ' ') + 1
	word := before[start:]
	for _, v := range s.candidates(strings.Fields(before[:start]), word) {
		if v, _, _ = strings.Cut(v, "\t"); strings.HasPrefix(v, word) {
			words = append(words, v)
		}
	}
	if len(words) == 1 && cursor == len(runes) && !strings.HasPrefix(words[0], "/") && !strings.HasPrefix(words[0], "@") {
		words[0] += " " // a path and an ensemble's name may go on
	}
	return before[:start], words, string(runes[cursor:])
}

// childPaths are the children of the node that a word has come to. Names that would have to be quoted are left out.
func (s *session) childPaths(word string) []string {
	if s.c == nil || s.c.State() != client.Connected {
		return nil
	}
	parent := word[:strings.LastIndexByte(word, '/')]
	if parent == "" {
		parent = "/"
	}
	ctx, cancel := context.WithTimeout(context.Background(), waits.names)
	defer cancel()
	names, _, err := s.children(ctx, s.c, parent, false)
	if err != nil {
		return nil
	}
	var out []string
	for _, n := range names {
		if !strings.ContainsAny(n, " \t\n'\"") {
			out = append(out, join(parent, n))
		}
	}
	return out
}
