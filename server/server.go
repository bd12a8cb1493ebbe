package server

import (
	"context"
	"errors"
	"fmt"
	"net"
	"runtime"
	"strconv"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/rs/zerolog"
	"golang.org/x/sync/errgroup"

	"github.com/zkserver/zkserver/server/config"
	"github.com/zkserver/zkserver/server/front"
	grpcfront "github.com/zkserver/zkserver/server/front/grpc"
	"github.com/zkserver/zkserver/server/replica"
	"github.com/zkserver/zkserver/server/session"
	"github.com/zkserver/zkserver/server/store"
	"github.com/zkserver/zkserver/server/transport"
	"github.com/zkserver/zkserver/zab"
	"github.com/zkserver/zkserver/znode"
)

// leaveLimit bounds the polite end: hand-over of a leadership, then the answers that clients still wait for.
const leaveLimit = 5 * time.Second

// faultLimit bounds how long Run goes on once something fatal is known: a disk that has failed or is full may hold up
// for ever whoever was at it.
const faultLimit = 5 * time.Second

// Options are what a configuration file does not say. The zero value is a server on the disk that logs nothing.
type Options struct {
	Log     zerolog.Logger
	FS      vfs.FS // default: the disk
	Version string // of this build, as srvr and mntr show it

	// Rebuild lets a server start whose state is gone for good (not merely unmounted): it takes a leader's snapshot,
	// and until then neither votes nor serves.
	Rebuild bool
}

// Server is one member of an ensemble, or an ensemble of one.
type Server struct {
	cfg       *config.Config
	log       zerolog.Logger
	hub       *session.Hub
	replica   *replica.Replica
	transport *transport.Transport // nil in an ensemble of one
	front     *front.Front
	grpc      *grpcfront.Server
	status    *status

	cancel context.CancelFunc // of Start
	done   chan error
}

// New validates everything, opens the store, rebuilds the tree and takes the ports; nothing runs yet. A Server that
// New returned must be run (Run or Start): that is what releases it.
func New(c *config.Config, o Options) (_ *Server, err error) {
	timing := c.Timing()
	tree := znode.Options{
		ExtendedTypes: c.ExtendedTypes, SkipACL: c.SkipACL, SuperDigest: c.SuperDigest, EnforceQuota: c.EnforceQuota,
		X509: c.X509, X509SuperUser: c.X509SuperUser, SASL: c.SASL, AnySASLUser: c.AnySASLUser,
	}
	s := &Server{
		cfg: c, log: o.Log.With().Uint64("server", uint64(c.ServerID)).Logger(),
		hub: session.NewHub(session.Options{
			Tree: tree, GlobalOutstanding: c.OutstandingLimit, EnforceSchemes: c.EnforceAuth, Ensemble: c.Ensemble, Log: o.Log,
		}),
	}
	var opened []func() error
	defer func() {
		if err != nil {
			for _, f := range opened {
				err = errors.Join(err, f())
			}
		}
	}()
	so := store.Options{
		DataDir: c.DataDir, LogDir: c.DataLogDir, FS: o.FS, Log: s.log, SlowSync: c.FsyncWarning, NoSync: !c.ForceSync,
		DiffCount: c.CommitLogCount, Rebuild: o.Rebuild,
	}
	ro := replica.Options{
		Self: c.ServerID, Members: c.Members(), Store: so, Tree: tree,
		Zab: zab.Options{
			InitLimit: timing.Init, SyncLimit: timing.Sync, SilenceLimit: timing.Silence,
			Heartbeat: timing.Heartbeat, Lease: timing.Lease,
		},
		MinSessionTimeout: c.MinSessionTimeout, Hub: s.hub, Log: s.log,
		Reap: replica.Reap{Interval: c.ReapInterval, NeverUsed: c.ReapNeverUsed, PerMinute: c.ReapPerMinute},
	}
	if !c.Standalone {
		ro.ConfigNode = []byte(c.MembershipText(0))
	}
	if s.replica, err = replica.New(ro); err != nil {
		return nil, fmt.Errorf("opening %s: %w", c.DataDir, err)
	}
	opened = append(opened, s.replica.Close)
	s.hub.Bind(s.replica)
	if len(c.Servers) > 1 {
		l, err := s.listenQuorum()
		if err != nil {
			return nil, err
		}
		opened = append(opened, l.Close)
		if s.transport, err = transport.New(s.transportOptions(l, timing), s.replica); err != nil {
			return nil, err
		}
		s.replica.Bind(s.transport)
	}
	s.status = &status{cfg: c, replica: s.replica, version: versionLine(o.Version)}
	s.front, err = front.New(front.Options{
		Addrs: []string{c.ClientAddr}, MaxBuffer: c.MaxBuffer, MaxClientConns: noLimit(c.MaxClientCnxns), MaxConns: c.MaxCnxns,
		MinSession: c.MinSessionTimeout, MaxSession: c.MaxSessionTimeout, Whitelist: c.FourLetterWords(),
		Hub: s.hub, Status: s.status, Log: s.log,
	})
	if err != nil {
		return nil, err
	}
	s.grpc, err = grpcfront.New(grpcfront.Options{
		Listener: s.front.GRPCListener(), Hub: s.hub, Tree: tree, MaxBuffer: c.MaxBuffer,
		MinSession: c.MinSessionTimeout, MaxSession: c.MaxSessionTimeout, Log: s.log,
	})
	if err != nil {
		return nil, err
	}
	return s, nil
}

