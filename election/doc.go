// Package election is fast leader election as a pure core: votes on (epoch, zxid, server id) gossip until a quorum
// agrees. It is an oracle only: a wrong election costs time, never safety, which discovery in package zab enforces.
// It owns no clock, socket or goroutine and imports the standard library and zab's value types. Begin at api.go.
package election
