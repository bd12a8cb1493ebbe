package replica

import (
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/zkserver/zkserver/server/session"
	"github.com/zkserver/zkserver/zab"
)

// A learner goes, and comes again, while its snapshot is being prepared: the first is closed when it is ready and not offered,
// or the log would be kept for it for ever.
func TestSnapshotGivenUpBeforeItIsReady(t *testing.T) {
	x := start(t, 1, 1, vfs.NewMem(), nil)
	x.serving()
	k := x.connect(session.Attach{})
	k.must(createReq("/a", "x", 0))
	link := zab.Link{Peer: 2, Incarnation: 7}
	need := zab.NeedSnapshot{Link: link, Min: x.r.Status().Applied + 1}
	b := &x.r.bulk
	for _, again := range []bool{false, true} {
		b.event(need)
		b.event(zab.CancelSnapshot{Link: link})
		if again {
			b.event(need)
		}
	}
	k.must(createReq("/b", "x", 0))
	b.wg.Wait()
	b.mu.Lock()
	w := b.wants[link]
	b.mu.Unlock()
	if w == nil || w.reader == nil || len(b.wants) != 1 {
		t.Fatalf("%d are wanted", len(b.wants))
	}
	b.event(zab.CancelSnapshot{Link: link})
	if len(b.wants) != 0 {
		t.Errorf("%d are wanted by nobody", len(b.wants))
	}
	k.release()
	if err := x.end(); err != nil {
		t.Error(err)
	}
}
