package store

import (
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"github.com/zkserver/zkserver/internal/faultfs"
	"github.com/zkserver/zkserver/zab"
)

// The crash campaign: random operations against a store on a file system that is cloned, as a power loss would leave
// it, at a random file operation. The clone is opened and held against what was acknowledged and what was sent.

// version is what log/ holds after an acknowledged or a sent batch.
type version struct {
	base, last, commit zab.Zxid
	hard               zab.HardState
	ensemble           zab.ID
	history            []zab.Entry // from the very beginning: also what is below the base
}

func (v version) at(z zab.Zxid) int {
	i, _ := slices.BinarySearchFunc(v.history, z, func(e zab.Entry, z zab.Zxid) int { return compare(e.Zxid, z) })
	if i < len(v.history) && v.history[i].Zxid == z {
		return i + 1
	}
	return i
}

func compare(a, b zab.Zxid) int {
	if a < b {
		return -1
	} else if a > b {
		return 1
	}
	return 0
}

// model replays the history up to z.
func (v version) model(z zab.Zxid) *model {
	m, c := newModel(), newChanges()
	for _, e := range v.history[:v.at(z)] {
		m.apply(e, c)
	}
	m.applied = z
	return m
}

func (v version) epochs() []zab.EpochEnd {
	var rows []zab.EpochEnd
	for _, e := range v.history {
		if n := len(rows); n > 0 && rows[n-1].Epoch == e.Zxid.Epoch() {
			rows[n-1].Last = e.Zxid
		} else {
			rows = append(rows, zab.EpochEnd{Epoch: e.Zxid.Epoch(), Last: e.Zxid})
		}
	}
	return rows
}

// promise is what a crash at this moment must keep: the acknowledged version or the one sent behind it.
type promise struct {
	acked, sent version
	flushed     zab.Zxid // the durable state is at least there
	everOpen    bool
}

// disk is a crashable file system that clones itself before its k-th write operation.
type disk struct {
	mem     *vfs.MemFS
	rng     *rand.Rand
	percent *int // of what is unsynced that survives; nil: drawn

	mu      sync.Mutex
	left    int
	promise promise
	clone   *vfs.MemFS
	kept    promise
}

func (d *disk) fs(wrap func(vfs.FS) vfs.FS) vfs.FS {
	inner := vfs.FS(d.mem)
	if wrap != nil {
		inner = wrap(inner)
	}
	return faultfs.Wrap(inner, func(op errorfs.Op) error {
		if op.Kind.ReadOrWrite() == errorfs.OpIsWrite {
			d.tick()
		}
		return nil
	})
}

func (d *disk) tick() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.left--; d.left == 0 {
		d.crash()
	}
}

func (d *disk) crash() {
	percent := []int{0, 0, 20, 50, 80, 100}[d.rng.IntN(6)]
	if d.percent != nil {
		percent = *d.percent
	}
	d.clone = d.mem.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: percent, RNG: rand.New(rand.NewPCG(d.rng.Uint64(), 1))})
	d.kept = d.promise
}

func (d *disk) crashed() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.clone != nil
}

func (d *disk) set(f func(p *promise)) {
	d.mu.Lock()
	defer d.mu.Unlock()
	f(&d.promise)
}

// campaign runs rounds until one is wrong.
type campaign struct {
	rng  *rand.Rand
	wrap func(vfs.FS) vfs.FS // between the store and the disk
	ops  map[string]int
	n    int // of the last round

	until time.Time // zero: no matter how long it takes
}

func (c *campaign) options(fs vfs.FS) Options {
	o := testOptions(fs)
	o.DiffCount = 40 + c.rng.IntN(100)
	o.FlushTxns = int64(10 + c.rng.IntN(200))
	return o
}

// run performs rounds, each from what the crash before has left.
func (c *campaign) run(rounds int) error {
	mem := vfs.NewCrashableMem()
	var p promise
	for c.n = range rounds {
		if !c.until.IsZero() && time.Now().After(c.until) {
			return nil
		}
		if c.n%40 == 0 { // begin anew now and then: histories stay short, first starts are crashed too
			mem, p = vfs.NewCrashableMem(), promise{}
		}
		d := &disk{mem: mem, rng: rand.New(rand.NewPCG(c.rng.Uint64(), 2)), left: 1 + c.rng.IntN([]int{30, 200, 800}[c.rng.IntN(3)]), promise: p}
		if err := c.life(d); err != nil {
			return fmt.Errorf("round %d: %w", c.n, err)
		}
		if !d.crashed() {
			d.mu.Lock()
			d.crash()
			d.mu.Unlock()
		}
		mem, p = d.clone, d.kept
	}
	return nil
}

