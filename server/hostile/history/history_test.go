package history

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"
)

// honest makes the history of a service that does what it should, from a seed: requests take time, answers get lost,
// followers lag. It is written without a look at the model.
type honest struct {
	rng      *rand.Rand
	clock    int64
	zxid     int64
	regs     map[place][]change
	sessions []*client
	ops      []*Op
	lost     []*Op // whose answers nobody hears; they may still take effect
	values   int
}

type change struct {
	zxid    int64
	version int32
	value   string
}

type client struct {
	id   int
	seen int64
	op   *Op
	done bool // it has taken effect
}

func newHonest(seed uint64, ops int) []*Op {
	h := &honest{rng: rand.New(rand.NewPCG(seed, 1)), regs: map[place][]change{}}
	for i := range 5 {
		h.sessions = append(h.sessions, &client{id: i})
	}
	for h.clock = 1; len(h.ops) < ops || slices.ContainsFunc(h.sessions, func(c *client) bool { return c.op != nil }); h.clock++ {
		if i := h.rng.IntN(40); i < len(h.lost) {
			h.happen(h.lost[i], nil)
			h.lost = slices.Delete(h.lost, i, i+1)
			continue
		}
		c := h.sessions[h.rng.IntN(len(h.sessions))]
		switch {
		case c.op == nil && len(h.ops) < ops:
			c.op, c.done = h.request(c), false
			c.op.Call = h.clock
			h.ops = append(h.ops, c.op)
		case c.op == nil:
		case !c.done && h.rng.IntN(40) == 0: // the connection is lost before anything happens, or for ever
			h.lost = append(h.lost, c.op)
			c.op = nil
		case !c.done:
			h.happen(c.op, c)
			c.done = true
			if h.rng.IntN(40) == 0 { // and here behind it
				c.op.Outcome, c.op = Unknown, nil
			}
		default:
			c.op.Return, c.op = h.clock, nil
		}
	}
	return h.ops
}

func (h *honest) request(c *client) *Op {
	h.values++
	value := fmt.Sprintf("v%d", h.values)
	set := func(r int) Part { return Part{Do: Set, Register: r, Expect: AnyVersion, Value: value} }
	op := &Op{Session: c.id, Object: "r" + string(rune('0'+h.rng.IntN(2)))}
	switch k := h.rng.IntN(20); {
	case k < 1:
		op.Parts = []Part{{Do: Create, Value: value}}
	case k < 2:
		op.Parts = []Part{{Do: Create, Register: 1, Value: value}}
	case k < 6:
		op.Parts = []Part{set(0)}
	case k < 8:
		op.Parts = []Part{set(0)}
		op.Parts[0].Expect = int32(h.rng.IntN(6))
	case k < 11:
		op.Parts = []Part{{Do: Check, Expect: int32(h.rng.IntN(9)) - 1}, set(0), set(1)}
	case k < 14:
		op.Object, op.Parts = "s", []Part{{Do: Next, Value: value}}
	case k < 15:
		op.Object, op.Kind, op.Parts = "s", Read, []Part{{Do: Count}}
	case k < 18:
		op.Kind, op.Parts = Read, []Part{{Do: Look}, {Do: Look, Register: 1}}
	default:
		op.Kind, op.Parts = Plain, []Part{{Do: Look}, {Do: Look, Register: 1}}
	}
	return op
}

// happen lets an operation take effect; c hears of it, unless it is nil.
func (h *honest) happen(op *Op, c *client) {
	at := h.zxid
	if op.Kind == Plain && c != nil {
		at = c.seen + h.rng.Int64N(h.zxid-c.seen+1) // a server that lags
	}
	if op.Kind != Write {
		for i := range op.Parts {
			p := &op.Parts[i]
			p.Version, p.Value, p.Zxid = Missing, "", 0
			for _, x := range h.regs[op.place(p)] {
				if x.zxid <= at {
					p.Version, p.Value, p.Zxid = x.version, x.value, x.zxid
				}
			}
			if p.Do == Count {
				p.Value = ""
			}
		}
		if c != nil {
			op.Outcome, c.seen = OK, max(c.seen, op.newest())
		}
		return
	}
	h.zxid++
	next := map[place][]change{}
	refused := false
	for i := range op.Parts {
		p := &op.Parts[i]
		log := h.regs[op.place(p)]
		version := Missing
		if len(log) > 0 {
			version = log[len(log)-1].version
		}
		if p.Do == Create && version != Missing || (p.Do == Set || p.Do == Check) && (version == Missing || p.Expect != AnyVersion && p.Expect != version) {
			refused = true
		}
		if p.Do != Check {
			next[op.place(p)] = append(slices.Clone(log), change{h.zxid, version + 1, p.Value})
			if c != nil {
				p.Version, p.Zxid = version+1, h.zxid
			}
		}
	}
	if !refused {
		for at, log := range next {
			h.regs[at] = log
		}
	}
	switch {
	case c == nil:
	case refused:
		op.Outcome = Refused
	default:
		op.Outcome, c.seen = OK, h.zxid
	}
}

