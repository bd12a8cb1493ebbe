package store

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/rs/zerolog"

	"github.com/zkserver/zkserver/zab"
	"github.com/zkserver/zkserver/znode"
)

// copyFS copies a tree of files into a fresh memory file system, so that each damage begins from the same store.
func copyFS(t *testing.T, from vfs.FS) *vfs.MemFS {
	t.Helper()
	to := vfs.NewMem()
	for _, dir := range []string{"/data", "/wal"} {
		if _, err := vfs.Clone(from, to, dir, dir); err != nil {
			t.Fatal(err)
		}
	}
	return to
}

// files lists what lies in a directory with that prefix or suffix, ascending.
func files(t *testing.T, fs vfs.FS, dir string, match func(string) bool) []string {
	t.Helper()
	names, err := fs.List(dir)
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, n := range names {
		if match(n) {
			out = append(out, fs.PathJoin(dir, n))
		}
	}
	slices.Sort(out)
	return out
}

func suffix(s string) func(string) bool {
	return func(n string) bool { return strings.HasSuffix(n, s) }
}
func prefix(s string) func(string) bool {
	return func(n string) bool { return strings.HasPrefix(n, s) }
}

func stateDir(t *testing.T, fs vfs.FS) string {
	t.Helper()
	dirs := files(t, fs, "/data", prefix(statePrefix))
	if len(dirs) != 1 {
		t.Fatalf("state directories %v", dirs)
	}
	return dirs[0]
}

// edit changes a file in place.
func edit(t *testing.T, fs *vfs.MemFS, name string, change func(b []byte) []byte) {
	t.Helper()
	b, err := fs.UnsafeGetFileDataBuffer(name)
	if err != nil {
		t.Fatal(err)
	}
	b = change(slices.Clone(b))
	f, err := fs.Create(name, vfs.WriteCategoryUnspecified)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.Write(b); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(f.Sync(), f.Close()); err != nil {
		t.Fatal(err)
	}
}

func flip(at int) func([]byte) []byte {
	return func(b []byte) []byte {
		b[at] ^= 0x20
		return b
	}
}

func size(t *testing.T, fs vfs.FS, name string) int {
	t.Helper()
	i, err := fs.Stat(name)
	if err != nil {
		t.Fatal(err)
	}
	return int(i.Size())
}

// snapshotOf says whether a refused start has changed anything.
func snapshotOf(t *testing.T, fs *vfs.MemFS) string {
	t.Helper()
	var b strings.Builder
	var walk func(dir string)
	walk = func(dir string) {
		for _, n := range files(t, fs, dir, func(n string) bool { return n != lockName }) {
			if i, err := fs.Stat(n); err == nil && i.IsDir() {
				walk(n)
			} else if err == nil {
				data, _ := fs.UnsafeGetFileDataBuffer(n)
				fmt.Fprintf(&b, "%s %d %x\n", n, i.Size(), data[:min(len(data), 64)])
			}
		}
	}
	walk("/data")
	walk("/wal")
	return b.String()
}

// refused starts and wants a DamageError that names file, with nothing changed.
func refused(t *testing.T, fs *vfs.MemFS, file string) {
	t.Helper()
	before := snapshotOf(t, fs)
	s, rec, err := Open(testOptions(fs))
	if err == nil {
		mustClose(t, s)
		t.Fatalf("%s is damaged, and it started: %+v", file, rec)
	}
	var d *DamageError
	if !errors.As(err, &d) {
		t.Fatalf("%s is damaged: %v", file, err)
	}
	if !strings.HasPrefix(d.File, "/wal/log") || d.Do == "" || file != "" && d.File != file {
		t.Errorf("damage of %s is reported as %v", file, err)
	}
	if after := snapshotOf(t, fs); after != before {
		t.Errorf("a refused start changed the disk:\n%s\nbefore:\n%s", after, before)
	}
}

