package sim

import (
	"os"
	"slices"
	"testing"
	"time"

	"github.com/zkserver/zkserver/server/session"
	"github.com/zkserver/zkserver/zab"
)

// Entries of part E of docs/field-reports.md as scripts: what the report did is done at its time, in an ensemble of its
// size, and everything else (delays, clients, orders) comes from the seed. The checks of every run hold, and those that the
// entry adds. What the report is about must have happened, or the script has shown nothing.

// play is one run of an entry.
type play struct {
	*World
	rnd  rng
	seen map[string]bool
}

// saw notes that what the report is about has happened.
func (p *play) saw(what string) { p.seen[what] = true }

// entry is a report.
type entry struct {
	id        string
	voters    int
	observers int
	config    func(c *Config, r *rng)
	script    func(p *play)
	want      []string // to be seen: by this entry in some run, or, as coverage, by the run itself
}

// fieldConfig is a run without faults of its own, made for an entry.
func fieldConfig(seed uint64, e *entry) *Config {
	c := NewConfig(seed)
	r := stream(seed, 1001, 0)
	c.members = nil
	for i := range e.voters + e.observers {
		c.members = append(c.members, zab.Member{ID: zab.ServerID(i + 1), Weight: 1, Observer: i >= e.voters})
	}
	c.voters = e.voters
	c.minSession = 1000
	c.sessions = [2]int32{1000, 3000}
	c.zab = zab.Options{
		InitLimit: 2500 * time.Millisecond, SyncLimit: 2500 * time.Millisecond, SilenceLimit: time.Second,
		Heartbeat: 80 * time.Millisecond, Lease: 240 * time.Millisecond,
	}
	c.net = [2]int64{50 * us, []int64{500 * us, 2 * ms, 10 * ms}[r.n(3)]}
	c.disk = [2]int64{50 * us, []int64{500 * us, 5 * ms}[r.n(2)]}
	c.thread = [2]int64{2 * us, []int64{50 * us, 500 * us}[r.n(2)]}
	c.think = [2]int64{10 * ms, 250 * ms}
	c.drift, c.age, c.keep = 0, 0, 1000
	c.late = make([]bool, len(c.members))
	c.patience = int64(c.zab.InitLimit) + int64(c.zab.SyncLimit) + 6*s1
	c.faults = nil
	c.storm, c.length = 12*s1, 14*s1
	if e.config != nil {
		e.config(c, &r)
	}
	return c
}

// when does something once a condition holds, from a time on.
func (p *play) when(at int64, cond func() bool, do func()) {
	i := int32(len(p.faults))
	p.faults = append(p.faults, fault{do: func() {
		if cond() {
			do()
			return
		}
		p.at(ms, event{kind: evFault, a: i})
	}})
	p.agenda.push(event{at: at, kind: evFault, a: i})
}

// after does something so much later.
func (p *play) after(in int64, do func()) { p.when(p.now+in, func() bool { return true }, do) }

// leading is the server that leads and serves, if there is one.
func (p *play) leading() *server {
	for _, s := range p.servers {
		if s.up && s.paused <= p.now && s.role == zab.Leading && s.serving {
			return s
		}
	}
	return nil
}

// rest reports whether all that run serve under one leader, with something committed.
func (p *play) rest() bool {
	l := p.leading()
	if l == nil || uint32(p.chk.Committed()) == 0 {
		return false
	}
	for _, s := range p.servers {
		if s.up && (!s.serving || s.epoch != l.epoch) {
			return false
		}
	}
	return true
}

// atRest does something once the ensemble is at rest and a few clients have written.
func (p *play) atRest(at int64, do func(l, f, g *server)) {
	p.when(at, func() bool { return p.rest() && uint32(p.chk.Committed()) > 10 }, func() {
		l := p.leading()
		n := p.cfg.voters
		k := 1 + p.rnd.n(n-1)
		f := p.servers[(l.i+k)%n]
		g := f
		for k := 1; k < n; k++ {
			if g = p.servers[(l.i+k)%n]; g != f {
				break
			}
		}
		do(l, f, g)
	})
}

func (s *server) cutFrom(o *server, dur int64) {
	p := s.w.pair(s.i, o.i)
	p.block(p.side(s.i), dur)
}

func (s *server) apart(o *server, dur int64) {
	s.cutFrom(o, dur)
	o.cutFrom(s, dur)
}

// never is longer than any script.
const never = 1 << 50

// dies ends a process without a time for its return.
func (s *server) dies(how crashKind) {
	s.crash(how, "dies")
	s.away = true
}

