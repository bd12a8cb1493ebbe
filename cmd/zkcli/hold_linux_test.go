package main

import (
	"bufio"
	"errors"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/zkserver/zkserver/client"
)

// process is zkcli as one, whose standard output is read line by line.
type process struct {
	t      *testing.T
	cmd    *exec.Cmd
	out    *bufio.Reader
	stderr strings.Builder
}

func startProcess(t *testing.T, args ...string) *process {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	p := &process{t: t, cmd: exec.Command(exe, args...)}
	p.cmd.Env = append(os.Environ(), asProgram+"=1", "ZKCLI_CONFIG=/nowhere/zkcli", "GORACE=atexit_sleep_ms=0")
	p.cmd.Stderr = &p.stderr
	p.cmd.WaitDelay = 10 * time.Second // what the command has started may hold the outputs
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	p.out = bufio.NewReader(out)
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	timer := time.AfterFunc(2*time.Minute, func() { _ = p.cmd.Process.Kill() }) // nothing here waits longer
	t.Cleanup(func() {
		timer.Stop()
		_ = p.cmd.Process.Kill() // long gone, if all is well
	})
	return p
}

// line reads one.
func (p *process) line() string {
	p.t.Helper()
	s, err := p.out.ReadString('\n')
	if err != nil {
		p.t.Fatalf("%v; it says %q", err, p.stderr.String())
	}
	return strings.TrimSuffix(s, "\n")
}

// exit reads the rest and gives the exit code, -1 if a signal has ended it.
func (p *process) exit() (rest string, code int) {
	p.t.Helper()
	b, err := io.ReadAll(p.out)
	if err != nil {
		p.t.Fatal(err)
	}
	err = p.cmd.Wait()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		p.t.Fatal(err)
	}
	return string(b), p.cmd.ProcessState.ExitCode()
}

func (p *process) signal(sig os.Signal) {
	p.t.Helper()
	if err := p.cmd.Process.Signal(sig); err != nil {
		p.t.Fatal(err)
	}
}

// gone waits until there is no process of that number.
func gone(t *testing.T, pid int) {
	t.Helper()
	deadline := time.After(time.Minute)
	for syscall.Kill(pid, 0) == nil {
		select {
		case <-deadline:
			t.Fatalf("process %d goes on", pid)
		case <-time.After(10 * time.Millisecond):
		}
	}
}

