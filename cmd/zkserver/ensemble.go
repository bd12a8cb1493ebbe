package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
)

// Bounds of the tour: it is for trying things out on one machine.
const (
	maxEnsemble = 16
	rolePoll    = 50 * time.Millisecond
	idleHeld    = 500 * time.Millisecond // what "not serving" must last to be told: a lease that lapses on a busy machine is shorter
	stopWait    = 10 * time.Second
)

type ensembleOptions struct {
	servers, observers int
	dir                string
	port               int
	tick               time.Duration
}

func ensembleCommand() *cobra.Command {
	var o ensembleOptions
	cmd := &cobra.Command{
		Use:   "ensemble",
		Short: "Run a whole ensemble on loopback, each server a process of its own",
		Long: "ensemble starts several servers on 127.0.0.1, prints a connect string and every change of role, and reads commands:\n" +
			"  kill N       end server N at once, as kill -9 does      kill leader   the same to the leader\n" +
			"  stop N       end server N by SIGTERM                    start N       start it again on its data\n" +
			"  status       one line a server                          quit          stop all and exit",
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return runEnsemble(cmd.Context(), o, cmd.InOrStdin(), cmd.OutOrStdout())
		},
	}
	cmd.Flags().IntVar(&o.servers, "servers", 3, "number of voters")
	cmd.Flags().IntVar(&o.observers, "observers", 0, "number of observers besides")
	cmd.Flags().StringVar(&o.dir, "dir", "", "where the data go, kept at the end (default: a temporary directory, removed at the end)")
	cmd.Flags().IntVar(&o.port, "port", 2181, "client port of the first server; taken ports are passed over")
	cmd.Flags().DurationVar(&o.tick, "tick", time.Second, "tickTime")
	return cmd
}

// member is one server process.
type member struct {
	id       int
	observer bool
	client   string // host:port
	cfg      string
	log      string
	cmd      *exec.Cmd // nil while it does not run
	exited   chan struct{}
	role     string    // as told
	idle     time.Time // since when it runs without a role; zero: it has one, or does not run
	fault    string    // why it ended by itself, empty if it did not
}

type ensemble struct {
	exe       string
	members   []*member
	out       io.Writer
	announced bool // the connect string was printed
}

func runEnsemble(ctx context.Context, o ensembleOptions, in io.Reader, out io.Writer) (err error) {
	switch {
	case o.servers < 1:
		return usageError{fmt.Errorf("--servers=%d: want at least one server", o.servers)}
	case o.observers < 0:
		return usageError{fmt.Errorf("--observers=%d: want 0 or more", o.observers)}
	case o.servers > maxEnsemble || o.observers > maxEnsemble-o.servers:
		return usageError{fmt.Errorf("--servers=%d --observers=%d: want at most %d in all", o.servers, o.observers, maxEnsemble)}
	}
	if o.port < 1 || o.port > 65535 {
		return usageError{fmt.Errorf("--port=%d: want a number from 1 to 65535", o.port)}
	}
	if o.tick < time.Millisecond {
		return usageError{fmt.Errorf("--tick=%s: want 1ms or more", o.tick)}
	}
	if o.dir == "" {
		if o.dir, err = os.MkdirTemp("", "zkserver-"); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, os.RemoveAll(o.dir)) }()
	}
	ctx, stop := signal.NotifyContext(ctx, endSignals()...)
	defer stop()
	e := &ensemble{out: out}
	if e.exe, err = os.Executable(); err != nil {
		return err
	}
	if err = e.prepare(o); err != nil {
		return err
	}
	defer e.stopAll()
	for _, m := range e.members {
		if err := e.start(m); err != nil {
			return err
		}
	}
	fmt.Fprintf(out, "logs and data in %s; type help for commands\n", o.dir)
	return e.serve(ctx, in)
}

// endSignals are those after which the servers are stopped. SIGHUP and SIGPIPE are among them because a terminal that is
// closed, or a reader of the output that is gone, would else leave the servers behind; under nohup SIGHUP stays ignored.
func endSignals() []os.Signal {
	signals := []os.Signal{syscall.SIGTERM, syscall.SIGINT, syscall.SIGPIPE}
	if !signal.Ignored(syscall.SIGHUP) {
		signals = append(signals, syscall.SIGHUP)
	}
	return signals
}

