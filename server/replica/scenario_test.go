package replica

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"

	"github.com/zkserver/zkserver/server/peer"
	"github.com/zkserver/zkserver/zab"
	"github.com/zkserver/zkserver/znode"
)

// TestScenarios runs the scripts of testdata/replica. Commands:
//
//	ensemble n=3 [limit=8]           boots blank servers; limit: of the zxid counter
//	run [ms=500]                     everything that can happens, for so long
//	attach c1 s=1 [as=c2] [bad]      connection c1 at server 1 asks for a session: a new one, or that of c2
//	again c1                         asks whether c1 still has its session
//	drop c1                          its client goes away
//	do c1 create /a [e] [seq] [container] | set /a x | delete /a | close | sync
//	hold s=1 disk|apply ; release s=1 disk|apply
//	mute 1 2 ; unmute 1 2            messages from 1 to 2 wait
//	cut 1 2 ; join 1 2
//	crash s=1 ; restart s=1
//	cutlog s=1                       its log keeps only what is not applied
//	leave s=1
//	queued 1 2                       forwards that wait on the way from 1 to 2
//	trees                            what each server's tree holds; equal digests are checked
func TestScenarios(t *testing.T) {
	files, err := filepath.Glob("testdata/replica/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatal("no scenarios", err)
	}
	for _, f := range files {
		t.Run(strings.TrimSuffix(filepath.Base(f), ".txt"), func(t *testing.T) {
			var s *simulation
			datadriven.RunTest(t, f, func(t *testing.T, d *datadriven.TestData) string {
				if d.Cmd == "ensemble" {
					n, limit := 3, 0
					d.MaybeScanArgs(t, "n", &n)
					d.MaybeScanArgs(t, "limit", &limit)
					s = newSimulation(t, n, uint32(limit))
				} else {
					s.t = t
					s.command(d)
				}
				out := s.flushOutput()
				s.check()
				return out
			})
		})
	}
}

func (s *simulation) command(d *datadriven.TestData) {
	var id, ms int
	d.MaybeScanArgs(s.t, "s", &id)
	d.MaybeScanArgs(s.t, "ms", &ms)
	switch d.Cmd {
	case "run":
		if ms == 0 {
			ms = 500
		}
		s.run(ms / 10)
	case "attach":
		s.attach(d, id)
	case "again":
		c := s.client(d.CmdArgs[0].Key)
		s.seqs[c.server-1]++
		s.push(c.server, Attach{Conn: c.num, Seq: s.seqs[c.server-1], Session: c.session, Timeout: 10000, Again: true})
	case "do":
		s.do(d)
	case "hold", "release":
		for _, what := range []string{"disk", "apply"} {
			if d.HasArg(what) {
				s.nodes[id-1].held[what] = d.Cmd == "hold"
			}
		}
	case "mute", "unmute":
		a, b := number(s, d, 0), number(s, d, 1)
		s.links[key(a, b)].held[b] = d.Cmd == "mute"
	case "cut":
		s.cut(number(s, d, 0), number(s, d, 1))
	case "join":
		s.connect(number(s, d, 0), number(s, d, 1))
	case "crash":
		s.crash(id)
	case "restart":
		s.boot(id)
	case "cutlog":
		s.cutLog(id)
	case "drop":
		c := s.client(d.CmdArgs[0].Key)
		c.closed = true
		s.push(c.server, Detach{Conn: c.num})
	case "leave":
		s.push(id, Leave{})
	case "queued":
		s.queued(number(s, d, 0), number(s, d, 1))
	case "trees":
		for _, x := range s.nodes {
			if x != nil {
				s.printf("s%d %s: %s", x.id, zx(zab.Zxid(x.tree.Applied())), paths(x.tree))
			}
		}
	default:
		s.t.Fatalf("%s: unknown command %s", d.Pos, d.Cmd)
	}
}

func number(s *simulation, d *datadriven.TestData, i int) int {
	var n int
	if _, err := fmt.Sscan(d.CmdArgs[i].Key, &n); err != nil {
		s.t.Fatalf("%s: %v", d.Pos, err)
	}
	return n
}

func (s *simulation) push(id int, in Input) {
	if x := s.nodes[id-1]; x != nil {
		x.in = append(x.in, in)
	}
}

func (s *simulation) client(name string) *simConn {
	for _, c := range s.sortedConns() {
		if c.name == name {
			return c
		}
	}
	s.t.Fatalf("no connection %s", name)
	return nil
}

func (s *simulation) attach(d *datadriven.TestData, id int) {
	timeout := 10000
	d.MaybeScanArgs(s.t, "timeout", &timeout)
	c := &simConn{num: uint32(len(s.conns) + 1), server: id, name: d.CmdArgs[0].Key, ops: map[uint64]string{}}
	s.conns[c.num] = c
	s.seqs[id-1]++
	in := Attach{Conn: c.num, Seq: s.seqs[id-1], Timeout: int32(timeout)}
	if d.HasArg("as") {
		var as string
		d.ScanArgs(s.t, "as", &as)
		o := s.client(as)
		in.Session, in.Password = o.session, o.password
		if d.HasArg("bad") {
			in.Password = make([]byte, 16)
		}
	}
	s.push(id, in)
}

// do submits one write as session.Conn would.
func (s *simulation) do(d *datadriven.TestData) {
	c := s.client(d.CmdArgs[0].Key)
	if c.closed {
		s.printf("%s: is closed", c.name)
		return
	}
	r := &znode.Request{Session: c.session, Ticket: c.ticket, TTL: -1, Version: -1}
	var words []string
	for _, a := range d.CmdArgs[1:] {
		words = append(words, a.Key)
	}
	if len(words) > 1 {
		r.Path = words[1]
	}
	switch words[0] {
	case "create":
		r.Op, r.ACL = znode.OpCreate, openACL
		if d.HasArg("container") {
			r.Op, r.Flags = znode.OpCreateContainer, 4
		}
		if d.HasArg("e") {
			r.Flags |= 1
		}
		if d.HasArg("seq") {
			r.Flags |= 2
		}
	case "set":
		r.Op, r.Data = znode.OpSetData, []byte(words[2])
	case "delete":
		r.Op = znode.OpDelete
	case "close":
		r.Op = znode.OpCloseSession
	case "sync":
		r.Op = znode.OpSync
	default:
		s.t.Fatalf("%s: do what", d.Pos)
	}
	s.seqs[c.server-1]++
	r.Origin = znode.Origin{
		Server: uint64(c.server), Instance: uint64(s.nodes[c.server-1].process), Conn: c.num, Seq: s.seqs[c.server-1],
	}
	c.ops[r.Origin.Seq] = strings.Join(words, " ")
	s.push(c.server, Requests{Conn: c.num, Requests: []*znode.Request{r}})
}

// queued lists what waits on the way between two servers, as far as clients are concerned.
func (s *simulation) queued(a, b int) {
	for _, m := range s.links[key(a, b)].msgs[b] {
		switch m := m.(type) {
		case *Forwarded:
			s.printf("forward op %d %s of connection %d", m.Request.Op, m.Request.Path, m.Request.Origin.Conn)
		case *zab.SyncRequest:
			s.printf("sync")
		case *peer.Revalidate:
			s.printf("revalidate")
		case *peer.Tickets:
			s.printf("tickets of %d", len(m.Owners))
		}
	}
}
