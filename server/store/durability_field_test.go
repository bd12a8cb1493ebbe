package store

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/rs/zerolog"

	"github.com/zkserver/zkserver/zab"
)

// The tests of this file are named after the entries of docs/field-reports.md.

// long reports whether the long forms are asked for.
func long() bool { return os.Getenv("ZKSERVER_FULL") != "" }

// everyOperation calls f with a file system that keeps what a power loss would leave before its k-th write, for
// k = 1, 2, 3, ... until f ends without reaching k; check then looks at what was kept.
func everyOperation(t *testing.T, base *vfs.MemFS, f func(fs vfs.FS, arm func()), check func(left *vfs.MemFS, k int)) {
	t.Helper()
	for k := 1; ; k++ {
		d := &disk{mem: base.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: 100, RNG: rand.New(rand.NewPCG(1, 1))}), rng: rand.New(rand.NewPCG(uint64(k), 2))}
		f(d.fs(nil), func() {
			d.mu.Lock()
			d.left = k
			d.mu.Unlock()
		})
		if !d.crashed() {
			t.Logf("%d operations", k-1)
			if k < 3 {
				t.Error("hardly an operation: nothing was shown")
			}
			return
		}
		check(d.clone, k)
		if t.Failed() {
			t.Fatalf("crash at operation %d", k)
		}
	}
}

// sameEntries compares a log with what was written.
func sameEntries(t *testing.T, s *Store, want []zab.Entry) {
	t.Helper()
	got := readAll(t, s)
	if len(got) != len(want) {
		t.Errorf("%d entries, want %d", len(got), len(want))
		return
	}
	for i := range got {
		if got[i].Zxid != want[i].Zxid || !bytes.Equal(got[i].Data, want[i].Data) {
			t.Errorf("entry %v of %d bytes, want %v of %d", got[i].Zxid, len(got[i].Data), want[i].Zxid, len(want[i].Data))
			return
		}
	}
}

// TestFieldA1CutAtEveryByteOfTheLastRecord: whatever is torn off, the records before it are kept byte for byte, and of
// the last one there is all or nothing.
func TestFieldA1CutAtEveryByteOfTheLastRecord(t *testing.T) {
	noLeaks(t)
	base, _ := crashed(t, 40, minMemTable, true)
	wal := newest(t, base)
	n := size(t, base, wal)
	want := entries(z(1, 1), 40, 100)
	last, lost := 40, 0
	for cut := 1; cut <= 200; cut++ {
		fs := copyFS(t, base)
		edit(t, fs, wal, func(b []byte) []byte { return b[:n-cut] })
		s, rec, _ := mustOpen(t, testOptions(fs))
		have := int(rec.Last.Counter())
		if have > last || have < 38 {
			t.Errorf("cut by %d bytes: %d records, %d with a byte more", cut, have, last)
		}
		if last = have; have < 40 {
			lost++
		}
		sameEntries(t, s, want[:have])
		mustClose(t, s)
	}
	if lost < 100 {
		t.Errorf("only %d of 200 cuts cost a record of 100 bytes", lost)
	}
}

// TestFieldA2CrashAtEveryOperationOfASwitch: power is lost at each operation of a switch to a new WAL, and of a start
// (which makes a MANIFEST, a marker and a WAL); then come up to two more empty WALs. Nothing acknowledged is lost.
func TestFieldA2CrashAtEveryOperationOfASwitch(t *testing.T) {
	noLeaks(t)
	base, _ := crashed(t, 40, minMemTable, true)
	want := entries(z(1, 1), 40, 100)
	whole := func(left *vfs.MemFS, k int) {
		for empties := range 3 {
			if !long() && empties != k%3 {
				continue
			}
			fs := copyFS(t, left)
			var num int
			for _, name := range files(t, fs, "/wal/log", suffix(".log")) {
				if _, err := fmt.Sscanf(fs.PathBase(name), "%d.log", &num); err != nil {
					t.Fatal(err)
				}
			}
			for i := range empties {
				edit0(t, fs, fs.PathJoin("/wal/log", fmt.Sprintf("%06d.log", num+1+i)))
			}
			s, _, err := Open(testOptions(fs))
			if err != nil {
				t.Errorf("operation %d, %d empty WALs behind: %v", k, empties, err)
				return
			}
			sameEntries(t, s, want)
			mustClose(t, s)
		}
	}
	t.Run("switch", func(t *testing.T) {
		everyOperation(t, base, func(fs vfs.FS, arm func()) {
			s, _, _ := mustOpen(t, testOptions(fs))
			arm()
			if err := s.logDB.Flush(); err != nil {
				t.Fatal(err)
			}
			mustPersist(t, s, zab.PersistOp{Commit: z(1, 40)})
			if err := s.logDB.Flush(); err != nil {
				t.Fatal(err)
			}
			mustClose(t, s)
		}, whole)
	})
	t.Run("start", func(t *testing.T) {
		everyOperation(t, base, func(fs vfs.FS, arm func()) {
			arm()
			s, _, _ := mustOpen(t, testOptions(fs))
			mustClose(t, s)
		}, whole)
	})
}

