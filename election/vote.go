package election

import "github.com/zkserver/zkserver/zab"

// maxRound bounds what a peer may make this server count from; no honest round comes near it.
const maxRound = 1 << 62

// less is the order of candidates: epoch, then zxid, then server id. Two candidates never tie.
func (v Vote) less(o Vote) bool {
	if v.PeerEpoch != o.PeerEpoch {
		return v.PeerEpoch < o.PeerEpoch
	}
	if v.Zxid != o.Zxid {
		return v.Zxid < o.Zxid
	}
	return v.Leader < o.Leader
}

// none reports an empty vote: observers, servers with damaged state and voters of weight zero begin with it.
func (v Vote) none() bool { return v.Leader == 0 }

// settled reports that the sender serves, or is served, in an established epoch.
func (n *Notification) settled() bool {
	return n.State != zab.Looking && n.Established.Leader != 0
}

// leader is whom the notification names.
func (n *Notification) leader() zab.ServerID {
	if n.settled() {
		return n.Established.Leader
	}
	return n.Vote.Leader
}

// foundable reports that nothing would be lost with the sender's identity: no transaction of it exists here.
func (n *Notification) foundable() bool { return n.Ensemble == 0 || !n.Transaction }

// sameEnsemble: no two different identities.
func sameEnsemble(a, b zab.ID) bool { return a == b || a == 0 || b == 0 }
