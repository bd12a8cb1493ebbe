package sim

import (
	"fmt"
	"strings"

	"github.com/zkserver/zkserver/election"
	"github.com/zkserver/zkserver/server/peer"
	"github.com/zkserver/zkserver/zab"
	"github.com/zkserver/zkserver/znode"
)

// describe prints a message for the trace.
func describe(m peer.Message) string {
	switch m := m.(type) {
	case *election.Notification:
		return fmt.Sprintf("vote %d (%s, %d) round %d, %v %d/%d", m.Vote.Leader, zx(m.Vote.Zxid), m.Vote.PeerEpoch, m.Round, m.State, m.Established.Leader, m.Established.Epoch)
	case *zab.LearnerInfo:
		return fmt.Sprintf("LearnerInfo accepted %d ensemble %x", m.Accepted, uint64(m.Ensemble))
	case *zab.LeaderInfo:
		return fmt.Sprintf("LeaderInfo %d", m.Epoch)
	case *zab.AckEpoch:
		return fmt.Sprintf("AckEpoch %d current %d last %s delivered %s counts %v", m.Epoch, m.Current, zx(m.Last), zx(m.Delivered), m.Counts)
	case *zab.SyncBegin:
		return fmt.Sprintf("SyncBegin %v to %s snapshot %s", m.Mode, zx(m.TruncateTo), zx(m.Snapshot))
	case *zab.Append:
		if n := len(m.Entries); n > 0 {
			return fmt.Sprintf("Append %s..%s behind %s, committed %s", zx(m.Entries[0].Zxid), zx(m.Entries[n-1].Zxid), zx(m.Prev), zx(m.Committed))
		}
		return fmt.Sprintf("Append behind %s, committed %s", zx(m.Prev), zx(m.Committed))
	case *zab.NewLeader:
		return fmt.Sprintf("NewLeader %d up to %s", m.Epoch, zx(m.HistoryEnd))
	case *zab.AckNewLeader:
		return fmt.Sprintf("AckNewLeader %d up to %s", m.Epoch, zx(m.HistoryEnd))
	case *zab.UpToDate:
		return fmt.Sprintf("UpToDate %d at %s", m.Epoch, zx(m.Committed))
	case *zab.Ack:
		return "Ack " + zx(m.Durable)
	case *zab.Commit:
		return "Commit " + zx(m.Zxid)
	case *zab.Ping:
		return fmt.Sprintf("Ping %d committed %s quorum %v pong %d", m.Seq, zx(m.Committed), m.HasQuorum, m.PongSeen)
	case *zab.Pong:
		return fmt.Sprintf("Pong %d (%d) durable %s applied %s", m.Seq, m.PongSeq, zx(m.Durable), zx(m.Applied))
	case *zab.Goodbye:
		return fmt.Sprintf("Goodbye %s, successor %d", m.Reason, m.Successor)
	case *zab.Refuse:
		return fmt.Sprintf("Refuse %s: %s", m.Reason, m.Detail)
	case *peer.Forward:
		return fmt.Sprintf("Forward of connection %d, seq %d", m.Origin.Conn, m.Origin.Seq)
	}
	return strings.TrimPrefix(fmt.Sprintf("%T%+v", m, m), "*")
}

// describeTxn prints a transaction.
func describeTxn(t *znode.Txn) string {
	who := fmt.Sprintf("session %x, request %d", t.Session, t.Cxid)
	if t.Origin.Seq != 0 {
		who += fmt.Sprintf(" of connection %d at s%d", t.Origin.Conn, t.Origin.Server)
	}
	if t.Failed() {
		return fmt.Sprintf("refused %d (%d): %s", t.Requested, t.Err, who)
	}
	if t.Type == znode.OpMulti {
		var ops []string
		for i := range t.Multi {
			ops = append(ops, fmt.Sprintf("%d %s", t.Multi[i].Op, t.Multi[i].Path))
		}
		return fmt.Sprintf("multi [%s]: %s", strings.Join(ops, ", "), who)
	}
	return fmt.Sprintf("op %d %s: %s", t.Type, t.Op.Path, who)
}
