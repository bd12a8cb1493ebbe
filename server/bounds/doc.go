// Package bounds holds the tests of what this server promises to cost at most: memory of idle sessions, of watches, and
// of clients that do not read; how long anything big (a listing, a multi, the end of a session with many nodes) keeps
// others waiting. They run against the assembled server in this process, over its sockets.
//
// Each has a form that always runs and, with ZKSERVER_FULL=1, one of the full size. Begin reading in harness_test.go.
package bounds
