package main

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/zkserver/zkserver/proto/jute"
)

// TestLargestTransaction: a client's identities, its lists and its multis are multiplied by each other. What that may come to
// passes through every link, also to a server that was away; what would be more is refused, and nothing is cut.
func TestLargestTransaction(t *testing.T) {
	ps := newEnsemble(t, 3, 0, "")
	startAll(ps)
	l := leaderOf(t, ps)
	f, away := others(ps, l)
	away.kill()
	c := mustDial(t, f.addr, 60*time.Second)
	c.must(jute.OpAuth, &jute.AuthPacket{Scheme: jute.Str("digest"), Auth: []byte(strings.Repeat("u", 60_000) + ":pw")}, nil)
	mine := []jute.ACL{{Perms: 31, Scheme: jute.Str("auth"), ID: jute.Str("")}}
	creates := func(prefix string, n int) (ops []jute.Op) {
		for i := range n {
			ops = append(ops, jute.Op{Type: jute.OpCreate, Path: jute.Str(fmt.Sprintf("/%s%d", prefix, i)), ACL: mine})
		}
		return ops
	}
	c.multi(creates("some", 130))
	var resp jute.MultiResponse
	c.must(jute.OpMulti, &jute.MultiRequest{Ops: creates("more", 200)}, &resp)
	if !slices.ContainsFunc(resp.Results, func(r jute.OpResult) bool { return r.Err == jute.InvalidACL }) {
		t.Fatal("200 lists of 60 kB in one transaction are taken")
	}
	var b []byte
	const pipelined = 1000 // each carries the identities to the leader
	for i := range pipelined {
		b, _ = c.appendRequest(b, jute.OpCreate, &jute.CreateRequest{Path: jute.Str(fmt.Sprintf("/x%d", i)), ACL: openACL})
	}
	go func() { // ends when the server has taken it, or with the connection
		_, _ = c.c.Write(b)
	}()
	for i := range pipelined {
		if _, err := c.recv(60 * time.Second); err != nil {
			t.Fatalf("create %d: %v", i, err)
		}
	}
	away.start()
	away.serve()
	sameDigests(t, ps)
	for _, p := range []*proc{l, f} {
		if strings.Contains(p.log(), "too much waits to be sent") {
			t.Errorf("server %d cut a link", p.id)
		}
	}
}
