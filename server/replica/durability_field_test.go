package replica

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
	"github.com/rs/zerolog"

	"github.com/zkserver/zkserver/server/session"
	"github.com/zkserver/zkserver/server/store"
	"github.com/zkserver/zkserver/zab"
	"github.com/zkserver/zkserver/znode"
)

// The tests of this file are named after the entries of docs/field-reports.md.

// alone runs a test in a process of its own: after a fatal error goroutines of the store stay parked for good, and this
// package's tests end with a look for leaks.
func alone(t *testing.T, run func()) {
	const env = "REPLICA_TEST_ALONE"
	if os.Getenv(env) == t.Name() {
		run()
		if !t.Failed() {
			fmt.Fprintln(os.Stdout, "passed alone")
			os.Exit(0)
		}
		return
	}
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(exe, "-test.run=^"+t.Name()+"$", "-test.v", "-test.timeout=60s")
	cmd.Env = append(os.Environ(), env+"="+t.Name())
	if out, err := cmd.CombinedOutput(); err != nil || !bytes.Contains(out, []byte("passed alone")) {
		t.Fatalf("%v\n%s", err, out)
	}
}

// logBuffer collects a log.
type logBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *logBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *logBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

func (b *logBuffer) log(o *Options) {
	o.Log = zerolog.New(b).With().Timestamp().Uint64("me", uint64(o.Self)).Logger()
}

func isLogSync(op errorfs.Op) bool {
	return strings.HasSuffix(op.Path, ".log") &&
		(op.Kind == errorfs.OpFileSync || op.Kind == errorfs.OpFileSyncData || op.Kind == errorfs.OpFileSyncTo)
}

// small makes an ensemble whose log keeps a few entries only.
func small(o *Options) { o.Store.DiffCount, o.FlushInterval = 10, 20*time.Millisecond }

// nobodyServes watches for a while.
func (e *ensemble) nobodyServes(d time.Duration) {
	e.t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(d); time.Now().Before(end); <-tick.C {
		for _, x := range e.nodes {
			if s := x.r.Status(); s.Serving {
				e.t.Fatalf("server %d serves: %+v", x.id, s)
			}
		}
	}
}

// TestFieldA3FlippedTailOfAMember: damage in the last block is taken for a torn write, and the member gets from the
// others what it lost by it.
func TestFieldA3FlippedTailOfAMember(t *testing.T) {
	e := newEnsemble(t, 3)
	l, f := e.leader(), e.follower()
	k := l.connect(session.Attach{})
	for i := range 100 {
		k.must(createReq(fmt.Sprintf("/n%d", i), "x", 0))
	}
	e.agree()
	want := f.r.Status().Applied
	fs := e.kill(f).(*vfs.MemFS)
	names, err := fs.List("data/log")
	if err != nil {
		t.Fatal(err)
	}
	newest := ""
	for _, n := range names {
		if strings.HasSuffix(n, ".log") {
			newest = max(newest, n)
		}
	}
	b, err := fs.UnsafeGetFileDataBuffer("data/log/" + newest)
	if err != nil || len(b) < 5000 {
		t.Fatalf("%s has %d bytes: %v", newest, len(b), err)
	}
	b[len(b)-3000] ^= 0x10
	k.must(createReq("/later", "", 0))
	x := open(t, f.id, 3, fs)
	if have := x.r.Status().Zab.Last; have >= want {
		t.Errorf("the log ends at %s, it ended at %s before: nothing was damaged", have, want)
	}
	x.r.Bind(e.net.join(x))
	x.run()
	e.nodes[x.id] = x
	e.net.up(x)
	x.serving()
	k.must(createReq("/latest", "", 0))
	e.agree()
	k.release()
	e.end()
}

