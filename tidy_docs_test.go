package zkserver_test

import (
	"fmt"
	"io/fs"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
)

// TestDocs: what the Markdown files name exists: files behind links, make targets, packages and files of ours in
// backquotes, tests; and ARCHITECTURE.md names every package that has a row in the table of arrows.
func TestDocs(t *testing.T) {
	for _, f := range checkDocs(os.DirFS(".")) {
		t.Error(f)
	}
	text, err := os.ReadFile("ARCHITECTURE.md")
	if err != nil {
		t.Fatal(err)
	}
	for dir := range arrows {
		if !strings.Contains(string(text), "`"+dir+"`") && !strings.HasSuffix(dir, "/run") {
			t.Errorf("ARCHITECTURE.md: `%s` is not named", dir)
		}
	}
}

func TestDocsCanFail(t *testing.T) {
	for _, tt := range []struct{ name, text, want string }{
		{"link", "[a](docs/none.md)", "docs/none.md"},
		{"target", "run `make nothing` now", "make nothing"},
		{"target in a block", "\n    make build nothing  # why\n", "make nothing"},
		{"path", "see `server/none/x.go`", "server/none/x.go"},
		{"test", "shown by TestNone", "TestNone"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			found := checkDocs(fstest.MapFS{
				"Makefile":    {Data: []byte("LIST = one two\nbuild:\n\tgo build\n$(LIST): build\n")},
				"server/x.go": {Data: []byte("package server\n")},
				"A.md":        {Data: []byte("`make one` and `server/x.go` and [b](A.md#b)\n```go\nfunc TestYours()\n```\n" + tt.text + "\n")},
			})
			if len(found) != 1 || !strings.Contains(found[0], tt.want) {
				t.Fatalf("found %q, want one fault that names %q", found, tt.want)
			}
		})
	}
}

var (
	docBlock  = regexp.MustCompile("(?ms)^```[a-z]+$.*?^```$") // programs: what they name need not be ours
	docLink   = regexp.MustCompile(`\]\(([^)#\s]+)(?:#[^)]*)?\)`)
	docMake   = regexp.MustCompile("(?m)(?:`|^ *)make ((?:[a-z][a-z-]* ?)+)")
	docPath   = regexp.MustCompile("`([a-z]+/[\\w./*-]+)`")
	docTest   = regexp.MustCompile(`\b(?:Test|Fuzz)[A-Z]\w+…?`) // TestField…: those that begin so
	goTest    = regexp.MustCompile(`(?m)^func ((?:Test|Fuzz)\w+)\(`)
	makeRule  = regexp.MustCompile(`(?m)^([a-z][a-z-]*):(?:[^=]|$)`)
	makeList  = regexp.MustCompile(`(?m)^\$\((\w+)\):`)
	goSources = []string{"client", "cmd", "docs", "election", "internal", "proto", "server", "testdata", "zab", "znode"}
)

// checkDocs returns what the Markdown files of a tree name and the tree has not.
func checkDocs(tree fs.FS) []string {
	var docs, out []string
	tests := map[string]bool{}
	err := fs.WalkDir(tree, ".", func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && name != "." && strings.HasPrefix(d.Name(), "."):
			return fs.SkipDir
		case strings.HasSuffix(name, ".md"):
			docs = append(docs, name)
		case strings.HasSuffix(name, "_test.go"):
			text, err := fs.ReadFile(tree, name)
			if err != nil {
				return err
			}
			for _, m := range goTest.FindAllSubmatch(text, -1) {
				tests[string(m[1])] = true
			}
		}
		return nil
	})
	if err != nil {
		return []string{err.Error()}
	}
	targets, err := makeTargets(tree)
	if err != nil {
		return []string{err.Error()}
	}
	exists := func(pattern string) bool {
		found, err := fs.Glob(tree, pattern)
		return err == nil && len(found) > 0
	}
	for _, name := range docs {
		data, err := fs.ReadFile(tree, name)
		if err != nil {
			return []string{err.Error()}
		}
		text := docBlock.ReplaceAllString(string(data), "")
		fault := func(what string) { out = append(out, fmt.Sprintf("%s: %s does not exist", name, what)) }
		for _, m := range docLink.FindAllStringSubmatch(text, -1) {
			if !strings.Contains(m[1], "://") && !exists(path.Join(path.Dir(name), m[1])) {
				fault("the link " + m[1])
			}
		}
		for _, m := range docMake.FindAllStringSubmatch(text, -1) {
			for target := range strings.FieldsSeq(m[1]) {
				if !targets[target] {
					fault("make " + target)
				}
			}
		}
		for _, m := range docPath.FindAllStringSubmatch(text, -1) {
			top, _, _ := strings.Cut(m[1], "/")
			if slices.Contains(goSources, top) && !exists(m[1]) {
				fault(m[1])
			}
		}
		for _, m := range docTest.FindAllString(text, -1) {
			if !tests[m] && !strings.HasSuffix(m, "…") {
				fault(m)
			}
		}
	}
	return out
}

// makeTargets are the Makefile's targets, those of a list included.
func makeTargets(tree fs.FS) (map[string]bool, error) {
	text, err := fs.ReadFile(tree, "Makefile")
	if err != nil {
		return nil, err
	}
	targets := map[string]bool{}
	for _, m := range makeRule.FindAllSubmatch(text, -1) {
		targets[string(m[1])] = true
	}
	for _, m := range makeList.FindAllSubmatch(text, -1) {
		list := regexp.MustCompile(`(?m)^` + string(m[1]) + ` = (.*)$`).FindSubmatch(text)
		if list == nil {
			return nil, fmt.Errorf("Makefile: $(%s) is not set", m[1])
		}
		for target := range strings.FieldsSeq(string(list[1])) {
			targets[target] = true
		}
	}
	return targets, nil
}