var entries = []entry{
	{ // a learner loses its power while it stores what it is synchronized with, or the epoch behind it; then the leader dies
		id: "E1, E2 power lost between history, epoch and their acknowledgement", voters: 3,
		want: []string{"lost power while it stored", "the leader died then", "crash during a sync of epoch", "crash during a sync of promise"},
		script: func(p *play) {
			p.atRest(s1, func(l, f, _ *server) {
				f.dies(crashPower)
				l.dies(crashProcess)
				p.after(100*ms, l.boot)
				p.when(p.now+p.rnd.between(s1, 2*s1), p.rest, func() {
					l := p.leading()
					f.boot()
					f.slow, f.slowEnd = 20, p.now+s1
					f.doom = &doom{how: crashPower, op: []string{"append", "epoch", "promise"}[p.cfg.Seed%3], dur: 200 * ms}
					was := f.gen
					p.when(p.now, func() bool { return f.gen != was || !f.up }, func() {
						p.saw("lost power while it stored")
						if l.up {
							p.saw("the leader died then")
							l.dies(crashPower)
							p.after(s1, l.boot)
						}
					})
				})
			})
		},
	},
	{ // one that joined by a synchronization leads, and synchronizes one that was away for longer
		id: "E3 a leader that has its history by synchronization", voters: 3,
		want: []string{"led with what it was sent", "sync DIFF"},
		script: func(p *play) {
			p.atRest(s1, func(l, f, g *server) {
				g.dies(crashPower)
				p.after(500*ms, func() {
					f.dies(crashPower)
					p.after(300*ms, f.boot)
					p.when(p.now+s1, p.rest, func() {
						p.after(500*ms, func() {
							l.dies(crashPower)
							g.boot()
							p.when(p.now, p.rest, func() {
								if p.leading() == f {
									p.saw("led with what it was sent")
								}
								l.boot()
							})
						})
					})
				})
			})
		},
	},
	{ // one is away until the log of the others no longer reaches back
		id: "E4 a member behind the kept log", voters: 3,
		config: func(c *Config, _ *rng) { c.keep, c.flushed = 3, 50*ms },
		want:   []string{"log cut", "sync SNAP", "snapshot installed"},
		script: func(p *play) {
			p.atRest(s1, func(_, f, _ *server) {
				f.dies(crashPower)
				p.after(2*s1, func() {
					for _, s := range p.servers {
						s.cutNow, s.flushAt = s != f, 0
					}
					p.after(300*ms, f.boot)
				})
			})
		},
	},
	{ // a leader logs what nobody else gets, and comes back two epochs later
		id: "E5 the tail of an old leader", voters: 3,
		config: func(c *Config, _ *rng) { c.think = [2]int64{5 * ms, 40 * ms} }, // somebody writes through it in time
		want:   []string{"a tail of its own", "two epochs went by", "sync TRUNC"},
		script: func(p *play) {
			p.atRest(s1, func(l, f, g *server) {
				l.apart(f, 4*s1)
				l.apart(g, 4*s1)
				end := p.now + 4*s1
				p.when(p.now, func() bool { return uint64(l.disk.last()) > p.chk.Committed() || l.role != zab.Leading }, func() {
					if uint64(l.disk.last()) > p.chk.Committed() {
						p.saw("a tail of its own")
					}
					was := l.disk.last().Epoch()
					l.dies(crashProcess)
					p.when(p.now, func() bool { return p.leading() != nil }, func() {
						n := p.leading()
						n.dies(crashProcess)
						p.after(100*ms, n.boot)
						p.when(end, func() bool { return p.leading() != nil }, func() {
							if p.leading().epoch > was+1 {
								p.saw("two epochs went by")
							}
							l.boot()
						})
					})
				})
			})
		},
	},
	{ // the leader dies when half of its snapshot has been sent, then the receiver is restarted as well
		id: "E6 half of a snapshot", voters: 3,
		config: func(c *Config, _ *rng) { c.keep, c.flushed, c.chunk = 3, 50*ms, 1 },
		want:   []string{"half was sent", "snapshot installed"},
		script: func(p *play) {
			p.atRest(s1, func(_, f, _ *server) {
				f.dies(crashPower)
				p.after(1500*ms, func() {
					for _, s := range p.servers {
						s.cutNow, s.flushAt = s != f, 0
					}
					p.after(300*ms, f.boot)
				})
				p.when(p.now+2*s1, func() bool { return len(p.xfers) > 0 && p.xfers[0].sent >= p.xfers[0].total/2 }, func() {
					p.saw("half was sent")
					l := p.servers[p.xfers[0].from]
					l.dies(crashPower)
					p.after(2*s1, l.boot)
					p.after(p.rnd.between(0, s1), func() {
						f.dies(crashPower)
						f.boot()
					})
				})
			})
		},
	},
	{ // five are started in any order, over links of up to 300 ms each way
		id: "E7 an election over slow links", voters: 5,
		config: func(c *Config, r *rng) {
			c.zab.SilenceLimit = 2 * time.Second
			c.zab.InitLimit, c.zab.SyncLimit = 5*time.Second, 5*time.Second
			c.storm, c.length = 18*s1, 20*s1
		},
		want: []string{"all follow one"},
		script: func(p *play) {
			p.atRest(s1, func(_, _, _ *server) {
				for _, s := range p.servers {
					s.dies(crashProcess)
					p.after(p.rnd.between(0, s1), s.boot)
				}
				for _, x := range p.pairs {
					for k := range x.dir {
						x.dir[k].slow, x.dir[k].lag = never, p.rnd.between(0, 300*ms)
					}
				}
				began := p.now
				p.when(began+s1, func() bool {
					l := p.leading()
					for _, s := range p.servers {
						if l == nil || !s.up || s.leader != l.id || s.epoch != l.epoch {
							if p.now > began+9*s1 {
								p.fail("E7", "%.1f s after five were started, server %d is %v %d in epoch %d", float64(p.now-began)/float64(s1), s.i+1, s.role, s.leader, s.epoch)
								return true
							}
							return false
						}
					}
					return true
				}, func() { p.saw("all follow one") })
			})
		},
	},
	{ // one has promised an epoch that no other has heard of, and comes back to the others
		id: "E8 a promise above the leader's epoch", voters: 3,
		want: []string{"the ensemble went past it"},
		script: func(p *play) {
			p.atRest(s1, func(l, f, _ *server) {
				f.dies(crashPower)
				alone := l.epoch + 3
				f.disk.hard.Accepted = alone // its leader died before anybody else had heard of it
				p.after(s1, f.boot)
				p.when(p.now+1100*ms, p.rest, func() {
					n := p.leading()
					if n.epoch <= alone || n.epoch > alone+2 {
						p.fail("E8", "epoch %d, a member had promised %d", n.epoch, alone)
					}
					p.saw("the ensemble went past it")
					p.after(3*s1, func() {
						if p.leading() != n || n.epoch > alone+2 {
							p.fail("E8", "it does not stay there")
						}
					})
				})
			})
		},
	},
	{ // nothing passes from the leader to one follower, later nothing from that one to the leader
		id: "E9 one way only", voters: 3,
		want: []string{"from the leader", "to the leader"},
		script: func(p *play) {
			oneWay := func(l, f *server, name string, back bool) {
				if back {
					l.cutFrom(f, 3*s1)
				} else {
					f.cutFrom(l, 3*s1)
				}
				at := p.chk.Committed()
				p.when(p.now, func() bool { return f.role == zab.Looking }, func() {
					p.saw(name)
					open := slices.DeleteFunc(slices.Clone(f.conns), func(c *conn) bool { return c.state < connReady })
					p.after(min(2*s1, p.cfg.minSession*ms/3)+100*ms, func() { // a tick and a round of the hub later
						for _, c := range open {
							if c.state != connDone && !f.serving {
								p.fail("E9", "server %d looks for a leader and keeps a connection", f.i+1)
							}
						}
					})
				})
				p.after(2900*ms, func() {
					if p.chk.Committed() == at {
						p.fail("E9", "nothing was committed in 3 s while server %d was cut off one way", f.i+1)
					}
				})
			}
			p.atRest(s1, func(l, f, _ *server) {
				oneWay(l, f, "from the leader", false)
				p.atRest(p.now+4*s1, func(l, f, _ *server) { oneWay(l, f, "to the leader", true) })
			})
		},
	},
	{ // the leader is cut off from both, its clients are not
		id: "E10 an isolated leader", voters: 3,
		want: []string{"another one leads", "a client stayed with it"},
		script: func(p *play) {
			p.atRest(s1, func(l, f, g *server) {
				for _, c := range p.clients {
					if c.conn != nil && c.conn.s == l {
						p.saw("a client stayed with it")
					}
				}
				l.apart(f, 4*s1)
				l.apart(g, 4*s1)
				p.when(p.now, func() bool { n := p.leading(); return n != nil && n != l }, func() { p.saw("another one leads") })
				at := p.chk.Committed()
				p.after(3900*ms, func() {
					if p.chk.Committed() == at {
						p.fail("E10", "nothing was committed in 4 s beside an isolated leader")
					}
					if l.role == zab.Leading || l.serving {
						p.fail("E10", "server %d, cut off for 4 s, is %v, serving: %v", l.i+1, l.role, l.serving)
					}
				})
			})
		},
	},
	{ // the leader is stopped for three times the syncLimit, and another one writes meanwhile
		id: "E11 a leader that was stopped", voters: 3,
		want: []string{"another one wrote", "it woke as the leader"},
		script: func(p *play) {
			p.atRest(s1, func(l, _, _ *server) {
				l.pause(3 * int64(p.cfg.zab.SyncLimit))
				at := p.chk.Committed()
				p.when(l.paused, func() bool { return true }, func() {
					if p.chk.Committed() > at {
						p.saw("another one wrote")
					}
					if l.role == zab.Leading {
						p.saw("it woke as the leader")
					}
				})
			})
		},
	},
	{ // the counter comes to its end, again and again
		id: "E14 the end of the counter", voters: 3,
		config: func(c *Config, r *rng) { c.zab.CounterLimit = uint32(30 + r.n(30)) },
		want:   []string{"two new epochs"},
		script: func(p *play) {
			p.atRest(s1, func(l, _, _ *server) {
				first, end, idle := l.epoch, p.now+5*s1, p.now
				var open []*conn
				for _, s := range p.servers {
					open = append(open, s.conns...)
				}
				p.when(p.now, func() bool {
					if p.rest() {
						idle = p.now
					}
					for _, s := range p.servers {
						if p.now-idle > 2*s1 {
							p.fail("E14", "server %d is %v, serving: %v, for 2 s", s.i+1, s.role, s.serving)
						}
					}
					for _, c := range open {
						if c.closed && !c.gone && c.sc.Reason() != session.ReasonSession {
							p.fail("E14", "server %d closes a connection: %s", c.s.i+1, c.sc.Reason())
						}
					}
					return p.now > end || p.fault != nil
				}, func() {
					if l.role == zab.Leading && l.epoch > first+1 {
						p.saw("two new epochs")
					}
				})
			})
		},
	},
	{ // the disk of a follower takes 200 ms for a sync
		id: "E16 a slow follower", voters: 3,
		config: func(c *Config, _ *rng) { c.disk = [2]int64{ms, ms}; c.keep = 100_000 },
		want:   []string{"behind"},
		script: func(p *play) {
			p.atRest(s1, func(l, f, _ *server) {
				f.slow, f.slowEnd = 200, p.now+6*s1
				at := p.chk.Committed()
				p.when(p.now, func() bool { return f.disk.last() < l.disk.last() }, func() { p.saw("behind") })
				p.after(5900*ms, func() {
					if n := p.chk.Committed() - at; n < 20 {
						p.fail("E16", "%d transactions in 6 s beside a slow follower", n)
					}
					if n := p.cover["link cut: no progress"] + p.cover["sync SNAP"]; n > 0 || f.leader != l.id || l.role != zab.Leading {
						p.fail("E16", "the slow follower was cut off %d times; it follows %d", n, f.leader)
					}
				})
			})
		},
	},
	{ // of two voters one dies; three observers are no quorum
		id: "E18 observers do not count", voters: 2, observers: 3,
		want: []string{"nobody serves"},
		script: func(p *play) {
			p.atRest(s1, func(l, f, _ *server) {
				dead := []*server{l, f}[p.rnd.n(2)]
				dead.dies(crashPower)
				p.after(2*s1, func() {
					at := p.chk.Committed()
					p.after(3*s1, func() {
						if p.chk.Committed() != at {
							p.fail("E18", "one voter of two and its observers commit")
						}
						for _, s := range p.servers {
							if s.up && s.serving {
								p.fail("E18", "server %d serves without a quorum", s.i+1)
							}
						}
						p.saw("nobody serves")
						dead.boot()
					})
				})
			})
		},
	},
}

