package transport

import (
	"bytes"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/zkserver/zkserver/server/peer"
	"github.com/zkserver/zkserver/zab"
)

// counter answers each run it gets with an ack, as a learner would.
type counter struct {
	t     atomic.Pointer[Transport]
	up    chan zab.Link
	acked chan zab.Zxid
}

func (c *counter) LinkUp(l zab.Link, _ time.Duration) { c.up <- l }
func (c *counter) LinkDown(zab.Link, bool)            {}
func (c *counter) DialFailed(zab.ServerID, bool)      {}
func (c *counter) SnapshotStart(zab.Link, zab.Zxid) (SnapshotSink, error) {
	return nil, ErrStopped
}

func (c *counter) Messages(l zab.Link, msgs []peer.Message) {
	for _, m := range msgs {
		switch m := m.(type) {
		case *zab.Append:
			c.t.Load().Send(l, &zab.Ack{Durable: m.Entries[len(m.Entries)-1].Zxid})
		case *zab.Ack:
			c.acked <- m.Durable
		}
	}
}

// BenchmarkAppend sends runs of entries of 200 bytes, at most 1024 entries in flight, and counts one an entry.
func BenchmarkAppend(b *testing.B) {
	for _, run := range []int{1, 32} {
		b.Run(fmt.Sprintf("run=%d", run), func(b *testing.B) {
			n := newBenchPair(b)
			data := bytes.Repeat([]byte{1}, 200)
			b.ReportAllocs()
			sent, acked := zab.Zxid(0), zab.Zxid(0)
			for b.Loop() {
				if sent++; sent%zab.Zxid(run) != 0 {
					continue
				}
				es := make([]zab.Entry, run)
				for i := range es {
					es[i] = zab.Entry{Zxid: sent - zab.Zxid(run-1-i), Data: data}
				}
				n.a.t.Load().Send(n.link, &zab.Append{Entries: es})
				for sent-acked >= 1024 {
					acked = <-n.a.acked
				}
			}
		})
	}
}

type benchPair struct {
	a, b *counter
	link zab.Link
}

func newBenchPair(b *testing.B) *benchPair {
	var l lan
	l.init()
	for _, id := range []zab.ServerID{1, 2} {
		if err := l.reserve(id); err != nil {
			b.Fatal(err)
		}
	}
	p := &benchPair{a: &counter{}, b: &counter{}}
	for i, c := range []*counter{p.a, p.b} {
		c.up, c.acked = make(chan zab.Link, 1), make(chan zab.Zxid, 4096)
		id := zab.ServerID(i + 1)
		o := testOptions(id, l.free[id], l.addrs)
		o.Log = zerolog.Nop()
		t, err := New(o, c)
		if err != nil {
			b.Fatal(err)
		}
		c.t.Store(t)
		done := make(chan struct{})
		ctx := b.Context()
		go func() { // ends with the benchmark
			defer close(done)
			_ = t.Run(ctx)
		}()
		b.Cleanup(func() { <-done })
	}
	p.link = <-p.a.up
	<-p.b.up
	return p
}
