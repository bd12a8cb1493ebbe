package bounds

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/zkserver/zkserver/proto/jute"
)

// crowdVariable tells a process of this test's binary to be a crowd: the server's address and the number of sessions.
const crowdVariable = "ZKSERVER_TEST_CROWD"

// crowd is many clients in a process of their own, so that nothing of theirs is taken for the server's. They say
// something when told to.
type crowd struct {
	t   testing.TB
	in  io.WriteCloser
	out *bufio.Scanner
}

// gather starts a crowd and waits until each of it has a session.
func gather(t testing.TB, addr string, sessions int) *crowd {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), fmt.Sprintf("%s=%s %d", crowdVariable, addr, sessions))
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	c := &crowd{t: t, in: in, out: bufio.NewScanner(out)}
	t.Cleanup(func() {
		_ = in.Close() // ends it
		if err := cmd.Wait(); err != nil {
			t.Error(err)
		}
	})
	c.done()
	return c
}

// ping has each client say something and hear an answer.
func (c *crowd) ping() {
	c.t.Helper()
	if _, err := io.WriteString(c.in, "ping\n"); err != nil {
		c.t.Fatal(err)
	}
	c.done()
}

func (c *crowd) done() {
	c.t.Helper()
	if !c.out.Scan() || c.out.Text() != "done" {
		c.t.Fatalf("the crowd says %q, %v", c.out.Text(), c.out.Err())
	}
}

// crowdMain is the other process. It ends with its standard input.
func crowdMain() {
	addr, n, _ := strings.Cut(os.Getenv(crowdVariable), " ")
	count, err := strconv.Atoi(n)
	if err == nil {
		err = beCrowd(addr, count)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "crowd:", err)
		os.Exit(1)
	}
}

func beCrowd(addr string, n int) error {
	conns := make([]net.Conn, n)
	connect := jute.ConnectRequest{TimeOut: 40000, Passwd: make([]byte, 16), HasReadOnly: true}
	hello := frameOf(nil, connect.Append(nil))
	ping := jute.RequestHeader{Xid: jute.XidPing, Type: jute.OpPing}
	say := frameOf(nil, ping.Append(nil))
	all := func(request []byte, reply int) error {
		const together = 250
		buf := make([]byte, reply)
		for some := range slices.Chunk(conns, together) {
			for i := range some {
				if some[i] == nil {
					var err error
					if some[i], err = net.Dial("tcp", addr); err != nil {
						return err
					}
				}
				if _, err := some[i].Write(request); err != nil {
					return err
				}
			}
			for _, c := range some {
				if _, err := io.ReadFull(c, buf); err != nil {
					return err
				}
			}
		}
		_, err := os.Stdout.WriteString("done\n")
		return err
	}
	if err := all(hello, 4+37); err != nil {
		return err
	}
	in := bufio.NewScanner(os.Stdin)
	for in.Scan() {
		if err := all(say, 4+16); err != nil {
			return err
		}
	}
	return in.Err()
}
