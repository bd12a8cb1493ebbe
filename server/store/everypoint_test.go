package store

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/zkserver/zkserver/zab"
)

// TestEveryCrashPoint crashes at each file operation of the changes that touch more than one thing: start afterwards
// finds all of the change or nothing of it, and the state that belongs to that.
func TestEveryCrashPoint(t *testing.T) {
	noLeaks(t)
	for name, act := range map[string]func(w *worker) error{
		"truncate": func(w *worker) error {
			next := w.v
			to := next.history[next.at(w.delivered)+10].Zxid
			i := next.at(to)
			next.history, next.last = next.history[:i:i], to
			return w.persist(next, zab.PersistOp{Truncate: &to})
		},
		"install": func(w *worker) error {
			for base := w.v.base; w.v.base == base; { // some snapshots are given up
				if err := w.install(); err != nil {
					return err
				}
			}
			return nil
		},
		"cut": func(w *worker) error {
			if err := w.flush(); err != nil {
				return err
			}
			return w.cut()
		},
	} {
		t.Run(name, func(t *testing.T) {
			points := 0
			for k := 1; ; k++ {
				percent := k % 3 * 50 // of what is unsynced survives
				crashed, err := crashAt(k, percent, act)
				if err != nil {
					t.Fatalf("operation %d, %d%%: %v", k, percent, err)
				}
				if !crashed {
					break
				}
				points++
			}
			t.Logf("%d crash points", points)
			if points == 0 {
				t.Error("no crash point was met")
			}
		})
	}
}

// crashAt builds a store with entries over several tables, lets act run up to its k-th write operation, and opens what
// is left.
func crashAt(k, percent int, act func(w *worker) error) (crashed bool, err error) {
	c := &campaign{rng: rand.New(rand.NewPCG(7, 7)), ops: make(map[string]int)}
	d := &disk{mem: vfs.NewCrashableMem(), rng: rand.New(rand.NewPCG(uint64(k), 7)), percent: &percent}
	o := c.options(d.fs(nil))
	o.DiffCount, o.FlushTxns = 16, 1000
	s, _, err := Open(o)
	if err != nil {
		return false, err
	}
	w := &worker{c: c, d: d, s: s, tree: newModel()}
	err = s.load(w.tree)
	for i := 0; i < 30 && err == nil; i++ {
		next := w.v
		if err = w.persist(next, w.draw(&next)); err != nil {
			break
		}
		w.v = next
		d.set(func(p *promise) { p.acked, p.sent = next, next })
		w.delivered = max(next.commit, w.delivered)
		if i%10 == 9 {
			err = s.logDB.Flush()
		}
	}
	if err == nil {
		err = w.state()
	}
	if err != nil {
		return false, fmt.Errorf("building: %w", err)
	}
	d.mu.Lock()
	d.left, d.promise.everOpen = k, true
	d.mu.Unlock()
	if err := act(w); err != nil {
		return false, err
	}
	crashed = d.crashed()
	if err := s.Close(); err != nil || !crashed {
		d.mu.Lock()
		defer d.mu.Unlock()
		return false, err
	}
	s, _, err = Open(testOptions(d.clone))
	if err != nil {
		return true, err
	}
	w = &worker{c: c, d: d, s: s, tree: newModel()}
	if err = s.load(w.tree); err == nil {
		err = w.check(s.Recovered(), d.kept)
	}
	if cerr := s.Close(); err == nil {
		err = cerr
	}
	return true, err
}
