package session

import (
	"sync"
	"sync/atomic"
	"time"
	"unsafe"
)

// Bounds of an outbox, in bytes.
const (
	// SoftOutbox is where a connection's reader begins to wait for its client to read.
	SoftOutbox = 256 << 10
	// HardEvents is how many bytes of events may wait for a client that does not read before it is cut off. Events
	// come whether it asks or not; replies are bounded by what is read from it.
	HardEvents = 1 << 20
	// HardReplies bounds the reply to a multiRead, and the replies that a completion sets free at once: reads parked
	// behind a write run before the next write, however long their replies. Beyond SoftOutbox they are not encoded
	// before the client has read what is; until then they cost what they say besides the tree's own data.
	HardReplies = 64 << 20
	// lateBatch is how much of them is encoded at a time.
	lateBatch = 64 << 10
	// shortBuffer is the largest buffer that is kept for any reply, keptBuffer for a longer one: long listings again and
	// again should not be the collector's work.
	shortBuffer = 128 << 10
	keptBuffer  = 4 << 20
)

// lingerAfterClose is how long a closing connection may take to hand out what is queued.
const lingerAfterClose = 5 * time.Second

// buffer is a pooled run of encoded frames.
type buffer struct {
	b      []byte
	off    int // what is before it has been written
	events int // bytes of them that are events
}

// outbox holds the bytes a connection owes its client. Whoever appends marks it dirty or flushes it; one goroutine at
// a time writes (writing), and goes on with what was appended meanwhile.
type outbox struct {
	mu   sync.Mutex
	head *buffer // being written
	tail *buffer // being appended to
	late *late   // nil: nothing

	writing    bool
	ended      bool // nothing is taken any more
	closeAfter bool // end the connection once empty
	reason     Reason
	stats      ConnStats

	dirty atomic.Bool // on the hub's list of outboxes to flush
}

// late is what comes behind an outbox's tail and is not encoded yet. While there is any, everything goes there.
type late struct {
	items  []lateItem
	bytes  int // estimated
	events int // bytes of them that are events
}

// lateItem is a reply that is encoded when its turn comes, or the frames of events.
type lateItem struct {
	rep   Reply
	frame []byte
	size  int // of what it refers to
}

// lateSize is what an item takes by itself.
const lateSize = int(unsafe.Sizeof(lateItem{}))

// crowded reports whether the client owes it to us to read first.
func (o *outbox) crowded() bool { return o.late != nil || o.pending() > SoftOutbox }

// pending is the number of encoded bytes.
func (o *outbox) pending() int {
	n := 0
	if o.head != nil {
		n = len(o.head.b) - o.head.off
	}
	if o.tail != nil {
		n += len(o.tail.b)
	}
	return n
}

// room returns the buffer to append so many bytes to; nil if the connection takes nothing any more. Under mu.
func (o *outbox) room(p *pools, size int) *buffer {
	if o.ended {
		return nil
	}
	if o.tail == nil {
		o.tail = p.get(size)
	}
	return o.tail
}

// over reports whether the client has been too slow to read. Under mu, before appending.
func (o *outbox) over() bool {
	n := o.pending()
	if o.late != nil {
		n += o.late.bytes
	}
	return n > HardReplies
}

// overEvents does so for an event.
func (o *outbox) overEvents() bool {
	n := 0
	if o.late != nil {
		n = o.late.events
	}
	for _, b := range [...]*buffer{o.head, o.tail} {
		if b != nil {
			n += b.events
		}
	}
	return n > HardEvents || o.over()
}

// delay queues something behind all that is encoded. Under mu.
func (o *outbox) delay(it lateItem) {
	if o.ended {
		return
	}
	if o.late == nil {
		o.late = new(late)
	}
	l := o.late
	l.bytes += it.size
	if it.frame != nil {
		l.events += it.size
		if last := len(l.items) - 1; last >= 0 && l.items[last].frame != nil && l.items[last].size < lateBatch {
			l.items[last].frame = append(l.items[last].frame, it.frame...)
			l.items[last].size += it.size
			return
		}
	}
	l.items = append(l.items, it)
	l.bytes += lateSize
}

// next makes head the bytes to write next; false when there are none. Under mu.
func (c *Conn) next() bool {
	o := &c.out
	if o.head == nil {
		o.head, o.tail = o.tail, nil
	}
	if o.head == nil && o.late != nil {
		o.head = c.encodeLate()
	}
	return o.head != nil
}

