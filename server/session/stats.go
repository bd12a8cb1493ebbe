package session

import (
	"sync/atomic"
	"time"

	"github.com/zkserver/zkserver/znode"
)

// hubStats counts what all connections do. Latencies are in ms.
type hubStats struct {
	connections                   atomic.Int64
	outstanding, outstandingBytes atomic.Int64
	received, sent                atomic.Int64
	count, total                  atomic.Int64
	minLatency, maxLatency        atomic.Int64 // min is stored plus one: zero is none yet
	lastSize                      atomic.Int64
	minSize, maxSize              atomic.Int64 // likewise plus one
	dropped                       atomic.Int64
}

// waiting counts requests that have become outstanding, or are no longer, and what they hold.
func (s *hubStats) waiting(requests, bytes int) {
	s.outstanding.Add(int64(requests))
	s.outstandingBytes.Add(int64(bytes))
}

// ConnStats are the numbers of one connection, as cons prints them. Latencies are in ms; LastResponse is on the
// backend's clock, in ns.
type ConnStats struct {
	Received, Sent                      int64
	LastOp                              znode.Op
	LastCxid                            int32
	LastZxid                            int64
	LastResponse                        int64
	LastLatency, MinLatency, MaxLatency int64
	count, total                        int64
}

// AvgLatency is the mean latency in ms.
func (s *ConnStats) AvgLatency() int64 {
	if s.count == 0 {
		return 0
	}
	return s.total / s.count
}

func (s *ConnStats) reset() { *s = ConnStats{LastZxid: -1, LastCxid: -1, LastOp: noOp} }

// noOp is LastOp of a connection that has not been answered.
const noOp = znode.Op(-1 << 31)

// Answered reports whether the connection has been answered since the last reset.
func (s *ConnStats) Answered() bool { return s.LastOp != noOp }

// reply counts a reply to a request of this latency. Under out.mu.
func (s *ConnStats) reply(r *Reply, lat, now int64) {
	s.Sent++
	s.LastOp, s.LastResponse, s.LastLatency = r.Op, now, lat
	if r.Xid >= 0 {
		s.LastCxid = r.Xid // as Java: pings and the like do not count
	}
	if r.Zxid > 0 {
		s.LastZxid = r.Zxid
	}
	if s.count == 0 || lat < s.MinLatency {
		s.MinLatency = lat
	}
	s.MaxLatency = max(s.MaxLatency, lat)
	s.count++
	s.total += lat
}

// latency is the time since at, in ms.
func latency(now, at int64) int64 { return max(0, now-at) / int64(time.Millisecond) }

// tally sums up the replies of a run, so that the counters which all goroutines share are touched once a run.
type tally struct {
	n, events               int64
	total, min, max         int64
	last, smallest, largest int64
}

func (t *tally) reply(size int, lat int64) {
	s := int64(size)
	if t.n == 0 {
		t.min, t.smallest = lat, s
	}
	t.n++
	t.total += lat
	t.min, t.max = min(t.min, lat), max(t.max, lat)
	t.last, t.smallest, t.largest = s, min(t.smallest, s), max(t.largest, s)
}

// add takes a tally over and clears it.
func (h *hubStats) add(t *tally) {
	if t.events > 0 {
		h.sent.Add(t.events)
		t.events = 0
	}
	if t.n == 0 {
		return
	}
	h.sent.Add(t.n)
	h.count.Add(t.n)
	if t.total > 0 {
		h.total.Add(t.total)
	}
	lower(&h.minLatency, t.min+1)
	raise(&h.maxLatency, t.max)
	h.lastSize.Store(t.last)
	lower(&h.minSize, t.smallest+1)
	raise(&h.maxSize, t.largest+1)
	*t = tally{}
}

func lower(v *atomic.Int64, to int64) {
	for old := v.Load(); old == 0 || to < old; old = v.Load() {
		if v.CompareAndSwap(old, to) {
			return
		}
	}
}

func raise(v *atomic.Int64, to int64) {
	for old := v.Load(); to > old; old = v.Load() {
		if v.CompareAndSwap(old, to) {
			return
		}
	}
}

// Stats are the numbers of all connections since the start or the last reset. Latencies are in ms, sizes in bytes (-1:
// none yet).
type Stats struct {
	Connections, Outstanding, Received, Sent int64
	MinLatency, MaxLatency                   int64
	AvgLatency                               float64
	LastSize, MinSize, MaxSize               int64
	Dropped                                  int64 // connections closed by the server for cause
}

// Stats reads the numbers.
func (h *Hub) Stats() Stats {
	s := &h.stats
	out := Stats{
		Connections: s.connections.Load(), Outstanding: s.outstanding.Load(), Received: s.received.Load(), Sent: s.sent.Load(),
		MinLatency: max(0, s.minLatency.Load()-1), MaxLatency: s.maxLatency.Load(),
		LastSize: s.lastSize.Load(), MinSize: s.minSize.Load() - 1, MaxSize: s.maxSize.Load() - 1,
	}
	out.Dropped = s.dropped.Load()
	if out.MaxSize < 0 {
		out.LastSize = -1
	}
	if n := s.count.Load(); n > 0 {
		out.AvgLatency = float64(s.total.Load()) / float64(n)
	}
	return out
}

// ResetStats is srst.
func (h *Hub) ResetStats() {
	s := &h.stats
	for _, v := range []*atomic.Int64{&s.received, &s.sent, &s.count, &s.total, &s.minLatency, &s.maxLatency} {
		v.Store(0)
	}
}

// ResetConnStats is crst.
func (h *Hub) ResetConnStats() {
	h.each(func(c *Conn) bool {
		c.out.mu.Lock()
		c.out.stats.reset()
		c.out.mu.Unlock()
		return true
	})
}

// ConnInfo describes one connection.
type ConnInfo struct {
	Name        string
	Session     int64
	Timeout     int32 // ms
	Established int64 // wall clock, ms
	Queued      int   // requests unanswered
	Stats       ConnStats
}

// Connections describes all connections, in no order.
func (h *Hub) Connections() []ConnInfo {
	var out []ConnInfo
	h.each(func(c *Conn) bool {
		info := ConnInfo{Name: c.name, Session: c.Session(), Timeout: c.Timeout(), Established: c.established}
		c.mu.Lock()
		info.Queued = c.order.Len()
		c.mu.Unlock()
		c.out.mu.Lock()
		info.Stats = c.out.stats
		c.out.mu.Unlock()
		out = append(out, info)
		return true
	})
	return out
}
