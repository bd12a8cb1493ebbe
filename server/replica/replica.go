package replica

import (
	"cmp"
	"context"
	crand "crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"

	"github.com/zkserver/zkserver/election"
	"github.com/zkserver/zkserver/server/peer"
	"github.com/zkserver/zkserver/server/session"
	"github.com/zkserver/zkserver/server/store"
	"github.com/zkserver/zkserver/zab"
	"github.com/zkserver/zkserver/znode"
)

// Replica is one server's copy of the tree and the goroutines that keep it.
type Replica struct {
	opts      Options
	log       zerolog.Logger
	hub       *session.Hub
	links     Links
	store     *store.Store
	recovered store.Recovered
	process   zab.ID
	born      time.Time
	single    bool // an ensemble of one

	mu   sync.RWMutex // the tree's lock
	tree *znode.Tree

	machine      *Machine // these two belong to the loop
	leadingSince time.Time
	waitingSince time.Duration // for a leader, since born; zero: not waiting
	waitingTold  time.Duration
	inbox        inbox
	writer       logWriter
	applier      applier
	state        stateWriter
	bulk         bulk

	lapses   lapses       // belongs to the loop
	lease    atomic.Int64 // ns since born
	applied  atomic.Int64
	ensemble atomic.Uint64
	status   atomic.Pointer[Status]

	ctx    context.Context // of Run; ends it
	cancel context.CancelCauseFunc
	faults chan error    // the first fatal one; it has room for it
	left   chan struct{} // closed when Leave has done what it can
	leave  sync.Once
}

// New opens the store, rebuilds the tree and starts nothing. Close releases the store when Run is never called.
func New(o Options) (*Replica, error) {
	o = o.withDefaults()
	if err := o.Validate(); err != nil {
		return nil, err
	}
	r := &Replica{
		opts: o, log: o.Log.With().Str("part", "replica").Logger(), hub: o.Hub,
		process: randomID(), born: time.Now(), single: len(o.Members) == 1, left: make(chan struct{}),
		faults: make(chan error, 1),
	}
	r.ctx, r.cancel = context.WithCancelCause(context.Background())
	r.inbox.bell = make(chan struct{}, 1)
	r.writer.init(r)
	r.applier.init(r)
	r.state.init(r)
	r.bulk.init(r)
	so := o.Store
	so.Server, so.Log, so.Fatal = o.Self, o.Log, r.fatal
	if so.Instance == 0 {
		so.Instance = randomID()
	}
	var err error
	r.store, r.recovered, r.tree, err = store.OpenTree(so, func() *znode.Tree { return znode.NewTree(o.Tree) })
	if err != nil {
		return nil, err
	}
	if r.recovered.NeedSnap && r.single {
		return nil, errors.Join(fmt.Errorf("replica: there is no other server to get the state from; restore a backup: %w",
			r.recovered.Damage), r.store.Close())
	}
	if err := r.boot(); err != nil {
		return nil, errors.Join(err, r.store.Close())
	}
	return r, nil
}

func randomID() zab.ID {
	var b [8]byte
	_, _ = crand.Read(b[:]) // never fails
	return zab.ID(binary.LittleEndian.Uint64(b[:]) | 1)
}

// boot replays the log up to the commit point and makes the Machine.
func (r *Replica) boot() error {
	rec := r.recovered
	delivered := max(rec.Commit, rec.Applied)
	if rec.NeedSnap {
		delivered = rec.Applied
	}
	if o := r.opts.ConfigNode; o != nil {
		r.tree.SetConfigNode(o, 0, time.Now().UnixMilli())
	}
	if err := r.applier.replay(rec.Applied, delivered); err != nil {
		return err
	}
	r.applied.Store(int64(delivered))
	r.ensemble.Store(uint64(rec.Ensemble))
	var seed [32]byte
	_, _ = crand.Read(seed[:]) // never fails
	verifier := zab.NewVerifier(r.opts.Members)
	m, err := NewMachine(Boot{
		Zab: zab.Boot{
			Self: r.opts.Self, Members: r.opts.Members, Verifier: verifier,
			Hard: rec.Hard, Base: rec.Base, Last: rec.Last, Committed: rec.Commit, Delivered: delivered,
			Epochs: rec.Epochs, Ensemble: rec.Ensemble, Instance: rec.Instance, NeedSnap: rec.NeedSnap,
			Rand: rand.New(rand.NewChaCha8(seed)), Options: r.opts.Zab,
		},
		Election: election.Boot{
			Self: r.opts.Self, Members: r.opts.Members, Verifier: verifier, ConfigSum: zab.ConfigSum(r.opts.Members),
			Rand: rand.New(rand.NewPCG(binary.LittleEndian.Uint64(seed[:]), 1)), Options: r.opts.Election,
		},
		Tree: r, Process: r.process, Random: func(b []byte) { _, _ = crand.Read(b) },
		MinSessionTimeout: r.opts.MinSessionTimeout, SilenceLimit: r.opts.Zab.SilenceLimit, Reap: r.opts.Reap,
	})
	if err != nil {
		return err
	}
	r.machine = m
	r.publish()
	if rec.Damage != nil {
		r.log.Error().Err(rec.Damage).Bool("snapshot_needed", rec.NeedSnap).Msg("stored state is damaged")
	}
	r.log.Info().Str("zxid", rec.Last.String()).Str("applied", delivered.String()).
		Uint32("epoch", uint32(rec.Hard.Current)).Int("nodes", r.tree.NodeCount()).Msg("state loaded")
	return nil
}

