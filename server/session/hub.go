package session

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"

	"github.com/zkserver/zkserver/znode"
	"github.com/zkserver/zkserver/znode/watch"
)

// Options of a Hub.
type Options struct {
	// Tree are the options of the tree: authentication needs them.
	Tree znode.Options
	// GlobalOutstanding is how many requests of all connections together may be unanswered; above it, connections that
	// have something outstanding are not read from. Default 16384. Nor are they above 32 MiB.
	GlobalOutstanding int
	// EnforceSchemes, unless empty, are the schemes of which a connection needs an identity before anything but
	// authenticating is done for it (enforce.auth.schemes).
	EnforceSchemes []string
	// Ensemble, unless nil, offers the scheme ensemble: the names by which clients may call this ensemble
	// (ensembleAuthName). Who names another has come to the wrong one: its connection is closed.
	Ensemble []string
	// Flushers is the number of goroutines that write what the applier queued. Default GOMAXPROCS.
	Flushers int
	Log      zerolog.Logger
}

// Hub knows all connections of this server.
//
// What the applier does for one transaction, under the tree's write lock and from one goroutine only:
//
//	tree.Apply(txn, &a)
//	hub.Applied(tree, &a, own) // own: a.Origin is a request of this process
//
// and after a run, when the lock is released: hub.Flush().
type Hub struct {
	opts    Options
	backend Backend
	log     zerolog.Logger

	next     atomic.Uint32
	conns    [connShards]connShard
	mu       sync.Mutex // sessions
	sessions map[int64]*Conn
	open     census

	watches shards
	gate    gate
	crowd   crowd
	touches [touchShards]touchShard
	touched atomic.Bool // since Touched was called last
	*pools
	flusher  flusher
	drainers sync.WaitGroup
	stats    hubStats

	applier applier
	closed  chan struct{} // Done of the connections that nobody asked before they ended
}

// pools of a hub are apart from it: the runtime knows every pool in use, by its address, until two collections later. As
// a part of the hub they would keep it as long, with all that it leads to.
type pools struct{ buffers, long, replies sync.Pool }

// applier is what belongs to the one goroutine that applies transactions.
type applier struct {
	now      int64 // of the present run; zero: not looked at yet
	reply    Reply
	tally    tally
	watchers []watch.Watcher
	dirty    []*Conn
	events   [wireSlots][]byte
}

const (
	connShards  = 64
	touchShards = 16
)

// census counts the connections that are not released. Fronts may open some while the hub ends, or later: those it does
// not wait for.
type census struct {
	mu   sync.Mutex
	n    int
	none chan struct{} // set by end, closed once n has been zero
}

// add counts one in; false: the hub ends or has ended.
func (o *census) add() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.none != nil {
		return false
	}
	o.n++
	return true
}

func (o *census) remove() {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.n--; o.n == 0 && o.none != nil {
		close(o.none)
	}
}

// end lets no more in and returns a channel that is closed when all have left.
func (o *census) end() <-chan struct{} {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.none = make(chan struct{})
	if o.n == 0 {
		close(o.none)
	}
	return o.none
}

type connShard struct {
	mu sync.RWMutex
	m  map[uint32]*Conn
}

type touchShard struct {
	mu   sync.Mutex
	list []*Conn
}

// NewHub makes an empty hub.
func NewHub(o Options) *Hub {
	if o.GlobalOutstanding <= 0 {
		o.GlobalOutstanding = 16384
	}
	if o.Flushers <= 0 {
		o.Flushers = runtime.GOMAXPROCS(0)
	}
	h := &Hub{
		opts: o, log: o.Log.With().Str("part", "session").Logger(), sessions: map[int64]*Conn{}, pools: new(pools), closed: make(chan struct{}),
	}
	close(h.closed)
	for i := range h.conns {
		h.conns[i].m = map[uint32]*Conn{}
	}
	h.watches.init()
	h.gate.init(h)
	h.flusher.init()
	h.buffers.New = func() any { return &buffer{b: make([]byte, 0, 2048)} }
	h.replies.New = func() any { return new(Reply) }
	return h
}

// Bind gives the hub its backend, once, before Run and before any connection.
func (h *Hub) Bind(b Backend) { h.backend = b }

// Run writes what the applier queues, until ctx ends and every connection is released. It closes all connections
// itself at the end; their goroutines belong to the fronts.
func (h *Hub) Run(ctx context.Context) error {
	if h.backend == nil {
		return errors.New("session: the hub has no backend")
	}
	var wg sync.WaitGroup
	for range h.opts.Flushers {
		wg.Go(h.flusher.run) // ends on flusher.stop
	}
	var watching sync.WaitGroup
	watching.Go(func() { h.gate.run(ctx) }) // ends on ctx
	watching.Go(func() { h.sweep(ctx) })    // ends on ctx
	<-ctx.Done()
	none := h.open.end()
	h.closeAll(ReasonShutdown, false)
	<-none
	h.flusher.stop()
	wg.Wait()
	watching.Wait()
	h.drainers.Wait()
	return nil
}

