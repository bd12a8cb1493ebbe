package sim

import (
	"math"

	"github.com/zkserver/zkserver/server/peer"
	"github.com/zkserver/zkserver/zab"
)

// contact is what a server's serving lease may rest on: when it sent what has been answered, on its own clock.
type contact struct {
	pings    [][]said // by receiver
	pongs    [][]said
	answered []int64 // leader: when the youngest ping was sent that each server has answered
	epoch    zab.Epoch
	pong     int64 // learner: when the youngest pong was sent that its leader has had
}

// said is when a ping (or, with seq zero, NewLeader) or a pong was sent.
type said struct {
	epoch zab.Epoch
	seq   uint64
	at    int64
}

// lastSaid is when the youngest of that name was sent; zero: never.
func lastSaid(list [][]said, to int, epoch zab.Epoch, seq uint64) int64 {
	if list == nil {
		return 0
	}
	for i := len(list[to]) - 1; i >= 0; i-- {
		if x := &list[to][i]; x.epoch == epoch && x.seq == seq {
			return x.at
		}
	}
	return 0
}

// dated notes when something was sent that a lease may rest on.
func (s *server) dated(m peer.Message, to int) {
	note := func(list *[][]said, epoch zab.Epoch, seq uint64) {
		if *list == nil {
			*list = make([][]said, len(s.w.servers))
		}
		(*list)[to] = append((*list)[to], said{epoch, seq, s.local()})
	}
	switch m := m.(type) {
	case *zab.Ping:
		note(&s.contact.pings, m.Epoch, m.Seq)
	case *zab.NewLeader:
		note(&s.contact.pings, m.Epoch, 0)
	case *zab.Pong:
		note(&s.contact.pongs, m.Epoch, m.PongSeq)
	}
}

// answered: a leader has had the answer to a ping.
func (s *server) answered(from int, epoch zab.Epoch, seq uint64) {
	c := &s.contact
	switch {
	case epoch < c.epoch:
		return // an answer to an earlier leadership, late
	case epoch > c.epoch || c.answered == nil:
		c.epoch, c.answered = epoch, make([]int64, len(s.w.servers))
	}
	c.answered[from] = max(c.answered[from], lastSaid(c.pings, from, epoch, seq))
}

// confirmed: a learner's leader has had one of its pongs.
func (s *server) confirmed(leader int, epoch zab.Epoch, seq uint64) {
	s.contact.pong = max(s.contact.pong, lastSaid(s.contact.pongs, leader, epoch, seq))
}

// checkLease: a serving lease is dated by the sending of what was answered, by a quorum or by the leader, and never by
// receipt (interleavings 13).
func (s *server) checkLease(lease int64) {
	if lease < s.lease || lease == math.MaxInt64 || s.w.chk.Quorum(func(i int) bool { return i == s.i }) {
		return
	}
	from, want := s.contact.pong, lease-int64(s.w.cfg.zab.Lease)
	for _, t := range s.contact.answered {
		if from < want && s.w.chk.Quorum(func(i int) bool { return i == s.i || s.contact.answered[i] >= t }) {
			from = max(from, t)
		}
	}
	if want > from {
		s.w.fail("lease", "server %d may serve for %d ms more than a lease after it sent what has been answered last", s.i+1,
			(want-from)/ms)
	}
}
