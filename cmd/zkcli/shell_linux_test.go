package main

import (
	"bytes"
	"errors"
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

	"golang.org/x/sys/unix"

	"github.com/zkserver/zkserver/client"
)

// terminal is a pseudo terminal with zkcli at its other end.
type terminal struct {
	t      *testing.T
	master *os.File
	cmd    *exec.Cmd
	ended  chan struct{} // zkcli has closed its end

	mu   sync.Mutex
	text bytes.Buffer // all that was shown
	more chan struct{}
	seen int // up to here expect has looked
}

func openTerminal(t *testing.T, env ...string) *terminal {
	t.Helper()
	return openTerminalFor(t, nil, env...)
}

// openTerminalFor runs zkcli with arguments, or another program if the first one is a path.
func openTerminalFor(t *testing.T, args []string, env ...string) *terminal {
	t.Helper()
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	if err != nil {
		t.Skip("no pseudo terminal here: ", err)
	}
	n, err := unix.IoctlGetInt(int(master.Fd()), unix.TIOCGPTN)
	if err == nil {
		err = unix.IoctlSetPointerInt(int(master.Fd()), unix.TIOCSPTLCK, 0)
	}
	if err == nil {
		err = unix.IoctlSetWinsize(int(master.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: 40, Col: 120})
	}
	if err != nil {
		t.Fatal(err)
	}
	slave, err := os.OpenFile("/dev/pts/"+strconv.Itoa(n), os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer slave.Close()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	if len(args) > 0 && args[0][0] == '/' {
		exe, args = args[0], args[1:]
	}
	p := &terminal{t: t, master: master, cmd: exec.Command(exe, args...), more: make(chan struct{}, 1), ended: make(chan struct{})}
	p.cmd.Env = append(os.Environ(), append([]string{asProgram + "=1", "TERM=xterm", "NO_COLOR=1", "GORACE=atexit_sleep_ms=0", "TZ=UTC", "ZKCLI_CONFIG=/nowhere/zkcli"}, env...)...)
	p.cmd.Stdin, p.cmd.Stdout, p.cmd.Stderr = slave, slave, slave
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go p.read() // ends with the program
	t.Cleanup(func() {
		_ = p.cmd.Process.Kill() // long gone, if all is well
		<-p.ended
		_ = master.Close()
	})
	return p
}

func (p *terminal) read() {
	defer close(p.ended)
	buf := make([]byte, 4096)
	for {
		n, err := p.master.Read(buf)
		p.mu.Lock()
		p.text.Write(buf[:n])
		p.mu.Unlock()
		select {
		case p.more <- struct{}{}:
		default:
		}
		if err != nil {
			return
		}
	}
}

// expect waits until want is shown behind what was expected before.
func (p *terminal) expect(want string) {
	p.t.Helper()
	deadline := time.After(time.Minute)
	for {
		p.mu.Lock()
		rest := p.text.String()[p.seen:]
		if i := strings.Index(rest, want); i >= 0 {
			p.seen += i + len(want)
			p.mu.Unlock()
			return
		}
		p.mu.Unlock()
		select {
		case <-p.more:
		case <-deadline:
			_ = p.cmd.Process.Signal(syscall.SIGQUIT) // its goroutines say where it waits
			select {
			case <-p.ended:
			case <-time.After(5 * time.Second):
			}
			p.mu.Lock()
			defer p.mu.Unlock()
			p.t.Fatalf("never shown: %q; shown was %q\nall of it: %q\nand at the end: %s", want, rest, p.text.String()[:p.seen], p.text.String()[p.seen:])
		}
	}
}

// exit waits for the end, and gives the exit code.
func (p *terminal) exit() int {
	p.t.Helper()
	timer := time.AfterFunc(time.Minute, func() { _ = p.cmd.Process.Kill() })
	defer timer.Stop()
	err := p.cmd.Wait()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		p.t.Fatal(err)
	}
	return p.cmd.ProcessState.ExitCode()
}

// shown is all that was shown by now.
func (p *terminal) shown() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.text.String()
}

func (p *terminal) keys(s string) {
	p.t.Helper()
	if _, err := p.master.WriteString(s); err != nil {
		p.t.Fatal(err)
	}
}

