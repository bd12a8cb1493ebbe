package main

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/zkserver/zkserver/proto/jute"
)

// statsOf reads the stats of the quota of /q on every server, behind a sync.
func statsOf(t *testing.T, ps []*proc) string {
	t.Helper()
	first := ""
	for i, p := range ps {
		c := mustDial(t, p.addr, 20*time.Second)
		c.must(jute.OpSync, &jute.SyncRequest{Path: jute.Str("/")}, nil)
		var got jute.GetDataResponse
		c.must(jute.OpGetData, get("/zookeeper/quota/q/zookeeper_stats", false), &got)
		_ = c.c.Close()
		if text := string(got.Data); i == 0 {
			first = text
		} else if text != first {
			t.Fatalf("server %d has %s, server %d has %s", p.id, text, ps[0].id, first)
		}
	}
	return first
}

// churn creates, changes and deletes nodes below /q; what fails is no matter.
func churn(t *testing.T, p *proc, n int) {
	t.Helper()
	c := mustDial(t, p.addr, 20*time.Second)
	defer c.c.Close()
	for range n {
		path, data := fmt.Sprintf("/q/n%d", rand.IntN(40)), "0123456789"[:rand.IntN(10)]
		var err error
		switch rand.IntN(5) {
		case 0, 1:
			_, err = c.call(jute.OpCreate, create(path, data), nil)
		case 2, 3:
			_, err = c.call(jute.OpSetData, set(path, data), nil)
		default:
			_, err = c.call(jute.OpDelete, &jute.DeleteRequest{Path: jute.Str(path), Version: -1}, nil)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// The stats of a quota are the same on every server, also on one that was killed and came back, and on the next leader;
// what a client wrote into them too (I11).
func TestQuotaStatsAcrossCrashes(t *testing.T) {
	ps := newEnsemble(t, 3, 0, "enforceQuota=true\n")
	startAll(ps)
	c := mustDial(t, ps[0].addr, 20*time.Second)
	for _, p := range []string{"/q", "/zookeeper/quota/q", "/zookeeper/quota/q/zookeeper_stats"} {
		c.must(jute.OpCreate, create(p, ""), nil)
	}
	c.must(jute.OpCreate, create("/zookeeper/quota/q/zookeeper_limits", "countHardLimit=30"), nil)
	_ = c.c.Close()
	churn(t, ps[0], 300)
	leader := leaderOf(t, ps)
	var others []*proc
	for _, p := range ps {
		if p != leader {
			others = append(others, p)
		}
	}
	others[0].kill()
	churn(t, others[1], 200)
	c = mustDial(t, leader.addr, 20*time.Second)
	c.must(jute.OpSetData, set("/zookeeper/quota/q/zookeeper_stats", "count=7,bytes=1000"), nil)
	_ = c.c.Close()
	churn(t, leader, 50)
	others[0].start()
	others[0].serve()
	statsOf(t, ps)
	leader.kill()
	leaderOf(t, others)
	others[0].serve()
	churn(t, others[0], 100)
	leader.start()
	leader.serve()
	t.Log(statsOf(t, ps))
	sameDigests(t, ps)
	for _, p := range ps {
		if n := p.number(t, "zk_digest_mismatches_count"); n != 0 {
			t.Errorf("server %d: %d digest mismatches", p.id, n)
		}
	}
}

// The leader removes an empty container and a TTL node; a recursive watch on another server tells of it.
func TestReaping(t *testing.T) {
	ps := newEnsemble(t, 3, 0, "extendedTypesEnabled=true\nznode.container.checkIntervalMs=200\n")
	startAll(ps)
	leader := leaderOf(t, ps)
	other := ps[0]
	if other == leader {
		other = ps[1]
	}
	w := mustDial(t, other.addr, 20*time.Second)
	defer w.c.Close()
	w.must(jute.OpAddWatch, &jute.AddWatchRequest{Path: jute.Str("/"), Mode: 1}, nil)
	c := mustDial(t, leader.addr, 20*time.Second)
	defer c.c.Close()
	container := create("/c", "")
	container.Flags = 4
	c.must(jute.OpCreateContainer, container, nil)
	c.must(jute.OpCreate, create("/c/x", ""), nil)
	c.must(jute.OpDelete, &jute.DeleteRequest{Path: jute.Str("/c/x"), Version: -1}, nil)
	ttl := &jute.CreateTTLRequest{CreateRequest: *create("/t", ""), TTL: 300}
	ttl.Flags = 5
	c.must(jute.OpCreateTTL, ttl, nil)
	gone := map[string]bool{}
	for !gone["/c"] || !gone["/t"] {
		f, err := w.recv(patience)
		if err != nil {
			t.Fatal(err)
		}
		if f.event != nil && f.event.Type == jute.EventNodeDeleted {
			gone[f.event.Path.Value] = true
		}
	}
	for _, p := range []string{"/c", "/t"} {
		if h, err := c.call(jute.OpExists, get(p, false), nil); err != nil || h.Err != -101 {
			t.Errorf("%s on the leader: %v %v", p, h.Err, err)
		}
	}
	sameDigests(t, ps)
}
