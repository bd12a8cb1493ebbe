package replica

import (
	"context"
	"errors"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/zkserver/zkserver/server/session"
	"github.com/zkserver/zkserver/server/transport"
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

// heldLinks keep each transfer until the test says what became of it.
type heldLinks struct {
	Links
	transfers []*heldTransfer
}

type heldTransfer struct {
	ctx  context.Context
	done func(err error)
}

func (h *heldLinks) SendSnapshot(ctx context.Context, _ zab.Link, src transport.SnapshotSource, done func(error), _ func()) {
	h.transfers = append(h.transfers, &heldTransfer{ctx, func(err error) { done(errors.Join(err, src.Close())) }})
}

// TestTransferGivenUp: a transfer ends when the role ends that asked for it. Whatever becomes of it then, nothing is said
// of it: the learner that the next leadership has on the same link would be taken to have its snapshot.
func TestTransferGivenUp(t *testing.T) {
	x := open(t, 1, 3, vfs.NewMem())
	links := new(heldLinks)
	x.r.Bind(links)
	b, link := &x.r.bulk, zab.Link{Peer: 2, Incarnation: 7}
	said := func() (out []zab.SnapshotSent) {
		for _, in := range x.r.inbox.take() {
			if s, ok := in.(Core).In.(zab.SnapshotSent); ok {
				out = append(out, s)
			}
		}
		return out
	}
	begin := func() *heldTransfer {
		b.event(zab.NeedSnapshot{Link: link})
		b.wg.Wait()
		b.event(zab.StreamSnapshot{Link: link})
		if s := said(); len(s) != 0 {
			t.Fatalf("said %+v", s)
		}
		return links.transfers[len(links.transfers)-1]
	}
	old := begin()
	b.event(zab.CancelSnapshot{Link: link})
	if old.ctx.Err() == nil {
		t.Error("goes on though it is given up")
	}
	next := begin()
	old.done(nil)
	if s := said(); len(s) != 0 || next.ctx.Err() != nil {
		t.Errorf("the old one's end: said %+v, the new one: %v", s, next.ctx.Err())
	}
	next.done(nil)
	if s := said(); len(s) != 1 || s[0].Failed || s[0].Link != link {
		t.Errorf("said %+v", s)
	}
	if next.ctx.Err() == nil || len(b.wants) != 0 {
		t.Errorf("left: %d wanted", len(b.wants))
	}
	b.event(zab.NeedSnapshot{Link: link})
	b.wg.Wait()
	said()
	b.event(zab.StreamSnapshot{Link: link, Zxid: 1}) // not what was offered last
	if s := said(); len(s) != 1 || !s[0].Failed || len(b.wants) != 0 {
		t.Errorf("another snapshot than the one offered: said %+v, %d wanted", s, len(b.wants))
	}
	if err := x.r.Close(); err != nil {
		t.Error(err)
	}
}
