package transport

import (
	"fmt"
	"strings"

	"github.com/zkserver/zkserver/election"
	zabv1 "github.com/zkserver/zkserver/proto/zab/v1"
	"github.com/zkserver/zkserver/server/peer"
	"github.com/zkserver/zkserver/zab"
)

// MessageError is a message that cannot be: of an unknown kind, or with a value that no server sends. It ends the
// link it came from.
type MessageError struct{ Kind, What string }

func (e *MessageError) Error() string { return fmt.Sprintf("transport: %s: %s", e.Kind, e.What) }

// encode turns a message into its wire form. Byte slices are shared, not copied.
func encode(m peer.Message) (*zabv1.Message, error) {
	out := &zabv1.Message{}
	switch m := m.(type) {
	case *election.Notification:
		out.Kind = &zabv1.Message_Notification{Notification: encodeNotification(m)}
	case *zab.Append:
		out.Kind = &zabv1.Message_Append{Append: encodeAppend(m)}
	case *zab.Ack:
		out.Kind = &zabv1.Message_Ack{Ack: &zabv1.Ack{Epoch: uint32(m.Epoch), Durable: uint64(m.Durable)}}
	case *zab.Commit:
		out.Kind = &zabv1.Message_Commit{Commit: &zabv1.Commit{Epoch: uint32(m.Epoch), Zxid: uint64(m.Zxid)}}
	case *zab.Ping:
		out.Kind = &zabv1.Message_Ping{Ping: &zabv1.Ping{
			Epoch: uint32(m.Epoch), Seq: m.Seq, Committed: uint64(m.Committed), HasQuorum: m.HasQuorum, PongSeen: m.PongSeen,
		}}
	case *zab.Pong:
		out.Kind = &zabv1.Message_Pong{Pong: &zabv1.Pong{
			Epoch: uint32(m.Epoch), Seq: m.Seq, PongSeq: m.PongSeq, Durable: uint64(m.Durable),
			Applied: uint64(m.Applied), Current: uint32(m.Current),
		}}
	case *peer.Forward:
		out.Kind = &zabv1.Message_Forward{Forward: &zabv1.Forward{
			Origin: encodeOrigin(m.Origin), Ticket: encodeTicket(m.Ticket), Request: m.Request,
		}}
	case *peer.Touches:
		out.Kind = &zabv1.Message_Touches{Touches: encodeTouches(m)}
	default:
		if !encodeDiscovery(out, m) && !encodeRare(out, m) {
			return nil, &MessageError{Kind: fmt.Sprintf("%T", m), What: "not a message between servers"}
		}
	}
	return out, nil
}

// encodeDiscovery does what is said once a leadership.
func encodeDiscovery(out *zabv1.Message, m peer.Message) bool {
	switch m := m.(type) {
	case *zab.LearnerInfo:
		out.Kind = &zabv1.Message_LearnerInfo{LearnerInfo: &zabv1.LearnerInfo{
			Ensemble: uint64(m.Ensemble), Instance: uint64(m.Instance), Observer: m.Observer, Transaction: m.Transaction,
			Accepted: uint32(m.Accepted), ConfigSum: m.ConfigSum, Version: m.Version,
		}}
	case *zab.LeaderInfo:
		out.Kind = &zabv1.Message_LeaderInfo{LeaderInfo: &zabv1.LeaderInfo{Epoch: uint32(m.Epoch), Ensemble: uint64(m.Ensemble)}}
	case *zab.AckEpoch:
		out.Kind = &zabv1.Message_AckEpoch{AckEpoch: &zabv1.AckEpoch{
			Ensemble: uint64(m.Ensemble), Epoch: uint32(m.Epoch), Counts: m.Counts, Current: uint32(m.Current),
			Last: uint64(m.Last), Delivered: uint64(m.Delivered), Base: uint64(m.Base), NeedSnap: m.NeedSnap,
			Epochs: encodeEpochs(m.Epochs),
		}}
	case *zab.SyncBegin:
		out.Kind = &zabv1.Message_SyncBegin{SyncBegin: &zabv1.SyncBegin{
			Epoch: uint32(m.Epoch), Mode: zabv1.SyncMode(m.Mode), TruncateTo: uint64(m.TruncateTo),
			Snapshot: uint64(m.Snapshot), Epochs: encodeEpochs(m.Epochs), Base: uint64(m.Base),
		}}
	case *zab.NewLeader:
		out.Kind = &zabv1.Message_NewLeader{NewLeader: &zabv1.NewLeader{
			Epoch: uint32(m.Epoch), HistoryEnd: uint64(m.HistoryEnd), Epochs: encodeEpochs(m.Epochs), Ensemble: uint64(m.Ensemble),
		}}
	case *zab.AckNewLeader:
		out.Kind = &zabv1.Message_AckNewLeader{AckNewLeader: &zabv1.AckNewLeader{Epoch: uint32(m.Epoch), HistoryEnd: uint64(m.HistoryEnd)}}
	case *zab.UpToDate:
		out.Kind = &zabv1.Message_UpToDate{UpToDate: &zabv1.UpToDate{Epoch: uint32(m.Epoch), Committed: uint64(m.Committed)}}
	case *zab.TimeoutNow:
		out.Kind = &zabv1.Message_TimeoutNow{TimeoutNow: &zabv1.TimeoutNow{Epoch: uint32(m.Epoch), Last: uint64(m.Last)}}
	case *zab.Goodbye:
		out.Kind = &zabv1.Message_Goodbye{Goodbye: &zabv1.Goodbye{
			Epoch: uint32(m.Epoch), Reason: text(string(m.Reason)), Last: uint64(m.Last), Successor: uint64(m.Successor),
		}}
	case *zab.Refuse:
		out.Kind = &zabv1.Message_Refuse{Refuse: &zabv1.Refuse{Reason: text(string(m.Reason)), Detail: text(m.Detail)}}
	default:
		return false
	}
	return true
}