// Bind gives the replica its links, before Run. An ensemble of one needs none.
func (r *Replica) Bind(l Links) { r.links = l }

// Instance is the id of the data directory; Process that of this run of the process.
func (r *Replica) Instance() zab.ID { return r.recovered.Instance }

// Process names this run of the process.
func (r *Replica) Process() zab.ID { return r.process }

// Ensemble is the ensemble's id; zero while it is not known.
func (r *Replica) Ensemble() zab.ID { return zab.ID(r.ensemble.Load()) }

// Last is the end of the log as of the loop's last round. It waits for nothing: not for the tree, nor for the disk.
func (r *Replica) Last() zab.Zxid { return r.status.Load().Zab.Last }

// Run drives the replica until ctx ends, Leave has finished, or something fatal happens; only the last is an error.
// It closes the store, except after a fatal error.
func (r *Replica) Run(ctx context.Context) error {
	if !r.single && r.links == nil {
		return errors.New("replica: an ensemble without links")
	}
	stop := context.AfterFunc(ctx, func() { r.cancel(nil) })
	defer stop()
	var wg sync.WaitGroup
	wg.Go(r.writer.run) // these end with r.ctx
	wg.Go(r.applier.run)
	wg.Go(r.state.run)
	wg.Go(r.bulk.run)
	wg.Go(r.tick)
	r.loop()
	r.lease.Store(0)
	if err := context.Cause(r.ctx); err != nil && !errors.Is(err, context.Canceled) {
		// Not waited for: a goroutine whose write has failed for good may never come back from the store.
		r.hub.CloseAll(session.ReasonShutdown)
		r.log.Error().Err(err).Msg("fatal: this server stops")
		return err
	}
	wg.Wait()
	r.bulk.wait()
	if err := r.state.finish(); err != nil {
		return err
	}
	return r.store.Close()
}

// Close releases the store of a replica that was never run.
func (r *Replica) Close() error { return r.store.Close() }

// fatal ends everything at once: nothing more is answered, stored or sent (R12, R20).
func (r *Replica) fatal(err error) {
	r.lease.Store(0)
	err = fmt.Errorf("replica: %w", err)
	r.cancel(err)
	select {
	case r.faults <- err:
	default: // it is known
	}
}

// Fault gives the first fatal fault, also one that comes while Run ends. Run may not return then: what has met the fault
// may never come back from the store.
func (r *Replica) Fault() <-chan error { return r.faults }

// tick gives the cores their quantum.
func (r *Replica) tick() {
	t := time.NewTicker(zab.QuantumLength)
	defer t.Stop()
	last := time.Since(r.born)
	watch := SyncWatch{Limit: cmp.Or(r.opts.Zab.SyncLimit, defaultSyncLimit)}
	stands := watch
	for {
		select {
		case <-r.ctx.Done():
			return
		case <-t.C:
			now := time.Since(r.born)
			late := max(now-last-zab.QuantumLength, 0)
			last = now
			r.inbox.push(Quantum{Now: now, Late: late})
			if r.single {
				continue
			}
			if took, begins := watch.Look(r.store.Syncing(), late); begins {
				r.log.Error().Dur("for", took).Msg("a sync of the log does not end; as leader this server steps down")
				r.inbox.push(DiskStuck{})
			}
			r.watchApplier(&stands, late)
		}
	}
}

// watchApplier has the Machine told when the applier begins to stand still and when it goes on.
func (r *Replica) watchApplier(w *SyncWatch, late time.Duration) {
	was := w.Stuck()
	took, begins := w.Look(r.applier.standing(), late)
	switch {
	case begins:
		r.log.Error().Dur("for", took).
			Msg("what is committed is not applied: does the disk of the state hang? Nobody is served; as leader this server steps down")
		r.inbox.push(StateStuck{On: true})
	case was && !w.Stuck():
		r.log.Info().Msg("what is committed is applied again")
		r.inbox.push(StateStuck{})
	}
}

