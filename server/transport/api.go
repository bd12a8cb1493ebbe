package transport

import (
	"net"
	"time"

	"github.com/rs/zerolog"

	"github.com/zkserver/zkserver/server/peer"
	"github.com/zkserver/zkserver/zab"
)

// Peer is another server of the ensemble.
type Peer struct {
	ID    zab.ServerID
	Addrs []string // host:port of its quorum port, the first preferred; resolved anew at every dial
}

// Options of a Transport; zero durations and sizes take the defaults in brackets.
type Options struct {
	Self     zab.ServerID
	Instance zab.ID // of the data directory
	Process  zab.ID // of this process; drawn at each start
	// Ensemble is the identity by which strangers are told: two servers with different ones have no link. Zero while
	// blank, and also while the data directory holds no transaction: such a server is taken in as a blank would be
	// (interleavings 10b). Called from any goroutine.
	Ensemble func() zab.ID
	// ConfigSum is the hash of the voter list; a peer with another one is refused by name.
	ConfigSum uint64
	Peers     []Peer // without Self
	Listener  net.Listener
	Silence   time.Duration // a link silent for so long holds its server id no more; for twice as long, it is cut [1 s]
	DialMin   time.Duration // first pause between dials, doubled up to DialMax [50 ms]
	DialMax   time.Duration // [1 s]
	QueueSize int           // bytes that may wait on one link behind the next message; above, it is cut [256 MiB]
	ChunkSize int           // bytes of one snapshot chunk [256 KiB]
	Log       zerolog.Logger
}

// Handler is told what happens on the links. Its methods are called from the transport's goroutines and must not
// block for long; calls for one link are in order: LinkUp, then Messages, then LinkDown, each pair exactly once.
type Handler interface {
	// LinkUp: both sides have said who they are. rtt is the round trip measured by its handshake.
	LinkUp(l zab.Link, rtt time.Duration)
	// LinkDown: the link is gone. refused tells that the peer's process is known to be down: the connection was
	// reset or closed by its end, or the next dial was refused.
	LinkDown(l zab.Link, refused bool)
	// Messages hands over what one frame carried, in the order sent. The handler owns the slice and the values.
	Messages(l zab.Link, msgs []peer.Message)
	// DialFailed: no link could be made. refused as for LinkDown: a dial that was refused or reset, not one that
	// timed out or whose name did not resolve.
	DialFailed(p zab.ServerID, refused bool)
	// SnapshotStart asks for the place where a snapshot that comes in on a link's bulk stream is written.
	SnapshotStart(l zab.Link, z zab.Zxid) (SnapshotSink, error)
}

// SnapshotSink takes a snapshot that arrives. Exactly one of Finish and Abort is called, last.
type SnapshotSink interface {
	// Write takes the next chunk; its checksum and offset have been checked. The chunk is the sink's to keep.
	Write(chunk []byte) error
	// Finish: everything has arrived and the total is right. An error tells the sender that it failed.
	Finish() error
	// Abort: the stream was cut, a check failed, or Write did. Nothing of it may be used.
	Abort(err error)
}

// SnapshotSource is a snapshot to send. Close is called once, after the last Next.
type SnapshotSource interface {
	Zxid() zab.Zxid
	// Next returns at most about limit bytes; done tells that nothing follows this chunk (which may be empty).
	Next(limit int) (chunk []byte, done bool, err error)
	Close() error
}
