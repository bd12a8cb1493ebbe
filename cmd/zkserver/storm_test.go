package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/zkserver/zkserver/proto/jute"
	"github.com/zkserver/zkserver/server/hostile"
)

// TestStorm: three voters and an observer under clients that use everything at once, while servers are killed, stopped,
// paused and cut off. What the clients saw is then held against one sequence of transactions: see history.check.
// ZKSERVER_STORM is the length in seconds, ZKSERVER_SEED repeats the order of the faults.
func TestStorm(t *testing.T) {
	length := time.Duration(rounds(4, 180)) * time.Second
	if s := os.Getenv("ZKSERVER_STORM"); s != "" {
		n, _ := strconv.Atoi(s)
		length = time.Duration(n) * time.Second
	}
	seed := uint64(time.Now().UnixNano())
	if s := os.Getenv("ZKSERVER_SEED"); s != "" {
		seed, _ = strconv.ParseUint(s, 10, 64)
	}
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 1))
	ps := newEnsemble(t, 4, 1, quick)
	f := newFabric(t, ps)
	tick := []int{200, 300, 500}[rng.IntN(3)]
	for _, p := range ps {
		p.change(`tickTime=\d+`, fmt.Sprintf("tickTime=%d", tick))
	}
	if rng.IntN(2) == 0 {
		for _, p := range ps {
			p.change(`\z`, "commitLogCount=200\n") // whoever was away needs a snapshot
		}
	}
	keepLogs(t, ps)
	startAll(ps)

	h := newHistory(t)
	setup := mustDial(t, ps[0].addr, 20*time.Second)
	for _, path := range h.roots() {
		setup.must(jute.OpCreate, create(path, ""), nil)
	}
	setup.must(jute.OpCloseSession, nil, nil)

	ctx, stop := context.WithTimeout(t.Context(), length)
	defer stop()
	var wg sync.WaitGroup
	var clients []*stormClient
	for i := range 8 {
		c := newStormClient(h, i, ps, rand.New(rand.NewPCG(seed, uint64(100+i))))
		clients = append(clients, c)
		wg.Go(func() { c.run(ctx) }) // ends with ctx
	}
	n := nemesis{t: t, rng: rng, ps: ps, net: f}
	for ctx.Err() == nil {
		for range 8 {
			n.strike(ctx)
		}
		n.settle()
	}
	t.Logf("%d faults; at most %s from the last one to a write on every server, %s from SIGTERM to the end", n.faults, n.longest, n.slowest)
	wg.Wait()
	for _, c := range clients {
		c.finish()
	}
	sameDigests(t, ps)
	h.check(ps, clients)
	snapshots, diffs := 0, 0
	for _, p := range ps {
		text := p.checkLog()
		snapshots += strings.Count(text, "receiving a snapshot")
		diffs += strings.Count(text, `"on":true`)
	}
	t.Logf("%d times a server began to serve, %d snapshots", diffs, snapshots)
}

// keepLogs leaves the servers' whole logs of a failed test in the directory that ZKSERVER_LOGS names.
func keepLogs(t *testing.T, ps []*proc) {
	to := os.Getenv("ZKSERVER_LOGS")
	if to == "" {
		return
	}
	t.Cleanup(func() {
		for _, p := range ps {
			text, err := os.ReadFile(filepath.Join(p.dir, "server.log"))
			if err == nil && t.Failed() {
				err = os.WriteFile(filepath.Join(to, fmt.Sprintf("%s-%d-%d.log", t.Name(), os.Getpid(), p.id)), text, 0o600)
			}
			if err != nil {
				t.Log(err)
			}
		}
	})
}

// change replaces a pattern in the configuration.
func (p *proc) change(pattern, text string) {
	p.t.Helper()
	path := filepath.Join(p.dir, "zoo.cfg")
	old, err := os.ReadFile(path)
	if err != nil {
		p.t.Fatal(err)
	}
	p.write("zoo.cfg", regexp.MustCompile(pattern).ReplaceAllString(string(old), text))
}

