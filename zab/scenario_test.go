package zab

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"
)

// TestScenarios runs the scripts of testdata/zab. Each directive's first line and the lines below it are commands; what
// they make the servers say is the expectation. -rewrite regenerates it: review the difference like code. Every
// directive ends with the invariants of the specification's part C checked.
func TestScenarios(t *testing.T) {
	datadriven.Walk(t, "../testdata/zab", func(t *testing.T, path string) {
		s := &scenario{}
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			lines := []string{d.Cmd}
			for _, a := range d.CmdArgs {
				lines[0] += " " + a.String()
			}
			if d.Input != "" {
				lines = append(lines, strings.Split(d.Input, "\n")...)
			}
			for _, line := range lines {
				if err := s.run(strings.Fields(line)); err != nil {
					d.Fatalf(t, "%s: %v", line, err)
				}
			}
			out := s.c.out.String()
			s.c.out.Reset()
			for _, f := range s.c.faults {
				out += "BROKEN " + f + "\n"
			}
			s.c.faults = nil
			if out == "" {
				out = "ok\n"
			}
			return out
		})
	})
}

type scenario struct {
	c *cluster
}

// args are a command's positional words and its key=value pairs.
type args struct {
	pos []string
	kv  map[string]string
}

func (a args) id(i int) ServerID {
	if i >= len(a.pos) {
		return 0
	}
	n, _ := strconv.ParseUint(a.pos[i], 10, 8)
	return ServerID(n)
}

func (a args) num(key string, def int) int {
	v, ok := a.kv[key]
	if !ok {
		return def
	}
	n, err := strconv.ParseInt(v, 0, 64)
	if err != nil {
		panic(err)
	}
	return int(n)
}

func (a args) zxid(key string) Zxid {
	v, ok := a.kv[key]
	if !ok {
		return 0
	}
	return parseZxid(v)
}

func parseZxid(s string) Zxid {
	e, n, _ := strings.Cut(s, ":")
	a, _ := strconv.ParseUint(e, 10, 32)
	b, _ := strconv.ParseUint(n, 0, 32)
	return MakeZxid(Epoch(a), uint32(b))
}

func (a args) dur(key string, def time.Duration) time.Duration {
	if v, ok := a.kv[key]; ok {
		d, err := time.ParseDuration(v)
		if err != nil {
			panic(err)
		}
		return d
	}
	return def
}

func (s *scenario) run(words []string) error {
	if len(words) == 0 {
		return nil
	}
	a := args{kv: map[string]string{}}
	for _, w := range words[1:] {
		if k, v, ok := strings.Cut(w, "="); ok {
			a.kv[k] = v
		} else {
			a.pos = append(a.pos, w)
		}
	}
	cmd := commands()[words[0]]
	if cmd == nil {
		return fmt.Errorf("unknown command")
	}
	if s.c == nil && words[0] != "boot" {
		return fmt.Errorf("boot first")
	}
	return cmd(s, a)
}

func commands() map[string]func(*scenario, args) error {
	return map[string]func(*scenario, args) error{
		"boot": (*scenario).boot, "disk": (*scenario).disk, "elect": (*scenario).elect, "tick": (*scenario).tick,
		"pause": (*scenario).pause, "deliver": (*scenario).deliver, "drop": (*scenario).drop, "persist": (*scenario).persist,
		"apply": (*scenario).apply, "snapshot": (*scenario).snapshot, "crash": (*scenario).crash, "restart": (*scenario).restart,
		"wipe": (*scenario).wipe, "damage": (*scenario).damage, "propose": (*scenario).propose, "sync": (*scenario).sync,
		"cut": (*scenario).cut, "connect": (*scenario).connect, "block": (*scenario).block, "unblock": (*scenario).unblock,
		"stabilize": (*scenario).stabilize, "handover": (*scenario).handover, "stepdown": (*scenario).stepdown,
		"inject": (*scenario).inject, "state": (*scenario).state, "log": (*scenario).log, "queue": (*scenario).queue,
		"links": (*scenario).links, "check": (*scenario).check, "trace": (*scenario).traceOn, "reads": (*scenario).reads,
		"cutlog": (*scenario).cutlog, "flush": (*scenario).flush, "lease": (*scenario).lease, "ungated": (*scenario).ungatedHost,
		"progress": (*scenario).progress, "stuck": (*scenario).stuck, "unstuck": (*scenario).unstuck,
	}
}

