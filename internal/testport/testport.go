// Package testport finds ports for tests that start servers by configuration, where a port cannot be left to the system.
// It is imported by tests only.
package testport

import (
	"net"
	"os"
	"strconv"
	"testing"
)

// Ports below those that Linux gives to outgoing connections (32768) come in blocks of size; the first of a block is
// listened on as long as a test holds it, so that no other test, of this process or another, takes the same.
const (
	lowest = 10000
	blocks = 700
	size   = 32
)

// Reserve returns n ports of 127.0.0.1 on which nothing listens and which no other test is given before this one ends.
func Reserve(t testing.TB, n int) []int {
	t.Helper()
	if n >= size {
		t.Fatalf("testport: %d ports asked for, a block has %d", n, size-1)
	}
	for i := range blocks {
		first := lowest + (os.Getpid()*7+i)%blocks*size
		held, err := listen(first)
		if err != nil {
			continue
		}
		var ports []int
		for p := first + 1; p < first+size && len(ports) < n; p++ {
			if l, err := listen(p); err == nil && l.Close() == nil {
				ports = append(ports, p)
			}
		}
		if len(ports) == n {
			t.Cleanup(func() { _ = held.Close() })
			return ports
		}
		_ = held.Close()
	}
	t.Fatalf("testport: no %d free ports", n)
	return nil
}

func listen(port int) (net.Listener, error) {
	return net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
}
