package check

import (
	"strings"
	"testing"
)

// three is an ensemble of three voters and an observer.
func three() *Checker {
	return New([]Member{{}, {}, {}, {Observer: true}}, 0, [2]uint64{})
}

func z(epoch, counter uint64) uint64 { return epoch<<32 | counter }

// both issues an op and makes it durable.
func both(c *Checker, s int, op Op) {
	c.Issued(s, &op)
	c.Durable(s, &op)
}

// founded has server 0 lead epoch 1 with a quorum's promises and stamps.
func founded() *Checker {
	c := three()
	for s := range 3 {
		both(c, s, Op{Accepted: 1})
		c.SentPromise(s, 1)
		c.HeardPromise(0, s, 1)
		both(c, s, Op{Accepted: 1, Current: 1, Stamp: true})
	}
	c.Leads(0, 1)
	c.Established(0, 1)
	return c
}

// wrote adds transaction 1:n everywhere and has it applied by server 0.
func wrote(c *Checker, n uint64, d Did) {
	e := Entry{Zxid: z(1, n), Hash: n}
	c.Proposed(0, e.Zxid, e.Hash)
	for s := range 3 {
		both(c, s, Op{Append: []Entry{e}})
	}
	c.Delivers(0, e.Zxid)
	if c.Applied(0, e.Zxid, e.Hash, [2]uint64{n, n}) {
		d.Zxid = e.Zxid
		c.Did(&d)
	}
}

// client has a session 7 at connection k, made by 1:1.
func client() (c *Checker, k int) {
	c = founded()
	k = c.Opened(0, 1)
	wrote(c, 1, Did{New: true, Session: 7, Conn: k})
	c.Attached(k, 7, 0)
	return c, k
}

func node(n uint64) Affected {
	return Affected{Path: "/a", Exists: true, Node: Node{Czxid: z(1, n), Mzxid: z(1, n), Pzxid: z(1, n), Data: 5}}
}

// created adds /a at 1:n by request x of connection k.
func created(c *Checker, n uint64, k int, x int32) {
	wrote(c, n, Did{Session: 7, Conn: k, Xid: x, Changes: []Change{{Created, "/a"}}, Affected: []Affected{node(n)}})
}

// TestSoundHistory: what is right is not complained of.
func TestSoundHistory(t *testing.T) {
	c, k := client()
	c.Sent(k, Request{Xid: 1, Kind: GetData, Path: "/a"})
	c.Sent(k, Request{Xid: 2, Kind: Exists, Path: "/a", Watch: true})
	c.Replied(k, &Reply{Xid: 1, Zxid: z(1, 1), Code: codeNoNode})
	c.Replied(k, &Reply{Xid: 2, Zxid: z(1, 1), Code: codeNoNode})
	c.Sent(k, Request{Xid: 3, Kind: Write})
	created(c, 2, k, 3)
	c.Event(k, z(1, 2), Created, "/a")
	c.Replied(k, &Reply{Xid: 3, Zxid: z(1, 2)})
	c.SentAck(1, z(1, 2))
	c.SentAckNewLeader(1, 1, 0)
	c.Voted(1, 1, z(1, 2))
	c.VotedFor(2, 1, z(1, 3))
	c.SentAs(1, 0, []Role{{Leader: -1}, {Leader: 0}}, "Ack")
	c.SentAsLeader(0, []Role{{Leads: true}}, "LeaderInfo")
	if !c.Joined(2) || c.Joined(3) {
		t.Error("who has joined?")
	}
	if c.Fault() != nil {
		t.Fatal(c.Fault())
	}
}

