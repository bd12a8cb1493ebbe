package replica

import (
	"crypto/subtle"
	"math"
	"slices"

	"github.com/zkserver/zkserver/server/peer"
	"github.com/zkserver/zkserver/zab"
	"github.com/zkserver/zkserver/znode"
)

// leadership is what this server holds as leader: the preparer with its overlay, the owners and clocks of all sessions
// and what others have sent. It dies with the role, the overlay too.
type leadership struct {
	m       *Machine
	ready   bool // clients are served: the tree has the whole initial history
	handing bool // a hand-over is under way: nothing is prepared

	prep   *znode.Preparer
	queue  []queued // from the links, in order
	batch  []zab.Entry
	bytes  int    // of batch
	arena  []byte // encoded transactions
	closed []closing
	joined map[zab.Link]bool   // links that have promised this epoch
	taken  map[zab.Link]uint64 // origin seq of the last request prepared for each link
	reap   reaper
	clocks

	// Questions about sessions whose end is proposed: "over" may be said only once it is sure, for the next leader would
	// know nothing of an end that was lost (I10).
	unsure    []queued
	unsureOwn []uint64
	doubts    doubts
}

// queued is a message of a link: a decoded request, or something else that must not overtake requests.
type queued struct {
	link zab.Link
	req  *znode.Request
	msg  peer.Message
}

type closing struct {
	zxid    zab.Zxid
	session int64
}

func newLeadership(m *Machine) *leadership {
	return &leadership{m: m, taken: map[zab.Link]uint64{}, joined: map[zab.Link]bool{}, doubts: doubts{}, clocks: newClocks(m.boot.Zab.Self, m.silence()/2)}
}

// leadAll prepares everything that waits: this server's own and what came over the links.
func (m *Machine) leadAll() {
	l := m.lead
	if !m.serving || !l.open() {
		return
	}
	if !l.ready {
		l.begin()
	}
	m.takeAttaches(func(in Attach) {
		if l.ending(in.Session) {
			l.unsureOwn = append(l.unsureOwn, in.Seq)
			return
		}
		if l.sessions[in.Session] == nil {
			l.doubt(doubt{own: in.Seq})
			return
		}
		l.answerOwn(in)
	})
	m.takeParked(l.open, func(r *znode.Request) {
		if r.Op == znode.OpSync {
			m.waiting.push(waiting{req: r})
			m.stepCore(zab.SyncRead{ID: r.Origin.Seq})
			return
		}
		if z, ok := l.take(r); ok {
			m.waiting.push(waiting{req: r, zxid: z})
		} else {
			m.closeConn(r.Origin.Conn, reasonMoved)
		}
	})
	for len(l.queue) > 0 && l.open() {
		x := l.queue[0]
		l.queue = l.queue[1:]
		l.serve(x)
	}
	for len(l.due) > 0 && l.open() {
		l.expire(l.due[0])
		l.due = l.due[1:]
	}
	l.reapDue()
	l.propose()
}

// open reports whether something may be prepared now.
func (l *leadership) open() bool {
	if l.handing {
		return false
	}
	if len(l.batch) > 0 {
		return true
	}
	_, ok := l.m.core.NextZxid()
	return ok
}

// begin starts preparing, with the tickets that its quorum has declared: a session may have moved without a write since,
// and what its old connection sends, here or elsewhere, must not be taken (I8).
func (l *leadership) begin() {
	m := l.m
	t := m.boot.Tree.RLock()
	l.prep = znode.NewPreparer(t)
	t.Sessions(func(s znode.Session) bool {
		l.add(s)
		return true
	})
	m.boot.Tree.RUnlock()
	l.reap.next = m.now + m.boot.Reap.Interval
	l.ready = true
	l.declared(zab.Link{}, m.owners())
	keep := l.queue[:0]
	for _, q := range l.queue {
		if t, ok := q.msg.(*peer.Tickets); ok {
			l.declared(q.link, t.Owners)
		} else {
			keep = append(keep, q)
		}
	}
	l.queue = keep
}

