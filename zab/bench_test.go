package zab

import (
	"fmt"
	"testing"
)

// proposer gives what a leader of three does about one batch of n entries: proposes it, takes its runs to two followers,
// its own disk's answer and theirs, commits.
func proposer(tb testing.TB, n int) (propose func()) {
	c := newCluster(voters(3), Options{}, 1)
	for _, id := range c.ids {
		if err := c.start(c.nodes[id]); err != nil {
			tb.Fatal(err)
		}
	}
	for _, x := range c.ids {
		for _, y := range c.ids {
			c.connect(x, y)
		}
	}
	for _, id := range c.ids {
		c.nodes[id].step(Elected{1})
	}
	c.settle()
	core := c.nodes[1].core
	to2, to3 := c.links[[2]ServerID{2, 1}].link, c.links[[2]ServerID{3, 1}].link
	data := make([]byte, 150)
	return func() {
		z, ok := core.NextZxid()
		if !ok {
			tb.Fatal("may not propose")
		}
		entries := make([]Entry, n)
		for i := range entries {
			entries[i] = Entry{Zxid: z + Zxid(i), Data: data}
		}
		core.Step(Propose{entries})
		x, _ := core.Ready()
		last := z + Zxid(n) - 1
		core.Step(Received{Link: to2, Msg: &Ack{Epoch: 1, Durable: last}})
		core.Step(Persisted{Seq: x.Persist[0].Seq, Gen: x.Gen})
		core.Step(Received{Link: to3, Msg: &Ack{Epoch: 1, Durable: last}})
		y, _ := core.Ready()
		if y.Deliver != last {
			tb.Fatal("not delivered")
		}
	}
}

// What a batch allocates does not grow with it: the list of its entries is one of them.
func TestProposeAllocations(t *testing.T) {
	for _, n := range []int{1, 32, 1000} {
		if got := testing.AllocsPerRun(100, proposer(t, n)); got > 24 {
			t.Errorf("a batch of %d: %v allocations, more than 24", n, got)
		}
	}
}

// BenchmarkPropose is the leader's whole path of one batch.
func BenchmarkPropose(b *testing.B) {
	for _, n := range []int{1, 32, 1000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			propose := proposer(b, n)
			b.ReportAllocs()
			for b.Loop() {
				propose()
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*n), "ns/txn")
		})
	}
}

// BenchmarkFollow is a follower's path of one run.
func BenchmarkFollow(b *testing.B) {
	c := newCluster(voters(3), Options{}, 1)
	for _, id := range c.ids {
		if err := c.start(c.nodes[id]); err != nil {
			b.Fatal(err)
		}
	}
	c.connect(1, 2)
	for _, id := range c.ids {
		c.nodes[id].step(Elected{1})
	}
	c.settle()
	core, link := c.nodes[2].core, c.links[[2]ServerID{1, 2}].link
	data := make([]byte, 150)
	prev, z := Zxid(0), MakeZxid(1, 1)
	b.ReportAllocs()
	for b.Loop() {
		entries := make([]Entry, 32)
		for i := range entries {
			entries[i] = Entry{Zxid: z + Zxid(i), Data: data}
		}
		core.Step(Received{Link: link, Msg: &Append{Epoch: 1, Prev: prev, Entries: entries, Committed: prev}})
		prev, z = z+31, z+32
		x, _ := core.Ready()
		core.Step(Persisted{Seq: x.Persist[0].Seq, Gen: x.Gen})
	}
}
