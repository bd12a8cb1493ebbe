package replica

import (
	"github.com/zkserver/zkserver/zab"
	"github.com/zkserver/zkserver/znode"
)

// waiting is one request of this server's clients that has been forwarded or prepared.
type waiting struct {
	req   *znode.Request
	zxid  zab.Zxid // the leader's own: the transaction that it became
	size  int      // bytes that were sent to the leader
	fated bool     // a leader that handed over has committed it: it will be delivered
	gone  bool     // its connection is closed; it keeps its place, by which a hand-over is understood
	done  bool
}

// waitList holds them in the order in which they were sent, which is that in which they complete, with few exceptions.
type waitList struct {
	items []waiting
	head  int
	bytes int // sent to the leader and not done
}

func (w *waitList) len() int { return len(w.items) - w.head }

func (w *waitList) push(x waiting) {
	if w.head > 0 && len(w.items) == cap(w.items) {
		n := copy(w.items, w.items[w.head:])
		clear(w.items[n:])
		w.items, w.head = w.items[:n], 0
	}
	w.items = append(w.items, x)
	w.bytes += x.size
}

// find returns the request with that origin seq, or nil. It looks at the front first.
func (w *waitList) find(seq uint64) *waiting {
	for i := w.head; i < len(w.items); i++ {
		if x := &w.items[i]; x.req.Origin.Seq == seq && !x.done {
			return x
		}
	}
	return nil
}

// done takes out the request with that origin seq, if it is there.
func (w *waitList) done(seq uint64) {
	if x := w.find(seq); x != nil {
		x.done = true
		w.bytes -= x.size
		w.trim()
	}
}

func (w *waitList) trim() {
	for w.head < len(w.items) && w.items[w.head].done {
		w.items[w.head] = waiting{}
		w.head++
	}
	if w.head == len(w.items) {
		w.items, w.head = w.items[:0], 0
	}
}

// all returns the requests that wait, in order.
func (w *waitList) all() []waiting {
	var out []waiting
	for _, x := range w.items[w.head:] {
		if !x.done {
			out = append(out, x)
		}
	}
	return out
}

// split parts what waits behind the request with that origin seq. What belongs to a closed connection has kept its
// place; so when that request is not there at all, it and everything before it have completed. What an earlier
// leadership has committed is none of this leader's.
func (w *waitList) split(last uint64) (upTo []waiting, behind []*znode.Request) {
	at := w.head - 1
	for i := w.head; i < len(w.items); i++ {
		if w.items[i].req.Origin.Seq == last {
			at = i
		}
	}
	for i := w.head; i < len(w.items); i++ {
		switch x := w.items[i]; {
		case x.done || x.gone && i > at:
		case i <= at || x.fated || x.zxid != 0:
			upTo = append(upTo, x)
		default:
			behind = append(behind, x.req)
		}
	}
	return upTo, behind
}

func (w *waitList) reset(items []waiting) {
	*w = waitList{items: items}
	for i := range items {
		w.bytes += items[i].size
	}
}

// held is what a connection has sent behind a sync that is under way. It is sent on when the sync's index is known: so
// the sync completes before any of it, and the reads between see none of it.
type held struct {
	seq  uint64 // of the sync
	reqs []*znode.Request
}

// submit takes the writes of a run of one connection.
func (m *Machine) submit(in Requests) {
	if _, known := m.conns[in.Conn]; !known || m.refusing {
		return // it has been closed: its order has a gap already
	}
	m.parked = append(m.parked, in.Requests...)
}

// takeParked calls f for what may be sent on now, in order, as long as more says so; what stands behind a sync is held
// back.
func (m *Machine) takeParked(more func() bool, f func(r *znode.Request)) {
	m.taking = true
	defer func() {
		m.taking = false
		clear(m.dropped)
	}()
	for len(m.parked) > 0 {
		rs := m.parked
		m.parked = nil
		for i, r := range rs {
			if len(m.dropped) > 0 && m.dropped[r.Origin.Conn] {
				continue // closed while these were taken: nothing behind a refused write may run
			}
			if !more() {
				m.parked = append(rs[i:], m.parked...)
				return
			}
			if len(m.syncing) > 0 {
				if h := m.syncing[r.Origin.Conn]; h != nil {
					h.reqs = append(h.reqs, r)
					continue
				}
			}
			if r.Op == znode.OpSync {
				m.syncing[r.Origin.Conn] = &held{seq: r.Origin.Seq}
			}
			f(r)
		}
	}
}

