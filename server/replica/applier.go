package replica

import (
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/zkserver/zkserver/zab"
	"github.com/zkserver/zkserver/znode"
)

// work is one item of the applier's queue: a committed run, then answers that are no transactions.
type work struct {
	deliver Delivery
	answers []Answer
}

// applier applies committed transactions under the tree's write lock, within the lock budget, and completes this
// server's own requests. It never touches a socket.
type applier struct {
	r     *Replica
	queue *queue[work]
	rest  sync.Mutex // held while it works; a snapshot install takes it

	step ApplyStep
	txns []*znode.Txn

	since      atomic.Int64 // when the present piece of work began, as Replica.Now; zero: it rests
	mismatches atomic.Uint64
	txnCount   atomic.Uint64
}

func (a *applier) init(r *Replica) {
	a.r, a.queue = r, newQueue[work]()
	a.step = ApplyStep{Self: r.opts.Self, Process: r.process, Hub: r.hub, Dirty: &r.state.dirty}
}

func (a *applier) run() {
	for {
		select {
		case <-a.r.ctx.Done():
			return
		case <-a.queue.bell:
		}
		for _, w := range a.queue.take() {
			a.rest.Lock()
			err := a.do(&w)
			a.since.Store(0)
			a.rest.Unlock()
			if err != nil {
				a.r.fatal(err)
				return
			}
		}
	}
}

// begin notes that a piece of work begins: a few milliseconds, if no disk hangs.
func (a *applier) begin() { a.since.Store(a.r.Now()) }

// standing is how long the present piece of work has lasted; zero: it rests.
func (a *applier) standing() time.Duration {
	if t := a.since.Load(); t != 0 {
		return max(time.Duration(a.r.Now()-t), 1)
	}
	return 0
}

func (a *applier) do(w *work) error {
	a.begin()
	if d := &w.deliver; d.Upto != 0 {
		if err := a.readGap(d.After, d.Held); err != nil {
			return err
		}
		if err := a.decode(d.Entries); err != nil {
			return err
		}
		a.apply()
	}
	if len(w.answers) > 0 {
		a.answer(w.answers)
	}
	return nil
}

// readGap applies what is delivered but no longer, or not yet since the start, held in memory.
func (a *applier) readGap(after, upto zab.Zxid) error {
	after = max(after, zab.Zxid(a.r.applied.Load()))
	for after < upto {
		a.begin()
		es, missing, err := a.r.store.ReadLog(after, upto, readBytes)
		if err != nil {
			return err
		}
		if missing || len(es) == 0 {
			return fmt.Errorf("delivered up to %s, but the log has nothing behind %s", upto, after)
		}
		if err := a.decode(es); err != nil {
			return err
		}
		a.apply()
		after = es[len(es)-1].Zxid
	}
	return nil
}

// replay applies the stored log at the start: no client is there yet.
func (a *applier) replay(after, upto zab.Zxid) error {
	for after < upto {
		es, missing, err := a.r.store.ReadLog(after, upto, readBytes)
		if err != nil {
			return err
		}
		if missing || len(es) == 0 {
			return fmt.Errorf("replica: the log does not reach from %s to %s", after, upto)
		}
		if err := a.decode(es); err != nil {
			return err
		}
		for _, t := range a.txns {
			a.one(t)
		}
		after = es[len(es)-1].Zxid
	}
	return nil
}

// decode fills txns, before any lock is taken.
func (a *applier) decode(es []zab.Entry) error {
	var err error
	clear(a.txns)
	a.txns, err = DecodeTxns(a.txns[:0], es)
	return err
}

// apply applies txns: in runs of at most the lock budget, each followed by a flush and a report to the loop.
func (a *applier) apply() {
	r := a.r
	txns := a.txns
	for len(txns) > 0 {
		a.begin()
		r.state.waitRoom()
		r.mu.Lock()
		start, n := time.Now(), 0
		for _, t := range txns {
			n++
			if t.Zxid <= r.tree.Applied() {
				continue // handed over before (interleavings 3)
			}
			a.one(t)
			r.applied.Store(t.Zxid) // before anybody can be told of it
			a.step.Serve(r.tree, t)
			if n%8 == 0 && time.Since(start) > lockBudget || r.state.dirty.over() {
				break
			}
		}
		z := r.tree.Applied()
		r.mu.Unlock()
		txns = txns[n:]
		a.txnCount.Add(uint64(n))
		r.hub.Flush()
		r.inbox.push(a.step.Report(zab.Zxid(z)))
		r.state.nudge()
	}
}

// one applies a transaction and notes what it changed.
func (a *applier) one(t *znode.Txn) {
	r := a.r
	a.step.Apply(r.tree, t)
	if a.step.Out.DigestMismatch {
		if a.mismatches.Add(1)%1000 == 1 { // all that follow differ too
			r.log.Error().Str("zxid", zab.Zxid(t.Zxid).String()).
				Msg("digest mismatch: this server's tree differs from the leader's; stop it, remove its data and let it synchronize anew")
		}
	}
}

// answer completes what is no transaction, in its place.
func (a *applier) answer(answers []Answer) {
	r := a.r
	r.mu.Lock()
	a.step.Answer(r.tree, answers)
	r.mu.Unlock()
	r.hub.Flush()
}
