package session

import "github.com/zkserver/zkserver/znode"

// Order is the queue of a connection's unanswered requests, oldest first: it decides what may run now and what a
// completion sets free. It is pure: no lock, clock or I/O; Conn holds it under the order lock.
//
// The queue is empty or begins with a request in flight (Invariant "head"): reads run on the connection's own
// goroutine while nothing is in flight, and are parked behind what is. What goes to the leader goes at once, also
// past parked reads; it is answered in its place.
type Order struct {
	items []Item // items[head:] are unanswered
	head  int
	bytes int
	last  bool // closeSession was pushed: nothing may follow
}

// Item is one unanswered request.
type Item struct {
	Req  Request
	Auth []znode.AuthID // the connection's ids when the request was received
	At   int64          // when it was received, on the backend's clock
	done bool           // completed before its turn (sync only)
}

// InFlight tells requests that are answered through the leader from those that this server runs itself.
func (r *Request) InFlight() bool { return r.Write != nil }

// seq is the number that the backend drew for a request in flight.
func (it *Item) seq() uint64 { return it.Req.Write.Origin.Seq }

// Idle reports whether nothing is in flight: a read that arrives now runs directly.
func (o *Order) Idle() bool { return o.head == len(o.items) }

// Len is the number of unanswered requests; Bytes is what their bodies hold.
func (o *Order) Len() int   { return len(o.items) - o.head }
func (o *Order) Bytes() int { return o.bytes }

// Closed reports whether closeSession was pushed. What the client sends after it is never answered.
func (o *Order) Closed() bool { return o.last }

// Push appends a request that is in flight, or parks a read behind one; a write with its identities. It reports false, and
// takes nothing, for a read on an idle order (which must run, not wait) and for anything behind closeSession.
func (o *Order) Push(it Item) bool {
	if o.last || o.Idle() && !it.Req.InFlight() {
		return false
	}
	o.last = it.Req.Op == znode.OpCloseSession
	o.items = append(o.items, it)
	o.bytes += it.Req.size()
	return true
}

// Verdict is what a completion means for the order.
type Verdict uint8

// Verdicts of Complete.
const (
	// Broken: nothing in flight has that number, or a transaction overtook an older one. The connection must end.
	Broken Verdict = iota
	// Turn: the request is the oldest; answer Front, Pop it, then go on with Next.
	Turn
	// Early: a sync completed while older requests are in flight; Next gives it in its turn.
	Early
)

// Complete notes that the request in flight with this number has completed.
func (o *Order) Complete(seq uint64) Verdict {
	if o.Idle() {
		return Broken
	}
	if it := &o.items[o.head]; !it.done && it.seq() == seq {
		return Turn
	}
	for i := o.head + 1; i < len(o.items); i++ {
		it := &o.items[i]
		if !it.Req.InFlight() || it.done || it.seq() != seq {
			continue
		}
		if it.Req.Op != znode.OpSync {
			return Broken
		}
		it.done = true
		return Early
	}
	return Broken
}

// Front is the oldest unanswered request. The pointer holds until the next Push or Pop.
func (o *Order) Front() *Item { return &o.items[o.head] }

// Next is the oldest request if it may be answered now: a parked read that has come to the front, or a sync that
// completed early. Nil when the front is in flight or the order is idle.
func (o *Order) Next() *Item {
	if o.Idle() {
		return nil
	}
	if it := &o.items[o.head]; it.done || !it.Req.InFlight() {
		return it
	}
	return nil
}

// Pop drops the oldest request: it has been answered.
func (o *Order) Pop() {
	it := &o.items[o.head]
	o.bytes -= it.Req.size()
	*it = Item{}
	o.head++
	switch {
	case o.head < len(o.items):
		if o.head >= 64 && o.head*2 >= len(o.items) {
			n := copy(o.items, o.items[o.head:])
			clear(o.items[n:])
			o.items, o.head = o.items[:n], 0
		}
	case cap(o.items) > 2:
		o.items, o.head = nil, 0 // an idle connection holds no queue
	default:
		o.items, o.head = o.items[:0], 0
	}
}

// Drop forgets everything: the connection has ended.
func (o *Order) Drop() (n, bytes int) {
	n, bytes = o.Len(), o.bytes
	*o = Order{last: true}
	return n, bytes
}

// size is what a request holds on to, for the bound on what a connection may have outstanding.
func (r *Request) size() int {
	n := 128 + len(r.Path)
	if w := r.Write; w != nil {
		n += writeSize(w)
	}
	for i := range r.Reads {
		n += 32 + len(r.Reads[i].Path)
	}
	if l := r.Lists; l != nil {
		for _, paths := range [...][]string{l.Data, l.Exist, l.Child, l.Persistent, l.Recursive} {
			for _, p := range paths {
				n += 16 + len(p)
			}
		}
	}
	return n
}

func writeSize(w *znode.Request) int {
	n := 256 + len(w.Path) + len(w.Data) + znode.AuthSize(w.Auth)
	for i := range w.ACL {
		n += 40 + len(w.ACL[i].Scheme) + len(w.ACL[i].ID)
	}
	for i := range w.Multi {
		n += writeSize(&w.Multi[i])
	}
	return n
}
