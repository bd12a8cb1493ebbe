package differential

import (
	"fmt"
	"slices"
	"strings"

	"github.com/zkserver/zkserver/proto/jute"
)

// Difference is the first place where two transcripts of one program differ.
type Difference struct {
	Step, Slot, Line int
	A, B             string // what was seen; empty if there is no such line
}

// String names the place as a script counts it: step 0 is the set-up, line 1 the program.
func (d *Difference) String() string {
	return fmt.Sprintf("step %d, session %d, line %d:\n  apache  %s\n  zkserver %s", d.Step, d.Slot, d.Line, d.A, d.B)
}

// Compare returns the first difference, or nil.
func Compare(a, b *Transcript) *Difference {
	for step := range max(len(a.Steps), len(b.Steps)) {
		if step >= len(a.Steps) || step >= len(b.Steps) {
			return &Difference{Step: step, A: ended(len(a.Steps), step), B: ended(len(b.Steps), step)}
		}
		for slot := range a.Steps[step] {
			x, y := ordered(a.Steps[step], slot), ordered(b.Steps[step], slot)
			for i := range max(len(x), len(y)) {
				var d Difference
				if i < len(x) {
					d.A = x[i].Text
				}
				if i < len(y) {
					d.B = y[i].Text
				}
				if d.A != d.B {
					d.Step, d.Slot, d.Line = step, slot, i
					return &d
				}
			}
		}
	}
	return nil
}

func ended(steps, at int) string {
	if at >= steps {
		return "the run had ended"
	}
	return "goes on"
}

// ordered is what a slot saw in a step, with the events of a session's end in an order of their own: neither server
// promises one.
func ordered(step [][]Line, slot int) []Line {
	lines := step[slot]
	ends := map[int64]bool{}
	for _, v := range step {
		for i := range v {
			if v[i].Op == jute.OpCloseSession && v[i].Code == 0 {
				ends[v[i].Zxid] = true
			}
		}
	}
	if len(ends) == 0 {
		return lines
	}
	lines = slices.Clone(lines)
	// What is read behind closeSession before Apache hangs up is answered that there is no session, else not at all.
	closed := false
	lines = slices.DeleteFunc(lines, func(l Line) bool {
		closed = closed || l.Op == jute.OpCloseSession && l.Code == 0
		return closed && (l.Code == jute.SessionExpired || l.Code == jute.UnknownSession)
	})
	for i := 0; i < len(lines); {
		n := 1
		if lines[i].Event && ends[lines[i].Zxid] {
			for i+n < len(lines) && lines[i+n].Event && lines[i+n].Zxid == lines[i].Zxid {
				n++
			}
			slices.SortFunc(lines[i:i+n], func(a, b Line) int { return strings.Compare(a.Text, b.Text) })
		}
		i += n
	}
	return lines
}
