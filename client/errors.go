package client

import (
	"errors"
	"fmt"
)

// Code is ZooKeeper's error code, and an error by itself: errors.Is(err, client.ErrNoNode). Negative codes are those
// of the wire, positive ones are this package's own. Zero is success and never an error.
type Code int32

// The codes.
const (
	// OK is success.
	OK Code = 0

	ErrSystem                  Code = -1   // the server is broken
	ErrRuntimeInconsistency    Code = -2   // in a failed multi: not executed, an operation before it has failed
	ErrDataInconsistency       Code = -3   // the server's data is broken
	ErrConnectionLoss          Code = -4   // the connection broke before the reply; see MaybeApplied
	ErrMarshalling             Code = -5   // the server could not read the request
	ErrUnimplemented           Code = -6   // the server does not offer the operation
	ErrOperationTimeout        Code = -7   // the call's context ended; see MaybeApplied
	ErrBadArguments            Code = -8   // a malformed path or bad flags, here or at the server
	ErrUnknownSession          Code = -12  // the server does not know the session
	ErrNewConfigNoQuorum       Code = -13  // no quorum of the new configuration is in sync
	ErrReconfigInProgress      Code = -14  // another reconfiguration is under way
	ErrNoNode                  Code = -101 // the node, or the parent of a node to create, does not exist
	ErrNoAuth                  Code = -102 // the connection's identities lack the permission
	ErrBadVersion              Code = -103 // the version asked for is not the node's
	ErrNoChildrenForEphemerals Code = -108 // the parent is ephemeral
	ErrNodeExists              Code = -110 // the node exists already
	ErrNotEmpty                Code = -111 // the node has children
	ErrSessionExpired          Code = -112 // the session is over, its ephemeral nodes are gone
	ErrInvalidACL              Code = -114 // the access control list is empty or malformed
	ErrAuthFailed              Code = -115 // the credentials were refused
	ErrSessionMoved            Code = -118 // the session is served through another connection
	ErrNotReadOnly             Code = -119 // a write to a server in read-only mode
	ErrEphemeralOnLocalSession Code = -120 // a local session cannot own an ephemeral node
	ErrNoWatcher               Code = -121 // there is no such watch
	ErrRequestTimeout          Code = -122 // the server gave up on the request
	ErrReconfigDisabled        Code = -123 // reconfiguration is switched off
	ErrSASLRequired            Code = -124 // the server wants the connection to authenticate first
	ErrQuotaExceeded           Code = -125 // a quota of the tree would be exceeded
	ErrThrottled               Code = -127 // the server is overloaded and has not executed the request

	ErrClosed        Code = 1 // the client was closed
	ErrReplyTooLarge Code = 2 // the reply exceeds Options.MaxReply; a write has taken effect
	ErrLost          Code = 3 // no answer for two thirds of the session's timeout
	ErrProtocol      Code = 4 // the server broke the protocol; a write whose reply was unreadable has taken effect
	ErrWatchOverflow Code = 6 // a PersistentWatch or an EventStream was not read from for too long
	ErrWatchRemoved  Code = 7 // the watch was removed
	ErrNoServer      Code = 5 // no server could be reached yet
)

// codes names every code, for people.
var codes = map[Code]string{
	OK:                         "ok",
	ErrSystem:                  "system error",
	ErrRuntimeInconsistency:    "not executed, an earlier operation of the multi failed",
	ErrDataInconsistency:       "data inconsistency",
	ErrConnectionLoss:          "connection lost",
	ErrMarshalling:             "the server could not read the request",
	ErrUnimplemented:           "operation not offered by the server",
	ErrOperationTimeout:        "gave up waiting",
	ErrBadArguments:            "bad arguments",
	ErrUnknownSession:          "unknown session",
	ErrNewConfigNoQuorum:       "no quorum of the new configuration is in sync",
	ErrReconfigInProgress:      "another reconfiguration is in progress",
	ErrNoNode:                  "node does not exist",
	ErrNoAuth:                  "not authorized",
	ErrBadVersion:              "version conflict",
	ErrNoChildrenForEphemerals: "ephemeral nodes have no children",
	ErrNodeExists:              "node exists",
	ErrNotEmpty:                "node has children",
	ErrSessionExpired:          "session expired",
	ErrInvalidACL:              "invalid acl",
	ErrAuthFailed:              "authentication failed",
	ErrSessionMoved:            "session moved to another connection",
	ErrNotReadOnly:             "server is read-only",
	ErrEphemeralOnLocalSession: "local sessions have no ephemeral nodes",
	ErrNoWatcher:               "no such watch",
	ErrRequestTimeout:          "request timed out at the server",
	ErrReconfigDisabled:        "reconfiguration is disabled",
	ErrSASLRequired:            "the server requires authentication",
	ErrQuotaExceeded:           "quota exceeded",
	ErrThrottled:               "server overloaded, not executed",
	ErrClosed:                  "client closed",
	ErrReplyTooLarge:           "reply too large",
	ErrLost:                    "session presumed lost",
	ErrProtocol:                "protocol violation",
	ErrNoServer:                "no server reached",
	ErrWatchOverflow:           "watch not read from for too long",
	ErrWatchRemoved:            "watch removed",
}

// Error gives the code in words.
func (c Code) Error() string {
	if s, ok := codes[c]; ok {
		return s
	}
	return fmt.Sprintf("error code %d", int32(c))
}

// Error is what a failed call returns: errors.As finds it, errors.Is finds its Code and its Cause.
type Error struct {
	Op    string // the operation, as "create"
	Path  string // as the caller gave it; empty where the operation has none
	Code  Code   // never OK
	Sent  bool   // the request had been given to the network and no reply has come: its fate is unknown
	Cause error  // what lies behind it: a context's error, a network error; or nil
}

// Error says which operation failed where and why.
func (e *Error) Error() string {
	s := e.Op
	if e.Path != "" {
		s += " " + e.Path
	}
	s += ": " + e.Code.Error()
	if e.Sent {
		s += " (fate unknown)"
	}
	if e.Cause != nil {
		s += ": " + e.Cause.Error()
	}
	return s
}

// Unwrap gives the Code, and the Cause if there is one.
func (e *Error) Unwrap() []error {
	if e.Cause == nil {
		return []error{e.Code}
	}
	return []error{e.Code, e.Cause}
}

// CodeOf gives the Code of an error of this package: OK for nil, ErrSystem for an error that has none.
func CodeOf(err error) Code {
	if err == nil {
		return OK
	}
	var e *Error
	if errors.As(err, &e) {
		return e.Code
	}
	var c Code
	if errors.As(err, &c) {
		return c
	}
	return ErrSystem
}

// MaybeApplied reports whether a failed write may have taken effect, or may still: its request was sent and no reply
// has come. False means that it has not and will not.
func MaybeApplied(err error) bool {
	var e *Error
	return errors.As(err, &e) && e.Sent
}
