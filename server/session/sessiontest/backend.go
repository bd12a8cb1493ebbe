// Package sessiontest is a session.Backend for tests: a real tree and preparer, and one goroutine that prepares and
// applies, as an ensemble of one would without a log. Tests can hold the applier, move the clock and the lease.
package sessiontest

import (
	"context"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/zkserver/zkserver/server/session"
	"github.com/zkserver/zkserver/znode"
)

// Backend implements session.Backend.
type Backend struct {
	hub   *session.Hub
	base  time.Time
	skew  atomic.Int64 // added to the clock, ns
	lease atomic.Int64
	last  atomic.Int64 // applied zxid

	lock sync.RWMutex // the tree's
	tree *znode.Tree

	mu      sync.Mutex
	cond    *sync.Cond
	queue   []item
	held    bool
	stopped bool
	seq     uint64
	nextID  int64
	ticket  uint64
	detach  int
	answer  bool // attaches of existing sessions are answered
}

type item struct {
	conn *session.Conn
	req  *znode.Request
	a    *session.Attach
	call func(t *znode.Tree)
	done chan struct{}
}

// New makes a backend and binds it to the hub.
func New(hub *session.Hub, o znode.Options) *Backend {
	b := &Backend{hub: hub, base: time.Now(), tree: znode.NewTree(o), nextID: 0x0100_0000_0000_0000, answer: true}
	b.cond = sync.NewCond(&b.mu)
	b.lease.Store(math.MaxInt64)
	hub.Bind(b)
	return b
}

// Run applies until ctx ends.
func (b *Backend) Run(ctx context.Context) error {
	stop := context.AfterFunc(ctx, func() {
		b.mu.Lock()
		b.stopped = true
		b.mu.Unlock()
		b.cond.Broadcast()
	})
	defer stop()
	prep := znode.NewPreparer(b.tree)
	var applied znode.Applied
	for {
		b.mu.Lock()
		for (len(b.queue) == 0 || b.held) && !b.stopped {
			b.cond.Wait()
		}
		if b.stopped {
			b.mu.Unlock()
			return nil
		}
		run := b.queue
		b.queue = nil
		b.mu.Unlock()
		for _, it := range run {
			b.step(prep, it, &applied)
		}
		b.hub.Flush()
		for _, it := range run {
			if it.done != nil {
				close(it.done)
			}
		}
	}
}

func (b *Backend) step(prep *znode.Preparer, it item, applied *znode.Applied) {
	b.lock.Lock()
	defer b.lock.Unlock()
	switch {
	case it.call != nil:
		it.call(b.tree)
	case it.a != nil:
		s, ok := b.tree.Session(it.a.Session)
		if !ok || !it.a.Again && string(s.Password[:]) != string(it.a.Password) {
			b.hub.Attached(it.conn.Number(), session.AttachResult{})
			return
		}
		b.ticket++
		b.hub.Attached(it.conn.Number(), session.AttachResult{
			OK: true, Session: s.ID, Password: s.Password, Timeout: it.a.Timeout, Ticket: znode.Ticket{Epoch: 1, Number: b.ticket},
		})
	case it.req.Op == znode.OpSync:
		b.hub.CompleteEmpty(b.tree, it.req.Origin.Conn, it.req.Origin.Seq)
	default:
		zxid := b.tree.Applied() + 1
		txn := prep.Prepare(it.req, zxid, time.Now().UnixMilli())
		b.tree.Apply(txn, applied)
		prep.Applied(zxid)
		b.last.Store(zxid)
		b.hub.Applied(b.tree, applied, it.req.Origin.Conn != 0)
	}
}

func (b *Backend) push(it item) {
	b.queue = append(b.queue, it)
	b.cond.Signal()
}

// Now implements session.Backend.
func (b *Backend) Now() int64 { return int64(time.Since(b.base)) + b.skew.Load() }

// LeaseUntil implements session.Backend.
func (b *Backend) LeaseUntil() int64 { return b.lease.Load() }

// RLock implements session.Backend.
func (b *Backend) RLock() *znode.Tree {
	b.lock.RLock()
	return b.tree
}

// RUnlock implements session.Backend.
func (b *Backend) RUnlock() { b.lock.RUnlock() }

// LastApplied implements session.Backend.
func (b *Backend) LastApplied() int64 { return b.last.Load() }

// Attach implements session.Backend.
func (b *Backend) Attach(c *session.Conn, a session.Attach) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if a.Session != 0 {
		if b.answer {
			b.push(item{conn: c, a: &a})
		}
		return
	}
	b.nextID++
	b.seq++
	b.ticket++
	r := &znode.Request{
		Op: znode.OpCreateSession, Session: b.nextID, Timeout: a.Timeout,
		Origin: znode.Origin{Conn: c.Number(), Seq: b.seq}, Ticket: znode.Ticket{Epoch: 1, Number: b.ticket},
	}
	for i := range r.Password {
		r.Password[i] = byte(b.nextID>>(i%8*8)) ^ byte(i*37+1)
	}
	b.push(item{conn: c, req: r})
}

// Submit implements session.Backend.
func (b *Backend) Submit(c *session.Conn, rs []*znode.Request) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, r := range rs {
		b.seq++
		r.Origin = znode.Origin{Conn: c.Number(), Seq: b.seq}
		b.push(item{conn: c, req: r})
	}
}

// Detach implements session.Backend.
func (b *Backend) Detach(*session.Conn) {
	b.mu.Lock()
	b.detach++
	b.mu.Unlock()
}

// Do applies a request that belongs to no connection (expiry, another server's client) and waits for it.
func (b *Backend) Do(r znode.Request) {
	done := make(chan struct{})
	b.mu.Lock()
	b.push(item{req: &r, done: done})
	b.mu.Unlock()
	<-done
}

// Call runs f as the applier, under the tree's write lock, and waits for it.
func (b *Backend) Call(f func(t *znode.Tree)) {
	done := make(chan struct{})
	b.mu.Lock()
	b.push(item{call: f, done: done})
	b.mu.Unlock()
	<-done
}

// Expire ends a session as the leader's expiry does.
func (b *Backend) Expire(id int64) { b.Do(znode.Request{Op: znode.OpCloseSession, Session: id}) }

// Hold stops the applier before its next run; what it has taken goes on.
func (b *Backend) Hold() {
	b.mu.Lock()
	b.held = true
	b.mu.Unlock()
}

// Resume lets it go on.
func (b *Backend) Resume() {
	b.mu.Lock()
	b.held = false
	b.mu.Unlock()
	b.cond.Broadcast()
}

// Queued is how many requests wait for the applier.
func (b *Backend) Queued() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.queue)
}

// Advance moves the clock forward.
func (b *Backend) Advance(d time.Duration) { b.skew.Add(int64(d)) }

// SetLease sets the end of the serving lease to d from now; negative is past.
func (b *Backend) SetLease(d time.Duration) { b.lease.Store(b.Now() + int64(d)) }

// SetAnswer says whether attaches of existing sessions are answered.
func (b *Backend) SetAnswer(answer bool) {
	b.mu.Lock()
	b.answer = answer
	b.mu.Unlock()
}

// Tree gives the tree, under its read lock, to f.
func (b *Backend) Tree(f func(t *znode.Tree)) {
	b.lock.RLock()
	defer b.lock.RUnlock()
	f(b.tree)
}