// crashed is a store as kill -9 leaves it: n entries of 100 bytes, each synced alone, the state flushed at half of
// them.
func crashed(t *testing.T, n int, memTable int64, flushState bool) (*vfs.MemFS, *model) {
	t.Helper()
	mem := vfs.NewCrashableMem()
	o := testOptions(mem)
	o.MemTable = memTable
	s, _, m := mustOpen(t, o)
	run := entries(z(1, 1), n, 100)
	for i := range run {
		mustPersist(t, s, zab.PersistOp{Append: run[i : i+1], Hard: hard(1, 1), Commit: z(1, uint32(i+1)/2)})
	}
	writeState(t, s, m, run[:n/2])
	if flushState {
		if err := s.FlushState(); err != nil {
			t.Fatal(err)
		}
	}
	clone := mem.CrashClone(vfs.CrashCloneCfg{})
	mustClose(t, s)
	return clone, m
}

func newest(t *testing.T, fs vfs.FS) string {
	t.Helper()
	logs := files(t, fs, "/wal/log", suffix(".log"))
	return logs[len(logs)-1]
}

const tail = 32 << 10

func TestFlippedBitBeforeTheTailIsRefused(t *testing.T) {
	noLeaks(t)
	base, _ := crashed(t, 1000, 4<<20, false)
	wal := newest(t, base)
	n := size(t, base, wal)
	if n < 3*tail {
		t.Fatalf("the WAL has %d bytes", n)
	}
	for _, at := range []int{n * 6 / 10, tail / 2, n/tail*tail - 60} {
		fs := copyFS(t, base)
		edit(t, fs, wal, flip(at))
		refused(t, fs, wal)
	}
}

func TestTornTailStarts(t *testing.T) {
	noLeaks(t)
	base, m := crashed(t, 40, minMemTable, true)
	wal := newest(t, base)
	n := size(t, base, wal)
	random := func(n int) []byte {
		b := make([]byte, n)
		for i := range b {
			b[i] = byte(i*7919 + i>>3)
		}
		return b
	}
	cases := map[string]func([]byte) []byte{
		"random bytes behind it": func(b []byte) []byte { return append(b, random(70_000)...) },
		"zeros behind it":        func(b []byte) []byte { return append(b, make([]byte, 70_000)...) },
		"last record zeroed":     func(b []byte) []byte { return append(b[:n-100], make([]byte, 100)...) },
		"last record random":     func(b []byte) []byte { return append(b[:n-100], random(100)...) },
	}
	for cut := 1; cut <= 170; cut += 13 {
		cases[fmt.Sprintf("cut by %d", cut)] = func(b []byte) []byte { return b[:n-cut] }
	}
	for name, change := range cases {
		t.Run(name, func(t *testing.T) {
			fs := copyFS(t, base)
			edit(t, fs, wal, change)
			var out bytes.Buffer
			o := testOptions(fs)
			o.Log = zerolog.New(&out)
			s, rec, got := mustOpen(t, o)
			if n := strings.Count(out.String(), `"offset":`); n != 1 && name != "zeros behind it" {
				t.Errorf("%d warnings: %s", n, out.String())
			}
			if rec.Last < z(1, 38) || rec.Last > z(1, 40) || rec.Applied != z(1, 20) || rec.NeedSnap {
				t.Errorf("%+v", rec)
			}
			if all := readAll(t, s); len(all) != int(rec.Last.Counter()) {
				t.Errorf("%d entries up to %v", len(all), rec.Last)
			}
			if err := m.equal(got); err != nil {
				t.Error(err)
			}
			// And it goes on, over more restarts.
			mustPersist(t, s, zab.PersistOp{Append: entries(rec.Last+1, 1, 10)})
			mustClose(t, s)
			s, rec2, _ := mustOpen(t, testOptions(fs))
			if rec2.Last != rec.Last+1 {
				t.Errorf("%v after %v", rec2.Last, rec.Last)
			}
			mustClose(t, s)
		})
	}
}

