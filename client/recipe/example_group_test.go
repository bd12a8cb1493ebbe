package recipe_test

import (
	"context"
	"fmt"
	"log"
	"sync"

	"github.com/zkserver/zkserver/client"
	"github.com/zkserver/zkserver/client/recipe"
	"github.com/zkserver/zkserver/client/zktest"
)

// server is one in this process, with a function that makes sessions there.
func server() (dial func(context.Context) (*client.Client, error), end func()) {
	s, err := zktest.New()
	if err != nil {
		log.Fatal(err)
	}
	return func(ctx context.Context) (*client.Client, error) { return client.Dial(ctx, s.Addr(), client.Options{}) }, func() { s.Close() }
}

// background runs f until the returned function is called, which waits for its end.
func background(f func(ctx context.Context) error) (end func()) {
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() { _ = f(ctx) })
	return func() { cancel(); wg.Wait() }
}

// A node that is there as long as the program runs, in as many sessions as that takes.
func ExampleKeptNode() {
	dial, end := server()
	defer end()
	node := recipe.NewKeptNode("/hosts/host-1", []byte("up"), recipe.Options{})
	stop := background(func(ctx context.Context) error { return recipe.Sessions(ctx, dial, node.Run) })
	defer stop()
	fmt.Println(node.Wait(context.Background()))
	// Output: <nil>
}

// Two members that see each other.
func ExampleGroup() {
	dial, end := server()
	defer end()
	a := recipe.NewGroup("/workers", "a", []byte("zone 1"), recipe.Options{})
	b := recipe.NewGroup("/workers", "b", []byte("zone 2"), recipe.Options{})
	for _, g := range []*recipe.Group{a, b} {
		stop := background(func(ctx context.Context) error { return recipe.Sessions(ctx, dial, g.Run) })
		defer stop()
	}
	for range a.Cache().Watch(context.Background()) {
		if all := a.Members(); len(all) == 2 {
			for _, m := range all {
				fmt.Println(m.ID, string(m.Data))
			}
			break
		}
	}
	// Output:
	// a zone 1
	// b zone 2
}

// A program that offers a service, and one that looks for it, in one session here.
func ExampleService() {
	ctx := context.Background()
	dial, end := server()
	defer end()
	in := recipe.Instance{Service: "files", ID: "host-1", Address: "10.0.0.1", Port: 8080, Metadata: map[string]string{"zone": "1"}}
	r, err := recipe.NewRegistration("/services", in, recipe.Options{})
	if err != nil {
		log.Println(err)
		return
	}
	s := recipe.NewService("/services", "files")
	stop := background(func(ctx context.Context) error {
		return recipe.Sessions(ctx, dial, func(ctx context.Context, c *client.Client) error {
			return recipe.Together(ctx, c, r.Run, s.Run)
		})
	})
	defer stop()
	for range s.Cache().Watch(ctx) {
		if in, ok := s.Pick(); ok {
			fmt.Println(in.Address, in.Port, in.Metadata["zone"])
			break
		}
	}
	// Output: 10.0.0.1 8080 1
}

// A picture of a tree, with every change.
func ExampleCache() {
	ctx := context.Background()
	dial, end := server()
	defer end()
	cache := recipe.NewTreeCache("/config")
	stop := background(func(ctx context.Context) error { return recipe.Sessions(ctx, dial, cache.Run) })
	defer stop()
	c, err := dial(ctx)
	if err != nil {
		log.Println(err)
		return
	}
	defer c.Close()
	for ev, err := range cache.Watch(ctx) {
		if err != nil {
			log.Println(err)
			return
		}
		fmt.Printf("%v %q\n", ev.Change, ev.Node.Data)
		switch ev.Change {
		case recipe.CacheSynced:
			_, err = c.Create(ctx, "/config", []byte("a"), client.Persistent)
		case recipe.CacheAdded:
			_, err = c.Set(ctx, "/config", []byte("b"), client.AnyVersion)
		case recipe.CacheUpdated:
			err = c.Delete(ctx, "/config", client.AnyVersion)
		case recipe.CacheRemoved:
			return
		}
		if err != nil {
			log.Println(err)
			return
		}
	}
	// Output:
	// synced ""
	// added "a"
	// updated "b"
	// removed "b"
}

// Partitions that are shared among the members: each is worked on by one at a time.
func ExamplePartitioner() {
	dial, end := server()
	defer end()
	p := recipe.NewPartitioner("/consumers", "host-1", []string{"p0", "p1"}, recipe.Options{})
	begun := make(chan string)
	stop := background(func(ctx context.Context) error {
		return recipe.Sessions(ctx, dial, func(ctx context.Context, c *client.Client) error {
			return p.Run(ctx, c, func(name string, h *recipe.Hold) error {
				begun <- name
				<-h.Context().Done() // the work, under h.Token()
				return nil
			})
		})
	})
	defer stop()
	fmt.Println(<-begun)
	fmt.Println(<-begun)
	// Unordered output:
	// p0
	// p1
}
