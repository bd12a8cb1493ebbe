package sim

import (
	"math"
	"slices"

	"github.com/zkserver/zkserver/server/peer"
	"github.com/zkserver/zkserver/zab"
)

// contact is what a server's serving lease may rest on: when it sent what has been answered, on its own clock.
type contact struct {
	sent     map[said]int64
	answered []int64 // leader: when the youngest ping was sent that each server has answered
	epoch    zab.Epoch
	pong     int64 // learner: when the youngest pong was sent that its leader has had
}

// said names a ping (or, with seq zero, NewLeader) or a pong to a server.
type said struct {
	epoch zab.Epoch
	to    int
	pong  bool
	seq   uint64
}

// dated notes when something was sent that a lease may rest on.
func (s *server) dated(m peer.Message, to int) {
	var k said
	switch m := m.(type) {
	case *zab.Ping:
		k = said{m.Epoch, to, false, m.Seq}
	case *zab.NewLeader:
		k = said{m.Epoch, to, false, 0}
	case *zab.Pong:
		k = said{m.Epoch, to, true, m.PongSeq}
	default:
		return
	}
	if s.contact.sent == nil {
		s.contact.sent = map[said]int64{}
	}
	s.contact.sent[k] = s.local()
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
	c.answered[from] = max(c.answered[from], c.sent[said{epoch, from, false, seq}])
}

// confirmed: a learner's leader has had one of its pongs.
func (s *server) confirmed(leader int, epoch zab.Epoch, seq uint64) {
	s.contact.pong = max(s.contact.pong, s.contact.sent[said{epoch, leader, true, seq}])
}

// checkLease: a serving lease is dated by the sending of what was answered, by a quorum or by the leader, and never by
// receipt (interleavings 13).
func (s *server) checkLease(lease int64) {
	if lease < s.lease || lease == math.MaxInt64 || s.w.chk.Quorum(func(i int) bool { return i == s.i }) {
		return
	}
	from := s.contact.pong
	for _, t := range slices.Sorted(slices.Values(s.contact.answered)) {
		if s.w.chk.Quorum(func(i int) bool { return i == s.i || s.contact.answered[i] >= t }) {
			from = max(from, t)
		}
	}
	if lease-int64(s.w.cfg.zab.Lease) > from {
		s.w.fail("lease", "server %d may serve for %d ms more than a lease after it sent what has been answered last", s.i+1,
			(lease-int64(s.w.cfg.zab.Lease)-from)/ms)
	}
}
