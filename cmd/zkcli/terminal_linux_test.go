package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/zkserver/zkserver/client"
)

// dial gives a client of one's own.
func dial(t *testing.T, server string) (context.Context, *client.Client) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	t.Cleanup(cancel)
	c, err := client.Dial(ctx, server, client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return ctx, c
}

// fill makes a node with so many children.
func fill(ctx context.Context, t *testing.T, c *client.Client, path string, n int) {
	t.Helper()
	if _, err := c.Create(ctx, path, nil, client.Persistent); err != nil {
		t.Fatal(err)
	}
	for made := 0; made < n; {
		ops := make([]client.Op, min(1000, n-made))
		for i := range ops {
			ops[i] = client.CreateOp{Path: path + "/n-", Mode: client.PersistentSequential}
		}
		if _, err := c.Multi(ctx, ops...); err != nil {
			t.Fatal(err)
		}
		made += len(ops)
	}
}

// TestRemoveOnTerminal: rm -r shows how far it is, Ctrl-C stops it, and it says what is left. With ZKSERVER_FULL=1 of
// 100,000 nodes.
func TestRemoveOnTerminal(t *testing.T) {
	t.Parallel()
	nodes, batch := 6000, "1"
	if os.Getenv("ZKSERVER_FULL") == "1" {
		nodes, batch = 100_000, "50"
	}
	server := testServer(t)
	ctx, c := dial(t, server)
	fill(ctx, t, c, "/many", nodes)
	p := openTerminalFor(t, []string{"rm", "-r", "-b", batch, "/many"}, "ZKCLI_SERVER="+server)
	p.expect("counting ")
	p.expect("deleting [")
	p.expect(" %  ")
	p.keys("\x03")
	p.expect("stopped: ")
	p.expect(", the rest is there\r\n")
	p.expect("interrupted\r\n")
	if code := p.exit(); code != 130 {
		t.Errorf("exit code %d, want 130", code)
	}
	said := regexp.MustCompile(`stopped: (\d+) nodes? deleted`).FindStringSubmatch(p.shown())
	if said == nil {
		t.Fatalf("it says %q", p.shown())
	}
	left, err := c.AllChildrenNumber(ctx, "/many")
	if err != nil {
		t.Fatal(err)
	}
	// The transaction that was under way when the key was pressed may be through and not counted.
	told, _ := strconv.Atoi(said[1])
	size, _ := strconv.Atoi(batch)
	if gone := nodes - left; gone < told || gone > told+size || left == 0 {
		t.Errorf("%d nodes of %d are gone, it says %d", gone, nodes, told)
	}
	p = openTerminalFor(t, []string{"rm", "-r", "/many"}, "ZKCLI_SERVER="+server)
	p.expect("deleting [##############################] 100 %  ")
	p.expect(fmt.Sprintf("%d nodes deleted\r\n", left+1))
	if code := p.exit(); code != exitOK {
		t.Errorf("exit code %d", code)
	}
}

// TestColours are for a terminal, and for who has not said NO_COLOR.
func TestColours(t *testing.T) {
	t.Parallel()
	server := testServer(t)
	for _, tc := range []struct {
		env  []string
		want string
	}{
		{[]string{"NO_COLOR="}, "\x1b[31mNode does not exist: /none\x1b[0m\r\n"},
		{[]string{"NO_COLOR=1"}, "Node does not exist: /none\r\n"},
		{[]string{"NO_COLOR=", "TERM=dumb"}, "Node does not exist: /none\r\n"},
	} {
		p := openTerminalFor(t, []string{"get", "/none"}, append(tc.env, "ZKCLI_SERVER="+server)...)
		if code := p.exit(); code != exitNoNode {
			t.Errorf("exit code %d", code)
		}
		<-p.ended
		if got := p.shown(); got != tc.want {
			t.Errorf("%q: it shows %q, want %q", tc.env, got, tc.want)
		}
	}
}

// TestBinaryOnTerminal: no byte of a node's data reaches the terminal as a control character; elsewhere all bytes come
// as they are.
func TestBinaryOnTerminal(t *testing.T) {
	t.Parallel()
	server := testServer(t)
	ctx, c := dial(t, server)
	data := []byte("a\x00\x07\x1b[2J\xff\xc3\x28\u202e\u00e9\n")
	if _, err := c.Create(ctx, "/binary", data, client.Persistent); err != nil {
		t.Fatal(err)
	}
	p := openTerminalFor(t, []string{"get", "/binary"}, "ZKCLI_SERVER="+server)
	p.expect(`a\x00\x07\x1b[2J\xff\xc3(\u202eé` + "\r\n")
	if code := p.exit(); code != exitOK {
		t.Errorf("exit code %d", code)
	}
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(ctx, exe, "-server", server, "-o", "raw", "get", "/binary")
	cmd.Env = append(os.Environ(), asProgram+"=1")
	if out, err := cmd.Output(); err != nil || string(out) != string(data) {
		t.Errorf("%q, %v", out, err)
	}
}

