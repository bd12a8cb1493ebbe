package client_test

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
			b.Run(fmt.Sprintf("%v/goroutines=%d", w, n), func(b *testing.B) { benchmarkGet(b, w, n) })
		}
	}
}

func benchmarkGet(b *testing.B, w client.Wire, goroutines int) {
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
				if _, _, err := c.Get(ctx, "/n"); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
}
