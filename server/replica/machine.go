package replica

import (
	"errors"
	"fmt"
	"time"

	"github.com/zkserver/zkserver/election"
	"github.com/zkserver/zkserver/server/peer"
	"github.com/zkserver/zkserver/zab"
	"github.com/zkserver/zkserver/znode"
)

// TreeLock gives the Machine the tree for reading. The tree may be ahead of the last Applied input: the Machine
// decides nothing by what it reads from it but through the preparer, whose overlay covers the difference.
type TreeLock interface {
	RLock() *znode.Tree
	RUnlock()
}

// Boot configures a Machine.
type Boot struct {
	Zab      zab.Boot
	Election election.Boot
	Tree     TreeLock
	Process  zab.ID       // names this run of the process in origins; not zero
	Random   func([]byte) // fills in session passwords

	MinSessionTimeout time.Duration // as configured
	SilenceLimit      time.Duration // as in zab.Options
	Reap              Reap
}

// Machine is one replica without its threads: the two cores, the preparer, the session clocks and the requests that
// wait. It is pure: no goroutine, clock, I/O or logger; the same inputs give the same effects.
type Machine struct {
	boot  Boot
	core  *zab.Core
	elect *election.Core
	eff   Effects

	now       time.Duration // monotonic, from the last Quantum
	abandonAt time.Duration // when a superseded learner stops to wait for its leader's Goodbye; zero: it does not wait
	wall      int64         // ms

	// What has been issued to the disk, and up to which op it is durable.
	gen     uint64
	gates   []gate
	durable uint64
	last    zab.Zxid // end of the log as issued

	// Entries of the log that wait for delivery; what lies in (delivered, logAfter] is not held in memory.
	log         []zab.Entry
	heldBytes   int
	logAfter    zab.Zxid
	appended    []appended
	durableLast zab.Zxid

	committed   zab.Zxid // known commit point
	delivered   zab.Zxid // handed to the applier
	applied     zab.Zxid // what it has reported
	flying      []flight
	flyingBytes int

	links   map[zab.ServerID]zab.Link
	arrived string // directory of a snapshot that is complete and not yet asked to be installed

	// The role, as the zab core has it.
	role      zab.Role
	leader    zab.ServerID
	epoch     zab.Epoch
	serving   bool
	idleSince time.Duration // when serving ended
	refusing  bool          // it ended so long ago that clients are turned away
	wantLook  bool          // an election is due once everything issued is durable
	lookAt    time.Duration // and not before
	looks     int           // elections since this server served
	campaign  bool          // stand at once (TimeoutNow)
	successor zab.ServerID  // named by the Goodbye of the last leader
	lease     time.Duration
	stuck     bool // the applier stands still
	leaving   leaving

	lead    *leadership
	learner learner

	// This server's clients.
	conns       map[uint32]*conn
	nextSession int64
	parked      []*znode.Request // submitted, neither forwarded nor prepared, in order
	taking      bool             // takeParked is under way,
	dropped     map[uint32]bool  // and these connections were closed meanwhile
	waiting     waitList         // forwarded or prepared, not applied
	syncing     map[uint32]*held // connections with a sync under way
	attaches    map[uint64]*attach
	unsent      []uint64 // attaches to send, in order
	doubted     uint64   // rounds that questions about unknown sessions have asked for
	arena       []byte   // encoded requests to forward
	counts      Counts
}

// Counts are totals since the start, for metrics.
type Counts struct {
	Proposals, Commits   uint64
	Looking              uint64
	DiffSyncs, SnapSyncs uint64
	Expired              uint64
	LastProposalBytes    int
	MinProposalBytes     int
	MaxProposalBytes     int
	Outages              uint64 // times without service that are over, the start included
	OutageTime           time.Duration
	OutageMin, OutageMax time.Duration
}

// outage counts a time without service, from its first to its last moment.
func (c *Counts) outage(d time.Duration) {
	if c.Outages == 0 || d < c.OutageMin {
		c.OutageMin = d
	}
	c.Outages++
	c.OutageTime += d
	c.OutageMax = max(c.OutageMax, d)
}

