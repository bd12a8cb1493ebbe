package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/zkserver/zkserver/client"
	"github.com/zkserver/zkserver/client/recipe"
)

const (
	replicas = 3 // of each partition
	patience = 2 * time.Minute
	look     = 20 * time.Millisecond // between two looks at what is waited for
)

// show starts the processes, breaks them, and looks at what becomes of the partitions.
type show struct {
	brokers, partitions int
	timeout             time.Duration
	short               bool // only the last two of the faults
	out                 io.Writer

	began   time.Time
	c       *client.Client
	files   []string // of the servers
	addrs   []string
	running map[string]*process

	mu   sync.Mutex
	said []string // by the brokers
}

// process is one of the servers or brokers.
type process struct {
	cmd    *exec.Cmd
	stdin  io.Closer
	exited chan struct{}
}

func (s *show) say(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	fmt.Fprintf(s.out, "%6.2f s  "+format+"\n", append([]any{time.Since(s.began).Seconds()}, args...)...)
}

func (s *show) run(ctx context.Context) (err error) {
	s.began, s.running = time.Now(), map[string]*process{}
	dir, err := os.MkdirTemp("", "kafkapattern-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	defer s.endAll()
	if s.files, s.addrs, err = configure(dir); err != nil {
		return err
	}
	for i := range servers {
		if err := s.startServer(i); err != nil {
			return err
		}
	}
	start, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	if s.c, err = client.Dial(start, strings.Join(s.addrs, ","), client.Options{}); err != nil {
		return err
	}
	defer func() { _ = s.c.Close() }() // the session of the show: nobody waits for its end
	s.say("three servers: %s", strings.Join(s.addrs, ","))
	if err := s.prepare(ctx); err != nil {
		return err
	}
	for id := range s.brokers {
		if err := s.startBroker(id); err != nil {
			return err
		}
	}
	if err := s.whole(ctx); err != nil {
		return err
	}
	watch, stop := context.WithCancel(ctx)
	var wg sync.WaitGroup
	var broken error
	wg.Go(func() { broken = s.observe(watch) })
	steps := []func(context.Context) error{s.killBroker, s.killController, s.killEnsembleLeader, s.stopController}
	if s.short {
		steps = steps[2:]
	}
	for _, step := range steps {
		if err = step(ctx); err == nil {
			err = s.whole(ctx)
		}
		if err != nil {
			break
		}
	}
	stop()
	wg.Wait()
	if err = errors.Join(err, broken); err == nil {
		s.say("survived: brokers, controllers and the ensemble's leader killed; a controller stopped, and fenced when it went on")
	}
	return err
}

// prepare makes the tree as an administrator does.
func (s *show) prepare(ctx context.Context) error {
	for _, path := range []string{"/brokers", idsPath, "/topics", "/topics/orders", topicPath} {
		if err := s.make(ctx, path, nil); err != nil {
			return err
		}
	}
	for i := range s.partitions {
		p := partition{Leader: nobody}
		for r := range replicas {
			p.Replicas = append(p.Replicas, (i+r)%s.brokers)
		}
		p.InSync = p.Replicas
		data, err := json.Marshal(p)
		if err != nil {
			return err
		}
		if err := s.make(ctx, partitionPath(i), data); err != nil {
			return err
		}
	}
	return nil
}

func (s *show) make(ctx context.Context, path string, data []byte) error {
	for {
		_, err := s.c.Create(ctx, path, data, client.Persistent)
		if errors.Is(err, client.ErrNodeExists) {
			return nil
		}
		if !errors.Is(err, client.ErrConnectionLoss) {
			return err
		}
	}
}

// killBroker kills one that leads a partition and is not the controller.
func (s *show) killBroker(ctx context.Context) error {
	controller, _, err := s.controller(ctx)
	if err != nil {
		return err
	}
	id := (controller + 1) % s.brokers
	s.say("--- kill broker %d", id)
	return s.away(ctx, id, nil)
}

// killController kills the controller.
func (s *show) killController(ctx context.Context) error {
	id, token, err := s.controller(ctx)
	if err != nil {
		return err
	}
	s.say("--- kill broker %d, the controller", id)
	return s.away(ctx, id, func() error { return s.succeeded(ctx, token) })
}

// killEnsembleLeader kills the server that leads the others, and the controller with it.
func (s *show) killEnsembleLeader(ctx context.Context) error {
	id, token, err := s.controller(ctx)
	if err != nil {
		return err
	}
	i := 0
	err = s.until(ctx, "a leader of the ensemble", func() bool {
		i = slices.IndexFunc(s.addrs, leads)
		return i >= 0
	})
	if err != nil {
		return err
	}
	s.say("--- kill server %d, the leader of the ensemble, and broker %d, the controller", i+1, id)
	s.end("server " + strconv.Itoa(i+1))
	if err := s.away(ctx, id, func() error { return s.succeeded(ctx, token) }); err != nil {
		return err
	}
	return s.startServer(i)
}

// away kills a broker, waits until the others have taken over, and starts it again.
func (s *show) away(ctx context.Context, id int, more func() error) error {
	began := time.Now()
	s.end(brokerName(id))
	err := s.until(ctx, fmt.Sprintf("every partition is led, none by broker %d", id), func() bool {
		return s.all(ctx, func(p partition) bool { return p.Leader != nobody && !slices.Contains(p.InSync, id) })
	})
	if err == nil && more != nil {
		err = more()
	}
	if err != nil {
		return err
	}
	s.say("every partition is led by somebody else after %.2f s; broker %d is started again", time.Since(began).Seconds(), id)
	return s.startBroker(id)
}

// stopController stops the controller as a long pause of its machine does, until another one has begun.
func (s *show) stopController(ctx context.Context) error {
	id, token, err := s.controller(ctx)
	if err != nil {
		return err
	}
	s.say("--- stop broker %d, the controller, as a pause does", id)
	p := s.running[brokerName(id)]
	if err := p.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		return err
	}
	err = s.succeeded(ctx, token)
	s.say("--- let broker %d go on", id)
	if err := errors.Join(err, p.cmd.Process.Signal(syscall.SIGCONT)); err != nil {
		return err
	}
	refused := fmt.Sprintf("fenced: a late write under token %#x was refused", token)
	return s.until(ctx, "the late write is refused", func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		return slices.ContainsFunc(s.said, func(line string) bool { return strings.Contains(line, refused) })
	})
}