func verify(ops []*Op) Report { return Verify(ops, time.Minute) }

func TestHonestHistories(t *testing.T) {
	unknown := 0
	for seed := range uint64(60) {
		ops := newHonest(seed, 300)
		r := verify(ops)
		if len(r.Faults) > 0 || len(r.Undecided) > 0 {
			t.Fatalf("seed %d: %+v", seed, r)
		}
		unknown += r.Unknown
	}
	if unknown < 100 {
		t.Errorf("%d unknown outcomes", unknown)
	}
}

// one is an answered operation of a session; a write without a version is of the first one.
func one(session int, call, ret int64, kind Kind, parts ...Part) *Op {
	return &Op{Session: session, Object: "r", Kind: kind, Outcome: OK, Call: call, Return: ret, Parts: parts}
}

func set(value string, version int32, zxid int64) Part {
	return Part{Do: Set, Expect: AnyVersion, Value: value, Version: version, Zxid: zxid}
}

func look(value string, version int32, zxid int64) Part {
	return Part{Do: Look, Value: value, Version: version, Zxid: zxid}
}

func next(value string, number int32, zxid int64) Part {
	return Part{Do: Next, Value: value, Version: number, Zxid: zxid}
}

func second(p Part) Part {
	p.Register = 1
	return p
}

func with(op *Op, o Outcome) *Op {
	op.Outcome = o
	return op
}

// made creates the two registers of the object.
func made() []*Op {
	return []*Op{
		one(9, 0, 1, Write, Part{Do: Create, Value: "a0", Zxid: 1}),
		one(9, 2, 3, Write, second(Part{Do: Create, Value: "b0", Zxid: 2})),
	}
}