// serve handles one message of a link.
func (l *leadership) serve(x queued) {
	m := l.m
	if m.links[x.link.Peer] != x.link {
		return // its sender knows that the link is gone
	}
	switch msg := x.msg.(type) {
	case nil:
		if _, ok := l.take(x.req); ok {
			l.taken[x.link] = x.req.Origin.Seq
		} else {
			m.eff.Send = append(m.eff.Send, Outbound{x.link, &peer.ForwardReject{Origin: peerOrigin(x.req.Origin)}})
		}
	case *zab.SyncRequest:
		m.stepCore(zab.Received{Link: x.link, Msg: msg})
	case *peer.Revalidate:
		if l.ending(msg.Session) {
			l.unsure = append(l.unsure, x)
			return
		}
		if l.sessions[msg.Session] == nil {
			l.doubt(doubt{link: x.link, msg: msg})
			return
		}
		l.answer(x.link, msg)
	case *peer.Touches:
		l.touch(x.link.Peer, msg.Sessions)
		l.heard[x.link.Peer] = l.clock
	case *peer.Tickets:
		l.declared(x.link, msg.Owners)
	}
}

// take prepares a request of a client unless a newer owner has its session; then it gets no transaction.
func (l *leadership) take(r *znode.Request) (zab.Zxid, bool) {
	if r.Op == znode.OpCreateSession {
		return l.create(r), true
	}
	s := l.sessions[r.Session]
	if s != nil {
		if ticketLess(r.Ticket, s.Ticket) {
			return 0, false
		}
		if ticketLess(s.Ticket, r.Ticket) {
			s.Ticket, s.owner = r.Ticket, r.Origin // drawn by an earlier leader, not declared yet
		}
		s.server, s.last = zab.ServerID(r.Origin.Server), l.present()
	}
	return l.prepare(r), true
}

// create makes a new session: the leader draws its password and its first ticket, and another id where it is taken.
func (l *leadership) create(r *znode.Request) zab.Zxid {
	for l.sessions[r.Session] != nil || r.Session == 0 {
		r.Session++
	}
	l.m.boot.Random(r.Password[:])
	r.Ticket = l.drawTicket()
	z := l.prepare(r)
	s := l.add(znode.Session{ID: r.Session, Timeout: r.Timeout, Password: r.Password, Ticket: r.Ticket})
	s.server, s.owner = zab.ServerID(r.Origin.Server), r.Origin
	return z
}

// prepare makes the transaction of a request and adds it to the next proposal.
func (l *leadership) prepare(r *znode.Request) zab.Zxid {
	m := l.m
	var z zab.Zxid
	if n := len(l.batch); n > 0 {
		z = l.batch[n-1].Zxid + 1
	} else {
		z, _ = m.core.NextZxid() // the caller has seen that it is open
	}
	m.boot.Tree.RLock()
	txn := l.prep.Prepare(r, int64(z), m.wall)
	m.boot.Tree.RUnlock()
	if txn.Type == znode.OpCloseSession {
		if s := l.sessions[txn.Session]; s != nil {
			s.closing = true
			l.closed = append(l.closed, closing{z, txn.Session})
		}
	}
	if cap(l.arena)-len(l.arena) < 1<<12 {
		l.arena = make([]byte, 0, 1<<16)
	}
	at := len(l.arena)
	l.arena = znode.AppendTxn(l.arena, txn)
	data := l.arena[at:len(l.arena):len(l.arena)]
	l.batch = append(l.batch, zab.Entry{Zxid: z, Data: data, Value: txn})
	l.bytes += len(data)
	return z
}

// propose hands what has been prepared to the core, as one proposal.
func (l *leadership) propose() {
	if len(l.batch) == 0 {
		return
	}
	c := &l.m.counts
	c.Proposals += uint64(len(l.batch))
	c.LastProposalBytes = l.bytes
	c.MaxProposalBytes = max(c.MaxProposalBytes, l.bytes)
	if c.MinProposalBytes == 0 || l.bytes < c.MinProposalBytes {
		c.MinProposalBytes = l.bytes
	}
	in := zab.Propose{Entries: l.batch}
	l.batch, l.bytes = nil, 0
	l.m.core.Step(in)
}

// expire ends a session whose time is over.
func (l *leadership) expire(id int64) {
	s := l.sessions[id]
	if s == nil || s.closing || l.horizon(s.server) < s.deadline() {
		return // gone, or touched since
	}
	l.m.counts.Expired++
	s.expired = true
	l.prepare(&znode.Request{Op: znode.OpCloseSession, Session: id, Ticket: s.Ticket})
}

// ending reports whether a session's end is proposed and not applied yet.
func (l *leadership) ending(id int64) bool {
	s := l.sessions[id]
	return s != nil && s.closing
}

func (l *leadership) answerOwn(in Attach) {
	ok, timeout, t := l.revalidate(l.m.origin(in.Conn, in.Seq), in.Session, in.Password, in.Timeout, in.Again)
	l.m.attached(in, ok, timeout, t)
}

