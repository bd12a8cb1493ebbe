package main

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/zkserver/zkserver/proto/jute"
)

// TestFieldSessions holds entries of part C of docs/field-reports.md that need connections and processes, on one ensemble.
func TestFieldSessions(t *testing.T) {
	ps := newEnsemble(t, 3, 0, "")
	startAll(ps)
	for _, c := range []struct {
		name string
		run  func(t *testing.T, ps []*proc)
	}{
		{"C1 the session moves with its id", sessionMoves},
		{"C2 reading keeps a session", readingKeeps},
		{"C10 catch-up of watches", watchesCatchUp},
		{"C11 a child that vanished meanwhile", childVanished},
		{"C13 a storm of watches", watchStorm},
		{"C14 persistent and standard watches", persistentBeside},
		{"C15 removal of watches", watchRemoved},
		{"C16 watches of dead sessions", deadWatches},
	} {
		t.Run(c.name, func(t *testing.T) { c.run(t, ps) })
	}
}

func createEphemeral(path string) *jute.CreateRequest {
	r := create(path, "")
	r.Flags = 1
	return r
}

// sessionMoves (C1): after a cut the session is taken up again with the same id and timeout, by another server or the
// same. One that has expired is refused as such; nobody gets another session unasked.
func sessionMoves(t *testing.T, ps []*proc) {
	const timeout = 1500 * time.Millisecond
	c := mustDial(t, ps[0].addr, timeout)
	c.must(jute.OpCreate, createEphemeral("/c1"), nil)
	for i := 1; i <= 3; i++ {
		c.c.Close()
		next, err := dialRaw(t, ps[i%3].addr, timeout, c)
		if err != nil {
			t.Fatalf("server %d: %v", ps[i%3].id, err)
		}
		if next.session != c.session || next.timeout != timeout {
			t.Fatalf("server %d: session %#x of %v became %#x of %v", ps[i%3].id, uint64(c.session), timeout, uint64(next.session), next.timeout)
		}
		var r jute.GetDataResponse
		next.must(jute.OpGetData, get("/c1", false), &r)
		if r.Stat.EphemeralOwner != c.session {
			t.Fatalf("the ephemeral is of %#x", uint64(r.Stat.EphemeralOwner))
		}
		c = next
	}
	wrong := &rawConn{session: c.session, passwd: make([]byte, 16)}
	if x, err := dialRaw(t, ps[1].addr, timeout, wrong); !errors.Is(err, errRefused) {
		t.Fatalf("a wrong password: %+v %v", x, err)
	}
	c.must(jute.OpGetData, get("/c1", false), nil) // which disturbed nobody
	c.c.Close()
	watch := mustDial(t, ps[1].addr, 20*time.Second)
	until(t, "the session expires", func() bool {
		h, err := watch.call(jute.OpExists, get("/c1", false), nil)
		return err == nil && h.Err == jute.ErrorCode(-101)
	})
	for _, p := range ps {
		if x, err := dialRaw(t, p.addr, timeout, c); !errors.Is(err, errRefused) {
			t.Fatalf("server %d gives an expired session %+v, %v", p.id, x, err)
		}
	}
}

// readingKeeps (C2): a client on a follower that reads and never pings is alive.
func readingKeeps(t *testing.T, ps []*proc) {
	leader := leaderOf(t, ps)
	const timeout = time.Second
	c := mustDial(t, ps[leader.id%3].addr, timeout)
	c.must(jute.OpCreate, createEphemeral("/c2"), nil)
	for end := time.Now().Add(3 * timeout); time.Now().Before(end); <-time.After(100 * time.Millisecond) {
		var r jute.GetDataResponse
		c.must(jute.OpGetData, get("/c2", false), &r)
		if r.Stat.EphemeralOwner != c.session {
			t.Fatalf("the ephemeral is of %#x", uint64(r.Stat.EphemeralOwner))
		}
	}
	c.must(jute.OpCloseSession, nil, nil)
}

// events collects what comes until the reply to a sync that is sent behind, as "type path".
func (r *rawConn) events() map[string]int {
	r.t.Helper()
	xid, err := r.send(jute.OpSync, &jute.SyncRequest{Path: jute.Str("/")})
	if err != nil {
		r.t.Fatal(err)
	}
	got := map[string]int{}
	for {
		f, err := r.recv(patience)
		if err != nil {
			r.t.Fatal(err)
		}
		if f.event != nil {
			got[fmt.Sprintf("%d %s", f.event.Type, f.event.Path.Value)]++
		} else if f.header.Xid == xid {
			return got
		} else if f.header.Err != 0 {
			r.t.Fatalf("reply to %d: %v", f.header.Xid, f.header.Err)
		}
	}
}

