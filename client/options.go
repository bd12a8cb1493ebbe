package client

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/rs/zerolog"
)

// Wire is what is spoken with the server.
type Wire int

// The wires. Both are served on the same port of zkserver; Apache ZooKeeper has the first only.
const (
	ZooKeeper Wire = iota
	GRPC
)

// String names the wire.
func (w Wire) String() string {
	if w == GRPC {
		return "grpc"
	}
	return "zookeeper"
}

// Options of a Client. The zero value of every field is its default.
type Options struct {
	// Wire to speak. Default ZooKeeper.
	Wire Wire

	// SessionTimeout wanted; the server moves it into its limits. Default 30 s.
	SessionTimeout time.Duration

	// ConnectTimeout of one attempt at one server, from the first packet to the session. Default: one second in the
	// first round over the servers, so that a frozen one is soon passed, twice that in the next, and so on, up to the
	// session timeout divided by the number of servers.
	ConnectTimeout time.Duration

	// BackoffMin is the longest first pause after all servers were tried in vain; it doubles with every further round,
	// up to BackoffMax. The pause is drawn evenly between half of that and all of it. Default 100 ms and 5 s (at most a
	// quarter of the session timeout). An established session sets it back.
	BackoffMin, BackoffMax time.Duration

	// KeepOrder tries the servers in the order given. Default: shuffled, which spreads the clients.
	KeepOrder bool

	// GiveUpAfter is how long, counted from the sending of the last request that was answered and never less than the
	// session's timeout, a session without an answer is thought of as possibly alive. Past it the client expires it by
	// itself. Default: never. While the servers were away nobody has counted against the session (a new leader gives
	// each its whole timeout), so only a server knows; what is held by the session ends much earlier, see HoldContext.
	GiveUpAfter time.Duration

	// Resume an existing session (ID and Password) instead of making one. It fails with ErrSessionExpired when the
	// session is gone.
	Resume Session

	// Auth is sent first on every connection.
	Auth []Auth

	// ReadOnly lets a server in read-only mode serve, one that is cut off from its quorum: reads are as old as the
	// cut, writes fail with ErrNotReadOnly. Default: only servers that take writes. A session made at such a server is
	// known there alone: the next connection makes another one, which owns nothing yet. The ZooKeeper wire only.
	ReadOnly bool

	// NoWait makes Dial return at once instead of waiting for the session.
	NoWait bool

	// FailFast makes calls fail with ErrConnectionLoss while there is no connection. Default: they wait for one.
	FailFast bool

	// MaxPending bounds the requests of this client that have no reply yet. Further calls wait for room, as long as
	// their context allows. Default 8192.
	MaxPending int

	// WatchRoom is how many events a PersistentWatch or an EventStream holds for its reader. Default 4096.
	WatchRoom int

	// MaxReply bounds one reply, in bytes. A larger one is thrown away while it arrives, its call fails with
	// ErrReplyTooLarge, and the connection goes on (on gRPC it is read whole first). Default 64 MiB.
	MaxReply int

	// DialContext connects to one resolved address. Default: TCP with keep-alive. For TLS return a finished tls.Conn.
	DialContext func(ctx context.Context, network, address string) (net.Conn, error)

	// LookupHost resolves a name at every attempt. Default: the system's resolver.
	LookupHost func(ctx context.Context, host string) ([]string, error)

	// Log gets connects, disconnects and the end of the session. Never data or credentials. Default: nowhere.
	Log zerolog.Logger
}

func (o Options) withDefaults() Options {
	o.SessionTimeout = cmp.Or(o.SessionTimeout, 30*time.Second)
	o.BackoffMax = cmp.Or(o.BackoffMax, max(100*time.Millisecond, min(5*time.Second, o.SessionTimeout/4)))
	o.BackoffMin = cmp.Or(o.BackoffMin, min(100*time.Millisecond, o.BackoffMax))
	o.MaxPending = cmp.Or(o.MaxPending, 8192)
	o.WatchRoom = cmp.Or(o.WatchRoom, 4096)
	o.MaxReply = cmp.Or(o.MaxReply, 64<<20)
	if o.DialContext == nil {
		o.DialContext = (&net.Dialer{}).DialContext
	}
	if o.LookupHost == nil {
		o.LookupHost = net.DefaultResolver.LookupHost
	}
	return o
}

// connectTimeout is that of an attempt after so many rounds over all servers in vain.
func (o Options) connectTimeout(servers, rounds int) time.Duration {
	if o.ConnectTimeout != 0 {
		return o.ConnectTimeout
	}
	limit := max(500*time.Millisecond, o.SessionTimeout/time.Duration(servers))
	return min(limit, time.Second<<min(rounds, 10))
}

// Validate reports everything that is wrong with the options at once, in one error.
func (o Options) Validate() error {
	var errs []error
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf("client: "+format, args...)) }
	if o.Wire != ZooKeeper && o.Wire != GRPC {
		bad("unknown wire %d", int(o.Wire))
	}
	if o.Wire == GRPC && o.ReadOnly {
		bad("read-only servers are served on the ZooKeeper wire only")
	}
	if o.SessionTimeout < 0 || o.SessionTimeout.Milliseconds() > 1<<31-1 {
		bad("session timeout %v is out of range", o.SessionTimeout)
	}
	if o.ConnectTimeout < 0 || o.BackoffMin < 0 || o.BackoffMax < 0 || o.GiveUpAfter < 0 {
		bad("negative duration")
	}
	if o.BackoffMax != 0 && o.BackoffMin > o.BackoffMax {
		bad("BackoffMin %v is above BackoffMax %v", o.BackoffMin, o.BackoffMax)
	}
	if o.MaxPending < 0 || o.MaxReply < 0 || o.WatchRoom < 0 {
		bad("negative limit")
	}
	if (o.Resume.ID == 0) != (len(o.Resume.Password) == 0) {
		bad("a session is resumed by its id and its password")
	}
	return errors.Join(errs...)
}
