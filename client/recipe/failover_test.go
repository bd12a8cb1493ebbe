package recipe

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/zkserver/zkserver/client"
)

// The ways in which a leadership, or a lock, goes from one to another.
var failovers = []string{"expiry", "kill", "resign", "cut"}

// A real ensemble of three processes; three participants. The holder is cut off until its session has expired, or its
// connection breaks, or it resigns, or the leader of the ensemble is killed while it does. Whatever happens: no two
// contexts are live at once, a store that looks at the token takes nothing of an older holder behind a newer one's first
// write, nor does the tree behind a fence. With the rule of two thirds off, and with a store that does not look, the same
// checks fail.
//
// ZKSERVER_FULL=1 has 512 failovers, 128 of each kind, over four recipes and both wires, and holds the time without a
// holder to the session timeout + 2 ticks + 1 s, not counting when this machine gave no processor or no sync of a file.
func TestFailovers(t *testing.T) {
	t.Parallel()
	servers := startEnsemble(t)
	full := os.Getenv("ZKSERVER_FULL") != ""
	each, runs := 1, []*failoverRun{{kind: "/election", wire: client.ZooKeeper}}
	if full {
		each, runs = 32, append(runs, &failoverRun{kind: "/mutex", wire: client.GRPC}, &failoverRun{kind: "/semaphore", wire: client.ZooKeeper}, &failoverRun{kind: "/a/b/write", wire: client.GRPC})
	}
	machine := &stalls{}
	if full {
		machine.look(t)
	}
	for _, r := range runs {
		t.Run(fmt.Sprintf("%s %v", r.kind[1:], r.wire), func(t *testing.T) {
			r.each, r.factor = each, 1
			for _, f := range r.run(t, servers) {
				t.Error(f)
			}
			if r.changes < len(failovers)*each {
				t.Errorf("%d failovers", r.changes)
			}
			for _, kind := range failovers {
				gaps, gross := r.times(kind, machine)
				if len(gaps) == 0 {
					continue
				}
				longest := gaps[len(gaps)-1]
				t.Logf("%s: time without a holder: median %v, longest %v (by the clock: %v)", kind, gaps[len(gaps)/2], longest, gross)
				if limit := r.timeout() + 2*tick + time.Second; full && longest > limit {
					t.Errorf("%s: nobody for %v, longer than %v", kind, longest, limit)
				}
			}
			if r.lag > 3*time.Second {
				t.Errorf("a Done came %v after the next holder", r.lag)
			}
			t.Logf("%d failovers, %d writes accepted, %d refused", r.changes, len(r.store.accepted), r.store.refused)
		})
	}
	t.Run("without the rule of two thirds", func(t *testing.T) {
		r := failoverRun{kind: "/lie", factor: 40, only: "expiry", each: 1}
		if found := r.run(t, servers); !strings.Contains(strings.Join(found, "\n"), "is held while") {
			t.Errorf("two holders, and found is %q", found)
		}
	})
	t.Run("with a token that is not checked", func(t *testing.T) {
		r := failoverRun{kind: "/careless", factor: 1, only: "resign", each: 2, store: store{careless: true}}
		if found := r.run(t, servers); !strings.Contains(strings.Join(found, "\n"), "the store took") {
			t.Errorf("a store that takes all, and found is %q", found)
		}
	})
}

// store is written to by whoever holds; it accepts a token only if it has seen no larger one.
type store struct {
	careless bool

	mu       sync.Mutex
	highest  int64
	accepted []int64
	refused  int
}

func (s *store) write(token int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if token < s.highest && !s.careless {
		s.refused++
		return
	}
	s.highest = max(s.highest, token)
	s.accepted = append(s.accepted, token)
}

func (s *store) faults() (found []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	last := int64(0)
	for _, token := range s.accepted {
		if token < last {
			found = append(found, fmt.Sprintf("the store took a write under %#x behind one under %#x", token, last))
		}
		last = max(last, token)
	}
	return found
}

// turn is one Hold of one participant.
type turn struct {
	*Hold
	who    int
	policy Suspension
	resign chan struct{} // closed to make it resign
	fence  *Fence        // failoverRun.mu
	ended  time.Time     // the same; when it was told
	next   time.Time     // the same; when another one began
}

func (x *turn) wait(ctx context.Context) {
	select {
	case <-x.Context().Done():
	case <-ctx.Done():
	}
}

// failoverRun is a number of failovers of one recipe.
type failoverRun struct {
	kind   string // its path; how it is taken is in recipes, or it is a mutex
	wire   client.Wire
	each   int    // failovers of each kind
	only   string // the one kind, if not all
	factor int32  // by which the clients overestimate their sessions' timeout

	judge judge
	store store
	nets  [3]frozen

	mu      sync.Mutex
	now     *turn
	past    []*turn
	began   chan struct{}             // closed when another turn begins
	fault   string                    // what was done last
	gaps    map[string][][2]time.Time // from the end of a turn, as its Done told it, to the next one
	lag     time.Duration             // the longest time for which a Done came later than the next holder
	found   []string
	changes int
}