// TestFieldA5OneFailedSync: one failed sync of a follower ends it, whatever the disk says afterwards. Nothing above it is
// acknowledged; after a restart there is no hole.
func TestFieldA5OneFailedSync(t *testing.T) {
	alone(t, func() {
		e := newEnsemble(t, 3)
		l, f := e.leader(), e.follower()
		k := l.connect(session.Attach{})
		k.must(createReq("/a", "0", 0))
		var armed, failed atomic.Bool
		fs := e.kill(f).(*vfs.MemFS)
		f = start(t, f.id, 3, fs, e.net, func(o *Options) {
			o.Store.FS = newFailingFS(fs, func(op errorfs.Op) error {
				if armed.Load() && isLogSync(op) && failed.CompareAndSwap(false, true) {
					return errorfs.ErrInjected
				}
				return nil
			})
		})
		f.serving()
		k.must(setReq("/a", "1"))
		e.nodes[f.id] = f
		e.agree()
		delete(e.nodes, f.id)
		armed.Store(true)
		for i := 2; i < 50; i++ { // the quorum goes on
			if got := k.must(setReq("/a", fmt.Sprint(i))); got.Err != znode.OK {
				t.Fatalf("%+v", got)
			}
		}
		select {
		case err := <-f.done:
			if !errors.Is(err, errorfs.ErrInjected) {
				t.Fatalf("it ended with %v", err)
			}
		case <-time.After(wait):
			t.Fatal("a failed sync did not end the server")
		}
		if until := f.r.LeaseUntil(); until != 0 {
			t.Errorf("it may answer until %d", until)
		}
		_, durable := f.r.store.LogBounds()
		for _, x := range l.r.Status().Zab.Learners {
			if x.ID == f.id && x.Match > durable {
				t.Errorf("it acknowledged %s, durable is %s", x.Match, durable)
			}
		}
		e.net.down(f)
		clone := fs.CrashClone(vfs.CrashCloneCfg{})
		x := open(t, f.id, 3, clone)
		if s := x.r.Status().Zab; s.Last != durable {
			t.Errorf("after the restart the log ends at %s, durable was %s", s.Last, durable)
		}
		if k.must(syncReq()); l.r.Status().Applied <= durable {
			t.Errorf("the quorum is at %s: it made nothing that the server missed", l.r.Status().Applied)
		}
		x.r.Bind(e.net.join(x))
		x.run()
		e.nodes[x.id] = x
		e.net.up(x)
		x.serving()
		e.agree()
		fs = e.kill(x).(*vfs.MemFS)
		x = e.restart(x.id, fs) // whatever a hole would be, the start-up check refuses it
		x.serving()
		e.agree()
		k.release()
		e.end()
	})
}

// damageState flips bytes in every table of the stored state.
func damageState(t *testing.T, fs *vfs.MemFS) {
	t.Helper()
	dirs, err := fs.List("data")
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, d := range dirs {
		if !strings.HasPrefix(d, "state.") {
			continue
		}
		names, err := fs.List("data/" + d)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range names {
			if !strings.HasSuffix(name, ".sst") {
				continue
			}
			b, err := fs.UnsafeGetFileDataBuffer("data/" + d + "/" + name)
			if err != nil {
				t.Fatal(err)
			}
			b[len(b)/3] ^= 0x40
			b[len(b)-20] ^= 0x40
			n++
		}
	}
	if n == 0 {
		t.Fatal("no table of the state")
	}
}

// TestFieldA6DamagedStateOfAMember: until it has its state back from a leader, the member neither counts nor serves.
func TestFieldA6DamagedStateOfAMember(t *testing.T) {
	t.Parallel()
	e := newEnsemble(t, 3, small)
	l, f := e.leader(), e.follower()
	k := l.connect(session.Attach{Timeout: 60000})
	for i := range 100 {
		k.must(createReq(fmt.Sprintf("/n%d", i), "x", 0))
	}
	f.until("log cut", func(s Status) bool { return s.Zab.Base > 0 })
	e.agree()
	var third *node
	for _, x := range e.nodes {
		if x != l && x != f {
			third = x
		}
	}
	fs := e.kill(f).(*vfs.MemFS)
	damageState(t, fs)
	thirdFS := e.kill(third)
	k.release()
	l.until("no quorum", func(s Status) bool { return !s.Serving })
	var log logBuffer
	f = e.restart(f.id, fs, small, log.log)
	e.nobodyServes(time.Second)
	if f.r.Status().Nodes > 20 {
		t.Errorf("%d nodes of a damaged state are shown", f.r.Status().Nodes)
	}
	if !strings.Contains(log.String(), "data/state.") || !strings.Contains(log.String(), ".sst") {
		t.Errorf("no file is named: %s", log.String())
	}
	e.restart(third.id, thirdFS, small)
	l = e.leader()
	f.serving()
	l.until("a snapshot", func(s Status) bool { return s.Zab.Snapshots == 1 })
	k = f.connect(session.Attach{})
	if got := k.must(getReq("/n99")); got.Err != znode.OK {
		t.Errorf("%+v", got)
	}
	k.release()
	e.agree()
	e.end()
}