func events(list ...string) map[string]int {
	out := map[string]int{}
	for _, e := range list {
		out[e]++
	}
	return out
}

// watchesCatchUp (C8, C9, C10): what is reported of the time away, by the rules of the catch-up; what is not reported is
// armed and fires once.
func watchesCatchUp(t *testing.T, ps []*proc) {
	admin := mustDial(t, ps[0].addr, 20*time.Second)
	for _, p := range []string{"/w", "/w/changed", "/w/again", "/w/gone", "/w/same", "/w/kids", "/w/kidsagain", "/w/kidsame"} {
		admin.must(jute.OpCreate, create(p, "0"), nil)
	}
	c := mustDial(t, ps[1].addr, 20*time.Second)
	c.must(jute.OpSync, &jute.SyncRequest{Path: jute.Str("/")}, nil)
	seen := c.must(jute.OpExists, get("/w", false), nil).Zxid
	c.c.Close()
	admin.must(jute.OpSetData, set("/w/changed", "1"), nil)
	admin.must(jute.OpSetData, set("/w/changed", "2"), nil)
	for _, p := range []string{"/w/again", "/w/kidsagain"} {
		admin.must(jute.OpDelete, &jute.DeleteRequest{Path: jute.Str(p), Version: -1}, nil)
		admin.must(jute.OpCreate, create(p, "0"), nil)
	}
	admin.must(jute.OpDelete, &jute.DeleteRequest{Path: jute.Str("/w/gone"), Version: -1}, nil)
	admin.must(jute.OpCreate, create("/w/kids/x", ""), nil)
	admin.must(jute.OpCreate, create("/w/new", ""), nil)
	admin.must(jute.OpCreate, create("/w/flash", ""), nil)
	admin.must(jute.OpDelete, &jute.DeleteRequest{Path: jute.Str("/w/flash"), Version: -1}, nil)
	admin.must(jute.OpSync, &jute.SyncRequest{Path: jute.Str("/")}, nil)
	var again *rawConn
	until(t, "the session is back", func() bool {
		var err error
		again, err = dialRaw(t, ps[2].addr, 20*time.Second, c)
		return err == nil
	})
	defer again.c.Close()
	again.must(jute.OpSync, &jute.SyncRequest{Path: jute.Str("/")}, nil)
	if _, err := again.send(jute.OpSetWatches, &jute.SetWatches{
		RelativeZxid: seen,
		DataWatches:  []string{"/w/changed", "/w/again", "/w/gone", "/w/same"},
		ExistWatches: []string{"/w/new", "/w/flash", "/w/never"},
		ChildWatches: []string{"/w/kids", "/w/kidsagain", "/w/kidsame"},
	}); err != nil {
		t.Fatal(err)
	}
	want := events("3 /w/changed", "3 /w/again", "2 /w/gone", "1 /w/new", "4 /w/kids", "4 /w/kidsagain")
	if got := again.events(); !maps.Equal(got, want) {
		t.Fatalf("events of the time away %v, want %v", got, want)
	}
	// The rest is armed; the others are used up.
	for _, p := range []string{"/w/changed", "/w/again", "/w/same", "/w/same"} {
		admin.must(jute.OpSetData, set(p, "3"), nil)
	}
	for _, p := range []string{"/w/flash", "/w/never", "/w/kids/y", "/w/kidsagain/y", "/w/kidsame/y", "/w/kidsame/z"} {
		admin.must(jute.OpCreate, create(p, ""), nil)
	}
	want = events("3 /w/same", "1 /w/flash", "1 /w/never", "4 /w/kidsame")
	if got := again.events(); !maps.Equal(got, want) {
		t.Fatalf("events of what was armed %v, want %v", got, want)
	}
}

