package recipe

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/zkserver/zkserver/client"
	"github.com/zkserver/zkserver/client/zktest"
)

// lateWrite is a way to a server on which the first request of a kind gets lost with its connection, and is executed after
// all once a later connection has been answered a look (at a node, or at children). That is what happens when a session
// moves and its leader is lost: the next one takes what comes through the old connection unless it knows, from a write, of
// the new one.
type lateWrite struct {
	op   uint32
	addr string
	lost func() // called when the request is lost; may be nil

	mu      sync.Mutex
	held    []byte
	written bool // a write has gone through a later connection
	late    bool // it was executed
}

// Operations of the ZooKeeper wire, and the number of a request whose reply the client does not get.
const (
	opCreate, opExists, opChildren2, opMulti, opCreate2 = 1, 3, 12, 14, 15
	lateXid                                             = 1 << 30
)

// dial gives the client one end of a pipe.
func (l *lateWrite) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	var d net.Dialer
	server, err := d.DialContext(ctx, "tcp", l.addr)
	if err != nil {
		return nil, err
	}
	ours, theirs := net.Pipe()
	end := func() { _ = server.Close(); _ = theirs.Close() }
	var mu sync.Mutex
	looks := map[uint32]bool{}
	go func() { // ends with the connection
		defer end()
		for first := true; ; first = false {
			b, err := frame(theirs)
			if err != nil || !first && !l.pass(b, &mu, looks) {
				return
			}
			if _, err := server.Write(b); err != nil {
				return
			}
		}
	}()
	go func() { // ends with the connection
		defer end()
		for first := true; ; first = false {
			b, err := frame(server)
			if err != nil {
				return
			}
			if !first {
				xid := binary.BigEndian.Uint32(b[4:])
				if xid == lateXid {
					continue
				}
				mu.Lock()
				look := looks[xid]
				mu.Unlock()
				if late := l.take(look); late != nil {
					if _, err := server.Write(late); err != nil {
						return
					}
				}
			}
			if _, err := theirs.Write(b); err != nil {
				return
			}
		}
	}()
	return ours, nil
}

// pass looks at a request; false: it is the one that gets lost.
func (l *lateWrite) pass(b []byte, mu *sync.Mutex, looks map[uint32]bool) bool {
	xid, op := binary.BigEndian.Uint32(b[4:]), binary.BigEndian.Uint32(b[8:])
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case op == l.op && l.held == nil:
		l.held = b
		binary.BigEndian.PutUint32(l.held[4:], lateXid)
		if l.lost != nil {
			l.lost()
		}
		return false
	case op == opExists || op == opChildren2:
		mu.Lock()
		looks[xid] = true
		mu.Unlock()
	case l.held != nil && (op == opMulti || op == opCreate2):
		l.written = true
	}
	return true
}

// take is the lost request, if it is to be executed now.
func (l *lateWrite) take(look bool) []byte {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !look || l.held == nil || l.written || l.late {
		return nil
	}
	l.late = true
	return l.held
}

// frame reads one, with its length.
func frame(r io.Reader) ([]byte, error) {
	b := make([]byte, 4)
	if _, err := io.ReadFull(r, b); err != nil {
		return nil, err
	}
	b = append(b, make([]byte, binary.BigEndian.Uint32(b))...)
	_, err := io.ReadFull(r, b[4:])
	return b, err
}

// lateEnv is a server behind such a way.
func lateEnv(t *testing.T, op uint32) (ctx context.Context, l *lateWrite, c *client.Client) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	t.Cleanup(cancel)
	l = &lateWrite{op: op, addr: zktest.Start(t).Addr()}
	c, err := client.Dial(ctx, l.addr, client.Options{DialContext: l.dial, BackoffMax: 5 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return ctx, l, c
}

// TestLateCreate: a create whose connection was lost does not make a second node behind the one that replaced it, which a
// lock would wait for.
func TestLateCreate(t *testing.T) {
	t.Parallel()
	for _, mode := range []client.CreateMode{client.EphemeralSequential, client.Ephemeral} {
		ctx, _, c := lateEnv(t, opCreate2)
		if _, err := c.Create(ctx, "/d", nil, client.Persistent); err != nil {
			t.Fatal(err)
		}
		path, _, err := Create(ctx, c, "/d/n-", nil, mode)
		if err != nil {
			t.Fatalf("%v: %v", mode, err)
		}
		if names, _, err := c.Children(ctx, "/d"); err != nil || len(names) != 1 || path != "/d/"+names[0] {
			t.Errorf("%v: %s was made, there are %q, %v", mode, path, names, err)
		}
	}
}

// TestLateMulti: a multi whose connection was lost is executed once.
func TestLateMulti(t *testing.T) {
	t.Parallel()
	ctx, _, c := lateEnv(t, opMulti)
	if _, err := c.Create(ctx, "/n", nil, client.Persistent); err != nil {
		t.Fatal(err)
	}
	rs := newReceipts(c, "/receipts", client.OpenACL())
	if _, _, err := rs.multi(ctx, client.SetOp{Path: "/n", Version: client.AnyVersion}); err != nil {
		t.Fatal(err)
	}
	if _, st, err := c.Get(ctx, "/n"); err != nil || st.Version != 1 {
		t.Errorf("executed %d times, %v", st.Version, err)
	}
}

// TestLateKeptNode: what is removed at the end of a Run does not come behind its removal.
func TestLateKeptNode(t *testing.T) {
	t.Parallel()
	ctx, l, c := lateEnv(t, opCreate)
	run, end := context.WithCancel(ctx)
	l.lost = end
	n := NewKeptNode("/kept", nil, Options{})
	if err := n.Run(run, c); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
	<-n.left
	if _, there, err := c.Exists(ctx, "/kept"); err != nil || there {
		t.Errorf("there: %v, %v", there, err)
	}
}
