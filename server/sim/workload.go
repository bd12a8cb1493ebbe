package sim

import (
	"fmt"

	"github.com/zkserver/zkserver/server/session"
	"github.com/zkserver/zkserver/server/sim/check"
	"github.com/zkserver/zkserver/znode"
)

// root is above everything that clients make.
const root = "/t"

func (c *client) node() string { return fmt.Sprintf("%s/n%d", root, c.rnd.n(c.w.cfg.paths)) }

func (c *client) below() string {
	if c.rnd.n(3) == 0 {
		return fmt.Sprintf("%s/e%d", c.node(), c.rnd.n(len(c.w.clients)))
	}
	return c.node()
}

func (c *client) data() []byte {
	b := fmt.Appendf(nil, "%d.%d.%d", c.i, c.ordinal, c.xid)
	if c.rnd.n(8) == 0 {
		b = append(b, make([]byte, c.rnd.n(600))...)
	}
	return b
}

// act does what a client with a session does in its turn.
func (c *client) act() {
	w := c.w
	if w.lim.Ops > 0 && c.ops >= w.lim.Ops && c.pin < 0 {
		return
	}
	switch {
	case c.pin >= 0:
		if len(c.waiting) == 0 {
			c.sync("/")
			c.create(fmt.Sprintf("/probe%d-%d", c.i, c.ordinal), 0)
		}
	case c.xid == 0 && c.rnd.n(2) == 0 || c.w.chk.Committed() == uint64(w.cfg.age):
		c.create(root, 0)
	case len(c.waiting) > 20:
	case c.rnd.chance(25):
		if len(c.waiting) == 0 {
			c.w.cover.hit("race: a session moves at rest")
		}
		c.leave(c.rnd.n(2) == 0)
	case c.rnd.chance(25):
		c.w.cover.hit("race: a session moves while writes of it are under way")
		c.burst(1 + c.rnd.n(4))
		c.leave(c.rnd.n(2) == 0)
		c.next, c.hurry = w.now, true
	case c.rnd.chance(20):
		c.w.cover.hit("burst")
		c.burst(8 + c.rnd.n(24))
	case c.rnd.chance(15):
		c.send(session.Request{Op: znode.OpCloseSession, Write: &znode.Request{}}, check.Request{Kind: check.Write})
	default:
		for range 1 + c.rnd.n(4) {
			c.request()
		}
	}
}

// burst sends writes one behind the other.
func (c *client) burst(n int) {
	for range n {
		if c.rnd.n(3) == 0 {
			c.create(c.node()+"/s-", 2)
		} else {
			c.write(znode.OpSetData, &znode.Request{Path: c.node(), Data: c.data(), Version: -1, TTL: -1})
		}
	}
}

// sync asks for all that is committed.
func (c *client) sync(path string) {
	c.send(session.Request{Op: znode.OpSync, Path: path, Write: &znode.Request{Path: path}}, check.Request{Kind: check.Sync})
}

func (c *client) create(path string, flags int32) {
	c.write(znode.OpCreate, &znode.Request{Path: path, Data: c.data(), ACL: openACL, Flags: flags, TTL: -1})
}

func (c *client) write(op znode.Op, r *znode.Request) {
	c.send(session.Request{Op: op, Path: r.Path, Write: r}, check.Request{Kind: check.Write})
}

// request sends one operation of some kind.
func (c *client) request() {
	watch := c.rnd.n(4) == 0
	switch k := c.rnd.n(100); {
	case k < 10:
		c.create(c.node(), 0)
	case k < 14:
		c.write(znode.OpDelete, &znode.Request{Path: c.node(), Version: -1, TTL: -1})
	case k < 26:
		r := &znode.Request{Path: c.node(), Data: c.data(), Version: -1, TTL: -1}
		if c.rnd.n(3) == 0 {
			r.Version = int32(c.rnd.n(4))
		}
		c.write(znode.OpSetData, r)
	case k < 33:
		c.create(fmt.Sprintf("%s/e%d", c.node(), c.i), 1)
	case k < 40:
		c.create(c.node()+"/s-", int32(2+c.rnd.n(2)))
	case k < 49:
		if n := len(c.created); n > 0 {
			p := c.created[0]
			c.created = c.created[1:]
			c.write(znode.OpDelete, &znode.Request{Path: p, Version: -1, TTL: -1})
		}
	case k < 56:
		c.multi()
	case k < 57:
		c.write(znode.OpCreateContainer, &znode.Request{Path: c.node(), ACL: openACL, Flags: 4, TTL: -1})
	case k < 58:
		c.write(znode.OpSetACL, &znode.Request{Path: c.node(), ACL: openACL, Version: -1, TTL: -1})
	case k < 68:
		c.send(session.Request{Op: znode.OpGetData, Path: c.below(), Watch: watch}, check.Request{Kind: check.GetData})
	case k < 75:
		c.send(session.Request{Op: znode.OpExists, Path: c.below(), Watch: watch}, check.Request{Kind: check.Exists})
	case k < 82:
		c.send(session.Request{Op: znode.OpGetChildren2, Path: c.node(), Watch: watch}, check.Request{Kind: check.GetChildren})
	case k < 96:
		p := c.node()
		c.sync(p)
		c.send(session.Request{Op: znode.OpGetData, Path: p}, check.Request{Kind: check.GetData})
	case k < 99:
		r := session.Request{Op: znode.OpAddWatch, Path: c.node(), Mode: int32(c.rnd.n(2))}
		if r.Mode == 1 && c.rnd.n(2) == 0 {
			r.Path = root
		}
		c.send(r, check.Request{Kind: check.AddWatch, Recursive: r.Mode == 1})
	default:
		c.send(session.Request{Op: znode.OpRemoveWatches, Path: c.node(), Mode: 3}, check.Request{Kind: check.RemoveWatches})
	}
}

// multi changes several nodes at once, or none.
func (c *client) multi() {
	m := &znode.Request{TTL: -1}
	for range 1 + c.rnd.n(3) {
		p := c.node()
		switch c.rnd.n(4) {
		case 0:
			m.Multi = append(m.Multi, znode.Request{Op: znode.OpCheck, Path: p, Version: -1, TTL: -1})
		case 1:
			m.Multi = append(m.Multi, znode.Request{Op: znode.OpSetData, Path: p, Data: c.data(), Version: -1, TTL: -1})
		case 2:
			m.Multi = append(m.Multi, znode.Request{Op: znode.OpCreate, Path: p + "/s-", Data: c.data(), ACL: openACL, Flags: 2 + int32(c.rnd.n(2)), TTL: -1})
		default:
			m.Multi = append(m.Multi, znode.Request{Op: znode.OpDelete, Path: fmt.Sprintf("%s/e%d", p, c.i), Version: -1, TTL: -1})
		}
	}
	c.write(znode.OpMulti, m)
}