// TestEveryCheckCanFail breaks each invariant and expects to be told of that one.
func TestEveryCheckCanFail(t *testing.T) {
	one := []Entry{{Zxid: z(1, 1), Hash: 1}}
	tests := []struct {
		name, want string
		do         func(c *Checker)
	}{
		{"two leaders", "Z1", func(c *Checker) { c.Leads(1, 1) }},
		{"proposal of another", "Z1", func(c *Checker) { c.Proposed(1, z(1, 1), 1) }},
		{"another history", "Z2", func(c *Checker) {
			wrote(c, 1, Did{Conn: -1})
			c.servers[1].issued.log[0].chain++
			c.Delivers(1, z(1, 1))
		}},
		{"proposed twice", "Z3", func(c *Checker) { c.Proposed(0, z(1, 1), 1); c.Proposed(0, z(1, 1), 2) }},
		{"nobody proposed", "Z3", func(c *Checker) { c.Issued(1, &Op{Append: one}) }},
		{"wrong order", "Z4", func(c *Checker) {
			wrote(c, 1, Did{Conn: -1})
			wrote(c, 2, Did{Conn: -1})
			c.Applied(1, z(1, 2), 2, [2]uint64{2, 2})
		}},
		{"leader without what is committed", "Z9", func(c *Checker) {
			c.Proposed(0, z(1, 1), 1)
			both(c, 0, Op{Append: one})
			both(c, 1, Op{Append: one})
			c.Delivers(0, z(1, 1))
			both(c, 2, Op{Accepted: 2, Current: 2})
			c.Leads(2, 2)
		}},
		{"an epoch that nobody has promised", "Z8", func(c *Checker) { both(c, 1, Op{Accepted: 2, Current: 1}); c.Leads(1, 2) }},
		{"a history ahead among those who promised", "Z8", func(c *Checker) {
			c.Proposed(0, z(1, 1), 1)
			both(c, 1, Op{Append: one})
			for s := range 2 {
				both(c, s, Op{Accepted: 2, Current: 1})
				c.SentPromise(s, 2)
				c.HeardPromise(0, s, 2)
			}
			c.Leads(0, 2)
		}},
		{"a promise that is on its way", "Z8", func(c *Checker) {
			for s := range 2 {
				both(c, s, Op{Accepted: 2, Current: 1})
				c.SentPromise(s, 2)
			}
			c.Leads(0, 2)
		}},
		{"a blank that counts too soon", "I6", func(c *Checker) {
			c.Proposed(0, z(1, 1), 1)
			both(c, 0, Op{Append: one})
			both(c, 1, Op{Append: one})
			c.Delivers(0, z(1, 1))
			c.Wiped(1)
			both(c, 1, Op{Accepted: 1, Current: 1, Stamp: true})
		}},
		{"the promise of a blank", "Z8", func(c *Checker) {
			wrote(c, 1, Did{Conn: -1})
			c.Wiped(1)
			for s := range 2 {
				both(c, s, Op{Accepted: 2, Current: c.servers[s].durable.current})
				c.SentPromise(s, 2)
				c.HeardPromise(0, s, 2)
			}
			c.Leads(0, 2)
		}},
		{"an epoch on one disk", "Z9", func(c *Checker) {
			for s := range 2 {
				both(c, s, Op{Accepted: 2, Current: 1})
				c.SentPromise(s, 2)
				c.HeardPromise(0, s, 2)
			}
			both(c, 0, Op{Accepted: 2, Current: 2})
			c.Established(0, 2)
		}},
		{"vote for less", "vote", func(c *Checker) {
			c.Proposed(0, z(1, 1), 1)
			both(c, 1, Op{Append: one})
			c.VotedFor(1, 1, 0)
		}},
		{"a learner's word behind its role", "R20", func(c *Checker) { c.SentAs(1, 0, []Role{{Leads: true, Leader: 1}, {Leader: 2}}, "Ack") }},
		{"a leader's word behind its role", "R20", func(c *Checker) { c.SentAsLeader(1, []Role{{Leader: 0}}, "LeaderInfo") }},
		{"snapshot of nothing committed", "Z9", func(c *Checker) { c.Issued(1, &Op{Install: true, Zxid: z(1, 9)}) }},
		{"epochs cross", "Z10", func(c *Checker) { c.Issued(1, &Op{Accepted: 2, Current: 3}) }},
		{"log above the epoch", "Z10", func(c *Checker) {
			c.leaders[3] = 0
			c.Proposed(0, z(3, 1), 1)
			c.Issued(1, &Op{Append: []Entry{{Zxid: z(3, 1), Hash: 1}}})
		}},
		{"epoch goes back", "Z11", func(c *Checker) { both(c, 1, Op{Accepted: 5, Current: 1}); c.Issued(1, &Op{Accepted: 4, Current: 1}) }},
		{"ack of what is in memory", "Z12", func(c *Checker) {
			c.Proposed(0, z(1, 1), 1)
			c.Issued(1, &Op{Append: one})
			c.SentAck(1, z(1, 1))
		}},
		{"ack of NewLeader too early", "Z12", func(c *Checker) { c.SentAckNewLeader(1, 2, 0) }},
		{"ack of NewLeader unstamped", "Z12", func(c *Checker) { c.servers[1].durable.stamped = false; c.SentAckNewLeader(1, 1, 0) }},
		{"promise in memory", "Z12", func(c *Checker) { c.Issued(1, &Op{Accepted: 2, Current: 1}); c.SentPromise(1, 2) }},
		{"history in memory", "Z12", func(c *Checker) { c.SentHistory(1, z(1, 1)) }},
		{"vote with memory", "Z12", func(c *Checker) { c.Voted(1, 1, z(1, 1)) }},
		{"commit below a quorum", "Z13", func(c *Checker) {
			c.Proposed(0, z(1, 1), 1)
			both(c, 0, Op{Append: one})
			both(c, 3, Op{Accepted: 1, Current: 1})
			both(c, 3, Op{Append: one})
			c.Delivers(0, z(1, 1))
		}},
		{"gap", "Z14", func(c *Checker) {
			c.Proposed(0, z(1, 2), 1)
			c.Issued(1, &Op{Append: []Entry{{Zxid: z(1, 2), Hash: 1}}})
		}},
		{"truncated to what is not there", "Z14", func(c *Checker) { c.Issued(1, &Op{Truncate: true, To: z(1, 1)}) }},
		{"kept behind a snapshot", "Z14", func(c *Checker) {
			wrote(c, 1, Did{Conn: -1})
			wrote(c, 2, Did{Conn: -1})
			c.servers[1].issued.log[1].hash++
			c.Issued(1, &Op{Install: true, Zxid: z(1, 1), Common: z(1, 2)})
		}},
		{"log cut in the air", "Z14", func(c *Checker) { c.Cut(1, z(1, 5)) }},
		{"truncated below the tree", "Z15", func(c *Checker) { wrote(c, 1, Did{Conn: -1}); c.Issued(0, &Op{Truncate: true}) }},
		{"delivered beyond the log", "Z15", func(c *Checker) { c.Delivers(0, z(1, 1)) }},
		{"applied before the commit", "Z15", func(c *Checker) { c.Applied(0, z(1, 1), 1, [2]uint64{}) }},
		{"state ahead of the log", "Z15", func(c *Checker) { wrote(c, 1, Did{Conn: -1}); c.Booted(3, z(1, 1)) }},
		{"digests differ", "Z16", func(c *Checker) { wrote(c, 1, Did{Conn: -1}); c.Applied(1, z(1, 1), 1, [2]uint64{1, 2}) }},
		{"snapshot's digests differ", "Z16", func(c *Checker) { wrote(c, 1, Did{Conn: -1}); c.Installed(1, z(1, 1), [2]uint64{}) }},
		{"too much in flight", "Z17", func(c *Checker) { c.Outstanding(0, 11, 10) }},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) { expect(t, founded(), tt.want, tt.do) })
	}
}

