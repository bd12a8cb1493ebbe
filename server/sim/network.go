package sim

import (
	"slices"
	"time"

	"github.com/zkserver/zkserver/election"
	"github.com/zkserver/zkserver/server/peer"
	"github.com/zkserver/zkserver/server/replica"
	"github.com/zkserver/zkserver/server/sim/check"
	"github.com/zkserver/zkserver/zab"
)

// pair is what lies between two servers: a link, when there is one, with a direction each way. A link never loses or
// reorders anything but a suffix, when it breaks; each side hears of that in its own time.
type pair struct {
	w       *World
	index   int
	end     [2]int // servers, a < b
	rnd     rng
	inc     uint64 // of the newest link
	up      bool   // it works; what the sides know comes by their directions
	since   int64
	dir     [2]direction // dir[k] leads to end[k]
	backoff int64
	dialing bool
}

// direction is what travels to one end.
type direction struct {
	queue   []parcel
	blocked int64 // until
	slow    int64 // until when it is slow
	lag     int64
	pending bool     // an evNet is on the agenda
	past    []parcel // the last messages that have arrived
	late    []parcel // of old links, which their readers have not handed over yet
}

// parcel is what arrives together: messages, or news of the link itself.
type parcel struct {
	at   int64
	inc  uint64
	gen  uint32 // of the receiving process
	news news
	msgs []peer.Message
}

type news uint8

const (
	newsNone news = iota
	newsUp
	newsDown
	newsReset // down, and known to be refused or reset
	newsFailed
	newsRefused
)

func newPair(w *World, a, b int) *pair {
	return &pair{w: w, index: len(w.pairs), end: [2]int{a, b}, rnd: stream(w.cfg.Seed, 4000+a, b)}
}

func (p *pair) side(s int) int {
	if p.end[0] == s {
		return 0
	}
	return 1
}

// to is the direction that leads to a server.
func (p *pair) to(s int) *direction { return &p.dir[p.side(s)] }

// put lets a parcel travel to end k. Nothing overtakes.
func (p *pair) put(k int, x parcel) {
	d := &p.dir[k]
	if n := len(d.queue); n > 0 {
		x.at = max(x.at, d.queue[n-1].at)
	}
	d.queue = append(d.queue, x)
	p.schedule(k)
}

func (p *pair) schedule(k int) {
	d := &p.dir[k]
	if d.pending || len(d.queue) == 0 {
		return
	}
	d.pending = true
	at := max(d.queue[0].at, d.blocked, p.w.now)
	p.w.agenda.push(event{at: at, kind: evNet, a: int32(p.index), b: int32(k)})
}

func (w *World) network(e event) {
	p := w.pairs[e.a]
	switch e.kind {
	case evNet:
		p.arrive(int(e.b))
	case evDial:
		p.dialing = false
		p.dial()
	case evSilence:
		p.silent(int(e.b))
	case evLate:
		d := &p.dir[e.b]
		x := d.late[0]
		d.late = d.late[1:]
		if !slices.ContainsFunc(d.queue, func(y parcel) bool { return y.news == newsUp }) { // else its link is not old there
			p.handOver(w.servers[p.end[e.b]], p.end[1-e.b], &x)
		}
	}
}

// arrive hands over what has arrived at end k.
func (p *pair) arrive(k int) {
	w, d := p.w, &p.dir[k]
	d.pending = false
	s := w.servers[p.end[k]]
	if d.blocked > w.now || s.up && s.paused > w.now && len(d.queue) > 4000 {
		p.schedule(k)
		return
	}
	n := 0
	for n < len(d.queue) && d.queue[n].at <= w.now {
		p.handOver(s, p.end[1-k], &d.queue[n])
		n++
	}
	d.queue = slices.Delete(d.queue, 0, n)
	p.schedule(k)
}

