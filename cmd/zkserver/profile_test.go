package main

import (
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
)

func TestProfiler(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := l.Addr().String()
	if _, err := startProfiler(addr); err == nil || !strings.Contains(err.Error(), "--pprof") {
		t.Errorf("on a port in use: %v", err)
	}
	l.Close()
	p, err := startProfiler(addr)
	if err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{
		"goroutine?debug=1": "goroutine profile:", "heap?debug=1": "heap profile:", "block?debug=1": "cycles/second=",
		"mutex?debug=1": "mutex:", "allocs?debug=1": "heap profile:",
	} {
		r, err := http.Get("http://" + addr + "/debug/pprof/" + path)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(r.Body)
		r.Body.Close()
		if err != nil || !strings.Contains(string(body), want) {
			t.Errorf("%s: %v, %.80q", path, err, body)
		}
	}
	p.stop()
	http.DefaultClient.CloseIdleConnections()
	if _, err := net.Dial("tcp", addr); err == nil {
		t.Error("listens after its end")
	}
}