// childVanished (C11): an ephemeral child goes with its session while the watcher is away; the server that it comes back
// to has started again from its stored state since.
func childVanished(t *testing.T, ps []*proc) {
	leader := leaderOf(t, ps)
	other := ps[leader.id%3]
	admin := mustDial(t, leader.addr, 20*time.Second)
	admin.must(jute.OpCreate, create("/c11", ""), nil)
	owner := mustDial(t, leader.addr, 1200*time.Millisecond)
	owner.must(jute.OpCreate, createEphemeral("/c11/kid"), nil)
	w := mustDial(t, leader.addr, 20*time.Second)
	seen := w.must(jute.OpGetChildren, get("/c11", true), nil).Zxid
	w.c.Close()
	owner.c.Close()
	until(t, "the child goes with its session", func() bool {
		h, err := admin.call(jute.OpExists, get("/c11/kid", false), nil)
		return err == nil && h.Err != 0
	})
	other.stop()
	other.start()
	other.serve()
	var again *rawConn
	until(t, "the session is back", func() bool {
		var err error
		again, err = dialRaw(t, other.addr, 20*time.Second, w)
		return err == nil
	})
	defer again.c.Close()
	if _, err := again.send(jute.OpSetWatches, &jute.SetWatches{RelativeZxid: seen, DataWatches: []string{}, ExistWatches: []string{}, ChildWatches: []string{"/c11"}}); err != nil {
		t.Fatal(err)
	}
	if got := again.events(); !maps.Equal(got, events("4 /c11")) {
		t.Errorf("events %v", got)
	}
}

// watchStorm (C13): one create fires a watch of every session. All hear of it, others do not wait long, nobody's session
// ends by it.
func watchStorm(t *testing.T, ps []*proc) {
	const each = 50
	n := rounds(300, 2000)
	p := ps[0]
	admin := mustDial(t, p.addr, 20*time.Second)
	admin.must(jute.OpCreate, create("/storm", ""), nil)
	for i := range each - 1 {
		admin.must(jute.OpCreate, create(fmt.Sprintf("/storm/n%d", i), ""), nil)
	}
	heap := func() int { return p.number(t, "zk_go_heap_bytes") }
	before := heap()
	var conns []*rawConn
	for range n {
		c := mustDial(t, p.addr, 20*time.Second)
		var b []byte
		b, _ = c.appendRequest(b, jute.OpGetChildren, get("/storm", true))
		for i := range each - 1 {
			b, _ = c.appendRequest(b, jute.OpGetData, get(fmt.Sprintf("/storm/n%d", i), true))
		}
		if _, err := c.c.Write(b); err != nil {
			t.Fatal(err)
		}
		for range each {
			if f, err := c.recv(patience); err != nil || f.header.Err != 0 {
				t.Fatal(f.header.Err, err)
			}
		}
		conns = append(conns, c)
	}
	t.Logf("%d watches, %d bytes of heap each, with their connections", n*each, max(0, heap()-before)/(n*each))
	var wg sync.WaitGroup
	slowest := time.Duration(0)
	stop := make(chan struct{})
	wg.Go(func() { // ends with stop
		for i := 0; ; i++ {
			at := time.Now()
			if h, err := admin.call(jute.OpSetData, set("/storm", strconv.Itoa(i)), nil); err != nil || h.Err != 0 {
				t.Errorf("%v %v", h.Err, err)
				return
			}
			slowest = max(slowest, time.Since(at))
			select {
			case <-stop:
				return
			default:
			}
		}
	})
	mustDial(t, p.addr, 20*time.Second).must(jute.OpCreate, create("/storm/new", ""), nil)
	for i, c := range conns {
		f, err := c.recv(patience)
		if err != nil || f.event == nil || f.event.Type != 4 || f.event.Path.Value != "/storm" {
			t.Fatalf("session %d: %+v %v", i, f, err)
		}
	}
	close(stop)
	wg.Wait()
	limit := time.Second // 100 ms on a machine that does nothing else
	if full() {
		limit = 100 * time.Millisecond
	}
	t.Logf("the slowest write of another took %v", slowest)
	if slowest > limit {
		t.Errorf("others waited %v", slowest)
	}
	for _, c := range conns {
		if got := c.events(); len(got) != 0 {
			t.Fatalf("more events: %v", got)
		}
		c.c.Close()
	}
}

