package store

import (
	"fmt"
	"os"
	"runtime"
	"strconv"
	"testing"
	"time"

	"github.com/zkserver/zkserver/zab"
	"github.com/zkserver/zkserver/znode"
)

// BenchmarkPersist: one op of n entries of 200 B, one sync, on the real disk.
func BenchmarkPersist(b *testing.B) {
	for _, n := range []int{1, 16, 256} {
		b.Run(fmt.Sprintf("entries=%d", n), func(b *testing.B) {
			o := testOptions(nil)
			o.DataDir, o.LogDir, o.MemTable, o.Cache = b.TempDir(), "", 0, 0
			s, _, err := Open(o)
			if err != nil {
				b.Fatal(err)
			}
			next := z(1, 1)
			b.ReportAllocs()
			for b.Loop() {
				op := zab.PersistOp{Append: entries(next, n, 200), Hard: hard(1, 1), Commit: next - 1}
				next += zab.Zxid(n)
				if err := s.Persist([]zab.PersistOp{op}); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(n)*float64(b.N)/b.Elapsed().Seconds(), "entries/s")
			if err := s.Close(); err != nil {
				b.Fatal(err)
			}
		})
	}
}

// TestReloadLarge prints what a restart costs: STORE_NODES znodes of 100 B, all written as a host writes them. Off by
// default.
func TestReloadLarge(t *testing.T) {
	n, err := strconv.Atoi(os.Getenv("STORE_NODES"))
	if err != nil {
		t.Skip("STORE_NODES is not set")
	}
	o := testOptions(nil)
	o.DataDir, o.LogDir, o.MemTable, o.Cache = t.TempDir(), "", 0, 0
	newTree := func() *znode.Tree { return znode.NewTree(znode.Options{}) }
	s, _, tree, err := OpenTree(o, newTree)
	if err != nil {
		t.Fatal(err)
	}
	start := time.Now()
	acl := []znode.ACL{{Perms: znode.PermAll, Scheme: "world", ID: "anyone"}}
	prep, applied := znode.NewPreparer(tree), znode.Applied{}
	auth := []znode.AuthID{{Scheme: "ip", ID: "127.0.0.1"}}
	zx := z(1, 0)
	do := func(r *znode.Request) *znode.Txn {
		zx++
		txn := prep.Prepare(r, int64(zx), 1000)
		tree.Apply(txn, &applied)
		prep.Applied(int64(zx))
		if applied.Result.Code != 0 {
			t.Fatal(r.Op, r.Path, applied.Result.Code)
		}
		return txn
	}
	var run []zab.Entry
	batch := &StateBatch{}
	flush := func() {
		if len(run) == 0 {
			return
		}
		if err := s.Persist([]zab.PersistOp{{Append: run, Hard: hard(1, 1), Commit: zx}}); err != nil {
			t.Fatal(err)
		}
		batch.Applied, batch.Digests = zx, tree.Digests()
		if err := s.WriteState(batch); err != nil {
			t.Fatal(err)
		}
		run, batch = nil, &StateBatch{}
	}
	touch := func(txn *znode.Txn) {
		run = append(run, zab.Entry{Zxid: zx, Data: znode.AppendTxn(nil, txn)})
		for _, c := range applied.Changes {
			r, _ := tree.Record(c.Path)
			batch.Nodes = append(batch.Nodes, StateNode{Path: c.Path, Record: r, DataToo: c.Data})
		}
		for _, id := range applied.Sessions {
			sess, _ := tree.Session(id)
			batch.Sessions = append(batch.Sessions, sess)
		}
		if len(run) >= 2000 {
			flush()
		}
	}
	touch(do(&znode.Request{Op: znode.OpCreateSession, Session: 1, Timeout: 1000}))
	data := make([]byte, 100)
	for i := 0; i < n; i++ {
		parent := fmt.Sprintf("/group-%06d", i/1000)
		if i%1000 == 0 {
			touch(do(&znode.Request{Op: znode.OpCreate, Session: 1, Auth: auth, Path: parent, ACL: acl, TTL: -1}))
		}
		touch(do(&znode.Request{
			Op: znode.OpCreate, Session: 1, Auth: auth, Path: fmt.Sprintf("%s/member-%010d", parent, i), ACL: acl, Data: data, TTL: -1,
		}))
	}
	flush()
	t.Logf("written: %v", time.Since(start))
	if base, _, err := s.CutLog(noCursor); err != nil {
		t.Fatal(base, err)
	}
	t.Logf("%+v", s.Metrics())
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	tree, prep = nil, nil
	runtime.GC()
	start = time.Now()
	s, rec, err := Open(o)
	if err != nil {
		t.Fatal(err)
	}
	opened := time.Since(start)
	tree = newTree()
	start = time.Now()
	if err := s.LoadTree(tree); err != nil {
		t.Fatal(err)
	}
	loaded := time.Since(start)
	var ms runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&ms)
	t.Logf("open %v (log (%v, %v]), load %v of %d nodes, heap %d MiB", opened, rec.Base, rec.Last, loaded, tree.NodeCount(), ms.HeapAlloc>>20)
	start = time.Now()
	m := nullTree{}
	if err := s.state.loadInto(&m); err == nil || m.n != tree.NodeCount() {
		t.Fatal(m.n, err)
	}
	t.Logf("scan alone: %v", time.Since(start))
	start = time.Now()
	r, err := s.SnapshotReader()
	if err != nil {
		t.Fatal(err)
	}
	w, err := s.NewSnapshotWriter(r.Zxid())
	if err != nil {
		t.Fatal(err)
	}
	total := 0
	for done := false; !done; {
		var chunk []byte
		if chunk, done, err = r.Next(256 << 10); err != nil {
			t.Fatal(err)
		}
		if err := w.Write(chunk); err != nil {
			t.Fatal(err)
		}
		total += len(chunk)
	}
	if _, err := w.Finish(); err != nil {
		t.Fatal(err)
	}
	t.Logf("snapshot of %d MB sent and received in %v", total/1e6, time.Since(start))
	w.Abort()
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}

// nullTree counts.
type nullTree struct{ n int }

func (t *nullTree) Load(znode.NodeRecord) error       { t.n++; return nil }
func (t *nullTree) LoadSession(znode.Session) error   { return nil }
func (t *nullTree) Loaded(int64, znode.Digests) error { return fmt.Errorf("a null tree") }
func (t *nullTree) Digests() (d znode.Digests)        { return d }
func (t *nullTree) Walk(func(znode.NodeRecord) bool)  {}