// TestFieldA6DamagedStateAlone: without another server the state is rebuilt from a log that is complete, else the start
// is refused and says what is missing.
func TestFieldA6DamagedStateAlone(t *testing.T) {
	for _, complete := range []bool{true, false} {
		fs := vfs.NewCrashableMem()
		change := func(o *Options) {
			if !complete {
				small(o)
			}
		}
		x := start(t, 1, 1, fs, nil, change)
		x.serving()
		k := x.connect(session.Attach{})
		for i := range 100 {
			k.must(createReq(fmt.Sprintf("/n%d", i), "x", 0))
		}
		if !complete {
			x.until("log cut", func(s Status) bool { return s.Zab.Base > 0 })
		}
		before := x.r.Status()
		k.release()
		if err := x.end(); err != nil {
			t.Fatal(err)
		}
		damageState(t, fs)
		hub := session.NewHub(session.Options{Log: testLog()})
		o := testOptions(1, 1, fs, hub)
		change(&o)
		if complete {
			x = start(t, 1, 1, fs, nil)
			x.serving()
			if after := x.r.Status(); after.Digests != before.Digests {
				t.Errorf("rebuilt to %+v, was %+v", after.Digests, before.Digests)
			}
			if err := x.end(); err != nil {
				t.Fatal(err)
			}
			continue
		}
		_, err := New(o)
		var d *store.DamageError
		if !errors.As(err, &d) || !strings.Contains(err.Error(), "up to "+before.Zab.Base.String()) || !strings.Contains(err.Error(), "backup") {
			t.Fatalf("started alone on a damaged state, base %s: %v", before.Zab.Base, err)
		}
	}
}

// TestFieldA8WipedVoter: a voter that comes back blank does not count beside one that has data: neither in the place of
// one that is away, nor when the survivor is behind, nor when two are blank.
func TestFieldA8WipedVoter(t *testing.T) {
	fill := func(e *ensemble) {
		k := e.leader().connect(session.Attach{})
		for i := range 100 {
			k.must(createReq(fmt.Sprintf("/n%d", i), "x", 0))
		}
		e.agree()
		k.release()
	}
	blank := func() vfs.FS { return vfs.NewCrashableMem() }
	check := func(e *ensemble, path string) {
		t.Helper()
		e.leader()
		e.agree()
		for _, x := range e.nodes {
			k := x.connect(session.Attach{})
			if got := k.must(getReq(path)); got.Err != znode.OK {
				t.Errorf("server %d: %s: %+v", x.id, path, got)
			}
			k.release()
		}
		e.end()
	}
	t.Run("beside a survivor", func(t *testing.T) {
		t.Parallel()
		e := newEnsemble(t, 3)
		fill(e)
		fs := e.kill(e.nodes[1])
		e.kill(e.nodes[2])
		survivor := e.nodes[3]
		survivor.until("no quorum", func(s Status) bool { return !s.Serving })
		var log logBuffer
		e.restart(2, blank(), log.log)
		for end := time.Now().Add(wait); !strings.Contains(log.String(), `"unheard":[1],"not_counted":[2],"blank":true`); {
			e.nobodyServes(100 * time.Millisecond)
			if time.Now().After(end) {
				t.Fatalf("the log does not say who waits for whom: %s", log.String())
			}
		}
		e.restart(1, fs)
		check(e, "/n99")
	})
	t.Run("beside a survivor that is behind", func(t *testing.T) {
		t.Parallel()
		e := newEnsemble(t, 3)
		fill(e)
		f := e.follower()
		e.net.down(f)
		k := e.leader3(f).connect(session.Attach{})
		for i := range 20 {
			k.must(createReq(fmt.Sprintf("/late%d", i), "x", 0))
		}
		k.release()
		var gone []*node
		var disks []vfs.FS
		for _, x := range e.nodes {
			if x != f {
				gone = append(gone, x)
			}
		}
		for _, x := range gone {
			disks = append(disks, e.kill(x))
		}
		e.net.up(f)
		e.restart(gone[0].id, blank())
		e.nobodyServes(time.Second)
		e.restart(gone[1].id, disks[1])
		check(e, "/late19")
	})
	t.Run("two of three", func(t *testing.T) {
		t.Parallel()
		e := newEnsemble(t, 3)
		fill(e)
		fs := e.kill(e.nodes[1])
		e.kill(e.nodes[2])
		e.nodes[3].until("no quorum", func(s Status) bool { return !s.Serving })
		one := e.restart(1, blank())
		e.restart(2, blank())
		e.nobodyServes(time.Second)
		e.kill(one)
		e.restart(1, fs)
		check(e, "/n99")
	})
}

