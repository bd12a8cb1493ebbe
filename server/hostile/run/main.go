//go:build linux

// Command run brings storms over ensembles of real servers: go run ./server/hostile/run -minutes 5 -seed 7. It prints what
// came of each and fails if the product did. docs/correctness.md tells what is done and checked.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"github.com/zkserver/zkserver/server/hostile"
)

func main() {
	hostile.Child()
	var o options
	flag.Float64Var(&o.minutes, "minutes", 5, "length of a storm")
	flag.Uint64Var(&o.seed, "seed", 0, "of the first storm; 0: a fresh one")
	flag.IntVar(&o.storms, "storms", 1, "how many, one after another, with seeds that follow each other")
	flag.IntVar(&o.voters, "voters", 0, "voting servers; 0: three and five in turn")
	flag.IntVar(&o.observers, "observers", 1, "observers besides")
	flag.IntVar(&o.workers, "clients", 8, "clients, every other one on gRPC")
	flag.DurationVar(&o.think, "think", 40*time.Millisecond, "a client's longest pause between two operations")
	flag.DurationVar(&o.calm, "calm", time.Minute, "how long the ensemble may take, once the faults have ended, to take writes on every server")
	flag.IntVar(&o.port, "port", 22000, "first port to try")
	flag.StringVar(&o.binary, "zkserver", "", "a zkserver binary for the servers with odd numbers; default: all are this program")
	flag.BoolVar(&o.means, "means", false, "mount small file systems and make memory control groups, where allowed (root)")
	flag.IntVar(&o.latency, "latency", 0, "no storms: so many rounds of calm and of trouble of one server, and what its trouble does to the others' clients")
	flag.DurationVar(&o.window, "window", 3*time.Second, "length of a half of such a round")
	flag.StringVar(&o.results, "results", "", "file to which a line of JSON is added for each storm")
	flag.BoolVar(&o.quiet, "quiet", false, "do not tell what happens")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := o.run(ctx, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "hostile:", err)
		os.Exit(1)
	}
}

type options struct {
	minutes                   float64
	seed                      uint64
	storms, voters, observers int
	workers, port, latency    int
	think, calm, window       time.Duration
	binary, results           string
	means, quiet              bool
}

func (o *options) run(ctx context.Context, out io.Writer) error {
	if o.seed == 0 {
		o.seed = rand.Uint64()>>32 + 1
	}
	if o.latency > 0 {
		return o.latencies(ctx, out)
	}
	failed := 0
	for i := range o.storms {
		r, err := o.storm(ctx, o.seed+uint64(i))
		if err != nil {
			return err
		}
		fmt.Fprintf(out, "seed %d, %d+%d servers, %v: %d faults, %d operations answered, %d writes with unknown outcome, %d objects, %d undecided, "+
			"%d sessions (%d expired), progress within %v, longest silence %v (this program was up to %v late), %d violations\n", r.Seed, r.Voters, r.Observers, r.Length, r.Strikes,
			r.History.Operations, r.History.Unknown, r.History.Objects, len(r.History.Undecided), r.Sessions, r.Expired,
			r.Progress.Round(time.Millisecond), r.Silence.Round(time.Millisecond), r.Late.Round(time.Millisecond), len(r.Faults))
		for _, f := range r.Faults {
			fmt.Fprintln(out, "  ", f)
		}
		if len(r.Faults) > 0 {
			failed++
		}
	}
	if failed > 0 {
		return fmt.Errorf("%d of %d storms have found something", failed, o.storms)
	}
	return nil
}

// latencies measures what the trouble of one server does to the clients of the others.
func (o *options) latencies(ctx context.Context, out io.Writer) error {
	p, err := o.options(o.seed)
	if err != nil {
		return err
	}
	p.Out = os.Stderr
	all, err := hostile.Latencies(ctx, p, o.latency, o.window)
	for _, l := range all {
		fmt.Fprintf(out, "%s: p99 %.2f times that of calm (median of %d)\n", l.Trouble, l.Ratio(), len(l.Rounds))
		for _, r := range l.Rounds {
			fmt.Fprintf(out, "    calm %v (%d operations), trouble %v (%d)\n", r.Calm.Round(10*time.Microsecond), r.CalmOps, r.Trouble.Round(10*time.Microsecond), r.TroubleOps)
		}
	}
	return errors.Join(err, os.RemoveAll(p.Dir))
}

// options are those of a run, with a directory and ports of its own.
func (o *options) options(seed uint64) (p hostile.Options, err error) {
	p = hostile.Options{
		Seed: seed, Length: time.Duration(o.minutes * float64(time.Minute)), Voters: o.voters, Observers: o.observers, Workers: o.workers,
		Think: o.think, Binary: o.binary, Means: o.means, Calm: o.calm,
	}
	if p.Voters == 0 {
		p.Voters = 3 + 2*int(seed%2)
	}
	if p.Binary != "" {
		if p.Binary, err = filepath.Abs(p.Binary); err != nil {
			return p, err
		}
	}
	if p.Ports, err = freePorts(o.port, 3*(p.Voters+p.Observers)); err != nil {
		return p, err
	}
	p.Dir, err = os.MkdirTemp("", "hostile-")
	return p, err
}

// storm is one; the directory of one that finds something is kept.
func (o *options) storm(ctx context.Context, seed uint64) (r hostile.Report, err error) {
	p, err := o.options(seed)
	if err != nil {
		return r, err
	}
	log, err := os.Create(filepath.Join(p.Dir, "storm.log"))
	if err != nil {
		return r, err
	}
	defer log.Close()
	out := io.Writer(log)
	if !o.quiet {
		out = io.MultiWriter(log, os.Stderr)
	}
	p.Out = out
	r, err = hostile.Run(ctx, p)
	if err == nil && o.results != "" {
		err = o.note(r)
	}
	if err != nil || len(r.Faults) > 0 {
		fmt.Fprintf(os.Stderr, "logs, data and history in %s\n", p.Dir)
		return r, err
	}
	return r, os.RemoveAll(p.Dir)
}

func (o *options) note(r hostile.Report) error {
	line, err := json.Marshal(r)
	if err != nil {
		return err
	}
	f, err := os.OpenFile(o.results, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(append(line, '\n'))
	return errors.Join(err, f.Close())
}

// freePorts finds n ports from first upwards on which nothing listens.
func freePorts(first, n int) ([]int, error) {
	var out []int
	for p := first; p < 32768 && len(out) < n; p++ {
		l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(p)))
		if err != nil {
			continue
		}
		if err := l.Close(); err != nil {
			return nil, err
		}
		out = append(out, p)
	}
	if len(out) < n {
		return nil, fmt.Errorf("fewer than %d free ports from %d upwards", n, first)
	}
	return out, nil
}
