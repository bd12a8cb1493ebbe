package main

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/zkserver/zkserver/internal/testport"
)

// TestEnsembleLeavesNothing: a closed terminal, or a reader of the output that went away, stops the servers and removes
// the temporary directory.
func TestEnsembleLeavesNothing(t *testing.T) {
	for _, c := range []struct {
		name string
		end  func(cmd *exec.Cmd, out io.Closer) error
	}{
		{"hangup", func(cmd *exec.Cmd, _ io.Closer) error { return cmd.Process.Signal(syscall.SIGHUP) }},
		{"reader gone", func(cmd *exec.Cmd, out io.Closer) error {
			if err := out.Close(); err != nil {
				return err
			}
			return cmd.Process.Signal(syscall.SIGPIPE) // as the next line it writes would
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			exe, err := os.Executable()
			if err != nil {
				t.Fatal(err)
			}
			tmp := t.TempDir()
			cmd := exec.Command(exe, "ensemble", "--servers=1", fmt.Sprintf("--port=%d", testport.Reserve(t, 8)[0]))
			cmd.Env = append(os.Environ(), childEnv+"=1", "TMPDIR="+tmp)
			cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGTERM}
			out, err := cmd.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			defer func() { _ = cmd.Process.Kill() }()
			addr, text := "", ""
			for s := bufio.NewScanner(out); addr == "" && s.Scan(); {
				text += s.Text() + "\n"
				if a, ok := strings.CutPrefix(s.Text(), "connect "); ok {
					addr = a
				}
			}
			if addr == "" {
				t.Fatal("no connect string: " + text)
			}
			if !strings.Contains(text, "end of input") { // its standard input is the null device
				t.Error("nothing says that no commands are read: " + text)
			}
			if err := c.end(cmd, out); err != nil {
				t.Fatal(err)
			}
			if err := cmd.Wait(); err != nil {
				t.Error("ended with ", err)
			}
			if n, err := net.DialTimeout("tcp", addr, time.Second); err == nil {
				_ = n.Close()
				t.Error("the server still listens")
			}
			if left, err := os.ReadDir(tmp); err != nil || len(left) != 0 {
				t.Errorf("left behind: %v, %v", left, err)
			}
		})
	}
}

// TestUsageErrors: what the command line got wrong is named, with exit code 2.
func TestUsageErrors(t *testing.T) {
	for args, want := range map[string]string{
		"version x":               `takes no argument, not "x"`,
		"ensemble x":              `takes no argument, not "x"`,
		"ensemble --port=0":       "--port=0: want a number from 1 to 65535",
		"ensemble --port=99999":   "--port=99999: want a number from 1 to 65535",
		"ensemble --servers=0":    "want at least one server",
		"config":                  "want zkserver config check FILE",
		"config chek zoo.cfg":     "want zkserver config check FILE",
		"config check":            "want one argument",
		"--log-level=loud x":      "allowed are debug, info, warn and error",
		"config check not-there":  "not-there",
		"--pprof=0.0.0.0:6060 x":  "want an address of the loopback with a port",
		"--pprof=localhost x":     "want an address of the loopback with a port",
		"start-foreground a b":    "want one argument",
		"ensemble --tick=0s":      "--tick=0s: want 1ms or more",
		"ensemble --observers=-1": "--observers=-1: want 0 or more",
		"ensemble --servers=17":   "--servers=17 --observers=0: want at most 16 in all",
		"status":                  "status: neither a file nor a command; the commands are completion, config, ensemble, help, start-foreground, version",
		"status.cfg":              "no such file",
	} {
		cmd := command()
		cmd.SetArgs(strings.Fields(args))
		cmd.SetOut(&bytes.Buffer{})
		err := cmd.Execute()
		var usage usageError
		if !errors.As(err, &usage) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want a usage error with %q", args, err, want)
		}
	}
}

// TestCheckTellsAll: faults do not hide what is else to be said, and --strict may stand anywhere.
func TestCheckTellsAll(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "zoo.cfg")
	for _, c := range []struct{ args, extra, out, fault string }{
		{"config check", "", ":3: warning: foo: ", ""},
		{"config check", "tickTime=-1\n", ":3: warning: foo: ", ":4: tickTime=-1: "},
		{"config check --strict", "", "", ":3: foo: "},
		{"config --strict check", "", "", ":3: foo: "},
		{"--strict config check", "tickTime=-1\n", "", ":3: foo: "},
	} {
		if err := os.WriteFile(file, []byte("dataDir="+dir+"\nclientPort=1\nfoo=1\n"+c.extra), 0o600); err != nil {
			t.Fatal(err)
		}
		cmd, out := command(), new(bytes.Buffer)
		cmd.SetArgs(append(strings.Fields(c.args), file))
		cmd.SetOut(out)
		err := cmd.Execute()
		if !strings.Contains(out.String(), c.out) || (err == nil) != (c.fault == "") || err != nil && !strings.Contains(err.Error(), c.fault) {
			t.Errorf("%s: %q, %v", c.args, out, err)
		}
	}
}

// TestShortSilenceIsNotTold: a lease that lapses for a moment is no change of role.
func TestShortSilenceIsNotTold(t *testing.T) {
	m, now := new(member), time.Now()
	for i, c := range []struct {
		role  string
		after time.Duration
		told  bool
	}{
		{roleStarting, 0, true},
		{"follower", time.Second, true},
		{roleIdle, time.Second, false},
		{roleIdle, idleHeld / 2, false},
		{"follower", idleHeld / 2, false},
		{roleIdle, time.Second, false},
		{"leader", idleHeld / 2, true},
		{roleIdle, time.Second, false},
		{roleIdle, idleHeld, true},
		{roleIdle, time.Second, false},
		{"leader", 0, true},
		{roleDown, 0, true},
		{roleStarting, 0, true},
	} {
		now = now.Add(c.after)
		if told := m.changed(c.role, now); told != c.told {
			t.Errorf("%d: %s after %v: told %v", i, c.role, c.after, told)
		}
	}
}
