package jute

import "strconv"

// ErrorCode is ZooKeeper's code of a result. Zero is success; a client throws on a code outside this table.
type ErrorCode int32

// The codes.
const (
	OK                           ErrorCode = 0
	SystemError                  ErrorCode = -1
	RuntimeInconsistency         ErrorCode = -2
	DataInconsistency            ErrorCode = -3
	ConnectionLoss               ErrorCode = -4
	MarshallingError             ErrorCode = -5
	Unimplemented                ErrorCode = -6
	OperationTimeout             ErrorCode = -7
	BadArguments                 ErrorCode = -8
	UnknownSession               ErrorCode = -12
	NewConfigNoQuorum            ErrorCode = -13
	ReconfigInProgress           ErrorCode = -14
	APIError                     ErrorCode = -100
	NoNode                       ErrorCode = -101
	NoAuth                       ErrorCode = -102
	BadVersion                   ErrorCode = -103
	NoChildrenForEphemerals      ErrorCode = -108
	NodeExists                   ErrorCode = -110
	NotEmpty                     ErrorCode = -111
	SessionExpired               ErrorCode = -112
	InvalidCallback              ErrorCode = -113
	InvalidACL                   ErrorCode = -114
	AuthFailed                   ErrorCode = -115
	SessionMoved                 ErrorCode = -118
	NotReadOnly                  ErrorCode = -119
	EphemeralOnLocalSession      ErrorCode = -120
	NoWatcher                    ErrorCode = -121
	RequestTimeout               ErrorCode = -122
	ReconfigDisabled             ErrorCode = -123
	SessionClosedRequireSASLAuth ErrorCode = -124
	QuotaExceeded                ErrorCode = -125
	ThrottledOp                  ErrorCode = -127
)

// Name is the constant's name in ZooKeeper's KeeperException.Code without underscores ("NONODE"), or the number.
func (c ErrorCode) Name() string {
	if s, ok := codeNames[c]; ok {
		return s
	}
	return strconv.Itoa(int(c))
}

// Known reports whether the code is in ZooKeeper's table.
func (c ErrorCode) Known() bool { _, ok := codeNames[c]; return ok }

// Error makes a code an error: "zookeeper: NONODE (-101)". Compare with errors.Is against the constants.
func (c ErrorCode) Error() string {
	return "zookeeper: " + c.Name() + " (" + strconv.Itoa(int(c)) + ")"
}

var codeNames = map[ErrorCode]string{
	OK: "OK", SystemError: "SYSTEMERROR", RuntimeInconsistency: "RUNTIMEINCONSISTENCY",
	DataInconsistency: "DATAINCONSISTENCY", ConnectionLoss: "CONNECTIONLOSS", MarshallingError: "MARSHALLINGERROR",
	Unimplemented: "UNIMPLEMENTED", OperationTimeout: "OPERATIONTIMEOUT", BadArguments: "BADARGUMENTS",
	UnknownSession: "UNKNOWNSESSION", NewConfigNoQuorum: "NEWCONFIGNOQUORUM", ReconfigInProgress: "RECONFIGINPROGRESS",
	APIError: "APIERROR", NoNode: "NONODE", NoAuth: "NOAUTH", BadVersion: "BADVERSION",
	NoChildrenForEphemerals: "NOCHILDRENFOREPHEMERALS", NodeExists: "NODEEXISTS", NotEmpty: "NOTEMPTY",
	SessionExpired: "SESSIONEXPIRED", InvalidCallback: "INVALIDCALLBACK", InvalidACL: "INVALIDACL",
	AuthFailed: "AUTHFAILED", SessionMoved: "SESSIONMOVED", NotReadOnly: "NOTREADONLY",
	EphemeralOnLocalSession: "EPHEMERALONLOCALSESSION", NoWatcher: "NOWATCHER", RequestTimeout: "REQUESTTIMEOUT",
	ReconfigDisabled: "RECONFIGDISABLED", SessionClosedRequireSASLAuth: "SESSIONCLOSEDREQUIRESASLAUTH",
	QuotaExceeded: "QUOTAEXCEEDED", ThrottledOp: "THROTTLEDOP",
}
