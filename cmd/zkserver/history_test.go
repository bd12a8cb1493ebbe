package main

import (
	"fmt"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/zkserver/zkserver/proto/jute"
)

// registers is how many keys the storm's clients write and read.
const registers = 4

// history is what the clients of a storm were told. Every write carries a value of its own and every answer the zxid
// of the change it shows, so the one order of all operations is known and need not be searched for.
type history struct {
	t      testing.TB
	start  time.Time
	events atomic.Int64

	mu        sync.Mutex
	faults    int
	ops       []*operation
	values    map[string]map[int64]string // key -> mzxid -> value
	forbidden map[string]int64            // value -> it must not have been written behind this zxid
	stale     int                         // writes taken through a connection that its session had left, before it wrote elsewhere
	names     map[string]string           // value -> name of the sequential node; "" unknown
	incAcked  map[int64]int
	incLost   int
	over      map[int64]bool // sessions that are to end
}

// operation is a write of a register or a read behind a sync.
type operation struct {
	key, value string // value "": a read
	from, to   time.Duration
	zxid       int64 // 0: nobody knows
}

func newHistory(t testing.TB) *history {
	return &history{
		t: t, start: time.Now(), values: map[string]map[int64]string{}, forbidden: map[string]int64{}, names: map[string]string{},
		incAcked: map[int64]int{}, over: map[int64]bool{},
	}
}

func (h *history) roots() []string {
	out := []string{"/reg", "/seq", "/eph", "/ctr", "/ctr/a", "/ctr/b", "/calm"}
	for i := range registers {
		out = append(out, "/reg/"+strconv.Itoa(i))
	}
	return out
}

func (h *history) fault(format string, args ...any) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.faults++; h.faults <= 30 {
		h.t.Errorf("%s: "+format, append([]any{time.Since(h.start).Round(time.Millisecond)}, args...)...)
	}
}

// begin notes an operation before it is sent.
func (h *history) begin(key, value string) *operation {
	o := &operation{key: key, value: value, from: time.Since(h.start)}
	h.mu.Lock()
	h.ops = append(h.ops, o)
	h.mu.Unlock()
	return o
}

// end notes its answer.
func (h *history) end(o *operation, zxid int64) {
	to := time.Since(h.start)
	h.mu.Lock()
	o.to, o.zxid = to, zxid
	h.mu.Unlock()
	if o.value != "" {
		h.value(o.key, zxid, o.value)
	}
}

// value notes what a key was at a zxid: everybody must see the same.
func (h *history) value(key string, zxid int64, value string) {
	h.mu.Lock()
	m := h.values[key]
	if m == nil {
		m = map[int64]string{}
		h.values[key] = m
	}
	old, known := m[zxid]
	m[zxid] = value
	limit, bad := h.forbidden[value]
	h.mu.Unlock()
	if known && old != value {
		h.fault("%s at %#x is %q for one and %q for another", key, zxid, old, value)
	}
	if bad && zxid > limit {
		h.fault("%s at %#x is %q, which was written through a connection that its session had left", key, zxid, value)
	}
}

// forbid says that a value must not be written behind a zxid any more.
func (h *history) forbid(value string, zxid int64) {
	h.mu.Lock()
	if old, ok := h.forbidden[value]; !ok || zxid < old {
		h.forbidden[value] = zxid
	}
	h.mu.Unlock()
}

// late notes a write acknowledged through a connection that its session had left. Which connection is the newer one is
// known to the leader and the two servers until the session writes: two faults within two seconds can lose that.
func (h *history) late(wrote bool, zxid int64) {
	if wrote {
		h.fault("a write through a connection that its session had left was acknowledged at %#x", zxid)
	}
	h.mu.Lock()
	h.stale++
	h.mu.Unlock()
}

func (h *history) created(value, name string, acked bool) {
	if !acked {
		name = ""
	}
	h.mu.Lock()
	h.names[value] = name
	h.mu.Unlock()
}

func (h *history) increments(n int64, acked bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if acked {
		h.incAcked[n]++
	} else {
		h.incLost++
	}
}

func (h *history) ended(session int64) {
	h.mu.Lock()
	h.over[session] = true
	h.mu.Unlock()
}

// lost notes that a session has expired.
func (h *history) lost(c *stormClient) { h.ended(c.old.session) }

// check holds everything against the servers' final state and against one order.
func (h *history) check(ps []*proc, clients []*stormClient) {
	acked, unknown := h.checkRegisters()
	h.checkValues()
	for _, p := range ps {
		h.checkServer(p, len(clients))
	}
	var longest time.Duration
	ends := 0
	for _, c := range clients {
		longest = max(longest, c.longest)
		ends += c.ends
	}
	h.t.Logf("%d operations acknowledged, %d unknown, %d sequential creates, %d increments, %d events, %d connections ended, %d stale writes, longest reconnect %s",
		acked, unknown, len(h.names), len(h.incAcked), h.events.Load(), ends, h.stale, longest)
}

