package transport

import (
	"fmt"

	"github.com/zkserver/zkserver/election"
	zabv1 "github.com/zkserver/zkserver/proto/zab/v1"
	"github.com/zkserver/zkserver/server/peer"
	"github.com/zkserver/zkserver/zab"
)

// maxServerID is the largest N of server.N.
const maxServerID = 254

// decoder turns wire forms into values and remembers the first thing that cannot be. The values keep the byte slices
// of the wire form, which nobody else has.
type decoder struct{ what string }

func (d *decoder) fail(format string, args ...any) {
	if d.what == "" {
		d.what = fmt.Sprintf(format, args...)
	}
}

// decode is total: whatever a peer sends becomes a message or a *MessageError.
func decode(in *zabv1.Message) (peer.Message, error) {
	d := &decoder{}
	m := d.message(in)
	if m == nil {
		return nil, &MessageError{Kind: "message", What: "of an unknown kind"}
	}
	if d.what != "" {
		return nil, &MessageError{Kind: fmt.Sprintf("%T", m), What: d.what}
	}
	return m, nil
}

func (d *decoder) message(in *zabv1.Message) peer.Message {
	switch k := in.GetKind().(type) {
	case *zabv1.Message_Notification:
		return d.notification(k.Notification)
	case *zabv1.Message_Append:
		return d.append(k.Append)
	case *zabv1.Message_Ack:
		return &zab.Ack{Epoch: d.epoch(k.Ack.GetEpoch()), Durable: zab.Zxid(k.Ack.GetDurable())}
	case *zabv1.Message_Commit:
		return &zab.Commit{Epoch: d.epoch(k.Commit.GetEpoch()), Zxid: zab.Zxid(k.Commit.GetZxid())}
	case *zabv1.Message_Ping:
		p := k.Ping
		return &zab.Ping{
			Epoch: d.epoch(p.GetEpoch()), Seq: p.GetSeq(), Committed: zab.Zxid(p.GetCommitted()),
			HasQuorum: p.GetHasQuorum(), PongSeen: p.GetPongSeen(),
		}
	case *zabv1.Message_Pong:
		p := k.Pong
		return &zab.Pong{
			Epoch: d.epoch(p.GetEpoch()), Seq: p.GetSeq(), PongSeq: p.GetPongSeq(), Durable: zab.Zxid(p.GetDurable()),
			Applied: zab.Zxid(p.GetApplied()), Current: d.epoch(p.GetCurrent()),
		}
	case *zabv1.Message_Forward:
		f := k.Forward
		return &peer.Forward{Origin: d.origin(f.GetOrigin()), Ticket: d.ticket(f.GetTicket()), Request: f.GetRequest()}
	case *zabv1.Message_Touches:
		return d.touches(k.Touches)
	default:
		if m := d.discovery(in); m != nil {
			return m
		}
		return d.rare(in)
	}
}