// TestShell types into the shell: prompt, completion, history, events, and the end.
func TestShell(t *testing.T) {
	t.Parallel()
	server := testServer(t)
	file := filepath.Join(t.TempDir(), "history")
	if err := os.WriteFile(file, []byte("ls /from-before\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	p := openTerminal(t, "ZKCLI_SERVER="+server, "ZKCLI_HISTORY="+file)
	prompt := func(n string) { t.Helper(); p.expect("[zk: " + server + "(CONNECTED) " + n + "] ") }

	prompt("0")
	p.keys("create /services\r")
	p.expect("Created /services\r\n")
	prompt("1")
	p.keys("crea\t")
	p.expect("create")
	p.keys("/ser\t") // behind the blank that Tab has put there
	p.expect("create /services")
	p.keys("/web hello\r")
	p.expect("Created /services/web\r\n")
	prompt("2")
	p.keys("get -w /services/w\t")
	p.expect("get -w /services/web")
	p.keys("\r")
	p.expect("hello\r\n")
	prompt("3")
	p.keys("set /services/web $'a\\x1bb'\r")
	p.expect("WatchedEvent state:SyncConnected type:NodeDataChanged path:/services/web zxid: ")
	p.keys("get /services/web\r")
	p.expect("a\\x1bb\r\n") // on a terminal control characters are escaped
	prompt("5")
	p.keys("never run")
	p.expect("never run") // until it reads keys itself, Ctrl-C is the terminal's
	p.keys("\x03")
	prompt("5")
	p.keys("addauth digest me:secret\r")
	prompt("6")
	p.keys("\x1b[A\x1b[A\r") // twice up
	p.expect("a\\x1bb\r\n")
	prompt("7")
	p.keys("close\r")
	p.expect("[zk: " + server + "(CLOSED) 8] ")
	p.keys("connect\r")
	prompt("9")
	p.keys("ls /none\r")
	p.expect("Node does not exist: /none\r\n")
	prompt("10")
	p.keys("\x04")
	var exit *exec.ExitError
	if err := p.cmd.Wait(); !errors.As(err, &exit) || exit.ExitCode() != exitNoNode {
		t.Errorf("ended with %v, want the last command's exit code", err)
	}
	kept, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if s := string(kept); !strings.HasPrefix(s, "ls /from-before\ncreate /services\n") || !strings.HasSuffix(s, "ls /none\n") || strings.Contains(s, "secret") {
		t.Errorf("kept history: %q", s)
	}
}

// TestShellWatch: in the shell too, watch tells each event once; Ctrl-C is its end.
func TestShellWatch(t *testing.T) {
	t.Parallel()
	server := testServer(t)
	ctx, c := dial(t, server)
	if _, err := c.Create(ctx, "/told", nil, client.Persistent); err != nil {
		t.Fatal(err)
	}
	change := func() {
		t.Helper()
		if _, err := c.Set(ctx, "/told", nil, client.AnyVersion); err != nil {
			t.Fatal(err)
		}
	}
	p := openTerminal(t, "ZKCLI_SERVER="+server, "ZKCLI_HISTORY="+filepath.Join(t.TempDir(), "history"))
	p.expect("(CONNECTED) 0] ")
	p.keys("watch -r /told\r")
	p.expect("watching /told")
	change()
	p.expect(" NodeDataChanged /told\r\n")
	p.keys("\x03")
	p.expect("(CONNECTED) 1] ")
	p.keys("get -w /told\r")
	p.expect("(CONNECTED) 2] ")
	change()
	p.expect("type:NodeDataChanged path:/told")
	if n := strings.Count(p.shown(), "WATCHER::"); n != 1 {
		t.Errorf("%d events, want one:\n%s", n, p.shown())
	}
	p.keys("quit\r")
	if code := p.exit(); code != exitOK {
		t.Errorf("exit code %d", code)
	}
	for _, tc := range []struct {
		args []string
		code int
	}{{[]string{"watch", "/told"}, exitOK}, {[]string{"watch", "-c", "2", "/told"}, exitSignal + 2}} {
		p := openTerminalFor(t, tc.args, "ZKCLI_SERVER="+server)
		p.expect("watching /told\r\n")
		p.keys("\x03")
		p.expect("^C\r\n")
		if code := p.exit(); code != tc.code {
			t.Errorf("%q: exit code %d, want %d", tc.args, code, tc.code)
		}
	}
}

// TestShellInterrupt: Ctrl-C ends a command that waits, and the shell goes on.
func TestShellInterrupt(t *testing.T) {
	t.Parallel()
	server := testServer(t)
	silent, err := net.Listen("tcp", "127.0.0.1:0") // accepts, answers nothing
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = silent.Close() })
	p := openTerminal(t, "ZKCLI_SERVER="+server, "ZKCLI_HISTORY="+filepath.Join(t.TempDir(), "history"))
	p.expect("(CONNECTED) 0] ")
	p.keys("connect " + silent.Addr().String() + "\r")
	c, err := silent.Accept() // the command runs
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	start := time.Now()
	p.keys("\x03")
	p.expect("(CLOSED) 1] ")
	if d := time.Since(start); d > 20*time.Second { // without Ctrl-C it waits thirty
		t.Errorf("Ctrl-C took %s", d)
	}
	p.keys("connect " + server + "\r")
	p.expect("(CONNECTED) 2] ")
	p.keys("quit\r")
	if err := p.cmd.Wait(); err != nil {
		t.Error(err)
	}
}

// TestPromptFits: the list of servers is cut before the prompt leaves no room for typing.
func TestPromptFits(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		server  string
		columns int
		want    string
	}{
		{"a:2181", 80, "[zk: a:2181(CLOSED) 0] "},
		{"a.example.com:2181,b.example.com:2181", 0, "[zk: a.example.com:2181,b.example.com:2181(CLOSED) 0] "},
		{"a.example.com:2181,b.example.com:2181", 200, "[zk: a.example.com:2181,b.example.com:2181(CLOSED) 0] "},
		{"a.example.com:2181,b.example.com:2181", 80, "[zk: a.example.com:2181,...(CLOSED) 0] "},
		{"a.example.com:2181,b.example.com:2181", 40, "[zk: ...(CLOSED) 0] "},
	} {
		s := &session{o: options{server: c.server}}
		if got := s.prompt(c.columns); got != c.want {
			t.Errorf("%s in %d columns: %q, want %q", c.server, c.columns, got, c.want)
		}
	}
}
