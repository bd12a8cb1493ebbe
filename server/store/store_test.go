package store

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
	"github.com/rs/zerolog"
	"go.uber.org/goleak"

	"github.com/zkserver/zkserver/internal/faultfs"
	"github.com/zkserver/zkserver/zab"
	"github.com/zkserver/zkserver/znode"
)

// noCursor is given to CutLog when there is no live learner.
const noCursor zab.Zxid = math.MaxUint64

// noLeaks fails the test if it leaves goroutines. Tests of fatal errors do not call it: by design Pebble's goroutines
// stay parked then, until the process ends.
func noLeaks(t *testing.T) {
	t.Helper()
	before := goleak.IgnoreCurrent()
	t.Cleanup(func() { goleak.VerifyNone(t, before) })
}

func testOptions(fs vfs.FS) Options {
	return Options{
		DataDir: "/data", LogDir: "/wal", FS: fs, Server: 3, Instance: 77, MemTable: minMemTable, Cache: 1 << 20,
		Log: zerolog.Nop(),
	}
}

func mustOpen(t *testing.T, o Options) (*Store, Recovered, *model) {
	t.Helper()
	s, _, err := Open(o)
	if err != nil {
		t.Fatal(err)
	}
	m := newModel()
	if err := s.load(m); err != nil {
		t.Fatal(err)
	}
	return s, s.Recovered(), m
}

func mustClose(t *testing.T, s *Store) {
	t.Helper()
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}

// entries makes a run of n transactions from first on.
func entries(first zab.Zxid, n, size int) []zab.Entry {
	run := make([]zab.Entry, n)
	for i := range run {
		z := first + zab.Zxid(i)
		run[i] = zab.Entry{Zxid: z, Data: bytes.Repeat([]byte{byte(z)}, size)}
	}
	return run
}

func mustPersist(t *testing.T, s *Store, ops ...zab.PersistOp) {
	t.Helper()
	if err := s.Persist(ops); err != nil {
		t.Fatal(err)
	}
}

func hard(accepted, current zab.Epoch) *zab.HardState {
	return &zab.HardState{Accepted: accepted, Current: current}
}

func z(e zab.Epoch, c uint32) zab.Zxid { return zab.MakeZxid(e, c) }

// fill brings a store with state to 1:n, everything delivered and written into the state.
func fill(t *testing.T, s *Store, m *model, n, size int) {
	t.Helper()
	run := entries(z(1, 1), n, size)
	mustPersist(t, s, zab.PersistOp{Append: run, Hard: hard(1, 1), Ensemble: 9, Commit: z(1, uint32(n))})
	writeState(t, s, m, run)
}

func writeState(t *testing.T, s *Store, m *model, run []zab.Entry) {
	t.Helper()
	c := newChanges()
	for _, e := range run {
		m.apply(e, c)
	}
	if err := s.WriteState(m.batchOf(c)); err != nil {
		t.Fatal(err)
	}
}

func readAll(t *testing.T, s *Store) []zab.Entry {
	t.Helper()
	base, last := s.LogBounds()
	var all []zab.Entry
	for base < last {
		run, missing, err := s.ReadLog(base, last, 1<<20)
		if err != nil || missing {
			t.Fatalf("read behind %v: missing %t, %v", base, missing, err)
		}
		all = append(all, run...)
		base = run[len(run)-1].Zxid
	}
	return all
}

func TestFreshDirectoryAndRestart(t *testing.T) {
	noLeaks(t)
	for _, same := range []bool{false, true} {
		t.Run(fmt.Sprint("same directory ", same), func(t *testing.T) {
			o := testOptions(vfs.NewMem())
			if same {
				o.LogDir = o.DataDir
			}
			s, rec, m := mustOpen(t, o)
			if rec.Last != 0 || rec.NeedSnap || rec.Instance != 77 || rec.Damage != nil || len(rec.Epochs) != 0 {
				t.Fatalf("fresh: %+v", rec)
			}
			fill(t, s, m, 100, 50)
			mustPersist(t, s,
				zab.PersistOp{Seq: 1, Hard: hard(5, 1)},
				zab.PersistOp{Seq: 2, Append: entries(z(5, 1), 3, 10), Hard: hard(5, 5), Commit: z(5, 1)},
				zab.PersistOp{Seq: 3, Commit: z(5, 2)})
			mustClose(t, s)

			o.Instance = 1234 // not used: the directory has its own
			s, rec, got := mustOpen(t, o)
			defer mustClose(t, s)
			if rec.Hard != (zab.HardState{Accepted: 5, Current: 5}) || rec.Base != 0 || rec.Last != z(5, 3) ||
				rec.Commit != z(5, 2) || rec.Applied != z(1, 100) || rec.Ensemble != 9 || rec.Instance != 77 {
				t.Fatalf("restarted: %+v", rec)
			}
			if want := "[{1 0x100000064} {5 0x500000003}]"; fmt.Sprint(rec.Epochs) != want {
				t.Fatalf("epochs %v, want %v", rec.Epochs, want)
			}
			if err := m.equal(got); err != nil {
				t.Fatal(err)
			}
			if all := readAll(t, s); len(all) != 103 || !bytes.Equal(all[99].Data, entries(z(1, 100), 1, 50)[0].Data) {
				t.Fatalf("%d entries", len(all))
			}
		})
	}
}

