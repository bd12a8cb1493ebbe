package grpcfront

import (
	"context"
	"errors"
	"math"
	"net"
	"sync"
	"time"

	"github.com/rs/zerolog"
	"golang.org/x/sync/semaphore"
	"google.golang.org/grpc"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/reflection"

	zkv1 "github.com/zkserver/zkserver/proto/zk/v1"
)

// Of a connection. Windows are fixed, so that no bandwidth probing is done. A stream's window is also what one that is
// not read from may pile up here (times MaxStreams, of a connection).
const (
	streamWindow     = 256 << 10
	connectionWindow = 1 << 20
	writeBuffer      = 64 << 10

	aliveAfter   = 60 * time.Second // of silence the client's machine is asked whether it is there
	aliveTimeout = 20 * time.Second
	minKeepalive = 5 * time.Second // clients may ask no more often

	healthEvery = 200 * time.Millisecond
)

// Server serves the gRPC API.
type Server struct {
	zkv1.UnimplementedZooKeeperServiceServer

	opts    Options
	log     zerolog.Logger
	grpc    *grpc.Server
	health  *health.Server
	gateway *gateway
	room    *semaphore.Weighted // for the replies to unary calls

	mu      sync.Mutex
	stopped bool
	streams sync.WaitGroup // goroutines of streams
}

// New checks the options.
func New(o Options) (*Server, error) {
	o.withDefaults()
	if err := o.Validate(); err != nil {
		return nil, err
	}
	s := &Server{opts: o, log: o.Log.With().Str("part", "grpc").Logger(), health: health.NewServer(), room: semaphore.NewWeighted(allRoom)}
	s.gateway = newGateway(&s.opts)
	s.grpc = grpc.NewServer(
		grpc.ForceServerCodecV2(newCodec()),
		grpc.MaxRecvMsgSize(o.MaxBuffer+messageRoom),
		grpc.MaxSendMsgSize(math.MaxInt32),
		grpc.MaxConcurrentStreams(uint32(o.MaxStreams)),
		grpc.MaxHeaderListSize(maxHeaders),
		grpc.InitialWindowSize(streamWindow), grpc.InitialConnWindowSize(connectionWindow),
		grpc.WriteBufferSize(writeBuffer),
		grpc.WaitForHandlers(true),
		grpc.InTapHandle(s.within),
		grpc.UnaryInterceptor(s.account), grpc.StreamInterceptor(stay),
		grpc.ConnectionTimeout(o.Handshake),
		grpc.KeepaliveParams(keepalive.ServerParameters{Time: aliveAfter, Timeout: aliveTimeout}),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: minKeepalive, PermitWithoutStream: true}),
	)
	zkv1.RegisterZooKeeperServiceServer(s.grpc, s)
	healthpb.RegisterHealthServer(s.grpc, s.health)
	if !o.NoReflection {
		reflection.Register(s.grpc)
	}
	return s, nil
}

// Run serves until ctx ends; it ends all connections and waits for them. The hub closes the sessions' connections.
func (s *Server) Run(ctx context.Context) error {
	var wg sync.WaitGroup
	wg.Go(func() { s.watchHealth(ctx) }) // ends with ctx
	wg.Go(func() { s.gateway.run(ctx) }) // ends with ctx
	stop := context.AfterFunc(ctx, s.stop)
	err := s.grpc.Serve(links{s.opts.Listener, s.room})
	if stop() {
		s.stop() // the listener has ended first
	}
	<-ctx.Done()
	s.streams.Wait()
	wg.Wait()
	if errors.Is(err, net.ErrClosed) || errors.Is(err, grpc.ErrServerStopped) {
		return nil
	}
	return err
}

// stop ends all connections.
func (s *Server) stop() {
	s.mu.Lock()
	s.stopped = true
	s.mu.Unlock()
	s.health.Shutdown()
	s.grpc.Stop()
}

// begin counts a stream; false once the server stops.
func (s *Server) begin() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stopped {
		return false
	}
	s.streams.Add(1)
	return true
}

// watchHealth tells health checks whether the server serves: the whole of it and the service by its name.
func (s *Server) watchHealth(ctx context.Context) {
	tick := time.NewTicker(healthEvery)
	defer tick.Stop()
	for {
		st := healthpb.HealthCheckResponse_NOT_SERVING
		if s.opts.Hub.Serving() {
			st = healthpb.HealthCheckResponse_SERVING
		}
		s.health.SetServingStatus("", st)
		s.health.SetServingStatus(zkv1.ZooKeeperService_ServiceDesc.ServiceName, st)
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}