// TestShellOutlivesServer: in the shell a dead server fails commands after a while, and nothing else.
func TestShellOutlivesServer(t *testing.T) {
	t.Parallel()
	server, stop := startServer(t)
	p := openTerminalFor(t, []string{"-timeout", "1000"}, "ZKCLI_SERVER="+server, "ZKCLI_HISTORY="+filepath.Join(t.TempDir(), "history"))
	p.expect("(CONNECTED) 0] ")
	if err := stop(); err != nil {
		t.Error(err)
	}
	p.keys("ls /\r")
	p.expect("KeeperErrorCode = ConnectionLoss")
	p.expect("(CONNECTING) 1] ")
	p.keys("help ls\r")
	p.expect("list a node's children\r\n")
	p.expect("(CONNECTING) 2] ")
	p.keys("\x04")
	if code := p.exit(); code != exitOK {
		t.Errorf("exit code %d, the last command went well", code)
	}
}

// TestLockOnTerminal: the command that runs under a lock has the terminal: it reads what is typed, gets the keys' signals,
// and zkcli's shell has the terminal again afterwards.
func TestLockOnTerminal(t *testing.T) {
	t.Parallel()
	server := testServer(t)
	p := openTerminal(t, "ZKCLI_SERVER="+server, "ZKCLI_HISTORY="+filepath.Join(t.TempDir(), "history"))
	p.expect("(CONNECTED) 0] ")
	p.keys("lock /locks/a -- sh -c 'echo reading; read x; echo got $x'\r")
	p.expect("reading\r\n") // what is typed before may be the shell's
	p.keys("something\r")
	p.expect("got something\r\n")
	p.expect("(CONNECTED) 1] ")
	p.keys("elect /election -- sh -c 'trap \"echo told; exit 9\" INT; echo ready; while :; do sleep 0.1; done'\r")
	p.expect("ready\r\n")
	p.keys("\x03")
	p.expect("told\r\n")
	p.expect("(CONNECTED) 2] ")
	p.keys("lock /locks/a\r")
	p.expect("nobody takes part in /locks/a\r\n")
	p.expect("(CONNECTED) 3] ")
	p.keys("lock /locks/a -- sh -c 'exit 9'\r")
	p.expect("(CONNECTED) 4] ")
	p.keys("\x04")
	if code := p.exit(); code != 9 {
		t.Errorf("exit code %d, want the last command's", code)
	}
}

// TestLockStopped: Ctrl-Z stops the command and zkcli, so that the shell that has started it notices, and fg lets both go on.
func TestLockStopped(t *testing.T) {
	t.Parallel()
	bash, err := exec.LookPath("bash")
	if err != nil {
		t.Skip("no shell with job control here: ", err)
	}
	server := testServer(t)
	p := openTerminalFor(t, []string{bash, "--norc", "--noprofile", "-i"}, "ZKCLI_SERVER="+server, "PS1=prompt> ", "PATH="+programPath(t))
	p.expect("prompt> ")
	p.keys("zkcli lock /locks/z -- sh -c 'echo rea''dy; read x; echo got $x; exit 3'\r")
	p.expect("ready\r\n")
	p.keys("\x1a")
	p.expect("Stopped")
	p.expect("prompt> ")
	p.keys("fg\r")
	p.expect("lock /locks/z")
	p.keys("again\r")
	p.expect("got again\r\n")
	p.expect("prompt> ")
	p.keys("echo code=$?\r")
	p.expect("code=3\r\n")
	p.keys("exit\r")
	if code := p.exit(); code != 0 {
		t.Errorf("exit code %d", code)
	}
}

