package replica

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"github.com/zkserver/zkserver/server/session"
	"github.com/zkserver/zkserver/zab"
	"github.com/zkserver/zkserver/znode"
)

// long reports whether the long forms are asked for.
func long() bool { return os.Getenv("ZKSERVER_FULL") != "" }

// failingFS gives every operation on files to a function first: it may count, clone, wait, or return an error.
type failingFS struct {
	vfs.FS
	hook errorfs.InjectorFunc
}

func newFailingFS(inner vfs.FS, hook func(op errorfs.Op) error) vfs.FS {
	return failingFS{FS: errorfs.Wrap(inner, errorfs.InjectorFunc(hook)), hook: hook}
}

// ReuseForWrite hooks recycled WALs too, which errorfs does not.
func (f failingFS) ReuseForWrite(oldName, newName string, c vfs.DiskWriteCategory) (vfs.File, error) {
	file, err := f.FS.ReuseForWrite(oldName, newName, c)
	if err != nil {
		return nil, err
	}
	return errorfs.WrapFile(file, errorfs.InjectorFunc(func(op errorfs.Op) error {
		op.Path = newName
		return f.hook(op)
	})), nil
}

// crashFS takes its server off the network before its k-th write, and keeps what a power loss would leave then.
type crashFS struct {
	mem *vfs.MemFS

	mu    sync.Mutex
	left  int
	ops   int
	down  func()
	clone *vfs.MemFS
	done  chan struct{}
}

func newCrashFS(mem *vfs.MemFS, k int) *crashFS {
	return &crashFS{mem: mem, left: k, done: make(chan struct{})}
}

func (c *crashFS) fs() vfs.FS {
	return newFailingFS(c.mem, func(op errorfs.Op) error {
		if op.Kind.ReadOrWrite() == errorfs.OpIsWrite {
			c.tick()
		}
		return nil
	})
}

func (c *crashFS) tick() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ops++
	if c.left--; c.left != 0 {
		return
	}
	if c.down != nil {
		c.down() // first: what leaves after the clone was taken may promise what the clone does not hold
	}
	c.clone = c.mem.CrashClone(vfs.CrashCloneCfg{})
	close(c.done)
}

func (c *crashFS) onCrash(down func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.down = down
}

func (c *crashFS) crashed() *vfs.MemFS {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.clone
}

// catchUp is a campaign on one member that has been away.
type catchUp struct {
	t      *testing.T
	e      *ensemble
	id     zab.ServerID
	base   *vfs.MemFS // its disk, behind the others
	change func(*Options)
	writer *client
	probe  session.Attach // a session that is attached at the member to read there
	value  int            // of /v, as acknowledged last
}

// write moves what a member that is up to date must show.
func (c *catchUp) write() {
	c.value++
	if l := c.writer.must(setReq("/v", fmt.Sprint(c.value))); l.Err != znode.OK {
		c.t.Fatalf("write: %+v", l)
	}
}

// life starts the member on that disk. It returns once the member serves, having checked the first thing that it
// answers, or has crashed.
func (c *catchUp) life(fs *crashFS) *node {
	t := c.t
	want := c.value
	x := open(t, c.id, len(c.e.nodes)+1, fs.mem, c.change, func(o *Options) { o.Store.FS = fs.fs() })
	x.r.Bind(c.e.net.join(x))
	x.run()
	fs.onCrash(func() { c.e.net.down(x) })
	if fs.crashed() != nil {
		return x // while it started
	}
	c.e.net.up(x)
	ctx, cancel := context.WithTimeout(context.Background(), wait)
	defer cancel()
	go func() { // ends with the crash or with life
		select {
		case <-fs.done:
			cancel()
		case <-ctx.Done():
		}
	}()
	for {
		k := &client{t: t, x: x, sink: newSink()}
		k.c = x.hub.Open(lineWire{}, k.sink, "127.0.0.1", "probe")
		res, err := k.c.Attach(ctx, c.probe)
		if err == nil && !res.OK {
			t.Fatalf("server %d refuses a session that lives", c.id)
		}
		if err == nil {
			var l line
			if l, err = k.call(getReq("/v")); err == nil && l.Data != fmt.Sprint(want) {
				t.Fatalf("server %d serves /v = %q before it is up to date: %d is acknowledged", c.id, l.Data, want)
			}
		}
		k.release()
		if err == nil || fs.crashed() != nil {
			return x
		}
		if ctx.Err() != nil {
			t.Fatalf("server %d does not serve: %+v", c.id, x.r.Status())
		}
	}
}

