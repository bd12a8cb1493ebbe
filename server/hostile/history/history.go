// Package history holds what clients did and were told, and says whether one ensemble can have told it: writes, and
// reads behind a sync, are linearizable; plain reads are sequentially consistent within a session. It imports porcupine
// and nothing of ours, so it knows of the product only what clients saw. To begin reading: Op, then model.go (search for
// an order) and order.go (the order that zxids tell).
package history

import (
	"encoding/json"
	"io"
	"slices"
	"sync"
)

// Kind says what a client may expect of an operation.
type Kind uint8

const (
	Write Kind = iota // linearizable
	Read              // behind a sync on the same connection: linearizable
	Plain             // a read without: sequentially consistent within its session
)

// Outcome is what the client was told.
type Outcome uint8

const (
	Unknown Outcome = iota // nothing: a write may have taken effect at any time after Call, or never will
	OK
	Refused // it has had no effect, for a reason that held at one moment between Call and Return
	Void    // it was not executed and will not be
)

// Action is what a part of an operation does to a register.
type Action uint8

const (
	Look   Action = iota // read it: value and version
	Set                  // if the version is the one expected
	Create               // if it is not there
	Check                // that the version is the one expected
	Next                 // create a sequential node below it; Version is the number
	Count                // count its children: Version is the number of the newest
)

// AnyVersion expects no particular version; Missing is the version of a register that is not there.
const (
	AnyVersion int32 = -1
	Missing    int32 = -1
)

// Registers is how many registers an object has, which one operation can touch at once.
const Registers = 2

// Part is one register's share in an operation.
type Part struct {
	Do       Action
	Register int    // 0 to Registers-1
	Expect   int32  // of Set and Check
	Value    string // written, or read; values that are written differ from each other
	Version  int32  // as answered
	Zxid     int64  // of the change that it made or shows; 0: not known
}

// Op is one operation of one client. All parts of one that writes happen at once, or none.
type Op struct {
	Session int // operations of a session are in the order of its requests
	Object  string
	Kind    Kind
	Parts   []Part
	Outcome Outcome

	Call, Return int64 // any clock that all clients share; Return counts only if there was an answer

	seen bool // a sequential node of its value is there
}

// Recorder collects a history from many goroutines.
type Recorder struct {
	now func() int64
	mu  sync.Mutex
	ops []*Op
}

// NewRecorder records by a clock.
func NewRecorder(now func() int64) *Recorder { return &Recorder{now: now} }

// Begin notes an operation that is about to be sent. Until End the caller owns it and fills in what is answered.
func (r *Recorder) Begin(op Op) *Op {
	op.Call = r.now()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ops = append(r.ops, &op)
	return &op
}

// End notes its answer.
func (r *Recorder) End(op *Op, o Outcome) {
	op.Outcome, op.Return = o, r.now()
}

// Ops is everything recorded. Nobody may record any more.
func (r *Recorder) Ops() []*Op {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.ops)
}

// Resolve settles the sequential creates of an object whose answers never came, from what is there when nothing happens
// any more: names has the number of every value. What is there and was not to be is left as a fault for Verify.
func Resolve(ops []*Op, object string, names map[string]int32) []*Op {
	return slices.DeleteFunc(ops, func(op *Op) bool {
		if op.Object != object || op.Parts[0].Do != Next || op.Outcome == OK {
			return false
		}
		number, there := names[op.Parts[0].Value]
		if there && op.Outcome == Unknown {
			op.Outcome, op.Return, op.Parts[0].Version = OK, never, number
		}
		op.seen = there
		return !there
	})
}

// Dump writes a history, an operation a line.
func Dump(w io.Writer, ops []*Op) error {
	e := json.NewEncoder(w)
	for _, op := range ops {
		if err := e.Encode(op); err != nil {
			return err
		}
	}
	return nil
}
