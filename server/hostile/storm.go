//go:build linux

package hostile

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/zkserver/zkserver/client"
	"github.com/zkserver/zkserver/server/hostile/history"
)

// Options of a storm. What is not said to have a default must be set.
type Options struct {
	Seed      uint64        // draws the faults, and what the clients do
	Length    time.Duration // of the faults
	Voters    int
	Observers int
	Workers   int           // clients, every other one on gRPC
	Think     time.Duration // a client's longest pause between two operations
	Dir       string        // for data and logs; it is empty
	Ports     []int         // of 127.0.0.1, three a server
	Binary    string        // a zkserver for the servers with odd numbers; "": every server is this program (Child)
	Means     bool          // small file systems and control groups, where the kernel allows them
	Calm      time.Duration // how long the ensemble may take after the last fault to take a write on every server
	Out       io.Writer     // told what happens
}

// Report is what came of a storm.
type Report struct {
	Seed              uint64
	Voters, Observers int
	Length            time.Duration
	Strikes           int
	Kinds             map[string]int // of faults
	Refused           []string       // means that the kernel refused
	History           history.Report
	Sessions, Expired int           // made; expired by right
	Progress          time.Duration // the longest from the last fault to a write on every server
	Silence           time.Duration // the longest that a client had no answer
	Late              time.Duration // the longest that this program itself was not run when it should have been
	Faults            []string      // of the product, all of them; empty: it held
}

// Storm is one run.
type Storm struct {
	o       Options
	began   time.Time // of the faults, once there are any
	net     *Network
	servers []*process
	rec     *history.Recorder
	cleanup []func() error

	mu     sync.Mutex
	report Report
	live   map[int]bool // sessions
}

func newStorm(o Options) *Storm {
	s := &Storm{o: o, began: time.Now(), net: NewNetwork(), live: map[int]bool{}}
	s.report = Report{Seed: o.Seed, Voters: o.Voters, Observers: o.Observers, Length: o.Length, Kinds: map[string]int{}}
	clock := s.began // began moves on
	s.rec = history.NewRecorder(func() int64 { return int64(time.Since(clock)) })
	return s
}

// end ends every process and gives back what was taken from the machine.
func (s *Storm) end() error {
	var err error
	for _, p := range s.servers {
		p.kill()
	}
	for _, f := range slices.Backward(s.cleanup) {
		err = errors.Join(err, f())
	}
	s.net.Close()
	return err
}

// Run runs a storm and checks what came of it. An error says that it could not be run.
func Run(ctx context.Context, o Options) (Report, error) {
	ctx, cancel := context.WithTimeout(ctx, o.Length+10*o.Calm)
	defer cancel()
	s := newStorm(o)
	var watch sync.WaitGroup
	watch.Go(func() { s.watch(ctx) }) // ends with ctx
	err := s.prepare()
	if err == nil {
		err = s.run(ctx)
	}
	err = errors.Join(err, s.end())
	cancel()
	watch.Wait()
	for _, p := range s.servers {
		s.fault(p.checkLog())
	}
	return s.report, err
}

func (s *Storm) logf(format string, args ...any) {
	fmt.Fprintf(s.o.Out, "%8.3f  %s\n", time.Since(s.began).Seconds(), fmt.Sprintf(format, args...))
}

// fault notes that the product has failed; nil does nothing.
func (s *Storm) fault(err error) {
	if err == nil {
		return
	}
	s.logf("FAULT %v", err)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.report.Faults = append(s.report.Faults, err.Error())
}

func (s *Storm) newSession() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.report.Sessions++
	s.live[s.report.Sessions] = true
	return s.report.Sessions
}

func (s *Storm) expired(session int) {
	s.forget(session)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.report.Expired++
}

// forget takes a session for ended, or about to end.
func (s *Storm) forget(session int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.live, session)
}

// generations is how many generations of objects a storm has at most.
func (s *Storm) generations() int { return int(s.o.Length/generation) + 1 }

// generation is that in use now.
func (s *Storm) generation() int {
	return min(int(time.Since(s.began)/generation), s.generations()-1)
}