// leader3 waits for a leader among the servers but one.
func (e *ensemble) leader3(but *node) *node {
	e.t.Helper()
	for end := time.Now().Add(wait); time.Now().Before(end); <-time.After(2 * time.Millisecond) {
		for _, x := range e.nodes {
			if s := x.r.Status(); x != but && s.Role == zab.Leading && s.Serving {
				return x
			}
		}
	}
	e.t.Fatal("nobody leads")
	return nil
}

// stateHistory remembers the digests after every transaction of one server that is written by one client.
type stateHistory struct {
	t    *testing.T
	x    *node
	sums map[zab.Zxid]znode.Digests
}

func (h *stateHistory) note() {
	h.t.Helper()
	s := h.x.r.Status()
	h.sums[s.Applied] = s.Digests
}

// check starts a server on what a crash left and compares it with the state that was there at the same zxid.
func (h *stateHistory) check(fs *vfs.MemFS) {
	h.t.Helper()
	x := open(h.t, 1, 1, fs)
	s := x.r.Status()
	want, ok := h.sums[s.Applied]
	if !ok && s.Applied != 0 {
		h.t.Fatalf("restarted at %s, which is behind no transaction", s.Applied)
	}
	if ok && want != s.Digests || s.DigestMismatches != 0 {
		h.t.Fatalf("restarted at %s with %+v (%d mismatches), it was %+v", s.Applied, s.Digests, s.DigestMismatches, want)
	}
	stored := x.r.recovered.Applied
	if want, ok := h.sums[stored]; !ok && stored != 0 {
		h.t.Fatalf("the stored state is at %s, which is behind no transaction: %v", stored, want)
	}
	if err := x.r.Close(); err != nil {
		h.t.Fatal(err)
	}
}

func hurry(o *Options) {
	o.Store.FlushTxns, o.Store.FlushBytes, o.Store.DiffCount, o.FlushInterval = 3, 2048, 20, 30*time.Millisecond
}

