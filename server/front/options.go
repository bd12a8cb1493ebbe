package front

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/rs/zerolog"

	"github.com/zkserver/zkserver/proto/jute"
	"github.com/zkserver/zkserver/server/session"
)

// maxBufferLimit: lengths from here on cannot be told from a TLS record or an ASCII word (wire-protocol 1.1).
const maxBufferLimit = 0x16030000

// Options of a Front.
type Options struct {
	// Listeners are served and closed by Run. If there are none, Addrs are listened on in New.
	Listeners []net.Listener
	Addrs     []string // host:port, from clientPort and clientPortAddress

	MaxBuffer      int           // jute.maxbuffer, bytes of a request frame; default 0xfffff
	MaxClientConns int           // connections an address; default 60, negative: no limit
	MaxConns       int           // connections in all; 0: no limit
	MinSession     time.Duration // bounds of session timeouts; default 6 s and 60 s
	MaxSession     time.Duration
	Handshake      time.Duration // until the first complete frame or word; default 10 s

	// Whitelist are the four-letter words that are answered; nil: the default (srvr, ruok, mntr, stat, conf, isro,
	// envi, dirs). "*" is all of them. srvr is always answered.
	Whitelist []string

	Hub    *session.Hub
	Status Status
	Log    zerolog.Logger
}

var defaultWhitelist = []string{"srvr", "ruok", "mntr", "stat", "conf", "isro", "envi", "dirs"}

func (o *Options) withDefaults() {
	o.MaxBuffer = cmp.Or(o.MaxBuffer, jute.DefaultMaxBuffer)
	o.MaxClientConns = cmp.Or(o.MaxClientConns, 60)
	o.MinSession = cmp.Or(o.MinSession, 6*time.Second)
	o.MaxSession = cmp.Or(o.MaxSession, 10*o.MinSession)
	o.Handshake = cmp.Or(o.Handshake, 10*time.Second)
	if o.Whitelist == nil {
		o.Whitelist = defaultWhitelist
	}
}

// Validate reports every fault at once.
func (o *Options) Validate() error {
	var errs []error
	if o.Hub == nil {
		errs = append(errs, errors.New("front: Hub is missing"))
	}
	if o.Status == nil {
		errs = append(errs, errors.New("front: Status is missing"))
	}
	if len(o.Listeners) == 0 && len(o.Addrs) == 0 {
		errs = append(errs, errors.New("front: nothing to listen on"))
	}
	if o.MaxBuffer < 0 || o.MaxBuffer >= maxBufferLimit {
		errs = append(errs, fmt.Errorf("front: jute.maxbuffer is %d, allowed are 1 to %d: longer lengths cannot be told from TLS and HTTP", o.MaxBuffer, maxBufferLimit-1))
	}
	if o.MinSession < 0 || o.MaxSession < o.MinSession || o.MaxSession > (1<<31-1)*time.Millisecond {
		errs = append(errs, fmt.Errorf("front: session timeouts from %v to %v", o.MinSession, o.MaxSession))
	}
	if o.MaxConns < 0 {
		errs = append(errs, fmt.Errorf("front: maxCnxns is %d", o.MaxConns))
	}
	return errors.Join(errs...)
}
