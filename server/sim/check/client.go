package check

// conn is one connection of one client, as the client sees it.
type conn struct {
	client  int
	ordinal int // among its client's connections
	session int64
	open    bool
	queue   []request
	head    int
	shown   uint64 // the largest zxid in a reply or event of this connection
	before  uint64 // the largest zxid at which what came before the next write has been answered
	wrote   int32  // xid of its last transaction
	watches []watch
	caught  []caught // events of a setWatches that is under way
}

// session is a session as the history and its client see it.
type session struct {
	created  bool
	maker    int // the connection that asked for it
	ended    bool
	endedAt  uint64
	shown    uint64
	last     int    // ordinal of the connection that wrote last
	synced   int    // the youngest connection on which a sync has been answered: ordinal
	syncedAt uint64 // the zxid of that answer
	ticket   [2]uint64
	answered int64 // when the youngest of its requests was read that has been answered
}

// OpKind is what a request asks.
type OpKind uint8

// Kinds of requests.
const (
	Write OpKind = iota
	Exists
	GetData
	GetChildren
	Sync
	Ping
	AddWatch
	SetWatches
	RemoveWatches
)

// request is one that is not answered.
type request struct {
	xid       int32
	kind      OpKind
	path      string
	watch     bool
	recursive bool
	floor     uint64 // what any client had been shown when it was sent
	lists     *Lists
}

// Lists are those of a setWatches.
type Lists struct {
	Since                                     uint64
	Data, Exist, Child, Persistent, Recursive []string
}

// Request describes a request that a client sends.
type Request struct {
	Xid       int32
	Kind      OpKind
	Path      string
	Watch     bool
	Recursive bool // AddWatch
	Lists     *Lists
}

// Reply is what a client is answered.
type Reply struct {
	Xid  int32
	Zxid uint64
	Code int32
	Node *Node // of a read that succeeded
}

// codeNoNode is the one code by which a read may be refused.
const codeNoNode = -101

// Opened: a client has opened a connection. It gives the number by which the others name it.
func (c *Checker) Opened(client, ordinal int) int {
	c.conns = append(c.conns, &conn{client: client, ordinal: ordinal, open: true})
	return len(c.conns) - 1
}

func (c *Checker) session(id int64) *session {
	s := c.sessions[id]
	if s == nil {
		s = &session{last: -1, synced: -1}
		c.sessions[id] = s
	}
	return s
}

// Attached: a connection has been given a session. It asked for that one, or for a new one (zero).
func (c *Checker) Attached(k int, id, asked int64) {
	x := c.conns[k]
	x.session = id
	s := c.session(id)
	if asked != 0 && id != asked || asked == 0 && s.created && s.maker != k {
		c.fail("I7", "client %d, connection %d: asked for session %x (0: a new one), was given %x, which another has", x.client, x.ordinal, asked, id)
	}
	if s.ended && s.shown >= s.endedAt {
		c.fail("S5", "session %x was given to a connection after its end at %s", id, Zx(s.endedAt))
	}
	if !s.created {
		c.fail("I7", "a connection was given session %x, which nobody made", id)
	}
}

// Refused: a client has been told that its session is over.
func (c *Checker) Refused(id int64) {
	if s := c.sessions[id]; s == nil || !s.ended {
		c.fail("I10", "a client was told that session %x is over; it is not", id)
	}
}

// Sent: a client has sent a request.
func (c *Checker) Sent(k int, r Request) {
	x := c.conns[k]
	x.queue = append(x.queue, request{
		xid: r.Xid, kind: r.Kind, path: r.Path, watch: r.Watch, recursive: r.Recursive, floor: c.shown, lists: r.Lists,
	})
}

// Replied: a client has received a reply.
func (c *Checker) Replied(k int, p *Reply) {
	x := c.conns[k]
	if x.head == len(x.queue) || x.queue[x.head].xid != p.Xid {
		c.fail("S3", "client %d, connection %d: reply to %d out of order", x.client, x.ordinal, p.Xid)
		return
	}
	r := x.queue[x.head]
	x.head++
	if x.head == len(x.queue) {
		x.queue, x.head = x.queue[:0], 0
	}
	c.Answers++
	s := c.session(x.session)
	if p.Zxid < s.shown {
		c.fail("S2", "client %d: reply to %d at %s after %s had been shown", x.client, p.Xid, Zx(p.Zxid), Zx(s.shown))
	}
	c.see(x, s, p.Zxid)
	switch r.kind {
	case Sync, Ping, AddWatch, SetWatches:
		if p.Code != 0 {
			c.fail("I7", "client %d: request %d, which cannot be refused, answered with code %d", x.client, p.Xid, p.Code)
			return
		}
	}
	switch r.kind {
	case Write:
		c.wroteAck(x, &r, p)
	case Sync:
		if x.ordinal >= s.synced {
			s.synced, s.syncedAt = x.ordinal, p.Zxid
		}
		if p.Zxid < r.floor {
			c.fail("C3", "client %d: sync %d answered at %s; %s had been shown before it was sent", x.client, p.Xid, Zx(p.Zxid), Zx(r.floor))
		}
	case GetData, Exists, GetChildren:
		if p.Code == 0 || p.Code == codeNoNode {
			c.shows(&r, p.Zxid, p.Code == 0, p.Node)
		} else {
			c.fail("I8", "client %d: read of %s answered with code %d", x.client, r.path, p.Code)
		}
		if r.watch && (p.Code == 0 || r.kind == Exists && p.Code == codeNoNode) {
			kind := watchData
			if r.kind == GetChildren {
				kind = watchChild
			}
			c.arm(x, kind, r.path, p.Zxid)
		}
	case AddWatch:
		kind := watchPersistent
		if r.recursive {
			kind = watchRecursive
		}
		c.arm(x, kind, r.path, p.Zxid)
	case SetWatches:
		c.caughtUp(x, r.lists, p.Zxid)
	case RemoveWatches:
		c.disarm(x, r.path, p.Code == 0)
	}
	x.before = max(x.before, p.Zxid)
}