// checkRegisters: whatever ended before an operation began shows nothing newer than it, and nothing as new as a write.
func (h *history) checkRegisters() (acked, unknown int) {
	byKey := map[string][]*operation{}
	for _, o := range h.ops {
		if o.zxid == 0 {
			unknown++
			continue
		}
		acked++
		byKey[o.key] = append(byKey[o.key], o)
	}
	for key, ops := range byKey {
		begins, ends := slices.Clone(ops), slices.Clone(ops)
		slices.SortFunc(begins, func(a, b *operation) int { return int(a.from - b.from) })
		slices.SortFunc(ends, func(a, b *operation) int { return int(a.to - b.to) })
		var newest *operation
		i := 0
		for _, o := range begins {
			for ; i < len(ends) && ends[i].to < o.from; i++ {
				if newest == nil || ends[i].zxid > newest.zxid {
					newest = ends[i]
				}
			}
			if newest != nil && (o.zxid < newest.zxid || o.value != "" && o.zxid == newest.zxid) {
				h.fault("%s is not linearizable: %+v ended before %+v began", key, *newest, *o)
			}
		}
	}
	return acked, unknown
}

// checkValues: no value was ever written twice.
func (h *history) checkValues() {
	for key, m := range h.values {
		at := map[string]int64{}
		for z, v := range m {
			if old, ok := at[v]; ok {
				h.fault("%s: %q was written at %#x and at %#x", key, v, old, z)
			}
			at[v] = z
		}
	}
}

// checkServer reads one server's final state.
func (h *history) checkServer(p *proc, clients int) {
	c := mustDial(h.t, p.addr, 20*time.Second)
	defer c.c.Close()
	c.must(jute.OpSync, &jute.SyncRequest{Path: jute.Str("/")}, nil)
	sets, lost := map[string]int{}, map[string]int{}
	newest := map[string]int64{}
	for _, o := range h.ops {
		switch {
		case o.value == "":
		case o.zxid == 0:
			lost[o.key]++
		default:
			sets[o.key]++
			newest[o.key] = max(newest[o.key], o.zxid)
		}
	}
	for i := range registers {
		key := "/reg/" + strconv.Itoa(i)
		var data jute.GetDataResponse
		c.must(jute.OpGetData, get(key, false), &data)
		if v := int(data.Stat.Version); v < sets[key] || v > sets[key]+lost[key] {
			h.fault("server %d: %s was set %d times; acknowledged %d, unknown %d", p.id, key, v, sets[key], lost[key])
		}
		if data.Stat.Mzxid < newest[key] {
			h.fault("server %d: %s is at %#x, acknowledged was %#x", p.id, key, data.Stat.Mzxid, newest[key])
		}
		h.value(key, data.Stat.Mzxid, string(data.Data))
	}
	h.checkCounters(p, c)
	h.checkSequence(p, c)
	until(h.t, fmt.Sprintf("server %d: the sessions that have ended are gone", p.id), func() bool {
		var kids jute.GetChildrenResponse
		c.must(jute.OpGetChildren, get("/eph", false), &kids)
		for _, k := range kids.Children {
			var data jute.GetDataResponse
			hd, err := c.call(jute.OpGetData, get("/eph/"+k, false), &data)
			if err != nil || hd.Err != 0 {
				return false
			}
			if s, _ := strconv.ParseInt(string(data.Data), 10, 64); h.over[s] || s != data.Stat.EphemeralOwner {
				return false
			}
		}
		n, _ := strconv.Atoi(p.mntr("zk_global_sessions"))
		return n <= clients+1
	})
	c.must(jute.OpCloseSession, nil, nil)
}

func (h *history) checkCounters(p *proc, c *rawConn) {
	var a, b jute.GetDataResponse
	c.must(jute.OpGetData, get("/ctr/a", false), &a)
	c.must(jute.OpGetData, get("/ctr/b", false), &b)
	if a.Stat.Version == 0 && b.Stat.Version == 0 {
		return // nobody has counted yet
	}
	if string(a.Data) != string(b.Data) || a.Stat.Mzxid != b.Stat.Mzxid || a.Stat.Version != b.Stat.Version {
		h.fault("server %d: half a multi: %q %+v, %q %+v", p.id, a.Data, a.Stat, b.Data, b.Stat)
	}
	for n, k := range h.incAcked {
		if k > 1 || n > int64(a.Stat.Version) {
			h.fault("server %d: increment to %d acknowledged %d times; the counter is at %d", p.id, n, k, a.Stat.Version)
		}
	}
	if v := int(a.Stat.Version); v > len(h.incAcked)+h.incLost {
		h.fault("server %d: %d increments; acknowledged %d, unknown %d", p.id, v, len(h.incAcked), h.incLost)
	}
}

func (h *history) checkSequence(p *proc, c *rawConn) {
	var kids jute.GetChildrenResponse
	c.must(jute.OpGetChildren, get("/seq", false), &kids)
	at := map[string]string{}
	for _, k := range kids.Children {
		var data jute.GetDataResponse
		c.must(jute.OpGetData, get("/seq/"+k, false), &data)
		v := string(data.Data)
		if _, sent := h.names[v]; !sent || at[v] != "" {
			h.fault("server %d: %s is of request %q (sent: %v), and so is %q", p.id, k, v, sent, at[v])
		}
		at[v] = "/seq/" + k
	}
	for v, name := range h.names {
		if name != "" && at[v] != name {
			h.fault("server %d: %s was acknowledged to request %s, it has %q", p.id, name, v, at[v])
		}
	}
}
