package transport

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/keepalive"

	zabv1 "github.com/zkserver/zkserver/proto/zab/v1"
	"github.com/zkserver/zkserver/server/peer"
	"github.com/zkserver/zkserver/zab"
)

// version of the protocol between servers. Another one is refused by name.
const version = 1

// Flow control. Fixed windows switch off gRPC's own probing; the bulk stream has a connection of its own.
const (
	streamWindow     = 4 << 20
	connectionWindow = 8 << 20
	keepaliveTime    = 10 * time.Second // the shortest that gRPC allows; the monitor is faster
)

var (
	// ErrStopped: the transport does not run.
	ErrStopped = errors.New("transport: stopped")
	// ErrLinkGone: the link that a snapshot belongs to has ended.
	ErrLinkGone = errors.New("transport: the link is gone")
)

// Transport holds the links of one server.
type Transport struct {
	opts    Options
	handler Handler
	origin  time.Time // of the monotonic clock
	peers   map[zab.ServerID]*remote
	ids     []zab.ServerID // ascending
	numbers atomic.Uint64  // incarnations drawn
	wg      sync.WaitGroup

	mu      sync.Mutex
	running bool
	done    chan struct{} // closed when Run is to end
}

// remote is a peer and its present link.
type remote struct {
	Peer
	admission sync.Mutex    // held while a new link takes the place of the old one
	kick      chan struct{} // heard of: dial now

	mu      sync.Mutex
	link    *link
	changed chan struct{} // closed and made anew when link changes
	said    string        // the last refusal that was logged
}

// New validates; it starts nothing.
func New(o Options, h Handler) (*Transport, error) {
	t := &Transport{opts: o.withDefaults(), handler: h, origin: time.Now(), peers: make(map[zab.ServerID]*remote), done: make(chan struct{})}
	var errs []error
	fault := func(format string, args ...any) { errs = append(errs, fmt.Errorf("transport: "+format, args...)) }
	if h == nil || o.Ensemble == nil {
		fault("handler and Ensemble are needed")
	}
	if o.Listener == nil && len(o.Peers) > 0 {
		fault("no listener")
	}
	if o.Self == 0 || o.Self > maxServerID {
		fault("server id %d is not in 1..%d", o.Self, maxServerID)
	}
	for _, p := range o.Peers {
		switch {
		case p.ID == 0 || p.ID > maxServerID || p.ID == o.Self || t.peers[p.ID] != nil:
			fault("peer id %d: not in 1..%d, or given twice", p.ID, maxServerID)
		case len(p.Addrs) == 0:
			fault("peer %d has no address", p.ID)
		}
		t.peers[p.ID] = &remote{Peer: p, kick: make(chan struct{}, 1), changed: make(chan struct{})}
		t.ids = append(t.ids, p.ID)
	}
	slices.Sort(t.ids)
	return t, errors.Join(errs...)
}

func (o Options) withDefaults() Options {
	for _, d := range []struct {
		v *time.Duration
		d time.Duration
	}{{&o.Silence, time.Second}, {&o.DialMin, 50 * time.Millisecond}, {&o.DialMax, time.Second}} {
		if *d.v <= 0 {
			*d.v = d.d
		}
	}
	if o.QueueSize <= 0 {
		o.QueueSize = 256 << 20
	}
	if o.ChunkSize <= 0 {
		o.ChunkSize = 256 << 10
	}
	o.Log = o.Log.With().Str("part", "transport").Logger()
	return o
}

// Run serves until ctx ends or the listener fails; everything it started has ended when it returns. It owns and
// closes the listener. A Transport runs once.
func (t *Transport) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	t.mu.Lock()
	t.running = true
	t.mu.Unlock()
	var server *grpc.Server
	var ln *listener
	failed := make(chan error, 1)
	if t.opts.Listener != nil {
		server = grpc.NewServer(t.serverOptions()...)
		zabv1.RegisterPeerServiceServer(server, &service{t: t})
		ln = &listener{Listener: t.opts.Listener, conns: make(map[*conn]struct{})}
		t.spawn(func() { failed <- server.Serve(ln) }) // ends with server.Stop
	}
	for _, id := range t.ids {
		p := t.peers[id]
		t.spawn(func() { t.seek(ctx, p) }) // ends with ctx
	}
	t.spawn(func() { t.monitor(ctx) }) // ends with ctx
	var err error
	select {
	case <-ctx.Done():
		err = ctx.Err()
	case err = <-failed:
		err = fmt.Errorf("transport: listener: %w", err)
	}
	t.stop()
	cancel()
	if server != nil {
		ln.closeAll()
		server.Stop() // waits for its handlers
	}
	t.wg.Wait()
	return err
}

