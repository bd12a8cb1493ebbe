package client

import (
	"time"

	"github.com/zkserver/zkserver/proto/jute"
	zkv1 "github.com/zkserver/zkserver/proto/zk/v1"
)

// request is one operation, for either wire. Paths are the server's.
type request struct {
	op      jute.OpCode
	path    string
	data    []byte
	acl     []ACL
	mode    CreateMode
	ttl     int64 // ms; -1 where the operation has none
	version int32
	watch   bool
	scheme  string // auth
	ops     []Op
	reads   []ReadOp
	lists   *watchLists // setWatches
	number  int32       // mode of addWatch, type of removeWatches
	texts   [3]*string  // reconfig: joining, leaving, new members
	config  int64       // reconfig
	whole   bool        // the path is the server's already, beside any chroot
}

// reply is what came back, for either wire. Paths are the server's.
type reply struct {
	path    string
	data    []byte
	stat    Stat
	acl     []ACL
	names   []string
	count   int32
	ids     []Identity
	results []OpResult
	reads   []ReadResult
}

// call is one request on its way. Its caller has encoded it, so that nothing of the caller's is looked at later.
type call struct {
	req   request
	watch *Watch           // what to register when the reply says that the server has armed it
	stays *PersistentWatch // likewise

	frame []byte        // encoded for the ZooKeeper wire, with room for length and xid
	cmd   *zkv1.Command // encoded for gRPC

	rep  reply
	code Code
	err  error         // behind code
	done chan struct{} // closed at the end; nil: nobody waits
	room chan struct{} // what it occupies one element of; nil: nothing

	// Under Client.mu:
	xid       int32
	sent      time.Time // zero: not sent
	replied   bool      // a reply has come
	ended     bool
	abandoned bool // nobody waits any longer
}

func newCall(r request) *call { return &call{req: r, done: make(chan struct{})} }

// end lets the caller go on. With Client.mu held.
func (cl *call) end() {
	if cl.ended {
		return
	}
	cl.ended = true
	cl.leaveRoom()
	if cl.done != nil {
		close(cl.done)
	}
}

func (cl *call) leaveRoom() {
	if cl.room != nil {
		<-cl.room
		cl.room = nil
	}
}

// unanswered reports whether the request was sent and no reply has come. After the end.
func (cl *call) unanswered() bool { return !cl.sent.IsZero() && !cl.replied }

// calls is a queue.
type calls struct {
	items []*call
	head  int
}

func (q *calls) push(cl *call) {
	if q.head > 64 && q.head*2 > len(q.items) {
		n := copy(q.items, q.items[q.head:])
		clear(q.items[n:])
		q.items, q.head = q.items[:n], 0
	}
	q.items = append(q.items, cl)
}

// front is the oldest, or nil.
func (q *calls) front() *call {
	if q.head == len(q.items) {
		return nil
	}
	return q.items[q.head]
}

// pop takes the oldest, or nil.
func (q *calls) pop() *call {
	cl := q.front()
	if cl == nil {
		return nil
	}
	q.items[q.head] = nil
	q.head++
	if q.head == len(q.items) {
		q.items, q.head = q.items[:0], 0
	}
	return cl
}
