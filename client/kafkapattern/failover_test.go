package main

import (
	"context"
	"encoding/json"
	"errors"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/zkserver/zkserver/client"
	"github.com/zkserver/zkserver/client/recipe"
	"github.com/zkserver/zkserver/client/zktest"
)

// What a producer meets.
var (
	errUnreachable = errors.New("nobody listens")
	errNotLeader   = errors.New("not the leader of the partition")
	errUnknown     = errors.New("no leader is known")
)

// reached is the brokers, which are processes, as their clients reach them: by addresses, which are their names and stay the
// same when they are started again.
type reached struct {
	*show
	t   *testing.T
	ctx context.Context
	wg  sync.WaitGroup

	fmu        sync.Mutex
	fronts     map[string]*front
	told       map[string]*told // by client
	registered int              // times, in all
}

// told is what the brokers have answered to one client.
type told struct {
	asked     []time.Time // its requests for metadata
	notLeader int
}

// front answers for a broker: whether it leads is what the process has said, who leads is in its metadata, a cache.
type front struct {
	leads bool
	cache *recipe.Cache
	valve *valve
	end   context.CancelFunc
}

// valve makes connections, unless it is shut.
type valve struct {
	mu    sync.Mutex
	off   bool
	conns []net.Conn
}

func (v *valve) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	v.mu.Lock()
	off := v.off
	v.mu.Unlock()
	if off {
		return nil, net.ErrClosed
	}
	conn, err := (&net.Dialer{}).DialContext(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.off {
		return nil, errors.Join(net.ErrClosed, conn.Close())
	}
	v.conns = append(v.conns, conn)
	return conn, nil
}

func (v *valve) shut() {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.off = true
	for _, c := range v.conns {
		_ = c.Close()
	}
}

func (v *valve) open() {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.off = false
}

// up starts a broker. One that is cut off has no metadata yet.
func (r *reached) up(id int, cutOff bool) {
	r.t.Helper()
	name := brokerName(id)
	ctx, end := context.WithCancel(r.ctx)
	f := &front{cache: recipe.NewTreeCache(topicPath), valve: &valve{off: cutOff}, end: end}
	r.wg.Go(func() { // ends with the front
		_ = recipe.Sessions(ctx, func(ctx context.Context) (*client.Client, error) {
			return client.Dial(ctx, r.addrs[0], client.Options{DialContext: f.valve.dial, BackoffMax: 20 * time.Millisecond})
		}, f.cache.Run)
	})
	r.fmu.Lock()
	r.fronts[name] = f
	r.fmu.Unlock()
	if err := r.start(name, os.Stderr, r.hears, "broker", strconv.Itoa(id), r.addrs[0], r.timeout.String()); err != nil {
		r.t.Fatal(err)
	}
}

// down kills a broker.
func (r *reached) down(id int) {
	name := brokerName(id)
	r.end(name)
	r.fmu.Lock()
	defer r.fmu.Unlock()
	r.fronts[name].end()
	delete(r.fronts, name)
}

func (r *reached) hears(name, line string) {
	r.hear(name, line)
	r.fmu.Lock()
	defer r.fmu.Unlock()
	if strings.HasPrefix(line, "registered") {
		r.registered++
	}
	if f := r.fronts[name]; f != nil && strings.HasPrefix(line, "leads partition") {
		f.leads = !strings.Contains(line, "no more")
	}
}

func (r *reached) front(id int) *front {
	r.fmu.Lock()
	defer r.fmu.Unlock()
	return r.fronts[brokerName(id)]
}

// notLeader is how often a client was told so.
func (r *reached) notLeader(who string) int {
	r.fmu.Lock()
	defer r.fmu.Unlock()
	return r.told[who].notLeader
}

// produce is a request of a client to write to the partition.
func (r *reached) produce(who, addr string) error {
	r.fmu.Lock()
	defer r.fmu.Unlock()
	f := r.fronts[addr]
	switch {
	case f == nil:
		return errUnreachable
	case !f.leads:
		r.told[who].notLeader++
		return errNotLeader
	}
	return nil
}

// metadata is a request of a client for the partition's leader.
func (r *reached) metadata(who, addr string) (leader string, err error) {
	r.fmu.Lock()
	r.told[who].asked = append(r.told[who].asked, time.Now())
	f := r.fronts[addr]
	r.fmu.Unlock()
	if f == nil {
		return "", errUnreachable
	}
	return f.leader()
}

