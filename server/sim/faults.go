package sim

import (
	"slices"

	"github.com/zkserver/zkserver/server/replica"
	"github.com/zkserver/zkserver/zab"
)

// strike lets a fault happen.
func (w *World) strike(f *fault) {
	if w.healed != 0 {
		return
	}
	if f.do != nil {
		f.do()
		return
	}
	f.dur = min(f.dur, w.cfg.storm-w.now)
	if f.leader {
		f.strikeLeader(w)
	}
	s := w.servers[f.a]
	name := faultNames[f.kind]
	w.logf("-- %v", f)
	w.feel(f.dur)
	if f.kind == fDepose && f.dice>>3&1 == 0 || f.dice>>3&15 == 0 {
		w.rush = w.now + w.rnd.between(200*ms, s1)
		w.cover.hit("rush")
	}
	w.cover.hit("fault: " + name)
	w.stats.Faults++
	switch f.kind {
	case fCrash, fPower:
		how := crashProcess
		if f.kind == fPower {
			how = crashPower
		}
		if s.up && f.dice%4 > 0 {
			s.doom = &doom{how: how, op: dooms[f.dice/4%len(dooms)], dur: f.dur}
			return
		}
		s.crash(how, name)
		if f.dice%2 == 0 { // and again, in the middle of what it must store then
			s.atBoot = &doom{how: how, op: dooms[f.dice/8%len(dooms)], dur: w.rnd.delay(5*ms, s1)}
		}
		w.bootIn(s, f.dur)
	case fPause:
		s.pause(f.dur)
	case fCut:
		if len(w.servers) > 1 {
			w.pair(f.a, f.b).breakLink(-1)
		}
	case fOneWay:
		if len(w.servers) > 1 {
			p := w.pair(f.a, f.b)
			p.block(p.side(f.b), f.dur)
		}
	case fIsolate:
		w.isolate(f)
	case fSlowDisk:
		s.slow, s.slowEnd = int64(10+f.dice%200), w.now+f.dur
	case fStuckDisk:
		s.stuck = w.now + f.dur
	case fBadDisk:
		if s.up {
			s.badDisk = true
		}
	case fSlowLink:
		if len(w.servers) > 1 {
			d := w.pair(f.a, f.b).to(f.b)
			d.slow, d.lag = w.now+f.dur, int64(f.dice%400)*ms
		}
	case fSlowApply:
		s.applySlow = w.now + f.dur
	case fSlowLoop:
		s.loopSlow, s.loopLag = w.now+f.dur, []int64{30 * ms, 100 * ms, 300 * ms, 700 * ms}[f.dice&3]
		for _, c := range w.clients {
			if f.dice>>2&1 == 0 { // until about when their sessions end
				c.paused = w.now + c.timeout*w.rnd.between(90, 130)/100
				s.loopSlow = max(s.loopSlow, c.paused+200*ms)
			}
		}
		w.feel(s.loopSlow - w.now)
	case fBlank:
		w.blankAmongSlow(f)
	case fJump:
		s.wallOff += int64(f.dice%20000) - 10000
	case fRate:
		if w.cfg.drift > 0 && s.up {
			s.setRate(1000 + int64(f.dice%(2*w.cfg.drift+1)-w.cfg.drift))
		}
	case fLeave:
		s.leave()
	case fRolling:
		at := w.now
		for i := range w.servers {
			w.faults = append(w.faults, fault{kind: fLeave, a: i, index: f.index, dice: f.dice})
			w.agenda.push(event{at: at, kind: evFault, a: int32(len(w.faults) - 1)})
			at += w.rnd.between(300*ms, 3*s1)
		}
	case fWipe, fDamage:
		w.loseDisk(s, f)
	case fCutLog:
		s.cutNow = true
		s.flushAt = 0
	case fSnapCut:
		w.cutSnaps = 1 + f.dice%2
		if len(w.servers) > 1 { // somebody needs one: a server falls behind the others' logs
			for _, o := range w.servers {
				o.cutNow, o.flushAt = o != s, 0
			}
			if s.up {
				s.crash(crashProcess, name)
			}
			w.bootIn(s, f.dur)
		}
	case fClientCut, fClientPause:
		if len(w.clients) == 0 {
			return
		}
		c := w.clients[f.dice%len(w.clients)]
		if f.kind == fClientPause {
			if f.dice&1 == 0 { // until its session is about to end
				f.dur = c.timeout * w.rnd.between(90, 125) / 100
			}
			c.paused = w.now + f.dur
		} else if k := c.conn; k != nil {
			k.cut = true
			if n := len(k.in); n > 0 {
				k.in = k.in[:c.rnd.n(n+1)]
			}
		}
	case fSplit:
		mask := f.dice
		for _, p := range w.pairs {
			if mask>>p.end[0]&1 != mask>>p.end[1]&1 {
				p.block(0, f.dur)
				p.block(1, f.dur)
			}
		}
	case fStall: // disks that stand on the same storage
		mask := f.dice
		if f.dice>>10&1 == 0 {
			mask = 1<<f.a ^ 1<<10 - 1 // all but one
		}
		for _, o := range w.servers {
			if mask>>o.i&1 != 0 {
				o.stuck = max(o.stuck, w.now+f.dur)
			}
		}
	case fBehind:
		w.leaveBehind(s, f)
	case fDepose: // the others lose it at once; it hears of that much later
		for o := range w.servers {
			if o != f.a {
				w.pair(f.a, o).breakUnheard(f.a, f.dur)
			}
		}
	case fVoterList:
		w.misread(s, f.dur)
	case fLoop:
		s.ends = 2 + f.dice%3
		s.crash(crashProcess, name)
		w.bootIn(s, w.rnd.delay(5*ms, 300*ms))
	case fFlap:
		if len(w.servers) > 1 {
			at := w.now
			for range 2 + f.dice%6 {
				at += w.rnd.between(10*ms, 400*ms)
				w.faults = append(w.faults, fault{kind: fCut, a: f.a, b: f.b, index: f.index})
				w.agenda.push(event{at: at, kind: evFault, a: int32(len(w.faults) - 1)})
			}
		}
	}
}

