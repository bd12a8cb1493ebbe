package front

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net"
	"net/netip"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"

	"github.com/zkserver/zkserver/server/session"
)

// Front serves the client port.
type Front struct {
	opts       Options
	hub        *session.Hub
	log        zerolog.Logger
	words      map[string]bool // the whitelist
	listeners  []net.Listener
	grpc       *connListener
	grpcUsed   atomic.Bool
	rejected   atomic.Int64 // connections over a limit
	room       int          // connections that the limit of open files leaves room for; 0: no such limit is known
	traceMask  atomic.Int64 // stmk, gtmk: kept, of no effect
	authFailed atomic.Int64
	started    time.Time
	noise      limiter
	buffers    readPool
	scratches  sync.Pool

	mu     sync.Mutex
	conns  map[net.Conn]struct{} // open, and not handed to gRPC or a session
	perIP  map[netip.Addr]int
	total  int
	closed bool
	wg     sync.WaitGroup // goroutines of connections
}

// New checks the options and listens.
func New(o Options) (*Front, error) {
	o.withDefaults()
	if err := o.Validate(); err != nil {
		return nil, err
	}
	f := &Front{
		opts: o, hub: o.Hub, log: o.Log.With().Str("part", "front").Logger(), listeners: o.Listeners,
		conns: map[net.Conn]struct{}{}, perIP: map[netip.Addr]int{},
	}
	f.started = time.Now()
	f.scratches.New = func() any { return new(scratch) }
	f.traceMask.Store(306) // Java's default
	f.words = whitelist(o.Whitelist)
	if len(f.listeners) == 0 {
		for _, addr := range o.Addrs {
			l, err := net.Listen("tcp", addr)
			if err != nil {
				for _, l := range f.listeners {
					_ = l.Close() // the first error is the one to tell
				}
				return nil, fmt.Errorf("front: listening on the client port: %w", err)
			}
			f.listeners = append(f.listeners, l)
		}
	}
	f.grpc = newConnListener(f.listeners[0].Addr())
	if _, limit, ok := fileDescriptors(); ok {
		f.room = clientRoom(limit)
	}
	return f, nil
}

// Addrs are the addresses listened on.
func (f *Front) Addrs() []net.Addr {
	var out []net.Addr
	for _, l := range f.listeners {
		out = append(out, l.Addr())
	}
	return out
}

// GRPCListener accepts the connections that begin with the HTTP/2 preface. Unless it is asked for before Run, those are
// closed. Whoever accepts a connection closes it.
func (f *Front) GRPCListener() net.Listener {
	f.grpcUsed.Store(true)
	return f.grpc
}

// Run accepts and serves until ctx ends; it closes its listeners and connections and waits for them.
func (f *Front) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stop := context.AfterFunc(ctx, f.close)
	defer stop()
	var accepting sync.WaitGroup
	errs := make(chan error, len(f.listeners))
	for _, l := range f.listeners {
		accepting.Go(func() { // ends when the listener is closed
			if err := f.accept(ctx, l); err != nil {
				errs <- err
				cancel()
			}
		})
	}
	accepting.Wait()
	f.close()
	f.wg.Wait()
	close(errs)
	return <-errs
}

func (f *Front) close() {
	for _, l := range f.listeners {
		_ = l.Close() // ends accept
	}
	_ = f.grpc.Close()
	f.mu.Lock()
	f.closed = true
	for nc := range f.conns {
		_ = nc.Close() // ends its goroutine
	}
	f.mu.Unlock()
	f.hub.CloseAll(session.ReasonShutdown) // ends the others'
}

