package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"

	"github.com/zkserver/zkserver/proto/jute"
)

// The tests of this file are named after the entries of docs/field-reports.md.

// refuses runs a server that is not to come up, and returns what it says and how long it took. It must end by itself
// with the exit code, and nobody may have been able to connect to the port of its clients.
func (p *proc) refuses(code int, args ...string) (text string, took time.Duration) {
	p.t.Helper()
	exe, err := os.Executable()
	if err != nil {
		p.t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, exe, append([]string{filepath.Join(p.dir, "zoo.cfg")}, args...)...)
	cmd.Env = append(os.Environ(), childEnv+"=1")
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	began := time.Now()
	if err := cmd.Start(); err != nil {
		p.t.Fatal(err)
	}
	done, open := make(chan struct{}), make(chan bool, 1)
	go func() { // ends with done
		for {
			if c, err := net.Dial("tcp", p.addr); err == nil {
				c.Close()
				open <- true
				return
			}
			select {
			case <-done:
				open <- false
				return
			case <-time.After(2 * time.Millisecond):
			}
		}
	}()
	err = cmd.Wait()
	took = time.Since(began)
	close(done)
	if <-open {
		p.t.Error("a port was opened before the refusal")
	}
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.ExitCode() != code {
		p.t.Errorf("ended with %v, want exit code %d: %s", err, code, out.String())
	}
	return out.String(), took
}

// edit rewrites a file of a server.
func (p *proc) edit(name string, change func(string) string) {
	p.t.Helper()
	text, err := os.ReadFile(filepath.Join(p.dir, name))
	if err != nil {
		p.t.Fatal(err)
	}
	p.write(name, change(string(text)))
}

func (p *proc) log() string {
	p.t.Helper()
	text, err := os.ReadFile(filepath.Join(p.dir, "server.log"))
	if err != nil {
		p.t.Fatal(err)
	}
	return string(text)
}

// stop ends the process in an orderly way.
func (p *proc) stop() {
	p.t.Helper()
	p.signal(syscall.SIGTERM)
	<-p.exited
	p.cmd = nil
}

// exit waits for a process that ends by itself.
func (p *proc) exit(code int) {
	p.t.Helper()
	select {
	case <-p.exited:
	case <-time.After(patience):
		p.t.Fatalf("server %d does not end", p.id)
	}
	if got := p.cmd.ProcessState.ExitCode(); got != code {
		p.t.Fatalf("server %d ended with %d, want %d", p.id, got, code)
	}
	p.cmd = nil
}

// lines counts the lines of a text.
func lines(text string) int { return strings.Count(strings.TrimSpace(text), "\n") + 1 }

// TestFieldF2BadMyID: one line names the file and what it must hold; the process ends at once.
func TestFieldF2BadMyID(t *testing.T) {
	p := newEnsemble(t, 3, 0, "")[0]
	for _, c := range []struct{ myid, want string }{
		{"-", "myid file is missing"}, {"", "is not a number from 1 to 254"}, {"one", `"one" is not a number from 1 to 254`},
		{"4", "there is no server.4 line; there are lines for 1, 2, 3"},
	} {
		if c.myid == "-" {
			if err := os.Remove(filepath.Join(p.dir, "myid")); err != nil {
				t.Fatal(err)
			}
		} else {
			p.write("myid", c.myid)
		}
		text, took := p.refuses(exitUsage)
		if lines(text) != 1 || !strings.Contains(text, c.want) || !strings.Contains(text, filepath.Join(p.dir, "myid")) {
			t.Errorf("myid %q: %s", c.myid, text)
		}
		if took > 5*time.Second { // a second on a machine that does nothing else
			t.Errorf("myid %q: it took %v", c.myid, took)
		}
	}
}

// TestFieldF3BadConfiguration: an impossible value is refused with file, line and key.
func TestFieldF3BadConfiguration(t *testing.T) {
	p := newEnsemble(t, 1, 0, "unknownThing=1\ninitLimit=-3\n")[0]
	text, _ := p.refuses(exitUsage)
	if lines(text) != 1 || !regexp.MustCompile(`zoo\.cfg:\d+: initLimit=-3`).MatchString(text) {
		t.Error(text)
	}
	p.edit("zoo.cfg", func(s string) string { return strings.Replace(s, "initLimit=-3\n", "", 1) })
	p.start()
	p.serve()
	if s := p.log(); !strings.Contains(s, `"level":"warn","key":"unknownThing"`) {
		t.Errorf("no warning of the unknown key: %s", s)
	}
}

