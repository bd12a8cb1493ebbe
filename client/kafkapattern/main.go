// Command kafkapattern shows how Kafka uses ZooKeeper, in this project's recipes: brokers register, one of them is elected
// controller and assigns the leaders of partitions among the replicas that are in sync, and every change that it makes is
// fenced by its token. It needs nothing but itself:
//
//	go run ./client/kafkapattern
//
// starts three servers and four brokers, each a process, kills a broker, the controller and the leader of the ensemble,
// stops a controller until another one has taken over and lets it go on; and tells what becomes of the partitions. The
// exit status is 0 if they had a leader again each time, among those in sync, and the late controller was refused.
//
// docs/recipes/kafka-pattern.md is its page. It imports client and client/recipe, and for the servers of the show the
// server. To begin reading: plan.go, controller.go, broker.go; cluster.go is the show.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strconv"
	"syscall"
	"time"
)

func main() { os.Exit(run(os.Args[1:])) }

// run is the show, or one of its processes: "server ZOO.CFG", "broker ID CONNECT TIMEOUT". Those end with their standard
// input, so at the latest with the show.
func run(args []string) int {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	var err error
	switch {
	case len(args) == 2 && args[0] == "server":
		err = serve(untilEOF(ctx), args[1])
	case len(args) == 4 && args[0] == "broker":
		err = runBroker(untilEOF(ctx), args[1:], os.Stdout)
	default:
		o := show{out: os.Stdout}
		flags := flag.NewFlagSet("kafkapattern", flag.ContinueOnError)
		flags.IntVar(&o.brokers, "brokers", 4, "number of brokers, at least 3")
		flags.IntVar(&o.partitions, "partitions", 6, "number of partitions, of three replicas each")
		flags.DurationVar(&o.timeout, "session", 2*time.Second, "timeout of the brokers' sessions")
		if err = flags.Parse(args); err != nil {
			return 2
		}
		if o.brokers < replicas || o.partitions < 1 || flags.NArg() > 0 {
			flags.Usage()
			return 2
		}
		err = o.run(ctx)
	}
	if err != nil && !errors.Is(err, context.Canceled) {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// untilEOF ends with standard input.
func untilEOF(ctx context.Context) context.Context {
	ctx, cancel := context.WithCancel(ctx)
	go func() { // ends with the process
		defer cancel()
		_, _ = io.Copy(io.Discard, os.Stdin)
	}()
	return ctx
}

func runBroker(ctx context.Context, args []string, out io.Writer) error {
	id, err := strconv.Atoi(args[0])
	if err != nil {
		return err
	}
	timeout, err := time.ParseDuration(args[2])
	if err != nil {
		return err
	}
	b := &broker{id: id, connect: args[1], timeout: timeout, out: out}
	return b.run(ctx)
}
