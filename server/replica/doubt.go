package replica

import (
	"github.com/zkserver/zkserver/server/peer"
	"github.com/zkserver/zkserver/zab"
)

// doubts are the questions about sessions that the leader does not know. "Over" may be said only by who still leads: a
// leader that has not noticed yet that there is another one does not know the sessions that were made since (I10). So
// each waits for a round of the quorum, as a sync does, and is looked at again. By the number of their rounds.
type doubts map[uint64]doubt

// doubt is one question: of a link, or of a connection of this server's own.
type doubt struct {
	link zab.Link
	msg  *peer.Revalidate // nil: own
	own  uint64           // the sequence number of an attach
}

// doubtful marks the numbers of these rounds among those of the clients' syncs.
const doubtful = 1 << 63

func (l *leadership) doubt(d doubt) {
	l.m.doubted++
	id := doubtful | l.m.doubted
	l.doubts[id] = d
	l.m.stepCore(zab.SyncRead{ID: id})
}

// doubtOver answers a question: the quorum has confirmed, since it came, that this server leads. When the leadership is
// lost, the next leader is asked, as about everything else.
func (m *Machine) doubtOver(ev zab.SyncDone) {
	if ev.Lost || m.lead == nil {
		return
	}
	l := m.lead
	d, ok := l.doubts[ev.ID]
	delete(l.doubts, ev.ID)
	switch {
	case !ok:
	case d.msg == nil:
		if a := m.attaches[d.own]; a != nil {
			l.answerOwn(a.in)
		}
	case m.links[d.link.Peer] == d.link:
		l.answer(d.link, d.msg)
	}
}