// handOver gives a parcel to a server's transport. A paused one finds it when it wakes.
func (p *pair) handOver(s *server, from int, x *parcel) {
	if !s.up || x.gen != s.gen {
		return
	}
	link := zab.Link{Peer: zab.ServerID(from + 1), Incarnation: x.inc}
	switch x.news {
	case newsNone:
		if err := replica.DecodeForwards(x.msgs); err != nil {
			p.w.fail("wire", "server %d: %v", s.i+1, err)
			return
		}
		p.w.note(uint64(len(x.msgs)))
		if d := p.to(s.i); x.inc == p.inc {
			if len(d.past) == 4 {
				d.past = append(d.past[:0], d.past[1:]...)
			}
			d.past = append(d.past, *x)
		}
		for _, m := range x.msgs {
			if b, ok := m.(*zab.SyncBegin); ok && b.Mode == zab.SyncSnap {
				s.snapped[link] = true
			}
		}
		s.push(replica.Received{Link: link, Msgs: x.msgs})
	case newsUp:
		s.logf("link with %d is up", from+1)
		s.push(replica.LinkUp{Link: link, RTT: time.Duration(2 * p.w.cfg.net[0])})
	case newsDown, newsReset:
		s.logf("link with %d is down", from+1)
		s.push(replica.LinkDown{Link: link, Refused: x.news == newsReset})
	case newsFailed, newsRefused:
		s.push(replica.DialFailed{Peer: link.Peer, Refused: x.news == newsRefused})
	}
}

func (p *pair) delay(k int) int64 {
	d := &p.dir[k]
	in := p.rnd.delay(p.w.cfg.net[0], p.w.cfg.net[1])
	if d.slow > p.w.now {
		in += d.lag
	}
	return in
}

// dialSoon makes the sides look for each other at once.
func (p *pair) dialSoon() {
	p.backoff = 0
	p.dialIn(p.rnd.between(0, 2*ms))
}

func (p *pair) dialIn(in int64) {
	if !p.dialing {
		p.dialing = true
		p.w.at(in, event{kind: evDial, a: int32(p.index)})
	}
}

// dial tries to make a link.
func (p *pair) dial() {
	w := p.w
	a, b := w.servers[p.end[0]], w.servers[p.end[1]]
	if p.up || !a.up && !b.up {
		return
	}
	p.backoff = min(max(2*p.backoff, 50*ms), s1)
	switch {
	case a.up != b.up:
		k, alive := 0, a
		if b.up {
			k, alive = 1, b
		}
		if !p.open() {
			p.put(k, parcel{at: w.now + p.rnd.between(500*ms, s1), gen: alive.gen, news: newsFailed})
		} else {
			p.put(k, parcel{at: w.now + p.delay(k), gen: alive.gen, news: newsRefused})
		}
	case !p.open() || a.paused > w.now || b.paused > w.now || !p.akin(a, b):
		for k, s := range []*server{a, b} {
			p.put(k, parcel{at: w.now + p.rnd.between(500*ms, s1), gen: s.gen, news: newsFailed})
		}
	default:
		p.connect()
		return
	}
	p.dialIn(p.backoff)
}

// open: nothing is blocked between the two.
func (p *pair) open() bool { return p.dir[0].blocked <= p.w.now && p.dir[1].blocked <= p.w.now }

// akin: the transport knows strangers by their ensemble, as server.linkEnsemble says.
func (p *pair) akin(a, b *server) bool {
	x, y := a.ensemble(), b.ensemble()
	return x == 0 || y == 0 || x == y
}

func (s *server) ensemble() zab.ID {
	if s.disk.last() == 0 {
		return 0
	}
	return s.disk.ensemble
}

func (p *pair) connect() {
	w := p.w
	w.nextInc++
	p.inc, p.up, p.since, p.backoff = w.nextInc, true, w.now, 0
	for k := range p.dir {
		d, s := &p.dir[k], w.servers[p.end[k]]
		stale := d.past
		for i := range d.queue { // the old link's end is known before the new one is reported
			d.queue[i].at = min(d.queue[i].at, w.now)
			if d.queue[i].news == newsNone && d.queue[i].msgs != nil {
				stale = append(stale, d.queue[i])
			}
		}
		p.put(k, parcel{at: w.now + p.delay(k), inc: p.inc, gen: s.gen, news: newsUp})
		if n := len(stale); n > 0 && p.rnd.n(2) == 0 {
			w.cover.hit("race: message of a replaced link")
			p.lag(k, stale[p.rnd.n(n):])
		}
		d.past = nil
	}
}

// lag hands messages of an old link over behind the news of the new one, some much later: the old one's reader may still
// be at work (R11).
func (p *pair) lag(k int, stale []parcel) {
	d := &p.dir[k]
	at, most := d.queue[len(d.queue)-1].at, 300*ms*int64(p.rnd.n(3))
	for _, x := range stale {
		at += p.rnd.delay(0, most)
		if n := len(d.late); n > 0 {
			at = max(at, d.late[n-1].at)
		}
		x.at = at
		d.late = append(d.late, x)
		p.w.agenda.push(event{at: at, kind: evLate, a: int32(p.index), b: int32(k)})
	}
}

