package store

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/zkserver/zkserver/zab"
	"github.com/zkserver/zkserver/znode"
)

// sampleModel has long and short data, several lists, sessions, and names that sort differently as paths and as keys.
func sampleModel(n int) *model {
	m, c := newModel(), newChanges()
	for _, e := range entries(z(2, 1), n, 30) {
		m.apply(e, c)
	}
	for _, p := range []string{"/a", "/a-b", "/a/b", "/a.b"} {
		m.nodes[p] = znode.NodeRecord{Path: p, Czxid: 1, Mzxid: 2, ACL: openACL, Data: []byte(p)}
	}
	m.sessions[-5] = znode.Session{ID: -5, Timeout: 9}
	return m
}

func newWriter(t *testing.T, s *Store, at zab.Zxid) *SnapshotWriter {
	t.Helper()
	w, err := s.NewSnapshotWriter(at)
	if err != nil {
		t.Fatal(err)
	}
	return w
}

func TestSnapshotWhileWritesGoOn(t *testing.T) {
	noLeaks(t)
	s, _, m := mustOpen(t, testOptions(vfs.NewMem()))
	defer mustClose(t, s)
	fill(t, s, m, 300, 50)
	r, err := s.SnapshotReader()
	if err != nil {
		t.Fatal(err)
	}
	want := newModel()
	for _, e := range readAll(t, s) {
		want.apply(e, newChanges())
	}
	more := entries(z(1, 301), 200, 50)
	mustPersist(t, s, zab.PersistOp{Append: more, Commit: z(1, 500)})
	var stream []byte
	for i, done := 0, false; !done; i++ {
		if i < len(more) {
			writeState(t, s, m, more[i:i+1])
		}
		var chunk []byte
		if chunk, done, err = r.Next(2000); err != nil || len(chunk) > 2000 {
			t.Fatal(len(chunk), err)
		}
		stream = append(stream, chunk...)
	}
	if r.Zxid() != z(1, 300) || r.Digests() != want.Digests() {
		t.Errorf("at %v", r.Zxid())
	}
	if err := errors.Join(r.Close(), r.Close()); err != nil {
		t.Error(err)
	}
	got, err := decodeStream(stream, z(1, 300))
	if err != nil {
		t.Fatal(err)
	}
	if err := want.equal(got); err != nil {
		t.Fatal(err)
	}
}

func TestSnapshotStreamDamage(t *testing.T) {
	noLeaks(t)
	m := sampleModel(120)
	stream := m.stream()
	s, _, _ := mustOpen(t, testOptions(vfs.NewMem()))
	defer mustClose(t, s)
	feed := func(b []byte) error {
		w := newWriter(t, s, m.applied)
		defer w.Abort()
		for len(b) > 0 {
			n := min(len(b), 7001)
			if err := w.Write(b[:n]); err != nil {
				return err
			}
			b = b[n:]
		}
		_, err := w.Finish()
		return err
	}
	if err := feed(stream); err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(stream); i += 1 + len(stream)/60 {
		b := bytes.Clone(stream)
		b[i] ^= 4
		if err := feed(b); !errors.Is(err, ErrBadSnapshot) {
			t.Errorf("a flip at %d: %v", i, err)
		}
		if err := feed(stream[:i]); !errors.Is(err, ErrBadSnapshot) {
			t.Errorf("an end at %d: %v", i, err)
		}
	}
	if err := feed(append(bytes.Clone(stream), stream...)); !errors.Is(err, ErrBadSnapshot) {
		t.Errorf("twice: %v", err)
	}
	w := newWriter(t, s, m.applied+1)
	if err := w.Write(stream); !errors.Is(err, ErrBadSnapshot) {
		t.Errorf("another zxid: %v", err)
	}
	w.Abort()
	if left := files(t, s.o.FS, "/data", prefix(statePrefix)); len(left) != 1 {
		t.Errorf("left behind: %v", left)
	}
}

