package hostile

import (
	"io"
	"net"
	"os"
	"strconv"
	"testing"
	"time"
)

// dialThrough gives both ends of a connection from 1 to 2.
func dialThrough(t *testing.T, n *Network) (a, b net.Conn) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	port, err := n.Relay(1, 2, l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	if a, err = net.Dial("tcp", "127.0.0.1:"+strconv.Itoa(port)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { a.Close() })
	if b, err = l.Accept(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.Close() })
	for _, c := range []net.Conn{a, b} {
		if err := c.SetDeadline(time.Now().Add(time.Minute)); err != nil {
			t.Fatal(err)
		}
	}
	return a, b
}

func send(t *testing.T, from, to net.Conn, text string) {
	t.Helper()
	if _, err := io.WriteString(from, text); err != nil {
		t.Fatal(err)
	}
	receive(t, to, text)
}

func receive(t *testing.T, c net.Conn, want string) {
	t.Helper()
	buf := make([]byte, len(want))
	if _, err := io.ReadFull(c, buf); err != nil || string(buf) != want {
		t.Fatalf("received %q, %v; want %q", buf, err, want)
	}
}

func TestNetwork(t *testing.T) {
	n := NewNetwork()
	defer n.Close()
	a, b := dialThrough(t, n)
	send(t, a, b, "there")
	send(t, b, a, "and back")

	n.Hold(1, 2)
	if _, err := io.WriteString(a, "late"); err != nil {
		t.Fatal(err)
	}
	send(t, b, a, "the other way is open")
	if err := b.SetReadDeadline(time.Now().Add(50 * time.Millisecond)); err != nil {
		t.Fatal(err)
	}
	if k, err := b.Read(make([]byte, 1)); !os.IsTimeout(err) {
		t.Fatalf("%d bytes passed, %v", k, err)
	}
	if err := b.SetReadDeadline(time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	n.Heal()
	receive(t, b, "late")

	const delay = 50 * time.Millisecond
	n.Delay(1, 2, delay)
	began := time.Now()
	send(t, a, b, "slow")
	if d := time.Since(began); d < delay {
		t.Errorf("%v after a delay of %v", d, delay)
	}
	n.Heal()
	n.Reset(2, 1)
	if _, err := b.Read(make([]byte, 1)); err == nil {
		t.Error("no end after a reset")
	}
}

func TestThrough(t *testing.T) {
	n := NewNetwork()
	defer n.Close()
	const text = "server.1=127.0.0.1:5001:5002:participant;127.0.0.1:5003\nserver.2=127.0.0.1:6001:6002:observer;127.0.0.1:6003\n"
	got, err := n.Through(2, text)
	if err != nil {
		t.Fatal(err)
	}
	if m := serverLine.FindAllStringSubmatch(got, -1); len(m) != 2 || m[0][3] == "5001" || m[1][3] != "6001" {
		t.Errorf("%q", got)
	}
}