func (r *failoverRun) timeout() time.Duration { return 5 * tick }

// run makes the failovers, and returns what is wrong.
func (r *failoverRun) run(t *testing.T, servers *ensemble) []string {
	kinds := failovers
	if r.only != "" {
		kinds = []string{r.only}
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience+time.Duration(r.each*len(kinds))*10*time.Second)
	defer cancel()
	admin, err := client.Dial(ctx, servers.connect(), client.Options{SessionTimeout: 30 * time.Second, BackoffMax: tick})
	if err != nil {
		t.Fatal(err)
	}
	defer admin.Close()
	r.began, r.gaps = make(chan struct{}), map[string][][2]time.Time{}
	stop, end := context.WithCancel(ctx)
	var wg sync.WaitGroup
	for i := range r.nets {
		r.nets[i].factor = r.factor
		wg.Go(func() { r.participate(stop, admin, servers, i) }) // ends with stop
	}
	for n := range r.each * len(kinds) {
		if err := r.failOver(ctx, admin, servers, kinds[n%len(kinds)], n/len(kinds)%2 == 0); err != nil {
			t.Errorf("failover %d, %s: %v", n, r.fault, err)
			break
		}
	}
	end()
	wg.Wait()
	return append(append(r.judge.faults(), r.store.faults()...), r.found...)
}

// participate takes part, session after session.
func (r *failoverRun) participate(ctx context.Context, admin *client.Client, servers *ensemble, who int) {
	policy := KeepUntilDeadline
	for ctx.Err() == nil {
		c, err := client.Dial(ctx, servers.connect(), client.Options{Wire: r.wire, SessionTimeout: r.timeout(), BackoffMax: tick / 2, DialContext: r.nets[who].dial})
		for err == nil {
			policy = GiveUp - policy // the other one
			o := Options{OnSuspend: policy}
			acquire, known := recipes(o)[r.kind]
			if !known {
				acquire = func(ctx context.Context, c *client.Client) (*Hold, error) { return NewMutex(c, r.kind, o).Lock(ctx) }
			}
			var h *Hold
			if h, err = acquire(ctx, c); err == nil {
				r.lead(ctx, admin, &turn{Hold: h, who: who, policy: policy, resign: make(chan struct{})})
				err = h.Release(ctx)
			}
		}
		if c != nil {
			_ = c.Close()
		}
		if ctx.Err() == nil && !errors.Is(err, client.ErrSessionExpired) && !errors.Is(err, ErrGone) && !errors.Is(err, client.ErrNoServer) {
			r.report("participant %d: %v", who, err)
		}
	}
}

func (r *failoverRun) report(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.found = append(r.found, fmt.Sprintf(format, args...))
}

// lead writes as long as the Hold is live. First of all those before it write, each like a process that was stopped
// between its look at the context and its write: to the store, and to the tree behind their fence.
func (r *failoverRun) lead(ctx context.Context, admin *client.Client, x *turn) {
	began := time.Now()
	r.judge.begins(x.Hold)
	r.store.write(x.Token())
	r.mu.Lock()
	if was := r.now; was != nil {
		was.next = began
		if !was.ended.IsZero() {
			r.told(was)
		}
	}
	past := r.past
	r.past = append(r.past[max(0, len(past)-5):len(past):len(past)], x)
	r.now = x
	r.changes++
	close(r.began)
	r.began = make(chan struct{})
	r.mu.Unlock()
	stop := context.AfterFunc(x.Context(), func() { r.end(x) })
	defer stop()
	for _, old := range past {
		r.store.write(old.Token())
	}
	if f, err := x.Fence(x.Context(), "/epoch"+strings.ReplaceAll(r.kind, "/", "-")); err == nil { // else it is over already
		r.late(ctx, admin, past)
		r.mu.Lock()
		x.fence = f
		r.mu.Unlock()
	}
	t := time.NewTicker(tick / 40)
	defer t.Stop()
	for x.Context().Err() == nil {
		r.store.write(x.Token())
		select {
		case <-t.C:
		case <-x.resign:
			r.end(x)
			return
		case <-ctx.Done():
			return
		case <-x.Context().Done():
		}
	}
}