// Open makes a connection. ip is the client's address without the port, as ACLs of scheme ip see it; name is what
// statistics print. The caller's goroutine owns the connection and must Release it.
func (h *Hub) Open(w Wire, s Sink, ip, name string) *Conn {
	c := &Conn{
		hub: h, wire: w, sink: s, name: name, address: [1]znode.AuthID{{Scheme: "ip", ID: ip}},
		established: time.Now().UnixMilli(),
	}
	c.heard.Store(h.backend.Now())
	c.out.stats.reset()
	c.counted = h.open.add()
	for {
		c.num = h.next.Add(1)
		if c.num == 0 {
			continue // zero is nobody
		}
		sh := &h.conns[c.num%connShards]
		sh.mu.Lock()
		_, taken := sh.m[c.num]
		if !taken {
			sh.m[c.num] = c
		}
		sh.mu.Unlock()
		if !taken {
			break
		}
	}
	h.stats.connections.Add(1)
	if !c.counted {
		c.Close(ReasonShutdown)
	}
	return c
}

func (h *Hub) conn(num uint32) *Conn {
	sh := &h.conns[num%connShards]
	sh.mu.RLock()
	c := sh.m[num]
	sh.mu.RUnlock()
	return c
}

// remove forgets an ended connection, once.
func (h *Hub) remove(c *Conn) {
	sh := &h.conns[c.num%connShards]
	sh.mu.Lock()
	delete(sh.m, c.num)
	sh.mu.Unlock()
	h.watches.remove(c)
	h.mu.Lock()
	if id := c.session.Load(); id != 0 && h.sessions[id] == c {
		delete(h.sessions, id)
	}
	h.mu.Unlock()
	h.stats.connections.Add(-1)
	if c.counted {
		h.open.remove()
	}
}

// each visits all connections until f returns false.
func (h *Hub) each(f func(c *Conn) bool) {
	var list []*Conn
	for i := range h.conns {
		sh := &h.conns[i]
		list = list[:0]
		sh.mu.RLock()
		for _, c := range sh.m {
			list = append(list, c)
		}
		sh.mu.RUnlock()
		for _, c := range list {
			if !f(c) {
				return
			}
		}
	}
}

// Each visits the connections that have a session, in no order, until f returns false.
func (h *Hub) Each(f func(c *Conn) bool) {
	h.each(func(c *Conn) bool { return c.Session() == 0 || c.Ended() || f(c) })
}

// Applied does all that a transaction means to this server's clients: its events (Fire), the reply to the request that
// it came from with the reads parked behind it (Complete, if own), the end of a session (SessionEnded), in this order.
func (h *Hub) Applied(t *znode.Tree, a *znode.Applied, own bool) {
	if len(a.Events) > 0 {
		h.Fire(t, a.Zxid, a.Events)
	}
	if own {
		h.Complete(t, a.Origin, a)
	}
	if a.Ended != 0 {
		h.SessionEnded(a.Ended)
	}
}

// Fire queues the events of a transaction to all who watch. Under the tree's write lock, so that no result that shows
// the change can be queued before (I9). An event is encoded once per wire.
func (h *Hub) Fire(t *znode.Tree, zxid int64, evs []znode.Event) {
	s := &h.applier
	var unwatched string // a path whose list of children nobody watches: at the end of a session it comes again and again
	for i := range evs {
		ev := &evs[i]
		if ev.Type == znode.EventChildrenChanged && ev.Path == unwatched {
			continue
		}
		s.watchers = h.watches.fire(ev, s.watchers[:0])
		if len(s.watchers) == 0 {
			if ev.Type == znode.EventChildrenChanged {
				unwatched = ev.Path
			}
			continue
		}
		for slot := range s.events {
			s.events[slot] = s.events[slot][:0]
		}
		open := t.CheckRead(ev.ACL, nil) // everybody may read it
		for _, w := range s.watchers {
			c := h.conn(uint32(w))
			if c == nil || c.Ended() || !open && !t.CheckRead(ev.ACL, c.Auth()) {
				continue // filtered events consume the watch all the same
			}
			slot := c.wire.Slot()
			if len(s.events[slot]) == 0 {
				s.events[slot] = c.wire.AppendEvent(s.events[slot], zxid, ev.Type, ev.Path)
			}
			c.appendEvent(s.events[slot])
			s.tally.events++
			h.markDirty(c)
		}
	}
}

