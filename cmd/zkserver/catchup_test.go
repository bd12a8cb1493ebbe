package main

import (
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/zkserver/zkserver/proto/jute"
)

// write makes n transactions through a server, pipelined.
func write(t *testing.T, p *proc, path string, n int) {
	t.Helper()
	c := mustDial(t, p.addr, 20*time.Second)
	defer c.c.Close()
	if _, err := c.call(jute.OpCreate, create(path, ""), nil); err != nil {
		t.Fatal(err)
	}
	const run = 100
	for sent := 1; sent < n; {
		var b []byte
		k := min(run, n-sent)
		for i := range k {
			b, _ = c.appendRequest(b, jute.OpSetData, set(path, strconv.Itoa(sent+i)))
		}
		if _, err := c.c.Write(b); err != nil {
			t.Fatal(err)
		}
		for range k {
			if f, err := c.recv(patience); err != nil || f.header.Err != 0 {
				t.Fatal(f.header.Err, err)
			}
		}
		sent += k
	}
}

// writeBytes sets forty nodes to n large values in all, one after the other.
func writeBytes(t *testing.T, p *proc, path string, n, size int) {
	t.Helper()
	c := mustDial(t, p.addr, 20*time.Second)
	defer c.c.Close()
	value := strings.Repeat("x", size)
	for i := range n {
		if node := fmt.Sprint(path, i%40); i < 40 {
			c.must(jute.OpCreate, create(node, value), nil)
		} else {
			c.must(jute.OpSetData, set(node, value), nil)
		}
	}
	for i := range min(n, 40) {
		c.must(jute.OpDelete, &jute.DeleteRequest{Path: jute.Str(fmt.Sprint(path, i)), Version: -1}, nil)
	}
}

// syncs is how often the leader has synchronized a learner by DIFF and by SNAP.
func syncs(t *testing.T, leader *proc) (diff, snap int) {
	t.Helper()
	return leader.number(t, "zk_diff_count"), leader.number(t, "zk_snap_count")
}

// wantSyncs waits until the leader reports these counts, and fails if it reports more.
func wantSyncs(t *testing.T, leader *proc, diff, snap int) {
	t.Helper()
	until(t, fmt.Sprintf("%d synchronizations by DIFF and %d by SNAP", diff, snap), func() bool {
		d, s := syncs(t, leader)
		if d > diff || s > snap {
			t.Fatalf("%d synchronizations by DIFF and %d by SNAP, want %d and %d", d, s, diff, snap)
		}
		return d == diff && s == snap
	})
}

// TestCatchUpByDiff: a follower, and an observer, that were away for 1, 1,000 and many transactions come back by DIFF.
func TestCatchUpByDiff(t *testing.T) {
	ps := newEnsemble(t, 4, 1, "")
	startAll(ps)
	leader := leaderOf(t, ps)
	wantSyncs(t, leader, len(ps)-1, 0)
	follower := ps[leader.id%3]
	for _, away := range []*proc{follower, ps[3]} {
		for _, n := range []int{1, 1000, rounds(5_000, 200_000)} {
			diff, snap := syncs(t, leader)
			away.kill()
			write(t, leader, fmt.Sprintf("/diff-%d-%d", away.id, n), n)
			began := time.Now()
			away.start()
			away.serve()
			t.Logf("server %d back after %d transactions: %s", away.id, n, time.Since(began).Round(time.Millisecond))
			checkServed(t, away, fmt.Sprintf("/diff-%d-%d", away.id, n), n)
			sameDigests(t, ps)
			wantSyncs(t, leader, diff+1, snap)
		}
	}
}

// checkServed: once a server serves at all, it serves everything that was acknowledged before it came back.
func checkServed(t *testing.T, p *proc, path string, n int) {
	t.Helper()
	c := mustDial(t, p.addr, 20*time.Second)
	defer c.c.Close()
	var r jute.GetDataResponse
	c.must(jute.OpGetData, get(path, false), &r)
	if want := strconv.Itoa(n - 1); n > 1 && string(r.Data) != want {
		t.Fatalf("server %d serves %s = %s, want %s", p.id, path, r.Data, want)
	}
}

