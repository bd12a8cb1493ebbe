package replica

import (
	"slices"
	"time"

	"github.com/zkserver/zkserver/election"
	"github.com/zkserver/zkserver/server/peer"
	"github.com/zkserver/zkserver/zab"
)

// maxHeldBytes bounds the undelivered entries held in memory; beyond it durable ones are read again from the log.
const maxHeldBytes = 64 << 20

// maxFlyingBytes bounds what the applier has been handed and has not applied; one transaction may overshoot.
const maxFlyingBytes = 16 << 20

// maxLookShift bounds the pause between elections: one quantum doubled so often (80 ms).
const maxLookShift = 3

// stepCore feeds the zab core. Requests prepared before are proposed first, so that the core sees everything in the
// order in which it happened. What comes of it is absorbed once for all inputs of a run, in Ready.
func (m *Machine) stepCore(in zab.Input) {
	if m.lead != nil && len(m.lead.batch) > 0 {
		m.lead.propose()
	}
	m.core.Step(in)
}

// absorb takes the core's batches until it has none.
func (m *Machine) absorb() {
	for {
		b, ok := m.core.Ready()
		m.lease = b.Lease
		if !ok {
			return
		}
		if b.Gen != m.gen {
			m.gen, m.gates = b.Gen, nil
		}
		for i := range b.Persist {
			m.persist(&b.Persist[i])
		}
		m.eff.Persist = joined(m.eff.Persist, b.Persist)
		m.eff.Send = slices.Grow(m.eff.Send, len(b.Send))
		for _, o := range b.Send {
			m.send(o.Link, o.Msg)
		}
		for _, g := range b.SendWhen {
			if g.Seq <= m.durable {
				m.send(g.Link, g.Msg)
			} else {
				m.gates = append(m.gates, gate{gen: b.Gen, Gated: g})
			}
		}
		if b.Deliver != 0 {
			m.deliver(b.Deliver)
		}
		m.eff.Reads = joined(m.eff.Reads, b.Reads)
		for _, ev := range b.Events {
			m.event(ev)
		}
	}
}

// persist notes what an op will make of the log.
func (m *Machine) persist(op *zab.PersistOp) {
	if op.Install != nil {
		// Their watches cannot be told what the snapshot skips (interleavings 7).
		m.closeAll(reasonSnapshot)
		m.installed(op.Install)
		if m.arrived == op.Install.Dir {
			m.arrived = ""
		}
		m.eff.Drop = slices.DeleteFunc(m.eff.Drop, func(dir string) bool { return dir == op.Install.Dir })
	}
	if op.Truncate != nil {
		m.truncate(*op.Truncate)
	}
	if n := len(op.Append); n > 0 {
		if len(m.log) == 0 {
			m.logAfter = m.last
		}
		m.log = append(m.log, op.Append...)
		for i := range op.Append {
			m.heldBytes += len(op.Append[i].Data)
		}
		m.last = op.Append[n-1].Zxid
		m.appended = append(m.appended, appended{seq: op.Seq, last: m.last})
		m.release()
	}
}

// joined is a with b behind it; where there is no a, b itself.
func joined[T any](a, b []T) []T {
	if len(a) == 0 {
		return b
	}
	return append(a, b...)
}

func (m *Machine) truncate(to zab.Zxid) {
	n := len(m.log)
	for n > 0 && m.log[n-1].Zxid > to {
		n--
		m.heldBytes -= len(m.log[n].Data)
	}
	m.log = m.log[:n:n]
	m.last = to
	m.logAfter = min(m.logAfter, to)
	m.durableLast = min(m.durableLast, to)
	for i := range m.appended {
		m.appended[i].last = min(m.appended[i].last, to)
	}
}

// drop forgets the first n held entries.
func (m *Machine) drop(n int) {
	for i := range m.log[:n] {
		m.heldBytes -= len(m.log[i].Data)
	}
	m.log = m.log[n:]
}

// release keeps the memory of undelivered entries bounded (I13): what is durable can be read again from the log.
func (m *Machine) release() {
	n, size := 0, m.heldBytes
	for size > maxHeldBytes && n < len(m.log) && m.log[n].Zxid <= m.durableLast {
		size -= len(m.log[n].Data)
		n++
	}
	if n > 0 {
		m.logAfter = m.log[n-1].Zxid
		m.drop(n)
	}
}

func (m *Machine) installed(in *zab.Install) {
	if in.Common < m.last {
		m.truncate(max(in.Common, in.Zxid))
	}
	n := 0
	for n < len(m.log) && m.log[n].Zxid <= in.Zxid {
		n++
	}
	m.drop(n)
	m.last = max(m.last, in.Zxid)
	m.logAfter = max(m.logAfter, in.Zxid)
	m.delivered = max(m.delivered, in.Zxid)
	m.committed = max(m.committed, in.Zxid)
}

