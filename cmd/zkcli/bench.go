package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/zkserver/zkserver/client"
)

// The bounds of a bench.
const (
	benchNodes   = 100_000
	benchClients = 100
	benchBytes   = 512 << 10
	benchAll     = 256 << 20 // bytes of data in the tree
	benchMs      = 60_000
	benchCleanup = 30 * time.Second
)

// benchOptions say how much is done.
type benchOptions struct {
	nodes, clients, bytes, ms int
}

func (in *invocation) benchOptions() (benchOptions, error) {
	o := benchOptions{nodes: 2000, clients: 8, bytes: 100, ms: 5000}
	for _, v := range []struct {
		name string
		at   *int
		max  int
	}{{"n", &o.nodes, benchNodes}, {"c", &o.clients, benchClients}, {"b", &o.bytes, benchBytes}, {"t", &o.ms, benchMs}} {
		s, ok := in.opts[v.name]
		if !ok {
			continue
		}
		n, err := strconv.Atoi(s)
		if err != nil || n < 1 || n > v.max {
			return o, usagef("-%s %q: want a number from 1 to %d", v.name, s, v.max)
		}
		*v.at = n
	}
	o.clients = min(o.clients, o.nodes)
	if o.nodes*o.bytes > benchAll {
		return o, usagef("%d nodes of %d bytes: want no more than %d bytes in all", o.nodes, o.bytes, benchAll)
	}
	return o, nil
}

// phase is one kind of operation, done by all clients at a time.
type phase struct {
	name string
	do   func(ctx context.Context, c *client.Client, path string, data []byte) error
}

// benchPhases make ephemeral nodes, so that nothing of them is left even where zkcli is killed.
var benchPhases = []phase{
	{"create", func(ctx context.Context, c *client.Client, path string, data []byte) error {
		_, err := c.Create(ctx, path, data, client.Ephemeral)
		return err
	}},
	{"get", func(ctx context.Context, c *client.Client, path string, _ []byte) error {
		_, _, err := c.Get(ctx, path)
		return err
	}},
	{"set", func(ctx context.Context, c *client.Client, path string, data []byte) error {
		_, err := c.Set(ctx, path, data, client.AnyVersion)
		return err
	}},
	{"delete", func(ctx context.Context, c *client.Client, path string, _ []byte) error {
		return c.Delete(ctx, path, client.AnyVersion)
	}},
}

// bench measures how fast the ensemble is for a few clients that each wait for every answer.
func bench(ctx context.Context, s *session, in *invocation) (err error) {
	o, err := in.benchOptions()
	if err != nil {
		return err
	}
	path := fmt.Sprintf("/zkcli-bench-%08x", rand.Uint32())
	if len(in.args) == 1 {
		if err := checkPath(in.args[0]); err != nil {
			return err
		}
		path = join(in.args[0], path[1:])
	}
	c, err := s.client(ctx)
	if err != nil {
		return err
	}
	if _, err := c.Create(ctx, path, nil, client.Container); err != nil { // killed, we leave it to the server
		return err
	}
	defer func() {
		s.p.meter("", 0, 0)
		ctx, cancel := context.WithTimeout(context.Background(), benchCleanup)
		defer cancel()
		if _, e := s.deleteTree(ctx, c, path, 1000); e != nil && client.CodeOf(e) != client.ErrNoNode {
			err = cmp.Or(err, e)
			s.p.note("%s is left: zkcli rm -r %s", path, path)
		}
		s.p.meter("", 0, 0)
	}()
	clients := make([]*client.Client, o.clients)
	defer func() { // before the tree is removed
		var wg sync.WaitGroup
		for _, c := range clients {
			if c != nil {
				wg.Go(func() { _ = c.Close() }) // the session's end may be left to its timeout
			}
		}
		wg.Wait()
	}()
	for i := range clients {
		one := session{o: s.o, p: s.p}
		if clients[i], err = one.client(ctx); err != nil {
			return err
		}
		s.progress()
	}
	if s.p.format != jsonFormat {
		s.p.note("%s, %s of %s each, in %s", count(o.clients, "client"), count(o.nodes, "node"), count(o.bytes, "byte"), path)
	}
	return s.benchRun(ctx, o, clients, path)
}

