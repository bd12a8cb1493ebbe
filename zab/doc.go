// Package zab decides what may be promised to whom: discovery, synchronization and broadcast of the Zab protocol as
// a pure core. It owns no clock, socket, disk or goroutine; it imports the standard library only and knows
// transactions as bytes with a zxid. Begin reading at api.go (what goes in and comes out), then core.go.
package zab
