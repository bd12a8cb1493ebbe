package main

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/pprof"
	"net/netip"
	"runtime"
	"time"
)

// What the block and mutex profiles take down while profiles are served: often enough to see what waits, seldom enough
// not to be seen in the CPU profile.
const (
	blockProfileRate  = 100 * time.Microsecond
	mutexProfileShare = 100
)

// profiler serves the profiles of this process over HTTP, until stop.
type profiler struct {
	http *http.Server
	done chan struct{}
}

// startProfiler listens on addr, which must name a port of the loopback: profiles tell what clients store.
func startProfiler(addr string) (*profiler, error) {
	at, err := netip.ParseAddrPort(addr)
	if err != nil || !at.Addr().IsLoopback() {
		return nil, usageError{fmt.Errorf("--pprof=%s: want an address of the loopback with a port, such as 127.0.0.1:6060", addr)}
	}
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("--pprof: %w", err)
	}
	runtime.SetBlockProfileRate(int(blockProfileRate))
	runtime.SetMutexProfileFraction(mutexProfileShare)
	mux := http.NewServeMux()
	mux.HandleFunc("/debug/pprof/", pprof.Index)
	mux.HandleFunc("/debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("/debug/pprof/trace", pprof.Trace)
	p := &profiler{http: &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second}, done: make(chan struct{})}
	go func() {
		defer close(p.done)
		_ = p.http.Serve(l) // ErrServerClosed
	}()
	return p, nil
}

func (p *profiler) stop() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	if p.http.Shutdown(ctx) != nil { // a profile is still being taken
		_ = p.http.Close()
	}
	<-p.done
}
