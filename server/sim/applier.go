package sim

import (
	"slices"

	"github.com/zkserver/zkserver/server/peer"
	"github.com/zkserver/zkserver/server/replica"
	"github.com/zkserver/zkserver/server/sim/check"
	"github.com/zkserver/zkserver/zab"
	"github.com/zkserver/zkserver/znode"
)

func (s *server) applySoon() {
	in := s.thread()
	if s.applySlow > s.w.now {
		in += s.rnd.between(ms, 300*ms)
	}
	s.soon(&s.on.apply, evApply, in)
}

// applyRun is one round of the applier: some transactions under one lock, or the answers behind them.
func (s *server) applyRun() {
	if len(s.work) == 0 {
		return
	}
	if len(s.flight) > 0 && s.flight[0].op.Install != nil {
		s.applySoon() // the switch rests it
		return
	}
	x := &s.work[0]
	if x.deliver.Upto != 0 {
		if !s.decoded && !s.decode(&x.deliver) {
			return
		}
		if x.gen != s.roleGen {
			s.w.cover.hit("race: applied in a later role")
		} else {
			s.w.cover.hit("race: applied in its role")
		}
		n := len(s.txns) - s.txnAt
		if s.rnd.n(4) == 0 { // the lock's budget is spent
			n = min(n, 1+s.rnd.n(4))
		}
		for range n {
			t := s.txns[s.txnAt]
			s.txnAt++
			if t.Zxid <= s.tree.Applied() {
				s.w.cover.hit("race: handed over twice")
				continue
			}
			s.one(t, nil)
			s.apply.Serve(s.tree, t)
			if s.w.fault != nil {
				return
			}
		}
		s.hub.Flush()
		s.flushSoon()
		s.push(s.apply.Report(zab.Zxid(s.tree.Applied())))
		s.settleConns()
		if s.txnAt < len(s.txns) {
			s.applySoon()
			return
		}
		x.deliver.Upto = 0
		s.txns, s.txnAt, s.decoded = s.txns[:0], 0, false
	}
	if len(x.answers) > 0 {
		s.apply.Answer(s.tree, x.answers)
		s.hub.Flush()
		s.flushSoon()
		s.settleConns()
	}
	s.work = slices.Delete(s.work, 0, 1)
	if len(s.work) > 0 {
		s.applySoon()
	}
}

func (s *server) flushSoon() { s.soon(&s.on.flush, evFlush, s.thread()) }

// decode reads what the Machine no longer held from the log and decodes all.
func (s *server) decode(d *replica.Delivery) bool {
	var gap []zab.Entry
	if after := max(d.After, zab.Zxid(s.tree.Applied())); after < d.Held {
		s.w.cover.hit("delivery read from the log")
		i := s.disk.find(after)
		for ; i < len(s.disk.log) && s.disk.log[i].Zxid <= d.Held; i++ {
			gap = append(gap, s.disk.log[i])
		}
		if len(gap) == 0 || gap[len(gap)-1].Zxid != d.Held || after < s.disk.base {
			s.w.fail("store", "server %d: delivered up to %s, the log has not %s to %s", s.i+1, zx(d.Upto), zx(after), zx(d.Held))
			return false
		}
	}
	var err error
	clear(s.txns)
	if s.txns, err = replica.DecodeTxns(s.txns[:0], gap); err == nil {
		s.txns, err = replica.DecodeTxns(s.txns, d.Entries)
	}
	if err != nil {
		s.w.fail("store", "server %d: %v", s.i+1, err)
		return false
	}
	s.txnAt, s.decoded = 0, true
	return true
}

// one applies a transaction and tells the checker. e is its entry where it is at hand.
func (s *server) one(t *znode.Txn, e *zab.Entry) {
	w := s.w
	s.apply.Apply(s.tree, t)
	out := &s.apply.Out
	if out.DigestMismatch {
		w.fail("Z16", "server %d: after %s its digests are not those that the transaction carries", s.i+1, check.Zx(uint64(t.Zxid)))
		return
	}
	h := uint64(0)
	if e != nil {
		h = check.Hash(e.Data)
	} else {
		h = w.chk.HashOf(s.i, uint64(t.Zxid))
	}
	sums := s.tree.Digests()
	if !w.chk.Applied(s.i, uint64(t.Zxid), h, [2]uint64{sums.Tree, sums.State}) {
		return
	}
	w.tell(s, t, out)
}

