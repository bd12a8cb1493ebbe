package livetest

import (
	"context"
	"fmt"
	"sync"
	"testing"

	"github.com/zkserver/zkserver/client"
)

// BenchmarkGet reads a node of 100 bytes from a server of ours in this process, from many goroutines of one session.
func BenchmarkGet(b *testing.B) {
	for _, w := range wires {
		for _, n := range []int{1, 16, 256} {
			b.Run(fmt.Sprintf("%v/goroutines=%d", w, n), func(b *testing.B) {
				benchmark(b, w, n, func(ctx context.Context, c *client.Client) error {
					_, _, err := c.Get(ctx, "/n")
					return err
				})
			})
		}
	}
}

// BenchmarkSet writes a node of 100 bytes likewise; the disk's sync is in it.
func BenchmarkSet(b *testing.B) {
	for _, w := range wires {
		for _, n := range []int{1, 64} {
			b.Run(fmt.Sprintf("%v/goroutines=%d", w, n), func(b *testing.B) {
				data := make([]byte, 100)
				benchmark(b, w, n, func(ctx context.Context, c *client.Client) error {
					_, err := c.Set(ctx, "/n", data, client.AnyVersion)
					return err
				})
			})
		}
	}
}

func benchmark(b *testing.B, w client.Wire, goroutines int, op func(context.Context, *client.Client) error) {
	ctx := context.Background()
	c, err := client.Dial(ctx, startEnsemble(b, 1).addrs[0], client.Options{Wire: w})
	if err != nil {
		b.Fatal(err)
	}
	defer c.Abandon()
	if _, err := c.Create(ctx, "/n", make([]byte, 100), client.Persistent); err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	b.ResetTimer()
	var wg sync.WaitGroup
	for g := range goroutines {
		wg.Go(func() {
			for i := g; i < b.N; i += goroutines {
				if err := op(ctx, c); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
}