func (f *front) leader() (string, error) {
	n, ok := f.cache.Get(partitionPath(0))
	if !ok {
		return "", errUnknown
	}
	var p partition
	if err := json.Unmarshal(n.Data, &p); err != nil {
		return "", err
	}
	if p.Leader == nobody {
		return "", errUnknown
	}
	return brokerName(p.Leader), nil
}

// producer is a client of the brokers as KafkaJS is one: it has the addresses of two, keeps what they say of the partition's
// leader, and asks again when an answer, or none, says that this is not so any more. It never asks by the age of what it
// knows, so nothing else mends it.
type producer struct {
	r      *reached
	name   string
	seeds  []string
	turn   int
	leader string // empty: not known
	pause  time.Duration
	last   time.Time // of the last request for metadata
}

// The pauses between two requests for metadata: at least the first, then longer ones.
const (
	pauseMin = 120 * time.Millisecond
	pauseMax = time.Second
)

func (r *reached) producer(name string, seeds ...int) *producer {
	p := &producer{r: r, name: name, pause: pauseMin}
	for _, id := range seeds {
		p.seeds = append(p.seeds, brokerName(id))
	}
	r.fmu.Lock()
	defer r.fmu.Unlock()
	r.told[name] = &told{}
	return p
}

// send writes one message, however often it has to try.
func (p *producer) send(ctx context.Context) error {
	for {
		if p.leader != "" && p.r.produce(p.name, p.leader) == nil {
			p.pause = pauseMin
			return nil
		}
		if err := p.refresh(ctx); err != nil {
			return err
		}
	}
}

// refresh asks one of the brokers who leads. What was known stays if it does not know.
func (p *producer) refresh(ctx context.Context) error {
	t := time.NewTimer(time.Until(p.last.Add(p.pause)))
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
		return ctx.Err()
	}
	p.pause = min(2*p.pause, pauseMax)
	leader, err := p.r.metadata(p.name, p.seeds[p.turn%len(p.seeds)])
	p.last = time.Now()
	p.turn++
	if err == nil {
		p.leader = leader
	}
	return nil
}

// refreshInterval bounds how long a client may need once the brokers know the new leader.
const refreshInterval = 30 * time.Second

// H5, H6: the leader that a client knows is killed: the partition changes once, to a leader that lives and was in sync. It
// comes back at its address as one that does not lead. A client that goes on finds the new leader; one that was idle
// meanwhile is told by the old one that it does not lead. Whom it asks then is behind for as long as the test likes: it
// asks less than ten times a second, and as soon as they know it is right within a refresh interval. Nothing is started
// anew. ZKSERVER_FULL=1 does it to one leader after the other.
func TestFieldH6ClientFollowsItsLeader(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 2*patience)
	defer cancel()
	var out text
	s := &show{
		brokers: 3, partitions: 1, timeout: 2 * time.Second, out: &out, began: time.Now(),
		addrs: []string{zktest.Start(t).Addr()}, running: make(map[string]*process),
	}
	var err error
	if s.c, err = client.Dial(ctx, s.addrs[0], client.Options{}); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.c.Close() }()
	if err := s.prepare(ctx); err != nil {
		t.Fatal(err)
	}
	r := &reached{show: s, t: t, ctx: ctx, fronts: make(map[string]*front), told: make(map[string]*told)}
	var broken error
	r.wg.Go(func() { broken = s.observe(ctx) })
	defer func() {
		s.endAll()
		cancel()
		r.wg.Wait()
		if broken != nil {
			t.Error(broken)
		}
	}()
	for id := range s.brokers {
		r.up(id, false)
	}
	rounds := 1
	if os.Getenv("ZKSERVER_FULL") != "" {
		rounds = 5
	}
	for done, tries := 0, 0; done < rounds; tries++ {
		if tries == rounds+10 {
			t.Fatal("on this machine brokers lose their sessions all the time")
		}
		if r.failOver() {
			done++
		}
	}
	if t.Failed() || testing.Verbose() {
		t.Log("\n" + out.buf.String())
	}
}

// registrations is how often brokers have made a session.
func (r *reached) registrations() int {
	r.fmu.Lock()
	defer r.fmu.Unlock()
	return r.registered
}