func (d *decoder) discovery(in *zabv1.Message) peer.Message {
	switch k := in.GetKind().(type) {
	case *zabv1.Message_LearnerInfo:
		l := k.LearnerInfo
		return &zab.LearnerInfo{
			Ensemble: zab.ID(l.GetEnsemble()), Instance: zab.ID(l.GetInstance()), Observer: l.GetObserver(),
			Transaction: l.GetTransaction(), Accepted: d.epoch(l.GetAccepted()), ConfigSum: l.GetConfigSum(), Version: l.GetVersion(),
		}
	case *zabv1.Message_LeaderInfo:
		return &zab.LeaderInfo{Epoch: d.epoch(k.LeaderInfo.GetEpoch()), Ensemble: zab.ID(k.LeaderInfo.GetEnsemble())}
	case *zabv1.Message_AckEpoch:
		a := k.AckEpoch
		return &zab.AckEpoch{
			Ensemble: zab.ID(a.GetEnsemble()), Epoch: d.epoch(a.GetEpoch()), Counts: a.GetCounts(), Current: d.epoch(a.GetCurrent()),
			Last: zab.Zxid(a.GetLast()), Delivered: zab.Zxid(a.GetDelivered()), Base: zab.Zxid(a.GetBase()),
			NeedSnap: a.GetNeedSnap(), Epochs: d.epochs(a.GetEpochs()),
		}
	case *zabv1.Message_SyncBegin:
		s := k.SyncBegin
		if s.GetMode() < zabv1.SyncMode_SYNC_MODE_DIFF || s.GetMode() > zabv1.SyncMode_SYNC_MODE_SNAP {
			d.fail("mode %d", s.GetMode())
		}
		return &zab.SyncBegin{
			Epoch: d.epoch(s.GetEpoch()), Mode: zab.SyncMode(s.GetMode()), TruncateTo: zab.Zxid(s.GetTruncateTo()),
			Snapshot: zab.Zxid(s.GetSnapshot()), Epochs: d.epochs(s.GetEpochs()), Base: zab.Zxid(s.GetBase()),
		}
	case *zabv1.Message_NewLeader:
		n := k.NewLeader
		return &zab.NewLeader{
			Epoch: d.epoch(n.GetEpoch()), HistoryEnd: zab.Zxid(n.GetHistoryEnd()), Epochs: d.epochs(n.GetEpochs()),
			Ensemble: zab.ID(n.GetEnsemble()),
		}
	case *zabv1.Message_AckNewLeader:
		return &zab.AckNewLeader{Epoch: d.epoch(k.AckNewLeader.GetEpoch()), HistoryEnd: zab.Zxid(k.AckNewLeader.GetHistoryEnd())}
	case *zabv1.Message_UpToDate:
		return &zab.UpToDate{Epoch: d.epoch(k.UpToDate.GetEpoch()), Committed: zab.Zxid(k.UpToDate.GetCommitted())}
	case *zabv1.Message_TimeoutNow:
		return &zab.TimeoutNow{Epoch: d.epoch(k.TimeoutNow.GetEpoch()), Last: zab.Zxid(k.TimeoutNow.GetLast())}
	case *zabv1.Message_Goodbye:
		g := k.Goodbye
		return &zab.Goodbye{
			Epoch: d.epoch(g.GetEpoch()), Reason: zab.Reason(g.GetReason()), Last: zab.Zxid(g.GetLast()),
			Successor: d.server(g.GetSuccessor()),
		}
	case *zabv1.Message_Refuse:
		return &zab.Refuse{Reason: zab.Reason(k.Refuse.GetReason()), Detail: k.Refuse.GetDetail()}
	default:
		return nil
	}
}

func (d *decoder) rare(in *zabv1.Message) peer.Message {
	switch k := in.GetKind().(type) {
	case *zabv1.Message_SyncRequest:
		return &zab.SyncRequest{Epoch: d.epoch(k.SyncRequest.GetEpoch()), ID: k.SyncRequest.GetId()}
	case *zabv1.Message_SyncReply:
		s := k.SyncReply
		return &zab.SyncReply{Epoch: d.epoch(s.GetEpoch()), ID: s.GetId(), Index: zab.Zxid(s.GetIndex())}
	case *zabv1.Message_ForwardReject:
		if r := k.ForwardReject.GetReason(); r != zabv1.RejectReason_REJECT_REASON_MOVED { // nobody gives another
			d.fail("reason %d", r)
		}
		return &peer.ForwardReject{Origin: d.origin(k.ForwardReject.GetOrigin())}
	case *zabv1.Message_HandOverMark:
		return &peer.HandOverMark{LastSeq: k.HandOverMark.GetLastSeq()}
	case *zabv1.Message_Revalidate:
		r := k.Revalidate
		return &peer.Revalidate{
			ID: r.GetId(), Session: r.GetSession(), Password: r.GetPassword(), Timeout: d.timeout(r.GetTimeoutMs()),
			Origin: d.origin(r.GetOrigin()), Again: r.GetAgain(),
		}
	case *zabv1.Message_RevalidateResult:
		r := k.RevalidateResult
		return &peer.RevalidateResult{
			ID: r.GetId(), Valid: r.GetValid(), Timeout: d.timeout(r.GetTimeoutMs()), Ticket: d.ticket(r.GetTicket()),
		}
	case *zabv1.Message_Tickets:
		t := &peer.Tickets{Owners: make([]peer.Owner, len(k.Tickets.GetOwners()))}
		for i, o := range k.Tickets.GetOwners() {
			t.Owners[i] = peer.Owner{
				Session: o.GetSession(), Timeout: d.timeout(o.GetTimeoutMs()), Origin: d.origin(o.GetOrigin()), Ticket: d.ticket(o.GetTicket()),
			}
		}
		return t
	case *zabv1.Message_Evict:
		return &peer.Evict{Session: k.Evict.GetSession(), Below: d.ticket(k.Evict.GetBelow())}
	default:
		return nil
	}
}

