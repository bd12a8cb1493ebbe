package election

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/zkserver/zkserver/zab"
)

// heard is the newest notification of a peer.
type heard struct {
	n Notification
	// fresh: it came after this server last decided. Only fresh ones are carried into the next instance.
	fresh bool
}

// link is what is known about the connection with a peer.
type link struct {
	up      bool
	refused bool // the last thing known is that its process does not answer
	rtt     time.Duration
}

// Core takes part in elections. It is driven from one goroutine: Step, then Ready.
//
// What peers said is kept as one newest notification a peer, nothing else: votes of an older round, of a peer whose
// link is gone, or of one that has turned elsewhere can therefore never be added to those of the present round.
type Core struct {
	self      zab.ServerID
	voters    []zab.ServerID // ascending
	members   []zab.ServerID // ascending, without self
	verifier  zab.Verifier
	configSum uint64
	rand      *rand.Rand
	opts      Options
	voter     bool

	now     time.Duration
	look    Look
	role    zab.Role
	leader  zab.ServerID // chosen; zero while looking
	settled Established  // zero until the zab core serves
	round   uint64
	// leaderRound is the round in which the leader was chosen by its own word: that in which it looks again is later.
	leaderRound uint64
	proposal    Vote
	class       class
	closed      bool // Abandon was said for the role held; nothing more is until the next Look
	resigned    bool // the role held is over

	latest  map[zab.ServerID]*heard
	links   map[zab.ServerID]*link
	refused map[zab.ServerID]zab.Reason
	// barred are candidates that others vote for and that cannot be heard here: until they are, no vote for them is
	// taken over, else those who cannot reach such a one would go on electing it.
	barred map[zab.ServerID]bool
	since  map[zab.ServerID]time.Duration // when a candidate that is not heard was first voted for, in this instance

	decidedAt  time.Duration
	resendAt   time.Duration
	resendWait time.Duration
	finalizeAt time.Duration // zero: no quorum agrees

	pending map[zab.ServerID]bool // peers that are owed the present notification
	batch   Batch
}

