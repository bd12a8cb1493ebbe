package main

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/zkserver/zkserver/proto/jute"
)

// number is one value of the word mntr that is a whole number.
func (p *proc) number(t *testing.T, key string) int {
	t.Helper()
	var n int
	until(t, "mntr of "+key, func() bool {
		var err error
		n, err = strconv.Atoi(p.mntr(key))
		return err == nil
	})
	return n
}

// TestFieldF8Figures: what mntr tells of connections, sessions, watches and nodes is exact, and goes back to what it
// was. The time of an election is all of the time without service.
func TestFieldF8Figures(t *testing.T) {
	ps := newEnsemble(t, 3, 0, "")
	startAll(ps)
	leader := leaderOf(t, ps)
	p := ps[leader.id%3]
	gauges := map[string]int{"zk_num_alive_connections": 0, "zk_global_sessions": 0, "zk_watch_count": 0, "zk_ephemerals_count": 0, "zk_znode_count": 0, "zk_outstanding_requests": 0}
	before := map[string]int{}
	for key := range gauges {
		before[key] = p.number(t, key)
	}
	const clients = 100
	var conns []*rawConn
	for i := range clients {
		c := mustDial(t, p.addr, 20*time.Second)
		c.must(jute.OpCreate, createEphemeral(fmt.Sprintf("/f8-%d", i)), nil)
		c.must(jute.OpGetData, get(fmt.Sprintf("/f8-%d", i), true), nil)
		conns = append(conns, c)
	}
	grown := func(by map[string]int) func() bool {
		return func() bool {
			for key := range gauges {
				if gauges[key] = p.number(t, key) - before[key]; gauges[key] != by[key] {
					return false
				}
			}
			return true
		}
	}
	until(t, "the figures of all clients", grown(map[string]int{"zk_num_alive_connections": clients, "zk_global_sessions": clients, "zk_watch_count": clients, "zk_ephemerals_count": clients, "zk_znode_count": clients}))
	for i, c := range conns {
		if i%2 == 0 {
			c.c.Close()
			conns[i] = mustResume(t, p.addr, c)
		}
		conns[i].must(jute.OpCloseSession, nil, nil)
	}
	until(t, "the figures to be what they were", grown(nil))

	for range 3 {
		leader := leaderOf(t, ps)
		rest := ps[leader.id%3]
		elections := rest.number(t, "zk_cnt_election_time")
		sum := rest.number(t, "zk_sum_election_time")
		began := time.Now()
		leader.kill()
		var first, last time.Time // of those moments that it was seen not to serve
		until(t, "another leader", func() bool {
			if now := time.Now(); rest.mode() == "" {
				if last = now; first.IsZero() {
					first = now
				}
			}
			return rest.number(t, "zk_cnt_election_time") > elections
		})
		outage := time.Since(began)
		took := time.Duration(rest.number(t, "zk_sum_election_time")-sum) * time.Millisecond
		if n := rest.number(t, "zk_cnt_election_time"); n != elections+1 {
			t.Errorf("%d elections", n-elections)
		}
		t.Logf("without service from kill to leader %s, seen %s, reported %s", outage.Round(time.Millisecond), last.Sub(first).Round(time.Millisecond), took)
		const quantum = 20 * time.Millisecond // the replica's clock steps by up to 10 ms, at both ends
		if took < last.Sub(first)-quantum || took > outage+quantum {
			t.Errorf("an election of %s; %s were seen, all of it took %s", took, last.Sub(first), outage)
		}
		leader.start()
		leader.serve()
	}
}

// mustResume takes up a session on another connection.
func mustResume(t *testing.T, addr string, old *rawConn) *rawConn {
	t.Helper()
	var r *rawConn
	until(t, "the session is back", func() bool {
		var err error
		r, err = dialRaw(t, addr, old.timeout, old)
		if errors.Is(err, errRefused) {
			t.Fatalf("session %#x is gone", uint64(old.session))
		}
		return err == nil
	})
	t.Cleanup(func() { r.c.Close() })
	return r
}

