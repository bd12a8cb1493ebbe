package zab

import (
	"math/rand/v2"
	"slices"
	"time"
)

// Core is one server's part in Zab. It is not safe for concurrent use: one goroutine steps it.
//
// What the core holds of the log (last, epochs, hard) is what it has *issued*; what is durable follows with Persisted,
// in marks. A role change waits for both to be equal (the barrier), so a role always begins from durable facts (R6).
type Core struct {
	self      ServerID
	observer  bool
	members   []Member
	verifier  Verifier
	alone     bool // this server is a quorum by itself
	configSum uint64
	instance  ID
	opts      Options
	rand      *rand.Rand

	// issued
	hard      HardState
	ensemble  ID
	base      Zxid
	last      Zxid
	epochs    history
	needSnap  bool
	committed Zxid // the commit point known
	delivered Zxid // handed over to the host
	applied   Zxid // what the tree has, as the host said
	ring      ring

	seq       uint64 // of the last op issued
	persisted uint64 // every op up to it is durable
	marks     []mark // ops issued and not yet durable, by seq
	durable   mark   // what the disk holds for certain
	barrier   uint64 // the present generation may act once it is persisted
	switching uint64 // op of a snapshot switch under way: nothing is delivered before it is durable

	gen     uint64
	role    Role
	epoch   Epoch // of the present role, zero until known
	leader  ServerID
	elected ServerID // a role that waits for the barrier
	serving bool
	lease   time.Duration
	peers   []peerState // one a member, ascending
	lead    *leadership
	learn   *learning
	readID  uint64

	now   time.Duration // monotonic
	awake time.Duration // what of it this process was running: by it others are judged
	batch Batch
	told  told // what the last batch said
	quiet bool // Ready had nothing, and no step has been taken since
	stats stats
}

// mark is the state of the disk once an op is done.
type mark struct {
	seq      uint64
	hard     HardState
	ensemble ID
	last     Zxid
}

// told remembers what the host knows, so that Ready speaks only of news.
type told struct {
	delivered Zxid
	lease     time.Duration
}

// peerState is what outlives roles: the present link, and a LearnerInfo that came before this server led.
type peerState struct {
	id    ServerID
	link  Link
	up    bool
	info  *LearnerInfo
	heard time.Duration // last message on the present link
}

type stats struct {
	proposals, snapshots, diffs, truncs uint64
}

// New checks what survived and makes a looking core. It starts nothing.
func New(b Boot) (*Core, error) {
	if err := b.Validate(); err != nil {
		return nil, err
	}
	c := &Core{
		self: b.Self, members: slices.Clone(b.Members), verifier: b.Verifier, configSum: ConfigSum(b.Members),
		instance: b.Instance, opts: b.Options.withDefaults(), rand: b.Rand,
		hard: b.Hard, ensemble: b.Ensemble, base: b.Base, last: b.Last, epochs: slices.Clone(b.Epochs), needSnap: b.NeedSnap,
		committed: max(b.Committed, b.Delivered), delivered: b.Delivered, applied: b.Delivered,
	}
	if c.verifier == nil {
		c.verifier = NewVerifier(b.Members)
	}
	c.alone = c.verifier.Quorum(func(id ServerID) bool { return id == c.self })
	slices.SortFunc(c.members, func(a, b Member) int { return cmpID(a.ID, b.ID) })
	for _, m := range c.members {
		if m.ID == c.self {
			c.observer = m.Observer
		}
		c.peers = append(c.peers, peerState{id: m.ID})
	}
	c.durable = c.mark()
	c.told.delivered = c.delivered
	c.ring = ring{limit: 2 * c.opts.Window, start: c.last}
	if len(b.Members) == 1 {
		c.ring.limit = 0 // nobody will ever ask
	}
	return c, nil
}

func (c *Core) mark() mark {
	return mark{seq: c.seq, hard: c.hard, ensemble: c.ensemble, last: c.last}
}

// Step consumes one input and adds to the batch that Ready hands out.
func (c *Core) Step(in Input) {
	c.quiet = false
	switch in := in.(type) {
	case Quantum:
		c.quantum(in)
	case Received:
		c.receive(in.Link, in.Msg)
	case LinkUp:
		c.linkUp(in.Link)
	case LinkDown:
		c.linkDown(in.Link)
	case Elected:
		c.setElected(in.Leader)
	case Propose:
		c.propose(in.Entries)
	case SyncRead:
		c.syncRead(in.ID)
	case Persisted:
		c.onPersisted(in.Seq)
	case Applied:
		c.onApplied(in.Zxid)
	case LogRead:
		c.onLogRead(in)
	case SnapshotReady:
		c.onSnapshotReady(in)
	case SnapshotSent:
		c.onSnapshotSent(in)
	case SnapshotProgress:
		c.onSnapshotProgress(in.Link)
	case SnapshotReceived:
		c.onSnapshotReceived(in)
	case StepDown:
		c.elected = 0
		c.stepDown(in.Reason, 0)
	case HandOver:
		c.handOver(in.To)
	case LogBase:
		if in.Base > c.base { // else a switch issued meanwhile has gone further
			assert(in.Base <= c.delivered, "log cut at %v, delivered %v", in.Base, c.delivered)
			c.base = in.Base
		}
	}
}

