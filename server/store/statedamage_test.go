package store

import (
	"errors"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/zkserver/zkserver/zab"
)

// cutStore has a state at 1:200 and a log that begins behind 1:100.
func cutStore(t *testing.T) (*vfs.MemFS, *model) {
	t.Helper()
	fs := vfs.NewMem()
	o := testOptions(fs)
	o.DiffCount = 100
	s, _, m := mustOpen(t, o)
	for i := range 200 {
		run := entries(z(1, uint32(i+1)), 1, 200)
		mustPersist(t, s, zab.PersistOp{Append: run, Hard: hard(1, 1), Commit: run[0].Zxid})
		writeState(t, s, m, run)
	}
	if err := s.FlushState(); err != nil {
		t.Fatal(err)
	}
	if base, cut, err := s.CutLog(noCursor); err != nil || !cut || base > z(1, 100) {
		t.Fatal(base, cut, err)
	}
	mustClose(t, s)
	return fs, m
}

// needsSnap opens and wants a state to be asked for, then installs one and goes on with it.
func needsSnap(t *testing.T, fs *vfs.MemFS, m *model, named string) {
	t.Helper()
	o := testOptions(fs)
	s, _, err := Open(o)
	if err != nil {
		t.Errorf("%s: %v", named, err)
		return
	}
	got := newModel()
	if err := s.load(got); errors.Is(err, ErrStateDamaged) {
		got = newModel()
		if err := s.load(got); err != nil {
			t.Error(err)
		}
	} else if err != nil {
		t.Errorf("%s: load: %v", named, err)
	}
	rec := s.Recovered()
	if !rec.NeedSnap || rec.Damage == nil || rec.Applied != 0 || !strings.HasPrefix(rec.Damage.File, "/data/state.") {
		// What was hit is read by nobody, or it cost the end of the state: then it is an exact prefix that the log bridges.
		prefix := newModel()
		for _, e := range entries(z(1, 1), int(rec.Applied.Counter()), 200) {
			prefix.apply(e, newChanges())
		}
		if !rec.NeedSnap && rec.Applied >= rec.Base && prefix.equal(got) == nil {
			mustClose(t, s)
			return
		}
		t.Errorf("%s: %+v, %v", named, rec, rec.Damage)
		mustClose(t, s)
		return
	}
	if named != "" && rec.Damage.File != named {
		t.Errorf("damage of %s reported as %v", named, rec.Damage)
	}
	if err := s.WriteState(&StateBatch{Applied: rec.Last}); !errors.Is(err, ErrNoState) {
		t.Errorf("writing: %v", err)
	}
	if _, err := s.SnapshotReader(); !errors.Is(err, ErrNoState) {
		t.Errorf("reading: %v", err)
	}
	w, err := s.NewSnapshotWriter(m.applied)
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Write(m.stream()); err != nil {
		t.Fatal(err)
	}
	dir, err := w.Finish()
	if err != nil {
		t.Fatal(err)
	}
	mustPersist(t, s, zab.PersistOp{Install: &zab.Install{Dir: dir, Zxid: m.applied, Common: rec.Last}, Hard: hard(1, 1)})
	got = newModel()
	if err := s.load(got); err != nil {
		t.Fatal(err)
	}
	if err := m.equal(got); err != nil {
		t.Fatal(err)
	}
	mustClose(t, s)
	s, rec, got = mustOpen(t, o)
	if rec.NeedSnap || rec.Base != m.applied || rec.Applied != m.applied {
		t.Errorf("after the snapshot: %+v", rec)
	}
	if err := m.equal(got); err != nil {
		t.Error(err)
	}
	if "/data/"+dir != stateDir(t, fs) {
		t.Errorf("%s is not the only state", dir)
	}
	mustClose(t, s)
}

func TestDamagedStateAsksForASnapshot(t *testing.T) {
	noLeaks(t)
	base, m := cutStore(t)
	dir := stateDir(t, base)
	for _, table := range files(t, base, dir, suffix(".sst")) {
		for part := 0; part < 100; part += 11 {
			fs := copyFS(t, base)
			edit(t, fs, table, flip(size(t, fs, table)*part/100))
			needsSnap(t, fs, m, table)
		}
		fs := copyFS(t, base)
		if err := fs.Remove(table); err != nil {
			t.Fatal(err)
		}
		needsSnap(t, fs, m, table)
	}
}

// TestManifestFlipOfTheState: an older exact prefix that the log bridges, or a snapshot is asked for.
func TestManifestFlipOfTheState(t *testing.T) {
	noLeaks(t)
	base, m := cutStore(t)
	manifests := files(t, base, stateDir(t, base), prefix("MANIFEST-"))
	name := manifests[len(manifests)-1]
	n := size(t, base, name)
	for i := range 20 {
		fs := copyFS(t, base)
		edit(t, fs, name, flip(n*i/20))
		needsSnap(t, fs, m, "")
	}
}

func TestDamagedStateIsRebuiltFromACompleteLog(t *testing.T) {
	noLeaks(t)
	fs, _ := crashed(t, 100, minMemTable, true)
	for _, table := range files(t, fs, stateDir(t, fs), suffix(".sst")) {
		edit(t, fs, table, flip(size(t, fs, table)/3))
		edit(t, fs, table, flip(size(t, fs, table)-20))
	}
	s, rec, got := mustOpen(t, testOptions(fs))
	if rec.NeedSnap || rec.Damage == nil || rec.Applied != 0 || rec.Last != z(1, 100) || got.applied != 0 {
		t.Fatalf("%+v", rec)
	}
	m := newModel()
	writeState(t, s, m, readAll(t, s))
	mustClose(t, s)
	s, rec, got = mustOpen(t, testOptions(fs))
	if rec.Damage != nil || rec.Applied != z(1, 100) {
		t.Fatalf("%+v", rec)
	}
	if err := m.equal(got); err != nil {
		t.Fatal(err)
	}
	mustClose(t, s)
}

func TestMissingState(t *testing.T) {
	noLeaks(t)
	base, _ := cutStore(t)
	name := stateDir(t, base)
	for _, only := range []bool{false, true} { // the directory, or only what is in it
		fs := copyFS(t, base)
		if err := fs.RemoveAll(name); err != nil {
			t.Fatal(err)
		}
		if only {
			if err := fs.MkdirAll(name, 0o755); err != nil {
				t.Fatal(err)
			}
		}
		if err := fs.MkdirAll("/data/state.0.1", 0o755); err != nil { // an older, unnamed one beside it
			t.Fatal(err)
		}
		_, _, err := Open(testOptions(fs))
		if !errors.Is(err, ErrMissingState) || !strings.Contains(err.Error(), name) {
			t.Fatalf("contents only %t: %v", only, err)
		}
		o := testOptions(fs)
		o.Rebuild = true
		s, rec, err := Open(o)
		if err != nil || !rec.NeedSnap || rec.Last != z(1, 200) {
			t.Fatal(rec, err)
		}
		mustClose(t, s)
		o.Rebuild = false
	}
	// A log that is complete rebuilds it.
	fs, _ := crashed(t, 50, minMemTable, true)
	if err := fs.RemoveAll(stateDir(t, fs)); err != nil {
		t.Fatal(err)
	}
	s, rec, _ := mustOpen(t, testOptions(fs))
	if rec.NeedSnap || rec.Applied != 0 || rec.Last != z(1, 50) {
		t.Fatalf("%+v", rec)
	}
	mustClose(t, s)
}
