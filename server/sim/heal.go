package sim

import "fmt"

// heal ends all faults; from now on there must be progress (I12).
func (w *World) heal() {
	w.healed = w.now
	w.logf("-- healed")
	w.cutSnaps, w.bulkSlow = 0, 0
	for _, p := range w.pairs {
		for k := range p.dir {
			p.dir[k].blocked, p.dir[k].slow = 0, 0
			if p.dir[k].pending {
				p.dir[k].pending = false
			}
			p.schedule(k)
		}
	}
	for _, s := range w.servers {
		s.doom, s.atBoot, s.ends, s.frail = nil, nil, 0, 0
		s.stuck, s.slowEnd, s.applySlow, s.loopSlow, s.badDisk = 0, 0, 0, 0, false
		s.mend()
		s.revive()
	}
	for _, c := range w.clients {
		c.paused = min(c.paused, w.now)
	}
	for _, p := range w.pairs {
		if !p.up {
			p.dialSoon()
		}
	}
	w.at(50*ms, event{kind: evProbe})
}

// probeTime is how long a client of each server may take to write.
const probeTime = 8 * s1

// revive starts a server that is down. One that was refused for what its disk holds had never been one of these: the
// operator takes its data away.
func (s *server) revive() {
	if !s.up && s.dead != "" {
		s.wipe()
	}
	s.boot()
}

// minOps is how many operations of clients a run has at least.
const minOps = 500

// probe looks whether the ensemble has come to rest, then whether every server serves a client, then whether all trees
// are the same.
func (w *World) probe() {
	since := w.now - w.healed
	again := func() { w.at(50*ms, event{kind: evProbe}) }
	switch w.phase {
	case 0:
		if why := w.unsettled(); why != "" {
			if since > w.cfg.patience {
				w.fail("L1", "%.1f s after all faults have ended: %s", float64(since)/float64(s1), why)
			}
			again()
			return
		}
		w.logf("-- settled")
		w.settled = since
		w.phase = 1
		for i := range w.servers {
			c := newClient(w, len(w.clients))
			c.pin = i
			w.clients = append(w.clients, c)
			w.at(0, event{kind: evClient, a: int32(c.i)})
		}
		again()
	case 1:
		for _, c := range w.clients {
			if c.pin >= 0 && c.acked == 0 {
				if since > w.settled+probeTime {
					w.fail("L1", "%.1f s after all faults have ended no client can write through server %d", float64(since)/float64(s1), c.pin+1)
				}
				again()
				return
			}
		}
		if w.now < w.cfg.length || w.chk.Answers < minOps && w.lim.Ops == 0 && w.lim.Clients == 0 {
			again()
			return
		}
		for _, c := range w.clients {
			c.stopped = true
		}
		w.phase, w.settled = 2, w.now
		w.at(2*s1, event{kind: evProbe})
	case 2:
		for _, s := range w.servers {
			if !s.up || uint64(s.tree.Applied()) != w.chk.Committed() {
				if w.now-w.settled > 4*s1 {
					w.fail("L1", "server %d has not applied all that is committed, long after the last request", s.i+1)
				}
				again()
				return
			}
		}
		w.done = true
	}
}

// unsettled says what is missing to an ensemble at rest; empty: nothing.
func (w *World) unsettled() string {
	for _, s := range w.servers {
		s.revive() // it may have been about to end when faults did
	}
	epoch := uint32(0)
	for _, s := range w.servers {
		if s.leaving {
			return fmt.Sprintf("server %d is leaving", s.i+1)
		}
		if !s.serving || s.lease <= s.local() && s.paused <= w.now {
			return fmt.Sprintf("server %d does not serve (%v %d epoch %d)", s.i+1, s.role, s.leader, s.epoch)
		}
		if epoch != 0 && uint32(s.epoch) != epoch {
			return fmt.Sprintf("server %d is in epoch %d, another in %d", s.i+1, s.epoch, epoch)
		}
		epoch = uint32(s.epoch)
	}
	return ""
}