// breakLink ends the link. by is the server that has ended it, or -1. A suffix of what is on its way is lost, and each
// side hears of the end when it does.
func (p *pair) breakLink(by int) { p.breaks(by, -1, 0) }

// breakUnheard ends the link; late hears of that only so much later, and there is none until then.
func (p *pair) breakUnheard(late int, by int64) { p.breaks(-1, late, by) }

func (p *pair) breaks(by, late int, lateBy int64) {
	w := p.w
	if !p.up {
		return
	}
	p.up = false
	for k := range p.dir {
		d, s := &p.dir[k], w.servers[p.end[k]]
		if len(d.queue) > 0 && d.queue[len(d.queue)-1].news == newsNone {
			n := p.rnd.n(len(d.queue) + 1)
			for n < len(d.queue) && d.queue[n].news != newsNone {
				n++
			}
			if n < len(d.queue) {
				w.cover.hit("link loses a suffix")
				d.queue = d.queue[:n]
			}
		}
		in := p.rnd.delay(100*us, 50*ms)
		if p.end[k] == by {
			in = p.rnd.between(0, ms)
		} else if p.end[k] == late {
			in = lateBy
		} else if p.rnd.n(8) == 0 { // half open
			in = p.rnd.between(100*ms, 3*s1)
		}
		x := parcel{at: w.now + in, inc: p.inc, gen: s.gen, news: newsDown}
		if p.rnd.n(4) == 0 {
			x.news = newsReset
		}
		p.put(k, x)
	}
	if late >= 0 {
		p.dialIn(lateBy)
	} else {
		p.dialIn(p.rnd.delay(ms, 300*ms))
	}
}

// ended: one of the two processes is gone.
func (p *pair) ended(s int, how crashKind) {
	w := p.w
	k := p.side(s)
	p.dir[k].queue = nil
	if !p.up {
		p.dialIn(p.rnd.between(ms, 50*ms))
		return
	}
	p.up = false
	o := w.servers[p.end[1-k]]
	x := parcel{at: w.now + p.delay(1-k), inc: p.inc, gen: o.gen, news: newsReset}
	d := &p.dir[1-k]
	if how != crashStop && len(d.queue) > 0 {
		if n := p.rnd.n(len(d.queue) + 1); n < len(d.queue) && d.queue[n].news == newsNone {
			d.queue = d.queue[:n]
		}
	}
	if how == crashPower && p.rnd.n(2) == 0 { // nobody says that it is gone: silence tells
		x.news = newsDown
		x.at = w.now + int64(w.cfg.zab.SilenceLimit)*2
	}
	p.put(1-k, x)
	p.dialIn(p.rnd.between(ms, 50*ms))
}

// block holds up what travels to a server.
func (p *pair) block(k int, dur int64) {
	w := p.w
	d := &p.dir[k]
	d.blocked = max(d.blocked, w.now+dur)
	if limit := 2 * int64(w.cfg.zab.SilenceLimit); dur > limit {
		w.at(limit, event{kind: evSilence, gen: uint32(p.inc), a: int32(p.index), b: int32(k)})
	}
}

// silent: the transport at end k has heard nothing for too long.
func (p *pair) silent(k int) {
	if p.up && p.dir[k].blocked > p.w.now && p.w.now-p.since >= 2*int64(p.w.cfg.zab.SilenceLimit) {
		p.breakLink(p.end[k])
		p.dir[k].unblockNews()
	}
}

// unblockNews: a side that gives a link up knows that, whatever is blocked. What had not arrived never will.
func (d *direction) unblockNews() {
	for i := range d.queue {
		if d.queue[i].news == newsDown || d.queue[i].news == newsReset {
			d.queue = append(d.queue[:0], d.queue[i:]...)
			return
		}
	}
}

