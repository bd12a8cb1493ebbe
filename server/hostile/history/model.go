package history

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/anishathalye/porcupine"
)

const never = math.MaxInt64

// state is that of an object.
type state [Registers]register

type register struct {
	version int32 // or the number of the newest sequential child; Missing: neither
	value   string
}

// model is what an object is; every object is by itself, as linearizability allows.
var model = porcupine.Model{
	Init: func() any { return state{{version: Missing}, {version: Missing}} },
	Step: func(s, in, _ any) (bool, any) {
		ok, next := in.(*Op).step(s.(state))
		return ok, next
	},
}

// step is the operation taking effect: whether it can have been answered as it was, and what is then.
func (op *Op) step(s state) (bool, state) {
	next, possible := s, true
	for i := range op.Parts {
		p := &op.Parts[i]
		r := &next[p.Register]
		expected := r.version != Missing && (p.Expect == AnyVersion || p.Expect == r.version)
		switch p.Do {
		case Look:
			if *r != (register{p.Version, p.Value}) {
				return false, s
			}
		case Count:
			if r.version != p.Version {
				return false, s
			}
		case Check:
			possible = possible && expected
		case Set:
			possible = possible && expected
			r.version, r.value = r.version+1, p.Value
		case Create:
			possible = possible && r.version == Missing
			r.version, r.value = 0, p.Value
		case Next:
			r.version++
		}
		if possible && op.Outcome == OK && p.writes() && r.version != p.Version {
			return false, s
		}
	}
	switch {
	case op.Outcome == Unknown && !possible, op.Outcome == Refused && !possible:
		return true, s
	case op.Outcome == Refused, !possible:
		return false, s
	}
	return true, next
}

// settle gives sequential creates without an answer the numbers that nobody else has, in the order in which they began.
// If they can have had the missing numbers at all they can have had them so: of two, the one that began first could have
// taken either. The others have left no trace and are dropped. Without it the search tries every choice among them.
func settle(list []porcupine.Operation) []porcupine.Operation {
	var unknown []int
	taken, newest := map[int32]bool{}, Missing
	for i, o := range list {
		op := o.Input.(*Op)
		p := &op.Parts[len(op.Parts)-1]
		switch {
		case p.Do == Next && op.Outcome == Unknown:
			unknown = append(unknown, i)
		case p.Do == Next && op.Outcome == OK:
			taken[p.Version] = true
			newest = max(newest, p.Version)
		case p.Do == Count:
			newest = max(newest, p.Version)
		}
	}
	slices.SortStableFunc(unknown, func(a, b int) int { return cmp.Compare(list[a].Call, list[b].Call) })
	for number := int32(0); number <= newest && len(unknown) > 0; number++ {
		if taken[number] {
			continue
		}
		op := *list[unknown[0]].Input.(*Op)
		op.Parts = slices.Clone(op.Parts)
		op.Parts[len(op.Parts)-1].Version, op.Outcome = number, OK
		list[unknown[0]].Input = &op
		unknown = unknown[1:]
	}
	return slices.DeleteFunc(list, func(o porcupine.Operation) bool {
		op := o.Input.(*Op)
		return op.Outcome == Unknown && op.Parts[len(op.Parts)-1].Do == Next
	})
}

func (p *Part) writes() bool { return p.Do == Set || p.Do == Create || p.Do == Next }

// Report is what came out of a check.
type Report struct {
	Operations int // with an answer
	Unknown    int // writes without
	Objects    int
	Undecided  []string // objects for which the search took too long: of these only what order.go checks is known
	Faults     []string
}

// maxFaults bounds what is told of one kind.
const maxFaults = 20

// Verify checks a history. patience bounds the search for an order of one object.
func Verify(ops []*Op, patience time.Duration) Report {
	var r Report
	byObject := map[string][]porcupine.Operation{}
	for _, op := range ops {
		switch {
		case op.Outcome == Unknown && op.Kind == Write:
			r.Unknown++
		case op.Outcome == OK || op.Outcome == Refused:
			r.Operations++
		}
		if op.Kind == Plain || op.Outcome == Void || op.Outcome == Unknown && op.Kind != Write {
			continue
		}
		o := porcupine.Operation{Input: op, Call: op.Call, Return: op.Return}
		if op.Outcome == Unknown {
			o.Return = never
		}
		byObject[op.Object] = append(byObject[op.Object], o)
	}
	for name, list := range byObject {
		byObject[name] = settle(list)
	}
	r.Objects = len(byObject)
	r.Faults = order(ops)
	names := make([]string, 0, len(byObject))
	for name := range byObject {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		switch porcupine.CheckOperationsTimeout(model, byObject[name], patience) {
		case porcupine.Illegal:
			r.Faults = append(r.Faults, fmt.Sprintf("%s is not linearizable (%d operations)", name, len(byObject[name])))
		case porcupine.Unknown:
			r.Undecided = append(r.Undecided, name)
		case porcupine.Ok:
		}
	}
	return r
}
