package front

import (
	"testing"

	"github.com/zkserver/zkserver/proto/jute"
	"github.com/zkserver/zkserver/server/session"
)

// Without an identity of a named scheme everything but auth and sasl is answered -124 with zxid 0 and closes the
// connection; a ping's reply keeps its xid.
func TestEnforcedAuthentication(t *testing.T) {
	s := startHub(t, session.Options{EnforceSchemes: []string{"digest"}}, nil)
	for _, op := range []jute.OpCode{jute.OpPing, jute.OpCloseSession, jute.OpWhoAmI, 999} {
		c := s.session()
		c.req(jute.OpSASL, &jute.GetSASLRequest{Token: []byte{}})
		c.want(1, 0)
		xid := c.req(op, nil)
		if op == jute.OpPing {
			xid = jute.XidPing
		}
		if r := c.want(xid, -124); r.Zxid != 0 || len(r.body) != 0 {
			t.Errorf("operation %d: zxid %d, %d bytes", op, r.Zxid, len(r.body))
		}
		c.closed()
	}
	c := s.session()
	c.raw(append(frameOf(request(-4, jute.OpAuth, &jute.AuthPacket{Scheme: jute.Str("digest"), Auth: []byte("bob:pw")})),
		frameOf(request(7, jute.OpGetData, get("/", false)))...))
	c.want(-4, 0)
	c.want(7, 0)
	c.ping()
}