// TestFieldF11OldDirectories: a member that is given an old copy of its directory is brought forward by the others. An
// ensemble of old copies starts as what it was; a client that has seen more is turned away until it is past that.
func TestFieldF11OldDirectories(t *testing.T) {
	ps := newEnsemble(t, 3, 0, "")
	startAll(ps)
	c := mustDial(t, leaderOf(t, ps).addr, 20*time.Second)
	c.must(jute.OpCreate, create("/old", ""), nil)
	sameDigests(t, ps)
	old := t.TempDir()
	stores := []string{"log", "state.*"}
	save := func(p *proc) {
		t.Helper()
		for _, pattern := range stores {
			names, err := filepath.Glob(filepath.Join(p.dir, pattern))
			if err != nil || len(names) == 0 {
				t.Fatalf("%s: %v %v", pattern, names, err)
			}
			for _, n := range names {
				if err := os.CopyFS(filepath.Join(old, strconv.Itoa(p.id), filepath.Base(n)), os.DirFS(n)); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	restore := func(p *proc) {
		t.Helper()
		for _, pattern := range stores {
			names, err := filepath.Glob(filepath.Join(p.dir, pattern))
			if err != nil {
				t.Fatal(err)
			}
			for _, n := range names {
				if err := os.RemoveAll(n); err != nil {
					t.Fatal(err)
				}
			}
		}
		if err := os.CopyFS(p.dir, os.DirFS(filepath.Join(old, strconv.Itoa(p.id)))); err != nil {
			t.Fatal(err)
		}
	}
	killAll(ps)()
	for _, p := range ps {
		save(p)
	}
	startAll(ps)
	c = mustDial(t, leaderOf(t, ps).addr, 20*time.Second)
	for i := range 20 {
		c.must(jute.OpCreate, create(fmt.Sprintf("/new-%d", i), ""), nil)
	}
	// One of them.
	one := ps[leaderOf(t, ps).id%3]
	one.kill()
	restore(one)
	one.start()
	one.serve()
	sameDigests(t, ps)
	r := mustDial(t, one.addr, 20*time.Second)
	r.must(jute.OpExists, get("/new-19", false), nil)
	seen := c.must(jute.OpSetData, set("/old", "seen"), nil).Zxid
	// All of them.
	killAll(ps)()
	for _, p := range ps {
		restore(p)
	}
	startAll(ps)
	sameDigests(t, ps)
	c = mustDial(t, ps[0].addr, 20*time.Second)
	c.must(jute.OpExists, get("/old", false), nil)
	if h, err := c.call(jute.OpExists, get("/new-0", false), nil); err != nil || h.Err != jute.NoNode {
		t.Errorf("/new-0: %v %v", h.Err, err)
	}
	for _, p := range ps {
		if ok, err := admits(p.addr, seen); ok || err != nil {
			t.Errorf("server %d at %s: a client that has seen %#x is let in: %t %v", p.id, p.word("srvr"), seen, ok, err)
		}
	}
	until(t, "the refusal is logged", func() bool { return strings.Contains(ps[0].log(), "refused a client that has seen a later zxid") })
	for leaderOf(t, ps).number(t, "zk_last_processed_zxid") <= int(seen) {
		c.must(jute.OpSetData, set("/old", "again"), nil)
	}
	sameDigests(t, ps)
	for _, p := range ps {
		if ok, err := admits(p.addr, seen); !ok || err != nil {
			t.Errorf("server %d is past it and turns the client away: %v", p.id, err)
		}
	}
}

// admits reports whether a server gives a session to a client that has seen a zxid.
func admits(addr string, seen int64) (bool, error) {
	c, err := net.Dial("tcp", addr)
	if err != nil {
		return false, err
	}
	defer c.Close()
	req := jute.ConnectRequest{LastZxidSeen: seen, TimeOut: 5000, Passwd: make([]byte, 16), HasReadOnly: true}
	b, at := jute.BeginFrame(nil)
	_ = c.SetDeadline(time.Now().Add(patience))
	if _, err := c.Write(jute.EndFrame(req.Append(b), at)); err != nil {
		return false, err
	}
	if _, err := jute.NewFrameReader(c, 1<<20).Next(); errors.Is(err, io.EOF) {
		return false, nil
	} else if err != nil {
		return false, err
	}
	return true, nil
}