// TestTornFirstRecord: a WAL whose only record is torn, behind it the WAL of a start that a crash cut short.
func TestTornFirstRecord(t *testing.T) {
	noLeaks(t)
	mem := vfs.NewCrashableMem()
	s, _, m := mustOpen(t, testOptions(mem))
	fill(t, s, m, 5, 10)
	mustClose(t, s)
	s, _, _ = mustOpen(t, testOptions(mem))
	mustPersist(t, s, zab.PersistOp{Append: entries(z(1, 6), 1, 500)})
	clone := mem.CrashClone(vfs.CrashCloneCfg{})
	mustClose(t, s)
	wal := newest(t, clone)
	n := size(t, clone, wal)
	for _, keep := range []int{0, 1, 10, n / 2, n - 1} {
		for empties := range 3 {
			fs := copyFS(t, clone)
			edit(t, fs, wal, func(b []byte) []byte { return b[:keep] })
			var num int
			if _, err := fmt.Sscanf(fs.PathBase(wal), "%d.log", &num); err != nil {
				t.Fatal(err)
			}
			for i := range empties {
				edit0(t, fs, fs.PathJoin("/wal/log", fmt.Sprintf("%06d.log", num+2+i)))
			}
			s, rec, _ := mustOpen(t, testOptions(fs))
			if rec.Last != z(1, 5) {
				t.Fatalf("kept %d, %d empty: %+v", keep, empties, rec)
			}
			mustClose(t, s)
		}
	}
}

func edit0(t *testing.T, fs vfs.FS, name string) {
	t.Helper()
	f, err := fs.Create(name, vfs.WriteCategoryUnspecified)
	if err == nil {
		err = errors.Join(f.Sync(), f.Close())
	}
	if err != nil {
		t.Fatal(err)
	}
}

func TestEmptiedWALIsRefused(t *testing.T) {
	noLeaks(t)
	fs, _ := crashed(t, 300, 4<<20, true)
	wal := newest(t, fs)
	edit(t, fs, wal, func([]byte) []byte { return nil })
	refused(t, fs, "")
}

// TestManifestFlipOfTheLog: whatever byte of it, the start is refused or finds everything.
func TestManifestFlipOfTheLog(t *testing.T) {
	noLeaks(t)
	base, m := crashed(t, 3000, minMemTable, true)
	manifest := files(t, base, "/wal/log", prefix("MANIFEST-"))
	name := manifest[len(manifest)-1]
	n := size(t, base, name)
	refusals, whole := 0, 0
	for i := range 40 {
		fs := copyFS(t, base)
		edit(t, fs, name, flip(n*i/40))
		before := snapshotOf(t, fs)
		s, rec, err := Open(testOptions(fs))
		if err != nil {
			var d *DamageError
			if !errors.As(err, &d) || !strings.HasPrefix(d.File, "/wal/log") {
				t.Errorf("flip at %d of %d: %v", n*i/40, n, err)
			}
			if after := snapshotOf(t, fs); after != before {
				t.Errorf("flip at %d of %d: the refused start changed the disk", n*i/40, n)
			}
			refusals++
			continue
		}
		got := newModel()
		if err := s.load(got); err != nil {
			t.Fatal(err)
		}
		if rec.Last != z(1, 3000) || len(readAll(t, s)) != 3000 || m.equal(got) != nil {
			t.Errorf("flip at %d of %d: started with %v", n*i/40, n, rec.Last)
		}
		whole++
		mustClose(t, s)
	}
	t.Logf("%d refused, %d whole", refusals, whole)
	if refusals == 0 {
		t.Error("no flip was noticed")
	}
}