// Complete answers the request that a transaction came from, then runs the reads parked directly behind it. A
// createSession answers its connection's Attach. Under the tree's write lock.
func (h *Hub) Complete(t *znode.Tree, o znode.Origin, a *znode.Applied) {
	c := h.conn(o.Conn)
	if c == nil {
		return
	}
	if a.Type == znode.OpCreateSession {
		if s, ok := t.Session(a.Session); ok {
			h.attached(c, AttachResult{OK: true, Session: s.ID, Password: s.Password, Timeout: s.Timeout, Ticket: s.Ticket})
		}
		return
	}
	h.complete(t, c, o.Seq, a)
}

func (h *Hub) complete(t *znode.Tree, c *Conn, seq uint64, a *znode.Applied) {
	if h.applier.now == 0 {
		h.applier.now = h.backend.Now()
	}
	c.complete(t, seq, a, &h.applier)
	h.markDirty(c)
}

// CompleteEmpty does the same for a completion that is no transaction: a sync. In its place in the applier's queue,
// under the tree's write lock.
func (h *Hub) CompleteEmpty(t *znode.Tree, conn uint32, seq uint64) {
	if c := h.conn(conn); c != nil {
		h.complete(t, c, seq, nil)
	}
}

// Attached answers Backend.Attach for a re-attach, a confirmation, or a refusal. From any goroutine.
func (h *Hub) Attached(conn uint32, r AttachResult) {
	if c := h.conn(conn); c != nil {
		h.attached(c, r)
	}
}

func (h *Hub) attached(c *Conn, r AttachResult) {
	if r.OK && !h.own(c, r) {
		return // a newer owner has it: this connection is closed
	}
	c.attached.CompareAndSwap(nil, &r) // else it is answered already
	c.wake()
}

// own makes c the connection of its session on this server, unless one with a later ticket is there.
func (h *Hub) own(c *Conn, r AttachResult) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if c.Ended() {
		return false // remove comes, or has been, here for it
	}
	if old := h.sessions[r.Session]; old != nil && old != c {
		if r.Ticket.Less(old.Ticket()) {
			c.Close(ReasonEvicted)
			return false
		}
		old.Close(ReasonEvicted)
	}
	if c.Ticket().Less(r.Ticket) { // a confirmation draws none
		t := r.Ticket // alone
		c.ticket.Store(&t)
	}
	c.timeout.Store(r.Timeout)
	c.session.Store(r.Session)
	h.sessions[r.Session] = c
	return true
}

// SessionEnded closes the connection of a session that has ended: after its reply if the connection asked for the end
// and has been answered, else at once and without a word.
func (h *Hub) SessionEnded(id int64) {
	h.mu.Lock()
	c := h.sessions[id]
	h.mu.Unlock()
	if c == nil {
		return
	}
	c.out.mu.Lock()
	asked := c.out.closeAfter
	c.out.mu.Unlock()
	if !asked {
		c.Close(ReasonExpired)
	}
}

// Evict closes the connection of a session if its ticket is below the one given. From any goroutine.
func (h *Hub) Evict(session int64, below znode.Ticket) {
	h.mu.Lock()
	c := h.sessions[session]
	h.mu.Unlock()
	if c != nil && c.Ticket().Less(below) {
		c.Close(ReasonEvicted)
	}
}

// CloseConn closes one connection. From any goroutine.
func (h *Hub) CloseConn(conn uint32, r Reason) {
	if c := h.conn(conn); c != nil {
		c.Close(r)
	}
}

// CloseAll closes every connection, with a session or without. From any goroutine.
func (h *Hub) CloseAll(r Reason) { h.closeAll(r, true) }

func (h *Hub) closeAll(r Reason, log bool) {
	n := 0
	h.each(func(c *Conn) bool {
		if !c.Ended() {
			n++
		}
		c.Close(r)
		return true
	})
	if log && n > 0 {
		h.log.Info().Str("reason", string(r)).Int("connections", n).Msg("closed all client connections")
	}
}

func (h *Hub) touch(c *Conn) {
	sh := &h.touches[c.num%touchShards]
	sh.mu.Lock()
	sh.list = append(sh.list, c)
	sh.mu.Unlock()
	if !h.touched.Load() {
		h.touched.Store(true) // behind the list: Touched finds what it is told of
	}
}

// Touched drains the sessions heard from since the last call. From one goroutine: the loop, at each heartbeat.
func (h *Hub) Touched(f func(session int64, timeoutMs int32)) {
	if !h.touched.Swap(false) {
		return
	}
	for i := range h.touches {
		sh := &h.touches[i]
		sh.mu.Lock()
		list := sh.list
		sh.list = nil
		sh.mu.Unlock()
		for _, c := range list {
			c.touched.Store(false)
			f(c.session.Load(), c.timeout.Load())
		}
	}
}

func (h *Hub) leaseValid() bool { return h.backend.Now() < h.backend.LeaseUntil() }

// Serving reports whether the serving lease is valid now.
func (h *Hub) Serving() bool { return h.leaseValid() }

// LastApplied is the zxid of the last transaction applied to the tree.
func (h *Hub) LastApplied() int64 { return h.backend.LastApplied() }