// see notes that a client has been shown a zxid, and checks that it has been told of what its watches saw before (S8).
func (c *Checker) see(x *conn, s *session, z uint64) {
	if z > c.Committed() {
		c.fail("I7", "client %d is shown %s, committed is %s", x.client, Zx(z), Zx(c.Committed()))
	}
	s.shown = max(s.shown, z)
	x.shown = max(x.shown, z)
	c.shown = max(c.shown, z)
	c.missed(x, z)
}

// wroteAck checks the answer to a write: it is what became of exactly this request (I7), and it is newer than all that
// anybody had seen when it was sent.
func (c *Checker) wroteAck(x *conn, r *request, p *Reply) {
	t := c.find(p.Zxid)
	if t == nil || !t.applied {
		c.fail("I7", "client %d: write %d answered with %s, which is not committed", x.client, p.Xid, Zx(p.Zxid))
		return
	}
	if t.conn < 0 || c.conns[t.conn] != x || t.xid != p.Xid || t.code != p.Code {
		c.fail("I7", "client %d, connection %d: write %d answered with %s and code %d, which was write %d of connection %d with code %d",
			x.client, x.ordinal, p.Xid, Zx(p.Zxid), p.Code, t.xid, t.conn, t.code)
		return
	}
	if p.Zxid <= x.before {
		c.fail("S4", "client %d, connection %d: write %d took effect at %s; what was sent before it saw %s", x.client, x.ordinal, p.Xid, Zx(p.Zxid), Zx(x.before))
	}
	if p.Zxid <= r.floor {
		c.fail("C3", "client %d: write %d took effect at %s; %s had been shown before it was sent", x.client, p.Xid, Zx(p.Zxid), Zx(r.floor))
	}
}

// Closed: a connection has ended.
func (c *Checker) Closed(k int) {
	x := c.conns[k]
	x.open, x.queue, x.head, x.watches, x.caught = false, nil, 0, nil, nil
}

// did checks what a transaction means to sessions.
func (c *Checker) did(d *Did) {
	if d.New {
		s := c.session(d.Session)
		if s.created && d.Code == 0 {
			c.fail("S5", "session %x made a second time at %s", d.Session, Zx(d.Zxid))
		}
		if !s.created && d.Code == 0 {
			s.created, s.maker = true, d.Conn
		}
		s.ticket = d.Ticket
		return
	}
	if d.Conn >= 0 {
		x := c.conns[d.Conn]
		if d.Xid != 0 && d.Xid <= x.wrote {
			c.fail("S3", "%s is write %d of client %d's connection %d, behind its write %d", Zx(d.Zxid), d.Xid, x.client, x.ordinal, x.wrote)
		}
		x.wrote = max(x.wrote, d.Xid)
	}
	if d.Session == 0 || d.Code != 0 {
		return
	}
	s := c.session(d.Session)
	if s.ended || !s.created {
		c.fail("S5", "%s is of session %x, which is not alive", Zx(d.Zxid), d.Session)
	}
	if d.Ticket[0] < s.ticket[0] || d.Ticket[0] == s.ticket[0] && d.Ticket[1] < s.ticket[1] {
		c.fail("S7", "%s has ticket %v of session %x, behind %v", Zx(d.Zxid), d.Ticket, d.Session, s.ticket)
	}
	s.ticket = d.Ticket
	if d.Conn >= 0 {
		x := c.conns[d.Conn]
		if x.ordinal < s.last {
			c.fail("S7", "%s is a write of client %d's connection %d, behind one of its connection %d", Zx(d.Zxid), x.client, x.ordinal, s.last)
		}
		// A new leader knows of a move that no write has followed only from the quorum that elected it, and its holder may be
		// gone or not among them: then what was under way on an older connection is taken, as by ZooKeeper.
		if x.ordinal < s.synced && d.Zxid>>32 == s.syncedAt>>32 {
			c.fail("I8", "%s is a write of client %d's connection %d; a sync on its connection %d was answered before", Zx(d.Zxid), x.client, x.ordinal, s.synced)
		}
		s.last = x.ordinal
	}
	if d.End {
		s.ended, s.endedAt = true, d.Zxid
		if d.Conn < 0 {
			c.expired(d.Session, d.Zxid)
		}
	}
}
