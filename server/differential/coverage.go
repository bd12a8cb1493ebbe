package differential

import (
	"fmt"
	"slices"
	"strings"

	"github.com/zkserver/zkserver/proto/jute"
)

// Coverage counts what programs have met, as Apache answered.
type Coverage struct {
	Programs, Requests int
	cells              map[string]int
}

func (c *Coverage) count(cell string) { c.cells[cell]++ }

// Add counts a program that was run.
func (c *Coverage) Add(p *Program, t *Transcript) {
	if c.cells == nil {
		c.cells = map[string]int{}
	}
	c.Programs++
	c.Requests += p.Count()
	c.count(fmt.Sprintf("sessions %d", p.Sessions))
	for i := range p.Steps {
		c.step(&p.Steps[i])
	}
	for slot := range p.Sessions {
		w := watches{}
		for _, step := range t.Steps {
			for i := range step[slot] {
				c.line(&step[slot][i], w)
			}
		}
	}
}

// step counts the forms of bursts.
func (c *Coverage) step(s *Step) {
	if s.Kind != Burst {
		c.count("step " + string(s.Kind))
		return
	}
	if len(s.Bursts) > 1 {
		c.count("step reads together")
		return
	}
	pending := 0
	for _, r := range s.Bursts[0].Requests {
		if jute.OpCode(r.Op) == jute.OpCloseSession && pending > 0 {
			c.count("close with pending writes")
		}
		if writes(jute.OpCode(r.Op)) {
			pending++
		}
	}
	if pending > 1 {
		c.count("step pipelined writes")
	}
}

// watches are those of a connection: kinds by path.
type watches map[string]map[string]bool

func (w watches) add(kind, path string) {
	if w[path] == nil {
		w[path] = map[string]bool{}
	}
	w[path][kind] = true
}

func (c *Coverage) line(l *Line, w watches) {
	if l.Event {
		c.event(l, w)
		return
	}
	if l.Req == nil {
		if strings.HasPrefix(l.Text, "attached") || strings.HasPrefix(l.Text, "opened") {
			clear(w)
		}
		return
	}
	name := l.Op.String()
	if l.Code == jute.Unimplemented && l.Op != jute.OpCheck {
		name = "unknown"
	}
	c.count(fmt.Sprintf("%s %s", name, l.Code.Name()))
	if strings.Count(l.Req.Path, "/") >= 8 {
		c.count("depth >= 8")
		if l.Code == 0 {
			c.count("depth >= 8 OK")
		}
	}
	for i, o := range l.Subs {
		if i < len(l.Req.Ops) {
			name := "OK"
			if o.Type == jute.OpError {
				name = o.Err.Name()
				if o.Err == 0 {
					name = "rolled back"
				}
			}
			c.count(fmt.Sprintf("%s of %s %s", l.Op, jute.OpCode(l.Req.Ops[i].Op), name))
		}
	}
	w.note(l)
}

// note follows which watches a reply has set.
func (w watches) note(l *Line) {
	r := l.Req
	ok := l.Code == 0
	switch l.Op {
	case jute.OpGetData:
		if r.Watch && ok {
			w.add("data", r.Path)
		}
	case jute.OpExists:
		if r.Watch && ok {
			w.add("data", r.Path)
		} else if r.Watch && l.Code == jute.NoNode {
			w.add("exists", r.Path)
		}
	case jute.OpGetChildren, jute.OpGetChildren2:
		if r.Watch && ok {
			w.add("children", r.Path)
		}
	case jute.OpAddWatch:
		if ok {
			w.add([]string{"persistent", "recursive"}[r.Mode&1], r.Path)
		}
	case jute.OpSetWatches, jute.OpSetWatches2:
		for i, kind := range []string{"data", "exists", "children", "persistent", "recursive"} {
			for _, p := range r.Lists[i] {
				if ok {
					w.add(kind, p)
				}
			}
		}
	case jute.OpRemoveWatches:
		if ok && r.Mode == int32(jute.WatcherAny) {
			delete(w, r.Path)
		}
	}
}

// event counts an event for each kind of watch that it can be for.
func (c *Coverage) event(l *Line, w watches) {
	if l.Zxid == -1 {
		c.count(fmt.Sprintf("catch-up %s", l.Type))
		return
	}
	for kind := range w[l.Path] {
		if kind == "children" && l.Type != jute.EventNodeChildrenChanged && l.Type != jute.EventNodeDeleted ||
			kind != "children" && kind != "persistent" && l.Type == jute.EventNodeChildrenChanged {
			continue
		}
		c.count(fmt.Sprintf("watch %s %s", kind, l.Type))
		if kind != "persistent" && kind != "recursive" {
			delete(w[l.Path], kind)
		}
	}
	for at := l.Path; l.Type != jute.EventNodeChildrenChanged; {
		i := strings.LastIndex(at, "/")
		if i < 0 {
			return
		}
		if at = at[:i]; w[at]["recursive"] {
			c.count(fmt.Sprintf("watch recursive above %s", l.Type))
			return
		}
	}
}

// Table is what was counted, a cell a line.
func (c *Coverage) Table() string {
	var v []string
	for cell, n := range c.cells {
		v = append(v, fmt.Sprintf("%-60s %7d", cell, n))
	}
	slices.Sort(v)
	return strings.Join(v, "\n")
}

// Missing are the cells that a long run must have and this one has fewer than least of.
func (c *Coverage) Missing(least int) []string {
	var v []string
	for _, cell := range required() {
		if n := c.cells[cell]; n < least {
			v = append(v, fmt.Sprintf("coverage: %s: %d, want %d", cell, n, least))
		}
	}
	return v
}

