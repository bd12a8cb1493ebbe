// Package replica makes one replica of the tree out of the pure cores: Machine joins zab, election, the preparer, the
// session clocks and the waiting requests, and a few goroutines drive it: the loop, the log writer, the applier, the
// state writer. It implements session.Backend for the connections and transport.Handler for the links. It may import
// session, store, transport, peer and the cores; it never touches a socket or a file itself. Begin reading at
// input.go and effects.go (what goes into the Machine and what comes out), then machine.go, then replica.go.
package replica