// tell says what a transaction was, the first time that any server has applied it.
func (w *World) tell(s *server, t *znode.Txn, out *znode.Applied) {
	d := &w.did
	*d = check.Did{
		Zxid: uint64(t.Zxid), Conn: -1, Xid: t.Cxid, Session: t.Session, Code: int32(t.Err),
		Ticket:  [2]uint64{uint64(t.Ticket.Epoch), t.Ticket.Number},
		Changes: d.Changes[:0], Affected: d.Affected[:0],
	}
	if t.Type == znode.OpMulti && t.Failed() {
		d.Code = multiFailed
	}
	if t.Origin.Seq != 0 {
		if k, ok := w.origins[originKey(t.Origin)]; ok {
			d.Conn = w.conns[k].chk
			if w.conns[k].gone || w.conns[k].closed {
				w.cover.hit("race: write of a connection that is gone")
			}
		} else {
			w.fail("I7", "%s comes from a request that no client sent", check.Zx(d.Zxid))
		}
	}
	op := func(o *znode.TxnOp) {
		switch o.Op {
		case znode.OpCreate, znode.OpCreate2, znode.OpCreateContainer, znode.OpCreateTTL:
			d.Changes = append(d.Changes, check.Change{Kind: check.Created, Path: o.Path})
		case znode.OpDelete, znode.OpDeleteContainer:
			d.Changes = append(d.Changes, check.Change{Kind: check.Deleted, Path: o.Path})
		case znode.OpSetData:
			d.Changes = append(d.Changes, check.Change{Kind: check.Data, Path: o.Path})
		case znode.OpSetACL:
			d.Changes = append(d.Changes, check.Change{Kind: check.ACLs, Path: o.Path})
		}
	}
	switch {
	case t.Failed() && t.Err == znode.SessionExpired:
		w.cover.hit("race: write behind the end of its session")
	case t.Failed():
		w.cover.hit("refused write")
	case t.Type == znode.OpCreateSession:
		d.New = true
	case t.Type == znode.OpCloseSession:
		d.End = true
		for i := range out.Changes {
			if out.Changes[i].Data {
				d.Changes = append(d.Changes, check.Change{Kind: check.Deleted, Path: out.Changes[i].Path})
			}
		}
	case t.Type == znode.OpMulti:
		for i := range t.Multi {
			op(&t.Multi[i])
		}
	default:
		op(&t.Op)
	}
	if !t.Failed() {
		for i := range out.Changes {
			p := out.Changes[i].Path
			if i > 0 && slices.ContainsFunc(d.Affected, func(a check.Affected) bool { return a.Path == p }) {
				continue
			}
			a := check.Affected{Path: p}
			if data, st, code := s.tree.GetData(p, nil); code == znode.OK {
				a.Exists = true
				a.Node = nodeOf(&st)
				a.Node.Data = check.Hash(data)
			}
			d.Affected = append(d.Affected, a)
		}
	}
	w.chk.Did(d)
	if w.trace != nil {
		w.logf("%s: %s", check.Zx(d.Zxid), describeTxn(t))
	}
}

// multiFailed stands for the code of a failed multi, whose header says OK.
const multiFailed = -9999

func nodeOf(st *znode.Stat) check.Node {
	n := check.Node{
		Mzxid: uint64(st.Mzxid), Czxid: uint64(st.Czxid), Pzxid: uint64(st.Pzxid), Version: st.Version, Cversion: st.Cversion,
		Kids: int(st.NumChildren),
	}
	if st.EphemeralOwner > 0 { // containers and TTL nodes have the sign bit
		n.Owner = st.EphemeralOwner
	}
	return n
}