// loop owns the Machine: it drains everything that waits, steps, and performs one batch of effects.
func (r *Replica) loop() {
	quanta := 0
	var ticked, touched time.Duration // the last tick, and the last collection of touches
	for {
		select {
		case <-r.ctx.Done():
			return
		case <-r.inbox.bell:
		}
		ins := r.inbox.take()
		r.stepClock()
		for _, in := range ins {
			if q, ok := in.(query); ok {
				q.reply <- r.machine.expiries() // it has room
				continue
			}
			if q, ok := in.(Quantum); ok {
				quanta++
				ticked = q.Now
			}
			r.machine.Step(in)
		}
		if ticked-touched >= touchEvery {
			// Behind all ticks that have piled up: a loop that was held up for longer than a session's timeout would find
			// its clients silent. What the ticks found due is looked at again in Ready.
			touched = ticked
			r.collectTouches()
		}
		e, any := r.machine.Ready()
		for _, ev := range e.Evict { // before the lease that lets it be answered
			r.hub.Evict(ev.Session, nodeTicket(ev.Below))
		}
		r.setLease(e.Lease)
		if any {
			r.perform(&e)
		}
		if quanta >= statusQuanta || len(e.Notices) > 0 {
			quanta = 0
			r.publish()
		}
	}
}

func (r *Replica) collectTouches() {
	var ts []peer.Touch
	r.hub.Touched(func(id int64, timeoutMs int32) {
		if id != 0 {
			ts = append(ts, peer.Touch{Session: id, Timeout: timeoutMs})
		}
	})
	if len(ts) > 0 {
		r.stepClock() // they were heard from before now, perhaps after the present inputs were taken
		r.machine.Step(Touched{Sessions: ts})
	}
}

func (r *Replica) stepClock() {
	r.machine.Step(Clock{WallMs: time.Now().UnixMilli(), Now: time.Since(r.born)})
}

func (r *Replica) setLease(d time.Duration) {
	until := int64(d)
	if r.single && until > 0 {
		until = math.MaxInt64 // nobody else can have expired a session
	}
	was := r.lease.Load()
	if was == until || r.ctx.Err() != nil {
		return
	}
	now := time.Since(r.born)
	r.lease.Store(until)
	if until <= int64(now) {
		return // it gives no leave either
	}
	if lapsed, tell := r.lapses.renewed(time.Duration(was), now); tell {
		r.log.Info().Dur("for", lapsed).Int("lapses", r.lapses.count).Dur("longest", r.lapses.longest).
			Msg("clients are answered again: the serving lease had lapsed")
		r.lapses.told(now)
	}
}

// perform does what the Machine asks for, in the order of Effects.
func (r *Replica) perform(e *Effects) {
	if e.Fatal != nil {
		r.fatal(fmt.Errorf("%s: %s", e.Fatal.Reason, e.Fatal.Detail))
		return
	}
	if e.CloseAll != "" {
		r.hub.CloseAll(session.Reason(e.CloseAll))
	}
	for _, c := range e.Close {
		r.hub.CloseConn(c.Conn, session.Reason(c.Reason))
	}
	if len(e.Persist) > 0 {
		r.writer.queue.push(persist{gen: e.Gen, ops: e.Persist})
	}
	r.sendAll(e.Send)
	if e.Deliver.Upto != 0 || len(e.Answers) > 0 {
		r.applier.queue.push(work{deliver: e.Deliver, answers: e.Answers})
	}
	for _, rd := range e.Reads {
		r.bulk.reads.push(rd)
	}
	for _, ev := range e.Snapshots {
		r.bulk.event(ev)
	}
	for _, dir := range e.Drop {
		r.bulk.drop(dir)
	}
	for _, c := range e.Cut {
		r.links.Cut(c.Link, c.Reason, c.Detail)
	}
	for _, n := range e.Notices {
		r.notice(n)
	}
}

// sendAll hands messages to the links, neighbours of one link together.
func (r *Replica) sendAll(out []Outbound) {
	for i := 0; i < len(out); {
		n := i + 1
		for n < len(out) && out[n].Link == out[i].Link {
			n++
		}
		msgs := make([]peer.Message, 0, n-i)
		for _, o := range out[i:n] {
			msgs = append(msgs, o.Msg)
		}
		r.links.Send(out[i].Link, msgs...)
		i = n
	}
}

// notice logs what happened.
func (r *Replica) notice(n any) {
	switch n := n.(type) {
	case zab.RoleChanged:
		r.log.Info().Str("role", n.Role.String()).Uint64("leader", uint64(n.Leader)).Uint32("epoch", uint32(n.Epoch)).
			Str("reason", string(n.Reason)).Msg("role changed")
	case zab.Serving:
		r.log.Info().Bool("on", n.On).Uint32("epoch", uint32(n.Epoch)).Msg("serving")
	case zab.Alarm:
		r.log.Error().Uint64("peer", uint64(n.Peer)).Str("reason", string(n.Reason)).Str("detail", n.Detail).
			Msg("broken invariant at a peer")
	case zab.HandedOver:
		r.log.Info().Uint64("to", uint64(n.To)).Msg("leadership handed over")
	case zab.HandOverGivenUp:
		r.log.Warn().Msg("hand-over given up")
	case Left:
		close(r.left)
	case election.Refusal:
		r.log.Error().Uint64("peer", uint64(n.Peer)).Str("reason", string(n.Reason)).Msg("peer refused")
	}
}
