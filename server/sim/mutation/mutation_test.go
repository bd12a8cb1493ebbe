package mutation

import (
	"go/parser"
	"go/token"
	"os"
	"strings"
	"testing"
	"testing/fstest"
)

const root = "../../.."

// Every mutation can be planted in the code as it is, and what comes of it is still Go.
func TestEveryMutationCanBePlanted(t *testing.T) {
	all, err := Load(os.DirFS(root + "/testdata/mutations"))
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range all {
		changed, err := m.Apply(os.DirFS(root))
		if err != nil {
			t.Error(err)
			continue
		}
		for file, text := range changed {
			if _, err := parser.ParseFile(token.NewFileSet(), file, text, 0); err != nil {
				t.Errorf("mutation %s: %v", m.Name, err)
			}
		}
	}
}

func TestParse(t *testing.T) {
	const good = "# a remark\nrule: R1\nwhat: no gate\nby: explorer simulator\n\nfile: a.go\n<<<<\nold\n====\nnew\nlines\n>>>>\n<<<<\nmore\n====\n>>>>\n"
	m, err := Parse("x", []byte(good))
	if err != nil || m.Rule != "R1" || len(m.By) != 2 || len(m.Edits) != 2 || m.Edits[0].New != "new\nlines" || m.Edits[1].New != "" || m.Edits[1].File != "a.go" {
		t.Fatalf("%+v, %v", m, err)
	}
	tree := func(text string) fstest.MapFS { return fstest.MapFS{"a.go": {Data: []byte(text)}} }
	changed, err := m.Apply(tree("top\nold\nmore\n"))
	if err != nil || string(changed["a.go"]) != "top\nnew\nlines\n\n" {
		t.Errorf("%q, %v", changed["a.go"], err)
	}
	for _, text := range []string{"top\nmore\n", "old\nold\nmore\n"} {
		if _, err := m.Apply(tree(text)); err == nil || !strings.Contains(err.Error(), "not once") {
			t.Errorf("planted in %q: %v", text, err)
		}
	}
	for _, bad := range []string{
		"", "rule: R1\n", strings.Replace(good, "rule: R1\n", "", 1), strings.Replace(good, "explorer", "somebody", 1),
		strings.Replace(good, "old", "new\nlines", 1), strings.TrimSuffix(good, ">>>>\n"), strings.Replace(good, "file: a.go\n", "", 1),
		strings.Replace(good, "rule:", "rules:", 1), strings.Replace(good, "====\n", "", 1),
	} {
		if _, err := Parse("x", []byte(bad)); err == nil {
			t.Errorf("taken: %q", bad)
		}
	}
}

func TestOverlay(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(dir+"/a.go", []byte("old\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	m := Mutation{Name: "x", Edits: []Edit{{File: "a.go", Old: "old\n", New: "new\n"}}}
	to := t.TempDir()
	overlay, err := m.Overlay(dir, to)
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(overlay)
	if err != nil || !strings.Contains(string(text), dir+"/a.go") {
		t.Errorf("%s, %v", text, err)
	}
	if text, err := os.ReadFile(to + "/a.go"); err != nil || string(text) != "new\n" {
		t.Errorf("%q, %v", text, err)
	}
}

// A page's table takes one row over, keeps the others, and says what has not been run.
func TestInto(t *testing.T) {
	all := []Mutation{{Name: "a", Rule: "R1", What: "no gate", By: []string{"explorer", "simulator"}}, {Name: "b", Rule: "R2", What: "no | epoch", By: []string{"simulator"}}}
	page := []byte("before\n" + tableBegins + tableEnds + "behind\n")
	for i, r := range []Row{{"simulator", "I1: a|b", "3 seeds", "today"}, {"simulator", Survived, "9", "today"}, {"simulator", "I2", "1 seeds", "later"}} {
		var err error
		if page, err = Into(page, all, []string{"a", "b", "a"}[i], r); err != nil {
			t.Fatal(err)
		}
	}
	want := "before\n" + tableBegins + TableHead +
		"| R1: no gate (`a`) | explorer | not run | | |\n" +
		"| R1: no gate (`a`) | simulator | I2 | 1 seeds | later |\n" +
		"| R2: no | epoch (`b`) | simulator | **not found** | 9 | today |\n" + tableEnds + "behind\n"
	if string(page) != want {
		t.Errorf("%s\nwant %s", page, want)
	}
	if _, err := Into([]byte("nothing"), all, "a", Row{}); err == nil {
		t.Error("a page without a place for the table was taken")
	}
}
