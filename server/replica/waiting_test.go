package replica

import (
	"testing"

	"github.com/zkserver/zkserver/server/peer"
	"github.com/zkserver/zkserver/zab"
	"github.com/zkserver/zkserver/znode"
)

// A sync that stands before the last request that a leader took before it handed over has no fate: the next leader is
// asked again, before what stood behind it.
func TestSyncsOutliveAHandOver(t *testing.T) {
	m := &Machine{conns: map[uint32]*conn{}, syncing: map[uint32]*held{}, attaches: map[uint64]*attach{}}
	req := func(op znode.Op, c uint32, seq uint64) *znode.Request {
		m.conns[c] = &conn{}
		return &znode.Request{Op: op, Origin: znode.Origin{Conn: c, Seq: seq}}
	}
	m.waiting.push(waiting{req: req(znode.OpSync, 1, 1)})
	m.syncing[1] = &held{seq: 1, reqs: []*znode.Request{req(znode.OpCreate, 1, 2)}}
	m.waiting.push(waiting{req: req(znode.OpSync, 3, 3)})
	m.waiting.push(waiting{req: req(znode.OpCreate, 2, 4)})
	m.waiting.push(waiting{req: req(znode.OpCreate, 2, 5)})
	m.closeConn(3, reasonMoved)
	m.handedBack(4)
	m.settle()
	var parked []uint64
	for _, r := range m.parked {
		parked = append(parked, r.Origin.Seq)
	}
	if len(parked) != 3 || parked[0] != 1 || parked[1] != 2 || parked[2] != 5 {
		t.Errorf("to be sent to the next leader: %v, want 1 2 5", parked)
	}
	if all := m.waiting.all(); len(all) != 1 || all[0].req.Origin.Seq != 4 {
		t.Errorf("waits to be delivered: %+v, want 4", all)
	}
}

// What is under way to the leader is bounded in bytes; the rest waits here, in order, until there is room.
func TestForwardWindow(t *testing.T) {
	link := zab.Link{Peer: 2, Incarnation: 1}
	m := &Machine{
		leader: 2, links: map[zab.ServerID]zab.Link{2: link}, conns: map[uint32]*conn{1: {}},
		syncing: map[uint32]*held{}, attaches: map[uint64]*attach{},
	}
	m.learner.declared = link
	const requests, size = 40, 1 << 20
	for i := range uint64(requests) {
		m.parked = append(m.parked, &znode.Request{Op: znode.OpSetData, Data: make([]byte, size), Origin: znode.Origin{Conn: 1, Seq: i}})
	}
	sent := 0
	for answered := range uint64(requests) {
		m.forwardAll()
		for ; len(m.eff.Send) > 0; m.eff.Send = m.eff.Send[1:] {
			if f := m.eff.Send[0].Msg.(*peer.Forward); f.Origin.Seq != uint64(sent) {
				t.Fatalf("%d is sent, want %d", f.Origin.Seq, sent)
			}
			sent++
		}
		if under := uint64(sent) - answered; under > forwardWindow/size || under < min(forwardWindow/size, requests-answered) {
			t.Fatalf("%d requests of a MiB are under way after %d answers", under, answered)
		}
		m.waiting.done(answered)
	}
	if m.waiting.bytes != 0 || len(m.parked) > 0 {
		t.Errorf("%d bytes and %d requests are left", m.waiting.bytes, len(m.parked))
	}
}
