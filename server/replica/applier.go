package replica

import (
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/zkserver/zkserver/server/session"
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

	out     znode.Applied
	txns    []*znode.Txn
	syncs   []Synced // in the order asked; indexes ascend
	own     []uint64
	created []Created

	mismatches atomic.Uint64
	txnCount   atomic.Uint64
}

func (a *applier) init(r *Replica) { a.r, a.queue = r, newQueue[work]() }

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
			a.rest.Unlock()
			if err != nil {
				a.r.fatal(err)
				return
			}
		}
	}
}

func (a *applier) do(w *work) error {
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
	clear(a.txns)
	a.txns = a.txns[:0]
	for i := range es {
		t, ok := es[i].Value.(*znode.Txn)
		if !ok {
			var err error
			if t, err = znode.DecodeTxn(es[i].Data); err != nil {
				return fmt.Errorf("transaction %s: %w", es[i].Zxid, err)
			}
		}
		if zab.Zxid(t.Zxid) != es[i].Zxid {
			return fmt.Errorf("transaction %s says it is %#x", es[i].Zxid, t.Zxid)
		}
		a.txns = append(a.txns, t)
	}
	return nil
}

// apply applies txns: in runs of at most the lock budget, each followed by a flush and a report to the loop.
func (a *applier) apply() {
	r := a.r
	txns := a.txns
	for len(txns) > 0 {
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
			own := t.Origin.Seq != 0 && t.Origin.Instance == uint64(r.process) && t.Origin.Server == uint64(r.opts.Self)
			r.hub.Applied(r.tree, &a.out, own)
			if own {
				a.note(t)
			}
			a.releaseSyncs()
			if n%8 == 0 && time.Since(start) > lockBudget || r.state.dirty.over() {
				break
			}
		}
		z := r.tree.Applied()
		r.mu.Unlock()
		txns = txns[n:]
		a.txnCount.Add(uint64(n))
		r.hub.Flush()
		r.inbox.push(Applied{Zxid: zab.Zxid(z), Own: a.own, Created: a.created})
		a.own, a.created = nil, nil
		r.state.nudge()
	}
}

// one applies a transaction and notes what it changed.
func (a *applier) one(t *znode.Txn) {
	r := a.r
	r.tree.Apply(t, &a.out)
	if a.out.DigestMismatch {
		if a.mismatches.Add(1)%1000 == 1 { // all that follow differ too
			r.log.Error().Str("zxid", zab.Zxid(t.Zxid).String()).
				Msg("digest mismatch: this server's tree differs from the leader's; stop it, remove its data and let it synchronize anew")
		}
	}
	r.state.dirty.add(t, &a.out)
}

// note remembers an own request for the report to the loop.
func (a *applier) note(t *znode.Txn) {
	a.own = append(a.own, t.Origin.Seq)
	if t.Type == znode.OpCreateSession && !t.Failed() {
		a.created = append(a.created, Created{Conn: t.Origin.Conn, Session: znode.Session{
			ID: t.Session, Timeout: t.Timeout, Password: t.Password, Ticket: t.Ticket,
		}})
	}
}

// releaseSyncs completes syncs whose index is applied, before the next transaction.
func (a *applier) releaseSyncs() {
	n := 0
	for n < len(a.syncs) && int64(a.syncs[n].Index) <= a.r.tree.Applied() {
		a.r.hub.CompleteEmpty(a.r.tree, a.syncs[n].Conn, a.syncs[n].Seq)
		n++
	}
	if n > 0 {
		a.syncs = append(a.syncs[:0], a.syncs[n:]...)
	}
}

// answer completes what is no transaction, in its place.
func (a *applier) answer(answers []Answer) {
	r := a.r
	r.mu.Lock()
	for _, x := range answers {
		switch x := x.(type) {
		case Attached:
			r.hub.Attached(x.Conn, session.AttachResult{
				OK: x.Valid, Session: x.Session, Password: x.Password, Timeout: x.Timeout, Ticket: x.Ticket,
			})
		case Synced:
			a.syncs = append(a.syncs, x)
		}
	}
	a.releaseSyncs()
	r.mu.Unlock()
	r.hub.Flush()
}