// TestFieldF4PortTaken: without its client or quorum port a server does not stay up half alive. The election port is not
// used: whoever has it disturbs nobody.
func TestFieldF4PortTaken(t *testing.T) {
	ps := newEnsemble(t, 3, 0, "")
	p := ps[0]
	text, err := os.ReadFile(filepath.Join(p.dir, "zoo.cfg"))
	if err != nil {
		t.Fatal(err)
	}
	m := regexp.MustCompile(`server\.1=127\.0\.0\.1:(\d+):(\d+):`).FindSubmatch(text)
	_, client, _ := net.SplitHostPort(p.addr)
	occupy := func(port string) net.Listener {
		t.Helper()
		l, err := net.Listen("tcp", "127.0.0.1:"+port)
		if err != nil {
			t.Fatal(err)
		}
		return l
	}
	for _, port := range []string{client, string(m[1])} {
		l := occupy(port)
		addr := p.addr
		if port == client {
			p.addr = "127.0.0.1:1" // nobody: the occupant takes connections
		}
		text, _ := p.refuses(exitFault)
		p.addr = addr
		if last := text[strings.LastIndex(strings.TrimSpace(text), "\n")+1:]; !strings.Contains(last, ":"+port) {
			t.Errorf("port %s taken: %s", port, last)
		}
		l.Close()
	}
	defer occupy(string(m[2])).Close()
	startAll(ps)
}

// grpcServing asks the gRPC health service.
func (p *proc) grpcServing() healthpb.HealthCheckResponse_ServingStatus {
	p.t.Helper()
	c, err := grpc.NewClient(p.addr, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		p.t.Fatal(err)
	}
	defer c.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	r, err := healthpb.NewHealthClient(c).Check(ctx, &healthpb.HealthCheckRequest{})
	if err != nil {
		p.t.Fatal(err)
	}
	return r.Status
}

// TestFieldF6NotServing: a server without a quorum is alive, and says everywhere that it does not serve. The sessions
// live on when the others come back before their time is over (C20).
func TestFieldF6NotServing(t *testing.T) {
	ps := newEnsemble(t, 3, 0, "")
	startAll(ps)
	until(t, "gRPC health says that it serves", func() bool { return ps[0].grpcServing() == healthpb.HealthCheckResponse_SERVING })
	const timeout = 3 * time.Second
	var sessions []*rawConn
	for i := range 9 {
		c := mustDial(t, ps[i%3].addr, timeout)
		e := create(fmt.Sprintf("/c20-%d", i), "")
		e.Flags = 1
		c.must(jute.OpCreate, e, nil)
		sessions = append(sessions, c)
	}
	last := time.Now()
	ps[1].kill()
	ps[2].kill()
	const silent = "This ZooKeeper instance is not currently serving requests"
	until(t, "server 1 says that it does not serve", func() bool { return strings.HasPrefix(ps[0].word("srvr"), silent) })
	if w := ps[0].word("ruok"); w != "imok" {
		t.Errorf("ruok: %q", w)
	}
	if w := ps[0].word("mntr"); !strings.HasPrefix(w, silent) {
		t.Errorf("mntr: %q", w)
	}
	if w := ps[0].word("isro"); w != "null" {
		t.Errorf("isro: %q", w)
	}
	until(t, "gRPC health says so", func() bool { return ps[0].grpcServing() == healthpb.HealthCheckResponse_NOT_SERVING })
	if c, err := dialRaw(t, ps[0].addr, timeout, nil); err == nil {
		c.c.Close()
		t.Error("a session without a quorum")
	}
	// C20: for a good part of their time nobody serves.
	<-time.After(time.Until(last.Add(timeout / 4)))
	ps[1].start()
	ps[2].start()
	for _, p := range ps {
		p.serve()
	}
	var back []*rawConn
	for i, old := range sessions {
		var c *rawConn
		until(t, "a session is back", func() bool {
			var err error
			c, err = dialRaw(t, ps[(i+1)%3].addr, timeout, old)
			if errors.Is(err, errRefused) {
				t.Fatalf("session %#x is gone", uint64(old.session))
			}
			return err == nil
		})
		t.Cleanup(func() { c.c.Close() })
		if c.session != old.session || c.timeout != old.timeout {
			t.Errorf("session %#x of %v came back as %#x of %v", uint64(old.session), old.timeout, uint64(c.session), c.timeout)
		}
		back = append(back, c)
	}
	// And nothing is deleted behind the backs of its living owners.
	for end := time.Now().Add(timeout + timeout/8); time.Now().Before(end); <-time.After(timeout / 4) {
		for i, c := range back {
			var st jute.GetDataResponse
			c.must(jute.OpGetData, get(fmt.Sprintf("/c20-%d", i), false), &st)
			if st.Stat.EphemeralOwner != c.session {
				t.Fatalf("/c20-%d is of %#x", i, uint64(st.Stat.EphemeralOwner))
			}
		}
	}
}

