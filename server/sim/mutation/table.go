package mutation

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
)

// Row is what one finder made of one fault.
type Row struct {
	Finder string
	Caught string // how it showed, or Survived
	After  string // how much was needed
	At     string // date and commit
}

// Survived stands where a fault was not found.
const Survived = "**not found**"

// TableHead begins the table.
const TableHead = "| fault | finder | shows as | needed | date, commit |\n|---|---|---|---|---|\n"

// Line is a row of the table.
func (m *Mutation) Line(r Row) string {
	return fmt.Sprintf("%s %s | %s | %s |\n", m.key(r.Finder), shorten(r.Caught), r.After, r.At)
}

// key begins the row of a finder.
func (m *Mutation) key(finder string) string {
	return fmt.Sprintf("| %s: %s (`%s`) | %s |", m.Rule, m.What, m.Name, finder)
}

func shorten(s string) string {
	s = strings.ReplaceAll(s, "|", "/")
	if r := []rune(s); len(r) > 120 {
		s = string(r[:117]) + "..."
	}
	return s
}

const tableBegins, tableEnds = "<!-- mutations: make mutations ARGS='-into docs/correctness.md' -->\n", "<!-- end of mutations -->\n"

// Into puts a row into the table of a page. The table gets a row for each mutation and each of its finders, in order;
// those that have one keep it, those that have none say that they have not been run.
func Into(page []byte, all []Mutation, name string, r Row) ([]byte, error) {
	head, rest, ok := bytes.Cut(page, []byte(tableBegins))
	table, tail, end := bytes.Cut(rest, []byte(tableEnds))
	if !ok || !end {
		return nil, errors.New("no place for the table of mutations")
	}
	old := map[string]string{}
	for line := range strings.Lines(string(table)) {
		if i := strings.Index(line, "`) | "); i > 0 {
			if j := strings.Index(line[i+5:], " |"); j > 0 {
				old[line[strings.LastIndex(line[:i], "(`")+2:i]+" "+line[i+5:i+5+j]] = line[i+5+j+2:]
			}
		}
	}
	var out bytes.Buffer
	out.Write(head)
	out.WriteString(tableBegins + TableHead)
	for i := range all {
		m := &all[i]
		for _, f := range m.By {
			was, ok := old[m.Name+" "+f]
			switch {
			case m.Name == name && f == r.Finder:
				out.WriteString(m.Line(r))
			case ok:
				out.WriteString(m.key(f) + was)
			default:
				out.WriteString(m.key(f) + " not run | | |\n")
			}
		}
	}
	out.WriteString(tableEnds)
	out.Write(tail)
	return out.Bytes(), nil
}
