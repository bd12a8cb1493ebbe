package znode

import (
	"fmt"
	"runtime"
	"testing"
	"time"
)

// benchTree has n leaves of 100 bytes, 1000 to a parent, built through the preparer, with nothing pending.
func benchTree(tb testing.TB, n int) (*Tree, *Preparer, int64) {
	t := NewTree(Options{})
	p := NewPreparer(t)
	var out Applied
	zxid := int64(0)
	run := func(r *Request) {
		zxid++
		t.Apply(p.Prepare(r, zxid, zxid), &out)
		p.Applied(zxid)
		if out.Result.Code != OK || out.DigestMismatch {
			tb.Fatalf("%+v: %+v", r, out.Result)
		}
	}
	run(&Request{Op: OpCreateSession, Session: 1, Timeout: 4000})
	for i := range n {
		if i%1000 == 0 {
			run(&Request{Op: OpCreate, Session: 1, Path: fmt.Sprintf("/p%06d", i/1000), ACL: openACL, TTL: -1})
		}
		run(&Request{Op: OpCreate, Session: 1, Path: benchPath(i), Data: make([]byte, 100), ACL: openACL, TTL: -1})
	}
	return t, p, zxid
}

func benchPath(i int) string { return fmt.Sprintf("/p%06d/member-%010d", i/1000, i) }

const benchNodes = 200_000

func BenchmarkPrepareSetData(b *testing.B) {
	_, p, zxid := benchTree(b, benchNodes)
	paths := make([]string, 4096)
	for i := range paths {
		paths[i] = benchPath(i * 37 % benchNodes)
	}
	r := &Request{Op: OpSetData, Session: 1, Data: make([]byte, 100), Version: -1}
	i := 0
	b.ReportAllocs()
	for b.Loop() {
		zxid++
		i++
		r.Path = paths[i%len(paths)]
		p.Prepare(r, zxid, zxid)
		p.Applied(zxid - 64)
	}
}

func BenchmarkApplySetData(b *testing.B) {
	t, p, zxid := benchTree(b, benchNodes)
	paths := make([]string, 4096)
	for i := range paths {
		paths[i] = benchPath(i * 37 % benchNodes)
	}
	txn := p.Prepare(&Request{Op: OpSetData, Session: 1, Path: paths[0], Data: make([]byte, 100), Version: -1}, zxid+1, 1)
	var out Applied
	i := 0
	b.ReportAllocs()
	for b.Loop() {
		zxid++
		i++
		txn.Zxid, txn.Op.Path = zxid, paths[i%len(paths)]
		t.Apply(txn, &out)
	}
}

func BenchmarkApplyCreateDelete(b *testing.B) {
	t, _, zxid := benchTree(b, benchNodes)
	create := &Txn{Type: OpCreate, Op: TxnOp{Op: OpCreate, Path: "/p000000/new", ACL: openACL, Data: make([]byte, 100)}}
	del := &Txn{Type: OpDelete, Op: TxnOp{Op: OpDelete, Path: "/p000000/new"}}
	var out Applied
	b.ReportAllocs()
	for b.Loop() {
		create.Zxid, del.Zxid = zxid+1, zxid+2
		zxid += 2
		t.Apply(create, &out)
		t.Apply(del, &out)
	}
}

func BenchmarkWholeCreate(b *testing.B) {
	t, p, zxid := benchTree(b, 1000)
	var out Applied
	var buf []byte
	i := 0
	b.ReportAllocs()
	for b.Loop() {
		zxid++
		i++
		r := &Request{Op: OpCreate, Session: 1, Path: "/p000000/x", Data: make([]byte, 100), ACL: openACL, Flags: 2, TTL: -1}
		buf = AppendTxn(buf[:0], p.Prepare(r, zxid, zxid))
		txn, err := DecodeTxn(buf)
		if err != nil {
			b.Fatal(err)
		}
		t.Apply(txn, &out)
		p.Applied(zxid)
	}
}

func BenchmarkEncodeTxn(b *testing.B) {
	txn := &Txn{Zxid: 1 << 33, Time: 1700000000000, Type: OpSetData, Session: 1 << 56, Cxid: 7,
		Op: TxnOp{Op: OpSetData, Path: benchPath(7), Data: make([]byte, 100), Version: 5}}
	buf := AppendTxn(nil, txn)
	b.ReportMetric(float64(len(buf)), "bytes")
	b.ReportAllocs()
	for b.Loop() {
		buf = AppendTxn(buf[:0], txn)
	}
}

