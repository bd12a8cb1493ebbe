//go:build linux

package hostile

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/zkserver/zkserver/client"
)

// Latency is what the trouble of one server does to the clients of the others.
type Latency struct {
	Trouble string
	Rounds  []Round
}

// Round is one pair of windows: calm, then trouble.
type Round struct {
	Calm, Trouble       time.Duration // the 99th percentile of all operations
	CalmOps, TroubleOps int
}

// Ratio is the median over the rounds of the 99th percentile in trouble to that in calm.
func (l *Latency) Ratio() float64 {
	var all []float64
	for _, r := range l.Rounds {
		all = append(all, float64(r.Trouble)/float64(r.Calm))
	}
	slices.Sort(all)
	return all[len(all)/2]
}

// troubles are what can be wrong with one server that does not lead.
var troubles = []struct {
	name string
	do   func(s *Storm, p *process)
}{
	{"frozen", func(_ *Storm, p *process) { p.signal(syscall.SIGSTOP) }},
	{"slow", func(s *Storm, p *process) {
		for _, q := range s.servers {
			s.net.Delay(p.id, q.id, 100*time.Millisecond)
			s.net.Delay(q.id, p.id, 100*time.Millisecond)
		}
	}},
	{"cut off", func(s *Storm, p *process) { (&nemesis{s: s}).isolate(p, true, true) }},
}

// Latencies measures what each trouble of a follower and of an observer does, in rounds of two windows each. Of the
// options Seed and Length do not count.
func Latencies(ctx context.Context, o Options, rounds int, window time.Duration) (out []Latency, err error) {
	s := newStorm(o)
	defer func() { err = errors.Join(err, s.end()) }()
	if err := s.prepare(); err != nil {
		return nil, err
	}
	n := &nemesis{s: s, rng: rand.New(rand.NewPCG(o.Seed, 1)), count: s.report.Kinds}
	n.restart()
	if err := s.setUp(ctx); err != nil {
		return nil, err
	}
	for _, observer := range []bool{false, true} {
		for _, trouble := range troubles {
			p, err := s.learner(observer)
			if err != nil {
				return nil, err
			}
			l := Latency{Trouble: fmt.Sprintf("%s %s", p.mode(), trouble.name)}
			for range rounds {
				var r Round
				if r.Calm, r.CalmOps, err = s.window(ctx, p, window); err != nil {
					return nil, err
				}
				trouble.do(s, p)
				r.Trouble, r.TroubleOps, err = s.window(ctx, p, window)
				n.settle(ctx)
				if err != nil {
					return nil, err
				}
				l.Rounds = append(l.Rounds, r)
			}
			s.logf("%s: %.2f", l.Trouble, l.Ratio())
			out = append(out, l)
		}
	}
	return out, nil
}

// learner finds an observer, or a follower.
func (s *Storm) learner(observer bool) (*process, error) {
	for _, p := range s.servers {
		if m := p.mode(); p.observer == observer && (m == "follower" || m == "observer") {
			return p, nil
		}
	}
	return nil, errors.New("hostile: no server to trouble")
}

// window is how the clients of all servers but one fare for a while: half of what they do are writes.
func (s *Storm) window(ctx context.Context, but *process, d time.Duration) (p99 time.Duration, ops int, err error) {
	var servers []string
	for _, p := range s.servers {
		if p != but {
			servers = append(servers, p.via)
		}
	}
	var mu sync.Mutex
	var all []time.Duration
	var faults []error
	var wg sync.WaitGroup
	for i := range s.o.Workers {
		wg.Go(func() { // ends with the window
			took, err := s.drive(ctx, client.Wire(i%2), strings.Join(servers, ","), d)
			mu.Lock()
			defer mu.Unlock()
			all, faults = append(all, took...), append(faults, err)
		})
	}
	wg.Wait()
	if err := errors.Join(faults...); err != nil || len(all) == 0 {
		return 0, 0, fmt.Errorf("hostile: %d operations: %w", len(all), err)
	}
	slices.Sort(all)
	return all[len(all)*99/100], len(all), nil
}

// drive is one client: it reads and writes in turn and takes the time.
func (s *Storm) drive(ctx context.Context, wire client.Wire, servers string, d time.Duration) (took []time.Duration, err error) {
	c, err := client.Dial(ctx, servers, client.Options{Wire: wire, SessionTimeout: 30 * time.Second})
	if err != nil {
		return nil, err
	}
	defer hangUp(c)
	for until := time.Now().Add(d); time.Now().Before(until); {
		began := time.Now()
		if len(took)%2 == 0 {
			_, err = c.Set(ctx, root+"/calm", []byte("x"), client.AnyVersion)
		} else {
			_, _, err = c.Get(ctx, root+"/calm")
		}
		if err != nil {
			return nil, err
		}
		took = append(took, time.Since(began))
	}
	return took, nil
}
