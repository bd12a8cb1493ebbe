package znode

import (
	"bytes"
	"encoding/binary"
	"math"
	"reflect"
	"runtime"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

func sampleTxns() []*Txn {
	head := Txn{
		Zxid: 5<<32 | 7, Time: 1700000000123, Session: -0x1234567890abcdef, Cxid: -3, Ticket: Ticket{5, 1 << 40},
		Origin: Origin{3, math.MaxUint64, 77, 1 << 50}, Digest: Digests{1, math.MaxUint64},
	}
	with := func(f func(*Txn)) *Txn {
		t := head
		f(&t)
		t.Op.Op = t.Type
		return &t
	}
	acl := []ACL{{Perms: -1, Scheme: "digest", ID: "a:b"}, {Perms: 1, Scheme: "odd", ID: ""}}
	txns := []*Txn{
		with(func(t *Txn) { t.Type, t.Op = OpCreate, TxnOp{Path: "/a", ACL: openACL, Data: []byte("x"), Version: 1} }),
		with(func(t *Txn) {
			t.Type, t.Op = OpCreateTTL, TxnOp{Path: "/ä", ACL: acl, Owner: TTLOwner(9), Version: math.MinInt32}
		}),
		with(func(t *Txn) { t.Type, t.Op = OpCreate2, TxnOp{Path: "/a", ACL: []ACL{}, Data: []byte{}} }),
		with(func(t *Txn) { t.Type, t.Op = OpDelete, TxnOp{Path: "/a"} }),
		with(func(t *Txn) { t.Type, t.Op = OpDeleteContainer, TxnOp{Path: "/a"} }),
		with(func(t *Txn) { t.Type, t.Op = OpSetData, TxnOp{Path: "/a", Version: 3} }),
		with(func(t *Txn) { t.Type, t.Op = OpSetACL, TxnOp{Path: "/a", ACL: acl} }),
		with(func(t *Txn) { t.Type, t.Timeout, t.Password = OpCreateSession, 4000, [16]byte{1, 15: 2} }),
		with(func(t *Txn) { t.Type = OpCloseSession }),
		with(func(t *Txn) { t.Type, t.Err, t.Requested = OpError, NoNode, OpSetData }),
		with(func(t *Txn) { t.Type, t.Multi = OpMulti, []TxnOp{} }),
		with(func(t *Txn) {
			t.Type, t.Multi = OpMulti, []TxnOp{{Op: OpCheck, Path: "/"}, {Op: OpCreate, Path: "/q", ACL: openACL}}
		}),
		with(func(t *Txn) { t.Type, t.Err, t.FailedAt, t.Refused = OpMulti, BadVersion, 1, []Op{OpCreate, OpDelete} }),
	}
	for _, t := range txns {
		switch t.Type {
		case OpError, OpMulti, OpCreateSession, OpCloseSession:
			t.Op = TxnOp{}
		}
	}
	return txns
}

func TestTxnEncoding(t *testing.T) {
	for _, want := range sampleTxns() {
		b := AppendTxn([]byte("head"), want)[4:]
		got, err := DecodeTxn(b)
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%v\ngot  %+v\nwant %+v", err, got, want)
		}
		for i := range b {
			if _, err := DecodeTxn(b[:i]); err == nil {
				t.Errorf("%+v: the first %d of %d bytes decode", want, i, len(b))
			}
		}
		if _, err := DecodeTxn(append(b, 0)); err == nil {
			t.Error("a byte too many decodes")
		}
		if len(got.Op.Data) > 0 {
			for i := range b {
				b[i] = 0xee
			}
			if !bytes.Equal(got.Op.Data, want.Op.Data) || got.Op.Path != want.Op.Path {
				t.Error("the transaction shares memory with its encoding")
			}
		}
	}
}

// What an encoding says of its own lengths is checked before it decides anything.
func TestLengthsAreChecked(t *testing.T) {
	failed := &Txn{Type: OpMulti, Err: NoNode, Refused: []Op{OpDelete}}
	good := AppendTxn(nil, failed)
	failed.FailedAt = 1
	if _, err := DecodeTxn(AppendTxn(nil, failed)); err == nil {
		t.Error("a failed operation beyond the last decodes")
	}
	huge := binary.AppendUvarint(nil, 1<<62)
	for name, b := range map[string][]byte{
		"refused":    append(slices.Clone(good[:len(good)-2]), huge...),
		"operations": append(AppendTxn(nil, &Txn{Type: OpMulti, Multi: []TxnOp{}})[:len(good)-3], huge...),
	} {
		if _, err := DecodeTxn(b); err == nil {
			t.Errorf("%s: decodes", name)
		}
	}
	q := AppendRequest(nil, &Request{Op: OpMulti})
	if _, err := DecodeRequest(append(q[:len(q)-1], huge...)); err == nil {
		t.Error("a request of very many operations decodes")
	}
}

func TestRequestEncoding(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := drawRequest(t)
		want.Cxid = rapid.Int32().Draw(t, "cxid")
		want.PathNull = rapid.Bool().Draw(t, "null")
		want.Undecodable = rapid.Bool().Draw(t, "undecodable")
		got, err := DecodeRequest(AppendRequest(nil, want))
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Fatalf("%v\ngot  %+v\nwant %+v", err, got, want)
		}
	})
}

// checkAllocation fails if decoding b allocates more than a constant times its length.
func checkAllocation(t *testing.T, b []byte, decode func()) {
	const factor, base = 100, 8 << 10
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	decode()
	runtime.ReadMemStats(&after)
	if n := after.TotalAlloc - before.TotalAlloc; n > uint64(factor*len(b)+base) {
		t.Fatalf("%d bytes allocated for %d of input", n, len(b))
	}
}

func FuzzDecodeTxn(f *testing.F) {
	for _, t := range sampleTxns() {
		f.Add(AppendTxn(nil, t))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		var txn *Txn
		var err error
		checkAllocation(t, b, func() { txn, err = DecodeTxn(b) })
		if err != nil {
			return
		}
		again, err := DecodeTxn(AppendTxn(nil, txn))
		if err != nil || !reflect.DeepEqual(txn, again) {
			t.Fatalf("%v\n%+v\n%+v", err, txn, again)
		}
	})
}

func FuzzDecodeRequest(f *testing.F) {
	f.Add(AppendRequest(nil, &Request{
		Op: OpCreate, Path: "/a", ACL: openACL, Data: []byte("x"), TTL: -1, Auth: []AuthID{{"ip", "1.2.3.4"}},
	}))
	f.Add(AppendRequest(nil, &Request{Op: OpMulti, Multi: []Request{{Op: OpDelete, Path: "/a", Version: -1, TTL: -1}}}))
	f.Add(AppendRequest(nil, &Request{Op: OpCreateSession, Session: 9, Timeout: 1, Password: [16]byte{1}}))
	f.Add(AppendRequest(nil, &Request{Op: OpSetACL, PathNull: true, ACL: []ACL{{SchemeNull: true, IDNull: true}}}))
	f.Fuzz(func(t *testing.T, b []byte) {
		var r *Request
		var err error
		checkAllocation(t, b, func() { r, err = DecodeRequest(b) })
		if err != nil {
			return
		}
		again, err := DecodeRequest(AppendRequest(nil, r))
		if err != nil || !reflect.DeepEqual(r, again) {
			t.Fatalf("%v\n%+v\n%+v", err, r, again)
		}
	})
}
