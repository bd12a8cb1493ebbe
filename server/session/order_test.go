package session

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/zkserver/zkserver/znode"
)

func write(op znode.Op, seq uint64) Item {
	w := &znode.Request{Op: op}
	w.Origin.Seq = seq
	return Item{Req: Request{Op: op, Xid: int32(seq), Write: w}}
}

func read(xid int32) Item { return Item{Req: Request{Op: znode.OpGetData, Xid: xid, Path: "/a"}} }

// answer completes seq and returns the xids answered by it, in order.
func answer(t *testing.T, o *Order, seq uint64) []int32 {
	t.Helper()
	var xids []int32
	switch o.Complete(seq) {
	case Broken:
		t.Fatalf("completion of %d is out of order", seq)
	case Early:
		return nil
	case Turn:
		xids = append(xids, o.Front().Req.Xid)
		o.Pop()
	}
	for it := o.Next(); it != nil; it = o.Next() {
		xids = append(xids, it.Req.Xid)
		o.Pop()
	}
	return xids
}

func push(t *testing.T, o *Order, items ...Item) {
	t.Helper()
	for _, it := range items {
		if !o.Push(it) {
			t.Fatalf("xid %d was not taken", it.Req.Xid)
		}
	}
}

func TestOrderIdleReadsRun(t *testing.T) {
	var o Order
	if !o.Idle() || o.Push(read(1)) {
		t.Fatal("a read on an idle order was parked: nothing would ever run it")
	}
	push(t, &o, write(znode.OpSetData, 1))
	if o.Idle() {
		t.Fatal("idle with a write in flight")
	}
	push(t, &o, read(2))
	if got := answer(t, &o, 1); !slices.Equal(got, []int32{1, 2}) {
		t.Fatalf("answered %v", got)
	}
	if !o.Idle() || o.Bytes() != 0 {
		t.Fatalf("idle %v, %d bytes left", o.Idle(), o.Bytes())
	}
}

func TestOrderReadsStopAtTheNextWrite(t *testing.T) {
	var o Order
	push(t, &o, write(znode.OpSetData, 1), read(2), read(3), write(znode.OpSetData, 4), read(5), write(znode.OpCreate, 6))
	for _, step := range []struct {
		seq  uint64
		want []int32
	}{{1, []int32{1, 2, 3}}, {4, []int32{4, 5}}, {6, []int32{6}}} {
		if got := answer(t, &o, step.seq); !slices.Equal(got, step.want) {
			t.Fatalf("completion %d answered %v, want %v", step.seq, got, step.want)
		}
	}
}

func TestOrderSyncParksAndMayCompleteEarly(t *testing.T) {
	var o Order
	push(t, &o, write(znode.OpSetData, 1), read(2), write(znode.OpSync, 3), read(4), write(znode.OpSync, 5))
	if got := answer(t, &o, 3); got != nil {
		t.Fatalf("an early sync answered %v", got)
	}
	if got := answer(t, &o, 1); !slices.Equal(got, []int32{1, 2, 3, 4}) {
		t.Fatalf("answered %v", got)
	}
	if o.Complete(3) != Broken {
		t.Fatal("a second completion of a sync was accepted")
	}
	if got := answer(t, &o, 5); !slices.Equal(got, []int32{5}) {
		t.Fatalf("answered %v", got)
	}
}

func TestOrderBroken(t *testing.T) {
	var o Order
	if o.Complete(1) != Broken {
		t.Fatal("a completion of nothing was accepted")
	}
	push(t, &o, write(znode.OpSetData, 1), write(znode.OpSetData, 2))
	if o.Complete(2) != Broken {
		t.Fatal("a write that overtook an older one was accepted")
	}
	if o.Complete(9) != Broken {
		t.Fatal("an unknown number was accepted")
	}
}

func TestOrderNothingFollowsClose(t *testing.T) {
	var o Order
	push(t, &o, write(znode.OpSetData, 1), write(znode.OpCloseSession, 2))
	if !o.Closed() || o.Push(read(3)) || o.Push(write(znode.OpCreate, 4)) {
		t.Fatal("something was taken behind closeSession")
	}
	answer(t, &o, 1)
	if got := answer(t, &o, 2); !slices.Equal(got, []int32{2}) {
		t.Fatalf("answered %v", got)
	}
	if !o.Closed() || o.Push(write(znode.OpCreate, 4)) {
		t.Fatal("something was taken after closeSession")
	}
}

func TestOrderDrop(t *testing.T) {
	var o Order
	push(t, &o, write(znode.OpSetData, 1), read(2))
	if n, bytes := o.Drop(); n != 2 || bytes == 0 || !o.Idle() || o.Bytes() != 0 {
		t.Fatalf("dropped %d, idle %v, %d bytes", n, o.Idle(), o.Bytes())
	}
	if o.Push(write(znode.OpSetData, 3)) {
		t.Fatal("an ended order took a request")
	}
}

// TestOrderModel drives random requests and completions: every request is answered once, in request order, a parked
// read exactly when all before it and nothing in flight behind it is answered, and a drained order holds nothing.
func TestOrderModel(t *testing.T) {
	for seed := uint64(0); seed < 200; seed++ {
		rng := rand.New(rand.NewPCG(seed, 1))
		var (
			o         Order
			flight    []Item // in flight, oldest first, not yet completed
			sent, got []int32
			seq       uint64
		)
		complete := func() {
			i := 0
			for j, it := range flight { // a sync may overtake; nothing else does
				if it.Req.Op == znode.OpSync && rng.IntN(3) == 0 {
					i = j
					break
				}
			}
			it := flight[i]
			flight = slices.Delete(flight, i, i+1)
			got = append(got, answer(t, &o, it.seq())...)
		}
		for range 400 {
			switch {
			case rng.IntN(3) == 0 && len(flight) > 0:
				complete()
			case rng.IntN(2) == 0:
				seq++
				it := read(int32(seq))
				sent = append(sent, it.Req.Xid)
				if o.Idle() {
					got = append(got, it.Req.Xid)
				} else {
					push(t, &o, it)
				}
			default:
				seq++
				op := znode.OpSetData
				if rng.IntN(4) == 0 {
					op = znode.OpSync
				}
				it := write(op, seq)
				sent = append(sent, it.Req.Xid)
				flight = append(flight, it)
				push(t, &o, it)
			}
			if !o.Idle() && o.Next() != nil {
				t.Fatalf("seed %d: something at the front may run and did not", seed)
			}
			if len(sent)-len(got) != o.Len() {
				t.Fatalf("seed %d: %d sent, %d answered, %d queued", seed, len(sent), len(got), o.Len())
			}
		}
		for len(flight) > 0 {
			complete()
		}
		if !slices.Equal(sent, got) {
			t.Fatalf("seed %d: answered %v, sent %v", seed, got, sent)
		}
		if !o.Idle() || o.Bytes() != 0 || cap(o.items) > 8 {
			t.Fatalf("seed %d: idle %v, %d bytes, cap %d", seed, o.Idle(), o.Bytes(), cap(o.items))
		}
	}
}