func BenchmarkDecodeTxn(b *testing.B) {
	buf := AppendTxn(nil, &Txn{Zxid: 1 << 33, Type: OpCreate, Session: 1 << 56,
		Op: TxnOp{Op: OpCreate, Path: benchPath(7), Data: make([]byte, 100), ACL: openACL}})
	b.ReportAllocs()
	for b.Loop() {
		if _, err := DecodeTxn(buf); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkGetData(b *testing.B) {
	t, _, _ := benchTree(b, benchNodes)
	paths := make([]string, 4096)
	for i := range paths {
		paths[i] = benchPath(i * 37 % benchNodes)
	}
	auth := []AuthID{{Scheme: "ip", ID: "127.0.0.1"}}
	i := 0
	b.ReportAllocs()
	for b.Loop() {
		i++
		t.GetData(paths[i%len(paths)], auth)
	}
}

func BenchmarkListAfterCreate(b *testing.B) {
	t := NewTree(Options{})
	var out Applied
	zxid := int64(0)
	create := func(path string) {
		zxid++
		t.Apply(&Txn{Zxid: zxid, Type: OpCreate, Op: TxnOp{Op: OpCreate, Path: path, ACL: openACL, Version: int32(zxid)}}, &out)
	}
	create("/p")
	for i := range 10_000 {
		create(fmt.Sprintf("/p/member-%010d", i))
	}
	i := 10_000
	b.ReportAllocs()
	for b.Loop() {
		create(fmt.Sprintf("/p/member-%010d", i))
		i++
		t.Children("/p", nil)
		if i == 20_000 {
			b.StopTimer()
			for ; i > 10_000; i-- {
				zxid++
				t.Apply(&Txn{Zxid: zxid, Type: OpDelete, Op: TxnOp{Op: OpDelete, Path: fmt.Sprintf("/p/member-%010d", i-1)}}, &out)
			}
			b.StartTimer()
		}
	}
}

// BenchmarkLoad loads a million stored nodes of 100 bytes, 1000 to a parent, and says what they cost in memory.
func BenchmarkLoad(b *testing.B) {
	const parents, each = 1000, 1000
	b.ReportAllocs()
	for b.Loop() {
		t := NewTree(Options{})
		before := heap()
		for p := range parents {
			parent := fmt.Sprintf("/p%06d", p)
			if err := t.Load(NodeRecord{Path: parent, ACL: openACL, CreateCounter: each}); err != nil {
				b.Fatal(err)
			}
			for i := range each {
				r := NodeRecord{Path: fmt.Sprintf("%s/member-%010d", parent, i), ACL: openACL, Data: make([]byte, 100)}
				if err := t.Load(r); err != nil {
					b.Fatal(err)
				}
			}
		}
		b.ReportMetric(float64(heap()-before)/parents/each, "B/node")
		runtime.KeepAlive(t)
	}
}

func heap() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// BenchmarkCloseSession ends a session with 30,000 ephemerals: the longest single transaction there is.
func BenchmarkCloseSession(b *testing.B) {
	const owned = 30_000
	var prepare, apply time.Duration
	for b.Loop() {
		b.StopTimer()
		t, p, zxid := benchTree(b, 1000)
		var out Applied
		for i := range owned {
			zxid++
			r := &Request{Op: OpCreate, Session: 1, Path: fmt.Sprintf("/p000000/e%d", i), ACL: openACL, Flags: 1, TTL: -1}
			t.Apply(p.Prepare(r, zxid, zxid), &out)
			p.Applied(zxid)
		}
		b.StartTimer()
		start := time.Now()
		txn := p.Prepare(&Request{Op: OpCloseSession, Session: 1}, zxid+1, 0)
		prepared := time.Now()
		t.Apply(txn, &out)
		prepare, apply = prepare+prepared.Sub(start), apply+time.Since(prepared)
		if out.DigestMismatch || len(out.Events) != 2*owned {
			b.Fatalf("%d events", len(out.Events))
		}
	}
	b.ReportMetric(float64(prepare.Milliseconds())/float64(b.N), "prepare-ms")
	b.ReportMetric(float64(apply.Milliseconds())/float64(b.N), "apply-ms")
}
