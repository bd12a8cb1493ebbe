package session

import (
	"context"
	"sync"
	"time"
)

// flusher is the queue between the applier, which never touches a socket, and the goroutines that write. It is bounded
// by the number of connections: each is on it at most once.
type flusher struct {
	mu     sync.Mutex
	cond   *sync.Cond
	queue  []*Conn
	closed bool
}

func (f *flusher) init() { f.cond = sync.NewCond(&f.mu) }

func (f *flusher) stop() {
	f.mu.Lock()
	f.closed = true
	f.mu.Unlock()
	f.cond.Broadcast()
}

// run writes outboxes until stop.
func (f *flusher) run() {
	for f.round(true) {
	}
}

// round writes some outboxes. It waits for them if it is told to; false: there were none, or stop was called.
func (f *flusher) round(wait bool) bool {
	var batch [16]*Conn
	f.mu.Lock()
	for wait && len(f.queue) == 0 && !f.closed {
		f.cond.Wait()
	}
	if f.closed || len(f.queue) == 0 {
		f.mu.Unlock()
		return false
	}
	n := copy(batch[:], f.queue)
	left := copy(f.queue, f.queue[n:])
	clear(f.queue[left:])
	f.queue = f.queue[:left]
	f.mu.Unlock()
	for _, c := range batch[:n] {
		c.out.dirty.Store(false) // before flushing: what is queued from now on marks it again
		c.flush()
	}
	return true
}

// WriteOut does the work of Run's flushers once, without waiting, for a host without goroutines; false: there was none.
func (h *Hub) WriteOut() bool { return h.flusher.round(false) }

// markDirty puts a connection on the list of the applier's next Flush.
func (h *Hub) markDirty(c *Conn) {
	if !c.out.dirty.Load() && c.out.dirty.CompareAndSwap(false, true) {
		h.applier.dirty = append(h.applier.dirty, c)
	}
}

// Flush hands the outboxes that Applied, Fire, Complete and CompleteEmpty filled to the flushers. Without any lock.
func (h *Hub) Flush() {
	if len(h.applier.dirty) > 0 {
		f := &h.flusher
		f.mu.Lock()
		f.queue = append(f.queue, h.applier.dirty...)
		f.mu.Unlock()
		if len(h.applier.dirty) > 1 {
			f.cond.Broadcast()
		} else {
			f.cond.Signal()
		}
		clear(h.applier.dirty)
		h.applier.dirty = h.applier.dirty[:0]
	}
	h.stats.add(&h.applier.tally)
	h.applier.now = 0
	h.crowd.thin(h)
}

// gate holds back connections while the serving lease has passed: those that would compute (pass) and those that would
// write (stall). It looks at the lease again every few milliseconds while anybody waits.
type gate struct {
	h       *Hub
	mu      sync.Mutex
	stalled []*Conn
	opened  chan struct{} // closed at the next renewal; nil: nobody waits for it
	kick    chan struct{}
}

// gatePoll is how often the lease is looked at while somebody waits for it.
const gatePoll = 5 * time.Millisecond

func (g *gate) init(h *Hub) {
	g.h, g.kick = h, make(chan struct{}, 1)
}

// pass waits until the lease is valid; false when the connection has ended instead.
func (g *gate) pass(c *Conn) bool {
	for !g.h.leaseValid() {
		g.mu.Lock()
		if g.opened == nil {
			g.opened = make(chan struct{})
		}
		opened := g.opened
		g.mu.Unlock()
		g.wait()
		select {
		case <-opened:
		case <-c.Done():
			return false
		}
	}
	return true
}

// stall has the connection flushed at the next renewal.
func (g *gate) stall(c *Conn) {
	g.mu.Lock()
	g.stalled = append(g.stalled, c)
	g.mu.Unlock()
	g.wait()
}

func (g *gate) wait() {
	select {
	case g.kick <- struct{}{}:
	default:
	}
}

// run opens the gate at each renewal that somebody waits for; it ends with ctx.
func (g *gate) run(ctx context.Context) {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		select {
		case <-g.kick:
		case <-ctx.Done():
			return
		}
		for !g.h.leaseValid() {
			timer.Reset(gatePoll)
			select {
			case <-timer.C:
			case <-ctx.Done():
				return
			}
		}
		g.open()
	}
}

// open lets those go on that wait for the lease.
func (g *gate) open() {
	g.mu.Lock()
	stalled := g.stalled
	g.stalled = nil
	if g.opened != nil {
		close(g.opened)
		g.opened = nil
	}
	g.mu.Unlock()
	for _, c := range stalled {
		c.flush()
	}
}

// Reopen flushes what waits for the serving lease, for a host without goroutines. Run does so by itself.
func (h *Hub) Reopen() {
	if h.leaseValid() {
		h.gate.open()
	}
}

// crowd holds the connections that are not read from, so that they look again when the server as a whole has room.
type crowd struct {
	mu   sync.Mutex
	list []*Conn
}

func (w *crowd) add(c *Conn) {
	w.mu.Lock()
	w.list = append(w.list, c)
	w.mu.Unlock()
}

// thin wakes them when few enough requests are outstanding.
func (w *crowd) thin(h *Hub) {
	w.mu.Lock()
	if len(w.list) > 0 && !h.full() {
		for i, c := range w.list {
			c.wake()
			w.list[i] = nil
		}
		w.list = w.list[:0]
	}
	w.mu.Unlock()
}
