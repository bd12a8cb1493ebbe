package check

// touch is what a leader knows of a session's life, on its own clock (which does not count its own pauses), in ms.
type touch struct {
	leader   int
	at       int64
	timeout  int64
	holder   int   // the one server that has told of it
	proposed int64 // real time at which its expiry was proposed; zero: not
}

// Holders that are no server: nobody has told of the session yet, and it may have moved. Of the latter it is not judged
// whose silence counts.
const (
	unknown = -1
	moved   = -2
)

// LeaderBegan: a server has begun to serve as leader; every session has its full timeout from now.
func (c *Checker) LeaderBegan(s int, now int64, sessions map[int64]int64) {
	for id, timeout := range sessions {
		c.leaderSeen[id] = &touch{leader: s, at: now, timeout: timeout, holder: unknown}
	}
	for at := range c.servers {
		c.Unheard(s, at)
	}
}

// Touched: a leader has made a session, or heard of a sign of life of one, which was at that time of its clock, from a server
// (-1: it was made).
func (c *Checker) Touched(s int, id, now, timeout int64, from int) {
	t := c.leaderSeen[id]
	if t == nil || t.leader != s {
		t = &touch{leader: s, at: now, timeout: timeout, holder: unknown}
		c.leaderSeen[id] = t
	}
	t.at = max(t.at, now)
	if t.holder == unknown {
		t.holder = from
	} else if t.holder != from {
		t.holder = moved
	}
}

// Moves: a session may be on its way to another server.
func (c *Checker) Moves(id int64) {
	if t := c.leaderSeen[id]; t != nil {
		t.holder = moved
	}
}

// Forwards: a server has sent a request of a session.
func (c *Checker) Forwards(id int64, from int) {
	if t := c.leaderSeen[id]; t != nil && t.holder != unknown && t.holder != from {
		t.holder = moved
	}
}

// Heard: a leader has heard a server, at that time of its clock.
func (c *Checker) Heard(s, from int, now int64) { c.heard[[2]int{s, from}] = now }

// Unheard: a leader has lost its link with a server: from now on its silence counts.
func (c *Checker) Unheard(s, from int) { delete(c.heard, [2]int{s, from}) }

// expirySlack is what the leader's loop and clock may be behind, in ms.
const expirySlack = 100

// Expires: a leader proposes the end of a session of which it has not heard (I10).
func (c *Checker) Expires(s int, id, now, real int64) {
	t := c.leaderSeen[id]
	if t == nil || t.leader != s {
		return
	}
	if now-t.at < t.timeout-expirySlack {
		c.fail("S6", "leader %d ends session %x %d ms after a sign of life; its timeout is %d ms", s, id, now-t.at, t.timeout)
	}
	if h, ok := c.heard[[2]int{s, t.holder}]; ok && h-t.at < t.timeout-expirySlack {
		c.fail("S6", "leader %d ends session %x, whose timeout is %d ms; it has not heard server %d, which holds it, since %d ms after a sign of life",
			s, id, t.timeout, t.holder, h-t.at)
	}
	t.proposed = real
}

// Answered: a request that its server had read at this real time has been answered (I10).
func (c *Checker) Answered(id, real int64) {
	s := c.session(id)
	s.answered = max(s.answered, real)
	if s.ended {
		if t := c.leaderSeen[id]; t != nil && t.proposed != 0 && real > t.proposed {
			c.fail("S6", "a client of session %x was answered after the session had expired", id)
		}
	}
}

// expired: an expiry has been committed.
func (c *Checker) expired(id int64, z uint64) {
	t := c.leaderSeen[id]
	if t == nil || t.proposed == 0 {
		return
	}
	if s := c.session(id); s.answered > t.proposed {
		c.fail("S6", "session %x was answered after its leader had proposed its end %s", id, Zx(z))
	}
}
