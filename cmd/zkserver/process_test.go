package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/zkserver/zkserver/internal/testport"
)

// childEnv makes the test binary a server: the tests of this package run real processes of the code under test.
const childEnv = "ZKSERVER_TEST_CHILD"

func TestMain(m *testing.M) {
	if os.Getenv(childEnv) != "" {
		if file := os.Getenv(namesEnv); file != "" {
			resolveBy(file)
		}
		main()
		return
	}
	os.Exit(m.Run())
}

// full reports whether the long form of a test is asked for: ZKSERVER_FULL=1.
func full() bool { return os.Getenv("ZKSERVER_FULL") != "" }

// rounds is the number of rounds of a test: few by default, the stated number in the long form.
func rounds(short, long int) int {
	if full() {
		return long
	}
	return short
}

// patience bounds every wait of these tests; the race detector on a shared machine is slow.
const patience = 60 * time.Second

// proc is one server process on its own directory.
type proc struct {
	t      testing.TB
	id     int
	dir    string
	addr   string // of clients
	files  int    // how many it may have open; zero: as many as this process
	cmd    *exec.Cmd
	exited chan struct{}
}

// quick is for ensembles whose servers are stopped or cut off. The others give each other up when a connection ends, as it
// does when a process dies, and not because the machine is busy.
const quick = "silenceLimit=1000\n"

// newEnsemble writes the configuration of n servers, the last observers of them observers; extra lines go into each
// zoo.cfg. Nothing is started. A single server gets no server lines: it is standalone.
func newEnsemble(t testing.TB, n, observers int, extra string) []*proc {
	t.Helper()
	ports := testport.Reserve(t, 3*n)
	var lines strings.Builder
	for i := range n {
		role := "participant"
		if i >= n-observers {
			role = "observer"
		}
		if n > 1 {
			fmt.Fprintf(&lines, "server.%d=127.0.0.1:%d:%d:%s;127.0.0.1:%d\n", i+1, ports[n+2*i], ports[n+2*i+1], role, ports[i])
		}
	}
	root := t.TempDir()
	var ps []*proc
	for i := range n {
		p := &proc{t: t, id: i + 1, dir: filepath.Join(root, strconv.Itoa(i+1)), addr: net.JoinHostPort("127.0.0.1", strconv.Itoa(ports[i]))}
		text := fmt.Sprintf("tickTime=500\ninitLimit=20\nsyncLimit=10\nsilenceLimit=5000\nmaxClientCnxns=0\n4lw.commands.whitelist=*\ndataDir=%s\nmaxSessionTimeout=60000\n%s%s", p.dir, extra, lines.String())
		if n == 1 {
			text += fmt.Sprintf("clientPort=%d\nclientPortAddress=127.0.0.1\n", ports[0])
		}
		if err := os.MkdirAll(p.dir, 0o750); err != nil {
			t.Fatal(err)
		}
		p.write("zoo.cfg", text)
		p.write("myid", strconv.Itoa(p.id))
		ps = append(ps, p)
	}
	t.Cleanup(func() {
		for _, p := range ps {
			p.kill()
			if t.Failed() {
				p.showLog()
			}
		}
	})
	return ps
}

func (p *proc) write(name, text string) {
	p.t.Helper()
	if err := os.WriteFile(filepath.Join(p.dir, name), []byte(text), 0o600); err != nil {
		p.t.Fatal(err)
	}
}

func (p *proc) showLog() {
	text, _ := os.ReadFile(filepath.Join(p.dir, "server.log"))
	if len(text) > 4000 {
		text = text[len(text)-4000:]
	}
	p.t.Logf("end of the log of server %d:\n%s", p.id, text)
}

func (p *proc) start() {
	p.t.Helper()
	log, err := os.OpenFile(filepath.Join(p.dir, "server.log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		p.t.Fatal(err)
	}
	defer log.Close()
	exe, err := os.Executable()
	if err != nil {
		p.t.Fatal(err)
	}
	p.cmd = exec.Command(exe, filepath.Join(p.dir, "zoo.cfg"))
	if p.files > 0 {
		limit := fmt.Sprintf(`ulimit -n %d && exec "$0" "$@"`, p.files)
		p.cmd = exec.Command("/bin/sh", append([]string{"-c", limit}, p.cmd.Args...)...)
	}
	p.cmd.Env = append(os.Environ(), childEnv+"=1")
	p.cmd.Stdout, p.cmd.Stderr = log, log
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := p.cmd.Start(); err != nil {
		p.t.Fatal(err)
	}
	p.exited = make(chan struct{})
	go func(cmd *exec.Cmd, done chan struct{}) { // ends with the process
		_ = cmd.Wait()
		close(done)
	}(p.cmd, p.exited)
}

func (p *proc) running() bool {
	if p.cmd == nil {
		return false
	}
	select {
	case <-p.exited:
		return false
	default:
		return true
	}
}

// kill ends the process at once, stopped or not, and waits for its end.
func (p *proc) kill() {
	if p.cmd == nil {
		return
	}
	_ = p.cmd.Process.Kill()
	<-p.exited
	p.cmd = nil
}

func (p *proc) signal(s os.Signal) {
	p.t.Helper()
	if err := p.cmd.Process.Signal(s); err != nil {
		p.t.Fatal(err)
	}
}

// word asks a four-letter word; "" when the server does not answer.
func (p *proc) word(w string) string {
	c, err := net.DialTimeout("tcp", p.addr, time.Second)
	if err != nil {
		return ""
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(2 * time.Second))
	if _, err := io.WriteString(c, w); err != nil {
		return ""
	}
	text, _ := io.ReadAll(c)
	return string(text)
}

// mode is leader, follower, observer or standalone, or "" while it does not serve.
func (p *proc) mode() string {
	_, m, _ := strings.Cut(p.word("srvr"), "Mode: ")
	m, _, _ = strings.Cut(m, "\n")
	return m
}

// mntr is one value of the word mntr.
func (p *proc) mntr(key string) string { return p.mntrAll()[key] }

// mntrAll is one answer to it; empty when the server does not give one in time.
func (p *proc) mntrAll() map[string]string {
	values := map[string]string{}
	for _, line := range strings.Split(p.word("mntr"), "\n") {
		if k, v, ok := strings.Cut(line, "\t"); ok {
			values[k] = v
		}
	}
	return values
}

// until waits for a condition, with a bound.
func until(t testing.TB, what string, cond func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !cond() {
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatalf("%s: not within %s", what, patience)
		}
	}
}

