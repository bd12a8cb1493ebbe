// Package transport carries what servers say to each other: one protocol stream a pair of servers for peer.Message
// values, and one bulk stream a snapshot, both gRPC on the quorum port. It dials, admits and refuses peers, keeps the
// order of each link, packs everything that is ready into one frame and reports links that come and go. It decides
// nothing about Zab. It imports zab's, election's and peer's values, and proto/zab/v1; begin reading at api.go.
package transport
