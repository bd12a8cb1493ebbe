package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"syscall"
	"time"

	"github.com/zkserver/zkserver/client"
)

// usageError is what a user has to change before anything is sent: wrong words, options, paths, ACLs.
type usageError struct{ msg string }

func (e usageError) Error() string { return e.msg }

func usagef(format string, args ...any) error { return usageError{fmt.Sprintf(format, args...)} }

// mild is an error after which zkCli ends with success all the same.
type mild struct{ error }

func (e mild) Unwrap() error { return e.error }

// unknownCommand is an unknown first word: zkCli has an exit code of its own for it.
type unknownCommand struct{ name string }

func (e unknownCommand) Error() string {
	if now, ok := otherNames[e.name]; ok {
		return "Command not found: " + e.name + " (here it is " + now + ")"
	}
	return "Command not found: " + e.name + " (help lists the commands)"
}

// otherNames are what people type who come from elsewhere, or from an older zkCli.
var otherNames = map[string]string{
	"rmr": "rm -r, or deleteall", "ls2": "ls -s", "lsr": "ls -R", "exists": "stat", "cat": "get", "put": "set", "mkdir": "create -p",
	"touch": "create", "grep": "find -data", "txn": "multi", "check": "a line of multi", "children": "ls",
}

// errNotConnected is a command after close.
var errNotConnected = errors.New("Not connected") //nolint:revive,staticcheck // zkCli's text

// The exit codes.
const (
	exitOK = iota
	exitFailed
	exitUsage
	exitNoConnection
	exitNoNode
	exitNodeExists
	exitBadVersion
	exitNoAuth

	exitNotHad      = 123 // of elect and lock, beside those of the command that they run
	exitLost        = 124
	exitNotRunnable = 126
	exitNotFound    = 127
	exitSignal      = 128 // and the signal's number

	exitCompatUnknown = 127
)

// statusError is an end with an exit code of its own. What there is to say has been said.
type statusError struct {
	code int
	why  string
}

func (e statusError) Error() string { return e.why }

// interrupted is a command that was ended by Ctrl-C.
type interrupted struct{ err error }

func (e interrupted) Error() string { return "interrupted" }
func (e interrupted) Unwrap() error { return e.err }

// overdue is a command that was given up.
type overdue struct {
	err   error
	limit time.Duration
}

func (e overdue) Error() string {
	return "no answer for " + e.limit.String() + ", given up: " + message(e.err)
}
func (e overdue) Unwrap() error { return e.err }

// usualMaxBuffer is how many bytes a request may have at most, unless the server's jute.maxbuffer is set.
const usualMaxBuffer = 1<<20 - 1

// requestHeads is what a request has at least besides paths and data.
const requestHeads = 28

// longRequest is a connection that was lost behind a request which servers close it for.
type longRequest struct {
	err  error
	size int
}

func (e longRequest) Error() string {
	return fmt.Sprintf("%s (the request has more than %d bytes; servers close the connection at more than jute.maxbuffer, %d unless set)", message(e.err), e.size, usualMaxBuffer)
}
func (e longRequest) Unwrap() error { return e.err }

// ofLength gives an error of operations that were sent together, with their length if that may be why.
func ofLength(err error, ops ...client.Op) error {
	if client.CodeOf(err) != client.ErrConnectionLoss {
		return err
	}
	size := requestHeads
	for _, op := range ops {
		switch op := op.(type) {
		case client.CreateOp:
			size += len(op.Path) + len(op.Data)
		case client.SetOp:
			size += len(op.Path) + len(op.Data)
		}
	}
	if size < usualMaxBuffer {
		return err
	}
	return longRequest{err, size}
}

// exitCode is the exit code of a command that ended with err, by the kind of error, or as zkCli has it.
func exitCode(err error, compat bool) int {
	var unknown unknownCommand
	var usage usageError
	var status statusError
	switch {
	case err == nil:
		return exitOK
	case errors.As(err, &status):
		return status.code
	case errors.As(err, new(interrupted)):
		return exitSignal + int(syscall.SIGINT)
	case errors.As(err, &unknown):
		if compat {
			return exitCompatUnknown
		}
		return exitUsage
	case compat:
		if errors.As(err, new(mild)) {
			return exitOK
		}
		return exitFailed
	case errors.As(err, &usage):
		return exitUsage
	case errors.Is(err, errNotConnected):
		return exitNoConnection
	}
	switch client.CodeOf(err) {
	case client.ErrNoNode:
		return exitNoNode
	case client.ErrNodeExists:
		return exitNodeExists
	case client.ErrBadVersion:
		return exitBadVersion
	case client.ErrNoAuth, client.ErrAuthFailed, client.ErrSASLRequired:
		return exitNoAuth
	case client.ErrConnectionLoss, client.ErrOperationTimeout, client.ErrNoServer, client.ErrLost, client.ErrClosed,
		client.ErrSessionExpired, client.ErrRequestTimeout, client.ErrProtocol, client.ErrSessionMoved:
		return exitNoConnection
	}
	return exitFailed
}