// boot voters=3 [observers=1] [groups=1,1,2] [weights=1,1,0] [window=N] [run=N] [counter=N] [off=3,4]: fresh, linked servers.
func (s *scenario) boot(a args) error {
	ms := voters(a.num("voters", 3))
	if g := a.kv["groups"]; g != "" {
		for i, f := range strings.Split(g, ",") {
			n, _ := strconv.Atoi(f)
			ms[i].Group = uint64(n)
		}
	}
	if g := a.kv["weights"]; g != "" {
		for i, f := range strings.Split(g, ",") {
			n, _ := strconv.Atoi(f)
			ms[i].Weight = uint64(n)
		}
	}
	for range a.num("observers", 0) {
		ms = append(ms, Member{ID: ServerID(len(ms) + 1), Observer: true})
	}
	o := Options{Window: a.num("window", 0), RunBytes: a.num("run", 0), CounterLimit: uint32(a.num("counter", 0))}
	o.SilenceLimit, o.Lease, o.Heartbeat = time.Second, 500*time.Millisecond, 100*time.Millisecond
	o.InitLimit, o.SyncLimit, o.HandOverLimit = a.dur("init", 10*time.Second), 5*time.Second, 200*time.Millisecond
	s.c = newCluster(ms, o, 1)
	for _, id := range s.c.ids {
		if slices.Contains(strings.Split(a.kv["off"], ","), fmt.Sprint(id)) {
			continue
		}
		if err := s.restartOne(id); err != nil {
			return err
		}
	}
	return nil
}

func (s *scenario) restartOne(id ServerID) error {
	if n := s.c.nodes[id]; n.up {
		s.c.crash(n, 0)
	}
	if err := s.c.start(s.c.nodes[id]); err != nil {
		s.c.logf("%d: does not start: %v", id, err)
		return nil
	}
	for _, o := range s.c.ids {
		s.c.connect(id, o)
	}
	return nil
}

// disk ID accepted=N current=N log=1:3,2:5 [base=1:2] [commit=1:2] [state=1:2] [ensemble=N]: what a server has when it
// is started next; log names the end of each epoch. What it says of a zxid is the same on every server.
func (s *scenario) disk(a args) error {
	n := s.c.nodes[a.id(0)]
	if n.up {
		s.c.crash(n, 0)
	}
	im := image{
		hard: HardState{Accepted: Epoch(a.num("accepted", 0)), Current: Epoch(a.num("current", 0))},
		base: a.zxid("base"), commit: a.zxid("commit"), ensemble: ID(a.num("ensemble", 1)),
	}
	var all []Entry
	prev := Zxid(0)
	for _, f := range strings.Split(a.kv["log"], ",") {
		if f == "" {
			continue
		}
		end := parseZxid(f)
		for z := MakeZxid(end.Epoch(), 1); z <= end; z++ {
			e := Entry{Zxid: z, Data: []byte("@" + zx(prev) + " x")}
			if old, ok := s.c.ghost.proposed[z]; ok && old != string(e.Data) {
				return fmt.Errorf("%s differs from another server's", zx(z))
			}
			s.c.ghost.proposed[z] = string(e.Data)
			all = append(all, e)
			prev = z
		}
		im.epochs = append(im.epochs, EpochEnd{end.Epoch(), end})
	}
	state := max(a.zxid("state"), im.base)
	for i, e := range all {
		if e.Zxid > im.base {
			im.log = append(im.log, e)
		}
		if e.Zxid <= max(im.commit, state) {
			s.c.delivered(n, i, e)
		}
		if e.Zxid <= state {
			im.tree = append(im.tree, e)
		}
	}
	n.disk = im
	return nil
}

// elect LEADER [by=1,2]: the election chose it; by: only these heard. Those with a role keep it.
func (s *scenario) elect(a args) error {
	for _, id := range s.c.ids {
		n := s.c.nodes[id]
		if by, ok := a.kv["by"]; ok && !slices.Contains(strings.Split(by, ","), fmt.Sprint(id)) {
			continue
		}
		if n.up && n.core.Role() == Looking {
			n.step(Elected{a.id(0)})
		}
	}
	return nil
}