func expect(t *testing.T, c *Checker, want string, do func(*Checker)) {
	t.Helper()
	if c.Fault() != nil {
		t.Fatalf("before: %v", c.Fault())
	}
	do(c)
	if f := c.Fault(); f == nil || f.Name != want {
		t.Fatalf("%v, want %s", f, want)
	}
}

// TestEveryClientCheckCanFail does so for what clients see.
func TestEveryClientCheckCanFail(t *testing.T) {
	get := Request{Xid: 1, Kind: GetData, Path: "/a"}
	tests := []struct {
		name, want string
		do         func(c *Checker, k int)
	}{
		{"goes back", "S2", func(c *Checker, k int) {
			created(c, 2, k, 1)
			c.Sent(k, Request{Xid: 1, Kind: Write})
			c.Sent(k, Request{Xid: 2, Kind: Ping})
			c.Replied(k, &Reply{Xid: 1, Zxid: z(1, 2)})
			c.Replied(k, &Reply{Xid: 2, Zxid: z(1, 1)})
		}},
		{"event goes back", "S2", func(c *Checker, k int) {
			created(c, 2, k, 1)
			c.Sent(k, Request{Xid: 1, Kind: Write})
			c.Replied(k, &Reply{Xid: 1, Zxid: z(1, 2)})
			c.Event(k, z(1, 1), Created, "/a")
		}},
		{"out of order", "S3", func(c *Checker, k int) { c.Sent(k, get); c.Replied(k, &Reply{Xid: 2}) }},
		{"writes out of order", "S3", func(c *Checker, k int) { created(c, 2, k, 5); wrote(c, 3, Did{Session: 7, Conn: k, Xid: 5}) }},
		{"a read sees a later write", "S4", func(c *Checker, k int) {
			created(c, 2, k, 2)
			c.Sent(k, Request{Xid: 1, Kind: Ping})
			c.Sent(k, Request{Xid: 2, Kind: Write})
			c.Replied(k, &Reply{Xid: 1, Zxid: z(1, 2)})
			c.Replied(k, &Reply{Xid: 2, Zxid: z(1, 2)})
		}},
		{"write of a session that ended", "S5", func(c *Checker, k int) {
			wrote(c, 2, Did{Session: 7, Conn: k, Xid: 1, End: true})
			wrote(c, 3, Did{Session: 7, Conn: k, Xid: 2})
		}},
		{"an ephemeral stays", "S5", func(c *Checker, k int) {
			a := node(2)
			a.Node.Owner = 7
			wrote(c, 2, Did{Session: 7, Conn: k, Xid: 1, Changes: []Change{{Created, "/a"}}, Affected: []Affected{a}})
			wrote(c, 3, Did{Session: 7, Conn: k, Xid: 2, End: true})
		}},
		{"made twice", "S5", func(c *Checker, k int) { wrote(c, 2, Did{New: true, Session: 7, Conn: k}) }},
		{"given after its end", "S5", func(c *Checker, k int) {
			wrote(c, 2, Did{Session: 7, Conn: k, Xid: 1, End: true})
			c.Sent(k, Request{Xid: 1, Kind: Write})
			c.Replied(k, &Reply{Xid: 1, Zxid: z(1, 2)})
			c.Attached(c.Opened(0, 2), 7, 7)
		}},
		{"expired too early", "S6", func(c *Checker, _ int) {
			c.LeaderBegan(0, 0, map[int64]int64{7: 1000})
			c.Touched(0, 7, 500, 0, 0)
			c.Expires(0, 7, 1300, 1)
		}},
		{"expired over a silence", "S6", func(c *Checker, _ int) {
			c.LeaderBegan(0, 0, map[int64]int64{7: 1000})
			c.Touched(0, 7, 500, 0, 1)
			c.Heard(0, 1, 1300)
			c.Expires(0, 7, 1500, 1)
		}},
		{"answered after the expiry", "S6", func(c *Checker, _ int) {
			c.LeaderBegan(0, 0, map[int64]int64{7: 1000})
			c.Expires(0, 7, 1000, 50)
			c.Answered(7, 60)
			wrote(c, 2, Did{Session: 7, Conn: -1, End: true})
		}},
		{"answered after its end", "S6", func(c *Checker, _ int) {
			c.LeaderBegan(0, 0, map[int64]int64{7: 1000})
			c.Expires(0, 7, 1000, 50)
			wrote(c, 2, Did{Session: 7, Conn: -1, End: true})
			c.Answered(7, 60)
		}},
		{"an older ticket", "S7", func(c *Checker, k int) {
			wrote(c, 2, Did{Session: 7, Conn: k, Xid: 1, Ticket: [2]uint64{1, 5}})
			wrote(c, 3, Did{Session: 7, Conn: k, Xid: 2, Ticket: [2]uint64{1, 4}})
		}},
		{"an older connection", "S7", func(c *Checker, k int) {
			wrote(c, 2, Did{Session: 7, Conn: c.Opened(0, 2), Xid: 1})
			wrote(c, 3, Did{Session: 7, Conn: k, Xid: 2})
		}},
		{"an older connection behind a sync", "I8", func(c *Checker, k int) {
			n := c.Opened(0, 2)
			c.Attached(n, 7, 7)
			c.Sent(n, Request{Xid: 1, Kind: Sync})
			c.Replied(n, &Reply{Xid: 1, Zxid: z(1, 1)})
			wrote(c, 2, Did{Session: 7, Conn: k, Xid: 1})
		}},
		{"event missed", "S8", func(c *Checker, k int) {
			c.Sent(k, Request{Xid: 1, Kind: Exists, Path: "/a", Watch: true})
			c.Replied(k, &Reply{Xid: 1, Zxid: z(1, 1), Code: codeNoNode})
			created(c, 2, k, 2)
			c.Sent(k, Request{Xid: 2, Kind: Write})
			c.Replied(k, &Reply{Xid: 2, Zxid: z(1, 2)})
		}},
		{"catch-up missed", "S8", func(c *Checker, k int) {
			created(c, 2, k, 1)
			c.Sent(k, Request{Xid: 1, Kind: SetWatches, Lists: &Lists{Since: z(1, 1), Data: []string{"/a"}}})
			c.Replied(k, &Reply{Xid: 1, Zxid: z(1, 2)})
		}},
		{"catch-up without a reason", "I9", func(c *Checker, k int) {
			c.Sent(k, Request{Xid: 1, Kind: SetWatches, Lists: &Lists{Exist: []string{"/a"}}})
			c.Event(k, 0, Created, "/a")
			c.Replied(k, &Reply{Xid: 1, Zxid: z(1, 1)})
		}},
		{"event without a watch", "I9", func(c *Checker, k int) { created(c, 2, k, 1); c.Event(k, z(1, 2), Created, "/a") }},
		{"event twice", "I9", func(c *Checker, k int) {
			c.Sent(k, Request{Xid: 1, Kind: Exists, Path: "/a", Watch: true})
			c.Replied(k, &Reply{Xid: 1, Zxid: z(1, 1), Code: codeNoNode})
			created(c, 2, k, 2)
			c.Event(k, z(1, 2), Created, "/a")
			c.Event(k, z(1, 2), Created, "/a")
		}},
		{"watch that was not there", "I9", func(c *Checker, k int) {
			c.Sent(k, Request{Xid: 1, Kind: RemoveWatches, Path: "/a"})
			c.Replied(k, &Reply{Xid: 1, Zxid: z(1, 1)})
		}},
		{"wrong data", "I8", func(c *Checker, k int) {
			created(c, 2, k, 1)
			n := node(2).Node
			n.Data, n.NoKidsInRead = 6, true
			c.Sent(k, get)
			c.Replied(k, &Reply{Xid: 1, Zxid: z(1, 2), Node: &n})
		}},
		{"wrong stat", "I8", func(c *Checker, k int) {
			created(c, 2, k, 1)
			c.Sent(k, get)
			c.Replied(k, &Reply{Xid: 1, Zxid: z(1, 2), Node: &Node{}})
		}},
		{"wrong children", "I8", func(c *Checker, k int) {
			created(c, 2, k, 1)
			n := node(2).Node
			n.Kids, n.NoData = 1, true
			c.Sent(k, Request{Xid: 1, Kind: GetChildren, Path: "/a"})
			c.Replied(k, &Reply{Xid: 1, Zxid: z(1, 2), Node: &n})
		}},
		{"not there yet", "I8", func(c *Checker, k int) {
			created(c, 2, k, 1)
			c.Sent(k, get)
			c.Replied(k, &Reply{Xid: 1, Zxid: z(1, 2), Code: codeNoNode})
		}},
		{"refused read", "I8", func(c *Checker, k int) { c.Sent(k, get); c.Replied(k, &Reply{Xid: 1, Zxid: z(1, 1), Code: -4}) }},
		{"told of nothing", "I7", func(c *Checker, k int) {
			c.Sent(k, Request{Xid: 1, Kind: Write})
			c.Replied(k, &Reply{Xid: 1, Zxid: z(1, 1)})
		}},
		{"another's result", "I7", func(c *Checker, k int) {
			created(c, 2, k, 2)
			c.Sent(k, Request{Xid: 1, Kind: Write})
			c.Replied(k, &Reply{Xid: 1, Zxid: z(1, 2)})
		}},
		{"shown what is not committed", "I7", func(c *Checker, k int) {
			c.Sent(k, Request{Xid: 1, Kind: Ping})
			c.Replied(k, &Reply{Xid: 1, Zxid: z(1, 9)})
		}},
		{"a session of nobody", "I7", func(c *Checker, k int) { c.Attached(k, 8, 0) }},
		{"a session of another", "I7", func(c *Checker, _ int) { c.Attached(c.Opened(0, 2), 7, 0) }},
		{"another session", "I7", func(c *Checker, k int) { c.Attached(k, 7, 8) }},
		{"a refusal that changes", "I7", func(c *Checker, k int) {
			wrote(c, 2, Did{Session: 7, Conn: k, Xid: 1, Code: -1, Affected: []Affected{node(2)}})
		}},
		{"told that it is over", "I10", func(c *Checker, _ int) { c.Refused(7) }},
		{"stale sync", "C3", func(c *Checker, k int) {
			o := c.Opened(1, 1)
			wrote(c, 2, Did{New: true, Session: 9, Conn: o})
			c.Attached(o, 9, 0)
			c.Sent(o, Request{Xid: 1, Kind: Ping})
			c.Replied(o, &Reply{Xid: 1, Zxid: z(1, 2)})
			c.Sent(k, Request{Xid: 1, Kind: Sync})
			c.Replied(k, &Reply{Xid: 1, Zxid: z(1, 1)})
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c, k := client()
			expect(t, c, tt.want, func(c *Checker) { tt.do(c, k) })
		})
	}
}

