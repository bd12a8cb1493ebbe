package sim

import (
	"fmt"
	"io"
	"runtime/debug"
	"strings"
	"time"

	"github.com/zkserver/zkserver/server/hostile/history"
	"github.com/zkserver/zkserver/server/peer"
	"github.com/zkserver/zkserver/server/sim/check"
	"github.com/zkserver/zkserver/zab"
	"github.com/zkserver/zkserver/znode"
)

// World is one run.
type World struct {
	cfg       *Config
	lim       Limits
	now       int64
	agenda    agenda
	rnd       rng
	servers   []*server
	pairs     []*pair // by pairIndex
	nextInc   uint64
	xfers     []*xfer
	cutSnaps  int   // so many of the next snapshots are cut on their way
	bulkSlow  int64 // until when snapshots take their time
	clients   []*client
	conns     []*conn
	origins   map[uint64]int            // process and connection -> conn
	heard     map[int64]int64           // session -> when its client was last heard by a server
	reported  map[*peer.Touches][]int64 // the same, as a report on its way has it
	faults    []fault                   // not left out
	disturbed int64                     // until then what was broken may still be felt
	rush      int64                     // until then all clients ask much
	healed    int64                     // when faults stopped; zero: not yet
	phase     int                       // of the probes
	settled   int64
	done      bool
	process   zab.ID

	chk   *check.Checker
	did   check.Did
	op    check.Op
	cover Coverage
	stats Stats
	hash  uint64
	trace io.Writer
	fault *check.Fault
	rec   *history.Recorder // nil: clients have no registers
}

// Stats are totals of a run.
type Stats struct {
	Ops, Faults, Writes, Events uint64
	Simulated                   time.Duration
}

// Result of a run.
type Result struct {
	Seed  uint64
	Fault *check.Fault // nil: all invariants held
	Hash  uint64       // of everything that happened
	Cover Coverage
	Stats Stats

	History history.Report // with Limits.Histories
}

// Run makes a run. trace, unless nil, is told what happens.
func Run(seed uint64, lim Limits, trace io.Writer) Result {
	return newWorld(NewConfig(seed), lim, trace).run()
}

func (w *World) run() (res Result) {
	defer func() {
		if p := recover(); p != nil {
			w.fail("panic", "%v at %s", p, frames(debug.Stack()))
		}
		w.stats.Simulated = time.Duration(w.now)
		w.stats.Ops = w.chk.Answers
		var told history.Report
		if w.rec != nil {
			told = w.verify()
		}
		res = Result{Seed: w.cfg.Seed, Fault: w.fault, Hash: w.hash, Cover: w.cover, Stats: w.stats, History: told}
	}()
	w.start()
	for !w.done && w.fault == nil {
		w.step()
		if f := w.chk.Fault(); f != nil && w.fault == nil {
			w.fail(f.Name, "%s", f.Detail)
		}
	}
	for _, c := range w.conns {
		if c.sc != nil {
			c.sc.Release() // also of processes that have crashed: the real timers of those that were about to end stop
		}
	}
	return res
}

// frames are the lines of a stack that are ours.
func frames(stack []byte) string {
	var out []string
	for _, l := range strings.Split(string(stack), "\n") {
		if strings.Contains(l, "/zkserver/") && strings.HasPrefix(l, "\t") {
			l = l[strings.LastIndex(l, "/zkserver/")+len("/zkserver/"):]
			if i := strings.IndexByte(l, ' '); i > 0 {
				l = l[:i]
			}
			out = append(out, l)
		}
	}
	return strings.Join(out[:min(len(out), 12)], " < ")
}

func newWorld(cfg *Config, lim Limits, trace io.Writer) *World {
	w := &World{
		cfg: cfg, lim: lim, rnd: stream(cfg.Seed, 2000, 0), trace: trace, process: 100, origins: map[uint64]int{}, heard: map[int64]int64{}, reported: map[*peer.Touches][]int64{}, cover: Coverage{},
	}
	if lim.Histories {
		w.rec = history.NewRecorder(func() int64 { return w.now })
	}
	ms := make([]check.Member, len(cfg.members))
	for i, m := range cfg.members {
		ms[i] = check.Member{Observer: m.Observer, Weight: m.Weight, Group: m.Group}
	}
	sums := znode.NewTree(znode.Options{}).Digests()
	w.chk = check.New(ms, uint64(cfg.age), [2]uint64{sums.Tree, sums.State})
	for i := range cfg.members {
		w.servers = append(w.servers, newServer(w, i))
	}
	for b := range cfg.members {
		for a := range b {
			w.pairs = append(w.pairs, newPair(w, a, b))
		}
	}
	n := cfg.clients
	if lim.Clients > 0 {
		n = min(n, lim.Clients)
	}
	for i := range n {
		w.clients = append(w.clients, newClient(w, i))
	}
	drop := map[int]bool{}
	for _, d := range lim.Drop {
		drop[d] = true
	}
	for _, f := range cfg.faults {
		if !drop[f.index] {
			w.faults = append(w.faults, f)
		}
	}
	return w
}