// settled waits until the partition is led, all are in sync, and everybody who is not cut off knows it.
func (r *reached) settled() (p placed) {
	r.t.Helper()
	err := r.until(r.ctx, "brokers and their caches agree on the leader", func() bool {
		var err error
		p, err = readPartition(r.ctx, r.c, partitionPath(0))
		if err != nil || p.Leader == nobody || len(p.InSync) != replicas || !r.leads(p.Leader) {
			return false
		}
		for id := range r.brokers {
			f := r.front(id)
			f.valve.mu.Lock()
			off := f.valve.off
			f.valve.mu.Unlock()
			if name, err := f.leader(); !off && (err != nil || name != brokerName(p.Leader)) {
				return false
			}
		}
		return true
	})
	if err != nil {
		r.t.Fatal(err)
	}
	return p
}

func (r *reached) leads(id int) bool {
	r.fmu.Lock()
	defer r.fmu.Unlock()
	return r.fronts[brokerName(id)].leads
}

// failOver is one round; it is void when a busy machine ended the session of another broker.
func (r *reached) failOver() bool {
	t := r.t
	t.Helper()
	for id := range r.brokers {
		r.front(id).valve.open()
	}
	was, sessions := r.settled(), r.registrations()
	old, knows, behind := was.Leader, (was.Leader+1)%r.brokers, (was.Leader+2)%r.brokers
	goesOn, idle := r.producer("goes on", old, knows), r.producer("idle", old, behind)
	for _, p := range []*producer{goesOn, idle} {
		if err := p.send(r.ctx); err != nil {
			t.Fatalf("%s: %v", p.name, err)
		}
	}
	r.front(behind).valve.shut()
	began := time.Now()
	r.down(old)
	if err := goesOn.send(r.ctx); err != nil {
		t.Fatalf("the client that goes on: %v", err)
	}
	found := time.Since(began)
	now, live := r.elected()
	if r.registrations() != sessions {
		return false
	}
	if now.version != was.version+1 || now.LeaderEpoch != was.LeaderEpoch+1 || !slices.Contains(was.InSync, now.Leader) || !live[now.Leader] || len(now.InSync) != 2 {
		t.Errorf("after the leader's death %+v of version %d, before %+v of version %d; live %v", now.partition, now.version, was.partition, was.version, live)
	}
	r.up(old, true)
	now = r.settled()
	sent := make(chan error, 1)
	go func() { sent <- idle.send(r.ctx) }() // ends with ctx
	const refusals = 4
	err := r.until(r.ctx, "the old leader says that it does not lead", func() bool { return r.notLeader("idle") >= refusals || len(sent) > 0 })
	if err != nil {
		t.Fatal(err)
	}
	began = time.Now()
	r.front(old).valve.open()
	r.front(behind).valve.open()
	if err := <-sent; err != nil {
		t.Fatalf("the idle client: %v", err)
	}
	mended := time.Since(began)
	if r.settled(); r.registrations() != sessions+1 {
		return false
	}
	if mended > refreshInterval {
		t.Errorf("the idle client was mended after %v", mended)
	}
	if idle.leader != brokerName(now.Leader) || r.notLeader("idle") < refusals {
		t.Errorf("the idle client found %q, %q leads; it was told %d times that the old one does not", idle.leader, brokerName(now.Leader), r.notLeader("idle"))
	}
	for _, p := range []*producer{goesOn, idle} {
		asked := r.told[p.name].asked
		n := most(asked)
		t.Logf("%s: %d requests for metadata, at most %d in a second; %d times not the leader", p.name, len(asked), n, r.told[p.name].notLeader)
		if n >= 10 || len(asked) < 2 {
			t.Errorf("%s: %d requests for metadata, %d in a second", p.name, len(asked), n)
		}
	}
	t.Logf("broker %d after broker %d: found %v after the kill; mended %v after the brokers could know", now.Leader, old, found, mended)
	return true
}

// elected reads the partition and who lives.
func (r *reached) elected() (p placed, live map[int]bool) {
	r.t.Helper()
	err := r.until(r.ctx, "a look at the partition", func() bool {
		names, _, err := r.c.Children(r.ctx, idsPath)
		if err == nil {
			p, err = readPartition(r.ctx, r.c, partitionPath(0))
		}
		live = liveBrokers(names)
		return err == nil
	})
	if err != nil {
		r.t.Fatal(err)
	}
	return p, live
}

// most is the largest number of times, of some in order, within one second.
func most(times []time.Time) (n int) {
	from := 0
	for i, at := range times {
		for at.Sub(times[from]) >= time.Second {
			from++
		}
		n = max(n, i-from+1)
	}
	return n
}
