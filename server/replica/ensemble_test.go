package replica

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/zkserver/zkserver/server/session"
	"github.com/zkserver/zkserver/zab"
	"github.com/zkserver/zkserver/znode"
)

// ensemble is three replicas on one network.
type ensemble struct {
	t     *testing.T
	net   *network
	nodes map[zab.ServerID]*node
	n     int
}

func newEnsemble(t *testing.T, n int, change ...func(*Options)) *ensemble {
	e := &ensemble{t: t, net: newNetwork(), nodes: map[zab.ServerID]*node{}, n: n}
	for i := range n {
		id := zab.ServerID(i + 1)
		e.nodes[id] = start(t, id, n, vfs.NewCrashableMem(), e.net, change...)
	}
	return e
}

// kill takes a node down as a power loss would, and returns the disk it leaves.
func (e *ensemble) kill(x *node) vfs.FS {
	fs := x.fs.(*vfs.MemFS).CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: 0})
	e.net.down(x)
	if err := x.end(); err != nil {
		e.t.Fatal(err)
	}
	delete(e.nodes, x.id)
	return fs
}

func (e *ensemble) restart(id zab.ServerID, fs vfs.FS, change ...func(*Options)) *node {
	x := start(e.t, id, e.n, fs, e.net, change...)
	e.nodes[id] = x
	return x
}

func (e *ensemble) end() {
	e.t.Helper()
	for _, x := range e.nodes {
		if err := x.end(); err != nil {
			e.t.Error(err)
		}
	}
	e.net.close()
}

// leader waits until all nodes that are up serve under one leader.
func (e *ensemble) leader() *node {
	e.t.Helper()
	for end := time.Now().Add(wait); time.Now().Before(end); {
		for _, x := range e.nodes {
			x.serving()
		}
		for _, x := range e.nodes {
			if s := x.r.Status(); s.Role == zab.Leading {
				return x
			}
		}
	}
	e.t.Fatal("all serve, nobody leads")
	return nil
}

func (e *ensemble) follower() *node {
	e.t.Helper()
	l := e.leader()
	for id := zab.ServerID(1); int(id) <= e.n; id++ {
		if x := e.nodes[id]; x != nil && x != l {
			return x
		}
	}
	e.t.Fatal("no follower")
	return nil
}

// agree waits until all nodes have applied the same, and compares their digests (I11).
func (e *ensemble) agree() {
	e.t.Helper()
	var top zab.Zxid
	for _, x := range e.nodes {
		top = max(top, x.r.Status().Applied)
	}
	var want *Status
	for _, x := range e.nodes {
		x.until(fmt.Sprint("applied ", top), func(s Status) bool { return s.Applied >= top })
		s := x.r.Status()
		if s.DigestMismatches > 0 {
			e.t.Fatalf("server %d: %d digest mismatches", x.id, s.DigestMismatches)
		}
		if want == nil {
			want = &s
		} else if want.Applied == s.Applied && want.Digests != s.Digests {
			e.t.Fatalf("server %d: %+v, another has %+v", x.id, s.Digests, want.Digests)
		}
	}
}

func TestEnsembleWritesThroughEverybody(t *testing.T) {
	e := newEnsemble(t, 3)
	e.leader()
	for id := zab.ServerID(1); id <= 3; id++ {
		k := e.nodes[id].connect(session.Attach{})
		if k.res.Session>>56 != int64(id) {
			t.Fatalf("session %#x made by server %d", k.res.Session, id)
		}
		for i := range 50 {
			path := fmt.Sprintf("/n%d-%d", id, i)
			if l := k.must(createReq(path, "x", 0)); l.Err != znode.OK {
				t.Fatalf("%+v", l)
			}
			if l := k.must(getReq(path)); l.Data != "x" {
				t.Fatalf("own write not seen: %+v", l)
			}
		}
		// What is written here is seen elsewhere after a sync.
		o := e.nodes[id%3+1].connect(session.Attach{})
		if err := o.send(syncReq()); err != nil {
			t.Fatal(err)
		}
		if l, ok := o.sink.next(t); !ok || l.Err != znode.OK {
			t.Fatalf("sync: %+v", l)
		}
		if l := o.must(getReq(fmt.Sprintf("/n%d-49", id))); l.Data != "x" {
			t.Fatalf("after sync: %+v", l)
		}
		o.release()
		k.release()
	}
	e.agree()
	e.end()
}

