package front

import (
	"net"
	"runtime"
	"testing"
)

// What an idle session costs the server: half of it is the stack of its goroutine. The client's end of the connection,
// which lives in the same process, is taken off.
func TestIdleSessionsAreSmall(t *testing.T) {
	const sessions, bound = 1000, 8 << 10
	if raced {
		t.Skip("the race detector has its own memory")
	}
	s := start(t, func(o *Options) { o.MaxClientConns = -1 })
	used := func() int64 {
		var m runtime.MemStats
		for range 4 { // stacks shrink by half at each collection
			runtime.GC()
		}
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc + m.StackInuse)
	}
	var peers [sessions]net.Conn // sockets alone, of nobody: what a client's end costs
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	before := used()
	for i := range peers {
		if peers[i], err = net.Dial("tcp", l.Addr().String()); err != nil {
			t.Fatal(err)
		}
	}
	far := (used() - before) / sessions
	for _, c := range peers {
		_ = c.Close() // they have served
	}

	before = used()
	var clients [sessions]*client
	for i := range clients {
		clients[i] = s.session()
		clients[i].ping()
	}
	cost := (used()-before)/sessions - far
	t.Logf("%d bytes a session (a client's end of %d taken off)", cost, far)
	if cost > bound {
		t.Errorf("%d bytes a session, allowed are %d", cost, bound)
	}
	clients[0].ping()
	runtime.KeepAlive(clients)
}