// TestFieldA11MultiCrashedAtEveryOperation: the state and its zxid are one batch. Whatever store operation a crash comes
// at, while a multi of three is logged, applied and stored, what the next start finds is the state behind a whole
// transaction, exactly.
func TestFieldA11MultiCrashedAtEveryOperation(t *testing.T) {
	t.Parallel()
	step := 1
	if !long() {
		step = 9
	}
	n := 0
	for k := 1 + rand.IntN(step); ; k += step {
		fs := newCrashFS(vfs.NewCrashableMem(), 0)
		x := start(t, 1, 1, fs.mem, nil, hurry, func(o *Options) { o.Store.FS = fs.fs() })
		x.serving()
		h := &stateHistory{t: t, x: x, sums: map[zab.Zxid]znode.Digests{}}
		h.note()
		c := x.connect(session.Attach{})
		h.note()
		c.must(createReq("/m", "", 0))
		h.note()
		fs.mu.Lock()
		fs.left = k
		fs.mu.Unlock()
		for i := range 8 {
			p := fmt.Sprintf("/m/n%d", i)
			got := c.must(multiReq(createReq(p, "a", 0), setReq(p, "bb"), setReq("/m", fmt.Sprint(i))))
			if got.Err != znode.OK || len(got.Multi) != 3 || got.Multi[1].Stat.Version != 1 {
				t.Fatalf("%+v", got)
			}
			h.note()
			if i%4 == 3 { // let the state be written and flushed
				z := x.r.Status().Applied
				x.until("state flushed", func(Status) bool { return x.r.store.DurableApplied() >= z })
			}
		}
		c.release()
		if err := x.end(); err != nil {
			t.Fatal(err)
		}
		clone := fs.crashed()
		if clone == nil {
			t.Logf("%d crashes, the last at operation %d", n, k-step)
			break
		}
		n++
		h.check(clone)
	}
	if n < 3 {
		t.Errorf("only %d crashes", n)
	}
}

func multiReq(ops ...session.Request) session.Request {
	w := &znode.Request{}
	for _, o := range ops {
		op := *o.Write
		op.Op = o.Op
		w.Multi = append(w.Multi, op)
	}
	return session.Request{Op: znode.OpMulti, Write: w}
}

// TestFieldA12StateWrittenUnderChurn: creates, deletes, sets, expiring and closing sessions while the state is written
// and flushed all the time; crashes at random operations. Each restart finds the state of its zxid, whole.
func TestFieldA12StateWrittenUnderChurn(t *testing.T) {
	crashes := 12
	if long() {
		crashes = 100
	}
	for range crashes {
		fs := newCrashFS(vfs.NewCrashableMem(), 0)
		x := start(t, 1, 1, fs.mem, nil, hurry, func(o *Options) { o.Store.FS = fs.fs() })
		x.serving()
		h := &stateHistory{t: t, x: x, sums: map[zab.Zxid]znode.Digests{}}
		h.note()
		c := x.connect(session.Attach{})
		h.note()
		c.must(createReq("/d", "", 0))
		h.note()
		fs.mu.Lock()
		fs.left = 1 + rand.IntN(250)
		fs.mu.Unlock()
		for i := 0; fs.crashed() == nil && i < 2000; i++ {
			switch p := fmt.Sprintf("/d/n%d", rand.IntN(12)); i % 9 {
			case 0, 1, 2:
				c.must(createReq(p, strings.Repeat("v", rand.IntN(200)), 0))
			case 3, 4:
				c.must(session.Request{Op: znode.OpDelete, Path: p, Write: &znode.Request{Path: p, Version: -1}})
			case 5:
				c.must(setReq(p, "other"))
			case 6:
				c.must(createReq("/d/s-", "", 2))
			case 7:
				c.must(setReq("/d", fmt.Sprint(i)))
			case 8: // a session comes, makes ephemerals, and goes
				o := x.connect(session.Attach{})
				h.note()
				for j := range 3 {
					o.must(createReq(fmt.Sprintf("/d/e%d-", j), "", 3))
					h.note()
				}
				o.must(closeReq())
				o.release()
			}
			h.note()
		}
		c.release()
		if err := x.end(); err != nil {
			t.Fatal(err)
		}
		if fs.crashed() == nil {
			t.Fatal("no crash")
		}
		h.check(fs.crashed())
	}
}