// noLimit translates maxClientCnxns=0.
func noLimit(n int) int {
	if n == 0 {
		return -1
	}
	return n
}

func (s *Server) transportOptions(l net.Listener, t config.Timing) transport.Options {
	o := transport.Options{
		Self: s.cfg.ServerID, Instance: s.replica.Instance(), Process: s.replica.Process(), Ensemble: s.linkEnsemble,
		ConfigSum: zab.ConfigSum(s.cfg.Members()), Listener: l, Silence: t.Silence, Log: s.log,
	}
	for _, m := range s.cfg.Servers {
		if m.ID != s.cfg.ServerID {
			o.Peers = append(o.Peers, transport.Peer{ID: m.ID, Addrs: m.Quorum})
		}
	}
	return o
}

// linkEnsemble is the ensemble id that links are checked by: none while there is no transaction, because such a
// directory is let in as a blank whatever its id (interleavings 10b). Asked for each frame that comes and goes.
func (s *Server) linkEnsemble() zab.ID {
	if s.replica.Last() == 0 {
		return 0
	}
	return s.replica.Ensemble()
}

// ClientAddrs are the addresses on which clients are served.
func (s *Server) ClientAddrs() []net.Addr { return s.front.Addrs() }

// Run serves until ctx ends or something fatal happens. When ctx ends it hands a leadership over, lets what is in
// flight finish, for at most five seconds in all, and returns nil. A fatal fault is returned when everything has ended,
// five seconds later at the latest: what does not end by then is left, with its files locked, and the process is to exit.
func (s *Server) Run(ctx context.Context) error {
	s.log.Info().Str("clients", s.cfg.ClientAddr).Int("servers", len(s.cfg.Servers)).Str("dir", s.cfg.DataDir).Msg("starting")
	run, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	g, run := errgroup.WithContext(run)
	replicaDone := make(chan struct{})
	fault := make(chan error, 1) // the first
	part := func(f func() error) {
		g.Go(func() error {
			err := f()
			if err != nil && !errors.Is(err, context.Canceled) {
				select {
				case fault <- err:
				default:
				}
			}
			return err
		})
	}
	part(func() error { // ends after Leave, or at the first fatal fault; everything else ends with it
		defer cancel()
		defer close(replicaDone)
		return s.replica.Run(run)
	})
	if s.transport != nil {
		part(func() error { return s.transport.Run(run) }) // ends with run
	}
	part(func() error { return s.hub.Run(run) })   // ends with run
	part(func() error { return s.grpc.Run(run) })  // ends with run
	part(func() error { return s.front.Run(run) }) // ends with run
	part(func() error {                            // ends when the replica has ended
		select {
		case <-ctx.Done():
		case <-replicaDone:
			return nil
		}
		s.log.Info().Msg("stopping")
		limit, stop := context.WithTimeout(run, leaveLimit)
		defer stop()
		s.replica.Leave(limit)
		return nil
	})
	ended := make(chan struct{})
	var all error
	go func() { // ends with all parts, after a fault perhaps never
		defer close(ended)
		all = g.Wait()
	}()
	left, err := outcome(ended, fault, s.replica.Fault(), cancel, faultLimit)
	if err == nil {
		err = all
	}
	switch {
	case left:
		s.log.Error().Err(err).Dur("waited", faultLimit).Msg("fatal: this server stops, and leaves what does not end")
	case err == nil || errors.Is(err, context.Canceled):
		s.log.Info().Msg("stopped")
		return nil
	}
	return err
}

// outcome waits for the end of all parts. Once a fault of one of them, or of the storage, is known, it cancels the others
// and waits no longer than limit; left tells that it was in vain. Without a fault everything has ended.
func outcome(ended <-chan struct{}, part, storage <-chan error, cancel func(), limit time.Duration) (left bool, err error) {
	select {
	case <-ended:
		return false, nil
	case err = <-part:
	case err = <-storage:
	}
	cancel()
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-ended:
		return false, err
	case <-timer.C:
		return true, err
	}
}

// Start runs the server in the background, for programs that embed it; Close ends it.
func (s *Server) Start() {
	ctx, cancel := context.WithCancel(context.Background())
	s.cancel, s.done = cancel, make(chan error, 1)
	go func() { s.done <- s.Run(ctx) }() // ends with Close, or at a fatal fault
}

// Close stops what Start started, waits for its end and returns its fault, if it had one.
func (s *Server) Close() error {
	s.cancel()
	return <-s.done
}

// versionLine has the form that every reader of srvr and mntr expects: the version, then "built on" and a date.
func versionLine(v string) string {
	if v == "" {
		v = "devel"
	}
	return "3.9.5-zkserver-" + v + ", built on " + buildDate + " UTC"
}

// buildDate is the date of the release that this version follows; the form is what parsers need.
const buildDate = "2026-11-30 00:00"

// runtimeLines are the Go runtime's part of mntr.
func runtimeLines(line func(key, value string)) {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	line("go_heap_bytes", strconv.FormatUint(m.HeapAlloc, 10))
	line("go_goroutines", strconv.Itoa(runtime.NumGoroutine()))
	line("go_gc_count", strconv.FormatUint(uint64(m.NumGC), 10))
}
