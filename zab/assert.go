package zab

import "fmt"

// InvariantError is what a core panics with when one of its own invariants is broken, by a fault of its own or of its
// host, never by what a peer says. Nothing wrong has been promised yet: the process must end.
type InvariantError struct{ Msg string }

func (e *InvariantError) Error() string { return "zab: broken invariant: " + e.Msg }

func assert(ok bool, format string, args ...any) {
	if !ok {
		panic(&InvariantError{Msg: fmt.Sprintf(format, args...)})
	}
}
