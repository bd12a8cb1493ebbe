package recipe

import (
	"errors"

	"github.com/zkserver/zkserver/client"
)

// Options of a recipe. The zero value of every field is its default.
type Options struct {
	// ID says who takes part, to people and to other participants: the data of the node. Default: empty.
	ID string

	// OnSuspend says what a disconnect means to a Hold. Default KeepUntilDeadline.
	OnSuspend Suspension

	// ACL of the nodes that are made, parents included. Default client.OpenACL.
	ACL []client.ACL

	// Reentrant, of a Mutex or a MultiLock, lets whoever holds it lock it again: Lock with the context of the Hold, or one
	// derived from it, returns at once. Default: it waits for itself until its context ends.
	Reentrant bool
}

// Suspension is what happens to a Hold while its client has no connection.
type Suspension int

// The policies.
const (
	// KeepUntilDeadline goes on as long as nobody else can hold: up to two thirds of the session's timeout.
	KeepUntilDeadline Suspension = iota
	// GiveUp ends the Hold at once.
	GiveUp
)

// Why a Hold has ended (context.Cause of its Context, beside the client's errors), or why there is none.
var (
	ErrReleased  = errors.New("recipe: released")
	ErrSuspended = errors.New("recipe: the connection broke")
	ErrGone      = errors.New("recipe: the own node was removed by somebody else")
	ErrBusy      = errors.New("recipe: held by somebody else")
	ErrFenced    = errors.New("recipe: a later holder has taken over")
)
