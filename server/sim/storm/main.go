// Command storm runs the simulator: fresh seeds until it is stopped, a number of them, or one with a trace. A seed that
// fails is printed with the fault and with the command that replays it made as small as it can be.
package main

import (
	"context"
	crand "crypto/rand"
	"encoding/binary"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/zkserver/zkserver/server/hostile/history"
	"github.com/zkserver/zkserver/server/sim"
)

type options struct {
	seed     uint64
	seeds    int
	trace    bool
	limits   sim.Limits
	drop     string
	workers  int
	list     string
	coverage bool
	shrink   int
	failed   string
}

func main() {
	var o options
	flag.Uint64Var(&o.seed, "seed", 0, "first seed; 0: a fresh one")
	flag.IntVar(&o.seeds, "seeds", 0, "how many; 0: until stopped, or one if -seed is given")
	flag.BoolVar(&o.trace, "trace", false, "print what happens (one seed)")
	flag.StringVar(&o.drop, "drop", "", "faults to leave out, by number: 3,17")
	flag.IntVar(&o.limits.Clients, "clients", 0, "at most so many clients; 0: as the seed says")
	flag.IntVar(&o.limits.Ops, "ops", 0, "at most so many requests of a client; 0: any number")
	flag.BoolVar(&o.limits.Histories, "histories", false, "clients have registers too, and what they were told must be linearizable")
	flag.IntVar(&o.workers, "workers", runtime.GOMAXPROCS(0), "seeds at a time")
	flag.StringVar(&o.list, "require", "", "coverage that must be reached: ci or all")
	flag.BoolVar(&o.coverage, "coverage", false, "print all that was reached")
	flag.IntVar(&o.shrink, "shrink", 200, "runs that may be made to make a failure smaller")
	flag.StringVar(&o.failed, "failed", "", "file to which seeds that fail are added")
	flag.Parse()
	if err := run(os.Stdout, &o); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(out io.Writer, o *options) error {
	debug.SetGCPercent(1000) // a run is short and small: it is its garbage that costs
	debug.SetMemoryLimit(2 << 30)
	for _, d := range strings.FieldsFunc(o.drop, func(r rune) bool { return r == ',' }) {
		n, err := strconv.Atoi(d)
		if err != nil {
			return fmt.Errorf("storm: -drop %q: %w", o.drop, err)
		}
		o.limits.Drop = append(o.limits.Drop, n)
	}
	if o.seed != 0 && o.seeds == 0 {
		o.seeds = 1
	}
	if o.trace {
		r := sim.Run(o.seed, o.limits, out)
		return report(out, o, &r)
	}
	if o.seed == 0 {
		var b [8]byte
		_, _ = crand.Read(b[:]) // never fails
		o.seed = binary.LittleEndian.Uint64(b[:])>>20 + 1
	}
	return storm(out, o)
}

// total is what all seeds give together.
type total struct {
	mu     sync.Mutex
	seeds  int
	stats  sim.Stats
	told   history.Report
	cover  sim.Coverage
	failed []sim.Result
}

func (t *total) add(r *sim.Result) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.seeds++
	t.stats.Ops += r.Stats.Ops
	t.stats.Writes += r.Stats.Writes
	t.stats.Faults += r.Stats.Faults
	t.stats.Events += r.Stats.Events
	t.stats.Simulated += r.Stats.Simulated
	t.cover.Add(r.Cover)
	t.told.Operations += r.History.Operations
	t.told.Unknown += r.History.Unknown
	t.told.Objects += r.History.Objects
	t.told.Undecided = append(t.told.Undecided, r.History.Undecided...)
	if r.Fault != nil {
		t.failed = append(t.failed, *r)
	}
}

