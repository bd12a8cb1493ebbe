// Package mutation plants deliberate faults. A mutation is a small textual change of a shipped file that switches one
// rule off; what searches for faults must find it. Nothing of it is compiled into the product: the changed files reach
// the compiler through an overlay (go test -overlay). It imports the standard library only; begin reading at Parse,
// and see testdata/mutations for the faults themselves.
package mutation

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// Mutation is one deliberate fault.
type Mutation struct {
	Name  string   // of its file
	Rule  string   // what is broken, as the specification numbers it: "R1", "interleavings 12", "gate LeaderInfo"
	What  string   // in one sentence
	By    []string // who must find it: explorer, simulator, scenarios
	Edits []Edit
}

// Edit replaces a text that occurs exactly once in a file.
type Edit struct {
	File     string // slash-separated, from the root of the module
	Old, New string
}

// Finders are the names that By may hold.
var Finders = []string{"explorer", "simulator", "scenarios"}

// Parse reads a mutation:
//
//	rule: R1
//	what: an ack leaves before its op is durable
//	by: explorer simulator
//	file: zab/core.go
//	<<<<
//	the exact old text
//	====
//	the new one
//	>>>>
//
// The last line of either may be a part of one. "file" with its edit may be repeated; an edit without "file" is of the file before. Lines that begin with # and empty
// lines between the parts are passed over.
func Parse(name string, text []byte) (Mutation, error) {
	m := Mutation{Name: name}
	var file string
	var part *[]string
	var old, repl []string
	lines := bufio.NewScanner(bytes.NewReader(text))
	for n := 1; lines.Scan(); n++ {
		line := lines.Text()
		fail := func(format string, args ...any) (Mutation, error) {
			return m, fmt.Errorf("%s:%d: %s", name, n, fmt.Sprintf(format, args...))
		}
		switch {
		case line == "<<<<":
			if part != nil || file == "" {
				return fail("an edit begins inside another, or before its file is named")
			}
			old, repl = nil, nil
			part = &old
		case line == "====" && part == &old:
			part = &repl
		case line == ">>>>":
			if part != &repl {
				return fail("an edit ends that has no two parts")
			}
			if len(old) == 0 || slices.Equal(old, repl) {
				return fail("an edit that changes nothing")
			}
			m.Edits = append(m.Edits, Edit{File: file, Old: strings.Join(old, "\n"), New: strings.Join(repl, "\n")})
			part = nil
		case part != nil:
			*part = append(*part, line)
		case line == "" || strings.HasPrefix(line, "#"):
		default:
			key, value, ok := strings.Cut(line, ":")
			if value = strings.TrimSpace(value); !ok || value == "" {
				return fail("not understood: %q", line)
			}
			switch key {
			case "rule":
				m.Rule = value
			case "what":
				m.What = value
			case "by":
				m.By = strings.Fields(value)
				for _, by := range m.By {
					if !slices.Contains(Finders, by) {
						return fail("nobody is called %q", by)
					}
				}
			case "file":
				file = value
			default:
				return fail("unknown key %q", key)
			}
		}
	}
	if part != nil {
		return m, fmt.Errorf("%s: the last edit does not end", name)
	}
	if m.Rule == "" || m.What == "" || len(m.By) == 0 || len(m.Edits) == 0 {
		return m, fmt.Errorf("%s: rule, what, by and an edit are wanted", name)
	}
	return m, lines.Err()
}

// Load parses every *.txt of a directory, in the order of their names.
func Load(dir fs.FS) ([]Mutation, error) {
	names, err := fs.Glob(dir, "*.txt")
	if err != nil {
		return nil, err
	}
	var all []Mutation
	var errs []error
	for _, name := range names {
		text, err := fs.ReadFile(dir, name)
		if err != nil {
			return nil, err
		}
		m, err := Parse(strings.TrimSuffix(path.Base(name), ".txt"), text)
		errs = append(errs, err)
		all = append(all, m)
	}
	return all, errors.Join(errs...)
}

// Apply returns the changed files. It fails when an old text is not found exactly once: the fault would not be planted.
func (m Mutation) Apply(root fs.FS) (map[string][]byte, error) {
	changed := map[string][]byte{}
	for i, e := range m.Edits {
		text, ok := changed[e.File]
		if !ok {
			var err error
			if text, err = fs.ReadFile(root, e.File); err != nil {
				return nil, fmt.Errorf("mutation %s: %w", m.Name, err)
			}
		}
		if n := bytes.Count(text, []byte(e.Old)); n != 1 {
			return nil, fmt.Errorf("mutation %s: edit %d: its old text is found %d times in %s, not once", m.Name, i+1, n, e.File)
		}
		changed[e.File] = bytes.Replace(text, []byte(e.Old), []byte(e.New), 1)
	}
	return changed, nil
}

// Overlay writes the changed files and the overlay that names them into dir, and returns the overlay's path, for
// go build -overlay. Root is the directory of the module.
func (m Mutation) Overlay(root, dir string) (string, error) {
	root, err := filepath.Abs(root)
	if err != nil {
		return "", err
	}
	changed, err := m.Apply(os.DirFS(root))
	if err != nil {
		return "", err
	}
	replace := map[string]string{}
	for file, text := range changed {
		to := filepath.Join(dir, strings.ReplaceAll(file, "/", "_"))
		if err := os.WriteFile(to, text, 0o600); err != nil {
			return "", err
		}
		replace[filepath.Join(root, filepath.FromSlash(file))] = to
	}
	text, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return "", err
	}
	overlay := filepath.Join(dir, "overlay.json")
	return overlay, os.WriteFile(overlay, text, 0o600)
}