// sendAll gives messages of one round to a link.
func (s *server) sendAll(l zab.Link, out []replica.Outbound) {
	w := s.w
	for i := range out {
		s.promise(out[i].Msg, int(l.Peer)-1)
	}
	p := w.pair(s.i, int(l.Peer)-1)
	if !p.up || p.inc != l.Incarnation {
		return
	}
	k := p.side(int(l.Peer) - 1)
	msgs := make([]peer.Message, len(out))
	for i := range out {
		msgs[i] = carried(out[i].Msg)
		if t, ok := msgs[i].(*peer.Touches); ok {
			w.reported[t] = w.lastHeard(t.Sessions)
		}
		if w.trace != nil {
			s.logf("-> s%d %s", l.Peer, describe(msgs[i]))
		}
	}
	p.put(k, parcel{at: w.now + p.delay(k), inc: p.inc, gen: w.servers[p.end[k]].gen, msgs: msgs})
}

// carried is a message as the other side gets it: without what never crosses a link.
func carried(m peer.Message) peer.Message {
	if a, ok := m.(*zab.Append); ok {
		c := *a
		c.Entries = make([]zab.Entry, len(a.Entries))
		for i := range a.Entries {
			c.Entries[i] = zab.Entry{Zxid: a.Entries[i].Zxid, Data: a.Entries[i].Data}
		}
		return &c
	}
	return m
}

// promise checks what a message says of the sender's disk, and notes what it means (Z12, Z1).
func (s *server) promise(m peer.Message, to int) {
	w := s.w
	s.dated(m, to)
	switch m := m.(type) {
	case *zab.Ack:
		w.chk.SentAs(s.i, to, s.roles, "Ack")
		w.chk.SentAck(s.i, uint64(m.Durable))
	case *zab.AckNewLeader:
		w.chk.SentAs(s.i, to, s.roles, "AckNewLeader")
		w.chk.SentAckNewLeader(s.i, uint32(m.Epoch), uint64(m.HistoryEnd))
	case *zab.LeaderInfo:
		w.chk.SentAsLeader(s.i, s.roles, "LeaderInfo")
		w.chk.SentPromise(s.i, uint32(m.Epoch))
	case *zab.AckEpoch:
		w.chk.SentAs(s.i, to, s.roles, "AckEpoch")
		w.chk.SentPromise(s.i, uint32(m.Epoch))
		w.chk.SentHistory(s.i, uint64(m.Last))
	case *zab.SyncBegin:
		w.chk.Leads(s.i, uint32(m.Epoch))
		name := "sync " + m.Mode.String()
		if m.Mode == zab.SyncSnap && m.TruncateTo > m.Snapshot {
			name += " below the common point"
		}
		w.cover.hit(name)
	case *zab.NewLeader:
		w.chk.Leads(s.i, uint32(m.Epoch))
	case *zab.UpToDate:
		w.chk.Established(s.i, uint32(m.Epoch))
		s.waits.settled = s.waits.settled || m.Epoch == s.epoch
	case *zab.Goodbye:
		w.cover.hit("goodbye: " + string(m.Reason))
	case *zab.Refuse:
		w.cover.hit("refused: " + string(m.Reason))
	case *peer.ForwardReject:
		w.cover.hit("forward rejected")
	case *peer.Evict:
		w.cover.hit("evicted")
	case *election.Notification:
		switch {
		case m.State != zab.Looking || s.lost || m.Vote.Leader == 0: // others may remember what a lost disk held
		case m.Vote.Leader == s.id:
			w.chk.Voted(s.i, uint32(m.Vote.PeerEpoch), uint64(m.Vote.Zxid))
		case !w.cfg.members[s.i].Observer && !s.disk.damaged:
			w.chk.VotedFor(s.i, uint32(m.Vote.PeerEpoch), uint64(m.Vote.Zxid))
		}
	}
}

// xfer is a snapshot on its way.
type xfer struct {
	from, to int
	inc      uint64
	gen      uint32 // of the receiver
	snap     *snapshot
	sent     int // records
	total    int
	cutAt    int // -1: nowhere
	epoch    zab.Epoch
}