// TestSnapshotStructure: blocks that are whole, with records that no leader sends.
func TestSnapshotStructure(t *testing.T) {
	noLeaks(t)
	s, _, _ := mustOpen(t, testOptions(vfs.NewMem()))
	defer mustClose(t, s)
	type rec struct {
		kind byte
		body []byte
	}
	node := func(path string, acl uint32) rec {
		return rec{recNode, appendNodeBody(nil, &znode.NodeRecord{Path: path, ACL: openACL}, acl)}
	}
	sess := func(id uint64) rec {
		return rec{recSession, appendSession(order.AppendUint64(nil, id), &znode.Session{})}
	}
	end := func(nodes, sessions uint64) rec {
		return rec{recTrailer, trailer{applied: applied{zxid: 7}, nodes: nodes, sessions: sessions}.append(nil)}
	}
	head := rec{recHeader, headerBody(7)}
	list := rec{recACL, appendACL(order.AppendUint32(nil, 1), openACL)}
	root := node("/", 1)
	for name, c := range map[string]struct {
		ok   bool
		recs []rec
	}{
		"well-formed":            {true, []rec{head, list, root, node("/a", 1), node("/a/b", 1), node("/a-b", 1), sess(1), sess(2), end(4, 2)}},
		"no header":              {false, []rec{list, root, end(1, 0)}},
		"two headers":            {false, []rec{head, head, list, root, end(1, 0)}},
		"newer version":          {false, []rec{{recHeader, append([]byte(snapMagic), 9, 0, 0, 0, 0, 0, 0, 0, 7)}}},
		"empty":                  {false, []rec{head, end(0, 0)}},
		"no root":                {false, []rec{head, list, node("/a", 1), end(1, 0)}},
		"no parent":              {false, []rec{head, list, root, node("/a/b", 1), end(2, 0)}},
		"parent of another line": {false, []rec{head, list, root, node("/a", 1), node("/b", 1), node("/a/c", 1), end(4, 0)}},
		"out of order":           {false, []rec{head, list, root, node("/b", 1), node("/a", 1), end(3, 0)}},
		"child behind sibling":   {false, []rec{head, list, root, node("/a", 1), node("/a-b", 1), node("/a/b", 1), end(4, 0)}},
		"twice":                  {false, []rec{head, list, root, node("/a", 1), node("/a", 1), end(3, 0)}},
		"root twice":             {false, []rec{head, list, root, root, end(2, 0)}},
		"trailing slash":         {false, []rec{head, list, root, node("/a/", 1), end(2, 0)}},
		"empty name":             {false, []rec{head, list, root, node("//a", 1), end(2, 0)}},
		"relative":               {false, []rec{head, list, root, node("a", 1), end(2, 0)}},
		"zero byte":              {false, []rec{head, list, root, node("/a\x00b", 1), end(2, 0)}},
		"unknown list":           {false, []rec{head, list, node("/", 2), end(1, 0)}},
		"list twice":             {false, []rec{head, list, list, root, end(1, 0)}},
		"malformed list":         {false, []rec{head, {recACL, []byte{0, 0, 0, 1, 9}}, root, end(1, 0)}},
		"short node":             {false, []rec{head, list, {recNode, []byte{1, '/', 0}}, end(1, 0)}},
		"session before nodes":   {false, []rec{head, list, sess(1), root, end(1, 1)}},
		"node behind sessions":   {false, []rec{head, list, root, sess(1), node("/a", 1), end(2, 1)}},
		"session twice":          {false, []rec{head, list, root, sess(1), sess(1), end(1, 2)}},
		"too few":                {false, []rec{head, list, root, end(2, 0)}},
		"behind the end":         {false, []rec{head, list, root, end(1, 0), sess(1)}},
		"unknown record":         {false, []rec{head, list, root, {'?', nil}, end(1, 0)}},
		"no end":                 {false, []rec{head, list, root}},
	} {
		var b blockBuilder
		for _, r := range c.recs {
			b.record(r.kind, r.body)
		}
		b.seal()
		w := newWriter(t, s, 7)
		err := w.Write(b.out)
		if err == nil {
			_, err = w.Finish()
		}
		if (err == nil) != c.ok || !c.ok && !errors.Is(err, ErrBadSnapshot) && !errors.Is(err, ErrNewerFormat) {
			t.Errorf("%s: %v", name, err)
		}
		w.Abort()
	}
}

