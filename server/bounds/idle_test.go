package bounds

import (
	"testing"
	"time"
)

// What an idle session costs the server in memory, all of it: the goroutine that waits, the socket, the session's record,
// the leader's clock of it. It has said nothing but pings for a while.
func TestIdleSessionsAreSmall(t *testing.T) {
	bound := int64(4 << 10)
	if !full() {
		bound += bound / 4 // what does not grow with the sessions weighs more among fewer
	}
	if raced {
		t.Skip("the race detector has its own memory")
	}
	sessions := size(3000, 10_000)
	addr := start(t, "")
	gather(t, addr, 500).ping() // what serving costs once, at any number
	before := used()
	c := gather(t, addr, sessions)
	var cost int64
	for deadline := time.Now().Add(wait); ; {
		c.ping()
		if cost = (used() - before) / int64(sessions); cost <= bound || time.Now().After(deadline) {
			break
		}
		<-time.After(1200 * time.Millisecond) // a second of silence makes a session an idle one
	}
	t.Logf("%d bytes a session", cost)
	if cost > bound {
		t.Errorf("%d bytes a session, allowed are %d", cost, bound)
	}
	c.ping()
}
