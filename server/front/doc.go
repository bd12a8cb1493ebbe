// Package front is what listens to clients: one port, told apart by the first bytes of each connection (sniff.go) into
// the ZooKeeper wire (connect.go, zkconn.go, decode.go, encode.go), the four-letter words (fourletter.go, mntr.go) and
// gRPC, which is handed on through GRPCListener.
//
// It decodes frames into session.Request and encodes session.Reply; what a request means is the session's and the
// tree's affair. Nothing that a client sends decides an allocation before it is checked, and nothing panics.
//
// It imports znode, server/session and proto/jute. Begin reading at front.go.
package front