func FuzzSnapshotWriter(f *testing.F) {
	f.Add(sampleModel(3).stream(), uint16(9))
	s, _, err := Open(testOptions(vfs.NewMem()))
	if err != nil {
		f.Fatal(err)
	}
	defer s.Close()
	at := sampleModel(3).applied
	f.Fuzz(func(t *testing.T, stream []byte, piece uint16) {
		// With the checksums put right, so that what is behind them is reached.
		for b := stream; len(b) >= blockHead; {
			n := uint64(order.Uint32(b))
			if uint64(len(b)) < blockHead+n {
				break
			}
			order.PutUint32(b[4:], checksum(b[blockHead:blockHead+n]))
			b = b[blockHead+n:]
		}
		w := newWriter(t, s, at)
		defer w.Abort()
		for len(stream) > 0 {
			n := min(len(stream), 1+int(piece))
			if err := w.Write(stream[:n]); err != nil {
				return
			}
			stream = stream[n:]
		}
		_, _ = w.Finish() // any answer but a panic is fine
	})
}

func TestInstallKeepsWhatWasAcked(t *testing.T) {
	noLeaks(t)
	at := func(n int) *model {
		m := newModel()
		for _, e := range entries(z(1, 1), n, 20) {
			m.apply(e, newChanges())
		}
		return m
	}
	for _, c := range []struct {
		name         string
		zxid, common zab.Zxid
		wantLast     zab.Zxid
	}{
		{"lagging leader state", z(1, 40), z(1, 50), z(1, 50)},
		{"lagging, with a tail of our own", z(1, 40), z(1, 45), z(1, 45)},
		{"at the end", z(1, 50), z(1, 50), z(1, 50)},
		{"common far below", z(1, 50), z(1, 20), z(1, 50)},
		{"ahead", z(3, 7), z(1, 50), z(3, 7)},
	} {
		t.Run(c.name, func(t *testing.T) {
			o := testOptions(vfs.NewMem())
			s, _, m := mustOpen(t, o)
			mustPersist(t, s, zab.PersistOp{Append: entries(z(1, 1), 50, 20), Hard: hard(3, 3), Commit: z(1, 20)})
			writeState(t, s, m, entries(z(1, 1), 20, 20))
			r, err := s.SnapshotReader()
			if err != nil {
				t.Fatal(err)
			}
			snap := at(int(min(c.zxid, z(1, 50)) - z(1, 0)))
			snap.applied = c.zxid
			w := newWriter(t, s, c.zxid)
			other := newWriter(t, s, c.zxid) // the same zxid again: another directory
			if err := w.Write(snap.stream()); err != nil {
				t.Fatal(err)
			}
			dir, err := w.Finish()
			if err != nil {
				t.Fatal(err)
			}
			rows := []zab.EpochEnd{{Epoch: 1, Last: min(c.zxid, z(1, 50))}}
			if c.zxid.Epoch() > 1 {
				rows = append(rows, zab.EpochEnd{Epoch: 3, Last: c.zxid})
			}
			mustPersist(t, s, zab.PersistOp{Install: &zab.Install{Dir: dir, Zxid: c.zxid, Common: c.common, Epochs: rows}})
			if _, _, err := r.Next(1000); !errors.Is(err, ErrClosed) {
				t.Errorf("reading the replaced state: %v", err)
			}
			if err := other.Write([]byte{1}); !errors.Is(err, ErrClosed) {
				t.Errorf("the other writer: %v", err)
			}
			w.Abort() // too late: it is the state now
			base, last := s.LogBounds()
			if base != c.zxid || last != c.wantLast || len(readAll(t, s)) != int(last-base) {
				t.Errorf("(%v, %v]", base, last)
			}
			got := newModel()
			if err := s.load(got); err != nil {
				t.Fatal(err)
			}
			if err := snap.equal(got); err != nil {
				t.Fatal(err)
			}
			if d := s.DurableApplied(); d != c.zxid {
				t.Errorf("durable %v", d)
			}
			mustClose(t, s)
			s, rec, got := mustOpen(t, o)
			if rec.Base != c.zxid || rec.Last != c.wantLast || rec.Applied != c.zxid || rec.Commit != c.zxid {
				t.Errorf("%+v", rec)
			}
			if err := snap.equal(got); err != nil {
				t.Error(err)
			}
			if c.zxid.Epoch() == 3 && !strings.HasPrefix(fmt.Sprint(rec.Epochs), "[{1 0x100000032} {3") {
				t.Errorf("epochs %v", rec.Epochs)
			}
			mustClose(t, s)
		})
	}
}