// leaveBehind cuts a server off for less than its clients notice, while the others go on and cut their logs: it needs a
// snapshot with its connections open.
func (w *World) leaveBehind(s *server, f *fault) {
	if len(w.servers) == 1 {
		return
	}
	dur := f.dur%(w.cfg.minSession*ms/3) + 20*ms
	for _, o := range w.servers {
		if o == s {
			continue
		}
		p := w.pair(s.i, o.i)
		p.breakLink(-1)
		p.block(0, dur)
		p.block(1, dur)
	}
	w.at(dur/2, event{kind: evCutLogs, a: int32(s.i)})
	w.at(dur, event{kind: evCutLogs, a: int32(s.i)})
	if f.dice&1 == 0 { // and once more while the snapshot is on its way
		w.bulkSlow = w.now + dur + 4*s1
		w.at(dur+w.rnd.between(300*ms, 3*s1), event{kind: evCutLogs, a: int32(s.i)})
	}
}

// blankAmongSlow wipes a voter while the others are slow, all but the leader: what it had acknowledged, perhaps nobody else
// has yet, and what it says comes first. It comes again at once, and the leader goes on with it, or is lost then, or leaves.
func (w *World) blankAmongSlow(f *fault) {
	s := w.servers[f.a%w.cfg.voters]
	if s.up && s.role == zab.Leading {
		s = w.servers[(s.i+1)%w.cfg.voters]
	}
	in := w.rnd.between(50*ms, 600*ms)
	w.rush = max(w.rush, w.now+in) // so that something is committed meanwhile
	w.feel(in + 4*s1)
	how := f.dice % 3
	for _, o := range w.servers {
		switch {
		case o == s || how < 2 && o.up && o.role == zab.Leading:
		case how == 0: // their disks hang
			o.stuck = max(o.stuck, w.now+min(in+w.rnd.between(100*ms, 4*s1), int64(w.cfg.zab.SyncLimit)*9/10))
		case how == 1: // or are slow
			o.slow, o.slowEnd = int64(20+f.dice>>2%400), w.now+in+2*s1
		default: // or their links are
			for _, x := range w.servers[:o.i] {
				if x == s {
					continue
				}
				p := w.pair(x.i, o.i)
				for k := range p.dir {
					p.dir[k].slow, p.dir[k].lag = w.now+in+3*s1, w.rnd.between(0, 120*ms)
				}
			}
		}
	}
	w.then(in, f, func() {
		if !w.spare(s) {
			return
		}
		if s.up {
			s.crash(crashProcess, "wiped")
		}
		s.wipe()
		w.cover.hit("wiped among slow servers")
		w.bootIn(s, w.rnd.delay(ms, 60*ms))
		for _, o := range w.servers {
			switch {
			case !o.up || o.role != zab.Leading:
			case how == 1:
				o.crash(crashProcess, "leader of a blank")
				w.bootIn(o, w.rnd.delay(ms, 60*ms))
			case how == 2:
				w.then(w.rnd.between(5*ms, 400*ms), f, o.leave)
				w.bootIn(o, w.rnd.between(s1, 3*s1))
			}
		}
	})
}

// then lets a fault go on after some time.
func (w *World) then(in int64, f *fault, do func()) {
	w.faults = append(w.faults, fault{index: f.index, do: do})
	w.at(in, event{kind: evFault, a: int32(len(w.faults) - 1)})
}

// spare: those that are left without a server are a quorum of one ensemble, none of which has lost its disk or needs a
// snapshot. A founder whose leader died before its own stamp was durable has the id of an ensemble that never came to be.
func (w *World) spare(s *server) bool {
	return slices.ContainsFunc(w.servers, func(one *server) bool {
		return w.chk.Quorum(func(i int) bool {
			o := w.servers[i]
			return o != s && !o.lost && !o.disk.damaged && o.disk.ensemble == one.disk.ensemble
		})
	})
}

