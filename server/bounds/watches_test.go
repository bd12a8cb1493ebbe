package bounds

import (
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/zkserver/zkserver/proto/jute"
)

// What a one-shot watch costs in memory where ten sessions watch each path: 1,000,000 watches of 1,000 sessions on
// 100,000 paths in the full form.
func TestWatchesAreSmall(t *testing.T) {
	const bound, each = 120, 1000
	if raced {
		t.Skip("the race detector has its own memory")
	}
	sessions := size(100, 1000)
	paths := sessions * each / 10
	addr := start(t, "maxSessionTimeout=600000\n")
	writer := dial(t, addr, 10*time.Minute)
	path := func(i int) string { return fmt.Sprintf("/service/instance-%07d", i) }
	writer.call(jute.OpCreate, create("/service", 0))
	writer.each(paths, func(i int) { writer.add(jute.OpCreate, create(path(i), 0)) })
	watchers := make([]*client, sessions)
	for i := range watchers {
		watchers[i] = dial(t, addr, 10*time.Minute)
		watchers[i].each(each, func(int) { watchers[i].add(jute.OpGetData, get("/service", false)) })
	}
	before := used()
	for i, w := range watchers {
		w.each(each, func(n int) { w.add(jute.OpGetData, get(path((i*each/10+n)%paths), true)) })
	}
	cost := (used() - before) / int64(sessions*each)
	t.Logf("%d bytes a watch", cost)
	if cost > bound {
		t.Errorf("%d bytes a watch, allowed are %d", cost, bound)
	}
	runtime.KeepAlive(watchers)
}