// conn is what the Machine knows of one client connection that has, or asked for, a session.
type conn struct {
	session  int64
	timeout  int32
	ticket   znode.Ticket
	seq      uint64 // of its Attach
	attached bool
}

// appended says up to where an op extends the log.
type appended struct {
	seq  uint64
	last zab.Zxid
}

// flight is a run that the applier has been handed.
type flight struct {
	upto  zab.Zxid
	bytes int
}

// gate is a message that waits for the disk.
type gate struct {
	gen uint64
	zab.Gated
}

// NewMachine validates and joins the cores. The tree behind boot.Tree has applied everything up to boot.Zab.Delivered.
func NewMachine(b Boot) (*Machine, error) {
	if b.Tree == nil || b.Random == nil || b.Process == 0 {
		return nil, errors.New("replica: boot without tree, random source or process id")
	}
	core, err := zab.New(b.Zab)
	if err != nil {
		return nil, fmt.Errorf("replica: %w", err)
	}
	elect, err := election.New(b.Election)
	if err != nil {
		return nil, fmt.Errorf("replica: %w", err)
	}
	m := &Machine{
		boot: b, core: core, elect: elect,
		last: b.Zab.Last, logAfter: b.Zab.Last, committed: b.Zab.Delivered, delivered: b.Zab.Delivered, applied: b.Zab.Delivered,
		links: map[zab.ServerID]zab.Link{}, conns: map[uint32]*conn{}, syncing: map[uint32]*held{}, dropped: map[uint32]bool{},
		attaches: map[uint64]*attach{},
		wantLook: true, durableLast: b.Zab.Last,
	}
	return m, nil
}

// Step takes one input. What it brings about is added to the effects.
func (m *Machine) Step(in Input) {
	switch in := in.(type) {
	case Requests:
		m.submit(in)
	case Received:
		m.received(in)
	case Applied:
		m.appliedUpTo(in)
	case Persisted:
		m.persisted(in)
	case Clock:
		m.wall = in.WallMs
		if m.lead != nil {
			m.lead.now = in.Now
		}
		if m.nextSession == 0 {
			m.nextSession = int64(m.boot.Zab.Self)<<56 | (in.WallMs&(1<<40-1))<<16
		}
	case Quantum:
		m.quantum(in)
	case Touched:
		m.touchedHere(in.Sessions)
	case Attach:
		m.attach(in)
	case Detach:
		delete(m.conns, in.Conn)
		m.forgetAttaches(in.Conn)
	case LinkUp:
		m.links[in.Link.Peer] = in.Link
		m.stepCore(zab.LinkUp{Link: in.Link})
		m.stepElection(election.PeerUp{Peer: in.Link.Peer, RTT: in.RTT})
	case LinkDown:
		m.linkDown(in)
	case DialFailed:
		if _, up := m.links[in.Peer]; !up {
			m.stepElection(election.PeerDown{Peer: in.Peer, Refused: in.Refused})
		}
	case Core:
		if s, ok := in.In.(zab.SnapshotReceived); ok {
			m.snapshotArrived(s)
		}
		m.stepCore(in.In)
	case Leave:
		m.leave()
	case DiskStuck:
		// Its heartbeats would keep it in office although it makes nothing durable; the others can do better. It takes
		// part again as soon as everything that it has issued is durable.
		if m.lead != nil {
			m.stepCore(zab.StepDown{Reason: reasonDiskStuck})
		}
	case StateStuck:
		m.stateStuck(in.On)
	}
}

// Ready ends a run of inputs: it prepares or forwards everything that waits for it and hands out what is to be done.
func (m *Machine) Ready() (Effects, bool) {
	m.absorb()
	for m.look() {
		m.absorb()
	}
	m.flush()
	m.absorb()
	if m.tryLeave() {
		m.absorb()
	}
	if m.eff.empty() {
		return Effects{Gen: m.gen, Lease: m.answerUntil()}, false
	}
	e := m.eff
	e.Gen, e.Lease = m.gen, m.answerUntil()
	m.eff = Effects{}
	return e, true
}