// cutLogs lets all but one server drop what of their logs their state covers, whoever may need it.
func (w *World) cutLogs(but int) {
	for _, s := range w.servers {
		if s.i != but {
			s.cutNow, s.flushAt = true, 0
		}
	}
}

// misread starts a server with a voter too many in its list; the operator mends that soon.
func (w *World) misread(s *server, dur int64) {
	for _, o := range w.servers {
		if o.misled {
			return
		}
	}
	s.crash(crashProcess, "wrong voter list")
	s.misled = true
	w.bootIn(s, 10*ms)
	w.at(10*ms+dur, event{kind: evMend, a: int32(s.i)})
}

// mend starts it with the right one.
func (s *server) mend() {
	if s.misled {
		s.crash(crashProcess, "voter list mended")
		s.misled = false
		s.w.bootIn(s, 10*ms)
	}
}

// list is the voter list that a server reads.
func (s *server) list() []zab.Member {
	ms := s.w.cfg.members
	if s.misled {
		ms = append(slices.Clone(ms), zab.Member{ID: zab.ServerID(len(ms) + 1), Weight: 1, Group: ms[0].Group})
	}
	return ms
}

// strikeLeader turns a fault on the server that leads.
func (f *fault) strikeLeader(w *World) {
	for _, s := range w.servers {
		if s.up && s.role == zab.Leading {
			if f.b == s.i {
				f.b = f.a
			}
			f.a = s.i
		}
	}
}

// feel notes that something is out of order for so long, and for some time behind that.
func (w *World) feel(dur int64) { w.disturbed = max(w.disturbed, w.now+dur+4*s1) }

// bootIn starts a server again, so long from now.
func (w *World) bootIn(s *server, in int64) {
	s.away = true
	w.feel(in)
	w.at(in, event{kind: evBoot, a: int32(s.i)})
}

func (w *World) isolate(f *fault) {
	for o := range w.servers {
		if o == f.a {
			continue
		}
		p := w.pair(f.a, o)
		if f.dice%3 != 0 {
			p.block(p.side(f.a), f.dur)
		}
		if f.dice%3 != 1 {
			p.block(p.side(o), f.dur)
		}
	}
}

// pause stops a process, as SIGSTOP does.
func (s *server) pause(dur int64) {
	w := s.w
	if !s.up || s.paused > w.now {
		return
	}
	s.paused = w.now + dur
	local := dur * s.rate / 1000
	s.waits.stopped += local
	if local-40*ms >= int64(w.cfg.zab.SilenceLimit)/2 { // it must notice that
		s.pausedSum += local
	}
	for _, p := range w.pairs { // its peers hear nothing of it
		if p.up && (p.end[0] == s.i || p.end[1] == s.i) && dur > 2*int64(w.cfg.zab.SilenceLimit) {
			w.at(2*int64(w.cfg.zab.SilenceLimit), event{kind: evSilence, gen: uint32(p.inc), a: int32(p.index), b: int32(1 - p.side(s.i))})
		}
	}
}

// leave lets a server go gracefully and come again.
func (s *server) leave() {
	if s.up && !s.leaving {
		s.leaving = true
		s.logf("is to leave")
		s.push(replica.Leave{})
	}
}

// loseDisk takes a server's whole disk, or makes its state unreadable: either only as long as those that are left are a
// quorum (I6, and who needs a snapshot cannot vote).
func (w *World) loseDisk(s *server, f *fault) {
	spare := w.spare(s)
	if f.kind == fWipe {
		if !spare {
			return
		}
		if s.up {
			s.crash(crashPower, "wiped")
		}
		s.wipe()
		w.cover.hit("wiped")
		if f.dice>>6&1 == 0 { // and whoever leads then is lost too, when it is back
			k := []faultKind{fCrash, fDepose, fLeave, fCut}[f.dice>>7&3]
			w.faults = append(w.faults, fault{kind: k, a: f.b, b: f.a, dur: w.rnd.delay(20*ms, 2*s1), dice: f.dice << 2, index: f.index, leader: true})
			w.at(f.dur+w.rnd.delay(ms, 400*ms), event{kind: evFault, a: int32(len(w.faults) - 1)})
		}
	} else {
		if !spare && s.disk.base != 0 {
			return // the log alone does not rebuild it, and there might be nobody to get it from
		}
		if s.up {
			s.crash(crashPower, "damaged")
		}
		s.damage()
		if s.disk.damaged {
			w.cover.hit("state damaged")
		}
	}
	if f.dice%4 == 0 {
		f.dur = w.rnd.delay(5*ms, 100*ms)
	}
	if f.dice%8 < 3 {
		s.atBoot = &doom{how: crashPower, op: []string{"stamp", "install", "append+epoch", ""}[f.dice/8%4], dur: w.rnd.delay(5*ms, s1)}
	}
	w.bootIn(s, f.dur)
}
