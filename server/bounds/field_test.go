package bounds

import (
	"fmt"
	"testing"
	"time"

	"github.com/zkserver/zkserver/proto/jute"
)

// The tests of this file are named after the entries of docs/field-reports.md.

// TestFieldF14TreeChurn: nodes are created and deleted, each with an access list of its own; in the full form two million of
// them. Memory and the time that it takes stay what they were after the first round.
func TestFieldF14TreeChurn(t *testing.T) {
	if raced {
		t.Skip("the race detector has its own memory")
	}
	lists := 0
	nodes := size(4000, 1_000_000)
	addr := start(t, "commitLogCount=1000\n")
	k := dial(t, addr, 10*time.Minute)
	k.call(jute.OpCreate, create("/churn", 0))
	round := func() time.Duration {
		began := time.Now()
		k.each(nodes, func(i int) {
			p := fmt.Sprintf("/churn/n%d", i%500)
			c := create(p, 0)
			c.ACL = []jute.ACL{{Perms: 31, Scheme: jute.Str("ip"), ID: jute.Str("127.0.0.1")}, {Perms: 1, Scheme: jute.Str("digest"), ID: jute.Str(fmt.Sprintf("user%d:%0400d", lists, lists))}}
			lists++
			k.add(jute.OpCreate, c)
			k.add(jute.OpDelete, &jute.DeleteRequest{Path: jute.Str(p), Version: -1})
		})
		return time.Since(began)
	}
	first := round()
	before := used()
	second := round()
	after := used()
	t.Logf("%d nodes a round: %d KiB, then %d KiB; %v, then %v", nodes, before>>10, after>>10, first, second)
	const least = 1 << 20 // one round leaves as much in pools as another
	if after-before > max(before/5, least) {
		t.Errorf("%d KiB more after as many nodes again", (after-before)>>10)
	}
	if full() && second > 2*first {
		t.Errorf("the second round took %v, the first %v", second, first)
	}
}

// TestFieldC16WatchesOfDeadSessions: sessions that end take what their watches cost along.
func TestFieldC16WatchesOfDeadSessions(t *testing.T) {
	if raced {
		t.Skip("the race detector has its own memory")
	}
	addr := start(t, "")
	k := dial(t, addr, 10*time.Minute)
	k.call(jute.OpCreate, create("/c16", 0))
	round := func() {
		var all []*client
		for range size(200, 1000) {
			w := dial(t, addr, 10*time.Minute)
			w.each(100, func(i int) {
				w.add(jute.OpAddWatch, &jute.AddWatchRequest{Path: jute.Str(fmt.Sprintf("/c16/path-%d-of-%d", i, w.sid)), Mode: jute.AddWatchMode(i % 2)})
			})
			all = append(all, w)
		}
		for _, w := range all {
			w.call(jute.OpCloseSession, nil)
			_ = w.c.Close() // the server has done so
		}
	}
	round() // fills pools
	before := used()
	round()
	after := used()
	t.Logf("%d KiB, then %d KiB", before>>10, after>>10)
	if bound := int64(size(1, 5)) << 20; after-before > bound { // the watches alone would be above this
		t.Errorf("%d KiB more after sessions with watches have ended", (after-before)>>10)
	}
}
