package replica

import (
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"github.com/zkserver/zkserver/internal/faultfs"
	"github.com/zkserver/zkserver/server/session"
	"github.com/zkserver/zkserver/zab"
)

// TestStateStuck: while its tree stands still a leader is none and a follower serves nobody, though it stays; both take
// part again when it goes on.
func TestStateStuck(t *testing.T) {
	s := newSimulation(t, 3, 0)
	s.run(100)
	role := func(want zab.Role) int {
		for _, x := range s.nodes {
			if x.m.role == want && x.lease > 0 {
				return x.id
			}
		}
		t.Fatalf("nobody is %v", want)
		return 0
	}
	f := s.nodes[role(zab.Following)-1]
	s.push(f.id, StateStuck{On: true})
	s.run(100)
	if f.m.role != zab.Following || f.lease != 0 {
		t.Errorf("a follower that stands still: %v, lease %v", f.m.role, f.lease)
	}
	s.push(f.id, StateStuck{})
	s.run(100)
	if f.m.role != zab.Following || f.lease == 0 {
		t.Errorf("a follower that goes on: %v, lease %v", f.m.role, f.lease)
	}
	l := s.nodes[role(zab.Leading)-1]
	s.push(l.id, StateStuck{On: true})
	s.run(300)
	next := role(zab.Leading)
	if next == l.id || l.m.role != zab.Looking || l.lease != 0 {
		t.Errorf("a leader that stands still: %v, lease %v; %d leads", l.m.role, l.lease, next)
	}
	s.push(l.id, StateStuck{})
	s.run(300)
	if l.m.role != zab.Following || l.lease == 0 || role(zab.Leading) != next {
		t.Errorf("a leader that goes on: %v, lease %v", l.m.role, l.lease)
	}
	s.check()
}

// TestStateDiskHangs: a leader whose state cannot be written, though its log can, leaves its office to another, and comes
// back with its disk.
func TestStateDiskHangs(t *testing.T) {
	var hung atomic.Uint64
	gate := make(chan struct{})
	e := newEnsemble(t, 3, func(o *Options) {
		id := o.Self
		o.FlushInterval = 100 * time.Millisecond
		o.Zab.SyncLimit = 2 * time.Second
		o.Store.FS = newFailingFS(vfs.NewMem(), func(op errorfs.Op) error {
			if faultfs.IsSync(op) && strings.Contains(op.Path, "state.") && hung.Load() == uint64(id) {
				<-gate
			}
			return nil
		})
	})
	l := e.leader()
	k := l.connect(session.Attach{Timeout: 30000})
	k.must(createReq("/a", "", 0))
	hung.Store(uint64(l.id))
	data := strings.Repeat("x", 900_000)
	for { // until nothing is applied any more, and this connection ends
		if _, err := k.call(setReq("/a", data)); err != nil {
			break
		}
	}
	k.release()
	l.until("out of office", func(s Status) bool { return s.Role != zab.Leading && !s.Serving })
	for end := time.Now().Add(wait); ; {
		if time.Now().After(end) {
			t.Fatal("nobody else leads")
		}
		next := e.nodes[l.id%3+1]
		if next.r.Status().Role != zab.Leading {
			next = e.nodes[(l.id+1)%3+1]
		}
		if s := next.r.Status(); s.Role == zab.Leading && s.Serving {
			break
		}
		<-time.After(time.Millisecond)
	}
	close(gate)
	l.serving()
	e.agree()
	e.end()
}
