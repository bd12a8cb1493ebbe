package replica

import (
	"context"
	"fmt"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/zkserver/zkserver/server/session"
	"github.com/zkserver/zkserver/server/transport"
	"github.com/zkserver/zkserver/zab"
	"github.com/zkserver/zkserver/znode"
)

// startTCP starts replicas with real links over the loopback.
func startTCP(t testing.TB, n int) (nodes []*node, stop func()) {
	var ls []net.Listener
	for range n {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		ls = append(ls, l)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	for i := range n {
		dir := t.TempDir()
		x := open(t, zab.ServerID(i+1), n, vfs.Default, func(o *Options) { o.Store.DataDir = dir })
		o := transport.Options{
			Self: x.id, Instance: x.r.Instance(), Process: x.r.Process(), Ensemble: x.r.Ensemble,
			ConfigSum: zab.ConfigSum(members(n)), Listener: ls[i], Silence: time.Second, Log: testLog(),
		}
		for j, l := range ls {
			if j != i {
				o.Peers = append(o.Peers, transport.Peer{ID: zab.ServerID(j + 1), Addrs: []string{l.Addr().String()}})
			}
		}
		tr, err := transport.New(o, x.r)
		if err != nil {
			t.Fatal(err)
		}
		x.r.Bind(tr)
		wg.Go(func() { // ends with cancel
			if err := tr.Run(ctx); err != nil && ctx.Err() == nil {
				t.Error(err)
			}
		})
		x.run()
		nodes = append(nodes, x)
	}
	return nodes, func() {
		for _, x := range nodes {
			if err := x.end(); err != nil {
				t.Error(err)
			}
		}
		cancel()
		wg.Wait()
	}
}

func TestEnsembleOverRealLinks(t *testing.T) {
	nodes, stop := startTCP(t, 3)
	var ks []*client
	for i, x := range nodes {
		x.serving()
		k := x.connect(session.Attach{})
		if l := k.must(createReq(fmt.Sprintf("/n%d", i), "x", 0)); l.Err != znode.OK {
			t.Fatalf("%+v", l)
		}
		ks = append(ks, k)
	}
	for _, k := range ks {
		k.must(syncReq())
		for i := range nodes {
			if l := k.must(getReq(fmt.Sprintf("/n%d", i))); l.Data != "x" {
				t.Fatalf("server %d, /n%d: %+v", k.x.id, i, l)
			}
		}
		k.release()
	}
	stop()
}