// late sends what those before would have written, by a session that is alive.
func (r *failoverRun) late(ctx context.Context, admin *client.Client, past []*turn) {
	for _, old := range past {
		r.mu.Lock()
		f := old.fence
		r.mu.Unlock()
		if f == nil {
			continue
		}
		ctx, cancel := context.WithTimeout(ctx, tick)
		_, err := admin.Multi(ctx, f.Check(), client.SetOp{Path: "/", Data: nil, Version: client.AnyVersion})
		cancel()
		if err == nil {
			r.report("the tree took a write behind the fence of %#x", old.Token())
		}
	}
}

func (r *failoverRun) end(x *turn) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !x.ended.IsZero() {
		return
	}
	x.ended = time.Now()
	if !x.next.IsZero() {
		r.told(x)
	}
}

// told notes the time between the end of a turn and the next one. With r.mu held.
func (r *failoverRun) told(x *turn) {
	if x.next.Before(x.ended) {
		r.lag = max(r.lag, x.ended.Sub(x.next))
		x.ended = x.next
	}
	r.gaps[r.fault] = append(r.gaps[r.fault], [2]time.Time{x.ended, x.next})
}

// times are those without a holder, the shortest first, not counting when the machine stood still; and the longest one by
// the clock.
func (r *failoverRun) times(kind string, machine *stalls) (gaps []time.Duration, gross time.Duration) {
	for _, g := range r.gaps[kind] {
		gap := g[1].Sub(g[0])
		gaps, gross = append(gaps, gap-machine.within(g[0], g[1])), max(gross, gap)
	}
	slices.Sort(gaps)
	return gaps, gross
}

// holder waits for a turn after another one.
func (r *failoverRun) holder(ctx context.Context, after *turn) (*turn, error) {
	for {
		r.mu.Lock()
		now, began := r.now, r.began
		r.mu.Unlock()
		if now != nil && now != after && now.Context().Err() == nil {
			return now, nil
		}
		select {
		case <-began:
		case <-ctx.Done():
			return nil, errors.New("nobody holds")
		}
	}
}

// failOver takes it from who holds, in one of two ways, and waits for the next one.
func (r *failoverRun) failOver(ctx context.Context, admin *client.Client, servers *ensemble, kind string, even bool) error {
	x, err := r.holder(ctx, nil)
	if err != nil {
		return err
	}
	r.mu.Lock()
	r.fault = kind
	r.mu.Unlock()
	n := &r.nets[x.who]
	switch kind {
	case "resign":
		close(x.resign)
	case "expiry": // nothing gets through until another one holds, which is when the session is over
		n.freeze()
		defer n.thaw()
	case "cut": // and back, at once or when the deadline has passed
		if x.policy == KeepUntilDeadline {
			n.freeze()
			n.cut()
			x.wait(ctx)
			n.thaw()
		} else {
			n.cut()
		}
	case "kill":
		leader := servers.leader(ctx)
		servers.kill(leader)
		defer servers.serves(leader)
		defer servers.start(leader)
		if !even { // as long as the session lives, so does the Hold
			_ = do(ctx, admin, func() error { return admin.Sync(ctx, "/") })
		}
		close(x.resign)
	}
	_, err = r.holder(ctx, x)
	return err
}

// stalls are when this machine stood still, as far as this process can tell: it did not run, or a sync of a file took long.
type stalls struct {
	mu    sync.Mutex
	spans [][2]time.Time
}

const (
	stallEvery = 10 * time.Millisecond
	stallLimit = 20 * time.Millisecond // what took less is none
)

// look begins to look; it ends with the test.
func (s *stalls) look(t *testing.T) {
	file, err := os.Create(filepath.Join(t.TempDir(), "sync"))
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	every := func(f func() error) {
		wg.Go(func() {
			for ctx.Err() == nil {
				began := time.Now()
				if err := f(); err != nil {
					t.Error(err)
					return
				}
				if ended := time.Now(); ended.Sub(began) > stallLimit {
					s.mu.Lock()
					s.spans = append(s.spans, [2]time.Time{began, ended})
					s.mu.Unlock()
				}
				wait(ctx, stallEvery)
			}
		})
	}
	every(func() error { wait(ctx, stallEvery); return nil })
	every(func() error {
		_, err := file.WriteAt([]byte("x"), 0)
		return errors.Join(err, file.Sync())
	})
	t.Cleanup(func() {
		stop()
		wg.Wait()
		_ = file.Close()
	})
}

// within is for how long of a time the machine stood still.
func (s *stalls) within(from, to time.Time) (sum time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	slices.SortFunc(s.spans, func(a, b [2]time.Time) int { return a[0].Compare(b[0]) })
	for _, x := range s.spans {
		began, ended := x[0], x[1]
		if began.Before(from) {
			began = from
		}
		if to.Before(ended) {
			ended = to
		}
		if began.Before(ended) {
			sum += ended.Sub(began)
			from = ended
		}
	}
	return sum
}