func (c *catchUp) end(x *node) {
	c.e.net.down(x)
	if err := x.end(); err != nil {
		c.t.Fatal(err)
	}
}

// run crashes the member at its k-th store operation for k = first, first+step, ... until it catches up before k; each
// crash is followed by a restart from what it left. It returns the number of crashes.
func (c *catchUp) run(first, step int) int {
	t := c.t
	for k, n := first, 0; ; k, n = k+step, n+1 {
		c.write()
		fs := newCrashFS(c.base.CrashClone(vfs.CrashCloneCfg{}), k)
		x := c.life(fs)
		clone := fs.crashed()
		if clone != nil {
			c.end(x)
			fs = newCrashFS(clone, 0)
			x = c.life(fs)
			if fs.crashed() != nil {
				t.Fatal("crashed again")
			}
		}
		c.same(x, k)
		fs.mu.Lock()
		fs.left = 0 // what follows is no longer the catch-up
		fs.mu.Unlock()
		c.end(x)
		if clone == nil {
			t.Logf("server %d: caught up within %d store operations, %d crashes before", c.id, fs.ops, n)
			return n
		}
	}
}

// same waits until the member has all that the leader has, and compares digests (I11).
func (c *catchUp) same(x *node, k int) {
	c.t.Helper()
	l := c.writer.x
	want := l.r.Status()
	x.until("caught up", func(s Status) bool { return s.Applied >= want.Applied })
	got := x.r.Status()
	if got.Applied != want.Applied || got.Digests != want.Digests || got.DigestMismatches != 0 {
		c.t.Fatalf("crash at operation %d: %s %+v (%d mismatches), the leader has %s %+v", k, got.Applied, got.Digests,
			got.DigestMismatches, want.Applied, want.Digests)
	}
}

// TestFieldCatchUpCrashedAtEveryStoreOperation: a follower, and an observer, that come back by DIFF and by SNAP lose
// power at each of their store operations in turn. They start again, serve nothing before they are up to date, and end
// with the leader's digests. The short form takes every thirteenth operation, beginning anywhere.
func TestFieldCatchUpCrashedAtEveryStoreOperation(t *testing.T) {
	for _, snap := range []bool{false, true} {
		for _, observer := range []bool{false, true} {
			name := map[bool]string{false: "DIFF", true: "SNAP"}[snap] + map[bool]string{false: " follower", true: " observer"}[observer]
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				catchUpCrashed(t, snap, observer)
			})
		}
	}
}

func catchUpCrashed(t *testing.T, snap, observer bool) {
	n := 3
	if observer {
		n = 4
	}
	change := func(o *Options) {
		if observer {
			o.Members[n-1].Observer = true
		}
		if snap {
			o.Store.DiffCount, o.FlushInterval = 10, 20*time.Millisecond
		}
	}
	e := newEnsemble(t, n, change)
	l := e.leader()
	away := e.follower()
	if observer {
		away = e.nodes[zab.ServerID(n)]
	}
	w := l.connect(session.Attach{Timeout: 60000})
	p := l.connect(session.Attach{Timeout: 60000})
	w.must(createReq("/v", "0", 0))
	for i := range 20 { // something to come back with
		w.must(createReq(fmt.Sprintf("/before%d", i), "x", 0))
	}
	e.agree()
	last := away.r.Status().Applied
	base := e.kill(away).(*vfs.MemFS)
	for i := range 60 {
		w.must(createReq(fmt.Sprintf("/v/n%d", i), fmt.Sprint(i), int32(2*(i%2))))
	}
	if snap {
		l.until("log cut", func(s Status) bool { return s.Zab.Base > last })
	}
	before := l.r.Status().Zab
	c := &catchUp{
		t: t, e: e, id: away.id, base: base, change: change, writer: w,
		probe: session.Attach{Session: p.res.Session, Password: p.res.Password[:], Timeout: 60000},
	}
	first, step := 1, 1
	if !long() {
		step = 13
		first += rand.IntN(step)
	}
	if n := c.run(first, step); n == 0 {
		t.Error("no crash: nothing was shown")
	}
	after := l.r.Status().Zab
	// A crash behind the switch to a snapshot leaves a server that needs the rest only.
	if snap && after.Snapshots == before.Snapshots || !snap && (after.Diffs == before.Diffs || after.Snapshots != before.Snapshots) {
		t.Errorf("synchronized by %d DIFF and %d SNAP", after.Diffs-before.Diffs, after.Snapshots-before.Snapshots)
	}
	p.release()
	w.release()
	e.end()
}