// TestLockStoppedTooLong: what is lost while it is stopped by Ctrl-Z has no grace left when it goes on.
func TestLockStoppedTooLong(t *testing.T) {
	t.Parallel()
	bash, err := exec.LookPath("bash")
	if err != nil {
		t.Skip("no shell with job control here: ", err)
	}
	server := testServer(t)
	ctx, c := dial(t, server)
	p := openTerminalFor(t, []string{bash, "--norc", "--noprofile", "-i"}, "ZKCLI_SERVER="+server, "PS1=prompt> ", "PATH="+programPath(t))
	p.expect("prompt> ")
	p.keys("zkcli -timeout 6000 lock /locks/zz -- sh -c 'trap \"\" TERM; echo rea''dy; read x; read y'\r")
	p.expect("ready\r\n")
	p.keys("\x1a")
	p.expect("Stopped")
	for { // the server has ended the session
		names, _, w, err := c.ChildrenW(ctx, "/locks/zz")
		if err != nil {
			t.Fatal(err)
		}
		if len(names) == 0 {
			w.Stop()
			break
		}
		<-w.C
	}
	p.keys("fg\r")
	p.expect("SIGKILL after 0s")
	p.expect("was lost (")
	p.keys("echo code=$?\r")
	p.expect("code=124\r\n")
	p.keys("exit\r")
	_ = p.exit()
}

// programPath is a PATH on which zkcli is this program.
func programPath(t *testing.T) string {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	script := fmt.Sprintf("#!/bin/sh\n%s=1 exec '%s' \"$@\"\n", asProgram, exe)
	if err := os.WriteFile(filepath.Join(dir, "zkcli"), []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	return dir + ":" + os.Getenv("PATH")
}

// TestCompletion presses Tab in the shells that are here.
func TestCompletion(t *testing.T) {
	t.Parallel()
	server := testServer(t)
	ctx, c := dial(t, server)
	for _, path := range []string{"/complete", "/complete/colon:name", "/complete/other"} {
		if _, err := c.Create(ctx, path, nil, client.Persistent); err != nil {
			t.Fatal(err)
		}
	}
	config := filepath.Join(t.TempDir(), "ensembles")
	if err := os.WriteFile(config, []byte("[testing]\nserver = "+server+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for shell, args := range map[string][]string{"bash": {"--norc", "--noprofile", "-i"}, "zsh": {"-f", "-i"}, "fish": {"--no-config", "-i"}} {
		t.Run(shell, func(t *testing.T) {
			t.Parallel()
			path, err := exec.LookPath(shell)
			if err != nil {
				t.Skip(err)
			}
			home := t.TempDir()
			p := openTerminalFor(t, append([]string{path}, args...), "PATH="+programPath(t), "ZKCLI_CONFIG="+config, "PS1=prompt> ",
				"HOME="+home, "XDG_CONFIG_HOME="+home, "XDG_DATA_HOME="+home)
			if shell == "fish" {
				p.keys("zkcli completion fish | source; and echo rea''dy\r")
			} else {
				p.keys("source <(zkcli completion " + shell + ") && echo rea''dy\r")
			}
			p.expect("ready\r\n")
			// What the line has become is seen by running it: a shell draws it as it likes.
			p.keys("zkcli -server @t\tls /complete/col\t")
			p.expect(":name") // of what Tab has put there
			p.keys("\r")
			p.expect("[]")
			p.keys("zkcli ver\t\r")
			p.expect("ZooKeeper CLI version")
			p.keys("zkcli -server @t\tls --\x15exit\r")
			_ = p.exit()
		})
	}
}

// TestCompleteLine: what each shell asks for.
func TestCompleteLine(t *testing.T) {
	t.Parallel()
	server := testServer(t)
	for line, want := range map[string]string{
		"zkcli ens":             "ensembles",
		"zkcli -o ":             "text json raw",
		"zkcli -o json -wire g": "grpc",
		"zkcli -serv":           "-server",
		"zkcli help loc":        "lock",
		"zkcli completion ":     "bash zsh fish",
		"zkcli lock --g":        "--grace",
		"zkcli ls /zookeeper/c": "/zookeeper/config",
		"zkcli -timeout 300 -server 127.0.0.1:1 ls /z": "",
		"zkcli nosuch /z": "",
		"zkc":             "",
		"":                "",
	} {
		var out strings.Builder
		getenv := func(name string) string { return map[string]string{"ZKCLI_SERVER": server}[name] }
		if code := run([]string{completeWord, line}, getenv, nil, &out, &out); code != exitOK {
			t.Errorf("%q: exit code %d", line, code)
		}
		var got []string
		for l := range strings.Lines(out.String()) {
			value, _, _ := strings.Cut(strings.TrimSpace(l), "\t")
			got = append(got, value)
		}
		if s := strings.Join(got, " "); s != want {
			t.Errorf("%q: %q, want %q", line, s, want)
		}
	}
}
