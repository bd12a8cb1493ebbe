package main

import (
	"bufio"
	"errors"
	"os"
	"path/filepath"
	"strings"
)

// historyKept is how many lines of earlier shells are offered.
const historyKept = 1000

// historyFile is where the shell keeps its lines: $ZKCLI_HISTORY, default .zkcli_history in the home directory. Empty: nowhere.
func historyFile(getenv func(string) string) string {
	if f := getenv("ZKCLI_HISTORY"); f != "" {
		return f
	}
	if home := getenv("HOME"); home != "" {
		return filepath.Join(home, ".zkcli_history")
	}
	return ""
}

// lineHistory is the history that the arrow keys walk through, kept in a file of one line each. Lines with credentials are
// never written. A file that cannot be read or written costs the memory of earlier shells only.
type lineHistory struct {
	file  string
	lines []string
}

func openHistory(file string) *lineHistory {
	h := &lineHistory{file: file}
	f, err := os.Open(file)
	if err != nil {
		return h
	}
	defer f.Close()
	for sc := bufio.NewScanner(f); sc.Scan(); {
		h.lines = append(h.lines, sc.Text())
	}
	if n := len(h.lines); n > historyKept {
		h.lines = h.lines[n-historyKept:]
	}
	return h
}

// Write adds a line; it is readline's interface that it is called so.
func (h *lineHistory) Write(s string) (int, error) {
	s = strings.TrimSpace(s)
	if s == "" || len(h.lines) > 0 && h.lines[len(h.lines)-1] == s {
		return len(h.lines), nil
	}
	h.lines = append(h.lines, s)
	if h.file == "" || strings.HasPrefix(s, "addauth") || strings.Contains(s, "\n") {
		return len(h.lines), nil
	}
	f, err := os.OpenFile(h.file, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		h.file = ""
		return len(h.lines), nil
	}
	_, err = f.WriteString(s + "\n")
	return len(h.lines), errors.Join(err, f.Close())
}

// GetLine gives a line by its number.
func (h *lineHistory) GetLine(i int) (string, error) {
	if i < 0 || i >= len(h.lines) {
		return "", errors.New("no such line")
	}
	return h.lines[i], nil
}

// Len is the number of lines.
func (h *lineHistory) Len() int { return len(h.lines) }

// Dump gives all lines.
func (h *lineHistory) Dump() any { return h.lines }