// TestFieldA12SnapshotUnderChurn: a member that was away takes a snapshot while creates, deletes and closing sessions go
// on. Then every stat of every node is that of the leader, and so it is after a restart on what was received.
func TestFieldA12SnapshotUnderChurn(t *testing.T) {
	t.Parallel()
	e := newEnsemble(t, 3, small)
	l, f := e.leader(), e.follower()
	k := l.connect(session.Attach{Timeout: 60000})
	k.must(createReq("/d", "", 0))
	round := func(n int) {
		for i := range n {
			o := l.connect(session.Attach{})
			o.must(createReq(fmt.Sprintf("/d/n%d", i), strings.Repeat("x", 1000), 0))
			o.must(createReq("/d/e-", "", 3))
			o.must(createReq(fmt.Sprintf("/d/n%d/kid", i), "", 0))
			p := fmt.Sprintf("/d/n%d/kid", i/2)
			o.must(session.Request{Op: znode.OpDelete, Path: p, Write: &znode.Request{Path: p, Version: -1}})
			o.must(closeReq())
			o.release()
		}
	}
	for i := range 2 {
		e.agree()
		want := f.r.Status().Applied
		fs := e.kill(f)
		round(20)
		l.until("log cut", func(s Status) bool { return s.Zab.Base > want })
		stop, done := make(chan struct{}), make(chan struct{})
		go func() { // ends with stop
			defer close(done)
			for {
				select {
				case <-stop:
					return
				default:
					round(3)
				}
			}
		}()
		f = e.restart(f.id, fs, small)
		f.serving()
		close(stop)
		<-done
		l.until("a snapshot sent", func(s Status) bool { return s.Zab.Snapshots == uint64(i+1) })
		e.agree()
		sameRecords(t, l, f)
		fs = e.kill(f)
		f = e.restart(f.id, fs, small)
		f.serving()
		sameRecords(t, l, f)
	}
	k.release()
	e.end()
}

// sameRecords compares two trees field by field, so that a difference has a name.
func sameRecords(t *testing.T, a, b *node) {
	t.Helper()
	all := func(x *node) map[string]string {
		out := map[string]string{}
		tree := x.r.RLock()
		defer x.r.RUnlock()
		tree.Walk(func(r znode.NodeRecord) bool {
			if !strings.HasPrefix(r.Path, "/zookeeper") {
				_, st, _ := tree.GetData(r.Path, nil)
				out[r.Path] = fmt.Sprintf("%+v %+v", r, st)
			}
			return true
		})
		tree.Sessions(func(s znode.Session) bool {
			out[fmt.Sprintf("session %#x", s.ID)] = fmt.Sprintf("%+v", s)
			return true
		})
		return out
	}
	x, y := all(a), all(b)
	for p, r := range x {
		if y[p] != r {
			t.Errorf("%s: %s has %s, %s has %s", p, fmt.Sprint(a.id), r, fmt.Sprint(b.id), y[p])
		}
	}
	if len(x) != len(y) {
		t.Errorf("%d records and %d", len(x), len(y))
	}
}

// reconnect takes a session over, trying until the server serves.
func (x *node) reconnect(a session.AttachResult) *client {
	x.t.Helper()
	for end := time.Now().Add(wait); ; <-time.After(5 * time.Millisecond) {
		k := &client{t: x.t, x: x, sink: newSink()}
		k.c = x.hub.Open(lineWire{}, k.sink, "127.0.0.1", "test")
		ctx, cancel := context.WithTimeout(context.Background(), wait)
		res, err := k.c.Attach(ctx, session.Attach{Session: a.Session, Password: a.Password[:], Timeout: a.Timeout})
		cancel()
		if err == nil {
			k.res = res
			return k
		}
		k.release()
		if time.Now().After(end) {
			x.t.Fatalf("no session at server %d: %v", x.id, err)
		}
	}
}