// prepare chooses ports and writes the configuration files.
func (e *ensemble) prepare(o ensembleOptions) error {
	n := o.servers + o.observers
	clients, err := freePorts(o.port, n)
	if err != nil {
		return err
	}
	peers, err := freePorts(clients[n-1]+700, 2*n)
	if err != nil {
		return err
	}
	var lines strings.Builder
	for i := range n {
		role := "participant"
		if i >= o.servers {
			role = "observer"
		}
		fmt.Fprintf(&lines, "server.%d=127.0.0.1:%d:%d:%s;127.0.0.1:%d\n", i+1, peers[2*i], peers[2*i+1], role, clients[i])
	}
	for i := range n {
		dir := filepath.Join(o.dir, strconv.Itoa(i+1))
		if err := os.MkdirAll(dir, 0o750); err != nil {
			return err
		}
		m := &member{
			id: i + 1, observer: i >= o.servers, client: net.JoinHostPort("127.0.0.1", strconv.Itoa(clients[i])),
			cfg: filepath.Join(dir, "zoo.cfg"), log: filepath.Join(dir, "log.json"),
		}
		text := fmt.Sprintf("tickTime=%d\ninitLimit=10\nsyncLimit=5\ndataDir=%s\nmaxClientCnxns=0\n4lw.commands.whitelist=*\n%s", o.tick.Milliseconds(), dir, lines.String())
		if err := os.WriteFile(m.cfg, []byte(text), 0o600); err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(dir, "myid"), []byte(strconv.Itoa(m.id)+"\n"), 0o600); err != nil {
			return err
		}
		e.members = append(e.members, m)
	}
	return nil
}

// freePorts finds n ports from first upwards on which nothing listens.
func freePorts(first, n int) ([]int, error) {
	var out []int
	for p := first; p <= 65535 && len(out) < n; p++ {
		l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(p)))
		if err != nil {
			continue
		}
		if err := l.Close(); err != nil {
			return nil, err
		}
		out = append(out, p)
	}
	if len(out) < n {
		return nil, fmt.Errorf("fewer than %d free ports from %d upwards", n, first)
	}
	return out, nil
}

func (e *ensemble) start(m *member) error {
	if m.cmd != nil {
		return fmt.Errorf("server %d runs already", m.id)
	}
	log, err := os.OpenFile(m.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer log.Close() // the child has its own
	cmd := exec.Command(e.exe, m.cfg)
	cmd.Stderr = log
	cmd.SysProcAttr = childAttr()
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("starting server %d: %w", m.id, err)
	}
	m.cmd, m.exited, m.fault = cmd, make(chan struct{}), ""
	go func(done chan struct{}) { // ends with the process
		_ = cmd.Wait()
		close(done)
	}(m.exited)
	return nil
}

// end signals a member and waits for its end; a member that ignores SIGTERM is killed.
func (e *ensemble) end(m *member, sig os.Signal) error {
	if m.cmd == nil {
		return fmt.Errorf("server %d does not run", m.id)
	}
	if err := m.cmd.Process.Signal(sig); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	select {
	case <-m.exited:
	case <-time.After(stopWait):
		_ = m.cmd.Process.Kill()
		<-m.exited
	}
	m.cmd = nil
	return nil
}

func (e *ensemble) stopAll() {
	for _, m := range e.members {
		if m.cmd != nil {
			_ = m.cmd.Process.Signal(syscall.SIGTERM)
		}
	}
	for _, m := range e.members {
		if m.cmd != nil {
			_ = e.end(m, syscall.SIGTERM)
		}
	}
}

// serve prints role changes and obeys commands until quit, a signal, or (with standard input at its end) for ever.
func (e *ensemble) serve(ctx context.Context, in io.Reader) error {
	lines := make(chan string)
	go func() { // ends with its reader, at the latest with the process
		defer close(lines)
		for s := bufio.NewScanner(in); s.Scan(); {
			select {
			case lines <- s.Text():
			case <-ctx.Done():
				return
			}
		}
	}()
	poll := time.NewTicker(rolePoll)
	defer poll.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-poll.C:
			e.poll()
		case line, ok := <-lines:
			if !ok {
				lines = nil // run on without commands, as under nohup
				fmt.Fprintln(e.out, "end of input: no more commands; Ctrl-C or SIGTERM stops all")
				continue
			}
			if quit := e.obey(strings.Fields(line)); quit {
				return nil
			}
		}
	}
}

