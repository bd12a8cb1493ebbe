package zab

import "encoding/binary"

// Names translates what a dump names, so that states that differ in names only can be told to be equal.
type Names struct {
	Server func(ServerID) ServerID
	ID     func(ID) uint64
	// Still leaves out what only rounds of pings decide (syncs, hand-overs, blanks) and what fills a learner's window:
	// for worlds in which no time passes and little is under way.
	Still bool
}

// AppendState appends everything that the core's further doings depend on: two cores with the same dump do the same
// with the same inputs. Left out is what only time decides (when somebody was heard, deadlines, the serving lease) and
// what nobody asks for any more. Numbers of persist ops are relative to what is durable. Servers are written in the
// order of their translated ids.
func (c *Core) AppendState(dst []byte, n Names) []byte {
	d := dump{dst, n}
	d.server(c.self)
	d.hard(c.hard)
	d.id(c.ensemble)
	d.zxids(c.base, c.last, c.committed, c.delivered, c.applied, c.ring.start)
	d.table(c.epochs)
	d.bools(c.needSnap, c.serving)
	rel := func(seq uint64) { d.num(max(seq, c.persisted) - c.persisted) }
	rel(c.seq)
	rel(c.barrier)
	rel(c.switching)
	d.hard(c.durable.hard)
	d.id(c.durable.ensemble)
	d.zxids(c.durable.last)
	d.num(uint64(len(c.marks)))
	for _, m := range c.marks {
		rel(m.seq)
		d.hard(m.hard)
		d.id(m.ensemble)
		d.zxids(m.last)
	}
	d.num(uint64(c.role))
	d.num(uint64(c.epoch))
	d.server(c.leader)
	d.server(c.elected)
	d.each(len(c.peers), func(i int) ServerID { return c.peers[i].id }, func(i int) {
		p := &c.peers[i]
		d.bools(p.up, p.info != nil)
		if p.info != nil {
			d.message(p.info)
		}
	})
	if c.lead != nil {
		rel(c.lead.promised)
		d.leadership(c.lead)
	}
	if c.learn != nil {
		d.learning(c.learn)
	}
	return d.b
}

// AppendMessage appends a message. The data of entries is left out: a zxid names its transaction.
func AppendMessage(dst []byte, m Message, n Names) []byte {
	d := dump{dst, n}
	d.message(m)
	return d.b
}

type dump struct {
	b []byte
	n Names
}

func (d *dump) num(v uint64) { d.b = binary.AppendUvarint(d.b, v) }

func (d *dump) server(id ServerID) {
	if id != 0 {
		id = d.n.Server(id)
	}
	d.num(uint64(id))
}

func (d *dump) id(id ID) {
	if id == 0 {
		d.num(0)
		return
	}
	d.num(d.n.ID(id))
}

func (d *dump) hard(h HardState) {
	d.num(uint64(h.Accepted))
	d.num(uint64(h.Current))
}

func (d *dump) zxids(zs ...Zxid) {
	for _, z := range zs {
		d.num(uint64(z.Epoch()))
		d.num(uint64(z.Counter()))
	}
}

func (d *dump) bools(bs ...bool) {
	v := uint64(0)
	for i, b := range bs {
		if b {
			v |= 1 << i
		}
	}
	d.num(v)
}

func (d *dump) table(t []EpochEnd) {
	d.num(uint64(len(t)))
	for _, r := range t {
		d.num(uint64(r.Epoch))
		d.zxids(r.Last)
	}
}

// each writes n things, each with the server it is about, in the order of the translated ids.
func (d *dump) each(n int, of func(int) ServerID, write func(int)) {
	d.num(uint64(n))
	last := ServerID(0)
	for range n {
		next, at := ServerID(0), -1
		for i := range n {
			if id := d.n.Server(of(i)); id > last && (at < 0 || id < next) {
				next, at = id, i
			}
		}
		last = next
		d.num(uint64(next))
		write(at)
	}
}

func (d *dump) leadership(l *leadership) {
	d.num(uint64(l.phase))
	if l.phase <= promising {
		d.num(uint64(l.startEnd.current))
		d.zxids(l.startEnd.last)
	} else {
		d.zxids(l.historyEnd)
	}
	d.id(l.ensemble)
	d.bools(l.founding, l.handing != nil)
	if l.handing != nil {
		d.server(l.handing.to)
	}
	d.num(uint64(l.tooHigh))
	lost := uint64(0)
	for _, id := range l.lost {
		lost |= 1 << (d.n.Server(id) & 63)
	}
	d.num(lost)
	if !d.n.Still {
		d.num(l.pingSeq)
		d.num(l.confirmed)
		d.num(l.resume)
		d.num(l.asking)
		d.num(uint64(len(l.syncs)))
		for _, w := range l.syncs {
			d.server(w.from)
			d.num(w.id)
			d.zxids(w.index)
			d.num(w.round)
		}
	}
	d.each(len(l.learners), func(i int) ServerID { return l.learners[i].id }, func(i int) { d.learner(l.learners[i], l.phase) })
}