func originKey(o znode.Origin) uint64 { return o.Instance<<32 | uint64(o.Conn) }

// beganLeading: it serves as leader; every session has its full timeout.
func (s *server) beganLeading() {
	all := map[int64]int64{}
	s.tree.Sessions(func(x znode.Session) bool {
		all[x.ID] = int64(x.Timeout)
		return true
	})
	s.w.chk.LeaderBegan(s.i, s.active(), all)
}

// touched: the leader hears of sessions; a client of each was last heard at its server at that time.
func (s *server) touched(ts []peer.Touch, heard []int64, from int) {
	if s.role != zab.Leading || !s.serving {
		return
	}
	for i, t := range ts {
		s.w.chk.Touched(s.i, t.Session, s.active()-(s.w.now-heard[i])*s.rate/1000/ms, int64(t.Timeout), from)
	}
}

// question names a Revalidate.
type question struct {
	link zab.Link
	id   uint64
}

// alive: a leader has said of sessions that they live; that is a sign of life of each.
func (s *server) alive(e *replica.Effects) {
	if s.role != zab.Leading || !s.serving {
		return
	}
	for _, o := range e.Send {
		if m, ok := o.Msg.(*peer.RevalidateResult); ok {
			q := question{o.Link, m.ID}
			if id := s.questions[q]; m.Valid && id != 0 {
				s.w.chk.Touched(s.i, id, s.active(), int64(m.Timeout), int(o.Link.Peer)-1)
			}
			delete(s.questions, q)
		}
	}
	for _, a := range e.Answers {
		if a, ok := a.(replica.Attached); ok && a.Valid {
			s.w.chk.Touched(s.i, a.Session, s.active(), int64(a.Timeout), s.i)
		}
	}
}

// lastHeard says when the clients of sessions were last heard, at any server.
func (w *World) lastHeard(ts []peer.Touch) []int64 {
	out := make([]int64, len(ts))
	for i, t := range ts {
		out[i] = w.heard[t.Session]
	}
	return out
}

// sawMessages looks at what a leader hears of sessions.
func (s *server) sawMessages(in replica.Received) {
	if s.role != zab.Leading || s.links[in.Link.Peer] != in.Link {
		return
	}
	from := int(in.Link.Peer) - 1
	for _, m := range in.Msgs {
		switch m := m.(type) {
		case *zab.Pong:
			s.w.chk.Heard(s.i, from, s.active())
			s.answered(from, m.Epoch, m.Seq)
			s.w.servers[from].confirmed(s.i, m.Epoch, m.PongSeq)
		case *peer.Revalidate:
			s.w.chk.Moves(m.Session)
			s.questions[question{in.Link, m.ID}] = m.Session
		case *peer.Tickets:
			for _, o := range m.Owners {
				s.w.chk.Moves(o.Session)
			}
		case *replica.Forwarded:
			s.w.chk.Forwards(m.Request.Session, from)
		case *zab.AckEpoch:
			if s.joined == nil {
				s.joined = map[zab.Link]zab.Epoch{}
			}
			s.joined[in.Link] = m.Epoch
			s.w.chk.HeardPromise(s.i, from, uint32(m.Epoch))
		case *zab.AckNewLeader:
			s.answered(from, m.Epoch, 0)
			if s.serving {
				s.w.cover.hit("race: joins an established leader")
			} else {
				s.w.cover.hit("race: joins before the leader is established")
			}
		case *peer.Touches:
			if s.serving && s.joined[in.Link] == s.epoch {
				s.touched(m.Sessions, s.w.reported[m], from)
			}
			delete(s.w.reported, m)
		}
	}
}

// checkBounds looks at what a leader holds for its learners (I13).
func (s *server) checkBounds() {
	o := s.w.cfg.zab
	window, run := o.Window, o.RunBytes
	if window == 0 {
		window, run = 4<<20, 256<<10
	}
	for _, l := range s.m.Status().Zab.Learners {
		s.w.chk.Outstanding(s.i, l.InFlight, window+run+4096)
	}
}
