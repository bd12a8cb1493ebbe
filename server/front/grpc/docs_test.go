package grpcfront

import (
	"flag"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"
)

// update rewrites the reference of docs/grpc.md: go test ./server/front/grpc -run TestReference -update-docs
var update = flag.Bool("update-docs", false, "rewrite the reference in docs/grpc.md")

var (
	protoBlock = regexp.MustCompile(`^(message|enum|oneof|service) (\w+) \{(\})?$`)
	protoField = regexp.MustCompile(`^((?:repeated |optional )?[\w.]+) (\w+) = (\d+);$`)
	protoValue = regexp.MustCompile(`^(\w+) = (-?\d+);$`)
	protoCall  = regexp.MustCompile(`^rpc (\w+)\((stream )?(\w+)\) returns \((stream )?(\w+)\);$`)
)

// TestReference: the page's tables are what the proto file says.
func TestReference(t *testing.T) {
	const begin = "<!-- From here on generated from proto/zk/v1/zk.proto by TestReference. -->\n"
	const name = "../../../docs/grpc.md"
	page, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	source, err := os.ReadFile("../../../proto/zk/v1/zk.proto")
	if err != nil {
		t.Fatal(err)
	}
	head, got, _ := strings.Cut(string(page), begin)
	want := reference(t, string(source))
	if got == want {
		return
	}
	if !*update {
		t.Fatal("docs/grpc.md does not say what zk.proto says: run this test with -update-docs")
	}
	if err := os.WriteFile(name, []byte(head+begin+want), 0o666); err != nil {
		t.Fatal(err)
	}
}

// reference makes a heading of each message and enum, and a table of its fields.
func reference(t *testing.T, source string) string {
	var out strings.Builder
	var comment []string
	oneof := ""
	say := func() string {
		s := strings.Join(comment, " ")
		comment = nil
		return strings.ReplaceAll(s, "|", `\|`)
	}
	_, source, _ = strings.Cut(source, "option go_package")
	for i, line := range strings.Split(source, "\n")[1:] {
		line = strings.TrimSpace(line)
		switch m := []string(nil); {
		case line == "":
			comment = nil
		case strings.HasPrefix(line, "// buf:"):
		case strings.HasPrefix(line, "//"):
			if strings.HasPrefix(line, "//   ") { // an entry of a list, or the rest of one
				line = strings.Replace(line, "//   ", "//<br>", 1)
			}
			comment = append(comment, strings.Fields(line[2:])...)
		case line == "}":
			oneof = ""
		case match(protoBlock, line, &m) && m[1] == "oneof":
			oneof = "; one of `" + m[2] + "`"
			comment = nil
		case m != nil:
			fmt.Fprintf(&out, "\n### %s\n\n%s\n", m[2], say())
			switch {
			case m[3] != "":
			case m[1] == "enum":
				out.WriteString("\n| value | number | |\n|---|---|---|\n")
			case m[1] == "message":
				out.WriteString("\n| field | type | number | |\n|---|---|---|---|\n")
			default:
				out.WriteString("\n| call | takes | gives | |\n|---|---|---|---|\n")
			}
		case match(protoCall, line, &m):
			fmt.Fprintf(&out, "| `%s` | %s`%s` | %s`%s` | %s |\n", m[1], m[2], m[3], m[4], m[5], say())
		case match(protoField, line, &m):
			fmt.Fprintf(&out, "| `%s` | `%s`%s | %s | %s |\n", m[2], m[1], oneof, m[3], say())
		case match(protoValue, line, &m):
			fmt.Fprintf(&out, "| `%s` | %s | %s |\n", m[1], m[2], say())
		default:
			t.Fatalf("line %d behind the options: %q", i, line)
		}
	}
	return out.String()
}

func match(r *regexp.Regexp, line string, m *[]string) bool {
	*m = r.FindStringSubmatch(line)
	return *m != nil
}