// encodeLate takes the first of what is late.
func (c *Conn) encodeLate() *buffer {
	l := c.out.late
	b := c.hub.get(0)
	n := 0
	for n < len(l.items) && len(b.b) < lateBatch {
		it := &l.items[n]
		if it.frame != nil {
			b.b = append(b.b, it.frame...)
			b.events += len(it.frame)
			l.events -= it.size
		} else {
			b.b = c.wire.AppendReply(b.b, &it.rep)
		}
		l.bytes -= it.size + lateSize
		*it = lateItem{}
		n++
	}
	if l.items = l.items[n:]; len(l.items) == 0 {
		c.out.late = nil
	}
	return b
}

func (o *outbox) drop(p *pools) {
	o.ended = true
	o.late = nil
	if !o.writing && o.head != nil {
		p.put(o.head)
		o.head = nil
	}
	if o.tail != nil {
		p.put(o.tail)
		o.tail = nil
	}
}

// get gives an empty buffer for so many bytes, or more. A client that does not read keeps it: one much longer than that
// is for another.
func (p *pools) get(size int) *buffer {
	if size <= shortBuffer {
		return p.buffers.Get().(*buffer)
	}
	if b, ok := p.long.Get().(*buffer); ok {
		if cap(b.b) <= 2*size {
			return b
		}
		p.long.Put(b)
	}
	return &buffer{b: make([]byte, 0, size)}
}

func (p *pools) put(b *buffer) {
	b.b, b.off, b.events = b.b[:0], 0, 0
	switch {
	case cap(b.b) <= shortBuffer:
		p.buffers.Put(b)
	case cap(b.b) <= keptBuffer:
		p.long.Put(b)
	}
}

// flush writes what is queued as far as it goes without waiting; the rest goes to a goroutine of its own, or waits for
// the lease. Any goroutine; without locks.
func (c *Conn) flush() {
	o := &c.out
	o.mu.Lock()
	if o.writing {
		o.mu.Unlock()
		return // the one that writes goes on with this
	}
	o.writing = true
	c.drain(false)
}

// drain writes until the outbox is empty. It is entered with mu held and writing set, and leaves with mu released and
// writing cleared or handed on.
func (c *Conn) drain(wait bool) {
	o := &c.out
	for c.next() && !c.Ended() {
		if !c.hub.leaseValid() && !o.closeAfter {
			// Invariant (lease): past it the outbox stays (interleavings 15). The gate flushes it on renewal.
			o.writing = false
			o.mu.Unlock()
			c.hub.gate.stall(c)
			return
		}
		b, off := o.head, o.head.off
		o.mu.Unlock()
		var (
			n   int
			err error
		)
		if wait {
			n, err = c.sink.Write(b.b[off:])
		} else {
			n, err = c.sink.TryWrite(b.b[off:])
		}
		o.mu.Lock()
		b.off += n
		if err != nil {
			o.writing = false
			o.mu.Unlock()
			c.Close(ReasonWrite)
			return
		}
		if b.off < len(b.b) {
			if wait {
				continue
			}
			o.mu.Unlock()
			c.hub.drainers.Add(1)
			go c.drainSlowly() // ends when the outbox is empty or the connection closed
			return
		}
		o.head = nil
		c.hub.put(b)
	}
	o.writing = false
	end, reason := o.closeAfter && !c.Ended(), o.reason
	if c.Ended() {
		o.drop(c.hub.pools)
	}
	o.mu.Unlock()
	c.wake()
	if end {
		c.Close(reason)
	}
}

// drainSlowly goes on where a write would have blocked.
func (c *Conn) drainSlowly() {
	defer c.hub.drainers.Done()
	c.out.mu.Lock()
	c.drain(true)
}

// CloseAfterFlush ends the connection once everything now in the outbox is written, and takes nothing more.
func (c *Conn) CloseAfterFlush(r Reason) {
	c.closeAfterFlush(r)
	c.flush()
}

func (c *Conn) closeAfterFlush(r Reason) {
	c.out.mu.Lock()
	if !c.out.closeAfter {
		c.out.closeAfter, c.out.ended, c.out.reason = true, true, r
		c.linger = time.AfterFunc(lingerAfterClose, func() { c.Close(r) })
	}
	c.out.mu.Unlock()
}
