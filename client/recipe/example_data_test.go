package recipe_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log"
	"sync"
	"sync/atomic"

	"github.com/zkserver/zkserver/client"
	"github.com/zkserver/zkserver/client/recipe"
)

// Who waits goes on when the barrier is removed.
func ExampleBarrier() {
	ctx := context.Background()
	c, end := session(ctx)
	defer end()
	b := recipe.NewBarrier(c, "/migration", recipe.Options{ID: "host-1"})
	if err := b.Set(ctx); err != nil {
		log.Println(err)
		return
	}
	passed := make(chan error)
	go func() { passed <- b.Wait(ctx) }()
	fmt.Println(b.Remove(ctx), <-passed)
	// Output: <nil> <nil>
}

// Three workers begin together, and end together.
func ExampleDoubleBarrier() {
	ctx := context.Background()
	c, end := session(ctx)
	defer end()
	var inside, most atomic.Int32
	var wg sync.WaitGroup
	for range 3 {
		wg.Go(func() {
			stay, err := recipe.NewDoubleBarrier(c, "/round", 3, recipe.Options{}).Enter(ctx)
			if err != nil {
				log.Println(err)
				return
			}
			most.Store(max(most.Load(), inside.Add(1)))
			if err := stay.Leave(ctx); err != nil {
				log.Println(err)
			}
			fmt.Println("left, of", most.Load())
		})
	}
	wg.Wait()
	// Output:
	// left, of 3
	// left, of 3
	// left, of 3
}

// Items by priority, taken for good.
func ExampleQueue() {
	ctx := context.Background()
	c, end := session(ctx)
	defer end()
	q := recipe.NewQueue(c, "/jobs", recipe.Options{})
	for _, err := range []error{
		q.Put(ctx, []byte("first"), recipe.DefaultPriority),
		q.Put(ctx, []byte("second"), recipe.DefaultPriority),
		q.Put(ctx, []byte("urgent"), recipe.MinPriority),
	} {
		if err != nil {
			log.Println(err)
			return
		}
	}
	for range 3 {
		item, err := q.Take(ctx)
		fmt.Println(string(item.Data), item.Priority, err)
	}
	// Output:
	// urgent 0 <nil>
	// first 100 <nil>
	// second 100 <nil>
}

// An item that is worked on, and comes back if that does not end well. What it yields is written exactly once.
func ExampleQueue_Claim() {
	ctx := context.Background()
	c, end := session(ctx)
	defer end()
	q := recipe.NewQueue(c, "/jobs", recipe.Options{})
	if err := q.Put(ctx, []byte("report"), recipe.DefaultPriority); err != nil {
		log.Println(err)
		return
	}
	work := func(ctx context.Context, data []byte) ([]byte, error) { return bytes.ToUpper(data), ctx.Err() }
	claim, err := q.Claim(ctx)
	if err != nil {
		log.Println(err)
		return
	}
	result, err := work(claim.Context(), claim.Item().Data)
	if err != nil {
		fmt.Println(claim.Release(ctx)) // for somebody else
		return
	}
	fmt.Println(claim.Finish(ctx, client.CreateOp{Path: "/result", Data: result}))
	data, _, err := c.Get(ctx, "/result")
	fmt.Println(string(data), err)
	// Output:
	// <nil>
	// REPORT <nil>
}

// Counts of many programs.
func ExampleCounter() {
	ctx := context.Background()
	c, end := session(ctx)
	defer end()
	n := recipe.NewCounter(c, "/visits", recipe.Decimal, recipe.Options{})
	for range 3 {
		fmt.Println(n.Add(ctx, 2))
	}
	// Output:
	// 2 <nil>
	// 4 <nil>
	// 6 <nil>
}

// A change that is made of what is there, however many others change it at the same time.
func ExampleValue() {
	ctx := context.Background()
	c, end := session(ctx)
	defer end()
	v := recipe.NewValue(c, "/config", recipe.Options{})
	add := func(line string) ([]byte, error) {
		return v.Update(ctx, func(old []byte) ([]byte, error) {
			if bytes.Contains(old, []byte(line)) {
				return nil, errors.New("it is there")
			}
			return append(old, line...), nil
		})
	}
	data, err := add("a=1;")
	fmt.Println(string(data), err)
	data, err = add("b=2;")
	fmt.Println(string(data), err)
	_, err = add("a=1;")
	fmt.Println(err)
	// Output:
	// a=1; <nil>
	// a=1;b=2; <nil>
	// it is there
}