func TestLeaderKilledWritesSurvive(t *testing.T) {
	e := newEnsemble(t, 3)
	l := e.leader()
	f := e.follower()
	k := f.connect(session.Attach{})
	k.must(createReq("/a", "0", 0))
	for i := 1; i <= 20; i++ {
		k.must(setReq("/a", fmt.Sprint(i)))
	}
	fs := e.kill(l)
	// The follower's connection stays, the parked write runs under the new leader.
	if got := k.must(setReq("/a", "21")); got.Err != znode.OK || got.Stat.Version != 21 {
		t.Fatalf("after the leader's death: %+v", got)
	}
	e.leader()
	x := e.restart(l.id, fs)
	x.serving()
	o := x.connect(session.Attach{Session: k.res.Session, Password: k.res.Password[:]})
	if !o.res.OK {
		t.Fatal("the session did not survive")
	}
	if got := o.must(setReq("/a", "22")); got.Err != znode.OK || got.Stat.Version != 22 {
		t.Fatalf("after the move: %+v", got)
	}
	// The former owner is evicted: its write never counts.
	if got, err := k.call(setReq("/a", "old")); err == nil {
		t.Fatalf("the former owner wrote: %+v", got)
	}
	if got := o.must(getReq("/a")); got.Data != "22" {
		t.Fatalf("%+v", got)
	}
	k.release()
	o.release()
	e.agree()
	e.end()
}

func TestLaggardCatchesUpByDiffAndBySnapshot(t *testing.T) {
	// The log keeps ten entries only, and cuts them as soon as the state is flushed.
	small := func(o *Options) {
		o.Store.DiffCount, o.FlushInterval = 10, 20*time.Millisecond
	}
	e := newEnsemble(t, 3, small)
	l := e.leader()
	f := e.follower()
	k := l.connect(session.Attach{})
	k.must(createReq("/a", "0", 0))
	e.agree()

	fs := e.kill(f)
	k.must(setReq("/a", "1")) // two are a quorum
	f = e.restart(f.id, fs, small)
	f.serving()
	e.agree()
	l.until("learner synchronized", func(s Status) bool { return s.Zab.SyncedFollowers == 2 })
	if s := l.r.Status(); s.Zab.Snapshots != 0 {
		t.Fatalf("one missing transaction came by snapshot: %+v", s.Zab)
	}

	fs = e.kill(f)
	for i := range 200 {
		k.must(createReq(fmt.Sprintf("/a/n%d", i), "x", 0))
	}
	l.until("log cut", func(s Status) bool { return s.Zab.Base.Counter() > 100 })
	f = e.restart(f.id, fs, small)
	f.serving()
	l.until("snapshot sent", func(s Status) bool { return s.Zab.Snapshots == 1 })
	o := f.connect(session.Attach{})
	if got := o.must(getReq("/a/n199")); got.Err != znode.OK {
		t.Fatalf("after the snapshot: %+v", got)
	}
	o.must(setReq("/a", "2"))
	e.agree()
	o.release()
	k.release()
	// What was installed is what a restart finds.
	before := f.r.Status().Digests
	fs = e.kill(f)
	f = e.restart(f.id, fs, small)
	f.serving()
	if after := f.r.Status().Digests; after != before {
		t.Fatalf("digests %+v after the restart, %+v before", after, before)
	}
	e.end()
}

func TestSnapshotIntoARunningServerClosesItsConnections(t *testing.T) {
	small := func(o *Options) {
		o.Store.DiffCount, o.FlushInterval = 10, 20*time.Millisecond
	}
	e := newEnsemble(t, 3, small)
	l := e.leader()
	f := e.follower()
	k := l.connect(session.Attach{})
	k.must(createReq("/a", "0", 0))
	w := f.connect(session.Attach{})
	w.must(session.Request{Op: znode.OpGetData, Path: "/", Watch: true})
	e.net.down(f) // isolated, not stopped
	for i := range 100 {
		k.must(createReq(fmt.Sprintf("/a/n%d", i), "x", 0))
	}
	l.until("log cut", func(s Status) bool { return s.Zab.Base.Counter() > 50 })
	e.net.up(f)
	f.serving()
	if _, ok := w.sink.next(t); ok {
		t.Fatal("a connection outlived the snapshot")
	}
	e.agree()
	w.release()
	k.release()
	e.end()
}

func TestLeaderLeavesWithoutDisconnects(t *testing.T) {
	e := newEnsemble(t, 3)
	l := e.leader()
	f := e.follower()
	k := f.connect(session.Attach{})
	k.must(createReq("/a", "", 0))
	stop := make(chan struct{})
	done := make(chan error, 1)
	go func() { // ends with stop
		for i := 0; ; i++ {
			select {
			case <-stop:
				done <- nil
				return
			default:
			}
			if got, err := k.call(setReq("/a", "x")); err != nil || got.Err != znode.OK || got.Stat.Version != int32(i+1) {
				done <- fmt.Errorf("write %d: %+v %w", i, got, err)
				return
			}
		}
	}()
	ctx, cancel := context.WithTimeout(context.Background(), wait)
	defer cancel()
	l.r.Leave(ctx)
	e.net.down(l)
	delete(e.nodes, l.id)
	if err := l.end(); err != nil {
		t.Fatal(err)
	}
	e.leader()
	close(stop)
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	k.release()
	e.agree()
	e.end()
}