// tick DURATION [ID | stabilize [moves=0]]: time passes in quanta; messages and disks stand still, or everything (but
// snapshots) goes on.
func (s *scenario) tick(a args) error {
	d, err := time.ParseDuration(a.pos[0])
	if err != nil {
		return err
	}
	settle := len(a.pos) > 1 && a.pos[1] == "stabilize"
	if a.num("moves", 1) == 0 { // snapshots under way stay there
		s.c.frozen = true
		defer func() { s.c.frozen = false }()
	}
	for ; d > 0; d -= QuantumLength {
		for _, id := range s.c.ids {
			if len(a.pos) == 1 || settle || a.id(1) == id {
				s.c.nodes[id].tick(QuantumLength, 0)
			}
		}
		if settle {
			s.c.settle()
		}
	}
	return nil
}

// pause ID DURATION: the process stood still; its next quantum comes so late.
func (s *scenario) pause(a args) error {
	d, err := time.ParseDuration(a.pos[1])
	if err != nil {
		return err
	}
	s.c.nodes[a.id(0)].tick(d, d-QuantumLength)
	return nil
}

func (a args) pair(i int) (x, y ServerID) {
	l, r, ok := strings.Cut(a.pos[i], "->")
	if !ok {
		l, r, _ = strings.Cut(a.pos[i], "-")
	}
	p, _ := strconv.Atoi(l)
	q, _ := strconv.Atoi(r)
	return ServerID(p), ServerID(q)
}

// deliver 1->2 [n=N]: the next messages, all by default.
func (s *scenario) deliver(a args) error {
	x, y := a.pair(0)
	old := s.c.trace
	s.c.trace = true
	for n := a.num("n", 1<<20); n > 0 && s.c.receive(x, y); n-- {
	}
	s.c.trace = old
	return nil
}

// drop 1->2: what is under way is lost and, as no stream loses its middle, the link goes.
func (s *scenario) drop(a args) error {
	x, y := a.pair(0)
	s.c.disconnect(x, y)
	return nil
}

// persist ID [upto=SEQ]: queued ops become durable and the core hears of it.
func (s *scenario) persist(a args) error {
	s.c.nodes[a.id(0)].sync(uint64(a.num("upto", 0)))
	return nil
}

// stuck ID: its disk completes nothing until unstuck.
func (s *scenario) stuck(a args) error   { s.c.nodes[a.id(0)].stuck = true; return nil }
func (s *scenario) unstuck(a args) error { s.c.nodes[a.id(0)].stuck = false; return nil }

func (s *scenario) apply(a args) error {
	s.c.nodes[a.id(0)].apply(a.num("n", -1))
	return nil
}

// snapshot offer ID [at=Z] | snapshot sent A->B | snapshot fail A->B
func (s *scenario) snapshot(a args) error {
	if a.pos[0] == "offer" {
		at := a.zxid("at")
		s.c.nodes[a.id(1)].offerSnapshots(func(_, applied Zxid) Zxid {
			if at != 0 {
				return at
			}
			return applied
		})
		return nil
	}
	x, y := a.pair(1)
	for _, m := range slices.Clone(s.c.moves) {
		if m.from == x && m.to == y {
			s.c.move(m, a.pos[0] == "sent")
			return nil
		}
	}
	return fmt.Errorf("nothing under way")
}

// progress A->B: the snapshot moved on, at both ends.
func (s *scenario) progress(a args) error {
	x, y := a.pair(0)
	s.c.nodes[x].step(SnapshotProgress{s.c.links[[2]ServerID{y, x}].link})
	s.c.nodes[y].step(SnapshotProgress{s.c.links[[2]ServerID{x, y}].link})
	return nil
}

// crash ID [keep=N|all]: the queued ops that survive without having been reported.
func (s *scenario) crash(a args) error {
	n := s.c.nodes[a.id(0)]
	keep := len(n.queue)
	if a.kv["keep"] != "all" {
		keep = a.num("keep", 0)
	}
	s.c.crash(n, keep)
	return nil
}

func (s *scenario) restart(a args) error {
	for i := range a.pos {
		if err := s.restartOne(a.id(i)); err != nil {
			return err
		}
	}
	return nil
}

func (s *scenario) wipe(a args) error {
	n := s.c.nodes[a.id(0)]
	if n.up {
		s.c.crash(n, 0)
	}
	n.disk = image{}
	return nil
}

