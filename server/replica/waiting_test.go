package replica

import (
	"testing"

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