func (d *decoder) notification(n *zabv1.Notification) *election.Notification {
	if n.GetState() < zabv1.Role_ROLE_LOOKING || n.GetState() > zabv1.Role_ROLE_OBSERVING {
		d.fail("state %d", n.GetState())
		return &election.Notification{}
	}
	v := n.GetVote()
	return &election.Notification{
		Ensemble: zab.ID(n.GetEnsemble()), Transaction: n.GetTransaction(), Round: n.GetRound(),
		Vote:  election.Vote{Leader: d.server(v.GetLeader()), Zxid: zab.Zxid(v.GetZxid()), PeerEpoch: d.epoch(v.GetPeerEpoch())},
		State: zab.Role(n.GetState() - zabv1.Role_ROLE_LOOKING),
		Established: election.Established{
			Leader: d.server(n.GetEstablishedLeader()), Epoch: d.epoch(n.GetEstablishedEpoch()),
		},
		ConfigSum: n.GetConfigSum(),
	}
}

func (d *decoder) append(a *zabv1.Append) *zab.Append {
	m := &zab.Append{Epoch: d.epoch(a.GetEpoch()), Prev: zab.Zxid(a.GetPrev()), Committed: zab.Zxid(a.GetCommitted())}
	if n := len(a.GetEntries()); n > 0 {
		m.Entries = make([]zab.Entry, n)
		for i, e := range a.GetEntries() {
			m.Entries[i] = zab.Entry{Zxid: zab.Zxid(e.GetZxid()), Data: e.GetData()}
		}
	}
	return m
}

func (d *decoder) touches(t *zabv1.Touches) *peer.Touches {
	m := &peer.Touches{Sessions: make([]peer.Touch, len(t.GetSessions()))}
	for i, s := range t.GetSessions() {
		m.Sessions[i] = peer.Touch{Session: s.GetSession(), Timeout: d.timeout(s.GetTimeoutMs())}
	}
	return m
}

func (d *decoder) epoch(e uint32) zab.Epoch {
	if zab.Epoch(e) > zab.MaxEpoch {
		d.fail("epoch %d", e)
	}
	return zab.Epoch(e)
}

func (d *decoder) epochs(es []*zabv1.EpochEnd) []zab.EpochEnd {
	if len(es) == 0 {
		return nil
	}
	out := make([]zab.EpochEnd, len(es))
	for i, e := range es {
		out[i] = zab.EpochEnd{Epoch: d.epoch(e.GetEpoch()), Last: zab.Zxid(e.GetLast())}
	}
	return out
}

func (d *decoder) server(id uint64) zab.ServerID {
	if id > maxServerID {
		d.fail("server id %d", id)
	}
	return zab.ServerID(id)
}

func (d *decoder) timeout(ms int32) int32 {
	if ms < 0 {
		d.fail("timeout %d ms", ms)
	}
	return ms
}

func (d *decoder) origin(o *zabv1.Origin) peer.Origin {
	return peer.Origin{Server: d.server(o.GetServer()), Instance: zab.ID(o.GetInstance()), Conn: o.GetConn(), Seq: o.GetSeq()}
}

func (d *decoder) ticket(t *zabv1.Ticket) peer.Ticket {
	return peer.Ticket{Epoch: d.epoch(t.GetEpoch()), Number: t.GetNumber()}
}
