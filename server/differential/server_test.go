package differential_test

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/zkserver/zkserver/internal/testport"
	"github.com/zkserver/zkserver/server/differential"
)

// pair is an Apache ZooKeeper and a zkserver that have run the same programs.
type pair struct {
	apache, ours []string // addresses; several are an ensemble's
	runs         int
}

// needServers skips a test where the two servers are not to be had.
func needServers(t *testing.T) (classPath, zkserver string) {
	t.Helper()
	classPath, zkserver = os.Getenv("DIFF_APACHE_CP"), os.Getenv("DIFF_SERVER")
	if classPath == "" || zkserver == "" {
		t.Skip("DIFF_APACHE_CP (class path of Apache ZooKeeper) and DIFF_SERVER (path of zkserver) are not set; .ci/differential sets them")
	}
	return classPath, zkserver
}

func startPair(t *testing.T) *pair {
	t.Helper()
	return startPairWith(t, time.Second, 24*time.Hour)
}

// startPairWith starts both with a tickTime, and an interval at which they look for containers to remove. Of this server
// there are DIFF_MEMBERS, an ensemble.
func startPairWith(t *testing.T, tick, reap time.Duration) *pair {
	t.Helper()
	cp, bin := needServers(t)
	ticks := fmt.Sprintf("tickTime=%d\n", tick.Milliseconds())
	interval := fmt.Sprintf("znode.container.checkIntervalMs=%d", reap.Milliseconds())
	members := number(t, "DIFF_MEMBERS", 1)
	ports := testport.Reserve(t, 1+3*members)
	apache, waitA := start(t, "apache", 0, ports[0], func(cfg string) *exec.Cmd {
		return exec.Command("java", "-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Dzookeeper.forceSync=no",
			"-D"+interval, "-cp", cp, "org.apache.zookeeper.server.quorum.QuorumPeerMain", cfg)
	}, ticks)
	p := &pair{}
	waits := []func(){waitA}
	ensemble := ""
	for i := range members {
		if members > 1 {
			ensemble += fmt.Sprintf("server.%d=127.0.0.1:%d:%d\n", i+1, ports[3*i+2], ports[3*i+3])
		}
	}
	for i := range members {
		addr, wait := start(t, "zkserver", i+1, ports[3*i+1], func(cfg string) *exec.Cmd { return exec.Command(bin, cfg) }, ticks+interval+"\ninitLimit=20\nsyncLimit=10\n"+ensemble)
		p.apache, p.ours, waits = append(p.apache, apache), append(p.ours, addr), append(waits, wait)
	}
	for _, wait := range waits {
		wait()
	}
	return p
}

// start runs a server with a configuration of its own; it ends with the test. wait returns when it serves.
func start(t *testing.T, name string, id, port int, command func(cfg string) *exec.Cmd, more string) (addr string, wait func()) {
	t.Helper()
	addr = net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
	dir := t.TempDir()
	data, cfg := filepath.Join(dir, "data"), filepath.Join(dir, "zoo.cfg")
	text := fmt.Sprintf("dataDir=%s\nclientPort=%d\nclientPortAddress=127.0.0.1\nmaxClientCnxns=0\nadmin.enableServer=false\n"+
		"4lw.commands.whitelist=*\nextendedTypesEnabled=true\nenforceQuota=true\n"+
		"DigestAuthenticationProvider.superDigest=super:D/InIHSb7yEEbrWz8b9l71RjZJU=\n%s", data, port, more)
	if err := os.MkdirAll(data, 0o755); err != nil {
		t.Fatal(err)
	}
	files := map[string]string{cfg: text}
	if id > 0 {
		files[filepath.Join(data, "myid")] = strconv.Itoa(id)
	}
	for name, text := range files {
		if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	log, err := os.Create(filepath.Join(dir, "log"))
	if err != nil {
		t.Fatal(err)
	}
	cmd := command(cfg)
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() { _ = cmd.Wait(); close(ended) }()
	t.Cleanup(func() {
		select {
		case <-ended:
			b, _ := os.ReadFile(log.Name())
			t.Errorf("%s ended by itself:\n%s", name, b[max(0, len(b)-4000):])
		default:
			_ = cmd.Process.Kill()
			<-ended
		}
		log.Close()
	})
	return addr, func() {
		t.Helper()
		tick := time.NewTicker(50 * time.Millisecond)
		defer tick.Stop()
		for deadline := time.Now().Add(60 * time.Second); time.Now().Before(deadline); <-tick.C {
			select {
			case <-ended:
				t.Fatalf("%s ended", name)
			default:
			}
			if answers(addr) {
				return
			}
		}
		t.Fatalf("%s does not serve", name)
	}
}

func answers(addr string) bool {
	c, err := net.DialTimeout("tcp", addr, time.Second)
	if err != nil {
		return false
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(2 * time.Second))
	if _, err := c.Write([]byte("srvr")); err != nil {
		return false
	}
	b := make([]byte, 4096)
	n := 0
	for n < len(b) {
		m, err := c.Read(b[n:])
		n += m
		if err != nil {
			break
		}
	}
	return strings.Contains(string(b[:n]), "Mode: ")
}

// result is what came of a program on both servers.
type result struct {
	a, b *differential.Transcript
	diff *differential.Difference
	errs [2]error
}

// run runs a program on both servers at once.
func (p *pair) run(prog *differential.Program) result {
	p.runs++
	root := fmt.Sprintf("/r%06d", p.runs)
	var r result
	done := make(chan struct{})
	go func() {
		defer close(done)
		r.a, r.errs[0] = differential.Execute(p.apache, root, prog)
	}()
	r.b, r.errs[1] = differential.Execute(p.ours, root, prog)
	<-done
	r.diff = differential.Compare(r.a, r.b)
	return r
}

// explain shrinks a program that differs and tells all that is needed to run it again.
func (p *pair) explain(t *testing.T, prog *differential.Program, r result) string {
	t.Helper()
	if errA := r.errs[0]; errA != nil {
		return fmt.Sprintf("seed %d: %v, errors %v\n%s", prog.Seed, r.diff, r.errs, prog.Script())
	}
	if again := p.run(prog); again.diff == nil {
		*p = *startPair(t)
		return fmt.Sprintf("seed %d: %v\nbut not when run again\n%s", prog.Seed, r.diff, prog.Script())
	}
	small := differential.Shrink(prog, 400, func(q *differential.Program) bool {
		d := p.run(q).diff
		return d != nil && kind(d.A) == kind(r.diff.A) && kind(d.B) == kind(r.diff.B)
	})
	last := p.run(small)
	*p = *startPair(t) // the difference may have left the two in different states
	return fmt.Sprintf("seed %d: %v\nshrunk from %d to %d requests: %v\nerrors %v\nscript (DIFF_SCRIPT=file runs it):\n%s", prog.Seed, r.diff,
		prog.Count(), small.Count(), last.diff, last.errs, small.Script())
}

// kind is what a line is about: a shrunk program shall fail as the whole one does.
func kind(line string) string {
	words := strings.Fields(line)
	return strings.Join(words[:min(2, len(words))], " ")
}