// TestQuorums: majorities, and groups with weights.
func TestQuorums(t *testing.T) {
	has := func(s string) func(int) bool {
		return func(i int) bool { return strings.ContainsRune(s, rune('0'+i)) }
	}
	c := three()
	if !c.Quorum(has("01")) || c.Quorum(has("03")) {
		t.Error("majority")
	}
	g := New([]Member{{Weight: 1, Group: 1}, {Weight: 1, Group: 1}, {Weight: 1, Group: 2}, {Weight: 2, Group: 2}, {Weight: 1, Group: 3}, {Weight: 0, Group: 3}}, 0, [2]uint64{})
	if !g.Quorum(has("34")) || g.Quorum(has("024")) || g.Quorum(has("01")) || !g.Quorum(has("013")) {
		t.Error("groups")
	}
}

// TestAckOfALostDiskCounts: what a voter had acknowledged before its disk was lost may be committed with that, also when
// what it has had since is lost as well.
func TestAckOfALostDiskCounts(t *testing.T) {
	c := founded()
	e := Entry{Zxid: z(1, 1), Hash: 1}
	c.Proposed(0, e.Zxid, e.Hash)
	for s := range 2 {
		both(c, s, Op{Append: []Entry{e}})
	}
	c.Wiped(1)
	c.Wiped(1)
	c.Delivers(0, e.Zxid)
	if f := c.Fault(); f != nil {
		t.Fatal(f)
	}
}

