// Package check says whether what was observed of an ensemble is what the design promises: I1-I13 of the architecture,
// which are Z1-Z17 and S1-S8 of the specification. It knows no core and none of their types: it is told what was issued
// to which disk, what became durable, what was sent, applied and answered, and compares that with one history that it
// keeps itself. It never changes anything.
package check

import (
	"fmt"
	"sort"
)

// Member is a server as quorums see it.
type Member struct {
	Observer bool
	Weight   uint64
	Group    uint64 // zero: no groups
}

// Fault is a broken invariant.
type Fault struct {
	Name   string // of the check, as in docs/correctness.md
	Detail string
}

func (f *Fault) Error() string { return f.Name + ": " + f.Detail }

// Checker holds the ghost state of one run. Servers are numbered from zero.
type Checker struct {
	members []Member
	servers []server
	fault   *Fault

	// The one history: what has been committed, and what it did.
	genesis    txn
	order      []txn
	broadcast  map[uint64]uint64          // zxid -> hash, of everything ever proposed
	leaders    map[uint32]int             // who led each epoch as far as synchronizing
	promised   map[uint32]map[int]history // who has promised each epoch, with which history
	shown      uint64                     // the largest zxid that any client has been shown
	paths      map[string]*path
	changes    []change
	owned      map[int64]map[string]bool
	sessions   map[int64]*session
	conns      []*conn
	leaderSeen map[int64]*touch
	hears      map[[2]int]uint32 // leader and learner -> the youngest epoch that it has promised to that leader
	heard      map[[2]int]int64  // leader and learner -> when it was last heard, on the leader's clock

	Answers uint64 // replies that clients have received
}

// txn is one committed transaction.
type txn struct {
	zxid, chain, hash uint64
	applied           bool // by anybody: what follows is known
	sums              [2]uint64
	conn              int // of the request it came from; -1: none
	xid               int32
	code              int32
}

// server is what is known of one server.
type server struct {
	issued, durable image
	lost            image // what a wiped disk held: what had been promised of it was true then
	at              int   // transactions of order that its tree has
}

// New makes a checker. The history begins behind genesis, whose digests are those of the initial tree.
func New(members []Member, genesis uint64, sums [2]uint64) *Checker {
	c := &Checker{
		members: members, servers: make([]server, len(members)), broadcast: map[uint64]uint64{}, leaders: map[uint32]int{},
		promised: map[uint32]map[int]history{},
		genesis:  txn{zxid: genesis, sums: sums, applied: true, conn: -1}, paths: map[string]*path{},
		owned: map[int64]map[string]bool{}, sessions: map[int64]*session{}, leaderSeen: map[int64]*touch{}, heard: map[[2]int]int64{}, hears: map[[2]int]uint32{},
	}
	return c
}

// Fault is the first broken invariant; nil if there is none.
func (c *Checker) Fault() *Fault { return c.fault }

func (c *Checker) fail(name, format string, args ...any) {
	if c.fault == nil {
		c.fault = &Fault{Name: name, Detail: fmt.Sprintf(format, args...)}
	}
}

// Zx prints a zxid.
func Zx(z uint64) string { return fmt.Sprintf("%d:%d", z>>32, uint32(z)) }

// Hash is the hash by which transactions are compared.
func Hash(b []byte) uint64 {
	h := uint64(len(b))*0x9e3779b97f4a7c15 + 0x2545f4914f6cdd1d
	for len(b) >= 8 {
		h = mix(h, uint64(b[0])|uint64(b[1])<<8|uint64(b[2])<<16|uint64(b[3])<<24|uint64(b[4])<<32|uint64(b[5])<<40|uint64(b[6])<<48|uint64(b[7])<<56)
		b = b[8:]
	}
	for _, x := range b {
		h = mix(h, uint64(x))
	}
	return h
}

func mix(h, v uint64) uint64 {
	h = (h ^ v) * 0xff51afd7ed558ccd
	return h ^ h>>32
}

func epochOf(z uint64) uint32 { return uint32(z >> 32) }

// continues reports whether z may stand directly behind prev (Z14, Z6).
func continues(prev, z uint64) bool {
	return epochOf(z) == epochOf(prev) && z == prev+1 || epochOf(z) > epochOf(prev) && uint32(z) == 1
}

// Quorum reports whether the voters that has names are one.
func (c *Checker) Quorum(has func(int) bool) bool {
	grouped := false
	for _, m := range c.members {
		grouped = grouped || !m.Observer && m.Group != 0
	}
	if !grouped {
		all, n := 0, 0
		for i, m := range c.members {
			if !m.Observer {
				all++
				if has(i) {
					n++
				}
			}
		}
		return 2*n > all
	}
	all, won := map[uint64]uint64{}, map[uint64]uint64{}
	for i, m := range c.members {
		if m.Observer || m.Weight == 0 {
			continue
		}
		all[m.Group] += m.Weight
		if has(i) {
			won[m.Group] += m.Weight
		}
	}
	n := 0
	for g, w := range all {
		if 2*won[g] > w {
			n++
		}
	}
	return 2*n > len(all)
}

// last is the newest committed transaction.
func (c *Checker) last() *txn {
	if n := len(c.order); n > 0 {
		return &c.order[n-1]
	}
	return &c.genesis
}

// Committed is the end of the history.
func (c *Checker) Committed() uint64 { return c.last().zxid }

// find returns a committed transaction, or nil.
func (c *Checker) find(z uint64) *txn {
	if z == c.genesis.zxid {
		return &c.genesis
	}
	i := sort.Search(len(c.order), func(i int) bool { return c.order[i].zxid >= z })
	if i < len(c.order) && c.order[i].zxid == z {
		return &c.order[i]
	}
	return nil
}