func TestLoadTreeOfZnode(t *testing.T) {
	noLeaks(t)
	o := testOptions(vfs.NewMem())
	newTree := func() *znode.Tree { return znode.NewTree(znode.Options{}) }
	s, rec, tr, err := OpenTree(o, newTree)
	if err != nil || rec.Applied != 0 {
		t.Fatal(rec, err)
	}
	want := tr.NodeCount()
	mustClose(t, s)
	s, _, tr, err = OpenTree(o, newTree)
	if err != nil || tr.NodeCount() != want {
		t.Fatal(tr.NodeCount(), err)
	}
	mustClose(t, s)
}

func TestReadLog(t *testing.T) {
	noLeaks(t)
	s, _, _ := mustOpen(t, testOptions(vfs.NewMem()))
	defer mustClose(t, s)
	mustPersist(t, s,
		zab.PersistOp{Append: entries(z(1, 1), 10, 100), Hard: hard(1, 1)},
		zab.PersistOp{Append: entries(z(4, 1), 10, 100), Hard: hard(4, 4)})
	for _, c := range []struct {
		after, upto zab.Zxid
		bytes       int
		want        int
		missing     bool
	}{
		{0, z(4, 10), 1 << 20, 20, false},
		{z(1, 10), z(4, 10), 1 << 20, 10, false},
		{z(1, 9), z(4, 1), 1 << 20, 2, false},
		{z(1, 3), z(1, 3), 1 << 20, 0, false},
		{z(4, 10), z(9, 9), 1 << 20, 0, false}, // nothing there yet
		{0, z(9, 9), 250, 2, false},
		{0, z(9, 9), 1, 1, false},             // at least one
		{z(1, 11), z(9, 9), 1 << 20, 0, true}, // never was in this log
		{z(2, 1), z(9, 9), 1 << 20, 0, true},  // an epoch without entries
		{z(4, 11), z(9, 9), 1 << 20, 0, true}, // beyond the end
		{z(4, 0), z(9, 9), 1 << 20, 0, true},  // no such entry
	} {
		got, missing, err := s.ReadLog(c.after, c.upto, c.bytes)
		if err != nil || len(got) != c.want || missing != c.missing {
			t.Errorf("ReadLog(%v, %v, %d): %d entries, missing %t, %v", c.after, c.upto, c.bytes, len(got), missing, err)
		}
	}
}

// TestReadLogUnderACut: what a cut takes away is missing, not skipped, also while only the database shows the cut.
func TestReadLogUnderACut(t *testing.T) {
	noLeaks(t)
	fs, shut, met, open := gateFS(vfs.NewMem(), func(op errorfs.Op) bool { return faultfs.IsSync(op) && strings.HasSuffix(op.Path, ".log") })
	o := testOptions(fs)
	o.DiffCount = 3
	s, _, m := mustOpen(t, o)
	for _, run := range [][]zab.Entry{entries(z(1, 1), 5, 10), entries(z(2, 1), 2, 10), entries(z(3, 1), 3, 10)} {
		e := run[0].Zxid.Epoch()
		mustPersist(t, s, zab.PersistOp{Append: run, Hard: hard(e, e), Commit: run[len(run)-1].Zxid})
		writeState(t, s, m, run)
	}
	if err := s.FlushState(); err != nil {
		t.Fatal(err)
	}
	shut()
	done := make(chan zab.Zxid)
	go func() {
		base, _, err := s.CutLog(noCursor)
		if err != nil {
			t.Error(err)
		}
		done <- base
	}()
	<-met
	for shows := true; shows; {
		_, c, err := s.logDB.Get(entryKey(z(2, 2)))
		if shows = err == nil; shows {
			if err := c.Close(); err != nil {
				t.Fatal(err)
			}
		}
	}
	if run, missing, err := s.ReadLog(z(1, 5), z(3, 3), 1<<20); err != nil || len(run) > 0 || !missing {
		t.Errorf("behind 1:5 come %v, missing %t, %v", run, missing, err)
	}
	close(open)
	if base := <-done; base != z(2, 2) {
		t.Errorf("cut at %v", base)
	}
	mustClose(t, s)
}