// TestFieldA3FlipInTheTail: damage within the last 32 KiB block is taken for a torn write. What lies before it is kept.
func TestFieldA3FlipInTheTail(t *testing.T) {
	noLeaks(t)
	base, _ := crashed(t, 1000, 4<<20, false)
	wal := newest(t, base)
	n := size(t, base, wal)
	want := entries(z(1, 1), 1000, 100)
	for _, at := range []int{n/tail*tail + 200, n/tail*tail + (n-n/tail*tail)/2, n - 20} {
		fs := copyFS(t, base)
		edit(t, fs, wal, flip(at))
		s, rec, _ := mustOpen(t, testOptions(fs))
		have := int(rec.Last.Counter())
		if have < 1000-tail/100 || have > 1000 {
			t.Errorf("flip at %d of %d: %d records", at, n, have)
		}
		sameEntries(t, s, want[:have])
		mustClose(t, s)
	}
}

// TestFieldA6MetByALateRead: a state whose damage is met only when it is sent is not sent, and the log names the file.
func TestFieldA6MetByALateRead(t *testing.T) {
	noLeaks(t)
	fs := vfs.NewMem()
	bad := &badTables{FS: fs}
	o := testOptions(bad)
	var out bytes.Buffer
	o.Log = zerolog.New(zerolog.SyncWriter(&out))
	s, _, m := mustOpen(t, o)
	fill(t, s, m, 300, 200)
	if err := s.FlushState(); err != nil {
		t.Fatal(err)
	}
	tables := files(t, fs, stateDir(t, fs), suffix(".sst"))
	bad.on.Store(true)
	r, err := s.SnapshotReader()
	if err == nil {
		for done := false; err == nil && !done; {
			_, done, err = r.Next(1 << 10)
		}
		if cerr := r.Close(); cerr != nil {
			t.Error(cerr)
		}
	}
	bad.on.Store(false)
	mustClose(t, s) // the log is complete
	named := false
	for _, table := range tables {
		named = named || strings.Contains(out.String(), table)
	}
	if err == nil || !named {
		t.Fatalf("%v are damaged; sending them: %v; logged: %s", tables, err, out.String())
	}
}

// badTables gives, once it is on, tables of the state back with a wrong byte.
type badTables struct {
	vfs.FS
	on atomic.Bool
}

func (b *badTables) Open(name string, opts ...vfs.OpenOption) (vfs.File, error) {
	f, err := b.FS.Open(name, opts...)
	if err == nil && strings.HasPrefix(name, "/data/state.") && strings.HasSuffix(name, ".sst") {
		f = badTable{f, b}
	}
	return f, err
}

type badTable struct {
	vfs.File
	b *badTables
}

func (f badTable) ReadAt(p []byte, off int64) (int, error) {
	n, err := f.File.ReadAt(p, off)
	if n > 0 && f.b.on.Load() {
		p[n/2] ^= 0x20
	}
	return n, err
}

// TestFieldA15RecycledWALs: small memtables and many flushes recycle WAL files, whose old records lie behind their new
// ends. Over many kills no deleted entry comes back and the commit point never goes back; in every third round the state
// is not flushed, so that replay starts far back.
func TestFieldA15RecycledWALs(t *testing.T) {
	noLeaks(t)
	n := 20
	if long() {
		n = 50
	}
	mem := vfs.NewCrashableMem()
	var log []zab.Entry
	var commit zab.Zxid
	recycled := 0
	for round := range n {
		o := testOptions(countReuse{mem, &recycled})
		s, rec, m := mustOpen(t, o)
		if len(log) > 0 && rec.Last != log[len(log)-1].Zxid || rec.Commit < commit || rec.NeedSnap {
			t.Fatalf("round %d: %+v, the commit point was %v", round, rec, commit)
		}
		base, _ := s.LogBounds()
		sameEntries(t, s, log[base.Counter():])
		want := newModel()
		for _, e := range log[:rec.Applied.Counter()] {
			want.apply(e, newChanges())
		}
		want.applied = rec.Applied
		if err := want.equal(m); err != nil {
			t.Fatalf("round %d: state at %v: %v", round, rec.Applied, err)
		}
		for i := range 40 {
			run := entries(z(1, uint32(len(log)+1)), 4, 1500)
			log = append(log, run...)
			commit = run[1].Zxid
			mustPersist(t, s, zab.PersistOp{Append: run, Hard: hard(1, 1), Commit: commit})
			if i%8 == 7 { // what was not delivered is cut, and written again with other data
				to := run[2].Zxid
				log = log[:len(log)-1]
				mustPersist(t, s, zab.PersistOp{Truncate: &to})
				again := entries(to+1, 1, 700)
				again[0].Data[0] ^= 0xff
				log = append(log, again...)
				mustPersist(t, s, zab.PersistOp{Append: again})
			}
			if round%3 != 2 {
				writeState(t, s, m, log[m.applied.Counter():commit.Counter()])
			}
		}
		if round%3 == 1 {
			if err := s.FlushState(); err != nil {
				t.Fatal(err)
			}
			if _, _, err := s.CutLog(noCursor); err != nil {
				t.Fatal(err)
			}
		}
		clone := mem.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: 50, RNG: rand.New(rand.NewPCG(uint64(round), 3))})
		mustClose(t, s)
		mem = clone
	}
	t.Logf("%d recycled", recycled)
	if recycled < n {
		t.Errorf("%d WALs were recycled in %d rounds: nothing was shown", recycled, n)
	}
}

// countReuse counts recycled WALs. One goroutine of Pebble at a time switches WALs.
type countReuse struct {
	vfs.FS
	n *int
}

func (c countReuse) ReuseForWrite(oldName, newName string, cat vfs.DiskWriteCategory) (vfs.File, error) {
	*c.n++
	return c.FS.ReuseForWrite(oldName, newName, cat)
}
