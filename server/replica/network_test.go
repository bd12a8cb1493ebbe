package replica

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/zkserver/zkserver/server/peer"
	"github.com/zkserver/zkserver/server/transport"
	"github.com/zkserver/zkserver/zab"
)

// network is the links between the replicas of a test: ordered, lossless until cut.
type network struct {
	mu    sync.Mutex
	nodes map[zab.ServerID]*node
	links map[[2]zab.ServerID]*wireLink
	next  uint64
	wg    sync.WaitGroup
}

func newNetwork() *network {
	return &network{nodes: map[zab.ServerID]*node{}, links: map[[2]zab.ServerID]*wireLink{}}
}

// wireLink is one incarnation of a pair's link: two ordered pipes.
type wireLink struct {
	a, b        *node
	incarnation uint64
	toA, toB    *queue[peer.Message]
	down        chan struct{}
	once        sync.Once
}

// side is what one node sees of the network.
type side struct {
	n *network
	x *node
}

func (n *network) join(x *node) Links { return &side{n, x} }

func pair(a, b zab.ServerID) [2]zab.ServerID { return [2]zab.ServerID{min(a, b), max(a, b)} }

// up connects a node with all others that are up.
func (n *network) up(x *node) {
	n.mu.Lock()
	var others []*node
	for _, o := range n.nodes {
		others = append(others, o)
	}
	n.nodes[x.id] = x
	n.mu.Unlock()
	for _, o := range others {
		n.connect(x, o)
	}
}

func (n *network) connect(a, b *node) {
	n.mu.Lock()
	n.next++
	l := &wireLink{
		a: a, b: b, incarnation: n.next, toA: newQueue[peer.Message](), toB: newQueue[peer.Message](), down: make(chan struct{}),
	}
	n.links[pair(a.id, b.id)] = l
	n.mu.Unlock()
	n.wg.Add(2)
	go n.pump(l, a, b.id, l.toA) // end with the link
	go n.pump(l, b, a.id, l.toB)
}

func (n *network) pump(l *wireLink, to *node, from zab.ServerID, q *queue[peer.Message]) {
	defer n.wg.Done()
	link := zab.Link{Peer: from, Incarnation: l.incarnation}
	to.r.LinkUp(link, time.Millisecond)
	for {
		select {
		case <-q.bell:
			if msgs := q.take(); len(msgs) > 0 {
				to.r.Messages(link, append([]peer.Message(nil), msgs...))
			}
		case <-l.down:
			to.r.LinkDown(link, true)
			return
		}
	}
}

// cut ends the link of a pair.
func (n *network) cut(a, b zab.ServerID) {
	n.mu.Lock()
	l := n.links[pair(a, b)]
	delete(n.links, pair(a, b))
	n.mu.Unlock()
	if l != nil {
		l.once.Do(func() { close(l.down) })
	}
}

// down takes a node off the network.
func (n *network) down(x *node) {
	n.mu.Lock()
	delete(n.nodes, x.id)
	var others []zab.ServerID
	for p := range n.links {
		if p[0] == x.id {
			others = append(others, p[1])
		} else if p[1] == x.id {
			others = append(others, p[0])
		}
	}
	n.mu.Unlock()
	for _, o := range others {
		n.cut(x.id, o)
	}
}

// close takes everything off and waits for the pumps.
func (n *network) close() {
	n.mu.Lock()
	var all []*node
	for _, x := range n.nodes {
		all = append(all, x)
	}
	n.mu.Unlock()
	for _, x := range all {
		n.down(x)
	}
	n.wg.Wait()
}

func (s *side) link(l zab.Link) *wireLink {
	s.n.mu.Lock()
	defer s.n.mu.Unlock()
	if w := s.n.links[pair(s.x.id, l.Peer)]; w != nil && w.incarnation == l.Incarnation {
		return w
	}
	return nil
}

func (s *side) Send(l zab.Link, msgs ...peer.Message) {
	w := s.link(l)
	if w == nil {
		return
	}
	for i, m := range msgs {
		if a, ok := m.(*zab.Append); ok { // values do not cross links
			c := *a
			c.Entries = make([]zab.Entry, len(a.Entries))
			for j, e := range a.Entries {
				c.Entries[j] = zab.Entry{Zxid: e.Zxid, Data: e.Data}
			}
			msgs[i] = &c
		}
	}
	if w.a == s.x {
		w.toB.push(msgs...)
	} else {
		w.toA.push(msgs...)
	}
}

func (s *side) Cut(l zab.Link, _ zab.Reason, _ string) {
	w := s.link(l)
	if w == nil {
		return
	}
	s.n.cut(s.x.id, l.Peer)
	s.n.wg.Add(1)
	go func() { // ends at once: the redial
		defer s.n.wg.Done()
		<-time.After(20 * time.Millisecond)
		s.n.mu.Lock()
		ok := s.n.nodes[w.a.id] == w.a && s.n.nodes[w.b.id] == w.b
		s.n.mu.Unlock()
		if ok {
			s.n.connect(w.a, w.b)
		}
	}()
}

func (s *side) SendSnapshot(ctx context.Context, l zab.Link, src transport.SnapshotSource, done func(error), progress func()) {
	w := s.link(l)
	if w == nil {
		done(src.Close())
		return
	}
	to := w.a
	if to == s.x {
		to = w.b
	}
	s.n.wg.Add(1)
	go func() { // ends with the snapshot
		defer s.n.wg.Done()
		sink, err := to.r.SnapshotStart(zab.Link{Peer: s.x.id, Incarnation: l.Incarnation}, src.Zxid())
		if err != nil {
			_ = src.Close()
			done(err)
			return
		}
		for end := false; !end && err == nil; {
			var chunk []byte
			if chunk, end, err = src.Next(4 << 10); err == nil {
				err = errors.Join(sink.Write(append([]byte(nil), chunk...)), ctx.Err())
				progress()
			}
		}
		if err == nil {
			err = sink.Finish()
		} else {
			sink.Abort(err)
		}
		_ = src.Close()
		done(err)
	}()
}