// prepare writes the configurations, and makes what the faults need.
func (s *Storm) prepare() error {
	rng := rand.New(rand.NewPCG(s.o.Seed, 2))
	n := s.o.Voters + s.o.Observers
	if len(s.o.Ports) < 3*n {
		return fmt.Errorf("hostile: %d ports for %d servers, want three each", len(s.o.Ports), n)
	}
	text := fmt.Sprintf("tickTime=%d\ninitLimit=20\nsyncLimit=10\nsilenceLimit=1000\nmaxClientCnxns=0\nmaxSessionTimeout=60000\n4lw.commands.whitelist=*\n",
		[]int{200, 300, 500}[rng.IntN(3)])
	if rng.IntN(2) == 0 {
		text += "commitLogCount=200\n" // whoever was away needs a snapshot
	}
	for i := range n {
		role := "participant"
		if i >= s.o.Voters {
			role = "observer"
		}
		text += fmt.Sprintf("server.%d=127.0.0.1:%d:%d:%s;127.0.0.1:%d\n", i+1, s.o.Ports[3*i], s.o.Ports[3*i+1], role, s.o.Ports[3*i+2])
	}
	for i := range n {
		p := &process{id: i + 1, observer: i >= s.o.Voters, dir: filepath.Join(s.o.Dir, strconv.Itoa(i+1)), addr: local(s.o.Ports[3*i+2])}
		if rng.IntN(2) == 0 {
			p.env = []string{"GOMEMLIMIT=24MiB"}
		}
		if p.id%2 == 1 {
			p.binary = s.o.Binary
		}
		if err := s.equip(p, text); err != nil {
			return err
		}
		s.servers = append(s.servers, p)
	}
	return nil
}

func local(port int) string { return "127.0.0.1:" + strconv.Itoa(port) }

// equip gives a server its directories, its configuration, and the means to do it harm.
func (s *Storm) equip(p *process, text string) error {
	if err := os.MkdirAll(p.data(), 0o750); err != nil {
		return err
	}
	if s.o.Means && p.binary != "" {
		b, err := mountSmall(p.data())
		if s.granted("a small file system", err) {
			p.ballast = b
			s.cleanup = append(s.cleanup, b.unmount)
		}
	}
	if s.o.Means {
		g, err := newMemoryGroup(fmt.Sprintf("zkserver-%d-%d", os.Getpid(), p.id))
		if s.granted("a memory control group", err) {
			p.memory = g
			s.cleanup = append(s.cleanup, g.remove)
		}
	}
	own, err := s.net.Through(p.id, text)
	if err != nil {
		return err
	}
	port, err := s.net.Relay(Clients, p.id, p.addr)
	if err != nil {
		return err
	}
	p.via = local(port)
	if err := os.WriteFile(filepath.Join(p.dir, "zoo.cfg"), []byte(own+"dataDir="+p.data()+"\n"), 0o600); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(p.data(), "myid"), []byte(strconv.Itoa(p.id)+"\n"), 0o600)
}

// granted notes a means that is refused.
func (s *Storm) granted(what string, err error) bool {
	if err != nil {
		if line := fmt.Sprintf("%s: %v", what, err); len(s.report.Refused) < 4 {
			s.report.Refused = append(s.report.Refused, line)
		}
	}
	return err == nil
}