// life is one process: start, check what it found, work until the crash.
func (c *campaign) life(d *disk) (err error) {
	before := d.promise
	var fatal error
	o := c.options(d.fs(c.wrap))
	o.Fatal = func(err error) { fatal = err }
	s, _, err := Open(o)
	if err != nil {
		return fmt.Errorf("start: %w", err)
	}
	w := &worker{c: c, d: d, s: s, tree: newModel()}
	defer func() {
		if cerr := s.Close(); err == nil && cerr != nil {
			err = fmt.Errorf("close: %w", cerr)
		}
		if err == nil && fatal != nil {
			err = fmt.Errorf("fatal: %w", fatal)
		}
	}()
	if err := s.load(w.tree); err != nil {
		return fmt.Errorf("load: %w", err)
	}
	if err := w.check(s.Recovered(), before); err != nil {
		return fmt.Errorf("recovered: %w", err)
	}
	d.set(func(p *promise) { *p = promise{acked: w.v, sent: w.v, flushed: before.flushed, everOpen: true} })
	for steps := 0; !d.crashed() && steps < 200; steps++ {
		if err := w.step(); err != nil {
			return fmt.Errorf("step %d: %w", steps, err)
		}
	}
	return nil
}

func rounds(t *testing.T, normal int) int {
	if v := os.Getenv("STORE_ROUNDS"); v != "" {
		n, err := strconv.Atoi(v)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	return normal
}

func seed(t *testing.T) uint64 {
	if v := os.Getenv("STORE_SEED"); v != "" {
		n, err := strconv.ParseUint(v, 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	return rand.Uint64()
}

// TestCrashes: STORE_ROUNDS sets the number of crashes (default 200, and then at most 5 s; 1,000 take about a minute on
// two busy cores), STORE_SEED the seed of the choices; the store's own goroutines are scheduled as they like.
func TestCrashes(t *testing.T) {
	noLeaks(t)
	n, sd := rounds(t, 200), seed(t)
	c := &campaign{rng: rand.New(rand.NewPCG(sd, 0)), ops: make(map[string]int)}
	start := time.Now()
	if os.Getenv("STORE_ROUNDS") == "" {
		c.until = start.Add(5 * time.Second) // on a busy machine fewer
	}
	if err := c.run(n); err != nil {
		t.Fatalf("seed %d: %v", sd, err)
	}
	t.Logf("%d crashes, seed %d, %v, operations %v", c.n+1, sd, time.Since(start).Round(time.Millisecond), c.ops)
}

// TestStateIsNeverAheadWithoutSync: forceSync=no may lose the end of the log, but never so that a start is refused.
func TestStateIsNeverAheadWithoutSync(t *testing.T) {
	noLeaks(t)
	rng := rand.New(rand.NewPCG(seed(t), 0))
	for range 30 {
		mem := vfs.NewCrashableMem()
		o := testOptions(mem)
		o.NoSync = true
		s, _, m := mustOpen(t, o)
		last := zab.Zxid(0)
		for i := range uint32(1 + rng.IntN(60)) {
			run := entries(z(1, i+1), 1, 40)
			mustPersist(t, s, zab.PersistOp{Append: run, Hard: hard(1, 1), Commit: run[0].Zxid})
			if rng.IntN(2) == 0 {
				writeState(t, s, m, readAll(t, s)[m.applied.Counter():])
			}
			if rng.IntN(8) == 0 {
				if err := s.FlushState(); err != nil {
					t.Fatal(err)
				}
				last = m.applied
			}
		}
		clone := mem.CrashClone(vfs.CrashCloneCfg{})
		mustClose(t, s)
		o.FS = clone
		s, rec, _ := mustOpen(t, o)
		if rec.Applied < last || rec.Last < rec.Applied {
			t.Fatalf("flushed at %v: %+v", last, rec)
		}
		mustClose(t, s)
	}
}

// TestCheckerSeesAMissingSync shows the campaign to fail on a disk that does not keep its promise for WALs.
func TestCheckerSeesAMissingSync(t *testing.T) {
	sd := seed(t)
	c := &campaign{rng: rand.New(rand.NewPCG(sd, 0)), ops: make(map[string]int), wrap: func(fs vfs.FS) vfs.FS { return noSyncFS{fs} }}
	err := c.run(400)
	if err == nil {
		t.Fatalf("seed %d: 400 crashes of a log that is never synced went unnoticed", sd)
	}
	t.Logf("noticed: %v", err)
}

// noSyncFS ignores every sync of a WAL.
type noSyncFS struct{ vfs.FS }

func (f noSyncFS) Create(name string, c vfs.DiskWriteCategory) (vfs.File, error) {
	file, err := f.FS.Create(name, c)
	return maybeNoSync(name, file), err
}

func (f noSyncFS) ReuseForWrite(oldName, newName string, c vfs.DiskWriteCategory) (vfs.File, error) {
	file, err := f.FS.ReuseForWrite(oldName, newName, c)
	return maybeNoSync(newName, file), err
}

func maybeNoSync(name string, f vfs.File) vfs.File {
	if f != nil && strings.HasSuffix(name, ".log") {
		return noSyncFile{f}
	}
	return f
}

type noSyncFile struct{ vfs.File }

func (noSyncFile) Sync() error                { return nil }
func (noSyncFile) SyncData() error            { return nil }
func (noSyncFile) SyncTo(int64) (bool, error) { return false, nil }
