package recipe_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/zkserver/zkserver/client"
	"github.com/zkserver/zkserver/client/recipe"
	"github.com/zkserver/zkserver/client/zktest"
)

// session is one on a server in this process.
func session(ctx context.Context) (c *client.Client, end func()) {
	s, err := zktest.New()
	if err != nil {
		log.Fatal(err)
	}
	c, err = client.Dial(ctx, s.Addr(), client.Options{SessionTimeout: 10 * time.Second})
	if err != nil {
		log.Fatal(err)
	}
	return c, func() { _, _ = c.Close(), s.Close() }
}

// Runs a function whenever this process leads, in as many sessions as that takes.
func ExampleLead() {
	s, err := zktest.New()
	if err != nil {
		log.Println(err)
		return
	}
	defer s.Close()
	dial := func(ctx context.Context) (*client.Client, error) {
		return client.Dial(ctx, s.Addr(), client.Options{SessionTimeout: 5 * time.Second})
	}
	ctx, cancel := context.WithCancel(context.Background())
	err = recipe.Lead(ctx, dial, "/election", recipe.Options{ID: "host-1"}, func(h *recipe.Hold) error {
		fmt.Println("leading, by a token:", h.Token() > 0)
		cancel() // the program ends
		<-h.Context().Done()
		return nil
	})
	fmt.Println(err)
	// Output:
	// leading, by a token: true
	// context canceled
}

// Campaigns, asks who leads, and resigns.
func ExampleElection() {
	ctx := context.Background()
	c, end := session(ctx)
	defer end()
	election := recipe.NewElection(c, "/election", recipe.Options{ID: "host-1"})
	h, err := election.Campaign(ctx)
	if err != nil {
		log.Println(err)
		return
	}
	leader, ok, err := election.Leader(ctx) // anybody may ask
	fmt.Println(leader.ID, ok, err, leader.Token == h.Token())
	fmt.Println(h.Release(ctx), context.Cause(h.Context()))
	// Output:
	// host-1 true <nil> true
	// <nil> recipe: released
}

// Follows the leadership without taking part.
func ExampleElection_Observe() {
	ctx := context.Background()
	c, end := session(ctx)
	defer end()
	h, err := recipe.NewElection(c, "/election", recipe.Options{ID: "host-1"}).Campaign(ctx)
	if err != nil {
		log.Println(err)
		return
	}
	for leader, err := range recipe.NewElection(c, "/election", recipe.Options{}).Observe(ctx) {
		if err != nil {
			log.Println(err)
			return
		}
		if leader.Path == "" {
			fmt.Println("nobody leads")
			break
		}
		fmt.Println(leader.ID, "leads")
		if err := h.Release(ctx); err != nil {
			log.Println(err)
		}
	}
	// Output:
	// host-1 leads
	// nobody leads
}

// A change that takes effect only as long as nobody else has taken over.
func ExampleFence() {
	ctx := context.Background()
	c, end := session(ctx)
	defer end()
	election := recipe.NewElection(c, "/election", recipe.Options{})
	lead := func() (*recipe.Hold, *recipe.Fence) {
		h, err := election.Campaign(ctx)
		if err != nil {
			log.Fatal(err)
		}
		f, err := h.Fence(ctx, "/epoch")
		if err != nil {
			log.Fatal(err)
		}
		return h, f
	}
	h, old := lead()
	_, err := old.Multi(ctx, client.CreateOp{Path: "/assignment", Data: []byte("a")})
	fmt.Println(err)
	_ = h.Release(ctx)

	h, _ = lead() // another process, as a rule
	_, err = old.Multi(ctx, client.SetOp{Path: "/assignment", Data: []byte("b"), Version: client.AnyVersion})
	fmt.Println(errors.Is(err, recipe.ErrFenced))
	_ = h.Release(ctx)
	// Output:
	// <nil>
	// true
}

// Holds a lock while something is done, and hands the token to whatever is written to.
func ExampleMutex() {
	ctx := context.Background()
	c, end := session(ctx)
	defer end()
	m := recipe.NewMutex(c, "/locks/report", recipe.Options{ID: "host-1"})
	h, err := m.Lock(ctx)
	if err != nil {
		log.Println(err)
		return
	}
	write := func(ctx context.Context, token int64) error { return ctx.Err() } // refuses older tokens
	fmt.Println(write(h.Context(), h.Token()))

	_, err = m.TryLock(ctx)
	fmt.Println(err)
	fmt.Println(h.Release(ctx))
	// Output:
	// <nil>
	// recipe: held by somebody else
	// <nil>
}