// benchResult is one line of the result.
type benchResult struct {
	Operation string  `json:"operation"`
	Count     int     `json:"count"`
	PerSecond int     `json:"perSecond"`
	Mean      float64 `json:"meanMs"`
	P50       float64 `json:"p50Ms"`
	P99       float64 `json:"p99Ms"`
	Max       float64 `json:"maxMs"`
}

func (s *session) benchRun(ctx context.Context, o benchOptions, clients []*client.Client, path string) error {
	var results []benchResult
	made := make([]int, o.clients) // of each client
	for i := range made {
		made[i] = (o.nodes + i) / o.clients
	}
	var failed error
	for _, p := range benchPhases {
		s.p.meter(p.name, 0, o.nodes)
		var r benchResult
		if r, failed = s.benchPhase(ctx, p, o, clients, path, made); failed != nil {
			break
		}
		results = append(results, r)
	}
	s.p.meter("", 0, 0)
	if s.p.format == jsonFormat {
		s.p.value(map[string]any{"nodes": o.nodes, "clients": o.clients, "bytes": o.bytes, "results": results})
		return failed
	}
	rows := [][]cell{{{text: "OPERATION"}, {text: "COUNT", right: true}, {text: "PER SECOND", right: true},
		{text: "MEAN MS", right: true}, {text: "P50", right: true}, {text: "P99", right: true}, {text: "MAX", right: true}}}
	for _, r := range results {
		ms := func(f float64) cell { return cell{text: strconv.FormatFloat(f, 'f', 2, 64), right: true} }
		rows = append(rows, []cell{{text: r.Operation}, {text: strconv.Itoa(r.Count), right: true}, {text: strconv.Itoa(r.PerSecond), right: true},
			ms(r.Mean), ms(r.P50), ms(r.P99), ms(r.Max)})
	}
	if len(results) > 0 {
		s.p.table(rows)
	}
	return failed
}

// benchPhase does one kind of operation to all nodes, or to as many as the time allows: a create sets what the others
// find.
func (s *session) benchPhase(ctx context.Context, p phase, o benchOptions, clients []*client.Client, path string, made []int) (benchResult, error) {
	took := make([][]time.Duration, len(clients))
	errs := make([]error, len(clients))
	data := make([]byte, o.bytes)
	start := time.Now()
	end := start.Add(time.Duration(o.ms) * time.Millisecond)
	var wg sync.WaitGroup
	for i, c := range clients {
		wg.Go(func() {
			for k := range made[i] {
				begin := time.Now()
				if begin.After(end) && p.name != "delete" {
					break
				}
				if errs[i] = p.do(ctx, c, fmt.Sprintf("%s/%d-%d", path, i, k), data); errs[i] != nil {
					break
				}
				took[i] = append(took[i], time.Since(begin))
				s.progress()
			}
		})
	}
	wg.Wait()
	elapsed := time.Since(start)
	if err := errors.Join(errs...); err != nil {
		return benchResult{}, errs[slices.IndexFunc(errs, func(e error) bool { return e != nil })]
	}
	for i := range took {
		if p.name == "create" {
			made[i] = len(took[i])
		}
	}
	all := slices.Concat(took...)
	slices.Sort(all)
	var sum time.Duration
	for _, d := range all {
		sum += d
	}
	ms := func(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
	n := len(all)
	return benchResult{p.name, n, int(float64(n) / elapsed.Seconds()), ms(sum / time.Duration(n)), ms(all[n/2]), ms(all[n*99/100]), ms(all[n-1])}, nil
}