// TestPlantedViolations: each kind of lie is found, by the check that is meant to, also without the zxids that other
// checks need.
func TestPlantedViolations(t *testing.T) {
	const search = "not linearizable"
	tests := []struct {
		name string
		ops  []*Op
		want []string
	}{
		{"stale read behind a sync", []*Op{
			one(1, 10, 11, Write, set("x", 1, 10)), one(2, 12, 13, Read, look("a0", 0, 1)),
		}, []string{search, "real time"}},
		{"lost write", []*Op{
			one(1, 10, 11, Write, set("x", 1, 10)), one(2, 12, 13, Write, set("y", 1, 12)), one(2, 14, 15, Read, look("y", 1, 12)),
		}, []string{search, "versions"}},
		{"lost write, read later", []*Op{one(1, 10, 11, Write, set("x", 1, 10)), one(1, 20, 21, Read, look("a0", 0, 1))},
			[]string{search, "session"}},
		{"a sequence number given twice", []*Op{
			one(1, 10, 20, Write, next("x", 0, 10)), one(2, 10, 20, Write, next("y", 0, 11)),
		}, []string{search, "versions"}},
		{"a sequence number left out", []*Op{
			one(1, 10, 11, Write, next("x", 0, 10)), one(2, 12, 13, Write, next("y", 2, 11)),
		}, []string{search}},
		{"a child that was answered is not there", []*Op{
			one(1, 10, 11, Write, next("x", 0, 10)), one(2, 12, 13, Read, Part{Do: Count, Version: Missing, Zxid: 5}),
		}, []string{search, "real time"}},
		{"half a multi", []*Op{
			one(1, 10, 11, Write, set("x", 1, 10), second(set("x", 1, 10))), one(2, 12, 13, Read, look("x", 1, 10), second(look("b0", 0, 2))),
		}, []string{search, "torn"}},
		{"half a multi in a plain read", []*Op{
			one(1, 10, 11, Write, set("x", 1, 10), second(set("x", 1, 10))), one(2, 12, 13, Plain, look("x", 1, 10), second(look("b0", 0, 2))),
		}, []string{"torn"}},
		{"refused without a reason", []*Op{with(one(1, 10, 11, Write, set("x", 0, 0)), Refused)}, []string{search}},
		{"done though it should have been refused", []*Op{
			one(1, 10, 11, Write, Part{Do: Check, Expect: 7}, set("x", 1, 10)),
		}, []string{search}},
		{"a refused write is seen", []*Op{
			with(one(1, 10, 11, Write, Part{Do: Set, Expect: 7, Value: "x"}), Refused), one(2, 12, 13, Plain, look("x", 1, 10)),
		}, []string{"refused"}},
		{"what was not executed is seen", []*Op{
			with(one(1, 10, 11, Write, set("x", 0, 0)), Void), one(2, 12, 13, Plain, look("x", 1, 10)),
		}, []string{"refused"}},
		{"a read shows what is written later", []*Op{one(2, 8, 9, Plain, look("x", 1, 10)), one(1, 10, 11, Write, set("x", 1, 10))}, []string{"future"}},
		{"nobody wrote it", []*Op{one(2, 8, 9, Plain, look("x", 1, 10))}, []string{"nobody"}},
		{"a write that happens twice", []*Op{
			with(one(1, 10, 11, Write, set("x", 0, 0)), Unknown), one(2, 12, 13, Plain, look("x", 1, 10)),
			one(3, 14, 15, Write, set("y", 2, 11)), one(2, 16, 17, Plain, look("x", 3, 12)),
		}, []string{"twice"}},
		{"two servers differ", []*Op{
			with(one(1, 10, 30, Write, set("x", 0, 0)), Unknown), with(one(1, 10, 30, Write, set("y", 0, 0)), Unknown),
			one(2, 12, 13, Plain, look("x", 1, 10)), one(3, 12, 13, Plain, look("y", 1, 10)),
		}, []string{"different"}},
		{"a session goes back", []*Op{
			one(1, 10, 11, Write, set("x", 1, 10)), one(2, 12, 13, Plain, look("x", 1, 10)), one(2, 14, 15, Plain, look("a0", 0, 1)),
		}, []string{"session"}},
		{"a session goes back in another register", []*Op{
			one(1, 10, 11, Write, set("x", 1, 10)), one(1, 12, 13, Write, second(set("y", 1, 11))),
			one(2, 14, 15, Plain, second(look("y", 1, 11))), one(2, 16, 17, Plain, look("a0", 0, 1)),
		}, []string{"session"}},
		{"a session misses its own write", []*Op{
			one(1, 10, 11, Write, set("x", 1, 10)), one(1, 12, 13, Plain, look("a0", 0, 1)),
		}, []string{"session"}},
		{"a session's node is gone again", []*Op{one(9, 12, 13, Plain, Part{Do: Look, Version: Missing})}, []string{"session"}},
		{"a zxid from before", []*Op{
			one(1, 10, 11, Write, set("x", 1, 10)), one(2, 12, 13, Write, second(set("y", 1, 9))),
		}, []string{"real time"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := verify(append(made(), tt.ops...))
			all := strings.Join(got.Faults, "\n")
			for _, want := range tt.want {
				if !strings.Contains(all, want) {
					t.Errorf("not found by %q:\n%s", want, all)
				}
			}
		})
	}
}

// TestNoFalseAlarm: what looks strange and is allowed.
func TestNoFalseAlarm(t *testing.T) {
	for name, ops := range map[string][]*Op{
		"an unknown write takes effect late": {
			with(one(1, 10, 0, Write, set("x", 0, 0)), Unknown),
			one(2, 100, 101, Read, look("a0", 0, 1)), one(2, 102, 103, Read, look("x", 1, 10)),
		},
		"an unknown write never takes effect": {
			with(one(1, 10, 0, Write, set("x", 0, 0)), Unknown), one(2, 100, 101, Read, look("a0", 0, 1)),
		},
		"an unknown write would have been refused": {
			with(one(1, 10, 0, Write, Part{Do: Set, Expect: 7, Value: "x"}), Unknown), one(2, 100, 101, Write, set("y", 1, 10)),
		},
		"a plain read lags": {
			one(1, 10, 11, Write, set("x", 1, 10)), one(2, 12, 13, Plain, look("a0", 0, 1)),
		},
		"concurrent writes in either order": {
			one(1, 10, 20, Write, set("x", 2, 11)), one(2, 10, 20, Write, set("y", 1, 10)), one(3, 10, 20, Read, look("y", 1, 10)),
		},
	} {
		if r := verify(append(made(), ops...)); len(r.Faults) > 0 {
			t.Errorf("%s: %v", name, r.Faults)
		}
	}
}