func TestMissingOrDamagedTableOfTheLog(t *testing.T) {
	noLeaks(t)
	base, _ := crashed(t, 3000, minMemTable, true)
	for _, table := range files(t, base, "/wal/log", suffix(".sst")) {
		fs := copyFS(t, base)
		if err := fs.Remove(table); err != nil {
			t.Fatal(err)
		}
		refusedOrWhole(t, fs, table) // a crash leaves tables that nothing refers to any more
		if size(t, base, table) == 0 {
			continue // just begun
		}
		for _, part := range []int{10, 50, 99} {
			fs = copyFS(t, base)
			edit(t, fs, table, flip(size(t, fs, table)*part/100))
			refusedOrWhole(t, fs, table)
		}
	}
}

// refusedOrWhole: a flip may hit what nobody reads (properties, padding); then everything must be there.
func refusedOrWhole(t *testing.T, fs *vfs.MemFS, file string) {
	t.Helper()
	s, rec, err := Open(testOptions(fs))
	if err != nil {
		var d *DamageError
		if !errors.As(err, &d) || d.File != file {
			t.Errorf("%s: %v", file, err)
		}
		return
	}
	if n := len(readAll(t, s)); n != 3000 || rec.Last != z(1, 3000) {
		t.Errorf("%s: started with %d entries", file, n)
	}
	mustClose(t, s)
}

func TestMissingLog(t *testing.T) {
	noLeaks(t)
	base, _ := cutStore(t)
	fs := copyFS(t, base)
	if err := fs.RemoveAll("/wal/log"); err != nil {
		t.Fatal(err)
	}
	if _, _, err := Open(testOptions(fs)); !errors.Is(err, ErrMissingLog) {
		t.Fatal(err)
	}
	// The two directories exchanged.
	o := testOptions(copyFS(t, base))
	o.DataDir, o.LogDir = o.LogDir, o.DataDir
	if _, _, err := Open(o); !errors.Is(err, ErrMissingLog) {
		t.Fatal(err)
	}
}

func TestForeignDirectories(t *testing.T) {
	noLeaks(t)
	one, _ := cutStore(t)
	var f *ForeignError
	o := testOptions(copyFS(t, one))
	o.Server = 4
	if _, _, err := Open(o); !errors.As(err, &f) || f.Server != 3 || f.WantServer != 4 {
		t.Fatal(err)
	}
	// The state of another member, under the name that log/ knows.
	two := vfs.NewMem()
	o = testOptions(two)
	o.Instance = 78
	s, _, _ := mustOpen(t, o)
	mustClose(t, s)
	mixed := copyFS(t, one)
	name := stateDir(t, mixed)
	if err := mixed.RemoveAll(name); err != nil {
		t.Fatal(err)
	}
	if _, err := vfs.Clone(two, mixed, stateDir(t, two), name); err != nil {
		t.Fatal(err)
	}
	if _, _, err := Open(testOptions(mixed)); !errors.As(err, &f) || f.Instance != 78 || f.Want != 77 {
		t.Fatal(err)
	}
}

