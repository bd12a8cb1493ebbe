package main

import (
	"fmt"
	"io"
	"os"
	"strings"
	"time"
	"unicode/utf8"

	"golang.org/x/term"
)

// progressEvery is how often the progress of a command is shown on a terminal.
const progressEvery = 100 * time.Millisecond

// newPrinter looks at what the outputs are. Colours are for terminals only, and for nobody who sets NO_COLOR.
func newPrinter(stdout, stderr io.Writer, f format, getenv func(string) string) *printer {
	p := &printer{out: stdout, err: stderr, format: f, tty: isTerminal(stdout), errTTY: isTerminal(stderr)}
	if getenv("NO_COLOR") == "" && getenv("TERM") != "dumb" && f == text {
		p.colours, p.errors = p.tty, p.errTTY
	}
	return p
}

func isTerminal(v any) bool {
	f, ok := v.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// colour is what a terminal is told.
type colour string

const (
	plain  colour = "\x1b[0m"
	bold   colour = "\x1b[1m"
	red    colour = "\x1b[31m"
	green  colour = "\x1b[32m"
	yellow colour = "\x1b[33m"
	blue   colour = "\x1b[34m"
)

// paint gives a text its colour, for standard output.
func (p *printer) paint(c colour, s string) string {
	if !p.colours || s == "" {
		return s
	}
	return string(c) + s + string(plain)
}

// cell is one of a table.
type cell struct {
	text   string
	colour colour // empty: none
	right  bool   // it is a number: aligned by its end
}

// table prints rows with their columns aligned, the first row as a heading. Rows may be of different lengths: the last cell of a shorter one
// may be as long as it likes.
func (p *printer) table(rows [][]cell) {
	var widths []int
	columns := len(rows[0])
	for _, r := range rows {
		for i, c := range r {
			if i == len(widths) {
				widths = append(widths, 0)
			}
			if i+1 < len(r) || len(r) == columns {
				widths[i] = max(widths[i], utf8.RuneCountInString(c.text))
			}
		}
	}
	for at, r := range rows {
		var b strings.Builder
		for i, c := range r {
			pad := strings.Repeat(" ", max(0, widths[i]-utf8.RuneCountInString(c.text)))
			if i > 0 {
				b.WriteString("  ")
			}
			if c.right {
				b.WriteString(pad)
			}
			switch {
			case at == 0:
				b.WriteString(p.paint(bold, c.text))
			case c.colour != "":
				b.WriteString(p.paint(c.colour, c.text))
			default:
				b.WriteString(c.text)
			}
			if !c.right && i+1 < len(r) {
				b.WriteString(pad)
			}
		}
		p.line("%s", b.String())
	}
}

// barCells is how long a bar is.
const barCells = 30

// meter shows on a terminal how far a command is, and not too often. A total of 0 is not known yet; nothing to do: the
// command has ended.
func (p *printer) meter(doing string, done, total int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	switch {
	case !p.errTTY || p.format == jsonFormat:
	case doing == "" && !p.metered.IsZero():
		p.metered = time.Time{}
		fmt.Fprint(p.err, "\r\x1b[K")
	case doing != "" && (now.Sub(p.metered) >= progressEvery || done == total):
		p.metered = now
		fmt.Fprint(p.err, "\r\x1b[K"+bar(doing, done, total))
	}
}

func bar(doing string, done, total int) string {
	if total == 0 {
		return fmt.Sprintf("%s %d", doing, done)
	}
	full := barCells * done / total
	return fmt.Sprintf("%s [%s%s] %3d %%  %d of %d", doing, strings.Repeat("#", full), strings.Repeat(".", barCells-full), 100*done/total, done, total)
}