// TestPlantedInLongHistories: one lie among many honest answers.
func TestPlantedInLongHistories(t *testing.T) {
	plants := map[string]func(rng *rand.Rand, ops []*Op) bool{
		"stale sync+read": func(rng *rand.Rand, ops []*Op) bool { // shows what was there before the newest acknowledged write
			i := rng.IntN(len(ops))
			r := ops[i]
			if r.Kind != Read || r.Outcome != OK || r.Parts[0].Do != Look || r.Parts[0].Version < 3 {
				return false
			}
			for j := i - 1; j >= 0; j-- {
				w := ops[j]
				if w.Object == r.Object && w.Outcome == OK && w.Parts[0].Do == Look && w.Parts[0].Version >= 0 && w.Parts[0].Version < r.Parts[0].Version-1 {
					newer := slices.ContainsFunc(ops[:i], func(x *Op) bool {
						return x.Object == r.Object && x.Kind == Write && x.Outcome == OK && x.Return < r.Call && x.newest() > w.newest() && x.Parts[0].Do == Set
					})
					if newer {
						r.Parts = w.Parts
					}
					return newer
				}
			}
			return false
		},
		"lost write": func(rng *rand.Rand, ops []*Op) bool { // acknowledged, and no trace of it
			w := ops[rng.IntN(len(ops))]
			if w.Kind != Write || w.Outcome != Refused || w.Parts[0].Do != Set {
				return false
			}
			w.Outcome, w.Parts[0].Version = OK, w.Parts[0].Expect+1
			return true
		},
		"number twice": func(rng *rand.Rand, ops []*Op) bool {
			w := ops[rng.IntN(len(ops))]
			if w.Outcome != OK || w.Parts[0].Do != Next || w.Parts[0].Version == 0 {
				return false
			}
			w.Parts[0].Version--
			return slices.ContainsFunc(ops, func(x *Op) bool {
				return x != w && x.Outcome == OK && x.Parts[0].Do == Next && x.Parts[0].Version == w.Parts[0].Version
			})
		},
	}
	for name, plant := range plants {
		t.Run(name, func(t *testing.T) {
			for seed := range uint64(10) {
				rng := rand.New(rand.NewPCG(seed, 2))
				ops := newHonest(seed, 300)
				for tries := 0; !plant(rng, ops); tries++ {
					if tries > 100000 {
						t.Fatalf("seed %d: no place for it", seed)
					}
				}
				if r := verify(ops); len(r.Faults) == 0 {
					t.Errorf("seed %d: not found", seed)
				}
			}
		})
	}
}

// TestManyUnknownCreates: what nobody knows of sequential creates does not make the search endless.
func TestManyUnknownCreates(t *testing.T) {
	var ops []*Op
	for i := range int64(60) {
		ops = append(ops, with(one(int(i), 10*i, 0, Write, next(fmt.Sprint("u", i), 0, 0)), Unknown))
		if i%2 == 1 {
			ops = append(ops, one(100, 10*i+1, 10*i+2, Write, next(fmt.Sprint("a", i), int32(i), i+1)))
		}
	}
	if r := verify(ops); len(r.Faults) > 0 || len(r.Undecided) > 0 {
		t.Errorf("%+v", r)
	}
	ops = append(ops, one(100, 1000, 1001, Read, Part{Do: Count, Version: 300, Zxid: 99}))
	if r := verify(ops); len(r.Faults) == 0 {
		t.Error("more children than were asked for are not found")
	}
}

func TestResolve(t *testing.T) {
	ops := []*Op{
		with(one(1, 10, 0, Write, next("x", 0, 0)), Unknown), with(one(1, 11, 0, Write, next("y", 0, 0)), Unknown),
		one(2, 20, 21, Write, next("z", 1, 10)),
	}
	ops = Resolve(ops, "r", map[string]int32{"x": 0, "z": 1})
	if len(ops) != 2 || ops[0].Outcome != OK {
		t.Fatalf("%+v", ops)
	}
	if r := verify(ops); len(r.Faults) > 0 {
		t.Error(r.Faults)
	}
	ops = Resolve([]*Op{with(one(1, 10, 0, Write, next("x", 0, 0)), Unknown), one(2, 20, 21, Write, next("z", 0, 10))}, "r", map[string]int32{"x": 0, "z": 0})
	if r := verify(ops); len(r.Faults) == 0 {
		t.Error("two of one number are not found")
	}
	ops = Resolve([]*Op{with(one(1, 10, 11, Write, next("x", 0, 0)), Void)}, "r", map[string]int32{"x": 0})
	if r := verify(ops); len(r.Faults) == 0 {
		t.Error("a child that was not to be is not found")
	}
}
