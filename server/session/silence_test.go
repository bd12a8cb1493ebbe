package session_test

import (
	"testing"
	"time"

	"github.com/zkserver/zkserver/server/session"
)

// A connection from which nothing has come for twice its session's timeout is ended, though the session lives: nobody
// else would. One that says something, or has just got its session, is not.
func TestSilentConnections(t *testing.T) {
	r := start(t, session.Options{})
	wire := &lineWire{}
	silent, alive := r.open(wire, newSink(1<<20), session.Attach{}), r.open(wire, newSink(1<<20), session.Attach{})
	long := r.open(wire, newSink(1<<20), session.Attach{Timeout: 20000})
	early := r.hub.Open(wire, newSink(1<<20), "127.0.0.1", "test") // the front bounds its time
	t.Cleanup(early.Release)
	r.b.Advance(19 * time.Second)
	r.hub.EndSilent()
	if silent.Ended() || alive.Ended() {
		t.Fatal("ended before twice the timeout")
	}
	if err := alive.Heard(t.Context()); err != nil {
		t.Fatal(err)
	}
	r.b.Advance(2 * time.Second)
	fresh := r.open(wire, newSink(1<<20), session.Attach{})
	r.hub.EndSilent()
	if !silent.Ended() || silent.Reason() != session.ReasonSilent {
		t.Fatalf("not ended; reason %q", silent.Reason())
	}
	for what, c := range map[string]*session.Conn{"was heard": alive, "has a longer timeout": long, "has no session yet": early, "is new": fresh} {
		if c.Ended() {
			t.Errorf("the one that %s is ended: %s", what, c.Reason())
		}
	}
}