// TestFieldF12LogNoise: probes that connect and go leave no line in the log.
func TestFieldF12LogNoise(t *testing.T) {
	ps := newEnsemble(t, 3, 0, "")
	startAll(ps)
	m := regexp.MustCompile(`server\.1=127\.0\.0\.1:(\d+):`).FindStringSubmatch(func() string {
		text, err := os.ReadFile(filepath.Join(ps[0].dir, "zoo.cfg"))
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}())
	before := ps[0].log()
	for range rounds(50, 600) {
		for _, addr := range []string{ps[0].addr, "127.0.0.1:" + m[1]} {
			c, err := net.Dial("tcp", addr)
			if err != nil {
				t.Fatal(err)
			}
			c.Close()
		}
		if w := ps[0].word("ruok"); w != "imok" {
			t.Fatal(w)
		}
	}
	ps[0].stop()
	after := ps[0].log()[len(before):]
	for _, line := range strings.Split(strings.TrimSpace(after), "\n") {
		if i := strings.Index(line, `"stopping"`); i >= 0 {
			break // the end of the test
		}
		t.Errorf("logged: %s", line)
	}
}

// TestFieldA4DiskFull: the disk of a follower runs full, then that of the leader. The server whose disk is full says one
// line and ends; the others go on; with room and a restart all trees are equal.
func TestFieldA4DiskFull(t *testing.T) {
	ps := newEnsemble(t, 3, 0, "")
	const room = 512 << 20
	for _, p := range ps {
		data := filepath.Join(p.dir, "data")
		if err := os.Mkdir(data, 0o750); err != nil {
			t.Fatal(err)
		}
		if err := syscall.Mount("tmpfs", data, "tmpfs", 0, fmt.Sprintf("size=%d", room)); err != nil {
			t.Skipf("no file systems can be mounted here (%v); server/store tests a full disk by injected errors", err)
		}
		t.Cleanup(func() { _ = syscall.Unmount(data, syscall.MNT_DETACH) })
		p.edit("zoo.cfg", func(s string) string { return strings.Replace(s, "dataDir="+p.dir, "dataDir="+data, 1) })
		p.write("data/myid", strconv.Itoa(p.id))
	}
	resize := func(p *proc, size uint64) {
		t.Helper()
		if err := syscall.Mount("tmpfs", filepath.Join(p.dir, "data"), "tmpfs", syscall.MS_REMOUNT, fmt.Sprintf("size=%d", size)); err != nil {
			t.Fatal(err)
		}
	}
	startAll(ps)
	value := strings.Repeat("v", 1024)
	n := 0
	for _, role := range []string{"follower", "leader"} {
		leader := leaderOf(t, ps)
		full, other := ps[leader.id%3], ps[(leader.id+1)%3]
		if role == "leader" {
			full = leader
		}
		var u syscall.Statfs_t
		if err := syscall.Statfs(filepath.Join(full.dir, "data"), &u); err != nil {
			t.Fatal(err)
		}
		resize(full, (u.Blocks-u.Bfree)*uint64(u.Bsize)+256<<10)
		until(t, "the low disk is counted", func() bool { return full.mntr("zk_disk_low_count") == "1" })
		c := mustDial(t, other.addr, 20*time.Second)
		acked := n
		for ended := false; !ended; {
			h, err := c.call(jute.OpCreate, create(fmt.Sprintf("/n%d", n), value), nil)
			n++
			switch {
			case err != nil && role == "leader": // the leader went with a write under way
				c = mustDial(t, other.addr, 20*time.Second)
			case err != nil || h.Err != 0:
				t.Fatalf("write %d beside a full disk of the %s: %v %v", n, role, h.Err, err)
			default:
				acked = n
			}
			select {
			case <-full.exited:
				ended = true
			default:
				if n > 100_000 {
					t.Fatal("the disk does not get full")
				}
			}
		}
		full.exit(exitFault)
		s := full.log()
		if got := strings.Count(s, `"message":"fatal: this server stops"`); got != 1 || !strings.Contains(s, "no space left on device") {
			t.Errorf("%d lines say why it stops: %s", got, s[max(0, len(s)-2000):])
		}
		if !strings.Contains(s, "the disk is nearly full") {
			t.Error("no warning before")
		}
		c = mustDial(t, other.addr, 20*time.Second) // the quorum goes on
		for range 20 {
			c.must(jute.OpCreate, create(fmt.Sprintf("/n%d", n), value), nil)
			n++
		}
		resize(full, room)
		full.start()
		full.serve()
		sameDigests(t, ps)
		t.Logf("%s: full after %d writes", role, acked)
	}
}

