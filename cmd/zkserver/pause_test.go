package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/zkserver/zkserver/proto/jute"
)

// TestPausedLeaderIsSilent: a leader that was stopped for longer than the silence limit, with clients on it that
// pipeline reads, writes, syncs and pings while it wakes, answers nothing between SIGCONT and its step-down. What it had
// computed before may leave once it serves again under the new leader; whatever shows the old leadership (its zxid is
// below that of a write committed by the new one) must come after the step-down that the server's own log tells of.
func TestPausedLeaderIsSilent(t *testing.T) {
	ps := newEnsemble(t, 3, 0, quick)
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
	t.Logf("%d pauses; %d answers after waking, none of the old leadership before its step-down", n, late)
}

// pauseLeader returns how many frames came after SIGCONT.
func pauseLeader(t *testing.T, ps []*proc, k int) int {
	t.Helper()
	paused := leaderOf(t, ps)
	path := fmt.Sprintf("/pause-%d", k)
	setup := mustDial(t, paused.addr, 20*time.Second)
	setup.must(jute.OpCreate, create(path, "0"), nil)

	var woken atomic.Bool
	var floor atomic.Int64 // zxid of the first write of the new leadership
	var late, early atomic.Int64
	stop := make(chan struct{})
	var wg sync.WaitGroup
	var mu sync.Mutex
	var old []stale
	for i := range 4 {
		c := mustDial(t, paused.addr, 20*time.Second)
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
					mu.Lock()
					old = append(old, stale{at: time.Now(), client: i, header: f.header})
					mu.Unlock()
				}
			}
		}()
		defer c.c.Close()
	}
	until(t, "answers before the pause", func() bool { return early.Load() > 50 })
	paused.signal(syscall.SIGSTOP)
	others := make([]*proc, 0, 2)
	for _, p := range ps {
		if p != paused {
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
	woke := time.Now()
	paused.signal(syscall.SIGCONT)
	until(t, "the old leader follows", func() bool { return paused.mode() == "follower" })
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
	mu.Lock()
	defer mu.Unlock()
	if len(old) > 0 {
		down := stepDown(t, paused, woke)
		for _, f := range old {
			if f.at.Before(down) {
				t.Fatalf("round %d, client %d: answer %+v of the old leadership %s after SIGCONT, %s before the step-down", k, f.client, f.header, f.at.Sub(woke), down.Sub(f.at))
			}
		}
	}
	return int(late.Load())
}

// stale is an answer that shows the old leadership.
type stale struct {
	at     time.Time
	client int
	header jute.ReplyHeader
}

// stepDown is when the server's log says that it left its role, after a moment.
func stepDown(t *testing.T, p *proc, after time.Time) time.Time {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(p.dir, "server.log"))
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range strings.Split(string(text), "\n") {
		var e struct {
			Time    time.Time
			Message string
			Role    string
		}
		if json.Unmarshal([]byte(line), &e) == nil && e.Message == "role changed" && e.Role == "looking" && !e.Time.Before(after.Truncate(time.Millisecond)) {
			return e.Time
		}
	}
	t.Fatal("the log tells of no step-down")
	return time.Time{}
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
