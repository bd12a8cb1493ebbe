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
	flag.StringVar(&o.results, "results", "", "file to which a line of JSON is added for each storm")
	flag.BoolVar(&o.quiet, "quiet", false, "do not tell what happens")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := o.run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "hostile:", err)
		os.Exit(1)
	}
}

type options struct {
	minutes                   float64
	seed                      uint64
	storms, voters, observers int
	workers, port             int
	think, calm               time.Duration
	binary, results           string
	means, quiet              bool
}

func (o *options) run(ctx context.Context) error {
	if o.seed == 0 {
		o.seed = rand.Uint64()>>32 + 1
	}
	failed := 0
	for i := range o.storms {
		r, err := o.storm(ctx, o.seed+uint64(i))
		if err != nil {
			return err
		}
		fmt.Printf("seed %d, %d+%d servers, %v: %d faults, %d operations answered, %d writes with unknown outcome, %d objects, %d undecided, "+
			"%d sessions (%d expired), progress within %v, longest silence %v, %d violations\n", r.Seed, r.Voters, r.Observers, r.Length, r.Strikes,
			r.History.Operations, r.History.Unknown, r.History.Objects, len(r.History.Undecided), r.Sessions, r.Expired,
			r.Progress.Round(time.Millisecond), r.Silence.Round(time.Millisecond), len(r.Faults))
		for _, f := range r.Faults {
			fmt.Println("  ", f)
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

// storm is one; the directory of one that finds something is kept.
func (o *options) storm(ctx context.Context, seed uint64) (r hostile.Report, err error) {
	voters := o.voters
	if voters == 0 {
		voters = 3 + 2*int(seed%2)
	}
	dir, err := os.MkdirTemp("", "hostile-")
	if err != nil {
		return r, err
	}
	ports, err := freePorts(o.port, 3*(voters+o.observers))
	if err != nil {
		return r, err
	}
	log, err := os.Create(filepath.Join(dir, "storm.log"))
	if err != nil {
		return r, err
	}
	defer log.Close()
	out := io.Writer(log)
	if !o.quiet {
		out = io.MultiWriter(log, os.Stderr)
	}
	binary := o.binary
	if binary != "" {
		if binary, err = filepath.Abs(binary); err != nil {
			return r, err
		}
	}
	r, err = hostile.Run(ctx, hostile.Options{
		Seed: seed, Length: time.Duration(o.minutes * float64(time.Minute)), Voters: voters, Observers: o.observers, Workers: o.workers,
		Think: o.think, Dir: dir, Ports: ports, Binary: binary, Means: o.means, Calm: o.calm, Out: out,
	})
	if err == nil && o.results != "" {
		err = o.note(r)
	}
	if err != nil || len(r.Faults) > 0 {
		fmt.Fprintf(os.Stderr, "logs, data and history in %s\n", dir)
		return r, err
	}
	return r, os.RemoveAll(dir)
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