func (s *Storm) run(ctx context.Context) error {
	n := &nemesis{s: s, rng: rand.New(rand.NewPCG(s.o.Seed, 1)), count: s.report.Kinds}
	n.restart()
	if err := s.setUp(ctx); err != nil {
		return fmt.Errorf("hostile: before the storm: %w", err)
	}
	workers := s.hire()
	if err := s.warmUp(ctx, workers); err != nil {
		return err
	}
	s.began = time.Now()
	storm, stop := context.WithTimeout(ctx, s.o.Length)
	defer stop()
	var wg sync.WaitGroup
	for _, w := range workers {
		wg.Go(func() { w.run(storm) }) // ends with storm
	}
	for storm.Err() == nil {
		for range 8 {
			if storm.Err() == nil {
				n.strike(storm)
				s.report.Strikes++
			}
		}
		n.settle(ctx)
	}
	wg.Wait()
	if ctx.Err() != nil {
		return ctx.Err()
	}
	s.logf("the faults have ended")
	for _, w := range workers {
		w.survive(ctx)
		s.report.Silence = max(s.report.Silence, w.longest)
	}
	s.sameTrees(ctx)
	s.finalReads(ctx, workers)
	for _, w := range workers {
		w.leave()
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	s.logf("checking %d operations", len(s.rec.Ops()))
	ops, err := s.resolve(ctx, s.rec.Ops())
	if err != nil {
		return err
	}
	s.report.History = history.Verify(ops, s.o.Calm)
	for _, f := range s.report.History.Faults {
		s.fault(errors.New(f))
	}
	if len(s.report.Faults) > 0 {
		return s.dump(ops)
	}
	return nil
}

// watch notes how late this program is run. What clients see of a machine that is so busy says nothing of the servers.
func (s *Storm) watch(ctx context.Context) {
	for last := time.Now(); ctx.Err() == nil; last = time.Now() {
		pause(ctx, poll)
		if ctx.Err() == nil {
			s.report.Late = max(s.report.Late, time.Since(last)-poll)
		}
	}
}

// dump leaves the history of a storm that has found something.
func (s *Storm) dump(ops []*history.Op) error {
	f, err := os.Create(filepath.Join(s.o.Dir, "history.json"))
	if err != nil {
		return err
	}
	return errors.Join(history.Dump(f, ops), f.Close())
}

// setUp waits until every server serves and makes what the workers need.
func (s *Storm) setUp(ctx context.Context) error {
	c, err := s.dial(ctx, s.servers[0].addr)
	if err != nil {
		return err
	}
	defer hangUp(c)
	nodes := []string{root, root + "/calm"}
	for g := range s.generations() {
		nodes = append(nodes, path(sequence(g), 0))
	}
	for _, node := range nodes {
		if _, err := c.Create(ctx, node, nil, client.Persistent); err != nil {
			return err
		}
	}
	return s.progress(ctx)
}

// dial makes a session at one server, past the network.
func (s *Storm) dial(ctx context.Context, addr string) (*client.Client, error) {
	limit, cancel := context.WithTimeout(ctx, s.o.Calm)
	defer cancel()
	return client.Dial(limit, addr, client.Options{SessionTimeout: 30 * time.Second, BackoffMin: 10 * time.Millisecond, BackoffMax: 100 * time.Millisecond})
}

// hangUp closes a client. A server that takes longer than a client waits for the end, a second, has done nothing wrong.
func hangUp(c *client.Client) { _ = c.Close() }

// progress waits until every server takes a write.
func (s *Storm) progress(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, s.o.Calm)
	defer cancel()
	for _, p := range s.servers {
		c, err := s.dial(ctx, p.addr)
		if err != nil {
			return fmt.Errorf("server %d: %w", p.id, err)
		}
		for err = client.ErrConnectionLoss; err != nil && ctx.Err() == nil; {
			_, err = c.Set(ctx, root+"/calm", []byte(strconv.Itoa(p.id)), client.AnyVersion)
		}
		hangUp(c)
		if err != nil {
			return fmt.Errorf("server %d: %w", p.id, err)
		}
	}
	return nil
}

func (s *Storm) hire() []*worker {
	var servers []string
	for _, p := range s.servers {
		servers = append(servers, p.via)
	}
	var out []*worker
	for i := range s.o.Workers {
		out = append(out, &worker{
			s: s, id: i, rng: rand.New(rand.NewPCG(s.o.Seed, uint64(100+i))), wire: client.Wire(i % 2), servers: strings.Join(servers, ","),
		})
	}
	return out
}

// warmUp lets every worker do something before the faults begin: a storm on a busy machine must not be an idle one.
func (s *Storm) warmUp(ctx context.Context, workers []*worker) error {
	ctx, cancel := context.WithTimeout(ctx, s.o.Calm)
	defer cancel()
	for _, w := range workers {
		for w.c == nil {
			if !w.dial(ctx) && ctx.Err() != nil {
				return fmt.Errorf("hostile: no session before the storm: %w", ctx.Err())
			}
		}
		for range 10 {
			w.act(ctx)
		}
	}
	return nil
}

// survive says whether the worker's session has outlived the storm, and leaves it open.
func (w *worker) survive(ctx context.Context) {
	if w.c == nil {
		return
	}
	limit, cancel := context.WithTimeout(ctx, w.s.o.Calm)
	defer cancel()
	for err := error(client.ErrConnectionLoss); client.CodeOf(err) == client.ErrConnectionLoss && limit.Err() == nil; {
		err = w.c.Sync(limit, root)
		if code := client.CodeOf(err); code != client.OK && code != client.ErrConnectionLoss && code != client.ErrSessionExpired {
			w.s.fault(fmt.Errorf("client %d after the storm: %w", w.id, err))
		}
	}
	w.look()
}

