package store

import (
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"github.com/zkserver/zkserver/internal/faultfs"
	"github.com/zkserver/zkserver/zab"
	"github.com/zkserver/zkserver/znode"
)

// comesBack fails the test if f does not return.
func comesBack(t *testing.T, what string, f func() error) error {
	t.Helper()
	done := make(chan error, 1)
	go func() { done <- f() }()
	select {
	case err := <-done:
		return err
	case <-time.After(30 * time.Second):
		t.Fatal(what + " does not return")
		return nil
	}
}

// gateFS lets through what matches only once open is closed; met is closed by the first one that waits.
func gateFS(inner vfs.FS, match func(op errorfs.Op) bool) (fs vfs.FS, shut func(), met, open chan struct{}) {
	var on, seen atomic.Bool
	met, open = make(chan struct{}), make(chan struct{})
	fs = faultfs.Wrap(inner, func(op errorfs.Op) error {
		if on.Load() && match(op) {
			if !seen.Swap(true) {
				close(met)
			}
			<-open
		}
		return nil
	})
	return fs, func() { on.Store(true) }, met, open
}

func ofState(op errorfs.Op) bool { return strings.Contains(op.Path, statePrefix) }

// TestNothingWaitsForAPlaceOfASnapshot: making the directory of one takes some thirty syncs.
func TestNothingWaitsForAPlaceOfASnapshot(t *testing.T) {
	noLeaks(t)
	fs, shut, met, open := gateFS(vfs.NewMem(), func(op errorfs.Op) bool { return op.Kind == errorfs.OpCreate && ofState(op) })
	s, _, m := mustOpen(t, testOptions(fs))
	fill(t, s, m, 10, 50)
	shut()
	made := make(chan error, 1)
	go func() {
		_, err := s.NewSnapshotWriter(z(1, 50))
		made <- err
	}()
	<-met
	_ = comesBack(t, "Metrics", func() error { s.Metrics(); return nil })
	if err := comesBack(t, "CutLog", func() error { _, _, err := s.CutLog(noCursor); return err }); err != nil {
		t.Error(err)
	}
	closed := make(chan error, 1)
	go func() { closed <- s.Close() }()
	close(open)
	if err := errors.Join(<-made, <-closed); err != nil && !errors.Is(err, ErrClosed) {
		t.Error(err)
	}
	if _, err := s.NewSnapshotWriter(z(1, 50)); !errors.Is(err, ErrClosed) {
		t.Errorf("a writer of a closed store: %v", err)
	}
	s, _, _ = mustOpen(t, testOptions(fs))
	mustClose(t, s)
}

// install receives m's state as a snapshot and begins to install it once shut has returned.
func install(t *testing.T, s *Store, m *model, shut func()) (installed <-chan error) {
	t.Helper()
	w := newWriter(t, s, m.applied)
	if err := w.Write(m.stream()); err != nil {
		t.Fatal(err)
	}
	dir, err := w.Finish()
	if err != nil {
		t.Fatal(err)
	}
	shut()
	done := make(chan error, 1)
	go func() { // ends with the installation
		done <- s.Persist([]zab.PersistOp{{Install: &zab.Install{Dir: dir, Zxid: m.applied, Common: m.applied}}})
	}()
	return done
}

// TestNothingWaitsForTheReplacedState to be removed.
func TestNothingWaitsForTheReplacedState(t *testing.T) {
	noLeaks(t)
	fs, shut, met, open := gateFS(vfs.NewMem(), func(op errorfs.Op) bool { return op.Kind == errorfs.OpRemoveAll && ofState(op) })
	s, _, m := mustOpen(t, testOptions(fs))
	fill(t, s, m, 10, 50)
	installed := install(t, s, m, shut)
	<-met
	_ = comesBack(t, "DurableApplied", func() error { s.DurableApplied(); return nil })
	if _, _, err := s.ReadLog(z(1, 10), z(1, 10), 1); err != nil {
		t.Error(err)
	}
	close(open)
	if err := <-installed; err != nil {
		t.Fatal(err)
	}
	mustClose(t, s)
}

// TestCloseOnAFullDisk: the flush of an orderly end meets the fault.
func TestCloseOnAFullDisk(t *testing.T) {
	for _, op := range []errorfs.OpKind{errorfs.OpFileWrite, errorfs.OpCreate} {
		f := &fault{match: func(o errorfs.Op) bool { return o.Kind == op && ofState(o) }}
		o := testOptions(f.fs(vfs.NewMem()))
		heard := newTold()
		o.Fatal = heard.fatal
		s, _, m := mustOpen(t, o)
		fill(t, s, m, 10, 50)
		f.set(true)
		err := comesBack(t, "Close", s.Close)
		if told := heard.one(t); err == nil || !errors.Is(err, told) {
			t.Errorf("closed: %v, told was %v", err, told)
		}
		if again := comesBack(t, "Close", s.Close); !errors.Is(again, err) {
			t.Errorf("closed again: %v", again)
		}
	}
}

// longSnapshot is a stream that fills several memtables.
func longSnapshot(t *testing.T) (stream []byte, at zab.Zxid) {
	t.Helper()
	m := newModel()
	m.applied = z(1, 1)
	for i := range 100 {
		p := "/n" + string(rune('a'+i/26)) + string(rune('a'+i%26))
		m.nodes[p] = znode.NodeRecord{Path: p, Data: make([]byte, 100_000), ACL: openACL}
	}
	return m.stream(), m.applied
}