// wipe removes the server's data.
func (p *proc) wipe() {
	p.t.Helper()
	all, err := os.ReadDir(p.dir)
	if err != nil {
		p.t.Fatal(err)
	}
	for _, e := range all {
		switch e.Name() {
		case "zoo.cfg", "myid", "server.log":
		default:
			if err := os.RemoveAll(filepath.Join(p.dir, e.Name())); err != nil {
				p.t.Fatal(err)
			}
		}
	}
}

// checkLog looks for what no fault outside of the processes may cause.
func (p *proc) checkLog() string {
	p.t.Helper()
	text, err := os.ReadFile(filepath.Join(p.dir, "server.log"))
	if err != nil {
		p.t.Fatal(err)
	}
	for _, line := range strings.Split(string(text), "\n") {
		for _, bad := range []string{"panic", "DATA RACE", "mismatch", "broken invariant", "fatal", `"level":"error"`, "bad message"} {
			if strings.Contains(line, bad) {
				p.t.Errorf("server %d: %s", p.id, line)
				break
			}
		}
	}
	return string(text)
}

// nemesis brings the faults, one after another and some at once.
type nemesis struct {
	t      testing.TB
	rng    *rand.Rand
	ps     []*proc
	net    *hostile.Network
	faults int

	longest time.Duration // from the end of all faults to a write on every server
	slowest time.Duration // from SIGTERM to the end of the process
}

