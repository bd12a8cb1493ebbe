package sim

import (
	"fmt"
	"time"

	"github.com/zkserver/zkserver/zab"
)

const (
	us = int64(time.Microsecond)
	ms = int64(time.Millisecond)
	s1 = int64(time.Second)
)

// Config is a run: all of it comes from the seed.
type Config struct {
	Seed    uint64
	members []zab.Member
	voters  int

	zab        zab.Options
	minSession int64 // ms
	sessions   [2]int32
	patience   int64 // of the run, for progress once healed

	net     [2]int64
	disk    [2]int64
	thread  [2]int64 // until a thread that has something to do runs
	sloppy  int      // quanta that may come at once
	drift   int      // clocks differ by so many thousandths
	keep    int      // transactions of the log kept behind the durable state
	flushed int64    // between two flushes of the state
	states  int64    // between two rounds of the state writer at most
	chunk   int      // records of a snapshot's chunk
	age     zab.Zxid // where the history begins; zero: fresh servers
	late    []bool   // servers that are blank until a fault starts them

	clients int
	think   [2]int64
	paths   int

	storm  int64 // how long faults go on
	length int64 // of the run at least
	faults []fault
}

// Limits leave something out of a run: how a failure is made smaller.
type Limits struct {
	Drop    []int // faults left out, by number
	Clients int   // at most so many; zero: all
	Ops     int   // requests of a client at most; zero: any number

	Histories bool // not less but another run: with registers, and a search for an order of what clients were told
}

// fault is something that goes wrong at a time.
type fault struct {
	at    int64
	kind  faultKind
	a, b  int
	dur   int64
	dice  int
	index int

	leader bool // it strikes whoever leads then, if anybody does

	do func() // a step of a test's script, instead of a kind
}

type faultKind uint8

const (
	fCrash faultKind = iota
	fPower
	fPause
	fCut
	fOneWay
	fIsolate
	fSlowDisk
	fStuckDisk
	fBadDisk
	fSlowLink
	fSlowApply
	fJump
	fRate
	fLeave
	fRolling
	fWipe
	fDamage
	fCutLog
	fSnapCut
	fClientCut
	fClientPause
	fSplit
	fFlap
	fStall
	fBehind
	fLoop
	fDepose
	fVoterList
	fSlowLoop
	fBlank
	faultKinds
)

var faultNames = [...]string{
	"crash", "power loss", "pause", "cut", "one-way", "isolate", "slow disk", "stuck disk", "bad disk", "slow link", "slow apply",
	"clock jump", "clock rate", "leave", "rolling restart", "wipe", "damaged state", "log cut", "snapshot cut", "client cut",
	"client pause", "split", "flap", "stall", "left behind", "crash loop",
	"deposed", "wrong voter list", "slow loop", "blank",
}

func (f *fault) String() string {
	return fmt.Sprintf("f%d %s %d %d for %v (%d)", f.index, faultNames[f.kind], f.a+1, f.b+1, time.Duration(f.dur), f.dice)
}

// weights of the kinds of faults; a run takes a mix of them (swarm).
var weights = [faultKinds]int{
	fCrash: 14, fPower: 10, fPause: 10, fCut: 14, fOneWay: 8, fIsolate: 8, fSlowDisk: 6, fStuckDisk: 4, fBadDisk: 3, fSlowLink: 5,
	fSlowApply: 5, fJump: 2, fRate: 1, fLeave: 8, fRolling: 2, fWipe: 4, fDamage: 3, fCutLog: 8, fSnapCut: 4, fClientCut: 12,
	fClientPause: 6, fSplit: 5, fFlap: 4, fStall: 5, fBehind: 6,
	fLoop: 5, fDepose: 8, fVoterList: 2,
	fSlowLoop: 5, fBlank: 6,
}

// NewConfig draws a run.
func NewConfig(seed uint64) *Config {
	r := stream(seed, 1000, 0)
	c := &Config{Seed: seed}
	c.drawMembers(&r)
	c.drawTimes(&r)
	c.clients = 3 + r.n(3)
	c.think = [2]int64{50 * ms, r.between(500, 1300) * ms}
	c.paths = 3 + r.n(5)
	c.storm, c.length = 46*s1, 59*s1
	c.keep = []int{3, 20, 100, 1000}[r.n(4)]
	c.flushed = r.between(100, 5000) * ms
	c.states = []int64{150 * ms, 150 * ms, 150 * ms, 2 * s1}[r.n(4)]
	c.chunk = 1 + r.n(12)
	switch r.n(10) {
	case 0: // near the counter's end
		c.age = zab.MakeZxid(zab.Epoch(1+r.n(1000)), uint32(1<<32-1-1<<20-r.n(300)))
	case 1:
		c.age = zab.MakeZxid(zab.Epoch(1+r.n(1000)), uint32(1<<32-1<<16-2-r.n(300)))
		c.zab.CounterLimit = 1<<32 - 1<<16 - 2
	case 2:
		c.zab.CounterLimit = uint32(20 + r.n(100))
	case 3:
		c.age = zab.MakeZxid(zab.Epoch(1<<30+r.n(1<<20)), uint32(1+r.n(1000)))
	}
	c.late = make([]bool, len(c.members))
	if c.voters >= 3 && c.age == 0 && r.n(8) == 0 {
		c.late[r.n(c.voters)] = true
	}
	c.drawFaults(&r)
	return c
}