// message is zkCli's text of an error.
func message(err error) string {
	var ce *client.Error
	for _, own := range []any{new(mild), new(interrupted), new(overdue), new(maskedError), new(longRequest)} {
		if errors.As(err, own) {
			return err.Error()
		}
	}
	if !errors.As(err, &ce) {
		return err.Error()
	}
	if ce.Code == client.ErrInvalidACL {
		return texts[ce.Code] + ce.Path + " (the list is empty, or has a scheme or an id that the server does not take; auth:: takes a session with credentials, -auth)"
	}
	if ce.Code == client.ErrNoNode && strings.HasPrefix(ce.Op, "create") {
		return texts[ce.Code] + ce.Path + " (what is above it is missing: create -p makes that too)"
	}
	if text, ok := texts[ce.Code]; ok {
		return text + ce.Path
	}
	switch ce.Code {
	case client.ErrReconfigInProgress:
		return "Another reconfiguration is in progress -- concurrent reconfigs not supported (yet)"
	case client.ErrNewConfigNoQuorum:
		return "No quorum of new config is connected and up-to-date with the leader of last committed config - " +
			"try invoking reconfiguration after new servers are connected and synced"
	}
	if name, ok := names[ce.Code]; ok {
		s := "KeeperErrorCode = " + name
		if ce.Path != "" {
			s += " for " + ce.Path
		}
		if client.MaybeApplied(err) {
			s += " (the outcome is unknown)"
		}
		if ce.Cause != nil {
			why := strings.TrimPrefix(ce.Cause.Error(), context.DeadlineExceeded.Error()+"\n") // what stands behind them says more
			why = strings.TrimPrefix(why, context.Canceled.Error()+"\n")
			s += ": " + strings.ReplaceAll(why, "\n", ": ")
		}
		return s
	}
	return err.Error()
}

// texts are zkCli's sentences; the path follows.
var texts = map[client.Code]string{
	client.ErrNoNode:                  "Node does not exist: ",
	client.ErrNoChildrenForEphemerals: "Ephemerals cannot have children: ",
	client.ErrNodeExists:              "Node already exists: ",
	client.ErrNotEmpty:                "Node not empty: ",
	client.ErrNotReadOnly:             "Not a read-only call: ",
	client.ErrInvalidACL:              "Acl is not valid : ",
	client.ErrNoAuth:                  "Insufficient permission : ",
	client.ErrAuthFailed:              "Insufficient permission : ",
	client.ErrBadArguments:            "Arguments are not valid : ",
	client.ErrBadVersion:              "version No is not valid : ",
	client.ErrQuotaExceeded:           "Quota has exceeded : ",
}

// names are the names of codes in "KeeperErrorCode = ...".
var names = map[client.Code]string{
	client.ErrSystem:                  "SystemError",
	client.ErrRuntimeInconsistency:    "RuntimeInconsistency",
	client.ErrDataInconsistency:       "DataInconsistency",
	client.ErrConnectionLoss:          "ConnectionLoss",
	client.ErrNoServer:                "ConnectionLoss",
	client.ErrLost:                    "ConnectionLoss",
	client.ErrMarshalling:             "MarshallingError",
	client.ErrUnimplemented:           "Unimplemented",
	client.ErrOperationTimeout:        "OperationTimeout",
	client.ErrUnknownSession:          "Unknown session",
	client.ErrSessionExpired:          "Session expired",
	client.ErrSessionMoved:            "Session moved",
	client.ErrEphemeralOnLocalSession: "Ephemeral node on local session",
	client.ErrNoWatcher:               "No such watcher",
	client.ErrRequestTimeout:          "RequestTimeout",
	client.ErrReconfigDisabled:        "Reconfig is disabled",
	client.ErrSASLRequired:            "Session closed because client failed to authenticate",
	client.ErrThrottled:               "Op throttled due to high load",
}
