package recipe

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/zkserver/zkserver/client"
	"github.com/zkserver/zkserver/internal/testport"
	"github.com/zkserver/zkserver/server"
	"github.com/zkserver/zkserver/server/config"
)

// A test's process runs as a server when this names a zoo.cfg: so a test can kill one as kill -9 does.
const serverEnv = "RECIPE_TEST_SERVER"

// serve is a server's process. It ends with its standard input, so at the latest with the test.
func serve(file string) int {
	c, err := config.Load(file, config.Flags{})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	s, err := server.New(c, server.Options{Log: zerolog.New(os.Stderr).With().Timestamp().Logger(), Version: "test"})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	ctx, cancel := context.WithCancel(context.Background())
	go func() { // ends with the process
		_, _ = io.Copy(io.Discard, os.Stdin)
		cancel()
	}()
	if err := s.Run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// tick is that of an ensemble for tests.
const tick = 200 * time.Millisecond

// ensemble is three servers, each a process.
type ensemble struct {
	t       testing.TB
	addrs   []string
	configs []string
	run     []*exec.Cmd
	stdin   []io.Closer
}

// startEnsemble starts three servers that serve when it returns, and end with the test.
func startEnsemble(t testing.TB) *ensemble {
	t.Helper()
	const n = 3
	e := &ensemble{t: t, run: make([]*exec.Cmd, n), stdin: make([]io.Closer, n)}
	dir, ports := t.TempDir(), testport.Reserve(t, 3*n)
	var lines strings.Builder
	for i := range n {
		e.addrs = append(e.addrs, fmt.Sprintf("127.0.0.1:%d", ports[3*i]))
		fmt.Fprintf(&lines, "server.%d=127.0.0.1:%d:%d\n", i+1, ports[3*i+1], ports[3*i+2])
	}
	for i := range n {
		data := filepath.Join(dir, fmt.Sprint(i+1))
		file := filepath.Join(data, "zoo.cfg")
		text := fmt.Sprintf("tickTime=%d\ninitLimit=50\nsyncLimit=25\nmaxClientCnxns=0\nmaxSessionTimeout=60000\nextendedTypesEnabled=true\ndataDir=%s\nclientPort=%d\nclientPortAddress=127.0.0.1\n%s",
			tick.Milliseconds(), data, ports[3*i], lines.String())
		err := errors.Join(os.Mkdir(data, 0o700), os.WriteFile(file, []byte(text), 0o600), os.WriteFile(filepath.Join(data, "myid"), fmt.Append(nil, i+1), 0o600))
		if err != nil {
			t.Fatal(err)
		}
		e.configs = append(e.configs, file)
		e.start(i)
	}
	t.Cleanup(func() {
		for i := range e.run {
			e.kill(i)
		}
	})
	for i := range n {
		e.serves(i)
	}
	return e
}

func (e *ensemble) connect() string { return strings.Join(e.addrs, ",") }

func (e *ensemble) start(i int) {
	e.t.Helper()
	exe, err := os.Executable()
	if err != nil {
		e.t.Fatal(err)
	}
	log, err := os.OpenFile(filepath.Join(filepath.Dir(e.configs[i]), "stderr"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		e.t.Fatal(err)
	}
	defer log.Close() // the child has its own
	cmd := exec.Command(exe)
	cmd.Env = append(os.Environ(), serverEnv+"="+e.configs[i])
	cmd.Stderr = log
	stdin, err := cmd.StdinPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		e.t.Fatal(err)
	}
	e.run[i], e.stdin[i] = cmd, stdin
}

// kill ends a server as kill -9 does.
func (e *ensemble) kill(i int) {
	if cmd := e.run[i]; cmd != nil {
		e.run[i] = nil
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		_ = e.stdin[i].Close()
	}
}

// serves waits until a server serves clients.
func (e *ensemble) serves(i int) {
	e.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	c, err := client.Dial(ctx, e.addrs[i], client.Options{BackoffMax: tick / 4})
	if err != nil {
		log, _ := os.ReadFile(filepath.Join(filepath.Dir(e.configs[i]), "stderr"))
		e.t.Fatalf("server %d does not serve: %v\n%s", i+1, err, log[max(0, len(log)-2000):])
	}
	_ = c.Close() // the session may as well run out
}

// leader waits until one of the servers leads.
func (e *ensemble) leader(ctx context.Context) int {
	for ctx.Err() == nil {
		for i, addr := range e.addrs {
			if e.run[i] != nil && bytes.Contains(askWord(addr, "srvr"), []byte("Mode: leader")) {
				return i
			}
		}
		wait(ctx, tick/10)
	}
	e.t.Error("nobody leads the ensemble")
	return 0
}

// askWord is the answer to a four-letter word, empty if there is none in time.
func askWord(addr, word string) []byte {
	conn, err := net.DialTimeout("tcp", addr, time.Second)
	if err != nil {
		return nil
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(time.Second))
	if _, err := io.WriteString(conn, word); err != nil {
		return nil
	}
	text, _ := io.ReadAll(conn)
	return text
}
