package recipe

import (
	"go/ast"
	"go/doc"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// Every exported name of this package, of zktest and of client has a comment; of a function that can fail it says how, and of
// one that waits for a server what a disconnect or the end of the session means: itself, or by naming another one ("as of
// Lock"), or in the comment of its type. What is a size, a limit or a time in a plain number says what is counted.
func TestDocsSayWhatHappens(t *testing.T) {
	for _, dir := range []string{".", "../zktest", ".."} {
		files, err := filepath.Glob(filepath.Join(dir, "*.go"))
		if err != nil {
			t.Fatal(err)
		}
		sources := map[string]string{}
		for _, f := range files {
			if text, err := os.ReadFile(f); err != nil {
				t.Fatal(err)
			} else if !strings.HasSuffix(f, "_test.go") {
				sources[f] = string(text)
			}
		}
		for _, f := range undocumented(t, sources) {
			t.Error(f)
		}
	}
}

func TestDocsCanFail(t *testing.T) {
	const head = "package p\nimport \"context\"\n"
	for _, tt := range []struct{ name, text, want string }{
		{"nothing", "func F() {}", "F has no comment"},
		{"a field", "// T is one.\ntype T struct { F int }", "T.F has no comment"},
		{"a constant", "const C = 1", "C has no comment"},
		{"errors", "// F does it.\nfunc F() error { return nil }", "F says nothing about its error"},
		{"the session", "// F does it. Errors: none.\nfunc F(ctx context.Context) error { return nil }", "F says nothing about a disconnect or the end of the session"},
		{"the unit of a field", "// T is one.\ntype T struct {\n\tMaxReply int // of a reply\n}", "T.MaxReply does not say what it counts"},
		{"the unit of an argument", "// F does it within the timeout.\nfunc F(timeout int32) {}", "F does not say what timeout counts"},
		{"units said", "// F does it within the timeout, in ms.\nfunc F(timeout int32, max time.Duration) {}\n// T is one.\ntype T struct {\n\tMaxReply int // bytes of a reply\n}", ""},
		{"said elsewhere", "// F does it, errors as of T.G.\nfunc F(ctx context.Context) error { return nil }\n// T is one.\ntype T struct{}\n// G waits for a connection. Errors: none.\nfunc (T) G(ctx context.Context) error { return nil }", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			found := strings.Join(undocumented(t, map[string]string{"p.go": head + tt.text}), "\n")
			if tt.want == "" && found != "" || !strings.Contains(found, tt.want) {
				t.Errorf("found %q, want %q", found, tt.want)
			}
		})
	}
}

var (
	saysError   = regexp.MustCompile(`[Ee]rror|Err[A-Z]|[Ff]ails`)
	saysSession = regexp.MustCompile(`connect|session|expir|Hold|ends when ctx does`)
	isMeasure   = regexp.MustCompile(`(?i)timeout|size|limit|length|interval|delay|ttl|room|depth|^(max|min)`)
	saysUnit    = regexp.MustCompile(`\b(ms|seconds?|bytes?|[KMG]iB|nodes?|events?|requests|calls|levels?|children|Holds|how (many|often))\b`)
	refersTo    = regexp.MustCompile(`\b(?:[Aa]s|of|like|is) (?:of |those of )?([A-Z]\w*(?:\.[A-Z]\w*)?)`)
)

// undocumented are the faults of a package's comments.
func undocumented(t *testing.T, sources map[string]string) (found []string) {
	t.Helper()
	fset := token.NewFileSet()
	var files []*ast.File
	for name, text := range sources {
		f, err := parser.ParseFile(fset, name, text, parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, f)
	}
	p, err := doc.NewFromFiles(fset, files, "p")
	if err != nil {
		t.Fatal(err)
	}
	said := map[string]string{} // by name, "T.M" for methods
	funcs := func(prefix string, all []*doc.Func) {
		for _, f := range all {
			said[prefix+f.Name] = f.Doc
		}
	}
	funcs("", p.Funcs)
	for _, x := range p.Types {
		said[x.Name] = x.Doc
		funcs("", x.Funcs)
		funcs(x.Name+".", x.Methods)
	}
	says := func(name, of string, what *regexp.Regexp) bool {
		seen := map[string]bool{}
		var look func(name string) bool
		look = func(name string) bool {
			text, known := said[name]
			if !known || seen[name] {
				return false
			}
			seen[name] = true
			if what.MatchString(text) {
				return true
			}
			for _, m := range refersTo.FindAllStringSubmatch(text, -1) {
				if look(m[1]) || of != "" && look(of+"."+m[1]) {
					return true
				}
			}
			return false
		}
		return look(name) || of != "" && look(of)
	}
	check := func(of string, all []*doc.Func) {
		for _, f := range all {
			name := f.Name
			if of != "" {
				name = of + "." + f.Name
			}
			var fails, waits bool
			for _, r := range fieldsOf(f.Decl.Type.Results) {
				fails = fails || isIdent(r, "error")
			}
			for _, a := range fieldsOf(f.Decl.Type.Params) {
				s, is := a.(*ast.SelectorExpr)
				waits = waits || is && s.Sel.Name == "Context"
			}
			switch {
			case f.Doc == "":
				found = append(found, name+" has no comment")
			case fails && !says(name, of, saysError):
				found = append(found, name+" says nothing about its error")
			case waits && fails && !says(name, of, saysSession):
				found = append(found, name+" says nothing about a disconnect or the end of the session")
			}
			for _, a := range f.Decl.Type.Params.List {
				for _, n := range a.Names {
					if isNumber(a.Type) && isMeasure.MatchString(n.Name) && !saysUnit.MatchString(f.Doc) {
						found = append(found, name+" does not say what "+n.Name+" counts")
					}
				}
			}
		}
	}
	check("", p.Funcs)
	values := func(all []*doc.Value) {
		for _, v := range all {
			for _, spec := range v.Decl.Specs {
				s := spec.(*ast.ValueSpec)
				if ast.IsExported(s.Names[0].Name) && v.Doc == "" && s.Doc == nil && s.Comment == nil {
					found = append(found, s.Names[0].Name+" has no comment")
				}
			}
		}
	}
	values(p.Consts)
	values(p.Vars)
	for _, x := range p.Types {
		if x.Doc == "" {
			found = append(found, x.Name+" has no comment")
		}
		check("", x.Funcs)
		check(x.Name, x.Methods)
		values(x.Consts)
		values(x.Vars)
		for _, spec := range x.Decl.Specs {
			s, is := spec.(*ast.TypeSpec).Type.(*ast.StructType)
			if !is {
				continue
			}
			for _, f := range s.Fields.List {
				for _, n := range f.Names {
					if n.IsExported() && f.Doc == nil && f.Comment == nil {
						found = append(found, x.Name+"."+n.Name+" has no comment")
					}
					if n.IsExported() && isNumber(f.Type) && isMeasure.MatchString(n.Name) && !saysUnit.MatchString(f.Doc.Text()+f.Comment.Text()) {
						found = append(found, x.Name+"."+n.Name+" does not say what it counts")
					}
				}
			}
		}
	}
	return found
}

func fieldsOf(l *ast.FieldList) (types []ast.Expr) {
	if l != nil {
		for _, f := range l.List {
			types = append(types, f.Type)
		}
	}
	return types
}

func isNumber(e ast.Expr) bool {
	return isIdent(e, "int") || isIdent(e, "int32") || isIdent(e, "int64")
}

func isIdent(e ast.Expr, name string) bool {
	x, is := e.(*ast.Ident)
	return is && x.Name == name
}
