package server

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/rs/zerolog"
)

// Between two tries to find out the address of a name.
const (
	resolveSoon  = 50 * time.Millisecond
	resolveLater = 2 * time.Second
)

// listenQuorum takes the quorum port of this server's own line. A name that has no address yet, as that of a container
// which is published only once it runs, is waited for: meanwhile the server reaches the others by itself as far as its
// side of each pair dials. Any other fault is one at once.
func (s *Server) listenQuorum() (net.Listener, error) {
	host, port, err := net.SplitHostPort(s.cfg.Self().Quorum[0])
	if err != nil {
		return nil, err
	}
	if s.cfg.QuorumListenAll {
		host = ""
	}
	addr := net.JoinHostPort(host, port)
	l, err := net.Listen("tcp", addr)
	if err == nil {
		return l, nil
	}
	if !unresolved(err) {
		return nil, fmt.Errorf("listening on the quorum port: %w", err)
	}
	s.log.Warn().Str("address", addr).Err(err).Msg("the quorum port has no address yet: trying again until it does")
	late := &lateListener{addr: addr, log: s.log}
	late.ctx, late.cancel = context.WithCancel(context.Background())
	return late, nil
}

func unresolved(err error) bool {
	var dns *net.DNSError
	return errors.As(err, &dns)
}

// lateListener listens once its name has an address.
type lateListener struct {
	addr   string
	log    zerolog.Logger
	ctx    context.Context // ends with Close
	cancel context.CancelFunc

	mu sync.Mutex
	l  net.Listener
}

// Accept waits for the address, then for a connection. One goroutine at a time calls it.
func (x *lateListener) Accept() (net.Conn, error) {
	for wait := resolveSoon; ; wait = min(2*wait, resolveLater) {
		x.mu.Lock()
		l := x.l
		x.mu.Unlock()
		if l != nil {
			return l.Accept()
		}
		l, err := new(net.ListenConfig).Listen(x.ctx, "tcp", x.addr)
		switch {
		case x.ctx.Err() != nil && err != nil:
			return nil, net.ErrClosed
		case err == nil:
			x.mu.Lock()
			x.l = l
			closed := x.ctx.Err() != nil
			x.mu.Unlock()
			if closed {
				return nil, errors.Join(net.ErrClosed, l.Close())
			}
			x.log.Info().Stringer("address", l.Addr()).Msg("the quorum port has its address")
			continue
		case !unresolved(err):
			return nil, err
		}
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
		case <-x.ctx.Done():
			timer.Stop()
			return nil, net.ErrClosed
		}
	}
}

// Close ends both waits.
func (x *lateListener) Close() error {
	x.cancel()
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.l != nil {
		return x.l.Close()
	}
	return nil
}

// Addr is the name, until there is an address.
func (x *lateListener) Addr() net.Addr {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.l != nil {
		return x.l.Addr()
	}
	return name(x.addr)
}

// name is an address that is not resolved.
type name string

// Network is tcp.
func (name) Network() string { return "tcp" }

func (n name) String() string { return string(n) }