// poll asks each server for its role and prints what changed. The connect string comes once every server that runs has
// joined: until then the loss of one voter can leave the rest without a quorum that ever held the same history.
func (e *ensemble) poll() {
	serving, running := 0, 0
	defer func() {
		if !e.announced && running > 0 && serving == running {
			e.announced = true
			addrs := make([]string, 0, len(e.members))
			for _, m := range e.members {
				addrs = append(addrs, m.client)
			}
			fmt.Fprintf(e.out, "connect %s\n", strings.Join(addrs, ","))
		}
	}()
	for _, m := range e.members {
		role := m.ask()
		if m.changed(role, time.Now()) {
			fmt.Fprintln(e.out, m)
		}
		switch role {
		case roleDown:
		case roleStarting, roleIdle:
			running++
		default:
			running++
			serving++
		}
	}
}

// changed takes what a server is now, and reports whether that is to be told.
func (m *member) changed(role string, now time.Time) bool {
	switch {
	case role != roleIdle && role != roleStarting:
		m.idle = time.Time{}
	case m.idle.IsZero():
		m.idle = now
	}
	held := m.idle.IsZero() || now.Sub(m.idle) >= idleHeld || m.role == "" || m.role == roleDown
	if role == m.role || !held {
		return false
	}
	m.role = role
	return true
}

// String is the line of a server.
func (m *member) String() string {
	s := fmt.Sprintf("server %d (%s): %s", m.id, m.client, m.role)
	if m.role == roleDown && m.fault != "" {
		s += ", " + m.fault
	}
	return s
}

// What a server is while it has no role.
const (
	roleDown     = "down"
	roleStarting = "starting"
	roleIdle     = "not serving" // it answers without a mode
)

// ask is a server's mode by its word srvr.
func (m *member) ask() string {
	if m.cmd != nil {
		select {
		case <-m.exited:
			m.fault = fmt.Sprintf("ended by itself (%s), see %s", m.cmd.ProcessState, m.log)
			m.cmd = nil
		default:
		}
	}
	if m.cmd == nil {
		return roleDown
	}
	c, err := net.DialTimeout("tcp", m.client, time.Second)
	if err != nil {
		return roleStarting
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(time.Second))
	if _, err := io.WriteString(c, "srvr"); err != nil {
		return roleStarting
	}
	text, _ := io.ReadAll(io.LimitReader(c, 1<<16))
	_, mode, ok := strings.Cut(string(text), "Mode: ")
	if !ok {
		return roleIdle
	}
	mode, _, _ = strings.Cut(mode, "\n")
	return mode
}

const ensembleHelp = "kill N|leader   stop N|leader   start N   status   quit"

func (e *ensemble) obey(words []string) (quit bool) {
	if len(words) == 0 {
		return false
	}
	switch words[0] {
	case "quit", "exit":
		return true
	case "help":
		fmt.Fprintln(e.out, ensembleHelp)
		return false
	case "status":
		for _, m := range e.members {
			m.role = m.ask()
			fmt.Fprintln(e.out, m)
		}
		return false
	case "kill", "stop", "start", "restart":
	default:
		fmt.Fprintf(e.out, "unknown command %q; allowed: %s\n", words[0], ensembleHelp)
		return false
	}
	m, err := e.find(words[1:])
	if err == nil {
		switch words[0] {
		case "kill":
			err = e.end(m, syscall.SIGKILL)
		case "stop":
			err = e.end(m, syscall.SIGTERM)
		case "start", "restart":
			err = e.start(m)
		}
	}
	if err != nil {
		fmt.Fprintln(e.out, err)
	}
	return false
}

func (e *ensemble) find(args []string) (*member, error) {
	if len(args) == 1 {
		for _, m := range e.members {
			if args[0] == strconv.Itoa(m.id) || args[0] == "leader" && m.ask() == "leader" {
				return m, nil
			}
		}
		if args[0] == "leader" {
			return nil, errors.New("there is no leader now")
		}
	}
	return nil, fmt.Errorf("want a server's number from 1 to %d, or leader", len(e.members))
}