// snapshotEvent takes what the core says about snapshots.
func (s *server) snapshotEvent(ev zab.Event) {
	w := s.w
	switch ev := ev.(type) {
	case zab.NeedSnapshot:
		s.logf("needs a snapshot for %d, at %s or later", ev.Link.Peer, zx(ev.Min))
		if ev.Min <= s.disk.written() && !s.disk.damaged {
			s.openSnapshot(ev)
		} else {
			s.wants = append(s.wants, ev)
		}
	case zab.StreamSnapshot:
		sn := s.snaps[ev.Link]
		delete(s.snaps, ev.Link)
		p := w.pair(s.i, int(ev.Link.Peer)-1)
		if sn == nil || !p.up || p.inc != ev.Link.Incarnation {
			s.push(replica.Core{In: zab.SnapshotSent{Link: ev.Link, Failed: true}})
			return
		}
		x := &xfer{from: s.i, to: int(ev.Link.Peer) - 1, inc: p.inc, gen: w.servers[ev.Link.Peer-1].gen, snap: sn, total: len(sn.nodes) + len(sn.sessions), cutAt: -1, epoch: s.epoch}
		if w.cutSnaps > 0 {
			w.cutSnaps--
			x.cutAt = p.rnd.n(x.total + 1)
		}
		w.xfers = append(w.xfers, x)
		s.logf("streams a snapshot at %s to %d", zx(sn.zxid), ev.Link.Peer)
		w.nextChunk(x)
	case zab.CancelSnapshot:
		delete(s.snaps, ev.Link)
		for i, want := range s.wants {
			if want.Link == ev.Link {
				s.wants = append(s.wants[:i], s.wants[i+1:]...)
				break
			}
		}
	}
}

func (s *server) openSnapshot(ev zab.NeedSnapshot) {
	sn := s.disk.snapshot()
	s.snaps[ev.Link] = sn
	s.push(replica.Core{In: zab.SnapshotReady{Link: ev.Link, Zxid: sn.zxid}})
}

func (w *World) nextChunk(x *xfer) {
	p := w.pair(x.from, x.to)
	k := p.side(x.to)
	in := p.delay(k) + w.cfg.net[0]
	if w.bulkSlow > w.now {
		in += p.rnd.between(0, 400*ms)
	}
	at := max(w.now+in, p.dir[k].blocked)
	for _, s := range []*server{w.servers[x.from], w.servers[x.to]} {
		at = max(at, s.paused)
	}
	w.agenda.push(event{at: at, kind: evChunk, a: int32(x.from), b: int32(x.to), gen: uint32(x.inc)})
}

// sendChunk moves a snapshot on.
func (w *World) sendChunk(e event) {
	n := -1
	for i, x := range w.xfers {
		if x.from == int(e.a) && x.to == int(e.b) && uint32(x.inc) == e.gen {
			n = i
		}
	}
	if n < 0 {
		return
	}
	x := w.xfers[n]
	from, to := w.servers[x.from], w.servers[x.to]
	p := w.pair(x.from, x.to)
	out := zab.Link{Peer: to.id, Incarnation: x.inc}
	end := func() { w.xfers = append(w.xfers[:n], w.xfers[n+1:]...) }
	if x.cutAt >= 0 && x.sent >= x.cutAt {
		w.cover.hit("snapshot cut on its way")
		p.breakLink(-1)
	}
	if !p.up || p.inc != x.inc || !to.up || to.gen != x.gen {
		end()
		from.logf("the snapshot for %d did not arrive", out.Peer)
		from.push(replica.Core{In: zab.SnapshotSent{Link: out, Failed: true}})
		return
	}
	in := zab.Link{Peer: from.id, Incarnation: x.inc}
	x.sent += w.cfg.chunk
	from.push(replica.Core{In: zab.SnapshotProgress{Link: out}})
	to.push(replica.Core{In: zab.SnapshotProgress{Link: in}})
	if x.sent < x.total {
		w.nextChunk(x)
		return
	}
	end()
	if base := from.disk.base; from.role == zab.Leading && from.epoch == x.epoch && base > x.snap.zxid {
		w.fail("L1", "leader %d has cut its log at %s under its snapshot at %s, which has just arrived: another must follow", from.i+1, zx(base), zx(x.snap.zxid))
	}
	dir := "state." + check.Zx(uint64(x.snap.zxid))
	to.dirs[dir] = x.snap
	if to.snapped[in] {
		w.cover.hit("race: snapshot after its SyncBegin")
	} else {
		w.cover.hit("race: snapshot before its SyncBegin")
	}
	to.logf("has received a snapshot at %s", zx(x.snap.zxid))
	to.push(replica.Core{In: zab.SnapshotReceived{Link: in, Zxid: x.snap.zxid, Dir: dir}})
	from.push(replica.Core{In: zab.SnapshotSent{Link: out}})
}