func (f *Front) accept(ctx context.Context, l net.Listener) error {
	pause := 5 * time.Millisecond
	for {
		nc, err := l.Accept()
		if err != nil {
			if ctx.Err() != nil || errors.Is(err, net.ErrClosed) {
				return nil
			}
			// Out of file descriptors, or a connection that was reset before it was accepted: go on in a moment.
			if f.noise.allow("accept") {
				f.log.Warn().Err(err).Msg("accept failed")
			}
			select {
			case <-time.After(pause):
			case <-ctx.Done():
				return nil
			}
			pause = min(2*pause, time.Second)
			continue
		}
		pause = 5 * time.Millisecond
		ip, ok := f.admit(nc)
		if !ok {
			_ = nc.Close() // nothing is sent, as Java
			continue
		}
		f.wg.Go(func() { // ends when the connection does
			f.serve(ctx, nc, ip)
		})
	}
}

// admit counts a connection, or refuses it for the limits.
func (f *Front) admit(nc net.Conn) (netip.Addr, bool) {
	ip := remoteIP(nc)
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed {
		return ip, false
	}
	if f.opts.MaxConns > 0 && f.total >= f.opts.MaxConns {
		f.refuse("maxCnxns", ip, f.opts.MaxConns)
		return ip, false
	}
	if f.room > 0 && f.total >= f.room {
		f.refuse("open files of the process, less what the server itself needs", ip, f.room)
		return ip, false
	}
	if n := f.opts.MaxClientConns; n > 0 && f.perIP[ip] >= n {
		f.refuse("maxClientCnxns", ip, n)
		return ip, false
	}
	f.conns[nc] = struct{}{}
	f.perIP[ip]++
	f.total++
	return ip, true
}

// ownFiles are the open files that clients leave to the server: without one for its log it would have to stop, without
// one for a link it would lose its peers.
const ownFiles = 256

// clientRoom is how many connections of clients a limit of open files leaves room for: of a small one, half.
func clientRoom(limit uint64) int { return int(min(limit-min(ownFiles, limit/2), math.MaxInt32)) }

func (f *Front) refuse(limit string, ip netip.Addr, n int) {
	f.rejected.Add(1)
	if f.noise.allow(limit) {
		f.log.Warn().Str("limit", limit).Int("value", n).Str("client", ip.String()).Msg("too many connections; closed one")
	}
}

// handOver takes a connection out of those that close ends; false if close has been.
func (f *Front) handOver(nc net.Conn) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.conns, nc)
	return !f.closed
}

// forget ends the counting of a connection.
func (f *Front) forget(nc net.Conn, ip netip.Addr) {
	f.mu.Lock()
	delete(f.conns, nc)
	if f.perIP[ip]--; f.perIP[ip] <= 0 {
		delete(f.perIP, ip)
	}
	f.total--
	f.mu.Unlock()
}

func remoteIP(nc net.Conn) netip.Addr {
	if a, ok := nc.RemoteAddr().(*net.TCPAddr); ok {
		return a.AddrPort().Addr().Unmap().WithZone("")
	}
	return netip.Addr{}
}

// ipText is an address as Java prints it, which is what ACLs and whoAmI show: IPv6 without "::" and leading zeros.
func ipText(ip netip.Addr) string {
	if !ip.Is6() {
		return ip.String()
	}
	b := ip.As16()
	var out []byte
	for i := 0; i < 16; i += 2 {
		if i > 0 {
			out = append(out, ':')
		}
		out = strconv.AppendUint(out, uint64(b[i])<<8|uint64(b[i+1]), 16)
	}
	return string(out)
}

// whitelist resolves a list of four-letter words.
func whitelist(list []string) map[string]bool {
	m := map[string]bool{"srvr": true} // zkServer.sh depends on it
	for _, w := range list {
		if w == "*" {
			for k := range knownWords {
				m[k] = true
			}
			return m
		}
		if _, known := knownWords[w]; known {
			m[w] = true
		}
	}
	return m
}

// limiter lets one log line of each kind through in ten seconds.
type limiter struct {
	mu   sync.Mutex
	last map[string]time.Time
}

func (l *limiter) allow(kind string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	if t, ok := l.last[kind]; ok && now.Sub(t) < 10*time.Second {
		return false
	}
	if l.last == nil {
		l.last = map[string]time.Time{}
	}
	l.last[kind] = now
	return true
}
