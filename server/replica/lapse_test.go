package replica

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/rs/zerolog"
)

// TestLapses: a lease that follows one that had lapsed is told, at most once in ten seconds, with what was not told before.
func TestLapses(t *testing.T) {
	const s = time.Second
	var l lapses
	for i, c := range []struct {
		was, now time.Duration
		tell     bool
		count    int
		longest  time.Duration
	}{
		{0, 5 * s, false, 0, 0},                       // the role has begun
		{6 * s, 5500 * time.Millisecond, false, 0, 0}, // renewed in time
		{6 * s, 7 * s, true, 1, s},
		{8 * s, 11 * s, false, 1, 3 * s},
		{12 * s, 14 * s, false, 2, 3 * s},
		{15 * s, 17 * s, true, 3, 3 * s},
		{18 * s, 30 * s, true, 1, 12 * s},
	} {
		lapsed, tell := l.renewed(c.was, c.now)
		if tell != c.tell || l.count != c.count || l.longest != c.longest || lapsed > 0 && lapsed != c.now-c.was {
			t.Errorf("%d: lapsed %v, tell %v, %+v", i, lapsed, tell, l)
		}
		if tell {
			l.told(c.now)
		}
	}
}

// TestLapseIsLogged: what is heard of nowhere else.
func TestLapseIsLogged(t *testing.T) {
	var log bytes.Buffer
	x := open(t, 1, 3, vfs.NewMem(), func(o *Options) { o.Log = zerolog.New(&log) })
	holds := func(d time.Duration) { x.r.setLease(time.Since(x.r.born) + d) }
	lapse := func() {
		holds(10 * time.Millisecond)
		for x.r.LeaseUntil() >= x.r.Now() {
			<-time.After(time.Millisecond)
		}
	}
	holds(time.Hour) // a role begins
	holds(2 * time.Hour)
	x.r.setLease(0) // and ends, and another one begins
	lapse()
	if s := log.String(); strings.Contains(s, "lapsed") {
		t.Errorf("told of none: %s", s)
	}
	lapse()
	holds(time.Hour)
	if s := log.String(); strings.Count(s, "had lapsed") != 1 {
		t.Errorf("told once of two: %s", s)
	}
	if err := x.r.Close(); err != nil {
		t.Error(err)
	}
}
