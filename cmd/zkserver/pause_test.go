package main

import (
	"fmt"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/zkserver/zkserver/proto/jute"
)

// TestPausedLeaderIsSilent: a leader that was stopped for longer than the silence limit, with clients on it that
// pipeline reads, writes, syncs and pings while it wakes, answers none of them out of its old leadership. Whatever a
// connection gets after SIGCONT shows the new one: its zxid is at or above that of a write committed there meanwhile.
func TestPausedLeaderIsSilent(t *testing.T) {
	ps := newEnsemble(t, 3, 0, "")
	startAll(ps)
	n := rounds(2, 30)
	late := 0
	for k := range n {
		late += pauseLeader(t, ps, k)
		for _, p := range ps {
			p.serve()
		}
	}
	sameDigests(t, ps)
	t.Logf("%d pauses; %d answers after waking, all of the new leadership", n, late)
}

// pauseLeader returns how many frames came after SIGCONT.
func pauseLeader(t *testing.T, ps []*proc, k int) int {
	t.Helper()
	old := leaderOf(t, ps)
	path := fmt.Sprintf("/pause-%d", k)
	setup := mustDial(t, old.addr, 20*time.Second)
	setup.must(jute.OpCreate, create(path, "0"), nil)

	var woken atomic.Bool
	var floor atomic.Int64 // zxid of the first write of the new leadership
	var late, early atomic.Int64
	stop := make(chan struct{})
	var wg sync.WaitGroup
	fault := make(chan string, 64)
	for i := range 4 {
		c := mustDial(t, old.addr, 20*time.Second)
		wg.Add(2)
		go func() { // sends until stop is closed or the connection ends
			defer wg.Done()
			for j := 0; ; j++ {
				select {
				case <-stop:
					return
				default:
				}
				c.sendMu.Lock()
				var b []byte
				switch i {
				case 0:
					b, _ = c.appendRequest(b, jute.OpGetData, get(path, false))
				case 1:
					b, _ = c.appendRequest(b, jute.OpSetData, set(path, fmt.Sprint(j)))
				case 2:
					b, _ = c.appendRequest(b, jute.OpSync, &jute.SyncRequest{Path: jute.Str(path)})
					b, _ = c.appendRequest(b, jute.OpGetData, get(path, false))
				case 3:
					b, _ = c.appendRequest(b, jute.OpPing, nil)
				}
				_ = c.c.SetWriteDeadline(time.Now().Add(patience))
				_, err := c.c.Write(b)
				c.sendMu.Unlock()
				if err != nil {
					return // closed, or full while the server is stopped: it has sent enough
				}
				pace(stop)
			}
		}()
		go func() { // reads until the connection ends
			defer wg.Done()
			for {
				f, err := c.recv(0)
				if err != nil {
					return
				}
				if !woken.Load() {
					early.Add(1)
					continue
				}
				late.Add(1)
				if f.header.Zxid < floor.Load() {
					select {
					case fault <- fmt.Sprintf("round %d, client %d: answer %+v after waking, of the old leadership (the new one wrote %#x)", k, i, f.header, floor.Load()):
					default:
					}
				}
			}
		}()
		defer c.c.Close()
	}
	until(t, "answers before the pause", func() bool { return early.Load() > 50 })
	old.signal(syscall.SIGSTOP)
	others := make([]*proc, 0, 2)
	for _, p := range ps {
		if p != old {
			others = append(others, p)
		}
	}
	next := leaderOf(t, others)
	c := mustDial(t, next.addr, 20*time.Second)
	h := c.must(jute.OpSetData, set(path, "new"), nil)
	floor.Store(h.Zxid)
	drain := early.Load() // what was on its way when the leader stopped has arrived once nothing more comes
	until(t, "nothing more on its way", func() bool {
		time.Sleep(100 * time.Millisecond) // a quiet period is what is waited for
		now := early.Load()
		quiet := now == drain
		drain = now
		return quiet
	})
	woken.Store(true)
	old.signal(syscall.SIGCONT)
	until(t, "the old leader follows", func() bool { return old.mode() == "follower" })
	close(stop)
	leaders := 0
	for _, p := range ps {
		if p.mode() == "leader" {
			leaders++
		}
	}
	if leaders != 1 {
		t.Fatalf("%d leaders", leaders)
	}
	select {
	case f := <-fault:
		t.Fatal(f)
	default:
	}
	return int(late.Load())
}

// pace leaves a millisecond between requests, so that the sender does not fill the socket at once.
func pace(stop chan struct{}) {
	timer := time.NewTimer(time.Millisecond)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-stop:
	}
}
