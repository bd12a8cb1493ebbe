package grpcfront

import (
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/protoadapt"

	zkv1 "github.com/zkserver/zkserver/proto/zk/v1"
	"github.com/zkserver/zkserver/server/session"
)

// ended is the status with which a stream ends, by the reason its connection was closed for.
func ended(r session.Reason) error {
	code, detail := codes.Unavailable, zkv1.Code_CODE_OK
	switch r {
	case session.ReasonSession:
		return nil
	case session.ReasonClient:
		code = codes.Canceled
	case session.ReasonExpired, session.ReasonRefused, session.ReasonRevalidation:
		code, detail = codes.FailedPrecondition, zkv1.Code_CODE_SESSION_EXPIRED
	case session.ReasonEvicted:
		code, detail = codes.FailedPrecondition, zkv1.Code_CODE_SESSION_MOVED
	case session.ReasonMalformed, session.ReasonUnknownOp:
		code, detail = codes.InvalidArgument, zkv1.Code_CODE_MARSHALLING_ERROR
	case session.ReasonAuth:
		code, detail = codes.Unauthenticated, zkv1.Code_CODE_AUTH_FAILED
	case session.ReasonUnproved:
		code, detail = codes.Unauthenticated, zkv1.Code_CODE_SESSION_CLOSED_REQUIRE_SASL_AUTH
	case session.ReasonSlow:
		code = codes.ResourceExhausted
	case session.ReasonHandshake:
		code = codes.DeadlineExceeded
	}
	return detailed(code, string(r), detail, 0)
}

// detailed is a status with an Error among its details, unless that would say OK.
func detailed(c codes.Code, text string, code zkv1.Code, zxid int64) error {
	st := status.New(c, text)
	if code != zkv1.Code_CODE_OK {
		if with, err := st.WithDetails(protoadapt.MessageV1Of(&zkv1.Error{Code: code, Zxid: zxid})); err == nil {
			st = with
		}
	}
	return st.Err()
}

// failed is the status of a unary call that ZooKeeper refuses with a code.
func failed(code zkv1.Code, zxid int64) error {
	return detailed(grpcCode(code), zkv1.Code_name[int32(code)], code, zxid)
}

// grpcCode is the nearest there is to a ZooKeeper code.
func grpcCode(code zkv1.Code) codes.Code {
	switch code {
	case zkv1.Code_CODE_NO_NODE:
		return codes.NotFound
	case zkv1.Code_CODE_NODE_EXISTS:
		return codes.AlreadyExists
	case zkv1.Code_CODE_BAD_VERSION:
		return codes.Aborted
	case zkv1.Code_CODE_NO_AUTH:
		return codes.PermissionDenied
	case zkv1.Code_CODE_AUTH_FAILED, zkv1.Code_CODE_SESSION_CLOSED_REQUIRE_SASL_AUTH:
		return codes.Unauthenticated
	case zkv1.Code_CODE_BAD_ARGUMENTS, zkv1.Code_CODE_MARSHALLING_ERROR, zkv1.Code_CODE_INVALID_ACL:
		return codes.InvalidArgument
	case zkv1.Code_CODE_UNIMPLEMENTED:
		return codes.Unimplemented
	case zkv1.Code_CODE_QUOTA_EXCEEDED:
		return codes.ResourceExhausted
	case zkv1.Code_CODE_THROTTLED_OP:
		return codes.Unavailable
	case zkv1.Code_CODE_SESSION_EXPIRED, zkv1.Code_CODE_SESSION_MOVED:
		return codes.Unavailable // the server's own session of unary writes: not applied
	}
	return codes.FailedPrecondition
}
