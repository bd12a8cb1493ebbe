package replica

import (
	"context"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/zkserver/zkserver/server/peer"
	"github.com/zkserver/zkserver/server/session"
	"github.com/zkserver/zkserver/zab"
)

// The leader tells when each session ends; it is a question to the loop that a stopped replica does not answer.
func TestExpiries(t *testing.T) {
	x := start(t, 1, 1, vfs.NewMem(), nil)
	x.serving()
	k := x.connect(session.Attach{})
	list, known := x.r.Expiries(t.Context())
	if !known || len(list) != 1 || list[0].Session != k.res.Session || list[0].Timeout != k.res.Timeout ||
		list[0].Left <= 0 || list[0].Left > time.Duration(k.res.Timeout)*time.Millisecond {
		t.Errorf("%+v, %v", list, known)
	}
	k.release()
	if err := x.end(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), wait)
	defer cancel()
	if list, known := x.r.Expiries(ctx); known || ctx.Err() != nil {
		t.Errorf("after the end: %+v, %v", list, ctx.Err())
	}
}

// Nobody has longer to live than his timeout, also when he was heard from behind a delayed tick.
func TestExpiryBehindADelayedTick(t *testing.T) {
	s := newSimulation(t, 1, 0)
	s.run(50)
	c := s.open(1, 4000, nil)
	s.run(10)
	x := s.nodes[0]
	x.m.Step(Clock{WallMs: 1, Now: s.now - x.born + 30*time.Millisecond})
	x.m.Step(Touched{Sessions: []peer.Touch{{Session: c.session}}})
	for range 2 { // at once, and behind the tick
		for _, e := range x.m.expiries().list {
			if e.Left > 4*time.Second || e.Left < 4*time.Second-50*time.Millisecond {
				t.Errorf("%+v", e)
			}
		}
		x.m.Step(Quantum{Now: s.now - x.born + 40*time.Millisecond, Late: 30 * time.Millisecond})
	}
}

// A sign of life counts from when it was heard, not from the tick before, which a busy machine may have delayed (I10).
func TestTouchBehindADelayedTick(t *testing.T) {
	const timeout, stall = 4 * time.Second, 400 * time.Millisecond
	s := newSimulation(t, 1, 0)
	s.run(50)
	c := s.open(1, int32(timeout.Milliseconds()), nil)
	s.run(10)
	x := s.nodes[0]
	// The next tick is late. Just before it the session is heard from.
	s.now += stall
	x.in = append(x.in, Clock{WallMs: 1, Now: s.now - x.born}, Touched{Sessions: []peer.Touch{{Session: c.session}}},
		Quantum{Now: s.now - x.born, Late: stall - zab.QuantumLength})
	s.run(quanta(timeout) - 1)
	if c.closed {
		t.Error("the session ended before its timeout")
	}
	s.run(quanta(2*bucketLength) + 2)
	if !c.closed {
		t.Error("the session does not end")
	}
}
