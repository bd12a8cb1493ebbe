package replica

import (
	"sync"

	"github.com/zkserver/zkserver/znode"
)

// queue hands slices from many goroutines to one. Its length is bounded by what its producers may have outstanding:
// requests by the hub, messages by the links, the rest by the loop itself.
type queue[T any] struct {
	mu    sync.Mutex
	items []T
	spare []T
	bell  chan struct{}
}

func newQueue[T any]() *queue[T] { return &queue[T]{bell: make(chan struct{}, 1)} }

func (q *queue[T]) push(items ...T) {
	q.mu.Lock()
	q.items = append(q.items, items...)
	q.mu.Unlock()
	q.ring()
}

func (q *queue[T]) ring() {
	select {
	case q.bell <- struct{}{}:
	default:
	}
}

// take returns everything that waits; the slice is the caller's until the next take.
func (q *queue[T]) take() []T {
	q.mu.Lock()
	defer q.mu.Unlock()
	out := q.items
	clear(q.spare)
	q.items, q.spare = q.spare[:0], out
	return out
}

// inbox is the loop's queue. Origin seqs are drawn where inputs enter it, so they grow in the order of the queue.
type inbox struct {
	queue[Input]
	seq uint64
}

// submit draws the origins of a run of requests and queues it.
func (b *inbox) submit(conn uint32, o znode.Origin, rs []*znode.Request) {
	o.Conn = conn
	b.mu.Lock()
	for _, r := range rs {
		b.seq++
		o.Seq = b.seq
		r.Origin = o
	}
	b.items = append(b.items, Requests{Conn: conn, Requests: rs})
	b.mu.Unlock()
	b.ring()
}

// attach draws the seq of an attach and queues it.
func (b *inbox) attach(a Attach) {
	b.mu.Lock()
	b.seq++
	a.Seq = b.seq
	b.items = append(b.items, a)
	b.mu.Unlock()
	b.ring()
}