func (c *Config) drawMembers(r *rng) {
	switch k := r.n(100); {
	case k < 8:
		c.voters = 1
	case k < 70:
		c.voters = 3
	case k < 90:
		c.voters = 5
	case k < 95:
		c.voters = 7
	default:
		c.voters = 6
	}
	for i := range c.voters {
		m := zab.Member{ID: zab.ServerID(i + 1), Weight: 1}
		if c.voters == 6 { // hierarchical: three groups of two, or of weights 1 and 2
			m.Group = uint64(i/2 + 1)
			m.Weight = uint64(1 + r.n(2))
		}
		c.members = append(c.members, m)
	}
	for range []int{0, 0, 0, 1, 1, 2}[r.n(6)] {
		c.members = append(c.members, zab.Member{ID: zab.ServerID(len(c.members) + 1), Observer: true, Weight: 1})
	}
}

func (c *Config) drawTimes(r *rng) {
	tick := []int64{200, 500, 1000, 2000}[r.n(4)] * ms
	silence := min(5*tick, s1)
	c.minSession = 2 * tick / ms
	lease := silence * 6 / 10
	if most := c.minSession * ms / 3 * 9 / 10; lease > most {
		lease = most * 8 / 10
	}
	beat := max(10*ms, min(100*ms, silence/5, lease/3))
	c.zab = zab.Options{
		InitLimit: time.Duration(max(2*s1, 5*tick)), SyncLimit: time.Duration(5 * tick), SilenceLimit: time.Duration(silence),
		Heartbeat: time.Duration(beat), Lease: time.Duration(lease),
	}
	if r.n(3) == 0 {
		c.zab.RunBytes = 256 + r.n(1024)
		c.zab.Window = 4 * c.zab.RunBytes
	}
	c.sessions = [2]int32{int32(c.minSession), int32(c.minSession * 3)}
	c.net = [2]int64{50 * us, []int64{500 * us, 2 * ms, 10 * ms, 60 * ms}[r.n(4)]}
	c.disk = [2]int64{50 * us, []int64{500 * us, 5 * ms, 30 * ms}[r.n(3)]}
	c.thread = [2]int64{2 * us, []int64{50 * us, 500 * us, 5 * ms}[r.n(3)]}
	c.sloppy = 1 + r.n(4)
	if r.n(4) == 0 {
		c.drift = 1 + r.n(50)
	}
	c.patience = int64(c.zab.InitLimit) + int64(c.zab.SyncLimit) + 6*s1
}

func (c *Config) drawFaults(r *rng) {
	on := weights
	for k := range on { // swarm: each run leaves out some kinds and has more of others
		switch r.n(4) {
		case 0:
			on[k] = 0
		case 1:
			on[k] *= 3
		}
	}
	total := 0
	for _, w := range on {
		total += w
	}
	if total == 0 {
		on, total = [faultKinds]int{fCrash: 1}, 1
	}
	n := 12 + r.n(26)
	last := int64(0)
	for i := range n {
		x := r.n(total)
		k := faultKind(0)
		for x >= on[k] {
			x -= on[k]
			k++
		}
		f := fault{index: i, kind: k, at: r.between(s1, c.storm), a: r.n(len(c.members)), b: r.n(len(c.members)), dice: r.n(1 << 20)}
		if i > 0 && r.n(5) < 2 { // while what the last one did is still being mended
			f.at = min(last+r.delay(ms, 1500*ms), c.storm)
		}
		last = f.at
		f.leader = r.n(5) < 2
		if len(c.members) > 1 && f.b == f.a {
			f.b = (f.a + 1) % len(c.members)
		}
		f.dur = r.delay(20*ms, 8*s1)
		if r.n(3) == 0 { // as long as matters: around the limits
			f.dur = []int64{int64(c.zab.SilenceLimit), int64(c.zab.Lease), int64(c.zab.SyncLimit), int64(c.zab.InitLimit), c.minSession * ms}[r.n(5)]
			f.dur = f.dur * r.between(70, 150) / 100
		}
		f.dur = min(f.dur, 12*s1)
		c.faults = append(c.faults, f)
	}
}