// damage ID: its state is unreadable when it is started next; its log is whole.
func (s *scenario) damage(a args) error {
	n := s.c.nodes[a.id(0)]
	if n.up {
		s.c.crash(n, 0)
	}
	n.disk.needSnap, n.disk.tree = true, nil
	return nil
}

// propose ID [n=N]
func (s *scenario) propose(a args) error {
	if !s.c.propose(s.c.nodes[a.id(0)], a.num("n", 1)) {
		s.c.logf("%d: may not propose", a.id(0))
	}
	return nil
}

func (s *scenario) sync(a args) error {
	s.c.askSync(s.c.nodes[a.id(0)], uint64(a.id(1)))
	return nil
}

func (s *scenario) cut(a args) error {
	for i := range a.pos {
		x, y := a.pair(i)
		s.c.disconnect(x, y)
	}
	return nil
}

func (s *scenario) connect(a args) error {
	for i := range a.pos {
		x, y := a.pair(i)
		s.c.connect(x, y)
	}
	return nil
}

// block 1->2: messages wait on the link.
func (s *scenario) block(a args) error   { return s.setBlocked(a, true) }
func (s *scenario) unblock(a args) error { return s.setBlocked(a, false) }

func (s *scenario) setBlocked(a args, b bool) error {
	for i := range a.pos {
		x, y := a.pair(i)
		s.c.links[[2]ServerID{x, y}].blocked = b
	}
	return nil
}

func (s *scenario) stabilize(args) error { s.c.settle(); return nil }

func (s *scenario) handover(a args) error {
	s.c.nodes[a.id(0)].step(HandOver{To: a.id(1)})
	return nil
}

func (s *scenario) stepdown(a args) error {
	s.c.nodes[a.id(0)].step(StepDown{ReasonStopping})
	return nil
}

func (s *scenario) traceOn(a args) error { s.c.trace = a.pos[0] == "on"; return nil }

// ungated: from now on the host sends promises without waiting for the disk. The checks must notice.
func (s *scenario) ungatedHost(args) error { s.c.ungated = true; return nil }

func (s *scenario) reads(a args) error { s.c.nodes[a.id(0)].answerReads(); return nil }

// cutlog ID to=Z: the state is flushed and the log cut up to it, or to what cursors allow.
func (s *scenario) cutlog(a args) error {
	n := s.c.nodes[a.id(0)]
	n.flushState()
	n.cutLog(a.zxid("to"), false)
	return nil
}

func (s *scenario) flush(a args) error { s.c.nodes[a.id(0)].flushState(); return nil }

// lease ID: whether it may answer clients now.
func (s *scenario) lease(a args) error {
	n := s.c.nodes[a.id(0)]
	switch {
	case !n.serving:
		s.c.logf("%d: not serving", n.id)
	case n.lease-n.now > time.Hour:
		s.c.logf("%d: lease without end", n.id)
	default:
		s.c.logf("%d: lease %v", n.id, n.lease-n.now)
	}
	return nil
}

// inject A->B MESSAGE epoch=N z=Z prev=Z ...: B receives what A never said.
func (s *scenario) inject(a args) error {
	x, y := a.pair(0)
	e, z := Epoch(a.num("epoch", 0)), a.zxid("z")
	var m Message
	switch a.pos[1] {
	case "Append":
		m = &Append{Epoch: e, Prev: a.zxid("prev"), Entries: []Entry{{Zxid: z, Data: []byte("@" + zx(a.zxid("prev")) + " x")}}, Committed: a.zxid("committed")}
	case "Ack":
		m = &Ack{Epoch: e, Durable: z}
	case "AckNewLeader":
		m = &AckNewLeader{Epoch: e, HistoryEnd: z}
	case "NewLeader":
		m = &NewLeader{Epoch: e, HistoryEnd: z, Ensemble: 1}
	case "Commit":
		m = &Commit{Epoch: e, Zxid: z}
	case "UpToDate":
		m = &UpToDate{Epoch: e, Committed: z}
	case "SyncBegin":
		m = &SyncBegin{Epoch: e, Mode: SyncMode(a.num("mode", 2)), TruncateTo: z, Snapshot: a.zxid("snapshot")}
	case "LeaderInfo":
		m = &LeaderInfo{Epoch: e, Ensemble: ID(a.num("ensemble", 1))}
	case "LearnerInfo":
		m = &LearnerInfo{
			Ensemble: ID(a.num("ensemble", 1)), Accepted: Epoch(a.num("accepted", 0)), Transaction: a.num("tx", 1) == 1,
			Version: uint32(a.num("version", ProtocolVersion)), ConfigSum: ConfigSum(s.c.members) + uint64(a.num("list", 0)),
		}
	case "AckEpoch":
		m = &AckEpoch{Epoch: e, Counts: true, Current: Epoch(a.num("current", 0)), Last: z, Delivered: a.zxid("delivered")}
	default:
		return fmt.Errorf("unknown message")
	}
	s.c.logf("%d->%d %s", x, y, describe(m))
	s.c.nodes[y].step(Received{Link: s.c.links[[2]ServerID{x, y}].link, Msg: m})
	return nil
}

