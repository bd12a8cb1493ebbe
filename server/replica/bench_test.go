package replica

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/zkserver/zkserver/server/session"
	"github.com/zkserver/zkserver/znode"
)

// countWire writes one byte a reply; countSink counts them.
type countWire struct{}

func (countWire) Slot() int                                                           { return 0 }
func (countWire) AppendReply(dst []byte, _ *session.Reply) []byte                     { return append(dst, 1) }
func (countWire) AppendEvent(dst []byte, _ int64, _ znode.EventType, _ string) []byte { return dst }

type countSink struct {
	n    atomic.Int64
	bell chan struct{}
}

func (s *countSink) TryWrite(b []byte) (int, error) { return s.Write(b) }
func (s *countSink) Write(b []byte) (int, error) {
	s.n.Add(int64(len(b)))
	select {
	case s.bell <- struct{}{}:
	default:
	}
	return len(b), nil
}
func (s *countSink) Close() error { return nil }

// BenchmarkSet is setData of 100 bytes by 32 connections with 64 requests each in flight, without any wire or socket.
func BenchmarkSet(b *testing.B) {
	for _, disk := range []string{"mem", "disk"} {
		b.Run(disk, func(b *testing.B) { benchSet(b, disk, 32, 64) })
	}
}

func benchSet(b *testing.B, disk string, conns, window int) {
	var fs vfs.FS = vfs.NewMem()
	dir := "data"
	if disk == "disk" {
		fs, dir = vfs.Default, b.TempDir()
	}
	x := start(b, 1, 1, fs, nil, func(o *Options) { o.Store.DataDir = dir })
	x.serving()
	load(b, []*node{x}, conns, window)
	if err := x.end(); err != nil {
		b.Fatal(err)
	}
}

// BenchmarkEnsembleSet is the same through three servers with real links and disks.
func BenchmarkEnsembleSet(b *testing.B) {
	nodes, stop := startTCP(b, 3)
	for _, x := range nodes {
		x.serving()
	}
	load(b, nodes, 32, 64)
	stop()
}

// A write costs few allocations between its request and its reply: prepared, proposed, written to the log (in memory
// here), applied, answered. Batches are as large as they happen to become, so the bound has room.
func TestWriteAllocations(t *testing.T) {
	const n, bound = 64, 6
	x := start(t, 1, 1, vfs.NewMem(), nil)
	x.serving()
	k := x.connect(session.Attach{})
	k.must(createReq("/n", "", 0))
	k.release()
	s := &countSink{bell: make(chan struct{}, 1)}
	c := x.hub.Open(countWire{}, s, "127.0.0.1", "test")
	if _, err := c.Attach(t.Context(), session.Attach{Timeout: 30000}); err != nil {
		t.Fatal(err)
	}
	data, sent := make([]byte, 100), int64(0)
	run := func() {
		rs := make([]session.Request, n)
		for j := range rs {
			rs[j] = session.Request{Op: znode.OpSetData, Path: "/n", Write: &znode.Request{Path: "/n", Data: data, Version: -1, TTL: -1}}
		}
		if err := c.Do(rs); err != nil {
			t.Fatal(err)
		}
		for sent += n; s.n.Load() < sent; {
			<-s.bell
		}
	}
	if got := testing.AllocsPerRun(20, run) / n; got > bound {
		t.Errorf("%.1f allocations a write, more than %d", got, bound)
	} else {
		t.Logf("%.1f allocations a write", got)
	}
	c.Release()
	if err := x.end(); err != nil {
		t.Fatal(err)
	}
}

// load writes b.N times through the nodes.
func load(b *testing.B, nodes []*node, conns, window int) {
	k := nodes[0].connect(session.Attach{})
	for i := range conns {
		k.must(createReq(fmt.Sprintf("/n%d", i), "", 0))
	}
	k.release()
	data := make([]byte, 100)
	var wg sync.WaitGroup
	b.ReportAllocs()
	b.ResetTimer()
	per := b.N/conns + 1
	for i := range conns {
		x := nodes[i%len(nodes)]
		wg.Go(func() {
			s := &countSink{bell: make(chan struct{}, 1)}
			c := x.hub.Open(countWire{}, s, "127.0.0.1", "bench")
			defer c.Release()
			if _, err := c.Attach(b.Context(), session.Attach{Timeout: 30000}); err != nil {
				b.Error(err)
				return
			}
			path := fmt.Sprintf("/n%d", i)
			sent := 0
			for s.n.Load() < int64(per) {
				if n := min(window-(sent-int(s.n.Load())), per-sent); n > 0 {
					rs := make([]session.Request, n)
					for j := range rs {
						rs[j] = session.Request{Op: znode.OpSetData, Path: path, Write: &znode.Request{Path: path, Data: data, Version: -1, TTL: -1}}
					}
					if err := c.Heard(b.Context()); err != nil {
						b.Error(err)
						return
					}
					if err := c.Do(rs); err != nil {
						b.Error(err)
						return
					}
					sent += n
				}
				if s.n.Load() < int64(per) {
					<-s.bell
				}
			}
		})
	}
	wg.Wait()
	b.StopTimer()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "ops/s")
}
