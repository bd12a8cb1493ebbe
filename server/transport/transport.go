package transport

import (
	"context"
	"time"

	"github.com/zkserver/zkserver/server/peer"
	"github.com/zkserver/zkserver/zab"
)

// Transport holds the links of one server.
type Transport struct {
	opts    Options
	handler Handler
}

// New validates; it starts nothing.
func New(o Options, h Handler) (*Transport, error) {
	return &Transport{opts: o, handler: h}, nil
}

// Run serves until ctx ends; everything it started has ended when it returns. It owns and closes the listener.
func (t *Transport) Run(ctx context.Context) error {
	<-ctx.Done()
	return ctx.Err()
}

// Send queues messages for a link and never blocks. Their order is kept, except that of *election.Notification only
// the newest waits. Messages for a link that is gone are dropped. A link whose queue is over its limit is cut.
// The transport owns the messages from here on; their byte slices must not change any more.
func (t *Transport) Send(l zab.Link, msgs ...peer.Message) {}

// Cut closes a link after telling the peer why, where that can be told. LinkDown follows.
func (t *Transport) Cut(l zab.Link, reason zab.Reason, detail string) {}

// SendSnapshot streams src to the link's peer on a bulk stream of its own. progress is called now and then while it
// moves; done once, after src is closed: nil when the peer has all of it and its sink's Finish succeeded.
func (t *Transport) SendSnapshot(l zab.Link, src SnapshotSource, done func(err error), progress func()) {}

// RTT is the round trip last measured on a link; zero when unknown.
func (t *Transport) RTT(l zab.Link) time.Duration { return 0 }