// deliver notes what is committed and hands it over, each transaction once.
func (m *Machine) deliver(upto zab.Zxid) {
	m.committed = max(m.committed, upto)
	m.handOut()
}

// handOut gives the applier what is committed, no more at a time than it may have in memory (I13). The rest follows as
// it applies; what is no longer held in memory by then is read from the log.
func (m *Machine) handOut() {
	for m.delivered < m.committed && m.flyingBytes < maxFlyingBytes {
		upto, n, size := m.committed, 0, 0
		held := max(m.logAfter, m.delivered)
		if held > m.delivered {
			upto = min(upto, held) // read by the applier, piece by piece
		} else {
			for n < len(m.log) && m.log[n].Zxid <= m.committed && size < maxFlyingBytes {
				size += len(m.log[n].Data)
				n++
			}
			upto = min(upto, m.log[n-1].Zxid)
		}
		d := &m.eff.Deliver
		if d.Upto == 0 {
			d.After, d.Held = m.delivered, m.delivered
		}
		if held > m.delivered {
			d.Held = upto
		}
		if len(d.Entries) == 0 {
			d.Entries = m.log[:n:n]
		} else {
			d.Entries = append(d.Entries, m.log[:n]...)
		}
		d.Upto = upto
		m.flying = append(m.flying, flight{upto, size})
		m.flyingBytes += size
		m.counts.Commits += uint64(n)
		m.drop(n)
		m.delivered = upto
		m.logAfter = max(m.logAfter, upto)
	}
}

// landed hears what the applier has applied.
func (m *Machine) landed(z zab.Zxid) {
	n := 0
	for n < len(m.flying) && m.flying[n].upto <= z {
		m.flyingBytes -= m.flying[n].bytes
		n++
	}
	m.flying = m.flying[n:]
	m.handOut()
}

func (m *Machine) persisted(in Persisted) {
	m.durable = max(m.durable, in.Seq)
	n := 0
	for n < len(m.appended) && m.appended[n].seq <= m.durable {
		m.durableLast = m.appended[n].last
		n++
	}
	m.appended = m.appended[n:]
	keep := m.gates[:0]
	for _, g := range m.gates {
		switch {
		case g.gen != m.gen:
		case g.Seq <= m.durable:
			m.send(g.Link, g.Msg)
		default:
			keep = append(keep, g)
		}
	}
	m.gates = keep
	m.stepCore(zab.Persisted{Seq: in.Seq, Gen: in.Gen})
}

// send puts a message on its way, with what must go before it on that link.
func (m *Machine) send(l zab.Link, msg peer.Message) {
	switch msg := msg.(type) {
	case *zab.AckNewLeader:
		m.declare(l)
	case *zab.Pong:
		m.beforePong(l)
	case *zab.TimeoutNow:
		m.handBack(l)
	case *zab.Goodbye:
		if msg.Reason == zab.ReasonHandOver {
			m.handBack(l)
		}
	}
	m.eff.Send = append(m.eff.Send, Outbound{l, msg})
}

// handBack names the last request taken from a link, before the word that ends the leadership: what is above it was
// never prepared, and what is not, is committed (interleavings 9).
func (m *Machine) handBack(l zab.Link) {
	if m.lead != nil {
		m.eff.Send = append(m.eff.Send, Outbound{l, &peer.HandOverMark{LastSeq: m.lead.taken[l]}})
	}
}

// event takes what the zab core reports.
func (m *Machine) event(ev zab.Event) {
	switch ev := ev.(type) {
	case zab.RoleChanged:
		m.eff.Notices = append(m.eff.Notices, ev)
		m.roleChanged(ev)
	case zab.Serving:
		m.eff.Notices = append(m.eff.Notices, ev)
		m.served(ev)
	case zab.SyncDone:
		m.syncDone(ev)
	case zab.NeedSnapshot, zab.CancelSnapshot:
		m.eff.Snapshots = append(m.eff.Snapshots, ev)
	case zab.StreamSnapshot:
		m.counts.SnapSyncs++
		m.eff.Snapshots = append(m.eff.Snapshots, ev)
	case zab.CutLink:
		m.eff.Cut = append(m.eff.Cut, ev)
	case zab.Campaign:
		m.campaign = true
	case zab.HandOverGivenUp:
		m.eff.Notices = append(m.eff.Notices, ev)
		if m.lead != nil {
			m.lead.handing = false
		}
		if m.leaving.asked {
			m.leaveSoon()
		}
	case zab.HandedOver:
		m.eff.Notices = append(m.eff.Notices, ev)
		if m.leaving.asked {
			m.leaveSoon()
		}
	case zab.Fatal:
		m.eff.Fatal = &ev
	default: // Alarm
		m.eff.Notices = append(m.eff.Notices, ev)
	}
}

