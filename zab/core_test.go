package zab

import "testing"

func boot(t *testing.T, n int) *cluster {
	t.Helper()
	c := newCluster(voters(n), Options{}, 1)
	for _, id := range c.ids {
		if err := c.start(c.nodes[id]); err != nil {
			t.Fatal(err)
		}
	}
	for _, a := range c.ids {
		for _, b := range c.ids {
			c.connect(a, b)
		}
	}
	return c
}

func (c *cluster) elect(leader ServerID) {
	for _, id := range c.ids {
		if n := c.nodes[id]; n.up && n.core.Role() == Looking {
			n.step(Elected{leader})
		}
	}
	c.settle()
}

func (c *cluster) must(t *testing.T) {
	t.Helper()
	for _, f := range c.faults {
		t.Error(f)
	}
	if t.Failed() {
		t.Log(c.out.String())
		t.FailNow()
	}
}

func TestHappyPath(t *testing.T) {
	c := boot(t, 3)
	c.elect(1)
	c.must(t)
	if !c.nodes[1].serving || !c.nodes[2].serving || !c.nodes[3].serving {
		t.Fatal(c.out.String())
	}
	if !c.propose(c.nodes[1], 5) {
		t.Fatal("may not propose")
	}
	c.settle()
	c.crash(c.nodes[1], 0)
	c.settle()
	c.elect(2)
	c.must(t)
	if !c.propose(c.nodes[2], 1) {
		t.Fatal("may not propose", c.out.String())
	}
	c.settle()
	if err := c.start(c.nodes[1]); err != nil {
		t.Fatal(err)
	}
	c.connect(1, 2)
	c.connect(1, 3)
	c.elect(2)
	c.must(t)
	for _, id := range c.ids {
		if got := len(c.nodes[id].tree); got != 6 {
			t.Errorf("server %d applied %d", id, got)
		}
	}
	if t.Failed() {
		t.Log(c.out.String())
	}
}

// A single server needs nobody: it serves with only its disk's completions.
func TestSingle(t *testing.T) {
	c, err := New(Boot{Self: 1, Members: voters(1), Rand: newCluster(nil, Options{}, 1).rand})
	if err != nil {
		t.Fatal(err)
	}
	c.Step(Elected{1})
	serving := false
	var lease bool
	for range 10 {
		b, ok := c.Ready()
		if !ok {
			break
		}
		if len(b.Send)+len(b.SendWhen) > 0 {
			t.Fatal("a message")
		}
		for _, e := range b.Events {
			if s, ok := e.(Serving); ok {
				serving = s.On
			}
		}
		lease = b.Lease > 0
		if n := len(b.Persist); n > 0 {
			c.Step(Persisted{Seq: b.Persist[n-1].Seq, Gen: b.Gen})
		}
	}
	z, ok := c.NextZxid()
	if !serving || !lease || !ok || z != MakeZxid(1, 1) || c.Ensemble() == 0 {
		t.Fatalf("serving %v lease %v next %v %v", serving, lease, z, ok)
	}
	c.Step(Propose{[]Entry{{Zxid: z}, {Zxid: z + 1}}})
	b, _ := c.Ready()
	if b.Deliver != 0 || len(b.Persist) != 1 {
		t.Fatalf("%+v", b)
	}
	c.Step(Persisted{Seq: b.Persist[0].Seq, Gen: b.Gen})
	if b, _ := c.Ready(); b.Deliver != z+1 {
		t.Fatalf("%+v", b)
	}
}

// An answer to a read of an earlier leadership must not be taken for one of the present: the log may have been cut
// behind it in between.
func TestStaleRead(t *testing.T) {
	c := newCluster(voters(3), Options{Window: 400, RunBytes: 200}, 1)
	for _, id := range c.ids {
		if err := c.start(c.nodes[id]); err != nil {
			t.Fatal(err)
		}
	}
	connect := func() {
		for _, a := range c.ids {
			for _, b := range c.ids {
				c.connect(a, b)
			}
		}
	}
	connect()
	c.elect(1)
	c.crash(c.nodes[3], 0)
	c.propose(c.nodes[1], 30)
	c.settle()
	if err := c.start(c.nodes[3]); err != nil {
		t.Fatal(err)
	}
	connect()
	n := c.nodes[1]
	syncThree := func() ReadRange {
		t.Helper()
		c.nodes[3].step(Elected{1})
		for len(n.reads) == 0 {
			if !c.receive(3, 1) && !c.receive(1, 3) && !c.nodes[3].sync(0) {
				t.Fatal("no read", c.out.String())
			}
		}
		r := n.reads[0]
		n.reads = nil
		return r
	}
	old := syncThree()
	n.step(StepDown{ReasonStopping})
	c.settle()
	c.nodes[2].step(Elected{1})
	n.step(Elected{1})
	for n.core.lead == nil || n.core.lead.phase < established {
		if !c.receive(2, 1) && !c.receive(1, 2) && !n.sync(0) && !c.nodes[2].sync(0) {
			t.Fatal("not established", c.out.String())
		}
	}
	r := syncThree()
	if r.ID == old.ID || r.Link != old.Link || r.After != old.After {
		t.Fatalf("%+v after %+v", r, old)
	}
	before := n.core.learner(3).cursor
	n.step(LogRead{ID: old.ID, Link: old.Link, After: old.After, Entries: n.disk.log[:3]})
	if got := n.core.learner(3).cursor; got != before {
		t.Fatalf("took a stale answer: cursor %v after %v", got, before)
	}
	n.reads = append(n.reads, r)
	c.settle()
	c.must(t)
	if got := len(c.nodes[3].tree); got != 30 {
		t.Fatalf("server 3 applied %d", got)
	}
}

// What a replaced link still carries is dropped (R11).
func TestReplacedLink(t *testing.T) {
	c := boot(t, 3)
	c.elect(1)
	old := c.links[[2]ServerID{1, 2}].link
	c.relink(1, 2)
	c.elect(1)
	n := c.nodes[2]
	if n.core.Role() != Following || !n.serving {
		t.Fatal(c.out.String())
	}
	n.step(Received{Link: old, Msg: &Goodbye{Epoch: 1}})
	n.step(Received{Link: Link{Peer: 9, Incarnation: 1}, Msg: &Goodbye{Epoch: 1}})
	n.step(LinkDown{Link: old})
	n.step(LinkUp{Link: old})
	if n.core.Role() != Following {
		t.Fatal("an old link ended the role", c.out.String())
	}
	c.must(t)
}
