package election

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"

	"github.com/zkserver/zkserver/zab"
)

// TestScenarios runs testdata/election/*.txt. The commands stand in the cases of run.
func TestScenarios(t *testing.T) {
	datadriven.Walk(t, "../testdata/election", func(t *testing.T, path string) {
		var n *net
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			if d.Cmd == "ensemble" {
				n = scenarioNet(t, d)
				return ""
			}
			n.log = nil
			run(t, n, d)
			return strings.Join(append(n.log, ""), "\n")
		})
	})
}

// scenarioNet: ensemble voters=3 [observers=(4,5)] [groups=(1,1,2)] [weights=(1,0,1)]
func scenarioNet(t *testing.T, d *datadriven.TestData) *net {
	var members []zab.Member
	count := 0
	d.ScanArgs(t, "voters", &count)
	for i := range count {
		members = append(members, zab.Member{ID: zab.ServerID(i + 1), Weight: 1})
	}
	for _, a := range d.CmdArgs {
		for i, v := range a.Vals {
			x, err := strconv.ParseUint(v, 10, 64)
			if err != nil {
				t.Fatal(err)
			}
			switch a.Key {
			case "observers":
				members = append(members, zab.Member{ID: zab.ServerID(x), Observer: true, Weight: 1})
			case "groups":
				members[i].Group = x
			case "weights":
				members[i].Weight = x
			}
		}
	}
	return newNet(members, Options{}, 1)
}

func servers(t *testing.T, n *net, d *datadriven.TestData) []zab.ServerID {
	var ids []zab.ServerID
	for _, a := range d.CmdArgs {
		if a.Key == "all" {
			return n.ids
		}
		if x, err := strconv.ParseUint(a.Key, 10, 64); err == nil {
			ids = append(ids, zab.ServerID(x))
		}
	}
	if len(ids) == 0 {
		t.Fatalf("%s: %s needs servers", d.Pos, d.Cmd)
	}
	return ids
}

func links(t *testing.T, n *net, d *datadriven.TestData) [][2]zab.ServerID {
	var ps [][2]zab.ServerID
	for _, a := range d.CmdArgs {
		if a.Key == "all" {
			for i, x := range n.ids {
				for _, y := range n.ids[i+1:] {
					ps = append(ps, [2]zab.ServerID{x, y})
				}
			}
			continue
		}
		x, y, ok := strings.Cut(a.Key, "-")
		if !ok {
			continue
		}
		p, err := strconv.ParseUint(x, 10, 64)
		q, err2 := strconv.ParseUint(y, 10, 64)
		if err != nil || err2 != nil {
			t.Fatalf("%s: pair %q", d.Pos, a.Key)
		}
		ps = append(ps, [2]zab.ServerID{zab.ServerID(p), zab.ServerID(q)})
	}
	return ps
}

