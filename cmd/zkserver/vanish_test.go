package main

import (
	"sync"
	"testing"
	"time"

	"github.com/zkserver/zkserver/proto/jute"
)

// TestVanishedClients: of clients that are gone without a word, while something between holds their connections open
// (a frozen machine, a proxy), nothing stays: not their sessions and ephemerals, and no connection, goroutine or
// descriptor either, whatever they were in the middle of. Nor does the connection of a client whose session lives on
// through another server.
func TestVanishedClients(t *testing.T) {
	ps := newEnsemble(t, 3, 0, "")
	startAll(ps)
	watcher := mustDial(t, ps[0].addr, 20*time.Second)
	watcher.must(jute.OpCreate, create("/big", string(make([]byte, 512<<10))), nil)
	watcher.must(jute.OpCreate, create("/e", ""), nil)
	watcher.must(jute.OpCloseSession, nil, nil)
	before := usageOf(ps)

	var vanished []*rawConn // open to the end
	for i := range 90 {
		c := mustDial(t, ps[i%3].addr, time.Second) // the shortest of these servers
		vanished = append(vanished, c)
		if _, err := c.call(jute.OpCreate, &jute.CreateRequest{Path: jute.Str("/e/"), ACL: openACL, Flags: 3}, nil); err != nil {
			continue // the machine is so slow that its session has ended
		}
		var b []byte
		switch i / 3 % 3 {
		case 0: // idle
		case 1: // before the end of a request
			b, _ = c.appendRequest(b, jute.OpSetData, set("/big", "x"))
			b = b[:len(b)-3]
		case 2: // with more answers under way than the machines between hold
			for range 40 {
				b, _ = c.appendRequest(b, jute.OpGetData, get("/big", true))
			}
		}
		_, _ = c.c.Write(b) // likewise
	}
	settled(t, "after clients that vanished", ps, before)
	c := mustDial(t, ps[1].addr, 20*time.Second)
	var kids jute.GetChildren2Response
	c.must(jute.OpGetChildren2, get("/e", false), &kids)
	if len(kids.Children) != 0 || kids.Stat.Cversion < 60 {
		t.Errorf("%d of their ephemerals are there, after %d changes", len(kids.Children), kids.Stat.Cversion)
	}
	c.must(jute.OpCloseSession, nil, nil)

	// Each vanishes from one server and lives on at the next.
	var moved []*rawConn
	for i := range 6 {
		until(t, "a session moves", func() bool {
			old := mustDial(t, ps[i%3].addr, 2*time.Second)
			vanished = append(vanished, old)
			next, err := dialRaw(t, ps[(i+1)%3].addr, 2*time.Second, old)
			if err != nil {
				return false
			}
			moved = append(moved, next)
			return true
		})
	}
	stop := make(chan struct{})
	var alive sync.WaitGroup
	for _, c := range moved {
		alive.Go(func() { // ends on stop
			defer c.c.Close()
			for tick := time.NewTicker(200 * time.Millisecond); ; {
				select {
				case <-tick.C:
					_, _ = c.send(jute.OpPing, nil)
				case <-stop:
					tick.Stop()
					return
				}
			}
		})
	}
	sessions := 0
	until(t, "the connections on which the sessions do not live have ended", func() bool {
		all := usageOf(ps)
		sessions = all[0].sessions
		for i, u := range all {
			if u.conns > 3 || u.files > before[i].files+10 {
				return false
			}
		}
		return true
	})
	if sessions == 0 {
		t.Error("the sessions have ended, too")
	}
	close(stop)
	alive.Wait()
	for _, c := range vanished {
		c.c.Close()
	}
}
