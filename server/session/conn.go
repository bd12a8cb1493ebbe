package session

import (
	"context"

	"github.com/zkserver/zkserver/znode"
)

// Conn is the shared half of a client connection. Attach, Do, Authenticate, Answer, Heard and Release belong to the
// connection's own goroutine; everything else may be called from anywhere.
type Conn struct{}

// Number names the connection within this process; it is Origin.Conn of its requests.
func (c *Conn) Number() uint32 { return 0 }

// Session is the id of the attached session, or zero.
func (c *Conn) Session() int64 { return 0 }

// Timeout is the session's negotiated timeout in ms.
func (c *Conn) Timeout() int32 { return 0 }

// Ticket is the one under which the connection holds its session.
func (c *Conn) Ticket() znode.Ticket { return znode.Ticket{} }

// Done is closed when the connection is to end.
func (c *Conn) Done() <-chan struct{} { return nil }

// Close ends the connection at once: what is still in the outbox is lost. The first reason counts.
func (c *Conn) Close(r Reason) {}

// CloseAfterFlush ends the connection once everything now in the outbox is written.
func (c *Conn) CloseAfterFlush(r Reason) {}

// Attach asks the backend for a session and waits for the answer.
func (c *Conn) Attach(ctx context.Context, a Attach) (AttachResult, error) { return AttachResult{}, nil }

// Do runs or parks requests in the order given and submits the writes among them. It waits when too much is
// outstanding and returns an error once the connection has ended.
func (c *Conn) Do(rs []Request) error { return nil }