func TestJavaDirectoriesAreRefused(t *testing.T) {
	noLeaks(t)
	for _, name := range []string{
		"/data/version-2/snapshot.100000000", "/data/version-2/snapshot.25.snappy", "/wal/version-2/log.1", "/data/log.1f",
	} {
		fs := vfs.NewMem()
		if err := fs.MkdirAll(fs.PathDir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		edit0(t, fs, name)
		_, _, err := Open(testOptions(fs))
		if !errors.Is(err, ErrJavaData) || !strings.Contains(err.Error(), fs.PathBase(name)) {
			t.Errorf("%s: %v", name, err)
		}
		if names, _ := fs.List("/wal"); slices.Contains(names, "log") {
			t.Errorf("%s: something was created", name)
		}
	}
	fs := vfs.NewMem()
	if err := fs.MkdirAll("/data/version-2", 0o755); err != nil {
		t.Fatal(err)
	}
	edit0(t, fs, "/data/myid")
	s, _, _ := mustOpen(t, testOptions(fs))
	mustClose(t, s)
}

func TestNewerFormats(t *testing.T) {
	noLeaks(t)
	fs, _ := cutStore(t)
	s, _, _ := mustOpen(t, testOptions(fs))
	id := identity{format: formatVersion + 1, server: 3, instance: 77}
	b := s.logDB.NewBatch()
	if err := b.Set([]byte(keyIdentity), append(id.encode(), "more"...), nil); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(s.logDB.Apply(b, nil), b.Close()); err != nil {
		t.Fatal(err)
	}
	mustClose(t, s)
	if _, _, err := Open(testOptions(fs)); !errors.Is(err, ErrNewerFormat) {
		t.Fatal(err)
	}
	fs, _ = cutStore(t)
	s, _, _ = mustOpen(t, testOptions(fs))
	if err := s.state.db.RatchetFormatMajorVersion(pebbleFormat + 1); err != nil {
		t.Fatal(err)
	}
	mustClose(t, s)
	if _, _, err := Open(testOptions(fs)); !errors.Is(err, ErrNewerFormat) {
		t.Fatal(err)
	}
}

// TestBrokenPromisesAreRefused: what no version of ours writes, but a restored or edited directory may hold.
func TestBrokenPromisesAreRefused(t *testing.T) {
	noLeaks(t)
	for name, h := range map[string]hardRecord{
		"epoch 2^31":             {hard: zab.HardState{Accepted: 1 << 31, Current: 1}, commit: z(1, 200), last: z(1, 200)},
		"current above accepted": {hard: zab.HardState{Accepted: 1, Current: 2}, commit: z(1, 200), last: z(1, 200)},
		"end above current":      {hard: zab.HardState{Accepted: 1, Current: 0}, commit: z(1, 200), last: z(1, 200)},
		"commit beyond the end":  {hard: zab.HardState{Accepted: 1, Current: 1}, commit: z(1, 201), last: z(1, 200)},
		"end beyond the entries": {hard: zab.HardState{Accepted: 1, Current: 1}, commit: z(1, 200), last: z(1, 201)},
		"entries beyond the end": {hard: zab.HardState{Accepted: 1, Current: 1}, commit: z(1, 199), last: z(1, 199)},
		"commit below the base":  {hard: zab.HardState{Accepted: 1, Current: 1}, commit: z(1, 1), last: z(1, 200)},
		"an epoch without a row": {hard: zab.HardState{Accepted: 2, Current: 2}, commit: z(1, 200), last: z(2, 1)},
	} {
		t.Run(name, func(t *testing.T) {
			fs, _ := cutStore(t)
			s, _, _ := mustOpen(t, testOptions(fs))
			if err := s.logDB.Set([]byte(keyHard), h.append(nil), nil); err != nil {
				t.Fatal(err)
			}
			mustClose(t, s)
			refused(t, fs, "")
		})
	}
}

// TestHoleIsRefused: entries that are simply gone.
func TestHoleIsRefused(t *testing.T) {
	noLeaks(t)
	for _, gone := range []zab.Zxid{z(1, 101), z(1, 150), z(1, 200)} {
		fs, _ := cutStore(t)
		s, _, _ := mustOpen(t, testOptions(fs))
		if gone == z(1, 101) {
			base, _ := s.LogBounds()
			gone = base + 1
		}
		if err := s.logDB.Delete(entryKey(gone), nil); err != nil {
			t.Fatal(err)
		}
		mustClose(t, s)
		refused(t, fs, "")
	}
}

func TestWrongDigestSetsTheStateAside(t *testing.T) {
	noLeaks(t)
	fs, m := cutStore(t)
	s, _, _ := mustOpen(t, testOptions(fs))
	a := s.state.applied
	a.digests.Tree++
	if err := s.state.db.Set([]byte{keyApplied}, a.append(nil), nil); err == nil {
		t.Fatal("synced without a WAL")
	}
	pb := s.state.db.NewBatch()
	a.digests = znode.Digests{Tree: 1}
	if err := s.state.commit(pb, a); err != nil {
		t.Fatal(err)
	}
	mustClose(t, s)
	needsSnap(t, fs, m, "")
}
