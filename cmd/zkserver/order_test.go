package main

import (
	"fmt"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/zkserver/zkserver/proto/jute"
)

// load keeps writers busy on a server until stop is closed.
func load(t *testing.T, addr string, writers int, stop chan struct{}, wg *sync.WaitGroup) {
	t.Helper()
	for w := range writers {
		c := mustDial(t, addr, 20*time.Second)
		c.must(jute.OpCreate, create(fmt.Sprintf("/load-%s-%d", addr, w), ""), nil)
		wg.Add(1)
		go func() { // ends when stop is closed
			defer wg.Done()
			for i := 0; ; i++ {
				select {
				case <-stop:
					return
				default:
				}
				if _, err := c.call(jute.OpSetData, set(fmt.Sprintf("/load-%s-%d", addr, w), fmt.Sprint(i)), nil); err != nil {
					return
				}
			}
		}()
	}
}

// TestPipelinedReadsSeeWhatWasSentBefore (I8): set 0, get, set 1, get, ... of one session answers 0, 1, ... on a
// leader, a follower and an observer, under the load of others.
func TestPipelinedReadsSeeWhatWasSentBefore(t *testing.T) {
	ps := newEnsemble(t, 4, 1, "")
	startAll(ps)
	stop := make(chan struct{})
	var wg sync.WaitGroup
	defer wg.Wait()
	defer close(stop)
	for _, p := range ps {
		load(t, p.addr, 2, stop, &wg)
	}
	n := rounds(300, 5000)
	for _, p := range ps {
		mode := p.mode()
		c := mustDial(t, p.addr, 20*time.Second)
		path := "/order-" + mode + fmt.Sprint(p.id)
		c.must(jute.OpCreate, create(path, ""), nil)
		go func() { // ends when all are sent, or with the connection
			var b []byte
			for i := range n {
				b, _ = c.appendRequest(b, jute.OpSetData, set(path, fmt.Sprint(i)))
				b, _ = c.appendRequest(b, jute.OpGetData, get(path, false))
				if len(b) > 2000 || i == n-1 {
					if _, err := c.c.Write(b); err != nil {
						return
					}
					b = b[:0]
				}
			}
		}()
		for i := range n {
			for _, op := range []jute.OpCode{jute.OpSetData, jute.OpGetData} {
				f, err := c.recv(patience)
				if err != nil || f.header.Err != 0 {
					t.Fatalf("%s: %v %d: %v %v", mode, op, i, f.header.Err, err)
				}
				if op == jute.OpGetData {
					var r jute.GetDataResponse
					d := jute.NewDecoder(f.body)
					r.Decode(d)
					if string(r.Data) != fmt.Sprint(i) {
						t.Fatalf("%s: get %d answered %s", mode, i, r.Data)
					}
				}
			}
		}
	}
}

// TestEventsPrecedeResults (I9): no result shows a change of a watched node before the event that tells of it. A reader
// keeps a pipeline of watched reads on nodes that others change as fast as they can; a million results in the long form.
func TestEventsPrecedeResults(t *testing.T) {
	ps := newEnsemble(t, 3, 0, "")
	startAll(ps)
	leader := leaderOf(t, ps)
	follower := ps[leader.id%3]
	const nodes = 8
	setup := mustDial(t, leader.addr, 20*time.Second)
	for i := range nodes {
		setup.must(jute.OpCreate, create(fmt.Sprintf("/w%d", i), ""), nil)
	}
	stop := make(chan struct{})
	var wg sync.WaitGroup
	defer wg.Wait()
	defer close(stop)
	for i := range 4 {
		c := mustDial(t, ps[i%3].addr, 20*time.Second)
		wg.Add(1)
		go func() { // ends when stop is closed
			defer wg.Done()
			for k := 0; ; k++ {
				select {
				case <-stop:
					return
				default:
				}
				var b []byte
				for n := range 16 {
					b, _ = c.appendRequest(b, jute.OpSetData, set(fmt.Sprintf("/w%d", (k*7+i+n)%nodes), ""))
				}
				if _, err := c.c.Write(b); err != nil {
					return
				}
				for range 16 {
					if _, err := c.recv(patience); err != nil {
						return
					}
				}
			}
		}()
	}
	want := rounds(20_000, 500_000)
	for _, p := range []*proc{leader, follower} {
		results, events := watchedReads(t, p, nodes, want)
		t.Logf("%s: %d results, %d events", p.mode(), results, events)
	}
}

func watchedReads(t *testing.T, p *proc, nodes, want int) (results, events int) {
	t.Helper()
	c := mustDial(t, p.addr, 20*time.Second)
	const pipeline = 16
	sendRun := func(from, n int) {
		var b []byte
		for i := range n {
			b, _ = c.appendRequest(b, jute.OpGetData, get(fmt.Sprintf("/w%d", (from+i)%nodes), true))
		}
		if _, err := c.c.Write(b); err != nil {
			t.Fatal(err)
		}
	}
	armed := make([]int64, nodes) // mzxid that the armed watch was told of; 0: none armed
	index := map[string]int{}
	for i := range nodes {
		index[fmt.Sprintf("/w%d", i)] = i
	}
	sendRun(0, pipeline)
	for results < want || events < want/50 {
		f, err := c.recv(patience)
		if err != nil {
			t.Fatal(err)
		}
		if f.event != nil {
			i := index[f.event.Path.Value]
			if armed[i] == 0 {
				t.Fatalf("an event on %s with no watch armed", f.event.Path.Value)
			}
			if f.header.Zxid <= armed[i] {
				t.Fatalf("an event of %#x on a watch armed at %#x", f.header.Zxid, armed[i])
			}
			armed[i] = 0
			events++
			continue
		}
		var r jute.GetDataResponse
		d := jute.NewDecoder(f.body)
		r.Decode(d)
		if f.header.Err != 0 || d.Err() != nil {
			t.Fatal(f.header.Err, d.Err())
		}
		i := results % nodes
		if armed[i] != 0 && r.Stat.Mzxid != armed[i] {
			t.Fatalf("a result shows change %#x of node %d, the watch armed at %#x has not fired", r.Stat.Mzxid, i, armed[i])
		}
		armed[i] = r.Stat.Mzxid
		results++
		if results%(pipeline/2) == 0 {
			sendRun(results+pipeline/2, pipeline/2)
		}
	}
	_ = c.c.(*net.TCPConn).Close()
	return results, events
}