func (l *leadership) answer(link zab.Link, msg *peer.Revalidate) {
	ok, timeout, t := l.revalidate(nodeOrigin(msg.Origin), msg.Session, msg.Password, msg.Timeout, msg.Again)
	l.m.eff.Send = append(l.m.eff.Send, Outbound{link, &peer.RevalidateResult{
		ID: msg.ID, Valid: ok, Timeout: timeout, Ticket: peerTicket(t),
	}})
}

// revalidate answers whether a session lives and makes the asking connection its owner. A wrong password disturbs
// nobody.
func (l *leadership) revalidate(o znode.Origin, id int64, password []byte, timeout int32, again bool) (bool, int32, znode.Ticket) {
	s := l.sessions[id]
	if s == nil {
		return false, 0, znode.Ticket{}
	}
	if again {
		if s.owner.Seq != 0 && (s.owner.Server != o.Server || s.owner.Instance != o.Instance || s.owner.Conn != o.Conn) {
			return false, 0, znode.Ticket{}
		}
		s.last = l.present()
		return true, s.Timeout, s.Ticket
	}
	if subtle.ConstantTimeCompare(s.Password[:], password) != 1 {
		return false, 0, znode.Ticket{}
	}
	// A former owner elsewhere is not told: its reads go on, as ZooKeeper's do, until its next write is refused.
	s.Ticket = l.drawTicket()
	s.server, s.owner, s.Timeout, s.last = zab.ServerID(o.Server), o, timeout, l.present()
	return true, timeout, s.Ticket
}

// evict tells the server of a former owner.
func (l *leadership) evict(server zab.ServerID, id int64, below znode.Ticket) {
	e := peer.Evict{Session: id, Below: peerTicket(below)}
	if server == l.m.boot.Zab.Self {
		l.m.eff.Evict = append(l.m.eff.Evict, e)
	} else if link, up := l.m.links[server]; up {
		// Ahead of all else: before what lets a server that has just come serve again.
		l.m.eff.Send = slices.Insert(l.m.eff.Send, 0, Outbound{link, &e})
	}
}

// declared takes what a server says of its connections' tickets after a leader change: the highest wins.
func (l *leadership) declared(link zab.Link, owners []peer.Owner) {
	server := link.Peer
	if server == 0 {
		server = l.m.boot.Zab.Self
	}
	for _, o := range owners {
		s, t := l.sessions[o.Session], nodeTicket(o.Ticket)
		if s == nil || s.expired {
			// Its server was cut off meanwhile, and may answer it again before it has the end in its tree (I10).
			l.evict(server, o.Session, znode.Ticket{Epoch: uint32(zab.MaxEpoch), Number: math.MaxUint64})
			continue
		}
		if ticketLess(t, s.Ticket) {
			l.evict(server, o.Session, s.Ticket)
			continue
		}
		if s.server != 0 && s.server != server && ticketLess(s.Ticket, t) {
			l.evict(s.server, o.Session, t)
		}
		s.Ticket, s.server, s.last = t, server, l.present()
		s.owner = nodeOrigin(o.Origin)
		if o.Timeout > 0 {
			s.Timeout = o.Timeout
		}
	}
	l.heard[server] = l.clock
}

// appliedUpTo drops what the overlay and the table held for transactions that the tree has now.
func (l *leadership) appliedUpTo(z zab.Zxid) {
	if !l.ready {
		return
	}
	l.prep.Applied(int64(z))
	n := 0
	for n < len(l.closed) && l.closed[n].zxid <= z {
		delete(l.sessions, l.closed[n].session)
		n++
	}
	l.closed = l.closed[n:]
	if n > 0 {
		l.m.unsent = append(l.m.unsent, l.unsureOwn...)
		l.queue = append(l.queue, l.unsure...)
		l.unsureOwn, l.unsure = nil, nil
	}
}

func (l *leadership) linkDown(link zab.Link) {
	delete(l.taken, link)
	delete(l.joined, link)
	delete(l.heard, link.Peer)
	for _, q := range l.queue {
		if t, ok := q.msg.(*peer.Touches); ok && q.link == link {
			l.touch(link.Peer, t.Sessions) // signs of life that have come count, however the link ends (I10)
		}
	}
	gone := func(q queued) bool { return q.link == link }
	l.queue = slices.DeleteFunc(l.queue, gone)
	l.unsure = slices.DeleteFunc(l.unsure, gone)
}
