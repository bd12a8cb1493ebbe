// Package zab decides what may be promised to whom: discovery, synchronization and broadcast of the Zab protocol as
// a pure core. It owns no clock, socket, disk or goroutine; it imports the standard library only and knows
// transactions as bytes with a zxid.
//
// Begin reading at api.go (what goes in and comes out), then core.go (roles and generations) and persist.go (what is
// issued and what is durable). A leader's way is discovery.go, leader.go, cursor.go (synchronizing is placing a
// cursor), confirm.go (ping rounds, syncs, the serving lease), handover.go; a learner's is learner.go and adopt.go.
// sync.go chooses DIFF, TRUNC or SNAP from epoch tables alone.
package zab
