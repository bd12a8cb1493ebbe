package zab

import (
	"fmt"
	"strings"
)

// describe names a message and what matters in it.
func describe(m Message) string {
	s := strings.TrimPrefix(fmt.Sprintf("%T", m), "*zab.")
	switch m := m.(type) {
	case *LearnerInfo:
		s += fmt.Sprintf(" accepted=%d", m.Accepted)
		if m.Ensemble == 0 {
			s += " blank"
		}
		if m.Observer {
			s += " observer"
		}
	case *LeaderInfo:
		s += fmt.Sprintf(" epoch=%d", m.Epoch)
	case *AckEpoch:
		s += fmt.Sprintf(" epoch=%d current=%d last=%s delivered=%s", m.Epoch, m.Current, zx(m.Last), zx(m.Delivered))
		if !m.Counts {
			s += " not counted"
		}
	case *SyncBegin:
		s += fmt.Sprintf(" %v", m.Mode)
		if m.Mode != SyncDiff {
			s += fmt.Sprintf(" common=%s", zx(m.TruncateTo))
		}
		if m.Mode == SyncSnap {
			s += fmt.Sprintf(" snapshot=%s", zx(m.Snapshot))
		}
	case *Append:
		s += fmt.Sprintf(" %s->", zx(m.Prev))
		if n := len(m.Entries); n > 0 {
			s += zx(m.Entries[n-1].Zxid)
		}
		s += " committed=" + zx(m.Committed)
	case *NewLeader:
		s += fmt.Sprintf(" epoch=%d end=%s", m.Epoch, zx(m.HistoryEnd))
	case *AckNewLeader:
		s += fmt.Sprintf(" epoch=%d end=%s", m.Epoch, zx(m.HistoryEnd))
	case *UpToDate:
		s += " committed=" + zx(m.Committed)
	case *Ack:
		s += " " + zx(m.Durable)
	case *Commit:
		s += " " + zx(m.Zxid)
	case *Ping:
		s += fmt.Sprintf(" %d committed=%s quorum=%v seen=%d", m.Seq, zx(m.Committed), m.HasQuorum, m.PongSeen)
	case *Pong:
		s += fmt.Sprintf(" %d number=%d", m.Seq, m.PongSeq)
	case *SyncRequest:
		s += fmt.Sprintf(" %d", m.ID)
	case *SyncReply:
		s += fmt.Sprintf(" %d index=%s", m.ID, zx(m.Index))
	case *TimeoutNow:
		s += " last=" + zx(m.Last)
	case *Goodbye:
		s += fmt.Sprintf(" (%s)", m.Reason)
		if m.Successor != 0 {
			s += fmt.Sprintf(" successor=%d", m.Successor)
		}
	case *Refuse:
		s += fmt.Sprintf(" (%s) %s", m.Reason, m.Detail)
	}
	return s
}
