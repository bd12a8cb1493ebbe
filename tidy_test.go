// Package zkserver_test keeps the tree tidy: which package may import which, what the pure cores may touch, and a few
// habits that a linter does not know. TestTidyCanFail shows that each rule fails on a tree that breaks it.
package zkserver_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
)

const module = "github.com/zkserver/zkserver/"

// arrows lists, for every package, the packages of ours that it may import (ARCHITECTURE.md). A new package needs a
// row; a new arrow needs a reason.
var arrows = map[string][]string{
	"zab":              {},
	"election":         {"zab"},
	"znode":            {},
	"znode/watch":      {"znode"},
	"proto/jute":       {},
	"proto/zk/v1":      {},
	"proto/zab/v1":     {},
	"server/config":    {"zab"},
	"server/peer":      {"zab", "election"},
	"server/store":     {"zab", "znode"},
	"server/transport": {"zab", "election", "server/peer", "proto/zab/v1"},
	"server/session":   {"znode", "znode/watch"},

	"server/session/sessiontest": {"znode", "server/session"},

	"server/replica":      {"zab", "election", "znode", "server/peer", "server/session", "server/store", "server/transport"},
	"server/differential": {"proto/jute"},

	"server/sim/check": {},
	"server/sim":       {"zab", "election", "znode", "server/peer", "server/replica", "server/session", "server/store", "server/sim/check", "server/hostile/history"},
	"server/sim/storm": {"server/sim", "server/hostile/history"},
	"server/bounds":    {},

	"server/front":            {"znode", "server/session", "proto/jute"},
	"server/front/grpc":       {"znode", "server/session", "proto/zk/v1"},
	"server":                  {"zab", "znode", "server/config", "server/front", "server/front/grpc", "server/replica", "server/session", "server/store", "server/transport"},
	"server/sim/mutation":     {},
	"server/sim/mutation/run": {"server/sim/mutation"},
	"server/sim/explore":      {"zab", "election"},

	"client":              {"proto/jute", "proto/zk/v1"},
	"client/recipe":       {"client"},
	"client/zktest":       {"client", "proto/jute", "proto/zk/v1", "server", "server/config"}, // for users' tests
	"client/kafkapattern": {"client", "client/recipe", "server", "server/config"},             // a show of whole processes
	"cmd/zkserver":        {"server", "server/config"},
	"cmd/zkcli":           {"client", "client/recipe"},

	"server/hostile":         {"client", "internal/faultfs", "server", "server/config", "server/hostile/history"},
	"server/hostile/history": {},
	"server/hostile/run":     {"server/hostile"},

	"internal/testport": {}, // for tests
	"internal/faultfs":  {}, // for tests
}

// pureDirs and pureFiles must be deterministic: no clock, lock, goroutine, I/O or logger.
var (
	pureDirs  = []string{"zab", "election", "znode", "znode/watch"}
	pureFiles = []string{"server/replica/machine", "server/session/order"}
	impure    = []string{"os", "net", "log", "context", "sync", "runtime", "syscall", "io/fs", "math/rand", "crypto/rand", "testing"}
	pure      = []string{"sync/atomic", "math/rand/v2"} // of what lies below those; what the latter draws comes from a seed
)

const maxLines = 1000

func TestTidy(t *testing.T) {
	for _, f := range check(os.DirFS("."), arrows) {
		t.Error(f)
	}
}

func TestTidyCanFail(t *testing.T) {
	tests := []struct{ name, file, text, want string }{
		{"arrow", "zab/x.go", "package zab\nimport _ \"" + module + "znode\"\n", "zab may not import znode"},
		{"arrow from the client", "client/x.go", "package client\nimport _ \"" + module + "server\"\n", "client may not import server"},
		{"module in a core", "znode/x.go", "package znode\nimport _ \"github.com/rs/zerolog\"\n", "pure: it imports github.com/rs/zerolog"},
		{"lock in a core", "election/x.go", "package election\nimport _ \"sync\"\n", "pure: it imports sync"},
		{"logger in a core", "zab/x.go", "package zab\nimport _ \"log/slog\"\n", "pure: it imports log/slog"},
		{"chance in a core", "zab/x.go", "package zab\nimport \"math/rand/v2\"\nvar _ = rand.IntN(2)\n", "pure: it uses rand.IntN"},
		{"goroutine in a core", "zab/x.go", "package zab\nfunc f() { go f() }\n", "pure: it starts a goroutine"},
		{"clock in a core", "zab/x.go", "package zab\nimport \"time\"\nvar _ = time.Now\n", "pure: it uses time.Now"},
		{"clock in the machine", "server/replica/machine_x.go", "package replica\nimport \"time\"\nvar _ = time.Since\n", "pure: it uses time.Since"},
		{"init", "server/x.go", "package server\nfunc init() {}\n", "has an init function"},
		{"no row", "server/new/x.go", "package new\n", "has no row in the table of arrows"},
		{"no package", "zab/x.go", "package zab\n", "election has a row in the table of arrows and no files"},
		{"arrow of old", "election/x.go", "package election\n", "election does not import zab"},
		{"size", "server/x.go", "package server\n" + strings.Repeat("\n", maxLines), "lines"},
		{"reminder", "server/x.go", "package server\n// TO" + "DO: later\n", "without an issue's number"},
		{"no doc", "server/x.go", "package server\n", "no package comment"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			found := check(fstest.MapFS{tt.file: {Data: []byte(tt.text)}}, arrows)
			if !slices.ContainsFunc(found, func(f string) bool { return strings.Contains(f, tt.want) }) {
				t.Fatalf("not found: %q in %q", tt.want, found)
			}
		})
	}
}

