package session_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/zkserver/zkserver/server/session"
	"github.com/zkserver/zkserver/znode"
)

// watching is a pair of connections: one writes, what the other is told of is compared.
type watching struct {
	*rig
	writer, watcher *session.Conn
	ws, ss          *memSink
	xid             int32
	seen            int
}

func startWatching(t *testing.T) *watching {
	w := &watching{rig: start(t, session.Options{}), ws: newSink(1 << 20), ss: newSink(1 << 20)}
	w.writer = w.open(&lineWire{}, w.ws, session.Attach{})
	w.watcher = w.open(&lineWire{}, w.ss, session.Attach{})
	return w
}

func (w *watching) write(r session.Request) {
	w.t.Helper()
	w.xid++
	r.Xid = w.xid
	lines := w.do(w.writer, w.ws, int(w.xid), r)
	if want := fmt.Sprintf("%d:0:", w.xid); lines[w.xid-1] != want {
		w.t.Fatalf("%s, want %s", lines[w.xid-1], want)
	}
}

func (w *watching) create(path string) { w.write(createReq(0, path, open)) }
func (w *watching) set(path string)    { w.write(setReq(0, path, "x")) }
func (w *watching) delete(path string) {
	w.write(session.Request{Op: znode.OpDelete, Write: &znode.Request{Path: path, Version: -1, TTL: -1}})
}

// ask runs a request of the watching connection and returns its code; what came before the reply counts as seen.
func (w *watching) ask(r session.Request) string {
	w.t.Helper()
	w.xid += 1000
	r.Xid = w.xid
	defer func() { w.xid -= 1000 }()
	if err := w.watcher.Do([]session.Request{r}); err != nil {
		w.t.Fatal(err)
	}
	prefix := fmt.Sprintf("%d:", r.Xid)
	code := ""
	until(w.t, "the reply", func() bool {
		lines := w.ss.lines()
		for _, l := range lines[w.seen:] {
			if len(l) > len(prefix) && l[:len(prefix)] == prefix {
				code = l[len(prefix) : len(l)-1]
			}
		}
		return code != ""
	})
	return code
}

// told are the events since the last call, up to the reply of a ping that follows them.
func (w *watching) told() (events []string) {
	w.t.Helper()
	w.ask(session.Request{Op: znode.OpPing})
	lines := w.ss.lines()
	for _, l := range lines[w.seen:] {
		var zxid, typ int
		var path string
		if n, _ := fmt.Sscanf(l, "event %d %d %s", &zxid, &typ, &path); n == 3 {
			events = append(events, fmt.Sprintf("%d %s", typ, path))
		}
	}
	w.seen = len(lines)
	return events
}

func (w *watching) want(events ...string) {
	w.t.Helper()
	if got := w.told(); !slices.Equal(got, events) {
		w.t.Errorf("told %q, want %q", got, events)
	}
}

func (w *watching) arm(mode int32, path string) {
	w.t.Helper()
	if code := w.ask(session.Request{Op: znode.OpAddWatch, Path: path, Mode: mode}); code != "0" {
		w.t.Fatalf("addWatch %s: %s", path, code)
	}
	w.told()
}

func TestPersistentWatch(t *testing.T) {
	w := startWatching(t)
	w.arm(0, "/a") // the node need not be there
	w.create("/a")
	w.set("/a")
	w.create("/a/k")
	w.set("/a/k") // a child's data are not this node's affair
	w.delete("/a/k")
	w.delete("/a")
	w.create("/a")
	w.want("1 /a", "3 /a", "4 /a", "4 /a", "2 /a", "1 /a")
}

func TestRecursiveWatch(t *testing.T) {
	w := startWatching(t)
	w.arm(1, "/a")
	for _, p := range []string{"/a", "/a/k", "/a/k/g", "/ab"} {
		w.create(p)
	}
	w.set("/a/k/g")
	w.delete("/a/k/g")
	w.delete("/a/k")
	w.delete("/a")
	w.want("1 /a", "1 /a/k", "1 /a/k/g", "3 /a/k/g", "2 /a/k/g", "2 /a/k", "2 /a")
	w.arm(1, "/")
	w.set("/")
	w.create("/zookeeper/x")
	w.want("3 /", "1 /zookeeper/x")
}