// encodeRare does reads, sessions and their owners.
func encodeRare(out *zabv1.Message, m peer.Message) bool {
	switch m := m.(type) {
	case *zab.SyncRequest:
		out.Kind = &zabv1.Message_SyncRequest{SyncRequest: &zabv1.SyncRequest{Epoch: uint32(m.Epoch), Id: m.ID}}
	case *zab.SyncReply:
		out.Kind = &zabv1.Message_SyncReply{SyncReply: &zabv1.SyncReply{Epoch: uint32(m.Epoch), Id: m.ID, Index: uint64(m.Index)}}
	case *peer.ForwardReject:
		out.Kind = &zabv1.Message_ForwardReject{ForwardReject: &zabv1.ForwardReject{
			Origin: encodeOrigin(m.Origin), Reason: zabv1.RejectReason_REJECT_REASON_MOVED,
		}}
	case *peer.HandOverMark:
		out.Kind = &zabv1.Message_HandOverMark{HandOverMark: &zabv1.HandOverMark{LastSeq: m.LastSeq}}
	case *peer.Revalidate:
		out.Kind = &zabv1.Message_Revalidate{Revalidate: &zabv1.Revalidate{
			Id: m.ID, Session: m.Session, Password: m.Password, TimeoutMs: m.Timeout, Origin: encodeOrigin(m.Origin), Again: m.Again,
		}}
	case *peer.RevalidateResult:
		out.Kind = &zabv1.Message_RevalidateResult{RevalidateResult: &zabv1.RevalidateResult{
			Id: m.ID, Valid: m.Valid, TimeoutMs: m.Timeout, Ticket: encodeTicket(m.Ticket),
		}}
	case *peer.Tickets:
		t := &zabv1.Tickets{Owners: make([]*zabv1.Owner, len(m.Owners))}
		for i, o := range m.Owners {
			t.Owners[i] = &zabv1.Owner{Session: o.Session, TimeoutMs: o.Timeout, Origin: encodeOrigin(o.Origin), Ticket: encodeTicket(o.Ticket)}
		}
		out.Kind = &zabv1.Message_Tickets{Tickets: t}
	case *peer.Evict:
		out.Kind = &zabv1.Message_Evict{Evict: &zabv1.Evict{Session: m.Session, Below: encodeTicket(m.Below)}}
	default:
		return false
	}
	return true
}

func encodeNotification(n *election.Notification) *zabv1.Notification {
	return &zabv1.Notification{
		Ensemble: uint64(n.Ensemble), Transaction: n.Transaction, Round: n.Round,
		Vote:              &zabv1.Vote{Leader: uint64(n.Vote.Leader), Zxid: uint64(n.Vote.Zxid), PeerEpoch: uint32(n.Vote.PeerEpoch)},
		State:             zabv1.Role(n.State) + zabv1.Role_ROLE_LOOKING,
		EstablishedLeader: uint64(n.Established.Leader), EstablishedEpoch: uint32(n.Established.Epoch),
		ConfigSum: n.ConfigSum,
	}
}

func encodeAppend(m *zab.Append) *zabv1.Append {
	a := &zabv1.Append{Epoch: uint32(m.Epoch), Prev: uint64(m.Prev), Committed: uint64(m.Committed)}
	if len(m.Entries) > 0 {
		all := make([]zabv1.Entry, len(m.Entries))
		a.Entries = make([]*zabv1.Entry, len(m.Entries))
		for i := range m.Entries {
			all[i].Zxid, all[i].Data = uint64(m.Entries[i].Zxid), m.Entries[i].Data
			a.Entries[i] = &all[i]
		}
	}
	return a
}

func encodeTouches(m *peer.Touches) *zabv1.Touches {
	all := make([]zabv1.Touch, len(m.Sessions))
	t := &zabv1.Touches{Sessions: make([]*zabv1.Touch, len(m.Sessions))}
	for i, s := range m.Sessions {
		all[i].Session, all[i].TimeoutMs = s.Session, s.Timeout
		t.Sessions[i] = &all[i]
	}
	return t
}

func encodeEpochs(es []zab.EpochEnd) []*zabv1.EpochEnd {
	out := make([]*zabv1.EpochEnd, len(es))
	for i, e := range es {
		out[i] = &zabv1.EpochEnd{Epoch: uint32(e.Epoch), Last: uint64(e.Last)}
	}
	return out
}

func encodeOrigin(o peer.Origin) *zabv1.Origin {
	return &zabv1.Origin{Server: uint64(o.Server), Instance: uint64(o.Instance), Conn: o.Conn, Seq: o.Seq}
}

func encodeTicket(t peer.Ticket) *zabv1.Ticket {
	return &zabv1.Ticket{Epoch: uint32(t.Epoch), Number: t.Number}
}

// text is what a protobuf string may hold.
func text(s string) string { return strings.ToValidUTF8(s, "?") }

// size is about what a message takes on the wire and in the queue.
func size(m peer.Message) int {
	n := 64
	switch m := m.(type) {
	case *zab.Append:
		for i := range m.Entries {
			n += len(m.Entries[i].Data) + 32
		}
	case *zab.AckEpoch:
		n += 16 * len(m.Epochs)
	case *zab.SyncBegin:
		n += 16 * len(m.Epochs)
	case *zab.NewLeader:
		n += 16 * len(m.Epochs)
	case *peer.Forward:
		n += len(m.Request)
	case *peer.Touches:
		n += 20 * len(m.Sessions)
	case *peer.Tickets:
		n += 64 * len(m.Owners)
	}
	return n
}