// TestPromiseOfALostDisk: a server that has lost its disk may promise an epoch again, with what it holds now.
func TestPromiseOfALostDisk(t *testing.T) {
	c := founded()
	both(c, 2, Op{Accepted: 2, Current: 1})
	c.SentPromise(2, 2)
	c.Wiped(2)
	e := Entry{Zxid: z(1, 1), Hash: 1}
	c.Proposed(0, e.Zxid, e.Hash)
	for s := range 3 {
		both(c, s, Op{Append: []Entry{e}, Accepted: 1, Current: 1, Stamp: true})
	}
	for _, s := range []int{1, 2} {
		both(c, s, Op{Accepted: 2, Current: 1})
		c.SentPromise(s, 2)
		c.HeardPromise(2, s, 2)
	}
	c.Leads(2, 2)
	if f := c.Fault(); f != nil {
		t.Fatal(f)
	}
}

// TestPromiseHeardOfLate: a promise counts although the disk that it was made on has been lost since.
func TestPromiseHeardOfLate(t *testing.T) {
	c := founded()
	for s := range 2 {
		both(c, s, Op{Accepted: 2, Current: 1})
		c.SentPromise(s, 2)
	}
	c.Wiped(1)
	c.HeardPromise(0, 1, 2)
	c.Leads(0, 2)
	if f := c.Fault(); f != nil {
		t.Fatal(f)
	}
}