// stop ends all links, each flushing what waits on it.
func (t *Transport) stop() {
	t.mu.Lock()
	t.running = false
	close(t.done)
	t.mu.Unlock()
	var ends []*link
	for _, id := range t.ids {
		if l := t.peers[id].current(); l != nil {
			l.cut(ending{reason: zab.ReasonStopping, tell: true})
			ends = append(ends, l)
		}
	}
	for _, l := range ends {
		<-l.over
	}
}

// spawn runs f in a goroutine that Run waits for.
func (t *Transport) spawn(f func()) {
	t.wg.Add(1)
	go func() {
		defer t.wg.Done()
		f()
	}()
}

func (t *Transport) serverOptions() []grpc.ServerOption {
	return []grpc.ServerOption{
		grpc.MaxRecvMsgSize(maxFrame),
		grpc.InitialWindowSize(streamWindow),
		grpc.InitialConnWindowSize(connectionWindow),
		grpc.MaxConcurrentStreams(16),
		grpc.ConnectionTimeout(5 * time.Second),
		grpc.KeepaliveParams(keepalive.ServerParameters{Time: keepaliveTime, Timeout: keepaliveTime / 2}),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: keepaliveTime / 2, PermitWithoutStream: true}),
		grpc.WaitForHandlers(true),
	}
}

// monitor asks every link for a sign of life and cuts the silent ones. A late beat is a pause of this process, not
// a silence of the others; a smaller lateness is read as such by a quarter, as in zab.
func (t *Transport) monitor(ctx context.Context) {
	beat := max(t.opts.Silence/4, time.Millisecond)
	ticker := time.NewTicker(beat)
	defer ticker.Stop()
	last := t.now()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		now := t.now()
		late := max(time.Duration(now-last)-beat, 0)
		last = now
		for _, id := range t.ids {
			l := t.peers[id].current()
			if l == nil {
				continue
			}
			if late > t.opts.Silence/2 {
				l.forgive(now)
			} else {
				l.heardAt.Add(int64(late) * 3 / 4)
			}
			l.watch(now)
		}
	}
}

// now is monotonic and never zero.
func (t *Transport) now() int64 { return int64(time.Since(t.origin)) + 1 }

func (t *Transport) envelope(to zab.ServerID, number uint64) *zabv1.Envelope {
	return &zabv1.Envelope{
		Ensemble: uint64(t.opts.Ensemble()), From: uint64(t.opts.Self), To: uint64(to),
		Instance: uint64(t.opts.Instance), Link: number,
	}
}

// lookup finds a link that is up.
func (t *Transport) lookup(l zab.Link) *link {
	if p := t.peers[l.Peer]; p != nil {
		if k := p.current(); k != nil && k.id == l {
			return k
		}
	}
	return nil
}

// Send queues messages for a link and never blocks. Their order is kept, except that of *election.Notification only
// the newest waits. Messages for a link that is gone are dropped. A link whose queue is over its limit is cut.
// The transport owns the messages from here on; their byte slices must not change any more.
func (t *Transport) Send(l zab.Link, msgs ...peer.Message) {
	if k := t.lookup(l); k != nil {
		k.push(msgs)
	}
}

// Cut closes a link after sending what waits on it and telling the peer why, where that can be told in short time.
// LinkDown follows.
func (t *Transport) Cut(l zab.Link, reason zab.Reason, detail string) {
	if k := t.lookup(l); k != nil {
		k.cut(ending{reason: reason, detail: detail, tell: true})
	}
}

// RTT is the round trip last measured on a link; zero when unknown.
func (t *Transport) RTT(l zab.Link) time.Duration {
	if k := t.lookup(l); k != nil {
		return time.Duration(k.rtt.Load())
	}
	return 0
}

func (p *remote) current() *link {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.link
}

// set makes l the peer's link (nil: none is left, if it was old).
func (p *remote) set(old, l *link) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.link == old {
		p.link = l
		close(p.changed)
		p.changed = make(chan struct{})
	}
}

// state is the present link and a channel that is closed when that changes.
func (p *remote) state() (*link, <-chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.link, p.changed
}

// news reports whether what is to be logged of a peer differs from what was.
func (p *remote) news(what string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	fresh := p.said != what
	p.said = what
	return fresh
}

// heard asks for a dial at once.
func (p *remote) heard() {
	select {
	case p.kick <- struct{}{}:
	default:
	}
}
