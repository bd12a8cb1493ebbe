package zab

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"
)

// TestHostileMessages feeds cores in every state with arbitrary messages. A peer that lies can break promises, but no
// message may end the process: what is not in order drops the message or the link.
func TestHostileMessages(t *testing.T) {
	n := 3000
	if testing.Short() {
		n = 300
	}
	for seed := range uint64(n) {
		hostile(t, seed)
		if t.Failed() {
			return
		}
	}
}

func hostile(t *testing.T, seed uint64) {
	var c *cluster
	defer func() {
		if r := recover(); r != nil {
			t.Errorf("seed %d: %v\n%s", seed, r, c.out.String())
		}
	}()
	x := &explorer{seed: seed, saw: map[string]int{}, split: map[[2]ServerID]bool{}, stall: map[ServerID]time.Duration{}, wild: true}
	ms := append(voters(3), Member{ID: 4, Observer: true})
	c = newCluster(ms, Options{Window: 600, RunBytes: 300, CounterLimit: 40}, seed)
	x.c = c
	for _, id := range c.ids {
		if err := c.start(c.nodes[id]); err != nil {
			t.Fatal(err)
		}
	}
	r := c.rand
	for range 300 {
		x.event()
		c.faults = nil // lies break promises; only the process matters here
		a, b := x.pair()
		if p := c.links[[2]ServerID{a, b}]; p.up && r.IntN(3) == 0 {
			to := c.nodes[b]
			if !to.up {
				continue
			}
			m := lie(r, to.core)
			c.logf("%d->%d lie %T %+v", a, b, m, m)
			// The model's host is not made for lies: the core alone takes them, its batch is thrown away, and then
			// the server crashes.
			to.core.Step(Received{Link: p.link, Msg: m})
			to.core.Ready()
			for range r.IntN(5) {
				to.core.Step(Received{Link: p.link, Msg: lie(r, to.core)})
				to.core.Step(Quantum{Now: to.core.now + QuantumLength})
				to.core.Step(Persisted{Seq: to.core.seq})
				to.core.Ready()
			}
			c.crash(to, 0)
		}
	}
}

// lie makes a message that fits the receiver's state now and then.
func lie(r *rand.Rand, c *Core) Message {
	epoch := func() Epoch {
		return []Epoch{c.epoch, c.epoch, c.epoch, c.hard.Accepted + 1, 0, MaxEpoch, 1 << 31}[r.IntN(7)]
	}
	zxid := func() Zxid {
		return []Zxid{c.last, c.last + 1, c.committed, c.base, 0, c.last - 1, MakeZxid(c.epoch, 1), MakeZxid(c.epoch+1, 1), ^Zxid(0), Zxid(r.Uint64())}[r.IntN(10)]
	}
	table := func() history {
		switch r.IntN(4) {
		case 0:
			return nil
		case 1:
			return append(history{}, c.epochs...)
		case 2:
			return c.epochs.upTo(c.epochs.floor(zxid()))
		}
		z := zxid()
		return history{{z.Epoch(), z}}
	}
	id := func() ID { return []ID{0, c.ensemble, 77}[r.IntN(3)] }
	yes := func() bool { return r.IntN(2) == 0 }
	switch r.IntN(19) {
	case 0:
		return &LearnerInfo{Ensemble: id(), Observer: yes(), Transaction: yes(), Accepted: epoch(), ConfigSum: c.configSum, Version: uint32(r.IntN(3))}
	case 1:
		return &LeaderInfo{Epoch: epoch(), Ensemble: id()}
	case 2:
		h := table()
		return &AckEpoch{Ensemble: id(), Epoch: epoch(), Counts: yes(), Current: epoch(), Last: h.end(), Delivered: min(zxid(), h.end()), Base: min(zxid(), h.end()), NeedSnap: yes(), Epochs: h}
	case 3:
		return &SyncBegin{Epoch: epoch(), Mode: SyncMode(r.IntN(5)), TruncateTo: zxid(), Snapshot: zxid(), Epochs: table(), Base: zxid()}
	case 4:
		h := table()
		return &SyncBegin{Epoch: epoch(), Mode: SyncSnap, TruncateTo: c.epochs.floor(zxid()), Snapshot: h.end(), Epochs: h}
	case 5, 6:
		z := zxid()
		es := []Entry{{Zxid: z}, {Zxid: z + 1}, {Zxid: zxid()}}
		return &Append{Epoch: epoch(), Prev: []Zxid{c.last, zxid()}[r.IntN(2)], Entries: es[:r.IntN(4)], Committed: zxid()}
	case 7:
		return &NewLeader{Epoch: epoch(), HistoryEnd: zxid(), Epochs: table(), Ensemble: id()}
	case 8:
		return &AckNewLeader{Epoch: epoch(), HistoryEnd: zxid()}
	case 9:
		return &UpToDate{Epoch: epoch(), Committed: zxid()}
	case 10:
		return &Ack{Epoch: epoch(), Durable: zxid()}
	case 11:
		return &Commit{Epoch: epoch(), Zxid: zxid()}
	case 12:
		return &Ping{Epoch: epoch(), Seq: r.Uint64N(9), Committed: zxid(), HasQuorum: yes(), PongSeen: r.Uint64N(9)}
	case 13:
		return &Pong{Epoch: epoch(), Seq: r.Uint64N(9), PongSeq: r.Uint64N(9), Durable: zxid(), Applied: zxid()}
	case 14:
		return &SyncRequest{Epoch: epoch(), ID: r.Uint64N(3)}
	case 15:
		return &SyncReply{Epoch: epoch(), ID: r.Uint64N(3), Index: zxid()}
	case 16:
		return &TimeoutNow{Epoch: epoch(), Last: zxid()}
	case 17:
		return &Goodbye{Epoch: epoch(), Reason: []Reason{ReasonHandOver, ReasonSupersededEpoch, "x"}[r.IntN(3)], Successor: ServerID(r.IntN(6))}
	}
	return &Refuse{Reason: []Reason{ReasonForeignEnsemble, ReasonVoterList, "x"}[r.IntN(3)], Detail: fmt.Sprint(r.Uint64())}
}
