package main

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/zkserver/zkserver/proto/jute"
)

// round is what one crash round sent and got acknowledged: creates of /rN/i with data i, in order, by one session.
type round struct {
	n     int
	sent  int
	acked int
}

const (
	minAcked = 200
	depth    = 32
)

// crashRound writes until at least minAcked creates are acknowledged, then kills the processes 0 to 50 ms after an
// acknowledgement while writes go on.
func crashRound(t *testing.T, n int, addr string, kill func()) round {
	t.Helper()
	c := mustDial(t, addr, 20*time.Second)
	defer c.c.Close()
	r := round{n: n}
	c.must(jute.OpCreate, create(fmt.Sprintf("/r%d", n), ""), nil)
	var sent atomic.Int64
	slots := make(chan struct{}, depth)
	stop := make(chan struct{})
	done := make(chan struct{})
	go func() { // ends when told to, or with the connection
		defer close(done)
		for i := 0; ; i++ {
			select {
			case slots <- struct{}{}:
			case <-stop:
				return
			}
			sent.Store(int64(i + 1)) // before it leaves: what is there was sent
			if _, err := c.send(jute.OpCreate, create(fmt.Sprintf("/r%d/%d", n, i), fmt.Sprint(i))); err != nil {
				return
			}
		}
	}()
	wait := time.Duration(rand.Int64N(int64(50 * time.Millisecond)))
	var at <-chan time.Time
	killed := make(chan struct{})
	for {
		f, err := c.recv(patience)
		if err != nil {
			break
		}
		if f.header.Err != 0 {
			t.Errorf("create: %v", f.header.Err)
			break
		}
		r.acked++
		select {
		case <-slots:
		default:
		}
		if r.acked == minAcked {
			at = time.After(wait)
			go func() {
				<-at
				kill()
				close(killed)
			}()
		}
	}
	if r.acked < minAcked {
		t.Errorf("round %d: only %d acknowledged before the connection ended", n, r.acked)
		kill()
	} else {
		<-killed
	}
	close(stop)
	<-done
	r.sent = int(sent.Load())
	return r
}

// check reads a round back: what was acknowledged is there, what is there was sent, and it is a prefix of what was
// sent, because one session sent it in order.
func (r round) check(c *rawConn) error {
	var kids jute.GetChildrenResponse
	if _, err := c.call(jute.OpSync, &jute.SyncRequest{Path: jute.Str("/")}, nil); err != nil {
		return err
	}
	h, err := c.call(jute.OpGetChildren, get(fmt.Sprintf("/r%d", r.n), false), &kids)
	if err != nil {
		return err
	}
	if h.Err != 0 {
		return fmt.Errorf("round %d: its parent was acknowledged and is not there: %w", r.n, h.Err)
	}
	there := map[string]bool{}
	for _, k := range kids.Children {
		there[k] = true
	}
	for i := range r.acked {
		if !there[fmt.Sprint(i)] {
			return fmt.Errorf("round %d: create %d was acknowledged and is not there (%d acknowledged, %d there)", r.n, i, r.acked, len(there))
		}
	}
	for i := range len(there) {
		if !there[fmt.Sprint(i)] {
			return fmt.Errorf("round %d: %d nodes are there, but not number %d: out of order", r.n, len(there), i)
		}
	}
	if len(there) > r.sent {
		return fmt.Errorf("round %d: %d nodes are there, only %d were sent", r.n, len(there), r.sent)
	}
	return nil
}

func killAll(ps []*proc) func() {
	return func() {
		for _, p := range ps {
			_ = p.cmd.Process.Signal(syscall.SIGKILL)
		}
		for _, p := range ps {
			p.kill()
		}
	}
}

func TestCrashOneServer(t *testing.T) {
	ps := newEnsemble(t, 1, 0, "")
	var all []round
	total := 0
	for n := range rounds(3, 100) {
		startAll(ps)
		all = append(all, crashRound(t, n, ps[0].addr, ps[0].kill))
		total += all[n].acked
		startAll(ps)
		c := mustDial(t, ps[0].addr, 20*time.Second)
		for _, r := range all[max(0, n-3):] {
			if err := r.check(c); err != nil {
				t.Fatal(err)
			}
		}
		ps[0].kill()
	}
	t.Logf("%d rounds, %d writes acknowledged", len(all), total)
}

func TestCrashThreeServersAtOnce(t *testing.T) {
	ps := newEnsemble(t, 3, 0, "")
	var all []round
	total := 0
	for n := range rounds(2, 50) {
		startAll(ps)
		all = append(all, crashRound(t, n, ps[n%3].addr, killAll(ps)))
		total += all[n].acked
		startAll(ps)
		for _, p := range ps {
			c := mustDial(t, p.addr, 20*time.Second)
			for _, r := range all[max(0, n-3):] {
				if err := r.check(c); err != nil {
					t.Fatalf("server %d: %v", p.id, err)
				}
			}
		}
		sameDigests(t, ps)
		killAll(ps)()
	}
	t.Logf("%d rounds, %d writes acknowledged", len(all), total)
}

// TestCrashCheckerFails shows that the check above can fail: with forceSync=no an acknowledged write is not on the
// disk, and a kill loses it.
func TestCrashCheckerFails(t *testing.T) {
	ps := newEnsemble(t, 1, 0, "forceSync=no\n")
	for n := range 20 {
		startAll(ps)
		r := crashRound(t, n, ps[0].addr, ps[0].kill)
		startAll(ps)
		if err := r.check(mustDial(t, ps[0].addr, 20*time.Second)); err != nil {
			if !strings.Contains(err.Error(), "acknowledged and is not there") {
				t.Fatal(err)
			}
			return
		}
		ps[0].kill()
	}
	t.Fatal("20 rounds without a sync lost nothing: the check is blind")
}
