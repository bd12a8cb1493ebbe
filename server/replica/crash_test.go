package replica

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/zkserver/zkserver/server/session"
	"github.com/zkserver/zkserver/znode"
)

// TestCrashUnderLoad cuts the power of a single server that is writing, again and again. It must start again every time
// (the state is never ahead of the durable log, interleavings 4), with everything it acknowledged (I6).
func TestCrashUnderLoad(t *testing.T) {
	rnd := rand.New(rand.NewPCG(7, 7))
	fs := vfs.NewCrashableMem()
	acked := make([]atomic.Int64, 8)
	hurry := func(o *Options) { o.Store.FlushTxns, o.Store.FlushBytes, o.Store.DiffCount = 50, 4096, 200 }
	for round := range 6 {
		x := start(t, 1, 1, fs, nil, hurry)
		x.serving()
		k := x.connect(session.Attach{})
		for i := range acked {
			path := fmt.Sprintf("/n%d", i)
			l := k.must(getReq(path))
			if round == 0 {
				k.must(createReq(path, "0", 0))
				continue
			}
			var got int64
			if _, err := fmt.Sscan(l.Data, &got); err != nil || got < acked[i].Load() {
				t.Fatalf("round %d: %s has %q, acknowledged was %d", round, path, l.Data, acked[i].Load())
			}
			acked[i].Store(got)
		}
		k.release()
		stop := make(chan struct{})
		var wg sync.WaitGroup
		for i := range acked {
			wg.Go(func() { // ends with stop
				c := x.connect(session.Attach{})
				defer c.release()
				path := fmt.Sprintf("/n%d", i)
				for v := acked[i].Load() + 1; ; v++ {
					l, err := c.call(setReq(path, fmt.Sprint(v)))
					if err != nil || l.Err != znode.OK {
						t.Errorf("set: %+v %v", l, err)
						return
					}
					select {
					case <-stop:
						return
					default:
						acked[i].Store(v)
					}
				}
			})
		}
		goal := uint64(300 + rnd.IntN(1500))
		x.until("some writes", func(s Status) bool { return s.Txns > goal })
		close(stop)
		clone := fs.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: rnd.IntN(3) * 50, RNG: rnd})
		wg.Wait()
		if err := x.end(); err != nil {
			t.Fatal(err)
		}
		fs = clone
	}
}