func (w *worker) leave() {
	if w.c != nil {
		hangUp(w.c)
	}
}

const poll = 20 * time.Millisecond

// sameTrees waits until all servers have applied the same, and compares their digests (I11).
func (s *Storm) sameTrees(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, s.o.Calm)
	defer cancel()
	for {
		var all [][]string
		same := true
		for _, p := range s.servers {
			all = append(all, p.digests())
			same = same && all[len(all)-1] != nil && all[0] != nil && all[len(all)-1][0] == all[0][0]
		}
		if same {
			for i, d := range all {
				if !slices.Equal(d, all[0]) {
					s.fault(fmt.Errorf("trees differ: server %d has %v, server %d has %v", i+1, d, 1, all[0]))
				}
			}
			return
		}
		if ctx.Err() != nil {
			s.fault(fmt.Errorf("the servers do not come to the same zxid: %v", all))
			return
		}
		pause(ctx, poll)
	}
}

// finalReads reads everything at every server, behind a sync, as part of the history; and whose sessions live.
func (s *Storm) finalReads(ctx context.Context, workers []*worker) {
	for _, p := range s.servers {
		c, err := s.dial(ctx, p.addr)
		if err != nil {
			s.fault(fmt.Errorf("server %d after the storm: %w", p.id, err))
			continue
		}
		w := &worker{s: s, id: -p.id, c: c, session: -p.id, known: map[string]int32{}}
		for g := range s.generations() {
			for i := range singles {
				w.get(ctx, fmt.Sprintf("r%d.%d", g, i), history.Read)
			}
			w.both(ctx, fmt.Sprintf("p%d", g), history.Read)
			w.count(ctx, sequence(g))
		}
		s.fault(s.signs(ctx, c, workers))
		hangUp(c)
	}
}

// signs waits until exactly the sessions that live have their ephemeral nodes.
func (s *Storm) signs(ctx context.Context, c *client.Client, workers []*worker) error {
	ctx, cancel := context.WithTimeout(ctx, s.o.Calm)
	defer cancel()
	for {
		names, _, err := c.Children(ctx, root)
		if client.CodeOf(err) == client.ErrConnectionLoss && ctx.Err() == nil {
			continue
		}
		if err != nil {
			return err
		}
		there, extra := map[int]bool{}, 0
		for _, name := range names {
			if digits, is := strings.CutPrefix(name, "live-"); is {
				id, _ := strconv.Atoi(digits) // our own name
				if there[id] = true; !s.live[id] {
					extra++
				}
			}
		}
		for _, w := range workers {
			if w.c == nil || there[w.session] {
				continue
			}
			if w.survive(ctx); w.c != nil { // else it has expired by right since
				return fmt.Errorf("session %d lives and has no ephemeral node any more", w.session)
			}
		}
		switch {
		case extra == 0:
			return nil
		case ctx.Err() != nil:
			return fmt.Errorf("%d ephemeral nodes of sessions that have ended", extra)
		}
		pause(ctx, poll)
	}
}

// resolve settles the sequential creates whose answers got lost.
func (s *Storm) resolve(ctx context.Context, ops []*history.Op) ([]*history.Op, error) {
	c, err := s.dial(ctx, s.servers[0].addr)
	if err != nil {
		return nil, err
	}
	defer hangUp(c)
	for g := range s.generations() {
		var names []string
		for err = client.ErrConnectionLoss; client.CodeOf(err) == client.ErrConnectionLoss && ctx.Err() == nil; {
			names, _, err = c.Children(ctx, path(sequence(g), 0))
		}
		if err != nil {
			return nil, err
		}
		numbers := map[string]int32{}
		for _, name := range names {
			value, number, err := child(name)
			s.fault(err)
			if _, twice := numbers[value]; twice {
				s.fault(fmt.Errorf("%s: two nodes were made for %s", sequence(g), value))
			}
			numbers[value] = number
		}
		ops = history.Resolve(ops, sequence(g), numbers)
	}
	return ops, nil
}
