package main

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/zkserver/zkserver/internal/testport"
	"github.com/zkserver/zkserver/proto/jute"
)

// The tests of this file are named after the entries of docs/field-reports.md. The same are in server/sim, with many seeds.

// TestFieldNames: servers that know each other by names.
func TestFieldNames(t *testing.T) {
	ps := newEnsemble(t, 3, 0, "")
	file := filepath.Join(t.TempDir(), "names")
	t.Setenv(namesEnv, file)
	names := func(first string) {
		t.Helper()
		text := "s2.test 127.0.0.1\ns3.test 127.0.0.1\n"
		if first != "" {
			text += "s1.test " + first + "\n"
		}
		if err := os.WriteFile(file+"~", []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(file+"~", file); err != nil {
			t.Fatal(err)
		}
	}
	line := regexp.MustCompile(`(?m)^server\.(\d)=127\.0\.0\.1:`)
	for _, p := range ps {
		p.edit("zoo.cfg", func(s string) string { return line.ReplaceAllString(s, "server.$1=s$1.test:") })
	}
	first := ps[0]

	t.Run("E13 a name without an address", func(t *testing.T) {
		names("")
		for _, p := range ps {
			p.start()
		}
		ps[1].serve() // two of three have founded an ensemble
		ps[2].serve()
		mustDial(t, ps[1].addr, 20*time.Second).must(jute.OpCreate, create("/e13", ""), nil)
		until(t, "it says what it waits for", func() bool { return strings.Contains(first.log(), "the quorum port has no address yet") })
		if m := first.mode(); m != "" {
			t.Fatalf("server 1 is %s", m)
		}
		first.stop() // it can be stopped while it waits
		first.start()
		names("127.0.0.1")
		first.serve() // by itself
		sameDigests(t, ps)
	})
	stays := func(t *testing.T, what func()) {
		t.Helper()
		leader := leaderOf(t, ps[1:])
		epoch := leader.mntr("zk_epoch")
		what()
		if now := leaderOf(t, ps); now != leader || now.mntr("zk_epoch") != epoch {
			t.Errorf("server %d led in epoch %s, now server %d does in %s", leader.id, epoch, now.id, now.mntr("zk_epoch"))
		}
	}
	t.Run("E12 F9 a server moves with its directory", func(t *testing.T) {
		stays(t, func() {
			first.kill()
			names("127.0.0.2")
			first.start()
			first.serve()
			sameDigests(t, ps)
		})
	})
	t.Run("F9 a server moves without its directory", func(t *testing.T) {
		stays(t, func() {
			first.kill()
			first.wipe()
			names("127.0.0.3")
			first.start()
			first.serve()
			sameDigests(t, ps)
		})
	})
	t.Run("E20 a second server with an id", func(t *testing.T) {
		for _, id := range []int{1, 3} {
			twin := &proc{t: t, id: id, dir: filepath.Join(t.TempDir(), "twin"), addr: net.JoinHostPort("127.0.0.1", strconv.Itoa(testport.Reserve(t, 1)[0]))}
			if err := os.Mkdir(twin.dir, 0o750); err != nil {
				t.Fatal(err)
			}
			text, err := os.ReadFile(filepath.Join(ps[id-1].dir, "zoo.cfg"))
			if err != nil {
				t.Fatal(err)
			}
			cfg := strings.ReplaceAll(string(text), ps[id-1].dir, twin.dir)
			cfg = strings.ReplaceAll(cfg, ps[id-1].addr, twin.addr)
			cfg = strings.Replace(cfg, fmt.Sprintf("server.%d=s%d.test", id, id), fmt.Sprintf("server.%d=127.0.0.4", id), 1)
			twin.write("zoo.cfg", cfg)
			twin.write("myid", strconv.Itoa(id))
			stays(t, func() {
				twin.start()
				defer twin.kill()
				until(t, "the twin is told why it is refused", func() bool { return strings.Contains(twin.log(), "server id in use") })
				if m := twin.mode(); m != "" {
					t.Errorf("the twin of server %d is %s", id, m)
				}
				if m := ps[id-1].mode(); m == "" {
					t.Errorf("server %d no longer serves", id)
				}
				t.Log(grep(twin.log(), "id in use"))
			})
		}
	})
}

// grep is the first line of a text with a word.
func grep(text, word string) string {
	for _, line := range strings.Split(text, "\n") {
		if strings.Contains(line, word) {
			return line
		}
	}
	return ""
}

// others are two servers beside one of three.
func others(ps []*proc, p *proc) (f, g *proc) { return ps[p.id%3], ps[(p.id+1)%3] }

// ended waits for the end of a connection, and fails for an answer to what must not be answered.
func (r *rawConn) ended(what string, not ...int32) {
	r.t.Helper()
	for {
		f, err := r.recv(patience)
		if err != nil {
			var timeout net.Error
			if errors.As(err, &timeout) && timeout.Timeout() {
				r.t.Fatalf("%s: the connection does not end", what)
			}
			return
		}
		for _, xid := range not {
			if f.header.Xid == xid {
				r.t.Fatalf("%s: answered with %v at %#x", what, f.header.Err, f.header.Zxid)
			}
		}
	}
}

// TestFieldLinks: what happens to the links between servers.
func TestFieldLinks(t *testing.T) {
	ps := newEnsemble(t, 3, 0, quick)
	net := newFabric(t, ps)
	startAll(ps)
	setup := mustDial(t, ps[0].addr, 60*time.Second)
	setup.must(jute.OpCreate, create("/links", ""), nil)
	writes := func(t *testing.T, p *proc, what string) *rawConn {
		t.Helper()
		c := mustDial(t, p.addr, 20*time.Second)
		for i := range 5 {
			c.must(jute.OpSetData, set("/links", fmt.Sprint(what, i)), nil)
		}
		return c
	}
	run := func(name string, f func(t *testing.T)) {
		if !t.Failed() { // else some servers do not run
			t.Run(name, f)
		}
	}
	run("E9 one way only", func(t *testing.T) {
		for _, back := range []bool{false, true} {
			l := leaderOf(t, ps)
			f, g := others(ps, l)
			f.serve()
			c := mustDial(t, f.addr, 60*time.Second)
			if back {
				net.Hold(f.id, l.id)
			} else {
				net.Hold(l.id, f.id)
			}
			c.ended("a server that is cut off one way")
			writes(t, g, "beside")
			net.Heal()
			f.serve()
			sameDigests(t, ps)
		}
	})
	run("E10 E5 an isolated leader and its tail", func(t *testing.T) {
		l := leaderOf(t, ps)
		f, g := others(ps, l)
		c := mustDial(t, l.addr, 60*time.Second)
		for _, o := range []*proc{f, g} {
			net.Hold(l.id, o.id)
			net.Hold(o.id, l.id)
		}
		tail, err := c.send(jute.OpCreate, create("/tail", ""))
		if err != nil {
			t.Fatal(err)
		}
		sync, err := c.send(jute.OpSync, &jute.SyncRequest{Path: jute.Str("/")})
		if err != nil {
			t.Fatal(err)
		}
		c.ended("an isolated leader", tail, sync)
		next := leaderOf(t, []*proc{f, g})
		writes(t, next, "new epoch")
		l.kill()
		next.stop() // and one more epoch, with nothing in it
		next.start()
		leaderOf(t, []*proc{f, g})
		l.start()
		net.Heal()
		for _, p := range ps {
			p.serve()
		}
		for _, p := range ps {
			c := mustDial(t, p.addr, 20*time.Second)
			c.must(jute.OpSync, &jute.SyncRequest{Path: jute.Str("/")}, nil)
			if h, err := c.call(jute.OpExists, get("/tail", false), nil); err != nil || h.Err != jute.ErrorCode(-101) {
				t.Errorf("server %d shows what was never acknowledged: %v %v", p.id, h.Err, err)
			}
		}
		sameDigests(t, ps)
	})
	run("E17 a peer that stops reading", func(t *testing.T) {
		l := leaderOf(t, ps)
		f, g := others(ps, l)
		before := strings.Count(l.log(), `"link down"`)
		f.signal(syscall.SIGSTOP)
		big := strings.Repeat("x", 512<<10)
		c := mustDial(t, g.addr, 60*time.Second)
		for range 24 { // more than the sockets between them hold
			c.must(jute.OpSetData, set("/links", big), nil)
		}
		until(t, "the stuck link is ended", func() bool { return strings.Count(l.log(), `"link down"`) > before })
		f.signal(syscall.SIGCONT)
		f.serve()
		sameDigests(t, ps)
	})
}

// TestFieldSlowSnapshot (E15, E6): a snapshot over a slow link arrives although the initLimit is short. When the
// leader dies in the middle of one, what has arrived is of no use, and the next leader sends its own.
func TestFieldSlowSnapshot(t *testing.T) {
	ps := newEnsemble(t, 3, 0, "commitLogCount=10\n")
	for _, p := range ps {
		p.edit("zoo.cfg", func(s string) string { // initLimit: half a second
			return strings.Replace(strings.Replace(s, "tickTime=500", "tickTime=250", 1), "initLimit=20", "initLimit=2", 1)
		})
	}
	net := newFabric(t, ps)
	startAll(ps)
	l := leaderOf(t, ps)
	f, g := others(ps, l)
	c := mustDial(t, l.addr, 60*time.Second)
	last := f.number(t, "zk_log_end_zxid")
	f.kill()
	big := make([]byte, 256<<10)
	random := rand.NewChaCha8([32]byte{15})
	for i := range 16 {
		_, _ = random.Read(big) // which does not get smaller on its way
		c.must(jute.OpCreate, create(fmt.Sprintf("/n%d", i), string(big)), nil)
	}
	writeBytes(t, l, "/large", 80, 900_000) // what makes the state durable, so that the logs are cut
	for _, p := range []*proc{l, g} {
		until(t, "the logs no longer reach back", func() bool { return p.number(t, "zk_log_base_zxid") > last })
	}
	const slow = 4 * time.Millisecond // 40 MB: two and a half seconds
	for _, p := range []*proc{l, g} {
		net.Pace(p.id, f.id, slow)
	}
	f.start()
	until(t, "a snapshot is on its way", func() bool { // to a directory of its own
		states, err := filepath.Glob(filepath.Join(f.dir, "state.*"))
		return err == nil && len(states) > 1
	})
	l.kill()
	net.Reset(l.id, f.id) // and what is on its way is lost
	began := time.Now()
	if leaderOf(t, []*proc{f, g}) == f && !strings.Contains(f.log(), "snapshot installed") { // g may have given up on a slow machine
		t.Fatalf("server %d leads with a part of a snapshot", f.id)
	}
	f.serve()
	t.Logf("serving with the second snapshot after %v", time.Since(began))
	net.Pace(l.id, f.id, 0)
	net.Pace(g.id, f.id, 0)
	f.kill()
	f.start()
	l.start()
	for _, p := range ps {
		p.serve()
	}
	sameDigests(t, ps)
}

// TestFieldE18ObserversDoNotCount: of two voters one is gone. Three observers do not make up for it.
func TestFieldE18ObserversDoNotCount(t *testing.T) {
	ps := newEnsemble(t, 5, 3, "")
	startAll(ps)
	mustDial(t, ps[4].addr, 20*time.Second).must(jute.OpCreate, create("/e18", ""), nil)
	for _, dead := range ps[:rounds(1, 2)] {
		dead.kill()
		for _, p := range ps {
			if p == dead {
				continue
			}
			until(t, "nobody serves", func() bool { return p.mode() == "" })
			if c, err := dialRaw(t, p.addr, 20*time.Second, nil); err == nil {
				c.c.Close()
				t.Errorf("server %d gives a session", p.id)
			}
		}
		dead.start()
		for _, p := range ps {
			p.serve()
		}
		sameDigests(t, ps)
	}
}

// TestFieldF10OpenFiles: clients use up what files a server may have open. Those that are too many are turned away at once;
// the server keeps its log and its links, and takes new ones when others have left.
func TestFieldF10OpenFiles(t *testing.T) {
	ps := newEnsemble(t, 3, 0, "")
	short := ps[0]
	short.files = 128
	startAll(ps)
	began := time.Now()
	var all []*rawConn
	refused := 0
	for range 200 {
		c, err := dialRaw(t, short.addr, 60*time.Second, nil)
		if err != nil {
			refused++
			continue
		}
		t.Cleanup(func() { c.c.Close() })
		all = append(all, c)
	}
	if len(all) < 40 || refused < 70 {
		t.Errorf("%d sessions, %d refused, of 128 files", len(all), refused)
	}
	if n := strings.Count(short.log(), "too many connections"); n < 1 || n > 2+int(time.Since(began)/(5*time.Second)) {
		t.Errorf("%d lines of %d refusals", n, refused)
	}
	all[0].must(jute.OpCreate, create("/f10", ""), nil)
	big := strings.Repeat("x", 256<<10)
	for i := range 64 { // enough for new files of the stores
		all[i%len(all)].must(jute.OpSetData, set("/f10", big), nil)
	}
	for _, c := range all {
		c.c.Close()
	}
	short.serve()
	mustDial(t, short.addr, 20*time.Second).must(jute.OpSetData, set("/f10", "small again"), nil)
	sameDigests(t, ps)
}

// TestFieldF13ChangingTheVoters: from three voters to four, in the long form to five and back, by new lists and restarts
// one at a time in the order that docs/operations.md says. There are never two leaders, and nothing acknowledged is lost.
func TestFieldF13ChangingTheVoters(t *testing.T) {
	most := rounds(4, 5)
	ps := newEnsemble(t, most, 0, "")
	line := regexp.MustCompile(`(?m)^server\.(\d)=.*\n`)
	var whole []string
	for _, p := range ps {
		text, err := os.ReadFile(filepath.Join(p.dir, "zoo.cfg"))
		if err != nil {
			t.Fatal(err)
		}
		whole = append(whole, string(text))
	}
	start := func(p *proc, voters int) {
		t.Helper()
		p.write("zoo.cfg", line.ReplaceAllStringFunc(whole[p.id-1], func(s string) string {
			if id, _ := strconv.Atoi(line.FindStringSubmatch(s)[1]); id > voters {
				return ""
			}
			return s
		}))
		p.start()
	}
	var acked []string
	leaders := func() (out []int) {
		for _, p := range ps {
			if p.running() && p.mode() == "leader" {
				out = append(out, p.id)
			}
		}
		return out
	}
	look := func(step string) {
		t.Helper()
		for round, l := 1, leaders(); len(l) > 1; round, l = round+1, leaders() {
			if round == 3 { // who was asked first may have handed over meanwhile
				t.Fatalf("%s: leaders %v", step, l)
			}
		}
		for _, p := range ps {
			if !p.running() || p.mode() == "" {
				continue
			}
			c, err := dialRaw(t, p.addr, 20*time.Second, nil)
			if err != nil {
				continue
			}
			path := fmt.Sprintf("/f13-%d", len(acked))
			if h, err := c.call(jute.OpCreate, create(path, step), nil); err == nil && h.Err == 0 {
				acked = append(acked, path)
			}
			c.c.Close()
		}
	}
	change := func(from, to int) {
		t.Helper()
		for _, p := range ps[:min(from, to)] {
			p.stop()
			start(p, to)
			look(fmt.Sprintf("%d to %d, server %d", from, to, p.id))
		}
		if to > from {
			start(ps[to-1], to)
		} else {
			ps[from-1].stop()
		}
		for _, p := range ps[:to] {
			p.serve()
		}
		look(fmt.Sprintf("%d voters", to))
		sameDigests(t, ps[:to])
	}
	for _, p := range ps[:3] {
		start(p, 3)
	}
	for _, p := range ps[:3] {
		p.serve()
	}
	look("3 voters")
	for n := 3; n < most; n++ {
		change(n, n+1)
	}
	for n := most; full() && n > 3; n-- {
		change(n, n-1)
	}
	c := mustDial(t, ps[0].addr, 20*time.Second)
	for _, path := range acked {
		c.must(jute.OpExists, get(path, false), nil)
	}
	if !strings.Contains(ps[0].log(), "differing voter lists") {
		t.Error("no server says that the lists differ")
	}
	t.Logf("%d writes on the way", len(acked))
}