// TestCatchUpBySnap: with a DIFF window of 1,000 transactions a learner that was away for longer comes back by SNAP, one
// that missed 900 by DIFF. Nothing else bounds the disk: keys of Java's retention are named and change nothing (F5 of
// docs/field-reports.md).
func TestCatchUpBySnap(t *testing.T) {
	ps := newEnsemble(t, 4, 1, "commitLogCount=1000\nautopurge.snapRetainCount=3\nautopurge.purgeInterval=1\nsnapCount=100000\n")
	for _, p := range ps {
		p.edit("zoo.cfg", func(text string) string { return text + "dataLogDir=" + filepath.Join(p.dir, "txns") + "\n" })
	}
	startAll(ps)
	leader := leaderOf(t, ps)
	wantSyncs(t, leader, len(ps)-1, 0)
	if w := leader.number(t, "zk_diff_window"); w != 1000 {
		t.Fatalf("the window is %d", w)
	}
	n := rounds(3_000, 200_000)
	for _, away := range []*proc{ps[leader.id%3], ps[3]} {
		diff, snap := syncs(t, leader)
		last := away.number(t, "zk_log_end_zxid")
		away.kill()
		path := fmt.Sprintf("/snap-%d", away.id)
		writeBytes(t, leader, path+"-large", 80, 900_000) // what makes the state durable, as 100,000 small ones do
		write(t, leader, path, n)
		until(t, "the leader's log is cut beyond the end of the one that is away", func() bool {
			return leader.number(t, "zk_log_base_zxid") > last
		})
		away.start()
		away.serve()
		checkServed(t, away, path, n)
		sameDigests(t, ps)
		wantSyncs(t, leader, diff, snap+1)
	}
	diff, snap := syncs(t, leader)
	away := ps[leader.id%3]
	away.kill()
	write(t, leader, "/few", 900)
	away.start()
	away.serve()
	sameDigests(t, ps)
	wantSyncs(t, leader, diff+1, snap)
	for _, p := range ps {
		for _, key := range []string{"zk_log_bytes", "zk_state_bytes"} {
			if size := p.number(t, key); size > 128<<20 {
				t.Errorf("server %d: %s is %d after %d transactions", p.id, key, size, 2*n)
			}
		}
		logged := p.log()
		for _, key := range []string{"autopurge.snapRetainCount", "autopurge.purgeInterval", "snapCount"} {
			if n, starts := strings.Count(logged, key), strings.Count(logged, `"starting"`); n != starts {
				t.Errorf("server %d names %s %d times in %d starts", p.id, key, n, starts)
			}
		}
		states, err := filepath.Glob(filepath.Join(p.dir, "state.*"))
		logs, err2 := filepath.Glob(filepath.Join(p.dir, "txns", "log", "*.log"))
		if err != nil || err2 != nil || len(states) != 1 || len(logs) == 0 {
			t.Errorf("server %d: states %v, logs %v", p.id, states, logs)
		}
	}
}

// TestCatchUpKilled: a follower that is killed again and again while it catches up ends with the leader's digests.
func TestCatchUpKilled(t *testing.T) {
	ps := newEnsemble(t, 4, 1, "commitLogCount=1000\n")
	startAll(ps)
	leader := leaderOf(t, ps)
	for k := range rounds(4, 20) {
		away := ps[leader.id%3]
		if k%2 == 1 {
			away = ps[3]
		}
		away.kill()
		write(t, leader, fmt.Sprintf("/killed-%d", k), rounds(2_000, 20_000))
		for range 3 {
			away.start()
			select {
			case <-time.After(time.Duration(rand.Int64N(int64(300 * time.Millisecond)))):
			case <-t.Context().Done():
			}
			away.kill()
		}
		away.start()
		away.serve()
		sameDigests(t, ps)
	}
}