func (t *total) print(out io.Writer, since time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	fmt.Fprintf(out, "%d seeds, %.1f simulated hours, %d operations answered, %d faults, %d failed, %v\n", t.seeds,
		t.stats.Simulated.Hours(), t.stats.Ops, t.stats.Faults, len(t.failed), time.Since(since).Round(time.Second))
	if h := &t.told; h.Operations > 0 {
		fmt.Fprintf(out, "histories: %d operations answered, %d writes of unknown outcome, %d objects, %d undecided\n", h.Operations, h.Unknown, h.Objects, len(h.Undecided))
	}
}

// storm runs seeds until there are enough, one fails, or it is stopped.
func storm(out io.Writer, o *options) error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	began := time.Now()
	fmt.Fprintf(out, "seeds from %d\n", o.seed)
	t := total{cover: sim.Coverage{}}
	next := make(chan uint64)
	var wg sync.WaitGroup
	for range o.workers {
		wg.Go(func() { // ends when next is closed
			for seed := range next {
				r := sim.Run(seed, o.limits, nil)
				t.add(&r)
				if r.Fault != nil {
					cancel()
				}
			}
		})
	}
	tick := time.NewTicker(30 * time.Second)
	defer tick.Stop()
feed:
	for i := 0; o.seeds == 0 || i < o.seeds; {
		select {
		case <-ctx.Done():
			break feed
		case <-tick.C:
			t.print(out, began)
		case next <- o.seed + uint64(i):
			i++
		}
	}
	close(next)
	wg.Wait()
	t.print(out, began)
	if o.coverage {
		for _, k := range t.cover.Names() {
			fmt.Fprintf(out, "%10d  %s\n", t.cover[k], k)
		}
	}
	var errs []error
	for i := range t.failed {
		errs = append(errs, report(out, o, &t.failed[i]))
	}
	if want, ok := sim.Required[o.list]; ok {
		if missing := t.cover.Missing(want); len(missing) > 0 && len(errs) == 0 {
			errs = append(errs, fmt.Errorf("storm: never reached: %s", strings.Join(missing, "; ")))
		}
	} else if o.list != "" {
		errs = append(errs, fmt.Errorf("storm: no list %q", o.list))
	}
	return errors.Join(errs...)
}

// report prints what a seed came to, made smaller if it failed.
func report(out io.Writer, o *options, r *sim.Result) error {
	if r.Fault == nil {
		fmt.Fprintf(out, "seed %d: %d operations answered, %d faults, all invariants held\n", r.Seed, r.Stats.Ops, r.Stats.Faults)
		return nil
	}
	fmt.Fprintf(out, "seed %d: %v\n", r.Seed, r.Fault)
	if o.failed != "" && !o.limits.Histories {
		if err := remember(o.failed, r); err != nil {
			return err
		}
	}
	lim := o.limits
	if !o.trace && o.shrink > 0 {
		lim = sim.Shrink(r.Seed, lim, r.Fault.Name, o.shrink)
	}
	fmt.Fprintf(out, "replay: %s\n", command(r.Seed, lim))
	return fmt.Errorf("storm: seed %d: %w", r.Seed, r.Fault)
}

func command(seed uint64, l sim.Limits) string {
	s := fmt.Sprintf("go run ./server/sim/storm -seed %d -trace", seed)
	if len(l.Drop) > 0 {
		s += " -drop " + strings.Trim(strings.ReplaceAll(fmt.Sprint(l.Drop), " ", ","), "[]")
	}
	if l.Clients > 0 {
		s += fmt.Sprintf(" -clients %d", l.Clients)
	}
	if l.Histories {
		s += " -histories"
	}
	if l.Ops > 0 {
		s += fmt.Sprintf(" -ops %d", l.Ops)
	}
	return s
}

// remember adds a seed to the file of those that have failed.
func remember(file string, r *sim.Result) error {
	f, err := os.OpenFile(filepath.Clean(file), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return fmt.Errorf("storm: %w", err)
	}
	_, err = fmt.Fprintf(f, "%d %s\n", r.Seed, r.Fault.Name)
	return errors.Join(err, f.Close())
}