// TestSnapshotOnAFullDisk: one that arrives, and what writes the state, come back when the disk is full.
func TestSnapshotOnAFullDisk(t *testing.T) {
	stream, at := longSnapshot(t)
	for name, match := range map[string]func(op errorfs.Op) bool{
		"directory": func(op errorfs.Op) bool { return op.Kind == errorfs.OpCreate && ofState(op) },
		"tables":    func(op errorfs.Op) bool { return op.Kind == errorfs.OpFileWrite && strings.HasSuffix(op.Path, ".sst") },
	} {
		f := &fault{match: match}
		o := testOptions(f.fs(vfs.NewMem()))
		heard := newTold()
		o.Fatal = heard.fatal
		s, _, m := mustOpen(t, o)
		fill(t, s, m, 10, 50)
		var w *SnapshotWriter
		if name == "tables" {
			w = newWriter(t, s, at)
		}
		f.set(true)
		err := comesBack(t, "receiving", func() (err error) {
			if w == nil {
				if w, err = s.NewSnapshotWriter(at); err != nil {
					return err
				}
			}
			for n := 0; n < len(stream) && err == nil; n += 64 << 10 {
				err = w.Write(stream[n:min(n+64<<10, len(stream))])
			}
			if err == nil {
				_, err = w.Finish()
			}
			w.Abort()
			return err
		})
		if told := heard.one(t); !errors.Is(err, told) {
			t.Errorf("%s: %v, told was %v", name, err, told)
		}
		_ = comesBack(t, "Metrics", func() error { s.Metrics(); return nil })
		if err := comesBack(t, "Close", s.Close); err == nil {
			t.Errorf("%s: closed", name)
		}
	}
}

// TestStateOnAFullDisk: the writer of the state is not left behind a flush that never ends.
func TestStateOnAFullDisk(t *testing.T) {
	f := &fault{match: func(op errorfs.Op) bool {
		return op.Kind == errorfs.OpFileWrite && strings.HasSuffix(op.Path, ".sst") && ofState(op)
	}}
	o := testOptions(f.fs(vfs.NewMem()))
	heard := newTold()
	o.Fatal = heard.fatal
	s, _, m := mustOpen(t, o)
	fill(t, s, m, 200, 50)
	f.set(true)
	b := &StateBatch{Applied: z(1, 200), Nodes: []StateNode{{Path: "/x", DataToo: true, Record: znode.NodeRecord{Data: make([]byte, 50_000), ACL: openACL}}}}
	err := comesBack(t, "WriteState", func() (err error) {
		for err == nil {
			err = s.WriteState(b)
		}
		return err
	})
	if told := heard.one(t); !errors.Is(err, told) {
		t.Errorf("%v, told was %v", err, told)
	}
}

// TestDiskLowEndsASnapshot that arrives, whoever finds it: the host, or the snapshot, which comes faster than it looks.
func TestDiskLowEndsASnapshot(t *testing.T) {
	noLeaks(t)
	stream, at := longSnapshot(t)
	for _, told := range []bool{true, false} {
		mem := vfs.NewMem()
		o := testOptions(mem)
		o.Fatal = func(err error) { t.Error(err) }
		s, _, _ := mustOpen(t, o)
		w := newWriter(t, s, at)
		if err := w.Write(stream[:100]); err != nil {
			t.Fatal(err)
		}
		mem.TestingSetDiskUsage(vfs.DiskUsage{AvailBytes: 1 << 10, TotalBytes: 1 << 30})
		if told {
			s.CheckDisk()
		}
		n := 100
		var err error
		for ; n < len(stream) && err == nil; n += 64 << 10 {
			err = w.Write(stream[n:min(n+64<<10, len(stream))])
		}
		if !errors.Is(err, ErrDiskLow) || n > 2*writeLimit {
			t.Errorf("%d bytes were taken: %v", n, err)
		}
		if _, err := w.Finish(); !errors.Is(err, ErrDiskLow) {
			t.Errorf("finished: %v", err)
		}
		w.Abort()
		if _, err := s.NewSnapshotWriter(at); !errors.Is(err, ErrDiskLow) {
			t.Errorf("another one: %v", err)
		}
		if dirs := files(t, mem, "/data", prefix(statePrefix)); len(dirs) != 1 {
			t.Errorf("left: %v", dirs)
		}
		mustClose(t, s)
	}
}

// TestReaderThatComesLate begins between the end of the others and the exchange of the state.
func TestReaderThatComesLate(t *testing.T) {
	noLeaks(t)
	fs, shut, met, open := gateFS(vfs.NewMem(), func(op errorfs.Op) bool { return op.Kind == errorfs.OpRemoveAll && ofState(op) })
	s, _, m := mustOpen(t, testOptions(fs))
	fill(t, s, m, 10, 50)
	other := newWriter(t, s, m.applied)
	installed := install(t, s, m, shut)
	<-met // the other writer's directory is being removed
	r, err := s.SnapshotReader()
	if err != nil {
		t.Fatal(err)
	}
	close(open)
	if err := <-installed; err != nil {
		t.Fatal(err)
	}
	if _, _, err := r.Next(1000); !errors.Is(err, ErrClosed) {
		t.Errorf("reading the replaced state: %v", err)
	}
	other.Abort()
	mustClose(t, s)
}