// TestFieldE runs each entry with many seeds.
func TestFieldE(t *testing.T) {
	seeds := uint64(3)
	if os.Getenv("ZKSERVER_FULL") != "" {
		seeds = 1000
	}
	for i := range entries {
		e := &entries[i]
		t.Run(e.id, func(t *testing.T) {
			seen, cover, ops := map[string]int{}, Coverage{}, uint64(0)
			for seed := uint64(1); seed <= seeds; seed++ {
				w := newWorld(fieldConfig(seed, e), Limits{Clients: 100}, nil)
				p := &play{World: w, rnd: stream(seed, 7000, 0), seen: map[string]bool{}}
				w.faults = []fault{{do: func() {
					p.feel(p.cfg.storm) // what a script breaks is felt
					e.script(p)
				}}}
				r := w.run()
				if r.Fault != nil {
					t.Errorf("seed %d: %v", seed, r.Fault)
					continue
				}
				for k := range p.seen {
					seen[k]++
				}
				cover.Add(r.Cover)
				ops += r.Stats.Ops
			}
			for _, k := range e.want {
				if seen[k] == 0 && cover[k] == 0 {
					t.Errorf("in none of %d runs: %s", seeds, k)
				}
			}
			t.Logf("%d runs, %d answers: %v", seeds, ops, seen)
		})
	}
}
