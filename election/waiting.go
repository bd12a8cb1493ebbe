package election

import "github.com/zkserver/zkserver/zab"

// Waiting says why an election that is under way has no outcome: which voters are not heard, and which are heard but do
// not count: a blank beside voters with an ensemble id, one of another ensemble, one whose state is damaged. This
// server may be among the latter. It is for people: nothing is decided by it.
func (c *Core) Waiting() (unheard, uncounted []zab.ServerID) {
	for _, v := range c.voters {
		if v == c.self {
			if c.own().none() {
				uncounted = append(uncounted, v)
			}
			continue
		}
		switch h := c.latest[v]; {
		case h == nil:
			unheard = append(unheard, v)
		case !c.class.counts(h.n.Ensemble) || c.inRound(&h.n) && h.n.Vote.none():
			uncounted = append(uncounted, v)
		}
	}
	return unheard, uncounted
}
