package main

import (
	"fmt"
	"net"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/zkserver/zkserver/proto/jute"
)

// TestNothingStays: after clients of every bad habit have left, and after leader changes, the servers hold no more
// goroutines, descriptors and sessions than before.
func TestNothingStays(t *testing.T) {
	ps := newEnsemble(t, 3, 0, quick)
	keepLogs(t, ps)
	startAll(ps)
	one := mustDial(t, ps[0].addr, 20*time.Second)
	one.must(jute.OpCreate, create("/big", string(make([]byte, 512<<10))), nil)
	one.must(jute.OpCloseSession, nil, nil)
	before := usageOf(ps)
	t.Logf("at first    %v", before)

	badHabits(t, ps, rounds(200, 3000))
	settled(t, "after churn", ps, before)
	slowReaders(t, ps, rounds(10, 100))
	settled(t, "after readers that do not read", ps, before)
	idle(t, ps, rounds(300, 9000))
	settled(t, "after idle sessions", ps, before)
	for range rounds(2, 100) {
		l := leaderOf(t, ps)
		l.signal(syscall.SIGSTOP)
		var others []*proc
		for _, p := range ps {
			if p != l {
				others = append(others, p)
			}
		}
		leaderOf(t, others)
		l.signal(syscall.SIGCONT)
		l.serve()
	}
	settled(t, "after leader changes", ps, before)
	sameDigests(t, ps)
}

type usage struct{ goroutines, files, sessions, conns, heap int }

func usageOf(ps []*proc) []usage {
	var out []usage
	for _, p := range ps {
		var v map[string]string
		until(p.t, fmt.Sprintf("mntr of server %d", p.id), func() bool { v = p.mntrAll(); return v["zk_go_goroutines"] != "" })
		n := func(key string) int { v, _ := strconv.Atoi(v[key]); return v }
		out = append(out, usage{n("zk_go_goroutines"), n("zk_open_file_descriptor_count"), n("zk_global_sessions"), n("zk_num_alive_connections"), n("zk_go_heap_bytes") >> 20})
	}
	return out
}

func settled(t *testing.T, what string, ps []*proc, before []usage) {
	t.Helper()
	began := time.Now()
	until(t, what, func() bool {
		time.Sleep(100 * time.Millisecond) // asking is a connection too
		now := usageOf(ps)
		for i, u := range now {
			if u.goroutines > before[i].goroutines+10 || u.files > before[i].files+10 || u.sessions > 0 || u.conns > 3 {
				if time.Since(began) > patience-3*time.Second {
					t.Logf("server %d: %+v, at first %+v", i+1, u, before[i])
				}
				return false
			}
		}
		return true
	})
	t.Logf("%s (%s): %v", what, time.Since(began).Round(time.Millisecond), usageOf(ps))
}

// badHabits connects and leaves in all manners.
func badHabits(t *testing.T, ps []*proc, n int) {
	var wg sync.WaitGroup
	for w := range 8 {
		wg.Go(func() {
			for i := w; i < n; i += 8 {
				p := ps[i%3]
				r := mustDial(t, p.addr, time.Second)
				var b []byte
				switch i % 8 {
				case 0:
					_, _ = r.call(jute.OpCloseSession, nil, nil)
				case 1: // in the middle of a frame
					b, _ = r.appendRequest(b, jute.OpSetData, set("/big", "x"))
					_, _ = r.c.Write(b[:len(b)-3])
				case 2: // in the middle of a length
					_, _ = r.c.Write([]byte{0, 0})
				case 3: // with answers under way
					for range 20 {
						b, _ = r.appendRequest(b, jute.OpGetData, get("/big", true))
					}
					_, _ = r.c.Write(b)
				case 4: // with a reset
					_, _ = r.send(jute.OpSetData, set("/", "x"))
					_ = r.c.(*net.TCPConn).SetLinger(0)
				case 5: // a frame that is too long
					_, _ = r.c.Write([]byte{0x7f, 0, 0, 0, 1, 2, 3})
				case 6: // half closed
					_, _ = r.send(jute.OpGetData, get("/", true))
					_ = r.c.(*net.TCPConn).CloseWrite()
					_, _ = r.recv(5 * time.Second)
				case 7: // an unknown operation
					_, _ = r.send(jute.OpCode(99), nil)
					_, _ = r.recv(5 * time.Second)
				}
				r.c.Close()
				if i%5 == 0 { // never a session
					if c, err := net.Dial("tcp", p.addr); err == nil {
						_, _ = c.Write([]byte("ruo"))
						c.Close()
					}
				}
			}
		})
	}
	wg.Wait()
}

// slowReaders ask for a lot and do not read.
func slowReaders(t *testing.T, ps []*proc, n int) {
	var all []*rawConn
	for i := range n {
		r := mustDial(t, ps[i%3].addr, time.Second)
		all = append(all, r)
		var b []byte
		for range 100 {
			b, _ = r.appendRequest(b, jute.OpGetData, get("/big", false))
		}
		_ = r.c.SetWriteDeadline(time.Now().Add(time.Second))
		_, _ = r.c.Write(b)
	}
	t.Logf("readers that do not read: %v", usageOf(ps))
	for _, r := range all {
		r.c.Close()
	}
}

// idle opens sessions that say nothing, looks at what they cost, and leaves them.
func idle(t *testing.T, ps []*proc, n int) {
	all := make([]*rawConn, n)
	var wg sync.WaitGroup
	began := time.Now()
	for w := range 8 {
		wg.Go(func() {
			for i := w; i < n; i += 8 {
				all[i] = mustDial(t, ps[i%3].addr, time.Duration(rounds(1, 5))*time.Second)
			}
		})
	}
	wg.Wait()
	t.Logf("%d idle sessions in %s: %v", n, time.Since(began).Round(time.Millisecond), usageOf(ps))
	for _, r := range all {
		if r != nil {
			r.c.Close()
		}
	}
}