func (n *nemesis) wait(ctx context.Context, most time.Duration) {
	timer := time.NewTimer(time.Duration(n.rng.Int64N(int64(most))))
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

func (n *nemesis) leader() *proc {
	for _, p := range n.ps {
		if p.running() && p.mode() == "leader" {
			return p
		}
	}
	return n.any()
}

func (n *nemesis) any() *proc { return n.ps[n.rng.IntN(len(n.ps))] }

// victim is the leader, half of the time.
func (n *nemesis) victim() *proc {
	if n.rng.IntN(2) == 0 {
		return n.leader()
	}
	return n.any()
}

func (n *nemesis) isolate(p *proc, in, out bool) {
	for _, q := range n.ps {
		if q == p {
			continue
		}
		if in {
			n.net.Hold(q.id, p.id)
		}
		if out {
			n.net.Hold(p.id, q.id)
		}
	}
}

// term stops a server politely and waits for its end.
func (n *nemesis) term(p *proc) {
	_ = p.cmd.Process.Signal(syscall.SIGTERM)
	n.ends(p)
}

func (n *nemesis) ends(p *proc) {
	began := time.Now()
	defer func() { n.slowest = max(n.slowest, time.Since(began)) }()
	timer := time.NewTimer(20 * time.Second)
	defer timer.Stop()
	select {
	case <-p.exited:
		state := p.cmd.ProcessState
		// A process that has only just begun has no handler yet.
		if w, ok := state.Sys().(syscall.WaitStatus); state.ExitCode() != 0 && !(ok && w.Signal() == syscall.SIGTERM) {
			n.t.Errorf("server %d after SIGTERM: %s", p.id, state)
		}
	case <-timer.C:
		n.t.Errorf("server %d did not end within 20 s of SIGTERM", p.id)
	}
	p.kill()
}

func (n *nemesis) strike(ctx context.Context) {
	n.faults++
	p := n.victim()
	kind := n.rng.IntN(18)
	if s := os.Getenv("ZKSERVER_FAULTS"); s != "" { // for a closer look: only these, as 2,3,4
		only := strings.Split(s, ",")
		kind, _ = strconv.Atoi(only[n.rng.IntN(len(only))])
	}
	switch kind {
	case 0, 1: // a crash
		p.kill()
		n.wait(ctx, 1500*time.Millisecond)
	case 2: // a polite stop, of a leader with hand-over
		n.term(p)
		n.wait(ctx, 500*time.Millisecond)
	case 3: // a leader killed in the middle of its hand-over
		p = n.leader()
		_ = p.cmd.Process.Signal(syscall.SIGTERM)
		n.wait(ctx, 60*time.Millisecond)
		p.kill()
		n.wait(ctx, time.Second)
	case 4: // whoever takes over is killed in the middle of the hand-over
		p = n.leader()
		q := n.ps[n.rng.IntN(3)]
		_ = p.cmd.Process.Signal(syscall.SIGTERM)
		n.wait(ctx, 60*time.Millisecond)
		if q != p {
			q.kill()
		}
		n.ends(p)
		n.wait(ctx, 500*time.Millisecond)
	case 5, 6: // a pause
		_ = p.cmd.Process.Signal(syscall.SIGSTOP)
		n.wait(ctx, 3*time.Second)
		_ = p.cmd.Process.Signal(syscall.SIGCONT)
	case 7: // cut off
		n.isolate(p, true, true)
		n.wait(ctx, 3*time.Second)
	case 8: // deaf
		n.isolate(p, true, false)
		n.wait(ctx, 3*time.Second)
	case 9: // mute
		n.isolate(p, false, true)
		n.wait(ctx, 3*time.Second)
	case 10: // one way between two
		q := n.any()
		if q != p {
			n.net.Hold(p.id, q.id)
		}
		n.wait(ctx, 3*time.Second)
	case 11: // links reset
		for _, q := range n.ps {
			if q != p {
				n.net.Reset(p.id, q.id)
			}
		}
		n.wait(ctx, 500*time.Millisecond)
	case 12: // all at once
		for _, q := range n.ps {
			_ = q.cmd.Process.Signal(syscall.SIGKILL)
		}
		for _, q := range n.ps {
			q.kill()
		}
	case 13: // a leader cut off while a follower pauses
		p = n.leader()
		q := n.any()
		n.isolate(p, true, true)
		_ = q.cmd.Process.Signal(syscall.SIGSTOP)
		n.wait(ctx, 2*time.Second)
		_ = q.cmd.Process.Signal(syscall.SIGCONT)
		n.wait(ctx, time.Second)
	case 14: // a disk lost; another server dies while the blank one joins
		n.net.Heal()
		p.kill()
		p.wipe()
		p.start()
		n.wait(ctx, 300*time.Millisecond)
		if q := n.any(); q != p {
			q.kill()
		}
		n.wait(ctx, 300*time.Millisecond)
		n.restart()
		p.serve() // else a second disk could be lost before the first is back
	case 15: // two at once
		q := n.any()
		p.kill()
		q.kill()
		n.wait(ctx, time.Second)
	case 16: // all stop politely, at once
		for _, q := range n.ps {
			_ = q.cmd.Process.Signal(syscall.SIGTERM)
		}
		for _, q := range n.ps {
			n.ends(q)
		}
	case 17: // a polite stop without a quorum
		for _, q := range n.ps {
			if q != p && n.rng.IntN(3) > 0 {
				q.kill()
			}
		}
		n.wait(ctx, 500*time.Millisecond)
		n.term(p)
	}
	if n.rng.IntN(3) > 0 {
		n.net.Heal()
	}
	n.restart()
	if n.rng.IntN(3) > 0 {
		n.net.Heal()
		n.wait(ctx, 2*time.Second)
	}
}

// restart starts what does not run, in any order.
func (n *nemesis) restart() {
	for _, i := range n.rng.Perm(len(n.ps)) {
		if p := n.ps[i]; !p.running() {
			if p.cmd != nil {
				n.t.Errorf("server %d ended by itself: %v", p.id, p.cmd.ProcessState)
			}
			p.start()
		}
	}
}

// settle ends all faults; soon every server must take a write.
func (n *nemesis) settle() {
	n.t.Helper()
	began := time.Now()
	n.net.Heal()
	for _, p := range n.ps {
		if p.running() {
			_ = p.cmd.Process.Signal(syscall.SIGCONT)
		}
	}
	n.restart()
	for _, p := range n.ps {
		p.serve()
		c := mustDial(n.t, p.addr, 20*time.Second)
		c.must(jute.OpSetData, set("/calm", strconv.Itoa(p.id)), nil)
		c.must(jute.OpCloseSession, nil, nil)
		c.c.Close()
	}
	d := time.Since(began)
	n.longest = max(n.longest, d)
	if d > 30*time.Second {
		n.t.Errorf("no progress for %s after the last fault", d)
	}
}
