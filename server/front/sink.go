package front

import (
	"net"
	"syscall"
	"time"
)

// sink is a socket as the session sees it. Where the platform has non-blocking writes (tryWrite), the flushers write
// without waiting.
type sink struct {
	nc  net.Conn
	raw syscall.RawConn // nil: only waiting writes

	// The arguments and results of try, which is made once so that a write allocates nothing.
	try func(fd uintptr) bool
	p   []byte
	n   int
	err error
}

func newSink(nc net.Conn) *sink {
	s := &sink{nc: nc}
	if sc, ok := nc.(syscall.Conn); ok && nonBlocking {
		if raw, err := sc.SyscallConn(); err == nil {
			s.raw = raw
			s.try = func(fd uintptr) bool {
				s.n, s.err = tryWrite(fd, s.p)
				return true
			}
		}
	}
	return s
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
