package main

import (
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/zkserver/zkserver/proto/jute"
)

// TestHandOverUnderLoad: SIGTERM of a leader, with clients of the other servers that pipeline sequential creates,
// reads and syncs: no connection of theirs ends, nothing they sent is lost or done twice.
func TestHandOverUnderLoad(t *testing.T) {
	ps := newEnsemble(t, 4, 1, "")
	keepLogs(t, ps)
	startAll(ps)
	var gaps []time.Duration
	n := rounds(2, 40)
	for k := range n {
		clients, run := 6, 8
		if k%8 == 7 { // more than servers take at a time
			clients, run = 40, 250
		}
		gaps = append(gaps, handOver(t, ps, k, clients, run))
	}
	sameDigests(t, ps)
	slices.Sort(gaps)
	t.Logf("%d hand-overs, slowest answer to a batch: median %s, at most %s", n, gaps[n/2], gaps[n-1])
}

// handOver returns the longest time that a client waited for the answers to a batch.
func handOver(t *testing.T, ps []*proc, k, clients, run int) time.Duration {
	t.Helper()
	old := leaderOf(t, ps)
	root := fmt.Sprintf("/hand-%d", k)
	var others []*proc
	for _, p := range ps {
		if p != old {
			others = append(others, p)
		}
	}
	setup := mustDial(t, others[0].addr, 20*time.Second)
	setup.must(jute.OpCreate, create(root, ""), nil)

	var stop atomic.Bool
	var gap, total atomic.Int64
	var wg sync.WaitGroup
	for i := range clients {
		p := others[i%len(others)]
		c := mustDial(t, p.addr, 20*time.Second)
		c.must(jute.OpSync, &jute.SyncRequest{Path: jute.Str("/")}, nil)
		wg.Go(func() { // ends when told to, with everything answered
			defer c.c.Close()
			sent, name := 0, map[string]bool{}
			for !stop.Load() {
				var b []byte
				for range run {
					req := create(fmt.Sprintf("%s/n-", root), fmt.Sprintf("%d-%d", i, sent))
					req.Flags = 2
					sent++
					b, _ = c.appendRequest(b, jute.OpCreate, req)
					b, _ = c.appendRequest(b, jute.OpSync, &jute.SyncRequest{Path: jute.Str(root)})
					b, _ = c.appendRequest(b, jute.OpExists, get(root, false))
				}
				began := time.Now()
				if _, err := c.c.Write(b); err != nil {
					t.Errorf("round %d, client %d on server %d: %v", k, i, p.id, err)
					return
				}
				for j := range 3 * run {
					f, err := c.recv(patience)
					if err != nil || f.header.Err != 0 {
						t.Errorf("round %d, client %d on server %d: answer %d: %v %v", k, i, p.id, j, f.header.Err, err)
						return
					}
					if j%3 == 0 {
						var resp jute.CreateResponse
						d := jute.NewDecoder(f.body)
						resp.Decode(d)
						if d.Err() != nil || name[resp.Path.Value] {
							t.Errorf("round %d, client %d: %v, %s twice: %v", k, i, d.Err(), resp.Path.Value, name)
						}
						name[resp.Path.Value] = true
						total.Add(1)
					}
				}
				for d := int64(time.Since(began)); ; {
					if g := gap.Load(); d <= g || gap.CompareAndSwap(g, d) {
						break
					}
				}
			}
		})
	}
	until(t, "load", func() bool { return total.Load() > 300 })
	old.signal(syscall.SIGTERM)
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case <-old.exited:
	case <-timer.C:
		t.Fatal("the old leader does not end")
	}
	if code := old.cmd.ProcessState.ExitCode(); code != 0 {
		t.Fatalf("the old leader ended with %d", code)
	}
	leaderOf(t, others)
	at := total.Load()
	until(t, "load after the hand-over", func() bool { return t.Failed() || total.Load() > at+300 })
	stop.Store(true)
	wg.Wait()
	var kids jute.GetChildrenResponse
	setup.must(jute.OpSync, &jute.SyncRequest{Path: jute.Str("/")}, nil)
	setup.must(jute.OpGetChildren, get(root, false), &kids)
	if int64(len(kids.Children)) != total.Load() && !t.Failed() {
		t.Fatalf("round %d: %d creates answered, %d nodes", k, total.Load(), len(kids.Children))
	}
	old.start()
	old.serve()
	return time.Duration(gap.Load())
}