func (w *World) start() {
	w.logf("seed %d: %d voters, %d observers, silence %v, lease %v, heartbeat %v, init %v, sync %v, history from %s",
		w.cfg.Seed, w.cfg.voters, len(w.cfg.members)-w.cfg.voters, w.cfg.zab.SilenceLimit, w.cfg.zab.Lease, w.cfg.zab.Heartbeat,
		w.cfg.zab.InitLimit, w.cfg.zab.SyncLimit, check.Zx(uint64(w.cfg.age)))
	for _, s := range w.servers {
		if w.rnd.n(12) == 0 { // it ends while it founds or joins
			s.atBoot = &doom{how: crashPower, op: dooms[w.rnd.n(len(dooms))], dur: w.rnd.delay(5*ms, s1)}
		}
		if !w.cfg.late[s.i] {
			s.boot()
		}
	}
	for _, p := range w.pairs {
		w.at(p.rnd.between(0, 30*ms), event{kind: evDial, a: int32(p.index)})
	}
	for _, c := range w.clients {
		w.at(c.rnd.between(0, 500*ms), event{kind: evClient, a: int32(c.i)})
	}
	for i, f := range w.faults {
		w.agenda.push(event{at: f.at, kind: evFault, a: int32(i)})
	}
	w.agenda.push(event{at: w.cfg.storm, kind: evHeal})
}

// at puts an event on the agenda, so long from now.
func (w *World) at(in int64, e event) {
	e.at = w.now + in
	w.agenda.push(e)
}

func (w *World) fail(name, format string, args ...any) {
	if w.fault == nil {
		w.fault = &check.Fault{Name: name, Detail: fmt.Sprintf(format, args...)}
		w.logf("FAULT %v", w.fault)
	}
}

// logf writes a line of the trace.
func (w *World) logf(format string, args ...any) {
	if w.trace != nil {
		fmt.Fprintf(w.trace, "%9.4f  %s\n", float64(w.now)/float64(s1), fmt.Sprintf(format, args...))
	}
}

func (w *World) note(v uint64) { w.hash = (w.hash ^ v) * 0xff51afd7ed558ccd }

// maxEvents is more than any run needs.
const maxEvents = 5_000_000

// step lets the next event happen.
func (w *World) step() {
	e := w.agenda.pop()
	w.now = e.at
	if w.stats.Events++; w.stats.Events > maxEvents {
		w.fail("L1", "no end of events")
	}
	w.note(uint64(e.at)<<8 | uint64(e.kind))
	w.note(uint64(e.a)<<32 | uint64(uint32(e.b)))
	switch e.kind {
	case evNet, evDial, evSilence, evLate:
		w.network(e)
	case evChunk:
		w.sendChunk(e)
	case evOpen, evDown, evClient:
		w.clientEvent(e)
	case evRead, evConnFlush, evConnEnd:
		w.connEvent(e)
	case evFault:
		w.strike(&w.faults[e.a])
	case evCutLogs:
		w.cutLogs(int(e.a))
	case evMend:
		w.servers[e.a].mend()
	case evHeal:
		w.heal()
	case evProbe:
		w.probe()
	case evBoot:
		w.servers[e.a].boot()
	case evExit:
		if s := w.servers[e.a]; s.up && s.gen == e.gen {
			s.crash(crashKind(e.b), "exit")
		}
	default:
		w.servers[e.a].event(e)
	}
}

// Link names: a pair's index.
func pairIndex(a, b int) int {
	if a > b {
		a, b = b, a
	}
	return b*(b-1)/2 + a
}

func (w *World) pair(a, b int) *pair { return w.pairs[pairIndex(a, b)] }
