//go:build linux

package hostile

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// process is one server of an ensemble, as a process of its own.
type process struct {
	id       int
	observer bool
	dir      string // configuration, log; data below
	addr     string // where it listens to clients
	via      string // the same through the network
	binary   string // zkserver; "": this program, with a disk that obeys
	env      []string
	ballast  *ballast     // of a small file system of its own; nil: none
	memory   *memoryGroup // nil: none

	cmd    *exec.Cmd
	exited chan struct{}
	disk   io.WriteCloser // commands to its disk; nil: it obeys nobody
	doomed bool           // a fault of its machine may end it
}

func (p *process) data() string { return filepath.Join(p.dir, "data") }

func (p *process) start() error {
	log, err := os.OpenFile(filepath.Join(p.dir, "server.log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer log.Close() // the process has its own
	exe := p.binary
	env := append(os.Environ(), p.env...)
	if exe == "" {
		if exe, err = os.Executable(); err != nil {
			return err
		}
		env = append(env, childEnv+"=1")
	}
	cmd := exec.Command(exe, filepath.Join(p.dir, "zoo.cfg"))
	cmd.Env, cmd.Stdout, cmd.Stderr = env, log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	p.disk = nil
	if p.binary == "" {
		if p.disk, err = cmd.StdinPipe(); err != nil {
			return err
		}
	}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("starting server %d: %w", p.id, err)
	}
	p.cmd, p.exited, p.doomed = cmd, make(chan struct{}), false
	go func(done chan struct{}) { // ends with the process
		_ = cmd.Wait()
		close(done)
	}(p.exited)
	if p.memory != nil {
		return p.memory.take(cmd.Process.Pid)
	}
	return nil
}

func (p *process) running() bool {
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

func (p *process) signal(s os.Signal) {
	if p.cmd != nil {
		_ = p.cmd.Process.Signal(s) // one that has ended hears nothing
	}
}

// kill ends the process at once, stopped or not, and waits for its end.
func (p *process) kill() {
	if p.cmd == nil {
		return
	}
	_ = p.cmd.Process.Kill()
	<-p.exited
	p.cmd = nil
}

// ended tells how a process has ended by itself, if it may not; it is then as good as killed.
func (p *process) ended() error {
	if p.cmd == nil || p.running() {
		return nil
	}
	state, doomed := p.cmd.ProcessState, p.doomed
	p.cmd = nil
	if doomed {
		return nil
	}
	return fmt.Errorf("server %d ended by itself: %s", p.id, state)
}

// tell gives its disk a command.
func (p *process) tell(command string) {
	if p.disk != nil {
		_, _ = io.WriteString(p.disk, command+"\n") // one that has ended hears nothing
	}
}

// word asks a four-letter word; "" when the server does not answer.
func (p *process) word(w string) string {
	c, err := net.DialTimeout("tcp", p.addr, time.Second)
	if err != nil {
		return ""
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(time.Second))
	if _, err := io.WriteString(c, w); err != nil {
		return ""
	}
	text, _ := io.ReadAll(c)
	return string(text)
}

// mode is leader, follower or observer, or "" while it does not serve.
func (p *process) mode() string {
	_, m, _ := strings.Cut(p.word("srvr"), "Mode: ")
	m, _, _ = strings.Cut(m, "\n")
	return m
}

// digests is the newest zxid that the server has applied, and what its tree and state come to there; nil: no answer.
func (p *process) digests() []string {
	values := map[string]string{}
	for line := range strings.SplitSeq(p.word("mntr"), "\n") {
		if k, v, ok := strings.Cut(line, "\t"); ok {
			values[k] = v
		}
	}
	if values["zk_tree_digest"] == "" {
		return nil
	}
	return []string{values["zk_last_processed_zxid"], values["zk_tree_digest"], values["zk_state_digest"]}
}

// badWords are in no log, whatever the machine does.
var badWords = []string{"panic", "DATA RACE", "mismatch", "broken invariant", "bad message", "diverge"}

// checkLog looks for what no fault of a machine may cause.
func (p *process) checkLog() error {
	text, err := os.ReadFile(filepath.Join(p.dir, "server.log"))
	if err != nil {
		return err
	}
	var faults []error
	for line := range strings.SplitSeq(string(text), "\n") {
		for _, bad := range badWords {
			if strings.Contains(line, bad) {
				faults = append(faults, fmt.Errorf("server %d: %s", p.id, line))
			}
		}
	}
	return errors.Join(faults[:min(len(faults), 5)]...)
}

// ballast fills a small file system of a server's own.
type ballast struct{ dir string }

// ballastRoom is the size of such a file system: the store wants 256 MiB free to take a snapshot.
const ballastRoom = 448 << 20

// mountSmall gives a directory a small file system, if the kernel lets it.
func mountSmall(dir string) (*ballast, error) {
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size="+strconv.Itoa(ballastRoom)); err != nil {
		return nil, err
	}
	return &ballast{dir}, nil
}

// fill leaves no room; what was there before stays.
func (b *ballast) fill() error {
	f, err := os.Create(filepath.Join(b.dir, "ballast"))
	if err != nil {
		return err
	}
	defer f.Close()
	for size := int64(64 << 20); size >= 4<<10; { // ever smaller pieces, until not even one block is left
		st, err := f.Stat()
		if err != nil {
			return err
		}
		if syscall.Fallocate(int(f.Fd()), 0, st.Size(), size) != nil {
			size /= 4
		}
	}
	return nil
}

func (b *ballast) empty() error {
	err := os.Remove(filepath.Join(b.dir, "ballast"))
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	return err
}

func (b *ballast) unmount() error { return syscall.Unmount(b.dir, syscall.MNT_DETACH) }

// memoryGroup bounds the memory of a server by a control group.
type memoryGroup struct{ dir string }

const memoryRoot = "/sys/fs/cgroup/memory"

// newMemoryGroup makes one, if the kernel has the memory controller where it always was and lets us.
func newMemoryGroup(name string) (*memoryGroup, error) {
	g := &memoryGroup{filepath.Join(memoryRoot, name)}
	if _, err := os.Stat(filepath.Join(memoryRoot, "memory.limit_in_bytes")); err != nil {
		return nil, err
	}
	return g, os.Mkdir(g.dir, 0o750)
}

func (g *memoryGroup) write(name, text string) error {
	return os.WriteFile(filepath.Join(g.dir, name), []byte(text), 0o600)
}

func (g *memoryGroup) take(pid int) error { return g.write("cgroup.procs", strconv.Itoa(pid)) }

// squeeze leaves no more than so many bytes above what is in use.
func (g *memoryGroup) squeeze(room int64) error {
	text, err := os.ReadFile(filepath.Join(g.dir, "memory.usage_in_bytes"))
	if err != nil {
		return err
	}
	used, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
	if err != nil {
		return err
	}
	return g.write("memory.limit_in_bytes", strconv.FormatInt(used+room, 10))
}

func (g *memoryGroup) release() error { return g.write("memory.limit_in_bytes", "-1") }

func (g *memoryGroup) remove() error { return os.Remove(g.dir) }
