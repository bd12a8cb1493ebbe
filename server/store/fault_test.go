package store

import (
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"github.com/zkserver/zkserver/internal/faultfs"
	"github.com/zkserver/zkserver/zab"
)

// fault injects an error into the operations that match, once it is switched on.
type fault struct {
	mu    sync.Mutex
	on    bool
	match func(op errorfs.Op) bool
	hits  int
}

func (f *fault) fs(inner vfs.FS) vfs.FS {
	return faultfs.Wrap(inner, func(op errorfs.Op) error {
		f.mu.Lock()
		defer f.mu.Unlock()
		if f.on && f.match(op) {
			f.hits++
			return errorfs.ErrInjected
		}
		return nil
	})
}

func (f *fault) set(on bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.on = on
}

// told collects what Options.Fatal hears.
type told struct {
	errs chan error
}

func newTold() told { return told{errs: make(chan error, 16)} }

func (t told) fatal(err error) { t.errs <- err }

// one is the first fatal error; it waits for it. There is never a second one.
func (t told) one(tt *testing.T) error {
	tt.Helper()
	err := <-t.errs
	select {
	case second := <-t.errs:
		tt.Errorf("told twice: %v, then %v", err, second)
	default:
	}
	return err
}

func TestFailedSyncIsFatal(t *testing.T) {
	mem := vfs.NewCrashableMem()
	f := &fault{match: func(op errorfs.Op) bool { return faultfs.IsSync(op) && strings.HasSuffix(op.Path, ".log") }}
	o := testOptions(f.fs(mem))
	heard := newTold()
	o.Fatal = heard.fatal
	s, _, m := mustOpen(t, o)
	fill(t, s, m, 10, 50)
	f.set(true)
	err := s.Persist([]zab.PersistOp{{Append: entries(z(1, 11), 3, 50), Commit: z(1, 11)}})
	if !errors.Is(err, errorfs.ErrInjected) {
		t.Fatalf("persisted: %v", err)
	}
	if got := heard.one(t); !errors.Is(got, err) {
		t.Errorf("told %v, returned %v", got, err)
	}
	f.set(false) // the disk is well again: nothing may go on all the same
	if again := s.Persist([]zab.PersistOp{{Append: entries(z(1, 11), 1, 50)}}); !errors.Is(again, err) {
		t.Errorf("persisted after the error: %v", again)
	}
	if err := s.WriteState(&StateBatch{Applied: z(1, 10)}); err == nil {
		t.Error("state written after the error")
	}
	if _, last := s.LogBounds(); last != z(1, 10) {
		t.Errorf("the log ends at %v", last)
	}
	if run, _, err := s.ReadLog(z(1, 9), z(1, 99), 1<<20); err != nil || len(run) != 1 {
		t.Errorf("%d entries read, %v: what is not durable was shown", len(run), err)
	}
	if got := s.Close(); !errors.Is(got, err) {
		t.Errorf("closed: %v", got)
	}
	clone := mem.CrashClone(vfs.CrashCloneCfg{})
	s, rec, _ := mustOpen(t, testOptions(clone))
	if rec.Last != z(1, 10) {
		t.Errorf("after a restart: %+v", rec)
	}
	mustClose(t, s)
}

func TestFailedFlushOfTheStateIsFatal(t *testing.T) {
	for _, file := range []string{".sst", "MANIFEST-"} {
		t.Run(file, func(t *testing.T) {
			f := &fault{match: func(op errorfs.Op) bool {
				return strings.Contains(op.Path, statePrefix) && strings.Contains(op.Path, file) && op.Kind.ReadOrWrite() == errorfs.OpIsWrite
			}}
			o := testOptions(f.fs(vfs.NewMem()))
			heard := newTold()
			o.Fatal = heard.fatal
			s, _, m := mustOpen(t, o)
			fill(t, s, m, 10, 50)
			f.set(true)
			if err := s.FlushState(); err == nil {
				t.Fatal("flushed")
			}
			heard.one(t)
			if err := s.Persist([]zab.PersistOp{{Commit: z(1, 10)}}); err == nil {
				t.Error("persisted after the fatal error")
			}
		})
	}
}

