package front

import (
	"io"
	"slices"
	"strings"
	"time"

	"github.com/zkserver/zkserver/server/session"
)

// javaDate is how Java prints a point in time.
const javaDate = "Mon Jan 02 15:04:05 MST 2006"

// dump lists sessions by their end (the leader) or by id (the others), ephemerals by their owner, and connections.
func (f *Front) dump(w io.Writer, _ []byte) {
	d := f.opts.Status.Dump()
	ends := make(map[int64]time.Time, len(d.Expiring))
	put(w, "SessionTracker dump:\n")
	if d.Expiring == nil {
		putf(w, "Global Sessions(%d):\n", len(d.Sessions))
		for _, s := range d.Sessions {
			putf(w, "%s\t%dms\n", sessionText(s.ID), s.Timeout)
		}
	} else {
		lines := make([]ending, len(d.Expiring))
		for i, s := range d.Expiring {
			ends[s.ID] = s.Ends
			lines[i] = ending{s.Ends, sessionText(s.ID)}
		}
		putEndings(w, "Session", lines)
	}
	putf(w, "ephemeral nodes dump:\nSessions with Ephemerals (%d):\n", len(d.Owners))
	for _, o := range d.Owners {
		putf(w, "%s:\n", sessionText(o.ID))
		for _, p := range o.Paths {
			putf(w, "\t%s\n", p)
		}
	}
	put(w, "Connections dump:\n")
	now := time.Now()
	conns := f.connections()
	lines := make([]ending, len(conns))
	for i := range conns {
		lines[i] = ending{f.connectionEnd(&conns[i], ends, now), "ip: /" + conns[i].Name + " sessionId: " + sessionText(conns[i].Session)}
	}
	slices.SortStableFunc(lines, func(a, b ending) int { return a.at.Compare(b.at) })
	putEndings(w, "Connections", lines)
}

// connectionEnd is when a connection ends if nothing more comes from its client: at the latest, where only the leader
// knows better.
func (f *Front) connectionEnd(c *session.ConnInfo, ends map[int64]time.Time, now time.Time) time.Time {
	switch at, known := ends[c.Session]; {
	case known:
		return at
	case c.Session == 0:
		return time.UnixMilli(c.Established).Add(f.opts.Handshake)
	}
	return now.Add(time.Duration(c.Timeout) * time.Millisecond)
}

// ending is a line and when what it tells of ends.
type ending struct {
	at   time.Time
	text string
}

// putEndings writes lines, which are in order, in sets of the same second.
func putEndings(w io.Writer, what string, lines []ending) {
	sets := 0
	out := &strings.Builder{}
	for i := 0; i < len(lines); sets++ {
		second, n := lines[i].at.Unix(), i
		for n < len(lines) && lines[n].at.Unix() == second {
			n++
		}
		putf(out, "%d expire at %s:\n", n-i, lines[i].at.UTC().Format(javaDate))
		for _, l := range lines[i:n] {
			putf(out, "\t%s\n", l.text)
		}
		i = n
	}
	putf(w, "%s Sets (%d)/(%d):\n%s", what, sets, len(lines), out.String())
}
