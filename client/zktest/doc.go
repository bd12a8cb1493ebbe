// Package zktest starts a server inside a program's tests: no container, no JVM, no port to choose.
//
//	func TestRegistration(t *testing.T) {
//		s := zktest.Start(t)
//		c, err := client.Dial(t.Context(), s.Addr(), client.Options{})
//		...
//		if err := s.Expire(c.Session()); err != nil { ... }
//	}
//
// The server is the one of cmd/zkserver, an ensemble of one whose disk is memory (or a directory, see Dir). Clients reach
// it through a proxy in the same process, on both wires and from any language, and the hooks act there: Cut, Pause and
// Resume, LoseReply; Expire ends a session, Restart the server.
//
// Sessions may be as short as 100 ms here. What a test waits for should have a generous bound all the same: on a busy
// machine a session of 100 ms ends because the test was not run for so long.
//
// A client that has lost many connections in a short time waits longer and longer before it tries again: a test that
// cuts often sets client.Options.BackoffMax.
//
// It imports the server and the client. To begin reading: zktest.go, then proxy.go.
package zktest