// New validates the configuration; the core does nothing before its first Look.
func New(b Boot) (*Core, error) {
	var errs []error
	if b.Verifier == nil {
		errs = append(errs, errors.New("election: no verifier"))
	}
	if b.Rand == nil {
		errs = append(errs, errors.New("election: no source of randomness"))
	}
	c := &Core{
		self:      b.Self,
		verifier:  b.Verifier,
		configSum: b.ConfigSum,
		rand:      b.Rand,
		opts:      b.Options.withDefaults(),
		latest:    make(map[zab.ServerID]*heard),
		links:     make(map[zab.ServerID]*link),
		refused:   make(map[zab.ServerID]zab.Reason),
		barred:    make(map[zab.ServerID]bool),
		since:     make(map[zab.ServerID]time.Duration),
		pending:   make(map[zab.ServerID]bool),
	}
	seen := make(map[zab.ServerID]bool)
	for _, m := range b.Members {
		if m.ID == 0 || seen[m.ID] {
			errs = append(errs, fmt.Errorf("election: server id %d is zero or given twice", m.ID))
		}
		seen[m.ID] = true
		if m.ID != b.Self {
			c.members = append(c.members, m.ID)
			c.links[m.ID] = &link{}
		}
	}
	if !seen[b.Self] {
		errs = append(errs, fmt.Errorf("election: server %d is not a member", b.Self))
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	slices.Sort(c.members)
	c.voters = b.Verifier.Voters()
	c.voter = b.Verifier.Voter(b.Self)
	return c, nil
}

func (o Options) withDefaults() Options {
	if o.Finalize <= 0 {
		o.Finalize = 20 * time.Millisecond
	}
	if o.ResendMin <= 0 {
		o.ResendMin = 50 * time.Millisecond
	}
	if o.ResendMax < o.ResendMin {
		o.ResendMax = max(time.Second, o.ResendMin)
	}
	return o
}

// Self is this server.
func (c *Core) Self() zab.ServerID { return c.self }

// Looking reports whether an instance is under way.
func (c *Core) Looking() bool { return c.role == zab.Looking && c.round > 0 }

// Round numbers the present instance. It starts anew with the process.
func (c *Core) Round() uint64 { return c.round }

// Leader is whom this server has chosen; zero while looking.
func (c *Core) Leader() zab.ServerID { return c.leader }

// Step consumes one input.
func (c *Core) Step(in Input) {
	switch in := in.(type) {
	case Quantum:
		c.quantum(in)
	case Received:
		c.receive(in.From, in.N)
	case PeerUp:
		c.peerUp(in)
	case PeerDown:
		c.peerDown(in)
	case Look:
		c.start(in)
	case Resigned:
		c.resign()
	case Chosen:
		if c.leader != 0 && in.Role != zab.Looking {
			c.role = in.Role
		}
	case Settled:
		c.settle(in)
	}
}

// Ready hands over what must be done; false: nothing. Notifications are written here, so that each peer gets one at
// most, and the newest.
func (c *Core) Ready() (Batch, bool) {
	if len(c.pending) > 0 {
		n := c.notification()
		for _, id := range c.members {
			if c.pending[id] {
				c.batch.Send = append(c.batch.Send, Outbound{To: id, N: n})
			}
		}
		clear(c.pending)
	}
	b := c.batch
	c.batch = Batch{}
	return b, len(b.Send) > 0 || b.Decided != nil || b.Abandon != zab.ReasonNone || len(b.Refused) > 0
}

// notification is what this server has to say now.
func (c *Core) notification() Notification {
	n := Notification{
		Ensemble:    c.look.Ensemble,
		Transaction: c.look.Transaction,
		Round:       c.round,
		Vote:        c.proposal,
		State:       c.role,
		Established: c.settled,
		ConfigSum:   c.configSum,
	}
	if c.resigned {
		n.State = zab.Looking
	}
	if !c.votes() || c.resigned {
		n.Vote = Vote{} // counted by nobody
	}
	return n
}

// votes reports whether this server's vote may be counted by anyone.
func (c *Core) votes() bool { return c.voter && !c.look.NeedSnap }

// start begins an instance.
func (c *Core) start(in Look) {
	c.look = in
	c.role, c.leader, c.settled, c.closed, c.resigned = zab.Looking, 0, Established{}, false, false
	c.forgive()
	round := c.round + 1
	for _, id := range c.members {
		h := c.latest[id]
		if h == nil {
			continue
		}
		if !h.fresh || h.n.settled() {
			delete(c.latest, id)
			continue
		}
		if c.verifier.Voter(id) {
			round = max(round, h.n.Round)
		}
	}
	c.enter(round)
	c.resendWait = c.opts.ResendMin
	c.resendAt = c.now + c.resendWait
	if !c.voter && c.opts.ObserverMin > 0 {
		// Observers must not storm the voters in the moment these elect.
		clear(c.pending)
		c.resendAt = c.now + time.Duration(c.rand.Int64N(int64(c.opts.ObserverMin)))
		return
	}
	switch s := in.Successor; {
	case in.Campaign && !c.own().none():
		c.proposal = c.own()
		c.decide(c.self)
	case s != 0 && s != c.self && c.verifier.Weight(s) > 0 && c.links[s] != nil && c.links[s].up:
		// It has everything that this server has: the leader waited for it.
		c.proposal = Vote{Leader: s, Zxid: in.Last, PeerEpoch: in.Current}
		c.decide(s)
	default:
		c.evaluate()
	}
}

// enter goes to a round: no vote of another round counts in it.
func (c *Core) enter(round uint64) {
	c.round = round
	c.finalizeAt = 0
	c.class = c.classify()
	c.proposal = c.own()
	c.broadcast()
}

func (c *Core) broadcast() {
	for _, id := range c.voters {
		if id != c.self {
			c.pending[id] = true
		}
	}
}

// quantum lets time pass. A pause of this process delays its own deadlines: it is not read as silence of the others.
func (c *Core) quantum(in Quantum) {
	c.now = in.Now
	if in.Late > zab.QuantumLength {
		if c.finalizeAt != 0 {
			c.finalizeAt += in.Late
		}
		for id := range c.since { // not begun anew: a machine that is always a little late would wait for ever
			c.since[id] += in.Late
		}
	}
	if !c.Looking() {
		c.hold()
		return
	}
	if c.vain() {
		c.bar()
	}
	if c.now >= c.resendAt {
		c.broadcast()
		c.backoff()
	}
	c.evaluate()
}

// backoff sets the time of the next resend; a little chance keeps servers from resending in step.
func (c *Core) backoff() {
	c.resendAt = c.now + c.resendWait + time.Duration(c.rand.Int64N(int64(c.resendWait)/4+1))
	c.resendWait = min(2*c.resendWait, c.opts.ResendMax)
}

func (c *Core) peerUp(in PeerUp) {
	l := c.links[in.Peer]
	if l == nil {
		return
	}
	l.up, l.refused, l.rtt = true, false, in.RTT
	c.forgive()
	if c.settled.Leader != 0 {
		c.pending[in.Peer] = true // it may have missed what happened
	}
	if c.Looking() {
		if c.verifier.Voter(in.Peer) {
			c.pending[in.Peer] = true
		}
		c.resendWait = c.opts.ResendMin
		c.resendAt = min(c.resendAt, c.now+c.resendWait)
	}
}

func (c *Core) peerDown(in PeerDown) {
	l := c.links[in.Peer]
	if l == nil {
		return
	}
	wasUp := l.up
	l.up, l.refused, l.rtt = false, in.Refused, 0
	delete(c.latest, in.Peer) // the vote of one that cannot be reached supports nobody
	switch {
	case c.Looking():
		if wasUp && c.proposal.Leader == in.Peer {
			c.bar()
		}
		c.evaluate()
	case c.leader == in.Peer:
		if c.settled.Leader == 0 && (wasUp || in.Refused) {
			c.abandon(zab.ReasonLeaderGone)
		}
	default:
		c.checkSupport()
	}
}

// vain reports a candidate that others vote for and that has not been heard here for long.
func (c *Core) vain() bool {
	since, ok := c.since[c.proposal.Leader]
	return ok && c.now >= since+c.opts.ResendMax
}

// bar gives up the candidate. Votes for it go round among those who remain; only a new round forgets them.
func (c *Core) bar() {
	c.barred[c.proposal.Leader] = true
	delete(c.since, c.proposal.Leader)
	c.enter(c.round + 1)
}

func (c *Core) forgive() {
	clear(c.barred)
	clear(c.since)
}

// receive takes in a notification. Whatever it says, it is compared or stored, nothing else.
func (c *Core) receive(from zab.ServerID, n Notification) {
	l := c.links[from]
	if l == nil || n.State > zab.Observing || n.Round >= maxRound || !c.admit(from, &n) {
		return
	}
	l.refused = false
	voter := c.verifier.Voter(from)
	if !n.Vote.none() && (c.verifier.Weight(n.Vote.Leader) == 0 || n.Vote.PeerEpoch > zab.MaxEpoch) {
		n.Vote = Vote{}
	}
	if n.leader() == from && c.class.counts(n.Ensemble) { // a blank may name itself only because others still do
		delete(c.barred, from)
		delete(c.since, from)
	}
	before := c.latest[from]
	c.latest[from] = &heard{n: n, fresh: true}
	if !c.Looking() {
		c.receiveHolding(from, &n, before)
		return
	}
	if voter && !n.settled() && n.State != zab.Observing {
		switch {
		case n.Round > c.round:
			c.enter(n.Round)
		case n.Round < c.round && n.State == zab.Looking:
			c.pending[from] = true
		case n.Vote.Leader == c.self && n.State == zab.Following && n.Round < c.round:
			c.pending[from] = true // it follows one who does not lead
		}
	}
	c.evaluate()
}

// admit refuses, by name and once, peers that cannot be in this ensemble.
func (c *Core) admit(from zab.ServerID, n *Notification) bool {
	reason := zab.ReasonNone
	switch {
	case n.ConfigSum != c.configSum:
		reason = zab.ReasonVoterList
	case !sameEnsemble(n.Ensemble, c.look.Ensemble) && c.look.Transaction && (n.Transaction || n.settled()):
		// Without a transaction it would be taken in as a blank (interleavings 10b), but not while it serves another.
		reason = zab.ReasonForeignEnsemble
	}
	if reason == zab.ReasonNone {
		delete(c.refused, from)
		return true
	}
	delete(c.latest, from)
	if c.refused[from] != reason {
		c.refused[from] = reason
		c.batch.Refused = append(c.batch.Refused, Refusal{Peer: from, Reason: reason})
	}
	return false
}