func TestWhatContinues(t *testing.T) {
	l := &logState{base: z(1, 3), last: z(7, 2), ended: []zab.EpochEnd{{Epoch: 1, Last: z(1, 5)}, {Epoch: 3, Last: z(3, 1)}, {Epoch: 4, Last: z(4, 2)}}}
	whole := &logState{last: z(7, 2), ended: []zab.EpochEnd{{Epoch: 3, Last: z(3, 1)}}}
	for _, c := range []struct {
		l         *logState
		before, z zab.Zxid
		want      bool
	}{
		{l, z(1, 3), z(1, 4), true}, {l, z(1, 5), z(3, 1), true}, {l, z(3, 1), z(4, 1), true}, {l, z(4, 2), z(7, 1), true},
		{l, z(1, 4), z(3, 1), false}, {l, z(1, 5), z(4, 1), false}, {l, z(1, 5), z(7, 1), false}, {l, z(3, 1), z(7, 1), false},
		{l, z(1, 5), z(2, 1), false}, {l, z(1, 5), z(1, 6), false}, {l, z(7, 2), z(7, 3), false}, {l, z(7, 2), z(8, 1), false},
		{whole, 0, z(3, 1), true}, {whole, 0, z(7, 1), false}, {whole, 0, z(2, 1), false}, {whole, z(3, 1), z(7, 1), true},
	} {
		if got := c.l.continues(c.before, c.z); got != c.want {
			t.Errorf("%v behind %v: %t", c.z, c.before, got)
		}
	}
}

func TestTruncate(t *testing.T) {
	noLeaks(t)
	o := testOptions(vfs.NewMem())
	s, _, _ := mustOpen(t, o)
	to := z(2, 2)
	mustPersist(t, s,
		zab.PersistOp{Append: entries(z(1, 1), 5, 10), Hard: hard(1, 1)},
		zab.PersistOp{Append: entries(z(2, 1), 5, 10), Hard: hard(2, 2), Commit: z(2, 1)},
		zab.PersistOp{Append: entries(z(3, 1), 5, 10), Hard: hard(3, 3)},
		zab.PersistOp{Truncate: &to})
	// In one batch with what follows it.
	to = z(2, 1)
	mustPersist(t, s, zab.PersistOp{Truncate: &to, Append: entries(z(4, 1), 2, 10), Hard: hard(4, 4)})
	mustClose(t, s)
	s, rec, _ := mustOpen(t, o)
	if rec.Last != z(4, 2) || fmt.Sprint(rec.Epochs) != "[{1 0x100000005} {2 0x200000001} {4 0x400000002}]" {
		t.Fatalf("%+v", rec)
	}
	mustClose(t, s)
}

