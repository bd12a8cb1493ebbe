// Package grpcfront serves zkserver's gRPC API (proto/zk/v1) on the connections that server/front hands over from the
// client port: sessions as streams, one-off operations as unary calls, health and reflection.
//
// It is the second wire over server/session, so order, watches, the serving lease and all bounds are the session
// layer's. What it adds: commands are turned into requests (decode.go), replies and events into the bytes of a
// SessionResponse (encode.go). A SessionResponse is a run of answers and nothing else, so an outbox's bytes are a
// message as they are: they go out through a codec that takes bytes (codec.go). Nothing here is called under the tree's
// lock but the encoders, and those wait for nothing.
//
// Unary reads run on a connection of their own, without a session. Unary writes share one session of this server's,
// each with its own caller's identities (gateway.go). What their clients do not read has a bound (budget.go).
//
// It imports server/session, znode, proto/zk/v1 and gRPC. To begin reading: stream.go.
package grpcfront
