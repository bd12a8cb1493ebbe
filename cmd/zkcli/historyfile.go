package main

import (
	"bufio"
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

// readHistory gives the last lines of earlier shells. A file that cannot be read costs no more than them.
func readHistory(file string) []string {
	f, err := os.Open(file)
	if err != nil {
		return nil
	}
	defer func() { _ = f.Close() }()
	var lines []string
	for sc := bufio.NewScanner(f); sc.Scan(); {
		lines = append(lines, sc.Text())
	}
	return lines[max(0, len(lines)-historyKept):]
}

// appendHistory keeps a line for later shells; never one with credentials. What cannot be kept is not: the shell goes on.
func appendHistory(file, line string) {
	line = strings.TrimSpace(line)
	if file == "" || strings.HasPrefix(line, "addauth") {
		return
	}
	f, err := os.OpenFile(file, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return
	}
	defer func() { _ = f.Close() }()
	_, _ = f.WriteString(line + "\n")
}
