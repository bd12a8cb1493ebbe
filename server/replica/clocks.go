package replica

import (
	"time"

	"github.com/zkserver/zkserver/server/peer"
	"github.com/zkserver/zkserver/zab"
	"github.com/zkserver/zkserver/znode"
)

// bucketLength is the grain of the expiry clock. A session ends at the first bucket at or behind its timeout.
const bucketLength = 50 * time.Millisecond

// tracked is the leader's view of one session: its owner and when it was last heard from.
type tracked struct {
	znode.Session
	owner   znode.Origin // the connection that holds it; zero: unknown
	server  zab.ServerID // where it is; zero: unknown
	last    time.Duration
	closing bool
	expired bool // closing, because its time was over
}

// clocks are the leader's session clocks. They run on a time of their own, which stands still while the process is
// paused, and while it has no contact with a quorum: nobody is answered then, wherever he is. A session is judged by
// what was known when its owner's server was last heard (I10).
type clocks struct {
	self     zab.ServerID
	clock    time.Duration
	seen     time.Duration // monotonic time of the last tick
	now      time.Duration // the latest monotonic time that is known
	pause    time.Duration // of this process: a tick as late as that
	heard    map[zab.ServerID]time.Duration
	sessions map[int64]*tracked
	buckets  map[int64][]int64
	next     int64
	due      []int64 // expired, to be closed by the next flush
	tickets  uint64
}

func newClocks(self zab.ServerID, pause time.Duration) clocks {
	return clocks{
		self: self, pause: pause, heard: map[zab.ServerID]time.Duration{}, sessions: map[int64]*tracked{}, buckets: map[int64][]int64{},
	}
}

// drawTicket draws the next owner's ticket.
func (l *leadership) drawTicket() znode.Ticket {
	l.tickets++
	return znode.Ticket{Epoch: uint32(l.m.epoch), Number: l.tickets}
}

// add puts a session under the clock with its full timeout.
func (c *clocks) add(s znode.Session) *tracked {
	x := &tracked{Session: s, last: c.present()}
	c.sessions[s.ID] = x
	c.schedule(x)
	return x
}

// present is what the clock would show if it ticked now. A sign of life has come by then, but perhaps long after the last
// tick: a busy machine delays ticks.
func (c *clocks) present() time.Duration {
	step := max(c.now-c.seen, 0)
	switch {
	case c.seen == 0:
		return c.clock
	case step >= c.pause+zab.QuantumLength:
		return c.clock + zab.QuantumLength // which is what the tick will count
	}
	return c.clock + step
}

func (s *tracked) deadline() time.Duration {
	return s.last + time.Duration(s.Timeout)*time.Millisecond
}

func (c *clocks) schedule(s *tracked) {
	b := max(int64(s.deadline()/bucketLength)+1, c.next+1)
	c.buckets[b] = append(c.buckets[b], s.ID)
}

// tick moves the clock, not over a pause of this process, and finds the sessions whose time is over.
func (l *leadership) tick(in Quantum) {
	c := &l.clocks
	step := zab.QuantumLength
	if c.seen != 0 && in.Late < c.pause {
		step = max(in.Now-c.seen, 0)
	}
	c.seen = in.Now
	if in.Now <= l.m.lease {
		c.clock += step
	}
	for ; c.next <= int64(c.clock/bucketLength); c.next++ {
		ids := c.buckets[c.next]
		delete(c.buckets, c.next)
		for _, id := range ids {
			s := c.sessions[id]
			if s == nil || s.closing {
				continue
			}
			if c.horizon(s.server) >= s.deadline() {
				c.due = append(c.due, id)
			}
			c.schedule(s)
		}
	}
}

// horizon is the time up to which the touches of a server's sessions are known: a silence of its link shorter than
// the detection time (after that the link is gone) counts against nobody.
func (c *clocks) horizon(server zab.ServerID) time.Duration {
	if h, ok := c.heard[server]; ok && server != c.self {
		return h
	}
	return c.clock
}

// touch notes the sessions that a server has heard from.
func (c *clocks) touch(server zab.ServerID, ts []peer.Touch) {
	for _, t := range ts {
		s := c.sessions[t.Session]
		if s == nil {
			continue
		}
		s.last = c.present()
		if s.server == 0 {
			s.server = server
		}
		if t.Timeout > 0 && s.server == server {
			s.Timeout = t.Timeout
		}
	}
}

func (m *Machine) silence() time.Duration {
	if m.boot.SilenceLimit > 0 {
		return m.boot.SilenceLimit
	}
	return time.Second
}