// controller is who has made the newest fence.
func (s *show) controller(ctx context.Context) (id int, token int64, err error) {
	err = s.until(ctx, "a controller", func() bool {
		leader, there, err := recipe.NewElection(s.c, electionPath, recipe.Options{}).Leader(ctx)
		if err != nil || !there {
			return false
		}
		fenced, w, err := readToken(ctx, s.c)
		if err != nil {
			return false
		}
		w.Stop()
		id, err = strconv.Atoi(leader.ID)
		token = fenced
		return err == nil && leader.Token == fenced
	})
	return id, token, err
}

// succeeded waits for the next controller.
func (s *show) succeeded(ctx context.Context, token int64) error {
	return s.until(ctx, "another controller", func() bool {
		now, w, err := readToken(ctx, s.c)
		if err != nil {
			return false
		}
		w.Stop()
		return now > token
	})
}

// whole waits until every partition has all its replicas.
func (s *show) whole(ctx context.Context) error {
	err := s.until(ctx, "every partition is led and in sync", func() bool {
		return s.all(ctx, func(p partition) bool { return p.Leader != nobody && len(p.InSync) == replicas })
	})
	if err != nil {
		return err
	}
	all, err := readPartitions(ctx, s.c)
	if err != nil {
		return nil // between two looks the connection broke: there is nothing to show
	}
	var text []string
	for i, p := range all {
		text = append(text, fmt.Sprintf("%d:%d", i, p.Leader))
	}
	s.say("every partition is in sync; partition:leader %s", strings.Join(text, " "))
	return nil
}

func (s *show) all(ctx context.Context, f func(partition) bool) bool {
	all, err := readPartitions(ctx, s.c)
	return err == nil && len(all) == s.partitions && !slices.ContainsFunc(all, func(p placed) bool { return !f(p.partition) })
}

func (s *show) until(ctx context.Context, what string, f func() bool) error {
	limit := time.After(patience)
	t := time.NewTicker(look)
	defer t.Stop()
	for !f() {
		select {
		case <-t.C:
		case <-limit:
			return fmt.Errorf("not within %v: %s", patience, what)
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// observe looks at every change that it can see: the leader is one that was in sync before, the leader's epoch and the
// controller's token do not go back.
func (s *show) observe(ctx context.Context) error {
	w, err := s.c.AddWatch(ctx, topicPath, client.WatchTree)
	if err != nil {
		return err
	}
	seen := map[string]placed{}
	for {
		all, err := readPartitions(ctx, s.c)
		for _, p := range all {
			was, known := seen[p.path]
			seen[p.path] = p
			switch {
			case !known:
			case p.Controller < was.Controller || p.LeaderEpoch < was.LeaderEpoch:
				return fmt.Errorf("%s went back: %+v after %+v", p.path, p.partition, was.partition)
			case p.version == was.version+1 && p.Leader != nobody && !slices.Contains(was.InSync, p.Leader):
				return fmt.Errorf("%s is led by one that was not in sync: %+v after %+v", p.path, p.partition, was.partition)
			}
		}
		if err != nil && ctx.Err() == nil && !errors.Is(err, client.ErrConnectionLoss) {
			return err
		}
		select {
		case ev, open := <-w.C:
			if !open || ev.Type == client.EventLost {
				return fmt.Errorf("the observer's watch has ended: %w", ev.Err)
			}
		case <-ctx.Done():
			return nil
		}
	}
}

func brokerName(id int) string { return "broker " + strconv.Itoa(id) }

func (s *show) startServer(i int) error {
	log, err := os.OpenFile(filepath.Join(filepath.Dir(s.files[i]), "stderr"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer log.Close() // the child has its own
	return s.start("server "+strconv.Itoa(i+1), log, nil, "server", s.files[i])
}

func (s *show) startBroker(id int) error {
	return s.start(brokerName(id), os.Stderr, s.hear, "broker", strconv.Itoa(id), strings.Join(s.addrs, ","), s.timeout.String())
}

// hear passes on what a broker says.
func (s *show) hear(name, line string) {
	s.say("%s: %s", name, line)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.said = append(s.said, line)
}

func (s *show) start(name string, stderr *os.File, hear func(name, line string), args ...string) error {
	exe, err := os.Executable()
	if err != nil {
		return err
	}
	cmd := exec.Command(exe, args...)
	cmd.Stderr = stderr
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	p := &process{cmd: cmd, stdin: stdin, exited: make(chan struct{})}
	s.running[name] = p
	go func() { // ends with the process
		defer close(p.exited)
		for lines := bufio.NewScanner(stdout); lines.Scan(); {
			if hear != nil {
				hear(name, lines.Text())
			}
		}
		_ = cmd.Wait()
	}()
	return nil
}

// end kills a process, as kill -9 does, also one that is stopped.
func (s *show) end(name string) {
	p := s.running[name]
	delete(s.running, name)
	_ = p.cmd.Process.Kill()
	<-p.exited
	_ = p.stdin.Close()
}

func (s *show) endAll() {
	for name := range s.running {
		s.end(name)
	}
}