// A function that has the lock calls another one that takes it too.
func ExampleMutex_reentrant() {
	ctx := context.Background()
	c, end := session(ctx)
	defer end()
	m := recipe.NewMutex(c, "/lock", recipe.Options{Reentrant: true})
	locked := func(ctx context.Context, f func(ctx context.Context)) {
		h, err := m.Lock(ctx)
		if err != nil {
			log.Println(err)
			return
		}
		defer func() { _ = h.Release(ctx) }()
		f(h.Context())
	}
	locked(ctx, func(ctx context.Context) {
		locked(ctx, func(context.Context) { fmt.Println("twice") })
	})
	// Output: twice
}

// Many readers, or one writer.
func ExampleRWMutex() {
	ctx := context.Background()
	c, end := session(ctx)
	defer end()
	m := recipe.NewRWMutex(c, "/config-lock", recipe.Options{})
	r1, err := m.RLock(ctx)
	if err != nil {
		log.Println(err)
		return
	}
	r2, err := m.RLock(ctx)
	if err != nil {
		log.Println(err)
		return
	}
	_, err = m.TryLock(ctx)
	fmt.Println(err)
	fmt.Println(r1.Release(ctx), r2.Release(ctx))
	w, err := m.TryLock(ctx)
	if err != nil {
		log.Println(err)
		return
	}
	fmt.Println(w.Release(ctx))
	// Output:
	// recipe: held by somebody else
	// <nil> <nil>
	// <nil>
}

// At most two at a time.
func ExampleSemaphore() {
	ctx := context.Background()
	c, end := session(ctx)
	defer end()
	s := recipe.NewSemaphore(c, "/downloads", 2, recipe.Options{})
	for range 3 {
		_, err := s.TryAcquire(ctx)
		fmt.Println(err)
	}
	// Output:
	// <nil>
	// <nil>
	// recipe: held by somebody else
}

// A sequential node is made once, even if its reply gets lost.
func ExampleCreate() {
	s, err := zktest.New()
	if err != nil {
		log.Println(err)
		return
	}
	defer s.Close()
	ctx := context.Background()
	c, err := client.Dial(ctx, s.Addr(), client.Options{})
	if err != nil {
		log.Println(err)
		return
	}
	defer c.Close()
	if _, err := c.Create(ctx, "/jobs", nil, client.Persistent); err != nil {
		log.Println(err)
		return
	}
	s.LoseReply()
	path, _, err := recipe.Create(ctx, c, "/jobs/job-", []byte("x"), client.PersistentSequential)
	if err != nil {
		log.Println(err)
		return
	}
	names, _, err := c.Children(ctx, "/jobs")
	fmt.Println(len(names), path == "/jobs/"+names[0], s.LostReplies(), err)
	// Output: 1 true 1 <nil>
}

// Locks two paths together.
func ExampleMultiLock() {
	ctx := context.Background()
	c, end := session(ctx)
	defer end()
	h, err := recipe.NewMultiLock(c, []string{"/accounts/9", "/accounts/7"}, recipe.Options{}).Lock(ctx)
	if err != nil {
		log.Println(err)
		return
	}
	_, err = recipe.NewMutex(c, "/accounts/7", recipe.Options{}).TryLock(ctx)
	fmt.Println(len(h.Tokens()), errors.Is(err, recipe.ErrBusy))
	fmt.Println(h.Release(ctx))
	// Output:
	// 2 true
	// <nil>
}

// Asks the holder of a lock to make way.
func ExampleRevoke() {
	ctx := context.Background()
	c, end := session(ctx)
	defer end()
	m := recipe.NewMutex(c, "/report", recipe.Options{ID: "host-1"})
	h, err := m.Lock(ctx)
	if err != nil {
		log.Println(err)
		return
	}
	line, err := m.Participants(ctx) // the holder first
	if err != nil {
		log.Println(err)
		return
	}
	fmt.Println(line[0].ID, "holds:", recipe.Revoke(ctx, c, line[0].Path))
	<-h.Revoked() // between two pieces of work
	fmt.Println("makes way:", h.Release(ctx))
	// Output:
	// host-1 holds: <nil>
	// makes way: <nil>
}