var reminder = regexp.MustCompile(`\b(TO` + `DO|FIX` + `ME|XX` + `X)\b`)

// check returns every breach in a tree.
func check(tree fs.FS, arrows map[string][]string) []string {
	var out []string
	fault := func(file, format string, args ...any) {
		out = append(out, file+": "+fmt.Sprintf(format, args...))
	}
	documented, packages := map[string]bool{}, map[string]bool{}
	imports := map[string]map[string]bool{} // of ours, by every package that has a file, a generated one too
	err := fs.WalkDir(tree, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && name != "." && (d.Name()[0] == '.' || d.Name()[0] == '_' || d.Name() == "testdata" || d.Name() == "tools" || d.Name() == "bin" || name == "docs") {
			return fs.SkipDir
		}
		if d.IsDir() || !strings.HasSuffix(name, ".go") {
			return nil
		}
		text, err := fs.ReadFile(tree, name)
		if err != nil {
			return err
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, text, parser.ParseComments)
		if err != nil {
			return err
		}
		dir := path.Dir(name)
		if imports[dir] == nil {
			imports[dir] = map[string]bool{}
		}
		if strings.HasSuffix(name, ".pb.go") || ast.IsGenerated(file) {
			return nil
		}
		if reminder.Match(text) && !regexp.MustCompile(`(?m)(TO`+`DO|FIX`+`ME)\(#\d+\)`).Match(text) {
			fault(name, "a reminder without an issue's number")
		}
		for _, decl := range file.Decls {
			if f, ok := decl.(*ast.FuncDecl); ok && f.Recv == nil && f.Name.Name == "init" {
				fault(name, "has an init function")
			}
		}
		if strings.HasSuffix(name, "_test.go") {
			return nil
		}
		if lines := strings.Count(string(text), "\n"); lines > maxLines {
			fault(name, "%d lines, more than %d", lines, maxLines)
		}
		packages[dir] = true
		if file.Doc != nil {
			documented[dir] = true
		}
		checkImports(name, dir, file, arrows, imports[dir], fault)
		if isPure(name, dir) {
			checkPure(name, file, fault)
		}
		return nil
	})
	if err != nil {
		fault(".", "%v", err)
	}
	for dir := range packages {
		if !documented[dir] {
			fault(dir, "no package comment")
		}
	}
	for dir, allowed := range arrows {
		if imports[dir] == nil {
			fault(dir, "%s has a row in the table of arrows and no files", dir)
			continue
		}
		for _, ours := range allowed {
			if !imports[dir][ours] {
				fault(dir, "%s does not import %s any more: the arrow goes", dir, ours)
			}
		}
	}
	slices.Sort(out)
	return out
}

func isPure(name, dir string) bool {
	return slices.Contains(pureDirs, dir) ||
		slices.ContainsFunc(pureFiles, func(p string) bool { return strings.HasPrefix(name, p) })
}

func checkImports(name, dir string, file *ast.File, arrows map[string][]string, imports map[string]bool, fault func(string, string, ...any)) {
	allowed, known := arrows[dir]
	if !known {
		fault(name, "%s has no row in the table of arrows", dir)
		return
	}
	for _, im := range file.Imports {
		ours, is := strings.CutPrefix(strings.Trim(im.Path.Value, `"`), module)
		if !is {
			continue
		}
		imports[ours] = true
		if !slices.Contains(allowed, ours) {
			fault(name, "%s may not import %s", dir, ours)
		}
	}
}

func checkPure(name string, file *ast.File, fault func(string, string, ...any)) {
	for _, im := range file.Imports {
		p := strings.Trim(im.Path.Value, `"`)
		foreign := strings.Contains(p, ".") && !strings.HasPrefix(p, module)
		below := func(top string) bool { return p == top || strings.HasPrefix(p, top+"/") }
		if foreign || slices.ContainsFunc(impure, below) && !slices.Contains(pure, p) {
			fault(name, "must stay pure: it imports %s", p)
		}
	}
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.GoStmt:
			fault(name, "must stay pure: it starts a goroutine")
		case *ast.SelectorExpr:
			x, ok := n.X.(*ast.Ident)
			if ok && x.Name == "time" && slices.Contains([]string{"Now", "Since", "Until", "Sleep", "After", "Tick", "NewTimer", "NewTicker", "AfterFunc"}, n.Sel.Name) {
				fault(name, "must stay pure: it uses time.%s", n.Sel.Name)
			}
			if ok && x.Name == "rand" && !slices.Contains([]string{"New", "NewPCG", "Rand", "PCG", "Source"}, n.Sel.Name) {
				fault(name, "must stay pure: it uses rand.%s", n.Sel.Name)
			}
		}
		return true
	})
}