func TestFullDiskOfTheLog(t *testing.T) {
	f := &fault{match: func(op errorfs.Op) bool {
		return strings.HasPrefix(op.Path, "/wal/log") && op.Kind.ReadOrWrite() == errorfs.OpIsWrite
	}}
	o := testOptions(f.fs(vfs.NewMem()))
	heard := newTold()
	o.Fatal = heard.fatal
	s, _, m := mustOpen(t, o)
	fill(t, s, m, 10, 50)
	f.set(true)
	done := make(chan error, 1)
	go func() { // may park in Pebble's Fatalf; then the owner hears of it all the same
		for i := uint32(11); ; i++ {
			if err := s.Persist([]zab.PersistOp{{Append: entries(z(1, i), 1, 4000)}}); err != nil {
				done <- err
				return
			}
		}
	}()
	heard.one(t)
	if _, last := s.LogBounds(); last > z(1, 10) {
		t.Errorf("the log ends at %v", last)
	}
}

// TestFaultsAtStartAreNotTakenForAbsence: whatever can not be looked at once, the start is refused, or nothing is lost.
func TestFaultsAtStartAreNotTakenForAbsence(t *testing.T) {
	withState, _ := crashed(t, 40, minMemTable, true)
	noState := copyFS(t, withState)
	if err := noState.RemoveAll(stateDir(t, noState)); err != nil {
		t.Fatal(err)
	}
	java := vfs.NewMem()
	for _, dir := range []string{"/data/version-2", "/wal"} {
		if err := java.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	edit0(t, java, "/data/version-2/snapshot.1")
	for name, base := range map[string]vfs.FS{"whole": withState, "no state": noState, "Java's": java} {
		at, refused := 0, 0
		for again := true; again && !t.Failed(); {
			at++
			n, written := 0, false
			f := &fault{on: true, match: func(op errorfs.Op) bool {
				// Once Pebble has begun to write, a failed start may end the process: it compacts on without its file cache.
				written = written || op.Kind == errorfs.OpCreate
				if written || op.Kind != errorfs.OpList && op.Kind != errorfs.OpStat {
					return false
				}
				n++
				return n == at
			}}
			fs := copyFS(t, base)
			s, rec, err := Open(testOptions(f.fs(fs)))
			f.set(false)
			switch {
			case err != nil:
				refused++
			case name == "Java's" || rec.Hard != *hard(1, 1) || rec.Last != z(1, 40):
				t.Errorf("%s, operation %d: opened with %+v", name, at, rec)
				mustClose(t, s)
			default:
				mustClose(t, s)
			}
			if name == "Java's" {
				if names, _ := fs.List("/wal"); slices.Contains(names, "log") {
					t.Errorf("%s, operation %d: a log was created", name, at)
				}
			} else if s, rec, err := Open(testOptions(fs)); err != nil || rec.Hard != *hard(1, 1) || rec.Last != z(1, 40) || rec.NeedSnap {
				t.Errorf("%s, operation %d: afterwards %+v, %v", name, at, rec, err)
			} else {
				mustClose(t, s)
			}
			again = f.hits > 0
		}
		t.Logf("%s: %d operations, %d refused", name, at, refused)
	}
}

func TestFaultsAtStartAreNotTakenForDamage(t *testing.T) {
	base, _ := cutStore(t)
	for _, part := range []string{"/data/state.", "/wal/log/"} {
		f := &fault{on: true, match: func(op errorfs.Op) bool {
			return strings.HasPrefix(op.Path, part) && op.Kind == errorfs.OpFileRead || op.Kind == errorfs.OpFileReadAt && strings.HasPrefix(op.Path, part)
		}}
		fs := copyFS(t, base)
		_, rec, err := Open(testOptions(f.fs(fs)))
		var d *DamageError
		if err == nil || errors.As(err, &d) || !errors.Is(err, errorfs.ErrInjected) {
			t.Errorf("%s: %+v, %v", part, rec, err)
		}
		s, rec, _ := mustOpen(t, testOptions(fs))
		if rec.NeedSnap || rec.Applied != z(1, 200) {
			t.Errorf("%s: afterwards %+v", part, rec)
		}
		mustClose(t, s)
	}
}