func TestRefusedOpsWriteNothing(t *testing.T) {
	at := func(z zab.Zxid) *zab.Zxid { return &z }
	for name, op := range map[string]zab.PersistOp{
		"gap":                     {Append: entries(z(1, 12), 1, 1)},
		"again":                   {Append: entries(z(1, 10), 1, 1)},
		"new epoch not from 1":    {Append: entries(z(2, 2), 1, 1), Hard: hard(2, 2)},
		"entry above current":     {Append: entries(z(2, 1), 1, 1)},
		"accepted goes back":      {Hard: hard(0, 0)},
		"current above accepted":  {Hard: hard(1, 2)},
		"epoch 2^31":              {Hard: hard(1<<31, 1)},
		"cut below the commit":    {Truncate: at(z(1, 3))},
		"cut beyond the end":      {Truncate: at(z(1, 11))},
		"cut where nothing is":    {Truncate: at(z(1, 0))},
		"install of nothing":      {Install: &zab.Install{Dir: "state.1.9", Zxid: z(1, 20)}},
		"install of another name": {Install: &zab.Install{Dir: "../x", Zxid: z(1, 20)}},
	} {
		t.Run(name, func(t *testing.T) {
			o := testOptions(vfs.NewMem())
			var told error
			o.Fatal = func(err error) { told = err }
			s, _, _ := mustOpen(t, o)
			mustPersist(t, s, zab.PersistOp{Append: entries(z(1, 1), 10, 1), Hard: hard(1, 1), Commit: z(1, 5)})
			err := s.Persist([]zab.PersistOp{{Commit: z(1, 6)}, op})
			if !errors.Is(err, ErrInvariant) || !errors.Is(told, err) {
				t.Fatalf("%v; told %v", err, told)
			}
			if again := s.Persist([]zab.PersistOp{{Commit: z(1, 6)}}); !errors.Is(again, err) {
				t.Fatalf("after the error: %v", again)
			}
			if _, last := s.LogBounds(); last != z(1, 10) || s.durable.Load().commit != z(1, 5) {
				t.Fatalf("something was published: %+v", s.durable.Load())
			}
			s.failure = newFailure(func(error) {}) // let the test end in an orderly way
			mustClose(t, s)
		})
	}
}

func TestStateAheadOfLogIsRefused(t *testing.T) {
	s, _, m := mustOpen(t, testOptions(vfs.NewMem()))
	fill(t, s, m, 5, 10)
	b := &StateBatch{Applied: z(1, 6)}
	if err := s.WriteState(b); !errors.Is(err, ErrInvariant) {
		t.Fatal(err)
	}
	s.failure = newFailure(func(error) {})
	mustClose(t, s)
}

func TestDurableAppliedMovesWithTheFlush(t *testing.T) {
	s, _, m := mustOpen(t, testOptions(vfs.NewMem()))
	defer mustClose(t, s)
	fill(t, s, m, 5, 10)
	if got := s.DurableApplied(); got != 0 {
		t.Fatalf("durable %v before the flush", got)
	}
	if err := s.FlushState(); err != nil {
		t.Fatal(err)
	}
	if got := s.DurableApplied(); got != z(1, 5) {
		t.Fatalf("durable %v after it", got)
	}
}

func TestCutLogKeepsTheWindow(t *testing.T) {
	noLeaks(t)
	o := testOptions(vfs.NewMem())
	o.DiffCount = 32
	s, _, m := mustOpen(t, o)
	var run []zab.Entry
	for i := range uint32(100) {
		e := entries(z(1, i+1), 1, 10)
		run = append(run, e...)
		mustPersist(t, s, zab.PersistOp{Append: e, Hard: hard(1, 1), Commit: z(1, i+1)})
	}
	cut := func(cursor zab.Zxid) zab.Zxid {
		t.Helper()
		base, _, err := s.CutLog(cursor)
		if err != nil {
			t.Fatal(err)
		}
		return base
	}
	if got := cut(noCursor); got != 0 {
		t.Fatalf("cut to %v what the state does not hold", got)
	}
	writeState(t, s, m, run[:60])
	if err := s.FlushState(); err != nil {
		t.Fatal(err)
	}
	if got := cut(z(1, 20)); got != z(1, 20) {
		t.Fatalf("cut to %v, the cursor is at 20", got)
	}
	r, err := s.SnapshotReader() // at 60
	if err != nil {
		t.Fatal(err)
	}
	writeState(t, s, m, run[60:])
	if err := s.FlushState(); err != nil {
		t.Fatal(err)
	}
	if got := cut(noCursor); got != z(1, 60) {
		t.Fatalf("cut to %v, a snapshot holds 60", got)
	}
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	if got := cut(noCursor); got != z(1, 68) {
		t.Fatalf("cut to %v, the window is 32", got)
	}
	if _, missing, _ := s.ReadLog(z(1, 30), z(1, 90), 1000); !missing {
		t.Fatal("reading below the base")
	}
	mustClose(t, s)
	s, rec, got := mustOpen(t, o)
	if rec.Base != z(1, 68) || rec.Last != z(1, 100) || rec.Applied != z(1, 100) {
		t.Fatalf("%+v", rec)
	}
	if err := m.equal(got); err != nil {
		t.Fatal(err)
	}
	mustClose(t, s)
}

