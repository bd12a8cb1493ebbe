package client

import (
	"context"

	"github.com/zkserver/zkserver/proto/jute"
)

// link is one connection on one wire. connect comes first; then one goroutine writes and one reads; close may be
// called by anybody, at any time, and ends both.
type link interface {
	// connect asks for the session.
	connect(ctx context.Context, h hello) (welcome, error)
	// write sends calls in order, with the xids that they have.
	write(batch []*call) error
	// next waits for the next thing the server says.
	next() (inbound, error)
	// body decodes the body of the reply that next returned last.
	body(op jute.OpCode, into *reply) error
	close()
}

// hello asks for a session, welcome is the answer.
type hello struct {
	lastZxid int64
	timeout  int32 // ms
	session  Session
	readOnly bool // a server in read-only mode will do
}

type welcome struct {
	timeout  int32 // ms; not positive: refused
	session  int64
	password []byte
	readOnly bool // the server is in read-only mode
}

// inbound is the head of a reply, or an event.
type inbound struct {
	xid      int32
	zxid     int64
	code     Code
	tooLarge bool // the body was thrown away

	event EventType // not zero: an event, of path
	path  string
}

// encode makes a call ready for the wire.
func (c *Client) encode(cl *call) (err error) {
	if c.o.Wire == GRPC {
		cl.cmd, err = encodePB(&cl.req)
	} else {
		cl.frame, err = encodeZK(&cl.req)
	}
	return err
}
