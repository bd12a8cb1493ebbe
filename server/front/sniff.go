package front

import (
	"context"
	"io"
	"net"
	"net/netip"
	"sync"
	"time"
)

// serve tells a connection apart by its first four bytes (wire-protocol 1.1) and serves it to its end.
func (f *Front) serve(ctx context.Context, nc net.Conn, ip netip.Addr) {
	handed := false
	defer func() {
		if !handed {
			_ = nc.Close() // it may be closed already
			f.forget(nc, ip)
		}
	}()
	_ = nc.SetReadDeadline(time.Now().Add(f.opts.Handshake)) // an error shows at the read
	var first [4]byte
	if _, err := io.ReadFull(nc, first[:]); err != nil {
		return
	}
	word := string(first[:])
	switch {
	case word == "PRI ":
		if !f.grpcUsed.Load() {
			f.complain(ip, "gRPC", "a gRPC connection, which is not served here")
			return
		}
		_ = nc.SetReadDeadline(time.Time{})
		f.handOver(nc) // gRPC's server closes it from now on
		pc := &prefixConn{Conn: nc, prefix: first[:], onClose: func() { f.forget(nc, ip) }}
		if handed = f.grpc.hand(ctx, pc); !handed {
			_ = pc.Conn.Close()
		}
	case first[0] == 0x16 && first[1] == 0x03:
		f.complain(ip, "TLS", "a TLS hello, but TLS is not configured on this port")
	case word == "GET " || word == "HEAD" || word == "POST" || word == "PUT ":
		f.complain(ip, "HTTP", "an HTTP request; this is the client port of a ZooKeeper server")
		f.answerHTTP(nc)
	case knownWords[word] != nil:
		f.fourLetter(nc, word)
	default:
		handed = true // the session ends it
		f.serveZK(ctx, nc, ip, first[:])
	}
}

// complain logs once in a while what does not belong on this port.
func (f *Front) complain(ip netip.Addr, kind, what string) {
	if f.noise.allow(kind) {
		f.log.Warn().Str("client", ip.String()).Str("what", what).Msg("refused a connection")
	}
}

func (f *Front) answerHTTP(nc net.Conn) {
	body := "This is the client port of a ZooKeeper server (" + nc.LocalAddr().String() + "); it does not speak HTTP.\n"
	_ = nc.SetWriteDeadline(time.Now().Add(time.Second))
	_, err := io.WriteString(nc, "HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain; charset=utf-8\r\nConnection: close\r\n\r\n"+body)
	if err == nil {
		linger(nc, lingerTime)
	}
}

// How long a connection that the server ends is kept for what the client still sends.
const (
	lingerTime     = 500 * time.Millisecond
	lingerShutdown = 50 * time.Millisecond
)

// linger ends a connection in order: what was sent arrives, because what the client still sends is read and thrown
// away for a moment (a socket closed with bytes unread resets the connection). The caller closes.
func linger(nc net.Conn, d time.Duration) {
	cw, ok := nc.(interface{ CloseWrite() error })
	if !ok || cw.CloseWrite() != nil {
		return
	}
	_ = nc.SetReadDeadline(time.Now().Add(d))
	_, _ = io.CopyN(io.Discard, nc, 4<<20) // ends at the client's close, the deadline or the bound
}

// prefixConn gives back the bytes that were read to tell the protocol.
type prefixConn struct {
	net.Conn
	prefix  []byte
	once    sync.Once
	onClose func()
}

func (c *prefixConn) Read(p []byte) (int, error) {
	if len(c.prefix) > 0 {
		n := copy(p, c.prefix)
		c.prefix = c.prefix[n:]
		return n, nil
	}
	return c.Conn.Read(p)
}

func (c *prefixConn) Close() error {
	err := c.Conn.Close()
	c.once.Do(c.onClose)
	return err
}

// connListener is a net.Listener of connections that are handed to it.
type connListener struct {
	addr   net.Addr
	conns  chan net.Conn
	closed chan struct{}
	once   sync.Once
}

func newConnListener(addr net.Addr) *connListener {
	return &connListener{addr: addr, conns: make(chan net.Conn), closed: make(chan struct{})}
}

// hand gives a connection to whoever accepts; false, and the connection stays the caller's, if nobody does any more.
func (l *connListener) hand(ctx context.Context, nc net.Conn) bool {
	select {
	case l.conns <- nc:
		return true
	case <-l.closed:
	case <-ctx.Done():
	}
	return false
}

// Accept implements net.Listener.
func (l *connListener) Accept() (net.Conn, error) {
	select {
	case nc := <-l.conns:
		return nc, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

// Close implements net.Listener.
func (l *connListener) Close() error {
	l.once.Do(func() { close(l.closed) })
	return nil
}

// Addr implements net.Listener.
func (l *connListener) Addr() net.Addr { return l.addr }