func TestSlowCursorHoldsTheLogUpToTheSize(t *testing.T) {
	o := testOptions(vfs.NewMem())
	o.DiffBytes, o.DiffCount = 10_000, 16
	s, _, m := mustOpen(t, o)
	defer mustClose(t, s)
	fill(t, s, m, 1, 1000)
	for i := range uint32(29) {
		run := entries(z(1, i+2), 1, 1000)
		mustPersist(t, s, zab.PersistOp{Append: run, Commit: z(1, i+2)})
		writeState(t, s, m, run)
	}
	if err := s.FlushState(); err != nil {
		t.Fatal(err)
	}
	base, cut, err := s.CutLog(z(1, 1))
	if err != nil || !cut || base < z(1, 19) || base > z(1, 21) {
		t.Fatalf("cut to %v, %t, %v; 30 entries of 1 KB, 10 KB are kept", base, cut, err)
	}
}

func TestFirstStartCutShort(t *testing.T) {
	fs := vfs.NewMem()
	if err := fs.MkdirAll("/wal/log", 0o755); err != nil {
		t.Fatal(err)
	}
	f, err := fs.Create("/wal/log/000002.log", vfs.WriteCategoryUnspecified)
	if err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	s, rec, _ := mustOpen(t, testOptions(fs))
	if rec.Last != 0 {
		t.Fatalf("%+v", rec)
	}
	mustClose(t, s)
}

// A directory that may not be written is not one that another server uses.
func TestUnwritableDirectory(t *testing.T) {
	denied := &os.PathError{Op: "open", Path: lockName, Err: os.ErrPermission}
	o := Options{DataDir: "data", Server: 1, Instance: 7, FS: deniedLock{FS: vfs.NewMem(), err: denied}}
	if _, _, err := Open(o); err == nil || errors.Is(err, ErrLocked) || !errors.Is(err, os.ErrPermission) || !strings.Contains(err.Error(), "cannot be written") {
		t.Fatal(err)
	}
}

// deniedLock refuses every lock.
type deniedLock struct {
	vfs.FS
	err error
}

func (d deniedLock) Lock(string) (io.Closer, error) { return nil, d.err }

func TestOnTheRealDisk(t *testing.T) {
	noLeaks(t)
	dir := t.TempDir()
	o := testOptions(nil)
	o.DataDir, o.LogDir = filepath.Join(dir, "data"), filepath.Join(dir, "wal", "deep")
	s, _, m := mustOpen(t, o)
	fill(t, s, m, 50, 100)
	if _, _, err := Open(o); !errors.Is(err, ErrLocked) || !strings.Contains(err.Error(), o.DataDir) {
		t.Fatalf("second open: %v", err)
	}
	if free, low := s.CheckDisk(); free == 0 || low {
		t.Errorf("free %d, low %t", free, low)
	}
	if got := s.Metrics(); got.Syncs == 0 || got.SyncTime == 0 || got.Entries != 50 || got.LogDisk == 0 {
		t.Errorf("%+v", got)
	}
	mustClose(t, s)
	s, rec, got := mustOpen(t, o)
	if rec.Last != z(1, 50) || rec.Applied != z(1, 50) {
		t.Fatalf("%+v", rec)
	}
	if err := m.equal(got); err != nil {
		t.Fatal(err)
	}
	mustClose(t, s)
	names, err := os.ReadDir(o.DataDir)
	if err != nil || len(names) != 2 { // LOCK and one state
		t.Fatal(names, err)
	}
}

func TestDiskLow(t *testing.T) {
	noLeaks(t)
	fs := vfs.NewMem()
	s, _, m := mustOpen(t, testOptions(fs))
	defer mustClose(t, s)
	fill(t, s, m, 5, 10)
	fs.TestingSetDiskUsage(vfs.DiskUsage{AvailBytes: 1 << 20, TotalBytes: 1 << 30})
	for range 2 {
		if free, low := s.CheckDisk(); free != 1<<20 || !low {
			t.Fatalf("free %d, low %t", free, low)
		}
	}
	if got := s.Metrics().DiskLow; got != 1 {
		t.Errorf("counted %d times", got)
	}
	if _, err := s.SnapshotReader(); !errors.Is(err, ErrDiskLow) {
		t.Errorf("snapshot: %v", err)
	}
	if _, err := s.NewSnapshotWriter(5); !errors.Is(err, ErrDiskLow) {
		t.Errorf("receiving: %v", err)
	}
	fs.TestingSetDiskUsage(vfs.DiskUsage{AvailBytes: 1 << 40, TotalBytes: 1 << 41})
	s.CheckDisk()
	r, err := s.SnapshotReader()
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
}
