// Package session is the shared half of every client connection, whatever its wire: the order of its requests
// (Order, pure), the reads it runs, the watches it arms, the bytes it owes its client (the outbox), and the Hub of all
// connections of this server, into which the applier completes writes and fires events.
//
// What it promises: replies leave in request order; a read sees every write its connection sent before it and none
// sent after it (I8); an event is queued before any result that shows its change (I9); nothing is written to a client
// past the serving lease (I10, architecture 4.13); memory per connection is bounded (I13).
//
// It imports znode and znode/watch only. The wires (server/front) decode frames into Request and implement Wire and
// Sink; server/replica implements Backend and calls the Hub. Lock order: tree, connection order, watch shard, outbox.
//
// Begin reading at order.go (what may run when), then conn.go, hub.go and run.go.
package session
