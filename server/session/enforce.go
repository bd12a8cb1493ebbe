package session

import (
	"slices"

	"github.com/zkserver/zkserver/znode"
)

// Admitted says whether the connection has proved who its client is, as far as that is asked for.
func (c *Conn) Admitted() bool { return c.hub.admits(c.Auth()) }

func (h *Hub) admits(auth []znode.AuthID) bool {
	if len(h.opts.EnforceSchemes) == 0 {
		return true
	}
	return slices.ContainsFunc(auth, func(id znode.AuthID) bool { return slices.Contains(h.opts.EnforceSchemes, id.Scheme) })
}

// enforce refuses requests of those who have not proved who they are, and ends the connection of such a client. Writes
// that carry identities of their own, of several clients on one connection, are judged by those.
func (c *Conn) enforce(rs []Request) (admitted []Request, err error) {
	own := c.Admitted()
	admitted = rs[:0]
	for i := range rs {
		r, others := rs[i], rs[i].Write != nil && rs[i].Write.Auth != nil
		if others && c.hub.admits(r.Write.Auth) || !others && own {
			admitted = append(admitted, r)
			continue
		}
		c.Answer(&Reply{Op: r.Op, Xid: r.Xid, Err: znode.SessionClosedRequireSASLAuth})
		if !others {
			c.CloseAfterFlush(ReasonUnproved)
			return nil, ErrEnded
		}
	}
	return admitted, nil
}
