package differential_test

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/zkserver/zkserver/proto/jute"
	"github.com/zkserver/zkserver/server/differential"
)

func op(r differential.Request) jute.OpCode { return jute.OpCode(r.Op) }

func writes(o jute.OpCode) bool {
	return slices.Contains([]jute.OpCode{jute.OpCreate, jute.OpCreate2, jute.OpCreateContainer, jute.OpCreateTTL, jute.OpDelete,
		jute.OpSetData, jute.OpSetACL, jute.OpMulti, jute.OpReconfig, jute.OpCloseSession}, o)
}

// Programs keep what the package promises: nothing that is a race in Apache or ends it.
func TestGeneratedProgramsKeepTheRules(t *testing.T) {
	for seed := range uint64(300) {
		p := differential.Generate(seed, 200)
		if p.Count() < 200 || p.Sessions < 3 {
			t.Fatalf("seed %d: %d requests in %d sessions", seed, p.Count(), p.Sessions)
		}
		quota := strings.Contains(p.Script(), "zookeeper_limits")
		for i, s := range p.Steps {
			for _, b := range s.Bursts {
				checkBurst(t, fmt.Sprintf("seed %d step %d", seed, i+1), b.Requests, len(s.Bursts) > 1, quota)
			}
		}
	}
}

func checkBurst(t *testing.T, at string, v []differential.Request, readsOnly, quota bool) {
	t.Helper()
	written, quiet := 0, ""
	for _, r := range v {
		if writes(op(r)) {
			if readsOnly {
				t.Errorf("%s: %v among reads", at, op(r))
			}
			if quiet != "" && op(r) != jute.OpCloseSession {
				t.Errorf("%s: %v behind %s", at, op(r), quiet)
			}
			if op(r) != jute.OpCloseSession {
				written++
			}
		}
		switch op(r) {
		case jute.OpSetACL, jute.OpCloseSession:
			quiet = op(r).String()
		case jute.OpAuth, jute.OpSASL:
			if len(v) > 1 {
				t.Errorf("%s: %v is not alone", at, op(r))
			}
		case jute.OpDeleteContainer, jute.OpCreateSession:
			t.Errorf("%s: %v", at, op(r))
		}
		all := append([]differential.Request{r}, r.Ops...)
		for _, o := range all {
			if op(o) == jute.OpCreateTTL && len(r.Ops) == 0 && o.Flags >= 0 && o.Flags < 5 && o.TTL < 0 {
				t.Errorf("%s: this ends Apache: %+v", at, o)
			}
			if strings.HasSuffix(o.Path, "zookeeper_stats") && op(o) == jute.OpSetData {
				t.Errorf("%s: sets stats", at)
			}
		}
	}
	if quota && written > 1 {
		t.Errorf("%s: %d writes under a quota", at, written)
	}
}

func TestProgramsDependOnTheSeedAlone(t *testing.T) {
	a, b := differential.Generate(5, 300).Script(), differential.Generate(5, 300).Script()
	if a != b {
		t.Error("one seed, two programs")
	}
	if a == differential.Generate(6, 300).Script() {
		t.Error("two seeds, one program")
	}
}

func TestScriptsReadBack(t *testing.T) {
	for seed := range uint64(50) {
		p := differential.Generate(seed, 200)
		q, err := differential.ParseScript([]byte("# a note\n\n" + p.Script()))
		if err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(p, q) {
			t.Fatalf("seed %d does not read back", seed)
		}
	}
	for _, bad := range []string{"", "{", "{}\n{\"bursts\":[{\"requests\":[{\"op\":\"nosuch\"}]}]}"} {
		if _, err := differential.ParseScript([]byte(bad)); err == nil {
			t.Errorf("no error for %q", bad)
		}
	}
}

// The smallest program that fails is found: here two requests in two steps and one operation of a multi matter.
func TestShrink(t *testing.T) {
	p := differential.Generate(3, 400)
	has := func(p *differential.Program, path string, o jute.OpCode) bool {
		for _, s := range p.Steps {
			for _, b := range s.Bursts {
				for _, r := range b.Requests {
					for _, x := range append([]differential.Request{r}, r.Ops...) {
						if x.Path == path && op(x) == o {
							return true
						}
					}
				}
			}
		}
		return false
	}
	mark := func(step int, r differential.Request) {
		p.Steps = slices.Insert(p.Steps, step, differential.Step{Kind: differential.Burst, Bursts: []differential.SlotBurst{{
			Requests: []differential.Request{{Op: differential.OpName(jute.OpPing)}, r, {Op: differential.OpName(jute.OpWhoAmI)}}}}})
	}
	mark(7, differential.Request{Op: differential.OpName(jute.OpGetData), Path: "~/needle"})
	mark(40, differential.Request{Op: differential.OpName(jute.OpMulti), Ops: []differential.Request{
		{Op: differential.OpName(jute.OpCheck), Path: "~/hay"}, {Op: differential.OpName(jute.OpDelete), Path: "~/pin"}}})
	fails := func(q *differential.Program) bool {
		return has(q, "~/needle", jute.OpGetData) && has(q, "~/pin", jute.OpDelete)
	}
	small := differential.Shrink(p, 2000, fails)
	if !fails(small) || len(small.Steps) != 2 || small.Count() != 2 || has(small, "~/hay", jute.OpCheck) {
		t.Errorf("shrunk to\n%s", small.Script())
	}
	if again := differential.Shrink(p, 3, fails); !fails(again) {
		t.Error("a small budget gives a program that does not fail")
	}
}

func transcript(lines ...differential.Line) *differential.Transcript {
	return &differential.Transcript{Steps: [][][]differential.Line{{lines}}}
}

func TestCompare(t *testing.T) {
	reply := func(text string) differential.Line { return differential.Line{Text: text, Op: jute.OpGetData, Zxid: 5} }
	event := func(text string, zxid int64) differential.Line {
		return differential.Line{Text: text, Event: true, Zxid: zxid}
	}
	closing := differential.Line{Text: "closeSession", Op: jute.OpCloseSession, Zxid: 5}
	late := differential.Line{Text: "late", Op: jute.OpExists, Code: jute.SessionExpired}
	tests := []struct {
		name  string
		a, b  *differential.Transcript
		equal bool
	}{
		{"same", transcript(reply("a"), event("e", 4)), transcript(reply("a"), event("e", 4)), true},
		{"another answer", transcript(reply("a")), transcript(reply("b")), false},
		{"a line less", transcript(reply("a"), event("e", 4)), transcript(reply("a")), false},
		{"order of reply and event", transcript(reply("a"), event("e", 4)), transcript(event("e", 4), reply("a")), false},
		{"order of events", transcript(event("e", 4), event("f", 4)), transcript(event("f", 4), event("e", 4)), false},
		{"a session's end in any order", transcript(event("e", 5), event("f", 5), closing), transcript(event("f", 5), event("e", 5), closing), true},
		{"but not of its events and others", transcript(event("e", 4), event("f", 5), closing), transcript(event("f", 5), event("e", 4), closing), false},
		{"a session's end without one event", transcript(event("e", 5), event("f", 5), closing), transcript(event("e", 5), closing), false},
		{"behind the end", transcript(closing, late), transcript(closing), true},
		{"ended early", transcript(reply("a")), &differential.Transcript{}, false},
	}
	for _, tt := range tests {
		for _, pair := range [][2]*differential.Transcript{{tt.a, tt.b}, {tt.b, tt.a}} {
			if d := differential.Compare(pair[0], pair[1]); (d == nil) != tt.equal {
				t.Errorf("%s: %v", tt.name, d)
			}
		}
	}
}