// persistentBeside (C14): a recursive watch above, a data and a child watch below. Each reports its own; without the
// recursive one the standard ones remain, and fire once.
func persistentBeside(t *testing.T, ps []*proc) {
	admin := mustDial(t, ps[0].addr, 20*time.Second)
	c := mustDial(t, ps[1].addr, 20*time.Second)
	admin.must(jute.OpCreate, create("/c14", ""), nil)
	admin.must(jute.OpCreate, create("/c14/b", ""), nil)
	c.events()
	c.must(jute.OpAddWatch, &jute.AddWatchRequest{Path: jute.Str("/c14"), Mode: jute.AddWatchPersistentRecursive}, nil)
	c.must(jute.OpGetData, get("/c14/b", true), nil)
	c.must(jute.OpGetChildren, get("/c14/b", true), nil)
	admin.must(jute.OpCreate, create("/c14/b/c", ""), nil)
	if got, want := c.events(), events("1 /c14/b/c", "4 /c14/b"); !maps.Equal(got, want) {
		t.Fatalf("events %v, want %v", got, want)
	}
	c.must(jute.OpGetChildren, get("/c14/b", true), nil)
	c.must(jute.OpRemoveWatches, &jute.RemoveWatchesRequest{Path: jute.Str("/c14"), Type: jute.WatcherType(5)}, nil)
	admin.must(jute.OpCreate, create("/c14/b/d", ""), nil)
	admin.must(jute.OpCreate, create("/c14/b/e", ""), nil)
	admin.must(jute.OpSetData, set("/c14/b", "1"), nil)
	admin.must(jute.OpSetData, set("/c14/b", "2"), nil)
	if got, want := c.events(), events("4 /c14/b", "3 /c14/b"); !maps.Equal(got, want) {
		t.Fatalf("without the recursive one: events %v, want %v", got, want)
	}
}

// watchRemoved (C15): one of two watchers goes; the other still hears. What is not there cannot be removed.
func watchRemoved(t *testing.T, ps []*proc) {
	admin := mustDial(t, ps[0].addr, 20*time.Second)
	admin.must(jute.OpCreate, create("/c15", ""), nil)
	one, two := mustDial(t, ps[1].addr, 20*time.Second), mustDial(t, ps[1].addr, 20*time.Second)
	for _, c := range []*rawConn{one, two} {
		c.events()
		c.must(jute.OpGetData, get("/c15", true), nil)
	}
	data := &jute.RemoveWatchesRequest{Path: jute.Str("/c15"), Type: jute.WatcherType(2)}
	one.must(jute.OpRemoveWatches, data, nil)
	if h, err := one.call(jute.OpRemoveWatches, data, nil); err != nil || h.Err != jute.ErrorCode(-121) {
		t.Errorf("removed twice: %v %v", h.Err, err)
	}
	admin.must(jute.OpSetData, set("/c15", "1"), nil)
	if got := one.events(); len(got) != 0 {
		t.Errorf("events %v of a watch that was removed", got)
	}
	if got := two.events(); !maps.Equal(got, events("3 /c15")) {
		t.Errorf("events %v at the other", got)
	}
}

// deadWatches (C16): sessions that expire take their watches with them.
func deadWatches(t *testing.T, ps []*proc) {
	p := ps[2]
	until(t, "no watches are left of other tests", func() bool { return strings.Contains(p.word("wchs"), "Total watches:0") })
	n := rounds(100, 1000)
	for i := range n {
		c := mustDial(t, p.addr, 1200*time.Millisecond)
		var b []byte
		for k := range 5 {
			b, _ = c.appendRequest(b, jute.OpExists, get(fmt.Sprintf("/dead/%d/%d", i, k), true))
			b, _ = c.appendRequest(b, jute.OpAddWatch, &jute.AddWatchRequest{Path: jute.Str(fmt.Sprintf("/dead/%d/p%d", i, k)), Mode: jute.AddWatchMode(k % 2)})
		}
		if _, err := c.c.Write(b); err != nil {
			t.Fatal(err)
		}
		for range 10 {
			if _, err := c.recv(patience); err != nil {
				t.Fatal(err)
			}
		}
	}
	var most int
	until(t, "all watches are gone", func() bool {
		w := p.word("wchs")
		i := strings.Index(w, "Total watches:")
		if i < 0 {
			return false
		}
		k, err := strconv.Atoi(strings.TrimSpace(w[i+len("Total watches:"):]))
		most = max(most, k)
		return err == nil && k == 0
	})
	if most == 0 {
		t.Error("no watch was ever counted")
	}
	if w := p.word("wchp"); strings.Contains(w, "/dead") {
		t.Errorf("still known: %.200s", w)
	}
	ids := slices.Collect(strings.Lines(p.word("cons")))
	if len(ids) > 5 {
		t.Errorf("%d connections are left", len(ids))
	}
}