// stateStuck: nobody is served by a tree that stands still. Its clients find another server. A leader leaves the office to
// one that applies, and takes part in no election before it goes on; a learner stays, because its log counts.
func (m *Machine) stateStuck(on bool) {
	m.stuck = on
	if !on {
		return
	}
	m.closeAll(reasonStateStuck)
	if m.lead != nil {
		m.stepCore(zab.StepDown{Reason: reasonStateStuck})
	}
}

// answerUntil is the lease, unless the tree stands still.
func (m *Machine) answerUntil() time.Duration {
	if m.stuck {
		return 0
	}
	return m.lease
}

// flush sends on what this server's clients have asked for, and what others have.
func (m *Machine) flush() {
	switch {
	case m.lead != nil:
		m.leadAll()
	case m.serving:
		m.forwardAll()
	}
}

func (m *Machine) quantum(in Quantum) {
	m.now = in.Now
	m.stepCore(zab.Quantum{Now: in.Now, Late: in.Late})
	m.stepElection(election.Quantum{Now: in.Now, Late: in.Late})
	if m.lead != nil {
		m.lead.tick(in)
	}
	if m.abandonAt != 0 && m.now >= m.abandonAt {
		m.abandonAt = 0
		m.stepCore(zab.StepDown{Reason: zab.ReasonSupersededEpoch})
	}
	if !m.serving && !m.refusing && m.now-m.idleSince >= m.patience() {
		m.refusing = true
		m.closeAll(reasonNotServing)
	}
}

// patience is how long connections stay open while this server does not serve: a third of the smallest session
// timeout, at most 2 s (architecture 4.14).
func (m *Machine) patience() time.Duration {
	least := m.boot.MinSessionTimeout
	if least <= 0 {
		least = 6 * time.Second
	}
	return min(least/3, 2*time.Second)
}

func (m *Machine) linkDown(in LinkDown) {
	m.stepCore(zab.LinkDown{Link: in.Link})
	if m.links[in.Link.Peer] != in.Link {
		return // it was replaced
	}
	delete(m.links, in.Link.Peer)
	if m.lead != nil {
		m.lead.linkDown(in.Link)
	}
	m.stepElection(election.PeerDown{Peer: in.Link.Peer, Refused: in.Refused})
}

// received takes the messages of one link in their order.
func (m *Machine) received(in Received) {
	if m.links[in.Link.Peer] != in.Link {
		return // a replaced link (R11)
	}
	for _, msg := range in.Msgs {
		switch msg := msg.(type) {
		case *election.Notification:
			m.stepElection(election.Received{From: in.Link.Peer, N: *msg})
		case *zab.AckEpoch:
			if m.lead != nil && msg.Epoch == m.core.Epoch() {
				m.lead.joined[in.Link] = true
			}
			m.stepCore(zab.Received{Link: in.Link, Msg: msg})
		case *zab.SyncRequest:
			// It stands behind the requests that came before it: its index must cover them.
			m.enqueue(queued{link: in.Link, msg: msg})
		case *zab.Pong:
			if m.lead != nil {
				m.lead.heard[in.Link.Peer] = m.lead.clock
			}
			m.stepCore(zab.Received{Link: in.Link, Msg: msg})
		case zab.Message:
			m.stepCore(zab.Received{Link: in.Link, Msg: msg})
		case *Forwarded:
			m.enqueue(queued{link: in.Link, req: msg.Request})
		case *peer.Revalidate, *peer.Touches, *peer.Tickets:
			m.enqueue(queued{link: in.Link, msg: msg})
		default:
			if in.Link.Peer == m.leader && m.lead == nil {
				m.fromLeader(in.Link, msg)
			}
		}
	}
}

// enqueue takes a learner's message for this leadership. What was sent to an earlier one over the same link comes before
// the learner's promise of this epoch: it was handed back, or its sender has given it up.
func (m *Machine) enqueue(q queued) {
	if m.lead != nil && m.lead.joined[q.link] {
		m.lead.queue = append(m.lead.queue, q)
	}
}