// Ready hands out what the steps since the last call ask for; false when there is nothing.
func (c *Core) Ready() (Batch, bool) {
	if c.quiet {
		return Batch{Gen: c.gen, Lease: c.lease}, false
	}
	c.flush()
	b := c.batch
	c.batch = Batch{}
	b.Gen, b.Lease = c.gen, c.lease
	news := len(b.Persist)+len(b.Send)+len(b.SendWhen)+len(b.Reads)+len(b.Events) > 0
	if c.switching <= c.persisted && !c.needSnap && c.delivered < c.committed {
		c.delivered = c.committed
	}
	if c.delivered != c.told.delivered {
		if c.delivered > c.told.delivered {
			b.Deliver, news = c.delivered, true
		}
		c.told.delivered = c.delivered
	}
	if b.Lease != c.told.lease {
		c.told.lease, news = b.Lease, true
	}
	c.quiet = !news
	return b, news
}

// flush generates what is better said once for all steps of a batch.
func (c *Core) flush() {
	switch {
	case c.lead != nil:
		c.flushLeader()
	case c.learn != nil:
		c.flushLearner()
	}
}

func (c *Core) receive(l Link, m Message) {
	p := c.peer(l.Peer)
	if p == nil || !p.up || p.link != l {
		return // R11: a stranger, or a link that was replaced
	}
	p.heard = c.awake
	switch m := m.(type) {
	case *LearnerInfo:
		c.onLearnerInfo(p, m)
		return
	case *Goodbye:
		p.info = nil
	}
	switch {
	case c.lead != nil:
		c.receiveAsLeader(p, m)
	case c.learn != nil && l.Peer == c.leader:
		c.receiveAsLearner(m)
	}
}

func (c *Core) linkUp(l Link) {
	p := c.peer(l.Peer)
	if p == nil || p.id == c.self {
		return
	}
	if p.up {
		if l.Incarnation <= p.link.Incarnation {
			return
		}
		c.linkDown(p.link)
	}
	p.link, p.up, p.heard = l, true, c.awake
	if c.learn != nil && p.id == c.leader {
		c.greet(p)
	}
}

func (c *Core) linkDown(l Link) {
	p := c.peer(l.Peer)
	if p == nil || !p.up || p.link != l {
		return
	}
	p.up, p.info = false, nil
	switch {
	case c.lead != nil:
		c.dropLearner(p.id)
	case c.learn != nil && p.id == c.leader:
		c.stepDown(ReasonLeaderGone, 0)
	}
}

func (c *Core) onApplied(z Zxid) {
	c.applied = max(c.applied, z)
	c.serveWhenApplied()
}

// stepDown ends the present role: a new generation begins, looking. Successor is whom a hand-over suggested.
func (c *Core) stepDown(r Reason, successor ServerID) {
	if c.role == Looking {
		return
	}
	if c.serving {
		c.serving = false
		c.event(Serving{On: false, Epoch: c.epoch})
	}
	if c.lead != nil {
		c.endLeadership(r, successor)
	}
	if c.learn != nil {
		c.endLearning(r)
	}
	c.lead, c.learn, c.leader, c.epoch, c.lease = nil, nil, 0, 0, 0
	c.role = Looking
	c.gen++
	c.barrier = c.seq
	c.batch.SendWhen = nil // promises of the old generation stay unsaid
	c.batch.Reads = nil
	c.event(RoleChanged{Role: Looking, Leader: successor, Reason: r})
}

func (c *Core) setElected(leader ServerID) {
	if c.role != Looking {
		c.stepDown(ReasonNone, 0)
	}
	c.elected = leader
	c.startElected()
}

// startElected begins the role that waits, once everything issued before is durable (interleavings 3).
func (c *Core) startElected() {
	if c.elected == 0 || !c.BarrierPassed() {
		return
	}
	leader := c.elected
	c.elected = 0
	assert(c.durable == c.mark(), "barrier passed at %+v, issued %+v", c.durable, c.mark())
	c.gen++
	c.leader = leader
	if leader == c.self {
		c.beginLeading()
	} else {
		c.beginLearning()
	}
}

// BarrierPassed reports whether everything issued is durable: only then may the host vote for this server's history.
func (c *Core) BarrierPassed() bool { return c.persisted >= c.seq }

func (c *Core) peer(id ServerID) *peerState {
	for i := range c.peers {
		if c.peers[i].id == id {
			return &c.peers[i]
		}
	}
	return nil
}

func (c *Core) member(id ServerID) (Member, bool) {
	for _, m := range c.members {
		if m.ID == id {
			return m, true
		}
	}
	return Member{}, false
}

func (c *Core) event(e Event) { c.batch.Events = append(c.batch.Events, e) }

func (c *Core) send(l Link, m Message) {
	c.batch.Send = append(c.batch.Send, Outbound{Link: l, Msg: m})
}

// sendWhen sends once everything issued up to seq is durable.
func (c *Core) sendWhen(seq uint64, l Link, m Message) {
	if seq <= c.persisted {
		c.send(l, m)
		return
	}
	c.batch.SendWhen = append(c.batch.SendWhen, Gated{Seq: seq, Outbound: Outbound{Link: l, Msg: m}})
}

// cut asks for the end of a link and forgets it at once.
func (c *Core) cut(l Link, r Reason, detail string) {
	c.event(CutLink{Link: l, Reason: r, Detail: detail})
	c.linkDown(l)
}
