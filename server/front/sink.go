package front

import (
	"net"
	"syscall"
	"time"
)

// socket is a client's connection, with access to it that does not wait where the platform has that.
type socket struct {
	nc  net.Conn
	raw syscall.RawConn // nil: only calls that wait
}

func newSocket(nc net.Conn) socket {
	s := socket{nc: nc}
	if sc, ok := nc.(syscall.Conn); ok && nonBlocking {
		if raw, err := sc.SyscallConn(); err == nil {
			s.raw = raw
		}
	}
	return s
}

// sink is a socket as the session sees it.
type sink struct {
	*socket

	// The arguments and results of try, which is made once so that a write allocates nothing.
	try func(fd uintptr) bool
	p   []byte
	n   int
	err error
}

func (s *sink) init(so *socket) {
	s.socket, s.try = so, s.tryWrite
}

func (s *sink) tryWrite(fd uintptr) bool {
	s.n, s.err = tryWrite(fd, s.p)
	return true
}

// TryWrite implements session.Sink.
func (s *sink) TryWrite(b []byte) (int, error) {
	if s.raw == nil {
		return 0, nil
	}
	s.p, s.n, s.err = b, 0, nil
	err := s.raw.Write(s.try)
	s.p = nil
	if err != nil {
		return 0, err
	}
	return s.n, s.err
}

// Write implements session.Sink.
func (s *sink) Write(b []byte) (int, error) { return s.nc.Write(b) }

// Close implements session.Sink: what was written arrives, waiting calls end. The socket itself is closed by the
// connection's goroutine, after linger.
func (s *sink) Close() error {
	err := error(nil)
	if cw, ok := s.nc.(interface{ CloseWrite() error }); ok {
		err = cw.CloseWrite()
	}
	if e := s.nc.SetDeadline(time.Unix(1, 0)); err == nil {
		err = e
	}
	return err
}
