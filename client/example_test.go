package client_test

import (
	"context"
	"errors"
	"log"
	"time"

	"github.com/zkserver/zkserver/client"
)

// A session on one of three servers, below a chroot: a node is made, changed with its version, and read.
func Example() {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	c, err := client.Dial(ctx, "zk1:2181,zk2:2181,zk3:2181/app", client.Options{SessionTimeout: 10 * time.Second})
	if err != nil {
		log.Println(err)
		return
	}
	defer c.Close()

	_, err = c.Create(ctx, "/config", []byte("a"), client.Persistent)
	if err != nil && !errors.Is(err, client.ErrNodeExists) {
		log.Println(err)
		return
	}
	_, st, err := c.Get(ctx, "/config")
	if err != nil {
		log.Println(err)
		return
	}
	_, err = c.Set(ctx, "/config", []byte("b"), st.Version)
	switch {
	case errors.Is(err, client.ErrBadVersion):
		log.Println("somebody else was faster")
	case client.MaybeApplied(err):
		log.Println("the connection broke: read the node to see")
	}
}

// Follows a node: read and watch, wait, and again.
func ExampleClient_GetW() {
	ctx := context.Background()
	c, err := client.Dial(ctx, "localhost", client.Options{})
	if err != nil {
		log.Println(err)
		return
	}
	defer c.Close()
	for {
		data, _, w, err := c.GetW(ctx, "/config")
		if errors.Is(err, client.ErrConnectionLoss) {
			continue // the next call waits for a connection
		}
		if err != nil {
			log.Println(err)
			return
		}
		log.Printf("%s\n", data)
		if ev := <-w.C; ev.Err != nil {
			log.Println(ev.Err) // the session is over
			return
		}
	}
}

// Does something only as long as an ephemeral node of this session is sure to be there.
func ExampleClient_HoldContext() {
	ctx := context.Background()
	c, err := client.Dial(ctx, "localhost", client.Options{})
	if err != nil {
		log.Println(err)
		return
	}
	defer c.Close()
	if _, err := c.Create(ctx, "/leader", nil, client.Ephemeral); err != nil {
		log.Println(err)
		return
	}
	hold, cancel := c.HoldContext(ctx)
	defer cancel()
	lead := func(ctx context.Context) { <-ctx.Done() }
	lead(hold) // has to end when its context does
	log.Println(context.Cause(hold))
}

// A change of two nodes that takes place as a whole, or not at all.
func ExampleClient_Multi() {
	ctx := context.Background()
	c, err := client.Dial(ctx, "localhost", client.Options{Wire: client.GRPC})
	if err != nil {
		log.Println(err)
		return
	}
	defer c.Close()
	results, err := c.Multi(ctx,
		client.CheckOp{Path: "/epoch", Version: 7},
		client.SetOp{Path: "/epoch", Data: []byte("8"), Version: 7},
		client.CreateOp{Path: "/log/entry-", Mode: client.PersistentSequential},
	)
	if err != nil {
		log.Println(err, results)
		return
	}
	log.Println("made", results[2].Path)
}