func (d *dump) learner(x *learner, p phase) {
	d.num(uint64(x.state))
	d.bools(x.observer, x.counted, x.blank, x.counts && p <= promising, x.marked, x.synced, x.upToDate, x.readID != 0)
	switch x.state {
	case greeted:
		d.message(&x.info) // of which only the promised epoch is asked for later
	case promised:
		d.zxids(x.has.base, x.has.last, x.has.delivered)
		d.table(x.has.epochs)
		d.bools(x.has.needSnap)
	case awaitSnapshot:
		d.zxids(x.plan.common, x.plan.min)
	}
	d.zxids(x.cursor, x.acked)
	if x.upToDate {
		d.zxids(x.upTo)
	}
	if d.n.Still {
		return
	}
	d.zxids(x.applied)
	d.num(uint64(len(x.sent)))
	for _, f := range x.sent {
		d.zxids(f.last)
		d.num(uint64(f.bytes))
	}
	d.num(x.begun)
	d.zxids(x.owes)
	d.num(x.answered)
}

func (d *dump) learning(l *learning) {
	d.num(uint64(l.state))
	d.zxids(l.target)
	d.bools(l.snapshot != nil, l.arrived != nil)
	if l.snapshot != nil {
		d.message(l.snapshot)
	}
	if l.arrived != nil {
		d.zxids(l.arrived.Zxid)
	}
	d.num(uint64(len(l.held)))
	for _, m := range l.held {
		d.message(m)
	}
	d.num(uint64(len(l.asking)))
	d.num(uint64(len(l.asked)))
	for _, g := range l.asked {
		d.num(g.id)
	}
}

func (d *dump) message(m Message) {
	switch m := m.(type) {
	case *LearnerInfo:
		d.num(1)
		d.id(m.Ensemble)
		d.id(m.Instance)
		d.bools(m.Observer, m.Transaction)
		d.num(uint64(m.Accepted))
		d.num(m.ConfigSum)
		d.num(uint64(m.Version))
	case *LeaderInfo:
		d.num(2)
		d.num(uint64(m.Epoch))
		d.id(m.Ensemble)
	case *AckEpoch:
		d.num(3)
		d.id(m.Ensemble)
		d.num(uint64(m.Epoch))
		d.bools(m.Counts, m.NeedSnap)
		d.num(uint64(m.Current))
		d.zxids(m.Last, m.Delivered, m.Base)
		d.table(m.Epochs)
	case *SyncBegin:
		d.num(4)
		d.num(uint64(m.Epoch))
		d.num(uint64(m.Mode))
		d.zxids(m.TruncateTo, m.Snapshot, m.Base)
		d.table(m.Epochs)
	case *Append:
		d.num(5)
		d.num(uint64(m.Epoch))
		d.zxids(m.Prev, m.Committed)
		d.num(uint64(len(m.Entries)))
		for i := range m.Entries {
			d.zxids(m.Entries[i].Zxid)
		}
	case *NewLeader:
		d.num(6)
		d.num(uint64(m.Epoch))
		d.zxids(m.HistoryEnd)
		d.table(m.Epochs)
		d.id(m.Ensemble)
	case *AckNewLeader:
		d.num(7)
		d.num(uint64(m.Epoch))
		d.zxids(m.HistoryEnd)
	case *UpToDate:
		d.num(8)
		d.num(uint64(m.Epoch))
		d.zxids(m.Committed)
	case *Ack:
		d.num(9)
		d.num(uint64(m.Epoch))
		d.zxids(m.Durable)
	case *Commit:
		d.num(10)
		d.num(uint64(m.Epoch))
		d.zxids(m.Zxid)
	case *Ping:
		d.num(11)
		d.num(uint64(m.Epoch))
		d.num(m.Seq)
		d.zxids(m.Committed)
		d.bools(m.HasQuorum)
		d.num(m.PongSeen)
	case *Pong:
		d.num(12)
		d.num(uint64(m.Epoch))
		d.num(m.Seq)
		d.num(m.PongSeq)
		d.zxids(m.Durable, m.Applied)
		d.num(uint64(m.Current))
	case *SyncRequest:
		d.num(13)
		d.num(uint64(m.Epoch))
		d.num(m.ID)
	case *SyncReply:
		d.num(14)
		d.num(uint64(m.Epoch))
		d.num(m.ID)
		d.zxids(m.Index)
	case *TimeoutNow:
		d.num(15)
		d.num(uint64(m.Epoch))
		d.zxids(m.Last)
	case *Goodbye:
		d.num(16)
		d.num(uint64(m.Epoch))
		d.b = append(append(d.b, m.Reason...), 0)
		d.zxids(m.Last)
		d.server(m.Successor)
	case *Refuse:
		d.num(17)
		d.b = append(append(d.b, m.Reason...), 0)
	default:
		assert(false, "a message without a dump: %T", m)
	}
}