func run(t *testing.T, n *net, d *datadriven.TestData) {
	switch d.Cmd {
	case "disk": // disk 1 last=1.5 current=1 ensemble=9 [empty] [needsnap] [sum=8]
		for _, id := range servers(t, n, d) {
			nd := n.nodes[id]
			nd.disk.Transaction = !d.HasArg("empty")
			nd.disk.NeedSnap = d.HasArg("needsnap")
			if !nd.disk.Transaction {
				nd.disk.Last = 0
			}
			for _, a := range d.CmdArgs {
				if len(a.Vals) != 1 {
					continue
				}
				e, c, _ := strings.Cut(a.Vals[0], ".")
				x, _ := strconv.ParseUint(e, 10, 32)
				y, _ := strconv.ParseUint(c, 10, 32)
				switch a.Key {
				case "last":
					nd.disk.Last = zab.MakeZxid(zab.Epoch(x), uint32(y))
				case "current":
					nd.disk.Current = zab.Epoch(x)
				case "ensemble":
					nd.disk.Ensemble = zab.ID(x)
				case "sum":
					nd.sum = x
				}
			}
		}
	case "manual": // abandonments are only shown
		n.manual = true
	case "start": // the process starts and looks
		for _, id := range servers(t, n, d) {
			n.start(id)
			n.look(id, nil)
		}
	case "look": // look 1 2 [successor=3] [campaign]
		for _, id := range servers(t, n, d) {
			n.look(id, func(l *Look) {
				l.Campaign = d.HasArg("campaign")
				var s uint64
				if d.HasArg("successor") {
					d.ScanArgs(t, "successor", &s)
				}
				l.Successor = zab.ServerID(s)
			})
		}
	case "connect": // connect 1-2 ... | all
		for _, p := range links(t, n, d) {
			n.connect(p[0], p[1])
		}
	case "cut": // cut 1-2 [refused]
		for _, p := range links(t, n, d) {
			n.cut(p[0], p[1], d.HasArg("refused"))
		}
	case "refused": // refused 1-2: 1 dials 2 in vain
		for _, p := range links(t, n, d) {
			n.step(p[0], PeerDown{Peer: p[1], Refused: true})
		}
	case "crash": // crash 1 [silent]
		for _, id := range servers(t, n, d) {
			n.crash(id, !d.HasArg("silent"))
		}
	case "lose": // lose 1-2: what is under way
		for _, p := range links(t, n, d) {
			delete(n.queues, p)
		}
	case "deliver": // deliver 1-2 [count=1]
		count := 1 << 20
		if d.HasArg("count") {
			d.ScanArgs(t, "count", &count)
		}
		for _, p := range links(t, n, d) {
			n.deliver(p[0], p[1], count)
		}
	case "send": // send 1-2 state=following round=7 vote=1/1/1.5 serves=1 epoch=5 : a message made up
		for _, p := range links(t, n, d) {
			n.step(p[1], Received{From: p[0], N: notification(t, n, d, p[0])})
		}
	case "quiet":
		if !n.quiet() {
			t.Fatalf("%s: never quiet", d.Pos)
		}
	case "tick": // tick 3 [late=5s] [for=2]: quanta on all, delivering everything between
		count, late := 1, time.Duration(0)
		if d.HasArg("count") {
			d.ScanArgs(t, "count", &count)
		}
		if d.HasArg("late") {
			var s string
			d.ScanArgs(t, "late", &s)
			late, _ = time.ParseDuration(s)
		}
		for range count {
			for _, id := range n.ids {
				n.tick(id, late)
			}
			if !d.HasArg("undelivered") && !n.quiet() {
				t.Fatalf("%s: never quiet", d.Pos)
			}
		}
	case "serve": // serve 1: the leadership is established with those that follow it
		for _, id := range servers(t, n, d) {
			n.logf("%d serves: %v", id, n.serve(id))
		}
	case "settle": // settle 1 leader=3 epoch=5
		var l, e uint64
		d.ScanArgs(t, "leader", &l)
		d.ScanArgs(t, "epoch", &e)
		for _, id := range servers(t, n, d) {
			n.settle(id, zab.ServerID(l), zab.Epoch(e))
		}
	case "state":
		n.state()
	default:
		t.Fatalf("%s: unknown command %s", d.Pos, d.Cmd)
	}
}

func notification(t *testing.T, n *net, d *datadriven.TestData, from zab.ServerID) Notification {
	disk := n.nodes[from].disk
	out := Notification{Ensemble: disk.Ensemble, Transaction: disk.Transaction, ConfigSum: n.nodes[from].sum}
	for _, a := range d.CmdArgs {
		if len(a.Vals) == 0 {
			continue
		}
		v := a.Vals[0]
		x, _ := strconv.ParseUint(v, 10, 64)
		switch a.Key {
		case "state":
			for r := range zab.Observing + 1 {
				if roleName(r) == v {
					out.State = r
				}
			}
		case "round":
			out.Round = x
		case "vote": // leader/epoch/zxid as 3/1/1.5
			var l uint64
			var pe, e, c uint32
			if _, err := fmt.Sscanf(v, "%d/%d/%d.%d", &l, &pe, &e, &c); err != nil {
				t.Fatalf("%s: vote %q: %v", d.Pos, v, err)
			}
			out.Vote = Vote{Leader: zab.ServerID(l), PeerEpoch: zab.Epoch(pe), Zxid: zab.MakeZxid(zab.Epoch(e), c)}
		case "serves":
			out.Established.Leader = zab.ServerID(x)
		case "epoch":
			out.Established.Epoch = zab.Epoch(x)
		}
	}
	return out
}