func (s *scenario) state(args) error {
	for _, id := range s.c.ids {
		n := s.c.nodes[id]
		if !n.up {
			s.c.logf("%d: down", id)
			continue
		}
		st := n.core.Status()
		who := ""
		if st.Leader != 0 && st.Leader != id {
			who = fmt.Sprintf(" %d", st.Leader)
		}
		s.c.logf("%d: %v%s %s epoch=%d accepted=%d current=%d last=%s committed=%s", id, st.Role, who, st.Phase, st.Epoch, st.Hard.Accepted, st.Hard.Current, zx(st.Last), zx(st.Committed))
		for _, l := range st.Learners {
			s.c.logf("   %d: %s match=%s sent=%s in flight=%d", l.ID, l.State, zx(l.Match), zx(l.Cursor), l.InFlight)
		}
	}
	return nil
}

// log: what each disk holds for certain, and what is applied.
func (s *scenario) log(args) error {
	for _, id := range s.c.ids {
		n := s.c.nodes[id]
		applied := Zxid(0)
		if k := len(n.tree); k > 0 {
			applied = n.tree[k-1].Zxid
		}
		table := ""
		for _, r := range n.disk.epochs {
			table += " " + zx(r.Last)
		}
		s.c.logf("%d: disk (%s,%s] epochs%s commit=%s accepted=%d current=%d applied=%s", id, zx(n.disk.base), zx(n.disk.last()), table, zx(n.disk.commit), n.disk.hard.Accepted, n.disk.hard.Current, zx(applied))
	}
	return nil
}

func (s *scenario) queue(a args) error {
	n := s.c.nodes[a.id(0)]
	for _, q := range n.queue {
		op := q.op
		text := fmt.Sprintf("%d: op %d", n.id, op.Seq)
		if op.Install != nil {
			text += fmt.Sprintf(" install %s common %s", zx(op.Install.Zxid), zx(op.Install.Common))
		}
		if op.Truncate != nil {
			text += " truncate " + zx(*op.Truncate)
		}
		if k := len(op.Append); k > 0 {
			text += fmt.Sprintf(" append %s..%s", zx(op.Append[0].Zxid), zx(op.Append[k-1].Zxid))
		}
		if op.Hard != nil {
			text += fmt.Sprintf(" accepted=%d current=%d", op.Hard.Accepted, op.Hard.Current)
		}
		if op.Ensemble != 0 {
			text += " stamp"
		}
		if op.Unstamp {
			text += " unstamp"
		}
		s.c.logf("%s commit=%s", text, zx(op.Commit))
	}
	for _, g := range n.gated {
		s.c.logf("%d: after op %d to %d: %s", n.id, g.Seq, g.Link.Peer, describe(g.Msg))
	}
	return nil
}

func (s *scenario) links(args) error {
	for _, x := range s.c.ids {
		for _, y := range s.c.ids {
			if p := s.c.links[[2]ServerID{x, y}]; p != nil && p.up {
				for _, m := range p.queue {
					s.c.logf("%d->%d waits: %s", x, y, describe(m))
				}
			}
		}
	}
	return nil
}

// check is part of every directive; this one says so where a reader looks for it.
func (s *scenario) check(args) error {
	for _, id := range s.c.ids {
		if n := s.c.nodes[id]; n.up {
			n.observe()
		}
	}
	if len(s.c.faults) == 0 {
		s.c.logf("invariants hold; %d delivered in all", len(s.c.ghost.order))
	}
	return nil
}
