package grpcfront

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/rs/zerolog"

	"github.com/zkserver/zkserver/server/session"
	"github.com/zkserver/zkserver/znode"
)

// Options of a Server. The zero value of a field is its default, where it has one.
type Options struct {
	Listener net.Listener  // of connections that begin with the HTTP/2 preface; Run closes it
	Hub      *session.Hub  // where the connections belong
	Tree     znode.Options // authentication of unary calls needs them

	MaxBuffer  int           // jute.maxbuffer: bytes of one command or unary request; default 0xfffff
	MinSession time.Duration // bounds of session timeouts; default 6 s and ten times the minimum
	MaxSession time.Duration
	Handshake  time.Duration // until a stream's Connect; default 10 s
	// CallTimeout is what a unary call may take, and as long its client may take to read the reply; default 60 s.
	CallTimeout time.Duration
	MaxStreams  int // concurrent streams of one connection, unary calls included; default 256

	NoReflection bool // do not serve gRPC reflection
	Log          zerolog.Logger
}

// messageRoom is how much larger than one command a message may be: clients send several at once.
const messageRoom = 512 << 10

func (o *Options) withDefaults() {
	o.MaxBuffer = cmp.Or(o.MaxBuffer, 0xfffff)
	o.MinSession = cmp.Or(o.MinSession, 6*time.Second)
	o.MaxSession = cmp.Or(o.MaxSession, 10*o.MinSession)
	o.Handshake = cmp.Or(o.Handshake, 10*time.Second)
	o.CallTimeout = cmp.Or(o.CallTimeout, 60*time.Second)
	o.MaxStreams = cmp.Or(o.MaxStreams, 256)
}

// Validate reports every fault at once.
func (o *Options) Validate() error {
	var errs []error
	if o.Hub == nil {
		errs = append(errs, errors.New("grpcfront: Hub is missing"))
	}
	if o.Listener == nil {
		errs = append(errs, errors.New("grpcfront: Listener is missing"))
	}
	if o.MaxBuffer < 0 || o.MaxBuffer > 1<<30 {
		errs = append(errs, fmt.Errorf("grpcfront: MaxBuffer is %d", o.MaxBuffer))
	}
	if o.MinSession < 0 || o.MaxSession < o.MinSession || o.MaxSession > (1<<31-1)*time.Millisecond {
		errs = append(errs, fmt.Errorf("grpcfront: session timeouts from %v to %v", o.MinSession, o.MaxSession))
	}
	if o.Handshake < 0 || o.CallTimeout < 0 || o.MaxStreams < 0 {
		errs = append(errs, errors.New("grpcfront: negative limit"))
	}
	return errors.Join(errs...)
}

// clamp moves a timeout that a client wants into the limits, in ms.
func (o *Options) clamp(ms int32) int32 {
	return int32(min(max(int64(ms), o.MinSession.Milliseconds()), o.MaxSession.Milliseconds()))
}
