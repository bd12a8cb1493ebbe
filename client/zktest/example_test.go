package zktest_test

import (
	"context"
	"errors"
	"fmt"
	"log"

	"github.com/zkserver/zkserver/client"
	"github.com/zkserver/zkserver/client/zktest"
)

// What a program sees when its session ends. In a test, Start takes the place of New and Close.
func ExampleServer() {
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
	if _, err := c.Create(ctx, "/me", nil, client.Ephemeral); err != nil {
		log.Println(err)
		return
	}
	_, _, watch, err := c.GetW(ctx, "/me")
	if err != nil {
		log.Println(err)
		return
	}
	if err := s.Expire(c.Session()); err != nil {
		log.Println(err)
		return
	}
	ev := <-watch.C
	fmt.Println(ev.Type, errors.Is(ev.Err, client.ErrSessionExpired))
	// Output: WatchLost true
}