// TestFieldA14SyncThatDoesNotEnd: a leader whose disk hangs steps down after syncLimit although its heartbeats go on;
// writes go on elsewhere. It takes part again once the disk is back. Until then it does not vote.
func TestFieldA14SyncThatDoesNotEnd(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	gates := map[zab.ServerID]chan struct{}{}
	var log logBuffer
	limit := func(o *Options) {
		id, fs := o.Self, vfs.NewMem()
		o.Zab.SyncLimit = 700 * time.Millisecond
		o.Store.SlowSync = 100 * time.Millisecond
		log.log(o)
		o.Store.FS = newFailingFS(fs, func(op errorfs.Op) error {
			if isLogSync(op) {
				mu.Lock()
				gate := gates[id]
				mu.Unlock()
				if gate != nil {
					<-gate
				}
			}
			return nil
		})
	}
	e := newEnsemble(t, 3, limit)
	old := e.leader()
	k := e.follower().connect(session.Attach{Timeout: 30000})
	k.must(createReq("/a", "", 0))
	gate := make(chan struct{})
	mu.Lock()
	gates[old.id] = gate
	mu.Unlock()
	began := time.Now()
	var next *node
	for i := 0; next == nil || i < 20; i++ {
		if time.Since(began) > wait {
			t.Fatalf("the leader with a hung disk leads on: %+v", old.r.Status())
		}
		at := time.Now()
		l, err := k.call(setReq("/a", fmt.Sprint(i)))
		if err != nil { // a write under way when the leader stepped down
			k.release()
			k = k.x.reconnect(k.res)
			continue
		}
		if took := time.Since(at); l.Err != znode.OK || took > 3*time.Second {
			t.Fatalf("write %d: %+v after %v", i, l, took)
		}
		for _, x := range e.nodes {
			if s := x.r.Status(); x != old && s.Role == zab.Leading && s.Serving {
				next = x
			}
		}
	}
	if s := old.r.Status(); s.Role != zab.Looking || s.Serving {
		t.Errorf("the old leader: %+v", s)
	}
	t.Logf("another leader after %v", time.Since(began))
	mu.Lock()
	gates[old.id] = nil
	mu.Unlock()
	close(gate)
	old.serving()
	e.agree()
	if s := log.String(); !strings.Contains(s, `"took":`) || !strings.Contains(s, "slow sync of the log") || !strings.Contains(s, "does not end") {
		t.Errorf("the slow sync is not in the log: %s", s)
	}
	k.release()
	e.end()
}

// TestFieldA7StateGone: a member whose state directory is gone is refused, and the directory is named. With the recovery
// flag it takes a snapshot, and until then neither counts nor serves.
func TestFieldA7StateGone(t *testing.T) {
	t.Parallel()
	e := newEnsemble(t, 3, small)
	l, f := e.leader(), e.follower()
	k := l.connect(session.Attach{Timeout: 60000})
	for i := range 100 {
		k.must(createReq(fmt.Sprintf("/n%d", i), "x", 0))
	}
	f.until("log cut", func(s Status) bool { return s.Zab.Base > 0 })
	e.agree()
	fs := e.kill(f).(*vfs.MemFS)
	names, err := fs.List("data")
	if err != nil {
		t.Fatal(err)
	}
	dir := ""
	for _, n := range names {
		if strings.HasPrefix(n, "state.") {
			dir = n
		}
	}
	if err := fs.RemoveAll("data/" + dir); err != nil {
		t.Fatal(err)
	}
	if err := fs.MkdirAll("data/state.0.9", 0o755); err != nil { // an unnamed one beside it is not taken in its place
		t.Fatal(err)
	}
	o := testOptions(f.id, 3, fs, session.NewHub(session.Options{Log: testLog()}))
	small(&o)
	if _, err := New(o); !errors.Is(err, store.ErrMissingState) || !strings.Contains(err.Error(), dir) {
		t.Fatalf("without the flag: %v", err)
	}
	var third *node
	for _, x := range e.nodes {
		if x != l {
			third = x
		}
	}
	thirdFS := e.kill(third)
	k.release()
	l.until("no quorum", func(s Status) bool { return !s.Serving })
	f = e.restart(f.id, fs, small, func(o *Options) { o.Store.Rebuild = true })
	e.nobodyServes(500 * time.Millisecond)
	e.restart(third.id, thirdFS, small)
	l = e.leader()
	l.until("a snapshot", func(s Status) bool { return s.Zab.Snapshots == 1 })
	f.serving()
	e.agree()
	sameRecords(t, l, f)
	e.end()
}
