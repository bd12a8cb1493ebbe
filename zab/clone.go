package zab

import "slices"

// Clone is an independent copy of a core whose batch has been taken (Ready). What never changes is shared, and so is the
// source of randomness, which only the founding of an ensemble asks. It is for those who try out more than one future of
// a state (server/sim/explore).
func (c *Core) Clone() *Core {
	b := &c.batch
	assert(len(b.Persist)+len(b.Send)+len(b.SendWhen)+len(b.Reads)+len(b.Events) == 0, "cloned with a batch that nobody took")
	d := *c
	d.epochs = slices.Clone(c.epochs)
	d.ring = c.ring.clone()
	d.marks = slices.Clone(c.marks)
	d.peers = slices.Clone(c.peers)
	if c.lead != nil {
		d.lead = c.lead.clone()
	}
	if c.learn != nil {
		d.learn = c.learn.clone()
	}
	return &d
}

// clone shares the entries: a run is never written to.
func (r ring) clone() ring {
	r.runs = slices.Clone(r.runs[r.head:])
	r.head = 0
	return r
}

func (l *leadership) clone() *leadership {
	d := *l
	d.learners = make([]*learner, len(l.learners))
	for i, x := range l.learners {
		y := *x
		y.sent = slices.Clone(x.sent)
		d.learners[i] = &y
	}
	d.lost = slices.Clone(l.lost)
	d.known = slices.Clone(l.known)
	d.rounds = slices.Clone(l.rounds)
	d.syncs = slices.Clone(l.syncs)
	d.scratch = nil
	if l.handing != nil {
		h := *l.handing
		d.handing = &h
	}
	return &d
}

func (l *learning) clone() *learning {
	d := *l
	d.held = slices.Clone(l.held)
	d.pongs = slices.Clone(l.pongs)
	d.asking = slices.Clone(l.asking)
	d.asked = slices.Clone(l.asked)
	return &d
}