// syncDone answers a sync once its index is known, and lets go what stood behind it.
func (m *Machine) syncDone(ev zab.SyncDone) {
	if ev.ID&doubtful != 0 {
		m.doubtOver(ev)
		return
	}
	x := m.waiting.find(ev.ID)
	if x == nil || ev.Lost {
		return // settle sends it again
	}
	conn := x.req.Origin.Conn
	m.waiting.done(ev.ID)
	m.eff.Answers = append(m.eff.Answers, Synced{Conn: conn, Seq: ev.ID, Index: ev.Index})
	if h := m.syncing[conn]; h != nil && h.seq == ev.ID {
		delete(m.syncing, conn)
		m.parked = append(h.reqs, m.parked...)
	}
}

// settle decides, when a role ends, what becomes of the requests under way: what is delivered or committed goes on
// waiting; a sync is sent again; anything else has an unknown fate, and its connection is closed (I7).
func (m *Machine) settle() {
	var keep []waiting
	var again []*znode.Request
	doomed := map[uint32]bool{}
	for _, x := range m.waiting.all() {
		switch {
		case x.req.Op == znode.OpSync:
			if !x.gone { // else nobody waits for it
				again = append(again, x.req)
			}
		case x.fated || x.zxid != 0 && x.zxid <= m.committed:
			keep = append(keep, x)
		case x.gone:
		default:
			conn := x.req.Origin.Conn
			if !doomed[conn] {
				doomed[conn] = true
				m.eff.Close = append(m.eff.Close, CloseConn{conn, reasonUnknownFate})
			}
		}
	}
	m.waiting.reset(keep)
	m.repark(again)
	m.forget(doomed)
	m.resendAttaches()
}

// repark puts requests back in front of what is parked, each sync with what stands behind it.
func (m *Machine) repark(rs []*znode.Request) {
	var front []*znode.Request
	for _, r := range rs {
		front = append(front, r)
		if r.Op == znode.OpSync {
			if h := m.syncing[r.Origin.Conn]; h != nil && h.seq == r.Origin.Seq {
				front = append(front, h.reqs...)
				delete(m.syncing, r.Origin.Conn)
			}
		}
	}
	m.parked = append(front, m.parked...)
}

// closeConn closes one connection and drops what it has not sent on.
func (m *Machine) closeConn(conn uint32, reason zab.Reason) {
	m.eff.Close = append(m.eff.Close, CloseConn{conn, reason})
	m.forget(map[uint32]bool{conn: true})
}

// forget drops all that belongs to closed connections: nothing behind a gap in a connection's order may run (I8).
func (m *Machine) forget(conns map[uint32]bool) {
	if len(conns) == 0 {
		return
	}
	parked := m.parked[:0]
	for _, r := range m.parked {
		if !conns[r.Origin.Conn] {
			parked = append(parked, r)
		}
	}
	clear(m.parked[len(parked):])
	m.parked = parked
	for i := m.waiting.head; i < len(m.waiting.items); i++ {
		if x := &m.waiting.items[i]; conns[x.req.Origin.Conn] {
			x.gone = true
		}
	}
	for conn := range conns {
		if m.taking {
			m.dropped[conn] = true
		}
		delete(m.conns, conn)
		delete(m.syncing, conn)
	}
	for seq, a := range m.attaches {
		if conns[a.in.Conn] {
			delete(m.attaches, seq)
		}
	}
}

// closeAll closes every connection.
func (m *Machine) closeAll(reason zab.Reason) {
	m.eff.CloseAll = reason
	m.parked = nil
	m.waiting.reset(nil)
	clear(m.conns)
	clear(m.syncing)
	clear(m.attaches)
	m.unsent = nil
}