// roleChanged begins a new generation: what the old one owed is settled.
func (m *Machine) roleChanged(ev zab.RoleChanged) {
	if ev.Role == m.role && ev.Role != zab.Looking && ev.Leader == m.leader {
		m.epoch = ev.Epoch    // it became known
		m.learner = learner{} // it may be the next one of a leader that has handed over to itself
		return
	}
	m.abandonAt = 0
	m.dropArrived()
	m.settle()
	m.setServing(false)
	if m.leaving.asked && !m.leaving.on && m.lead != nil {
		m.leaveSoon() // the leadership ended before it was handed over
	}
	m.lead = nil
	m.learner = learner{}
	m.role, m.leader, m.epoch = ev.Role, ev.Leader, ev.Epoch
	switch ev.Role {
	case zab.Looking:
		m.wantLook = true
		if !m.core.BarrierPassed() || m.stuck {
			m.stepElection(election.Resigned{})
		}
		if ev.Reason == zab.ReasonHandOver {
			m.successor, m.leader = ev.Leader, 0
			m.campaign = m.campaign || ev.Leader == m.boot.Zab.Self
		}
	case zab.Leading:
		m.lead = newLeadership(m)
		m.stepElection(election.Chosen{Role: ev.Role})
	default:
		m.stepElection(election.Chosen{Role: ev.Role})
	}
}

// served follows the zab core's word on whether clients may be served.
func (m *Machine) served(ev zab.Serving) {
	if ev.Epoch != 0 {
		m.epoch = ev.Epoch
	}
	m.setServing(ev.On)
	if !ev.On {
		return
	}
	m.stepElection(election.Settled{
		Role: m.role, Leader: m.leader, Epoch: m.epoch, Ensemble: m.core.Ensemble(),
	})
}

func (m *Machine) setServing(on bool) {
	if m.serving && !on {
		m.idleSince = m.now
	}
	if on && !m.serving {
		m.counts.outage(m.now - m.idleSince)
	}
	m.serving = on
	if on {
		m.looks, m.lookAt = 0, 0
		m.refusing = false
	}
}

// look starts an election once everything that was issued to the disk is durable (interleavings 3). The first one is
// held at once; where servers hear different things of each other roles may be chosen and left again without end, so
// those that follow without any service between them wait a little, and a little longer.
func (m *Machine) look() bool {
	if !m.wantLook || m.stuck || !m.core.BarrierPassed() || m.leaving.on || m.now < m.lookAt {
		return false
	}
	m.wantLook = false
	m.lookAt = m.now + zab.QuantumLength<<min(m.looks, maxLookShift)
	m.looks++
	m.counts.Looking++
	in := election.Look{
		Last: m.core.LastLogged(), Current: m.core.Hard().Current, Ensemble: m.core.Ensemble(),
		Transaction: m.core.HasTransaction(), NeedSnap: m.core.NeedSnap(), Campaign: m.campaign, Successor: m.successor,
	}
	m.campaign, m.successor = false, 0
	m.stepElection(in)
	return true
}

func (m *Machine) stepElection(in election.Input) {
	m.elect.Step(in)
	for {
		b, ok := m.elect.Ready()
		if !ok {
			return
		}
		for _, o := range b.Send {
			if l, up := m.links[o.To]; up {
				n := o.N
				m.eff.Send = append(m.eff.Send, Outbound{l, &n})
			}
		}
		for _, r := range b.Refused {
			m.eff.Notices = append(m.eff.Notices, r)
		}
		if b.Decided != nil {
			m.stepCore(zab.Elected{Leader: b.Decided.Leader})
		}
		if b.Abandon != "" {
			m.abandon(b.Abandon)
		}
	}
}

// snapshotArrived keeps a complete snapshot until it is installed. Its link may have ended while the disk was at it, and
// with the link the role that asked for it.
func (m *Machine) snapshotArrived(s zab.SnapshotReceived) {
	m.dropArrived()
	m.arrived = s.Dir
	if m.links[m.leader] != s.Link {
		m.dropArrived()
	}
}

// dropArrived gives up a received snapshot that was not installed: another one is here, or the role that asked for it is
// over. It takes as much of the disk as the tree.
func (m *Machine) dropArrived() {
	if m.arrived != "" {
		m.eff.Drop = append(m.eff.Drop, m.arrived)
		m.arrived = ""
	}
}

// goodbyeWait is how long a superseded learner waits for its leader's Goodbye.
const goodbyeWait = 100 * time.Millisecond

// abandon ends the role for the election's reason. News of a later epoch come by another link than the HandOverMark and
// the Goodbye of a leader that hands over, and may overtake them; without those the fate of this server's forwarded
// writes is unknown. So a learner whose leader's link is up gives them a moment.
func (m *Machine) abandon(why zab.Reason) {
	_, up := m.links[m.leader]
	if why != zab.ReasonSupersededEpoch || m.lead != nil || !up {
		m.stepCore(zab.StepDown{Reason: why})
	} else if m.abandonAt == 0 {
		m.abandonAt = m.now + goodbyeWait
	}
}
