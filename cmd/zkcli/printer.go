package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/zkserver/zkserver/client"
)

// format is how results are printed.
type format int

const (
	text format = iota
	jsonFormat
	raw
)

func parseFormat(s string) (format, error) {
	switch s {
	case "text":
		return text, nil
	case "json":
		return jsonFormat, nil
	case "raw":
		return raw, nil
	}
	return text, errors.New("unknown format")
}

// printer owns both outputs. Watch events come from other goroutines.
type printer struct {
	format          format
	tty, errTTY     bool // which of the two are terminals: control characters in data are escaped, meter shows something
	colours, errors bool // which of the two are painted

	mu       sync.Mutex
	out, err io.Writer
	metered  time.Time // when meter has shown something last; zero: it shows nothing
	prompt   string    // what the shell has printed while it reads a line, else empty
}

// line prints a line of a result.
func (p *printer) line(format string, args ...any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	fmt.Fprintf(p.out, format+"\n", args...)
}

// bytes prints bytes as they are.
func (p *printer) bytes(b []byte) {
	p.mu.Lock()
	defer p.mu.Unlock()
	_, _ = p.out.Write(b)
}

// note prints on standard error what is no failure.
func (p *printer) note(format string, args ...any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	fmt.Fprintf(p.err, format+"\n", args...)
}

// value prints a result as one line of JSON.
func (p *printer) value(v any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	e := json.NewEncoder(p.out)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		fmt.Fprintln(p.err, err)
	}
}

// failure prints an error on standard error: zkCli's text, or one line of JSON.
func (p *printer) failure(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	msg := message(err)
	if p.format != jsonFormat {
		if p.errors {
			msg = string(red) + msg + string(plain)
		}
		fmt.Fprintln(p.err, msg)
		return
	}
	var v struct {
		Error   string `json:"error"`
		Code    int32  `json:"code,omitempty"`
		Path    string `json:"path,omitempty"`
		Unknown bool   `json:"outcomeUnknown,omitempty"`
	}
	v.Error, v.Unknown = msg, client.MaybeApplied(err)
	var ce *client.Error
	if errors.As(err, &ce) {
		v.Code, v.Path = int32(ce.Code), ce.Path
	}
	e := json.NewEncoder(p.err)
	e.SetEscapeHTML(false)
	_ = e.Encode(v)
}

// event prints what a watch saw. The shell's prompt is printed again behind it; what is typed there is still there, and shown
// with the next key.
func (p *printer) event(kind, path string, zxid int64) {
	s := fmt.Sprintf("\nWATCHER::\n\nWatchedEvent state:SyncConnected type:%s path:%s zxid: %d", kind, path, zxid)
	if p.format == jsonFormat {
		b, err := json.Marshal(map[string]any{"event": kind, "path": path, "zxid": zxid})
		if err != nil {
			return
		}
		s = string(b)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.prompt != "" {
		s = "\r\x1b[K" + s + "\n" + p.prompt
		fmt.Fprint(p.out, s)
		return
	}
	fmt.Fprintln(p.out, s)
}

// setPrompt says what the shell shows while it reads a line; empty when it has one.
func (p *printer) setPrompt(s string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.prompt = s
}

// data prints a node's data as text: the bytes as they are and a newline; on a terminal control characters and what is not
// UTF-8 are escaped.
func (p *printer) data(b []byte) {
	switch {
	case p.format == raw:
		p.bytes(b)
	case b == nil:
		p.line("null")
	case p.tty:
		p.line("%s", printable(b))
	default:
		p.bytes(append(b[:len(b):len(b)], '\n'))
	}
}

func printable(b []byte) string {
	var s strings.Builder
	for len(b) > 0 {
		r, n := utf8.DecodeRune(b)
		switch {
		case r == utf8.RuneError && n == 1:
			fmt.Fprintf(&s, `\x%02x`, b[0])
		case r == '\n' || r == '\t' || unicode.IsPrint(r):
			s.Write(b[:n])
		case r < 0x80:
			fmt.Fprintf(&s, `\x%02x`, r)
		default:
			fmt.Fprintf(&s, `\u%04x`, r)
		}
		b = b[n:]
	}
	return s.String()
}

// stat prints zkCli's block.
func (p *printer) stat(st client.Stat) {
	const date = "Mon Jan 02 15:04:05 MST 2006" // as Java prints dates, in local time
	p.line("cZxid = %#x\nctime = %s\nmZxid = %#x\nmtime = %s\npZxid = %#x\ncversion = %d\ndataVersion = %d\naclVersion = %d\n"+
		"ephemeralOwner = %#x\ndataLength = %d\nnumChildren = %d",
		uint64(st.Czxid), st.Ctime.Local().Format(date), uint64(st.Mzxid), st.Mtime.Local().Format(date), uint64(st.Pzxid),
		st.Cversion, st.Version, st.Aversion, uint64(st.EphemeralOwner), st.DataLength, st.NumChildren)
}

// jsonStat is a Stat in JSON. Zxids and the owner are hexadecimal texts: as numbers they do not survive every reader.
type jsonStat struct {
	Czxid          string `json:"czxid"`
	Mzxid          string `json:"mzxid"`
	Pzxid          string `json:"pzxid"`
	Ctime          string `json:"ctime"`
	Mtime          string `json:"mtime"`
	Version        int32  `json:"dataVersion"`
	Cversion       int32  `json:"cversion"`
	Aversion       int32  `json:"aclVersion"`
	EphemeralOwner string `json:"ephemeralOwner"`
	DataLength     int32  `json:"dataLength"`
	NumChildren    int32  `json:"numChildren"`
}

func toJSON(st client.Stat) *jsonStat {
	x := func(n int64) string { return fmt.Sprintf("%#x", uint64(n)) }
	t := func(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000Z07:00") }
	return &jsonStat{x(st.Czxid), x(st.Mzxid), x(st.Pzxid), t(st.Ctime), t(st.Mtime), st.Version, st.Cversion, st.Aversion,
		x(st.EphemeralOwner), st.DataLength, st.NumChildren}
}

// hexDump is netty's table, which zkCli prints for get -x.
func hexDump(b []byte) string {
	if len(b) == 0 {
		return ""
	}
	const rule = "+--------+-------------------------------------------------+----------------+"
	var s strings.Builder
	s.WriteString("         +-------------------------------------------------+\n" +
		"         |  0  1  2  3  4  5  6  7  8  9  a  b  c  d  e  f |\n" + rule)
	for at := 0; at < len(b); at += 16 {
		row := b[at:min(at+16, len(b))]
		chars := make([]byte, len(row))
		for i, c := range row {
			chars[i] = '.'
			if c > 0x1f && c < 0x7f {
				chars[i] = c
			}
		}
		fmt.Fprintf(&s, "\n|%08x|%-49s|%-16s|", at, fmt.Sprintf(" % x", row), chars)
	}
	s.WriteString("\n" + rule)
	return s.String()
}