func pid(t *testing.T, s string) int {
	t.Helper()
	n, err := strconv.Atoi(s)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// TestHoldStatus: the command's exit status is zkcli's, and it knows its token, which grows.
func TestHoldStatus(t *testing.T) {
	t.Parallel()
	server := testServer(t)
	ctx, c := dial(t, server)
	last := int64(0)
	for _, cmd := range []string{"lock", "elect"} {
		for range 2 {
			p := startProcess(t, "-server", server, cmd, "/status/"+cmd, "--", "sh", "-c", "echo $ZKCLI_TOKEN; echo $ZKCLI_NODE; exit 42")
			token, err := strconv.ParseInt(p.line(), 10, 64)
			if err != nil || token <= last {
				t.Errorf("%s: token %d behind %d, %v", cmd, token, last, err)
			}
			last = token
			if node := p.line(); !strings.HasPrefix(node, "/status/"+cmd+"/") {
				t.Errorf("%s: node %q", cmd, node)
			}
			if rest, code := p.exit(); rest != "" || code != 42 {
				t.Errorf("%s: %q, exit code %d", cmd, rest, code)
			}
		}
		if names, _, err := c.Children(ctx, "/status/"+cmd); err != nil || len(names) != 0 {
			t.Errorf("%s: %q is left, %v", cmd, names, err)
		}
	}
	for code, argv := range map[int][]string{
		exitSignal + 9:  {"sh", "-c", "kill -9 $$"},
		exitNotFound:    {"/nowhere/program"},
		exitNotRunnable: {os.DevNull},
	} {
		p := startProcess(t, append([]string{"-server", server, "lock", "/status/lock", "--"}, argv...)...)
		if _, got := p.exit(); got != code {
			t.Errorf("%q: exit code %d, want %d; it says %q", argv, got, code, p.stderr.String())
		}
	}
}

// TestHoldBusy: -n and -w give up, and say who has it; a signal ends the waiting; who waited leaves nothing.
func TestHoldBusy(t *testing.T) {
	t.Parallel()
	server := testServer(t)
	ctx, c := dial(t, server)
	holder := startProcess(t, "-server", server, "lock", "-id", "the holder", "/busy", "--", "sh", "-c", "echo held; while :; do sleep 0.05; done")
	holder.line()
	for _, opts := range [][]string{{"-n"}, {"-w", "50"}, {"-s", "-n"}} {
		p := startProcess(t, append(append([]string{"-server", server, "lock"}, opts...), "/busy", "--", "echo", "ran")...)
		if rest, code := p.exit(); rest != "" || code != exitNotHad || !strings.HasPrefix(p.stderr.String(), "/busy is held by the holder (") {
			t.Errorf("%q: %q, exit code %d, it says %q", opts, rest, code, p.stderr.String())
		}
	}
	waiter := startProcess(t, "-server", server, "lock", "/busy", "--", "echo", "ran")
	queued := func(n int) {
		t.Helper()
		for {
			names, _, w, err := c.ChildrenW(ctx, "/busy")
			if err != nil {
				t.Fatal(err)
			}
			if len(names) == n {
				w.Stop()
				return
			}
			<-w.C
		}
	}
	queued(2)
	waiter.signal(syscall.SIGTERM)
	if rest, code := waiter.exit(); rest != "" || code != exitSignal+15 {
		t.Errorf("%q, exit code %d, it says %q", rest, code, waiter.stderr.String())
	}
	queued(1)
	holder.signal(syscall.SIGTERM)
	if _, code := holder.exit(); code != exitSignal+15 {
		t.Errorf("exit code %d, it says %q", code, holder.stderr.String())
	}
	queued(0)
}

// TestHoldLost: when what it runs under is lost the command is told, and killed when it does not listen, with all that it has
// started.
func TestHoldLost(t *testing.T) {
	t.Parallel()
	server := testServer(t)
	ctx, c := dial(t, server)
	for _, tc := range []struct{ grace, script, want string }{
		{"8000", "trap 'echo told; exit 0' TERM; echo $ZKCLI_NODE; echo $$; while :; do sleep 0.05; done", "told\n"},
		{"200", "trap '' TERM; echo $ZKCLI_NODE; sh -c 'echo $$; while :; do sleep 0.05; done'; echo never", ""},
		{"200", "echo $ZKCLI_NODE; (trap '' TERM; sh -c 'echo $$; while :; do sleep 0.05; done'); echo never", ""},
	} {
		p := startProcess(t, "-server", server, "elect", "-grace", tc.grace, "/lost", "--", "sh", "-c", tc.script)
		node, inner := p.line(), pid(t, p.line())
		if err := c.Delete(ctx, node, client.AnyVersion); err != nil {
			t.Fatal(err)
		}
		rest, code := p.exit()
		if rest != tc.want || code != exitLost || !strings.Contains(p.stderr.String(), "/lost was lost (") {
			t.Errorf("%s: %q, exit code %d, it says %q", tc.script, rest, code, p.stderr.String())
		}
		gone(t, inner)
	}
}

// TestHoldOfDeadServer: without a server the command is ended at the deadline, and zkcli does not wait for the server's return.
func TestHoldOfDeadServer(t *testing.T) {
	t.Parallel()
	server, stop := startServer(t)
	p := startProcess(t, "-server", server, "-timeout", "6000", "lock", "/dead", "--", "sh", "-c", "echo up; exec sleep 1000")
	p.line()
	if err := stop(); err != nil {
		t.Error(err)
	}
	if _, code := p.exit(); code != exitLost {
		t.Errorf("exit code %d, it says %q", code, p.stderr.String())
	}
}

// TestHoldGrace: the server has the last word on the session's timeout, and the grace goes by that.
func TestHoldGrace(t *testing.T) {
	t.Parallel()
	server, stop := startServer(t, "tickTime=600", "minSessionTimeout=1200", "maxSessionTimeout=6000")
	t.Cleanup(func() { _ = stop() })
	ctx, c := dial(t, server)
	for grace, want := range map[string]string{"": "SIGKILL after 1.5s\n", "2000": "SIGKILL after 2s\n", "0": "SIGKILL after 0s\n"} {
		args := []string{"-server", server, "-timeout", "30000", "lock"}
		if grace != "" {
			args = append(args, "-grace", grace)
		}
		p := startProcess(t, append(args, "/grace", "--", "sh", "-c", "echo $ZKCLI_NODE; exec sleep 1000")...)
		if err := c.Delete(ctx, p.line(), client.AnyVersion); err != nil {
			t.Fatal(err)
		}
		if _, code := p.exit(); code != exitLost || !strings.Contains(p.stderr.String(), want) {
			t.Errorf("grace %q: exit code %d, it says %q", grace, code, p.stderr.String())
		}
	}
	p := startProcess(t, "-server", server, "-timeout", "30000", "elect", "-grace", "2001", "/grace", "--", "echo", "ran")
	if rest, code := p.exit(); rest != "" || code != exitUsage || !strings.Contains(p.stderr.String(), "-grace 2.001s: at most a third of the session's timeout, which the server has set to 6s") {
		t.Errorf("%q, exit code %d, it says %q", rest, code, p.stderr.String())
	}
}

// TestHoldSignals: what zkcli is sent, the command gets.
func TestHoldSignals(t *testing.T) {
	t.Parallel()
	server := testServer(t)
	p := startProcess(t, "-server", server, "lock", "/signals", "--", "sh", "-c",
		"trap 'echo usr1' USR1; trap 'echo hup; exit 5' HUP; echo ready; while :; do sleep 0.05; done")
	p.line()
	p.signal(syscall.SIGUSR1)
	if s := p.line(); s != "usr1" {
		t.Errorf("it prints %q", s)
	}
	p.signal(syscall.SIGHUP)
	if rest, code := p.exit(); rest != "hup\n" || code != 5 {
		t.Errorf("%q, exit code %d, it says %q", rest, code, p.stderr.String())
	}
}

// TestHoldKilled: the command does not outlive zkcli.
func TestHoldKilled(t *testing.T) {
	t.Parallel()
	server := testServer(t)
	p := startProcess(t, "-server", server, "lock", "/killed", "--", "sh", "-c", "echo $$; exec sleep 1000")
	inner := pid(t, p.line())
	p.signal(syscall.SIGKILL)
	_, _ = p.exit()
	gone(t, inner)
}
