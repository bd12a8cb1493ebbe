package replica

import (
	"bytes"
	"context"
	"errors"
	"time"

	"github.com/zkserver/zkserver/server/peer"
	"github.com/zkserver/zkserver/server/session"
	"github.com/zkserver/zkserver/server/store"
	"github.com/zkserver/zkserver/server/transport"
	"github.com/zkserver/zkserver/zab"
	"github.com/zkserver/zkserver/znode"
)

var (
	_ session.Backend   = (*Replica)(nil)
	_ transport.Handler = (*Replica)(nil)
)

func wallMs() int64 { return time.Now().UnixMilli() }

// Now is monotonic time since the start, in ns.
func (r *Replica) Now() int64 { return int64(time.Since(r.born)) }

// LeaseUntil is the end of the serving lease on Now's scale; zero: not serving.
func (r *Replica) LeaseUntil() int64 { return r.lease.Load() }

// RLock takes the tree's read lock and returns the tree.
func (r *Replica) RLock() *znode.Tree {
	r.mu.RLock()
	return r.tree
}

// RUnlock releases it.
func (r *Replica) RUnlock() { r.mu.RUnlock() }

// LastApplied is the zxid of the last applied transaction.
func (r *Replica) LastApplied() int64 { return r.applied.Load() }

// Attach asks for a session; see session.Backend.
func (r *Replica) Attach(c *session.Conn, a session.Attach) {
	r.inbox.attach(Attach{
		Conn: c.Number(), Session: a.Session, Password: bytes.Clone(a.Password), Timeout: a.Timeout, Again: a.Again,
	})
}

// Submit queues the writes of a run. The hub bounds how many there can be, so it never blocks.
func (r *Replica) Submit(c *session.Conn, rs []*znode.Request) {
	r.inbox.submit(c.Number(), znode.Origin{Server: uint64(r.opts.Self), Instance: uint64(r.process)}, rs)
}

// Detach says that a connection is gone.
func (r *Replica) Detach(c *session.Conn) { r.inbox.push(Detach{Conn: c.Number()}) }

// LinkUp and the methods below implement transport.Handler.
func (r *Replica) LinkUp(l zab.Link, rtt time.Duration) { r.inbox.push(LinkUp{Link: l, RTT: rtt}) }

// LinkDown says that a link is gone.
func (r *Replica) LinkDown(l zab.Link, refused bool) {
	r.inbox.push(LinkDown{Link: l, Refused: refused})
}

// DialFailed says that a peer cannot be reached.
func (r *Replica) DialFailed(p zab.ServerID, refused bool) {
	r.inbox.push(DialFailed{Peer: p, Refused: refused})
}

// Messages queues what a frame carried; forwarded requests are decoded here, off the loop. One that does not decode
// ends the link: its sender is not one of us.
func (r *Replica) Messages(l zab.Link, msgs []peer.Message) {
	if err := DecodeForwards(msgs); err != nil {
		r.links.Cut(l, zab.ReasonBadMessage, err.Error())
		return
	}
	r.inbox.push(Received{Link: l, Msgs: msgs})
}

// DecodeForwards puts a Forwarded in the place of each peer.Forward.
func DecodeForwards(msgs []peer.Message) error {
	for i, m := range msgs {
		f, ok := m.(*peer.Forward)
		if !ok {
			continue
		}
		req, err := znode.DecodeRequest(f.Request)
		if err != nil {
			return err
		}
		req.Ticket, req.Origin = nodeTicket(f.Ticket), nodeOrigin(f.Origin)
		msgs[i] = &Forwarded{Request: req}
	}
	return nil
}

// SnapshotStart opens the place where a snapshot that comes in is written.
func (r *Replica) SnapshotStart(l zab.Link, z zab.Zxid) (transport.SnapshotSink, error) {
	w, err := r.store.NewSnapshotWriter(z)
	if err != nil {
		r.pauseIfLow(err)
		return nil, err
	}
	r.log.Info().Uint64("from", uint64(l.Peer)).Str("zxid", z.String()).Msg("receiving a snapshot")
	return &sink{r: r, link: l, zxid: z, w: w}, nil
}

// pauseIfLow waits for lowDiskPause, or the end of Run, if the disk is why there is no snapshot.
func (r *Replica) pauseIfLow(err error) {
	if !errors.Is(err, store.ErrDiskLow) {
		return
	}
	select {
	case <-time.After(lowDiskPause):
	case <-r.ctx.Done():
	}
}

// Leave hands a leadership over and lets Run end: a leader waits for its successor as architecture 4.9 says, anybody
// else says goodbye at once. It returns when that is done or ctx ends.
func (r *Replica) Leave(ctx context.Context) {
	r.leave.Do(func() { r.inbox.push(Leave{}) })
	select {
	case <-r.left:
	case <-ctx.Done():
	case <-r.ctx.Done():
	}
	r.cancel(nil)
}