// TestFieldA9OtherDirectories: the directory of another server, and that of another ensemble.
func TestFieldA9OtherDirectories(t *testing.T) {
	ps := newEnsemble(t, 3, 0, "")
	startAll(ps)
	c := mustDial(t, leaderOf(t, ps).addr, 20*time.Second)
	c.must(jute.OpCreate, create("/ours", ""), nil)
	killAll(ps)()
	stores := func(p *proc) []string {
		t.Helper()
		names, err := filepath.Glob(filepath.Join(p.dir, "*"))
		if err != nil {
			t.Fatal(err)
		}
		var out []string
		for _, n := range names {
			if b := filepath.Base(n); b == "log" || strings.HasPrefix(b, "state.") {
				out = append(out, n)
			}
		}
		return out
	}
	move := func(p *proc, to string) {
		t.Helper()
		if err := os.MkdirAll(to, 0o750); err != nil {
			t.Fatal(err)
		}
		for _, n := range stores(p) {
			if err := os.Rename(n, filepath.Join(to, filepath.Base(n))); err != nil {
				t.Fatal(err)
			}
		}
	}
	aside := t.TempDir()
	move(ps[2], filepath.Join(aside, "3"))
	if err := os.CopyFS(ps[2].dir, os.DirFS(ps[1].dir)); err == nil {
		t.Fatal("the copy overwrote files")
	}
	for _, n := range stores(ps[1]) {
		if err := os.CopyFS(filepath.Join(ps[2].dir, filepath.Base(n)), os.DirFS(n)); err != nil {
			t.Fatal(err)
		}
	}
	text, _ := ps[2].refuses(exitFault)
	if !strings.Contains(text, "belongs to server 2, this is server 3") {
		t.Error(text)
	}
	// Another ensemble of the same addresses; its third server then turns up in the first.
	move(ps[2], filepath.Join(aside, "copy"))
	move(ps[0], filepath.Join(aside, "1"))
	move(ps[1], filepath.Join(aside, "2"))
	startAll(ps)
	c = mustDial(t, leaderOf(t, ps).addr, 20*time.Second)
	c.must(jute.OpCreate, create("/theirs", ""), nil)
	sameDigests(t, ps)
	killAll(ps)()
	for _, p := range ps[:2] {
		move(p, filepath.Join(aside, "theirs", strconv.Itoa(p.id)))
		for _, n := range []string{"log", "state.0.1"} {
			if err := os.Rename(filepath.Join(aside, strconv.Itoa(p.id), n), filepath.Join(p.dir, n)); err != nil {
				t.Fatal(err)
			}
		}
	}
	ps[2].start()
	startAll(ps[:2])
	c = mustDial(t, ps[0].addr, 20*time.Second)
	if h, err := c.call(jute.OpExists, get("/ours", false), nil); err != nil || h.Err != 0 {
		t.Errorf("/ours: %v %v", h.Err, err)
	}
	until(t, "the stranger is named", func() bool {
		return strings.Contains(ps[0].log(), `"foreign ensemble"`) && strings.Contains(ps[2].log(), `"foreign ensemble"`)
	})
	if m := ps[2].mode(); m != "" {
		t.Errorf("a server of another ensemble serves as %s", m)
	}
}

// TestFieldA10WrongDirectories: the two directories exchanged are refused by name; a blank behind a path changes nothing.
// So is damage of the log before its tail (A3).
func TestFieldA10WrongDirectories(t *testing.T) {
	p := newEnsemble(t, 1, 0, "")[0]
	data, wal := filepath.Join(p.dir, "data"), filepath.Join(p.dir, "wal")
	if err := os.MkdirAll(data, 0o750); err != nil {
		t.Fatal(err)
	}
	was := "dataDir=" + p.dir + "\n"
	dirs := func(d, w string) {
		p.edit("zoo.cfg", func(s string) string { return strings.Replace(s, was, "dataDir="+d+"\ndataLogDir="+w+"\n", 1) })
		was = "dataDir=" + d + "\ndataLogDir=" + w + "\n"
	}
	dirs(data, wal)
	startAll([]*proc{p})
	write(t, p, "/a", 3000)
	p.kill()
	dirs(wal, data)
	text, _ := p.refuses(exitFault)
	if !strings.Contains(text, "dataDir and dataLogDir") {
		t.Error(text)
	}
	dirs(data+"  ", wal+" ")
	p.start()
	p.serve()
	checkServed(t, p, "/a", 3000)
	p.kill()
	names, err := filepath.Glob(p.dir + "/*")
	if err != nil || len(names) != 5 { // data, wal, zoo.cfg, myid, server.log
		t.Errorf("something else was created: %v %v", names, err)
	}
	dirs(data, wal)
	logs, err := filepath.Glob(filepath.Join(wal, "log", "*.sst"))
	if err != nil || len(logs) == 0 {
		t.Fatal(logs, err)
	}
	for _, name := range logs {
		b, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		b[len(b)/2] ^= 1
		if err := os.WriteFile(name, b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	text, _ = p.refuses(exitFault)
	if !strings.Contains(text, filepath.Join(wal, "log")) || !strings.Contains(text, ".sst is damaged") {
		t.Error(text)
	}
}
