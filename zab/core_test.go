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
