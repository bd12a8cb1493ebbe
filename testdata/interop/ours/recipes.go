package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/zkserver/zkserver/client"
	"github.com/zkserver/zkserver/client/recipe"
)

// recipes is one of our recipes beside another client's: see ../README.md.
func recipes(mode string, c *client.Client, path string, args []string) {
	switch mode {
	case "count":
		n, err := strconv.Atoi(args[1])
		check(err == nil, "%v", err)
		add := adder(c, path, args[0])
		for range n {
			err := add()
			check(err == nil, "add: %v", err)
		}
		say("done")
	case "read":
		if args[0] == "text" {
			data, _, err := recipe.NewValue(c, path, recipe.Options{}).Get(ctx)
			check(err == nil, "get: %v", err)
			say(fmt.Sprint(len(data)))
			break
		}
		n, err := counter(c, path, args[0]).Get(ctx)
		check(err == nil, "get: %v", err)
		say(fmt.Sprint(n))
	case "put":
		n, err := strconv.Atoi(args[1])
		check(err == nil, "%v", err)
		for i := range n {
			err := recipe.NewQueue(c, path, recipe.Options{}).Put(ctx, fmt.Appendf(nil, "%s-%d", args[0], i), recipe.DefaultPriority)
			check(err == nil, "put: %v", err)
		}
		say("done")
	case "take":
		say(strings.Join(take(recipe.NewQueue(c, path, recipe.Options{}), args[0]), " "))
	case "member":
		g := recipe.NewGroup(path, args[0], []byte("of "+args[0]), recipe.Options{})
		stay(c, g.Run, g.Cache(), func() (all []string) {
			for _, m := range g.Members() {
				all = append(all, m.ID+" "+string(m.Data))
			}
			return all
		})
	case "service":
		port, err := strconv.Atoi(args[1])
		check(err == nil, "%v", err)
		in := recipe.Instance{Service: "files", ID: args[0], Address: "10.0.0.1", Port: port, Metadata: map[string]string{"zone": args[0]}}
		r, err := recipe.NewRegistration(path, in, recipe.Options{})
		check(err == nil, "registration: %v", err)
		s := recipe.NewService(path, "files")
		both := func(ctx context.Context, c *client.Client) error { return recipe.Together(ctx, c, r.Run, s.Run) }
		stay(c, both, s.Cache(), func() (all []string) {
			for _, in := range s.Instances() {
				all = append(all, fmt.Sprintf("%s %s %d %s", in.ID, in.Address, in.Port, in.Metadata["zone"]))
			}
			return all
		})
	case "barrier":
		b := recipe.NewBarrier(c, path, recipe.Options{})
		err := b.Set(ctx)
		check(err == nil, "set: %v", err)
		say("set")
		_, _ = io.Copy(io.Discard, os.Stdin)
		err = b.Remove(ctx)
		check(err == nil, "remove: %v", err)
	case "wait":
		err := recipe.NewBarrier(c, path, recipe.Options{}).Wait(ctx)
		check(err == nil, "wait: %v", err)
		say("passed")
	}
	_ = c.Close() // on a busy machine the session may be left to its timeout
}

func say(line string) { _, _ = os.Stdout.WriteString(line + "\n") }

func counter(c *client.Client, path, format string) *recipe.Counter {
	f := map[string]recipe.CounterFormat{"decimal": recipe.Decimal, "int32": recipe.Int32, "int64": recipe.Int64}
	return recipe.NewCounter(c, path, f[format], recipe.Options{})
}

// adder adds 1, to a text a character.
func adder(c *client.Client, path, format string) func() error {
	if format == "text" {
		v := recipe.NewValue(c, path, recipe.Options{})
		return func() error {
			_, err := v.Update(ctx, func(old []byte) ([]byte, error) { return append(old, 'o'), nil })
			return err
		}
	}
	n := counter(c, path, format)
	return func() error { _, err := n.Add(ctx, 1); return err }
}

// idle is how long nothing comes before a queue counts as empty.
const idle = 5 * time.Second

// take has items until none comes, claimed or not.
func take(q *recipe.Queue, how string) (had []string) {
	for {
		limit, cancel := context.WithTimeout(ctx, idle)
		var item recipe.Item
		var err error
		if how == "claim" {
			var claim *recipe.Claim
			if claim, err = q.Claim(limit); err == nil {
				item = claim.Item()
				check(claim.Finish(ctx) == nil, "finish")
			}
		} else {
			item, err = q.Take(limit)
		}
		cancel()
		if errors.Is(err, context.DeadlineExceeded) {
			return had
		}
		check(err == nil, "take: %v", err)
		had = append(had, string(item.Data))
	}
}

// stay runs until standard input ends; it tells who is there once there are two.
func stay(c *client.Client, run func(context.Context, *client.Client) error, cache *recipe.Cache, who func() []string) {
	run2, cancel := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- run(run2, c) }()
	for range cache.Watch(run2) {
		if all := who(); len(all) == 2 {
			slices.Sort(all)
			say(strings.Join(all, ", "))
			break
		}
	}
	_, _ = io.Copy(io.Discard, os.Stdin)
	cancel()
	err := <-ended
	check(errors.Is(err, context.Canceled), "run: %v", err)
}
