package recipe_test

import (
	"go/format"
	"os"
	"strings"
	"testing"
)

// The program in the README that elects a leader stays short, and is Go.
func TestReadmeProgram(t *testing.T) {
	readme, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, found := strings.Cut(string(readme), "```go\npackage main\n")
	text, _, closed := strings.Cut(rest, "```")
	if !found || !closed || !strings.Contains(text, "recipe.Lead(") {
		t.Fatal("the README has no such program")
	}
	text = "package main\n" + text
	if got, err := format.Source([]byte(text)); err != nil || string(got) != text {
		t.Errorf("not formatted, or not Go: %v", err)
	}
	lines := 0
	for l := range strings.Lines(text) {
		if strings.TrimSpace(l) != "" {
			lines++
		}
	}
	if lines >= 20 {
		t.Errorf("%d lines", lines)
	}
}