// required lists the cells: each opcode with each error that it can give, each kind of watch with each mutation.
func required() []string {
	var v []string
	for op, codes := range map[string]string{
		"create":                   "OK BADARGUMENTS MARSHALLINGERROR INVALIDACL NONODE NOAUTH NODEEXISTS NOCHILDRENFOREPHEMERALS QUOTAEXCEEDED",
		"create2":                  "OK BADARGUMENTS MARSHALLINGERROR INVALIDACL NONODE NOAUTH NODEEXISTS NOCHILDRENFOREPHEMERALS QUOTAEXCEEDED",
		"createContainer":          "OK BADARGUMENTS MARSHALLINGERROR INVALIDACL NONODE NOAUTH NODEEXISTS NOCHILDRENFOREPHEMERALS QUOTAEXCEEDED",
		"createTTL":                "OK BADARGUMENTS MARSHALLINGERROR INVALIDACL NONODE NOAUTH NODEEXISTS NOCHILDRENFOREPHEMERALS QUOTAEXCEEDED",
		"delete":                   "OK BADARGUMENTS MARSHALLINGERROR NONODE NOAUTH BADVERSION NOTEMPTY",
		"setData":                  "OK BADARGUMENTS MARSHALLINGERROR NONODE NOAUTH BADVERSION QUOTAEXCEEDED",
		"setACL":                   "OK BADARGUMENTS MARSHALLINGERROR NONODE NOAUTH BADVERSION INVALIDACL",
		"exists":                   "OK NONODE NOAUTH BADARGUMENTS MARSHALLINGERROR",
		"getData":                  "OK NONODE NOAUTH MARSHALLINGERROR",
		"getChildren":              "OK NONODE NOAUTH MARSHALLINGERROR",
		"getChildren2":             "OK NONODE NOAUTH MARSHALLINGERROR",
		"getACL":                   "OK NONODE NOAUTH MARSHALLINGERROR",
		"getAllChildrenNumber":     "OK NONODE NOAUTH MARSHALLINGERROR",
		"getEphemerals":            "OK MARSHALLINGERROR",
		"sync":                     "OK MARSHALLINGERROR",
		"whoAmI":                   "OK",
		"multi":                    "OK MARSHALLINGERROR",
		"multiRead":                "OK MARSHALLINGERROR",
		"addWatch":                 "OK MARSHALLINGERROR",
		"removeWatches":            "OK NOWATCHER MARSHALLINGERROR",
		"checkWatches":             "OK NOWATCHER MARSHALLINGERROR",
		"setWatches":               "OK MARSHALLINGERROR",
		"setWatches2":              "OK MARSHALLINGERROR",
		"reconfig":                 "RECONFIGDISABLED",
		"check":                    "UNIMPLEMENTED",
		"unknown":                  "UNIMPLEMENTED",
		"auth":                     "OK AUTHFAILED",
		"sasl":                     "OK",
		"ping":                     "OK",
		"closeSession":             "OK",
		"multi of create":          "OK NONODE NOAUTH NODEEXISTS INVALIDACL BADARGUMENTS NOCHILDRENFOREPHEMERALS RUNTIMEINCONSISTENCY QUOTAEXCEEDED|rolled back",
		"multi of create2":         "OK NONODE NOAUTH NODEEXISTS INVALIDACL BADARGUMENTS NOCHILDRENFOREPHEMERALS RUNTIMEINCONSISTENCY QUOTAEXCEEDED|rolled back",
		"multi of createContainer": "OK NONODE NOAUTH NODEEXISTS INVALIDACL BADARGUMENTS NOCHILDRENFOREPHEMERALS RUNTIMEINCONSISTENCY QUOTAEXCEEDED|rolled back",
		"multi of createTTL":       "OK NONODE NOAUTH NODEEXISTS INVALIDACL BADARGUMENTS NOCHILDRENFOREPHEMERALS RUNTIMEINCONSISTENCY QUOTAEXCEEDED|rolled back",
		"multi of delete":          "OK NONODE NOAUTH BADVERSION NOTEMPTY BADARGUMENTS RUNTIMEINCONSISTENCY|rolled back",
		"multi of setData":         "OK NONODE NOAUTH BADVERSION BADARGUMENTS RUNTIMEINCONSISTENCY QUOTAEXCEEDED|rolled back",
		"multi of check":           "OK NONODE NOAUTH BADVERSION BADARGUMENTS RUNTIMEINCONSISTENCY|rolled back",
		"multiRead of getData":     "OK NONODE NOAUTH", "multiRead of getChildren": "OK NONODE NOAUTH",
		"watch data":            "NodeDataChanged NodeDeleted",
		"watch exists":          "NodeCreated",
		"watch children":        "NodeChildrenChanged NodeDeleted",
		"watch persistent":      "NodeCreated NodeDataChanged NodeDeleted NodeChildrenChanged",
		"watch recursive":       "NodeCreated NodeDataChanged NodeDeleted",
		"watch recursive above": "NodeCreated NodeDataChanged NodeDeleted",
		"catch-up":              "NodeCreated NodeDataChanged NodeDeleted NodeChildrenChanged",
	} {
		words, extra, _ := strings.Cut(codes, "|")
		names := strings.Fields(words)
		if extra != "" {
			names = append(names, extra)
		}
		for _, name := range names {
			v = append(v, op+" "+name)
		}
	}
	v = append(v, "depth >= 8", "depth >= 8 OK", "close with pending writes", "step attach", "step wrong-attach", "step reads together",
		"step pipelined writes", "sessions 3", "sessions 4")
	slices.Sort(v)
	return v
}
