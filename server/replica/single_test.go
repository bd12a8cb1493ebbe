package replica

import (
	"fmt"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"go.uber.org/goleak"

	"github.com/zkserver/zkserver/server/session"
	"github.com/zkserver/zkserver/zab"
	"github.com/zkserver/zkserver/znode"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestSingleServerServesAndRestarts(t *testing.T) {
	fs := vfs.NewMem()
	x := start(t, 1, 1, fs, nil)
	x.serving()
	k := x.connect(session.Attach{})
	if !k.res.OK || k.res.Session>>56 != 1 || k.res.Timeout != 10000 {
		t.Fatalf("attach: %+v", k.res)
	}
	if l := k.must(createReq("/a", "1", 0)); l.Err != znode.OK || l.Path != "/a" {
		t.Fatalf("create: %+v", l)
	}
	if l := k.must(createReq("/a", "1", 0)); l.Err != znode.NodeExists {
		t.Fatalf("second create: %+v", l)
	}
	if l := k.must(createReq("/e", "", 1)); l.Err != znode.OK {
		t.Fatalf("ephemeral: %+v", l)
	}
	// Pipelined: each read sees the writes before it and none behind it (K08).
	for i := range 3 {
		if err := k.send(setReq("/a", fmt.Sprint(i))); err != nil {
			t.Fatal(err)
		}
		if err := k.send(getReq("/a")); err != nil {
			t.Fatal(err)
		}
	}
	if err := k.send(syncReq()); err != nil {
		t.Fatal(err)
	}
	for i := range 3 {
		if l, _ := k.sink.next(t); l.Err != znode.OK {
			t.Fatalf("set: %+v", l)
		}
		if l, _ := k.sink.next(t); l.Data != fmt.Sprint(i) {
			t.Fatalf("read %d: %+v", i, l)
		}
	}
	if l, _ := k.sink.next(t); l.Err != znode.OK || l.Xid != k.xid {
		t.Fatalf("sync: %+v", l)
	}
	before := x.r.Status()
	k.release()
	if err := x.end(); err != nil {
		t.Fatal(err)
	}

	x = start(t, 1, 1, fs, nil)
	x.serving()
	if after := x.r.Status(); after.Digests != before.Digests || after.Applied < before.Applied {
		t.Fatalf("after restart %+v, before %+v", after, before)
	}
	// The session is still there, with its password only.
	bad := x.connect(session.Attach{Session: k.res.Session, Password: make([]byte, 16)})
	if bad.res.OK {
		t.Fatal("a wrong password was accepted")
	}
	bad.release()
	again := x.connect(session.Attach{Session: k.res.Session, Password: k.res.Password[:]})
	if !again.res.OK || again.res.Session != k.res.Session {
		t.Fatalf("re-attach: %+v", again.res)
	}
	if l := again.must(getReq("/e")); l.Err != znode.OK || l.Stat.EphemeralOwner != k.res.Session {
		t.Fatalf("ephemeral after restart: %+v", l)
	}
	if l := again.must(closeReq()); l.Err != znode.OK {
		t.Fatalf("close: %+v", l)
	}
	again.release()
	other := x.connect(session.Attach{})
	if l := other.must(getReq("/e")); l.Err != znode.NoNode {
		t.Fatalf("ephemeral after closeSession: %+v", l)
	}
	if l := other.must(getReq("/a")); l.Data != "2" {
		t.Fatalf("/a: %+v", l)
	}
	other.release()
	if err := x.end(); err != nil {
		t.Fatal(err)
	}
}

func TestSessionExpires(t *testing.T) {
	x := start(t, 1, 1, vfs.NewMem(), nil)
	x.serving()
	k := x.connect(session.Attach{Timeout: 300})
	k.must(createReq("/e", "", 1))
	began := time.Now()
	k.release() // never heard again
	w := x.connect(session.Attach{Timeout: 60000})
	for {
		if l := w.must(getReq("/e")); l.Err == znode.NoNode {
			break
		}
		if time.Since(began) > wait {
			t.Fatal("the session does not expire")
		}
		<-time.After(5 * time.Millisecond)
	}
	if d := time.Since(began); d < 290*time.Millisecond {
		t.Fatalf("expired after %v", d)
	}
	w.release()
	if err := x.end(); err != nil {
		t.Fatal(err)
	}
}

// TestStatusHoldsAtItsZxid: an answer is behind what the status says is applied, and what it says of the tree is that of
// its zxid, however the applier goes on meanwhile.
func TestStatusHoldsAtItsZxid(t *testing.T) {
	x := start(t, 1, 1, vfs.NewMem(), nil)
	x.serving()
	k := x.connect(session.Attach{})
	k.must(createReq("/a", "", 0))
	stop, done := make(chan struct{}), make(chan struct{})
	go func() { // ends with stop
		defer close(done)
		sums := map[zab.Zxid]znode.Digests{}
		for {
			select {
			case <-stop:
				return
			default:
			}
			s := x.r.Status()
			if was, ok := sums[s.Applied]; ok && was != s.Digests {
				t.Errorf("two digests at %s", s.Applied)
				return
			}
			sums[s.Applied] = s.Digests
		}
	}()
	for i := range 400 {
		l := k.must(setReq("/a", fmt.Sprint(i)))
		if at, s := x.r.LastApplied(), x.r.Status().Applied; at < l.Zxid || int64(s) < l.Zxid {
			t.Errorf("answered at %#x, applied %#x, status %#x", l.Zxid, at, s)
			break
		}
	}
	close(stop)
	<-done
	k.release()
	if err := x.end(); err != nil {
		t.Fatal(err)
	}
}
