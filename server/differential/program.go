package differential

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/zkserver/zkserver/proto/jute"
)

// Program is a list of steps for some sessions. Paths begin with "~", the root that a run works below.
type Program struct {
	Seed     uint64 `json:"seed"`
	Sessions int    `json:"sessions"`
	Steps    []Step `json:"-"`
}

// StepKind is what a step does.
type StepKind string

// The kinds. Attach closes the session's connection and attaches the session to a new one; if the session has been
// closed it opens another. WrongAttach tries a wrong password in between.
const (
	Burst       StepKind = "burst"
	Attach      StepKind = "attach"
	WrongAttach StepKind = "wrong-attach"
)

// Step is what happens between two barriers. More than one burst only if all of them only read.
type Step struct {
	Kind   StepKind    `json:"kind"`
	Slot   int         `json:"slot,omitempty"` // of attaches
	Bursts []SlotBurst `json:"bursts,omitempty"`
}

// SlotBurst is what one session sends at once.
type SlotBurst struct {
	Slot     int       `json:"slot"`
	Requests []Request `json:"requests"`
}

// Request is one request, or an operation of a multi. Which fields mean something depends on Op.
type Request struct {
	Op       OpName    `json:"op"`
	Path     string    `json:"path,omitempty"` // of auth: the scheme
	Null     bool      `json:"null,omitempty"` // the path is null
	Data     string    `json:"data,omitempty"` // of auth: the credentials
	NullData bool      `json:"nullData,omitempty"`
	ACL      string    `json:"acl,omitempty"` // a name of the table in wire.go
	Flags    int32     `json:"flags,omitempty"`
	Version  int32     `json:"version,omitempty"`
	TTL      int64     `json:"ttl,omitempty"`
	Watch    bool      `json:"watch,omitempty"`
	Mode     int32     `json:"mode,omitempty"` // of addWatch; the watcher type of checkWatches and removeWatches
	Ops      []Request `json:"ops,omitempty"`
	Rel      int64     `json:"rel,omitempty"` // of setWatches, counted from the program's start
	// Lists of setWatches and setWatches2, in the order of the record; null if left out.
	Lists [5][]string `json:"lists,omitzero"`
	// Cut leaves out that many bytes at the end of the body.
	Cut int `json:"cut,omitempty"`
}

// OpName is an opcode that scripts write by name.
type OpName jute.OpCode

// MarshalText is ZooKeeper's name of the opcode, or its number.
func (o OpName) MarshalText() ([]byte, error) { return []byte(jute.OpCode(o).String()), nil }

// UnmarshalText reads a name or a number.
func (o *OpName) UnmarshalText(b []byte) error {
	for op := jute.OpCode(-11); op <= 107; op++ {
		if op.String() == string(b) {
			*o = OpName(op)
			return nil
		}
	}
	var n int32
	if _, err := fmt.Sscanf(string(b), "%d", &n); err != nil {
		return fmt.Errorf("opcode %q: %w", b, err)
	}
	*o = OpName(n)
	return nil
}

// Script writes a program: a line for the program, then one for each step.
func (p *Program) Script() string {
	var out strings.Builder
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	_ = enc.Encode(p)
	for i := range p.Steps {
		_ = enc.Encode(&p.Steps[i])
	}
	return out.String()
}

// ParseScript reads what Script wrote. Empty lines and lines that begin with # are passed over.
func ParseScript(text []byte) (*Program, error) {
	var p *Program
	s := bufio.NewScanner(bytes.NewReader(text))
	s.Buffer(nil, 16<<20)
	for n := 1; s.Scan(); n++ {
		line := bytes.TrimSpace(s.Bytes())
		if len(line) == 0 || line[0] == '#' {
			continue
		}
		if p == nil {
			p = &Program{}
			if err := json.Unmarshal(line, p); err != nil {
				return nil, fmt.Errorf("line %d: %w", n, err)
			}
			continue
		}
		var step Step
		if err := json.Unmarshal(line, &step); err != nil {
			return nil, fmt.Errorf("line %d: %w", n, err)
		}
		p.Steps = append(p.Steps, step)
	}
	if p == nil {
		return nil, fmt.Errorf("no program")
	}
	return p, s.Err()
}

// Count is the number of requests.
func (p *Program) Count() int {
	n := 0
	for i := range p.Steps {
		for _, b := range p.Steps[i].Bursts {
			n += len(b.Requests)
		}
	}
	return n
}

// each calls f for every request, operations of multis included.
func (p *Program) each(f func(*Request)) {
	var visit func([]Request)
	visit = func(v []Request) {
		for i := range v {
			f(&v[i])
			visit(v[i].Ops)
		}
	}
	for i := range p.Steps {
		for _, b := range p.Steps[i].Bursts {
			visit(b.Requests)
		}
	}
}