func TestLongDataComesAndGoes(t *testing.T) {
	noLeaks(t)
	o := testOptions(vfs.NewMem())
	s, _, m := mustOpen(t, o)
	mustPersist(t, s, zab.PersistOp{Append: entries(z(1, 1), 40, 1), Hard: hard(1, 1)})
	long := func(n int) []byte { return bytes.Repeat([]byte{7}, n) }
	step := func(zx uint32, r znode.NodeRecord, deleted, data bool) {
		t.Helper()
		r.Path, r.ACL = "/x", openACL
		b := &StateBatch{Applied: z(1, zx), Nodes: []StateNode{{Path: "/x", Deleted: deleted, Record: r, DataToo: data}}}
		if deleted {
			delete(m.nodes, "/x")
		} else {
			m.nodes["/x"] = r
		}
		b.Digests = m.Digests()
		if err := s.WriteState(b); err != nil {
			t.Fatal(err)
		}
		got := newModel()
		if err := s.load(got); err != nil {
			t.Fatal(err)
		}
		if err := m.equal(got); err != nil {
			t.Fatal(err)
		}
		if n, want := longValues(t, s), len(r.Data) > inlineLimit; n > 1 || (n == 1) != want {
			t.Fatalf("after step %d: %d values of long data, long: %t", zx, n, want)
		}
	}
	step(1, znode.NodeRecord{Czxid: 1, Mzxid: 1, Data: long(9000)}, false, true)
	step(2, znode.NodeRecord{Czxid: 1, Mzxid: 1, Data: long(9000), CreateCounter: 1}, false, false) // the stat alone
	step(3, znode.NodeRecord{Czxid: 1, Mzxid: 3, Data: long(3)}, false, true)
	step(4, znode.NodeRecord{Czxid: 1, Mzxid: 4, Data: nil}, false, true)
	step(5, znode.NodeRecord{Czxid: 1, Mzxid: 5, Data: long(inlineLimit + 1)}, false, true)
	step(6, znode.NodeRecord{}, true, false)
	step(7, znode.NodeRecord{Czxid: 7, Mzxid: 7, Data: long(5000)}, false, true)
	step(8, znode.NodeRecord{Czxid: 8, Mzxid: 8, Data: long(1)}, false, true) // deleted and created within one batch
	step(9, znode.NodeRecord{Czxid: 8, Mzxid: 9, Data: long(6000)}, false, true)
	mustClose(t, s)
	s, _, got := mustOpen(t, o)
	if err := m.equal(got); err != nil {
		t.Fatal(err)
	}
	step(10, znode.NodeRecord{Czxid: 8, Mzxid: 10, Data: long(2)}, false, true) // of before the start
	mustClose(t, s)
}

// longValues counts what lies under keyData.
func longValues(t *testing.T, s *Store) int {
	t.Helper()
	it, err := s.state.db.NewIter(bounds(keyData))
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for ok := it.First(); ok; ok = it.Next() {
		n++
	}
	if err := it.Close(); err != nil {
		t.Fatal(err)
	}
	return n
}