// One event per connection, table, path and mutation, however many watches match.
func TestWatchesOfAllKindsGiveOneEvent(t *testing.T) {
	w := startWatching(t)
	w.create("/a")
	w.arm(0, "/a")
	w.arm(1, "/a")
	w.arm(1, "/")
	w.ask(getReq(0, "/a", true))
	w.ask(session.Request{Op: znode.OpGetChildren, Path: "/a", Watch: true})
	w.told()
	w.set("/a") // spends the data watch
	w.create("/a/k")
	w.want("3 /a", "1 /a/k", "4 /a")
	for typ, want := range map[int32]string{1: "-121", 2: "-121", 4: "0", 5: "0"} {
		if got := w.ask(session.Request{Op: znode.OpCheckWatches, Path: "/a", Mode: typ}); got != want {
			t.Errorf("type %d: %s, want %s", typ, got, want)
		}
	}
	w.delete("/a/k")
	w.delete("/a")
	w.want("2 /a/k", "4 /a", "2 /a")
}

// Each watcher type means its own kind only; 3 means all of them.
func TestCheckAndRemoveWatches(t *testing.T) {
	w := startWatching(t)
	w.create("/a")
	arm := []session.Request{
		1: {Op: znode.OpGetChildren, Path: "/a", Watch: true},
		2: {Op: znode.OpExists, Path: "/a", Watch: true},
		4: {Op: znode.OpAddWatch, Path: "/a", Mode: 0},
		5: {Op: znode.OpAddWatch, Path: "/a", Mode: 1},
	}
	types := []int32{1, 2, 4, 5}
	for _, one := range types {
		w.ask(arm[one])
		for _, other := range types {
			want := "-121"
			if other == one {
				want = "0"
			}
			if got := w.ask(session.Request{Op: znode.OpCheckWatches, Path: "/a", Mode: other}); got != want {
				t.Errorf("armed %d, asked for %d: %s", one, other, got)
			}
		}
		if got := w.ask(session.Request{Op: znode.OpRemoveWatches, Path: "/ab", Mode: 3}); got != "-121" {
			t.Errorf("another path: %s", got)
		}
		if got := w.ask(session.Request{Op: znode.OpRemoveWatches, Path: "/a", Mode: one}); got != "0" {
			t.Errorf("remove %d: %s", one, got)
		}
		if n := w.hub.WatchCount(); n != 0 {
			t.Errorf("%d watches left", n)
		}
	}
	for _, one := range types {
		w.ask(arm[one])
	}
	if n := w.hub.WatchCount(); n != 4 {
		t.Errorf("%d watches", n)
	}
	if s := w.hub.Watches(); s != (session.WatchSummary{Watches: 4, Paths: 1, Connections: 1}) {
		t.Errorf("%+v", s)
	}
	for _, want := range []string{"0", "-121"} {
		if got := w.ask(session.Request{Op: znode.OpRemoveWatches, Path: "/a", Mode: 3}); got != want {
			t.Errorf("remove all: %s, want %s", got, want)
		}
	}
	w.told()
	w.set("/a")
	w.create("/a/k")
	w.want()
	for _, bad := range []session.Request{
		{Op: znode.OpAddWatch, Mode: 2}, {Op: znode.OpAddWatch, Mode: -1}, {Op: znode.OpCheckWatches}, {Op: znode.OpRemoveWatches, Mode: 6},
	} {
		bad.Path = "/a"
		if got := w.ask(bad); got != "-5" {
			t.Errorf("operation %d, mode %d: %s", bad.Op, bad.Mode, got)
		}
	}
}

// Who may not read a node is not told of it; watches that stay tell of the next change that may be read.
func TestPersistentWatchesAreFilteredByRead(t *testing.T) {
	w := startWatching(t)
	w.arm(1, "/")
	closed := []znode.ACL{{Perms: znode.PermAll &^ znode.PermRead, Scheme: "world", ID: "anyone"}}
	w.write(createReq(0, "/sec", closed))
	w.set("/sec")
	w.create("/sec/open")
	w.want("1 /sec/open")
}

func TestSetWatches2ArmsWhatStays(t *testing.T) {
	w := startWatching(t)
	w.create("/p")
	w.set("/p")
	got := w.ask(session.Request{Op: znode.OpSetWatches2, Lists: &session.SetWatches{
		Data: []string{"/p"}, Persistent: []string{"/p"}, Recursive: []string{"/r"},
	}})
	if got != "0" {
		t.Fatal(got)
	}
	w.want("3 /p") // of the data watch; the persistent one reports nothing missed
	w.create("/r")
	w.create("/r/k")
	w.set("/p")
	w.want("1 /r", "1 /r/k", "3 /p")
}

// Watches go with their connection.
func TestReleaseForgetsAllWatches(t *testing.T) {
	w := startWatching(t)
	w.arm(0, "/a")
	w.arm(1, "/b")
	w.watcher.Release()
	if n := w.hub.WatchCount(); n != 0 {
		t.Errorf("%d watches left", n)
	}
	w.create("/a")
}