func (p *proc) serve() {
	p.t.Helper()
	until(p.t, fmt.Sprintf("server %d serves", p.id), func() bool {
		if !p.running() {
			p.showLog()
			p.t.Fatalf("server %d ended", p.id)
		}
		return p.mode() != ""
	})
}

func startAll(ps []*proc) {
	for _, p := range ps {
		p.start()
	}
	for _, p := range ps {
		p.serve()
	}
}

// leaderOf waits for a leader among the servers that run.
func leaderOf(t testing.TB, ps []*proc) *proc {
	t.Helper()
	var leader *proc
	until(t, "a leader", func() bool {
		for _, p := range ps {
			if p.running() && p.mode() == "leader" {
				leader = p
			}
		}
		return leader != nil
	})
	return leader
}

// sameDigests waits until all servers have applied the same zxid, then compares both digests (I11).
func sameDigests(t testing.TB, ps []*proc) {
	t.Helper()
	var last []string
	until(t, "the same zxid on all servers", func() bool {
		last = last[:0]
		for _, p := range ps {
			v := p.mntrAll()
			last = append(last, v["zk_last_processed_zxid"]+" "+v["zk_tree_digest"]+" "+v["zk_state_digest"])
		}
		for _, l := range last {
			if len(strings.Fields(l)) != 3 || strings.Fields(l)[0] != strings.Fields(last[0])[0] {
				return false
			}
		}
		return true
	})
	for i, l := range last {
		if l != last[0] {
			t.Fatalf("server %d has %s, server %d has %s", ps[i].id, l, ps[0].id, last[0])
		}
	}
}

func TestEnsembleCommand(t *testing.T) {
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(exe, "ensemble", "--observers=1", fmt.Sprintf("--port=%d", testport.Reserve(t, 8)[0]), "--dir="+t.TempDir())
	cmd.Env = append(os.Environ(), childEnv+"=1")
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGTERM}
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out := &lockedBuffer{}
	cmd.Stdout, cmd.Stderr = out, out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = cmd.Process.Kill() }()
	until(t, "a connect string", func() bool { return strings.Contains(out.String(), "connect 127.0.0.1:") })
	if s := out.String(); !strings.Contains(s, ": leader") || !strings.Contains(s, ": observer") {
		t.Fatal("a connect string before there are a leader and an observer: " + s)
	}
	fmt.Fprintln(in, "kill leader")
	t.Cleanup(func() {
		if t.Failed() {
			t.Log(out.String())
		}
	})
	until(t, "a second leader", func() bool {
		s := out.String()
		return strings.Contains(s, ": down") && strings.Count(s, ": leader") >= 2
	})
	fmt.Fprintln(in, "start 9\nfoo\nstatus\nquit")
	if err := cmd.Wait(); err != nil {
		t.Fatal(err, out.String())
	}
	if s := out.String(); !strings.Contains(s, "want a server's number from 1 to 4") || !strings.Contains(s, `unknown command "foo"`) {
		t.Fatal(s)
	}
}

// TestEnsembleKilled: whoever kills the ensemble command has not left its servers behind.
func TestEnsembleKilled(t *testing.T) {
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(exe, "ensemble", "--servers=1", fmt.Sprintf("--port=%d", testport.Reserve(t, 8)[0]), "--dir="+t.TempDir())
	cmd.Env = append(os.Environ(), childEnv+"=1")
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	out := &lockedBuffer{}
	cmd.Stdout, cmd.Stderr = out, out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = cmd.Process.Kill() }()
	until(t, "a connect string", func() bool { return strings.Contains(out.String(), "connect ") })
	_, addr, _ := strings.Cut(out.String(), "connect ")
	p := &proc{t: t, addr: strings.TrimSpace(strings.SplitN(addr, "\n", 2)[0])}
	if p.mode() == "" {
		t.Fatal("nothing serves on " + p.addr)
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	until(t, "its server has gone", func() bool { return p.word("ruok") == "" })
}

// lockedBuffer collects a process's output.
type lockedBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}
