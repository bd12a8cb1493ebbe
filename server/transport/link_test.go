package transport

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/zkserver/zkserver/election"
	zabv1 "github.com/zkserver/zkserver/proto/zab/v1"
	"github.com/zkserver/zkserver/server/peer"
	"github.com/zkserver/zkserver/zab"
)

func TestOrder(t *testing.T) {
	n := newLan(t, 1, 2)
	a, b := n.start(1), n.start(2)
	la, lb := a.waitUp(t, 2), b.waitUp(t, 1)
	const count = 20000
	for i := range uint64(count) {
		a.Send(la, note(i))
		b.Send(lb, note(2*i), note(2*i+1))
	}
	b.wait(t, "all from 1", func() bool { return len(b.msgs[lb]) == count })
	a.wait(t, "all from 2", func() bool { return len(a.msgs[la]) == 2*count })
	for i, m := range append(b.received(lb), a.received(la)...) {
		if want := i % count; i < count && numberOf(t, m) != uint64(want) || i >= count && numberOf(t, m) != uint64(i-count) {
			t.Fatalf("message %d is %d", i, numberOf(t, m))
		}
	}
	if rtt := a.RTT(la); rtt <= 0 { // what waits in queues is part of it
		t.Errorf("rtt %v", rtt)
	}
}

// TestNewestNotification: notifications that cannot leave are overwritten; the last one arrives.
func TestNewestNotification(t *testing.T) {
	n := newLan(t, 1, 2)
	a, b := n.start(1), n.start(2)
	la, lb := a.waitUp(t, 2), b.waitUp(t, 1)
	const count = 50000
	for i := range uint64(count) {
		a.Send(la, &election.Notification{Round: i})
	}
	b.wait(t, "the newest", func() bool {
		ms := b.msgs[lb]
		return len(ms) > 0 && ms[len(ms)-1].(*election.Notification).Round == count-1
	})
	if got := len(b.received(lb)); got == count {
		t.Error("none was overwritten")
	}
}

// TestNotificationOvertakesNothing: a leader that hands over says so before it says that it is looking. Heard the other
// way round its learners would take it for lost and close connections whose writes it has taken.
func TestNotificationOvertakesNothing(t *testing.T) {
	n := newLan(t, 1, 2)
	a, b := n.start(1), n.start(2)
	la, lb := a.waitUp(t, 2), b.waitUp(t, 1)
	const count = 3000
	big := &zab.Append{Epoch: 1, Entries: []zab.Entry{{Zxid: 1, Data: make([]byte, frameSize/3)}}}
	for i := range uint64(count) {
		if i%500 == 0 { // what does not fit into one frame
			a.Send(la, big, big, big, big, big)
		}
		a.Send(la, note(i), &election.Notification{Round: i})
	}
	b.wait(t, "the last", func() bool {
		ms := b.msgs[lb]
		if len(ms) == 0 {
			return false
		}
		m, ok := ms[len(ms)-1].(*election.Notification)
		return ok && m.Round == count-1
	})
	last := uint64(0)
	for _, m := range b.received(lb) {
		switch m := m.(type) {
		case *peer.HandOverMark:
			last = m.LastSeq
		case *election.Notification:
			if m.Round > last {
				t.Fatalf("notification %d comes before message %d", m.Round, m.Round)
			}
		}
	}
}

func TestBigFrames(t *testing.T) {
	n := newLan(t, 1, 2)
	a, b := n.start(1), n.start(2)
	la, lb := a.waitUp(t, 2), b.waitUp(t, 1)
	big := &zab.Append{Epoch: 1, Entries: []zab.Entry{{Zxid: 1, Data: bytes.Repeat([]byte{1}, 6<<20)}, {Zxid: 2, Data: []byte{2}}}}
	a.Send(la, note(1), big, note(2))
	b.wait(t, "three", func() bool { return len(b.msgs[lb]) == 3 })
	got := b.received(lb)[1].(*zab.Append)
	if !bytes.Equal(got.Entries[0].Data, big.Entries[0].Data) || got.Entries[1].Zxid != 2 {
		t.Error("not what was sent")
	}
}

// TestOneMessageIsNeverTooLong: a message longer than all that may wait passes, with what is behind it, or a server that has it
// in its log could send it to nobody.
func TestOneMessageIsNeverTooLong(t *testing.T) {
	n := newLan(t, 1, 2)
	a, b := n.start(1, func(o *Options) { o.QueueSize = 1 << 20 }), n.start(2)
	la, lb := a.waitUp(t, 2), b.waitUp(t, 1)
	a.Send(la, &zab.Append{Epoch: 1, Entries: []zab.Entry{{Zxid: 1, Data: make([]byte, 9<<20)}}})
	a.Send(la, note(1))
	b.wait(t, "both", func() bool { return len(b.msgs[lb]) == 2 })
}

// TestOverflow: a peer that takes nothing costs no more than the queue's size.
func TestOverflow(t *testing.T) {
	n := newLan(t, 1, 2)
	a := n.start(1, func(o *Options) { o.QueueSize = 20 << 20; o.Silence = time.Minute })
	b := n.start(2, func(o *Options) { o.Silence = time.Minute })
	la, lb := a.waitUp(t, 2), b.waitUp(t, 1)
	b.block = make(chan struct{})
	a.Send(la, note(1))
	data := bytes.Repeat([]byte{1}, 1<<20)
	for i := range uint64(60) {
		a.Send(la, &zab.Append{Entries: []zab.Entry{{Zxid: zab.Zxid(i), Data: data}}})
	}
	if e := a.waitDown(t, la); e.refused {
		t.Error("a full queue is no refusal")
	}
	close(b.block)
	b.waitDown(t, lb)
}

func TestCutTellsWhy(t *testing.T) {
	n := newLan(t, 1, 2)
	var log bytes.Buffer
	a := n.start(1)
	b := n.start(2, func(o *Options) { o.Log = zerolog.New(zerolog.SyncWriter(&log)) })
	la, lb := a.waitUp(t, 2), b.waitUp(t, 1)
	for i := range uint64(1000) {
		a.Send(la, note(i))
	}
	a.Cut(la, zab.ReasonGap, "here and there")
	a.waitDown(t, la)
	if e := b.waitDown(t, lb); e.refused {
		t.Error("a link cut by a living peer is no refusal")
	}
	if got := len(b.received(lb)); got != 1000 {
		t.Errorf("%d of 1000 messages that were queued before the cut", got)
	}
	a.wait(t, "a new link", func() bool { return a.up[2].Incarnation > la.Incarnation })
	b.stop()
	for _, want := range []string{string(zab.ReasonGap), "here and there"} {
		if !bytes.Contains(log.Bytes(), []byte(want)) {
			t.Errorf("the log does not say %q: %s", want, log.Bytes())
		}
	}
}

// TestRestart: a server that stops and comes back gets a link of a newer incarnation, after the old one's end, and a
// server that is away is known to be down, on both sides of the order of dialing.
func TestRestart(t *testing.T) {
	n := newLan(t, 1, 2, 3)
	b := n.start(2)
	n.absent()
	b.wait(t, "refused dials", func() bool {
		down := map[zab.ServerID]bool{}
		for _, e := range b.events {
			if e.what == "failed" && e.refused {
				down[e.link.Peer] = true
			}
		}
		return down[1] && down[3]
	})
	a, c := n.start(1), n.start(3)
	for _, s := range []*server{a, c} {
		first := b.waitUp(t, s.id)
		s.waitUp(t, 2)
		s.stop()
		if e := b.waitDown(t, first); !e.refused {
			t.Errorf("server %d has stopped: refused is not set", s.id)
		}
		s = n.start(s.id)
		second := b.waitUp(t, s.id)
		if second.Incarnation <= first.Incarnation {
			t.Errorf("incarnation %d after %d", second.Incarnation, first.Incarnation)
		}
		b.Send(first, note(1)) // of the past: dropped
		b.Send(second, note(2))
		l := s.waitUp(t, 2)
		s.wait(t, "a message", func() bool { return len(s.msgs[l]) > 0 })
		if got := numberOf(t, s.received(l)[0]); got != 2 {
			t.Errorf("message %d", got)
		}
	}
}

func TestManyRestarts(t *testing.T) {
	n := newLan(t, 1, 2, 3)
	n.tune = func(o *Options) { o.DialMin, o.DialMax = time.Millisecond, 5*time.Millisecond }
	b := n.start(2)
	var last [4]zab.Link
	for i := range 100 {
		id := zab.ServerID(1 + 2*(i%2))
		s := n.start(id)
		var l zab.Link
		b.wait(t, "a new link", func() bool {
			l = b.up[id]
			return l.Incarnation > last[id].Incarnation
		})
		last[id] = l
		b.Send(l, note(uint64(i)))
		s.Send(s.waitUp(t, 2), note(uint64(i)))
		s.stop()
		b.waitDown(t, l)
	}
}

const childEnv = "ZKSERVER_TRANSPORT_CHILD"

// child is the process that TestKilledProcess kills: server 2, its listener on any port, its peer at childEnv.
func child() {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	fmt.Fprintln(os.Stdout, ln.Addr())
	o := testOptions(2, ln, map[zab.ServerID]string{1: os.Getenv(childEnv)})
	t, err := New(o, newRecorder())
	if err != nil {
		panic(err)
	}
	panic(t.Run(context.Background()))
}

// TestKilledProcess: the kernel closes what a killed process had; its peer knows within milliseconds, not by silence.
func TestKilledProcess(t *testing.T) {
	n := newLan(t, 1)
	cmd := exec.Command(os.Args[0], "-test.run=^$")
	cmd.Env = append(os.Environ(), childEnv+"="+n.addrs[1])
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	addr, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	n.addrs[2] = addr[:len(addr)-1]
	a := n.start(1, func(o *Options) { o.Silence = time.Minute })
	l := a.waitUp(t, 2)
	killed := time.Now()
	_ = cmd.Process.Kill()
	e := a.waitDown(t, l)
	_ = cmd.Wait()
	if !e.refused {
		t.Error("not known to be down")
	}
	if d := e.at.Sub(killed); d > time.Second {
		t.Errorf("known after %v", d)
	} else {
		t.Logf("known after %v", d)
	}
	a.wait(t, "a refused dial", func() bool {
		last := a.events[len(a.events)-1]
		return last.what == "failed" && last.refused
	})
}

// TestSilence: a peer that says nothing is cut, and is not taken for dead.
func TestSilence(t *testing.T) {
	n := newLan(t, 1, 2)
	n.tune = func(o *Options) { o.Silence = 200 * time.Millisecond }
	p := newProxy(t, n.addrs[1])
	a := n.start(1)
	b := n.start(2, func(o *Options) { o.Peers[0].Addrs = []string{p.ln.Addr().String()} })
	la, lb := a.waitUp(t, 2), b.waitUp(t, 1)
	p.freeze()
	if e := a.waitDown(t, la); e.refused {
		t.Error("silence is no refusal")
	}
	if e := b.waitDown(t, lb); e.refused {
		t.Error("silence is no refusal")
	}
}

// TestBusyHandler: a handler that takes long is not the peer's silence, on neither side.
func TestBusyHandler(t *testing.T) {
	n := newLan(t, 1, 2)
	n.tune = func(o *Options) { o.Silence = 500 * time.Millisecond }
	a, b := n.start(1), n.start(2)
	la, lb := a.waitUp(t, 2), b.waitUp(t, 1)
	b.block = make(chan struct{})
	a.Send(la, note(1))
	timer := time.AfterFunc(1500*time.Millisecond, func() { close(b.block) }) // more than twice the limit
	defer timer.Stop()
	b.wait(t, "the message", func() bool { return len(b.msgs[lb]) == 1 })
	if got := a.waitUp(t, 2); got != la {
		t.Error("the link was cut")
	}
}

// TestDoubledID (interleavings 26): another process with a server's id is refused while the first answers, and is
// admitted once it is silent. A new process of the same directory is no exception.
func TestDoubledID(t *testing.T) {
	n := newLan(t, 1, 2)
	n.tune = func(o *Options) { o.Silence = 300 * time.Millisecond }
	p := newProxy(t, n.addrs[1])
	a := n.start(1)
	n.start(2, func(o *Options) { o.Peers[0].Addrs = []string{p.ln.Addr().String()} })
	first := a.waitUp(t, 2)
	other := newLan(t, 2)
	other.addrs[1] = n.addrs[1]
	var log syncBuffer
	c := other.start(2, func(o *Options) {
		o.Silence, o.Instance, o.Log = 300*time.Millisecond, 77, zerolog.New(&log)
	})
	c.wait(t, "three refusals", func() bool { return len(c.events) >= 3 })
	for _, e := range c.events {
		if e.what != "failed" || e.refused {
			t.Errorf("%+v", e)
		}
	}
	if got := a.waitUp(t, 2); got != first {
		t.Errorf("the first link was replaced by %v", got)
	}
	if !bytes.Contains(log.bytes(), []byte(zab.ReasonDoubledID)) {
		t.Errorf("the refused one does not say why: %s", log.bytes())
	}
	p.freeze()
	c.waitUp(t, 1)
	a.wait(t, "its link", func() bool { return a.up[2].Incarnation > first.Incarnation })
}

// TestDoubledSmallerID: whoever waits to be dialed is told as well that its id is in use.
func TestDoubledSmallerID(t *testing.T) {
	n := newLan(t, 1, 2)
	a := n.start(1)
	b := n.start(2)
	first := b.waitUp(t, 1)
	other := newLan(t, 1)
	other.addrs[2] = n.addrs[2]
	var log syncBuffer
	c := other.start(1, func(o *Options) { o.Instance, o.Log = 77, zerolog.New(&log) })
	c.wait(t, "two refusals", func() bool { return len(c.events) >= 2 })
	for _, e := range c.events {
		if e.what != "failed" || e.refused {
			t.Errorf("%+v", e)
		}
	}
	if !bytes.Contains(log.bytes(), []byte(zab.ReasonDoubledID)) {
		t.Errorf("it does not say why: %s", log.bytes())
	}
	if got := b.waitUp(t, 1); got != first {
		t.Errorf("the first link was replaced by %v", got)
	}
	a.waitUp(t, 2)
}

// TestAddresses: a name that does not resolve and a port where nobody listens do not keep a peer from being found,
// and a peer of which one address is in doubt is not known to be down.
func TestAddresses(t *testing.T) {
	n := newLan(t, 1, 2, 3)
	n.absent()
	a := n.start(1)
	nobody, unknown := n.addrs[3], "name.invalid:1"
	b := n.start(2, func(o *Options) {
		o.Peers[0].Addrs = []string{unknown, nobody, n.addrs[1]}
		o.Peers[1].Addrs = []string{nobody, unknown}
		if o.Peers[0].ID == 3 {
			o.Peers[0].Addrs, o.Peers[1].Addrs = o.Peers[1].Addrs, o.Peers[0].Addrs
		}
	})
	b.waitUp(t, 1)
	a.waitUp(t, 2)
	b.wait(t, "a dial in vain", func() bool {
		for _, e := range b.events {
			if e.what == "failed" && e.link.Peer == 3 {
				if e.refused {
					t.Error("known to be down")
				}
				return true
			}
		}
		return false
	})
}

// TestStrangers are refused by name and keep trying.
func TestStrangers(t *testing.T) {
	for _, tt := range []struct {
		name   string
		tune   func(*Options)
		reason zab.Reason
	}{
		{"voter list", func(o *Options) { o.ConfigSum = 8 }, zab.ReasonVoterList},
		{"ensemble", func(o *Options) { o.Ensemble = func() zab.ID { return 10 } }, zab.ReasonForeignEnsemble},
		{"no member", func(o *Options) { o.Self = 5 }, zab.ReasonVoterList},
	} {
		for _, self := range []zab.ServerID{1, 3} {
			t.Run(fmt.Sprintf("%s, %d", tt.name, self), func(t *testing.T) {
				n := newLan(t, self, 2)
				b := n.start(2)
				var log syncBuffer
				s := n.start(self, tt.tune, func(o *Options) { o.Log = zerolog.New(&log) })
				s.wait(t, "two refusals", func() bool { return len(s.events) >= 2 })
				for _, e := range s.events {
					if e.what != "failed" || e.refused {
						t.Errorf("%+v", e)
					}
				}
				if !bytes.Contains(log.bytes(), []byte(tt.reason)) {
					t.Errorf("the log does not say %q: %s", tt.reason, log.bytes())
				}
				b.recorder.mu.Lock()
				defer b.recorder.mu.Unlock()
				if len(b.up) > 0 {
					t.Error("it was let in")
				}
			})
		}
	}
	t.Run("a blank is let in", func(t *testing.T) {
		n := newLan(t, 1, 2)
		b := n.start(2)
		n.start(1, func(o *Options) { o.Ensemble = func() zab.ID { return 0 } })
		b.waitUp(t, 1)
	})
}

// TestMalformed: a link ends with the first message that cannot be, and nothing behind it is taken.
func TestMalformed(t *testing.T) {
	env := &zabv1.Envelope{Ensemble: 9, From: 3, To: 2, Instance: 3, Link: 1}
	good := &zabv1.Message{Kind: &zabv1.Message_HandOverMark{HandOverMark: &zabv1.HandOverMark{LastSeq: 1}}}
	epoch := &zabv1.Message{Kind: &zabv1.Message_Ack{Ack: &zabv1.Ack{Epoch: 1 << 31}}}
	for name, f := range map[string]*zabv1.Frame{
		"kind":     {Envelope: env, Messages: []*zabv1.Message{good, {}}},
		"value":    {Envelope: env, Messages: []*zabv1.Message{good, epoch}},
		"link":     {Envelope: &zabv1.Envelope{From: 3, To: 2, Instance: 3, Link: 4}, Messages: []*zabv1.Message{good}},
		"ensemble": {Envelope: &zabv1.Envelope{Ensemble: 10, From: 3, To: 2, Instance: 3, Link: 1}},
		"envelope": {Messages: []*zabv1.Message{good}},
	} {
		t.Run(name, func(t *testing.T) {
			n := newLan(t, 2, 3)
			b := n.start(2)
			cc, err := grpc.NewClient(n.addrs[2], grpc.WithTransportCredentials(insecure.NewCredentials()))
			if err != nil {
				t.Fatal(err)
			}
			defer closeQuietly(cc)
			stream, err := zabv1.NewPeerServiceClient(cc).Link(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			send := func(f *zabv1.Frame) {
				t.Helper()
				if err := stream.Send(f); err != nil {
					t.Fatal(err)
				}
			}
			send(&zabv1.Frame{Envelope: env, Hello: &zabv1.Hello{Version: version, ConfigSum: 7, Process: 5}})
			if f, err := stream.Recv(); err != nil || f.GetHello() == nil {
				t.Fatal(f, err)
			}
			send(&zabv1.Frame{Envelope: env})
			l := b.waitUp(t, 3)
			send(f)
			_ = stream.Send(&zabv1.Frame{Envelope: env, Messages: []*zabv1.Message{good}})
			b.waitDown(t, l)
			if got := b.received(l); len(got) != 0 {
				t.Errorf("taken: %v", got)
			}
			for {
				f, err := stream.Recv()
				if err != nil {
					t.Fatalf("no bye: %v", err)
				}
				if f.GetBye() != nil {
					break
				}
			}
		})
	}
}

// TestGarbage: bytes that are no gRPC.
func TestGarbage(t *testing.T) {
	n := newLan(t, 1, 2)
	b := n.start(2)
	for _, s := range []string{"", "ruok", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\xff", "\x00\x00\x00\x2c\x00\x00"} {
		c, err := net.Dial("tcp", n.addrs[2])
		if err != nil {
			t.Fatal(err)
		}
		_, _ = c.Write([]byte(s))
		c.Close()
	}
	n.start(1)
	b.waitUp(t, 1)
}

func TestOptions(t *testing.T) {
	_, err := New(Options{Self: 300, Peers: []Peer{{ID: 1}, {ID: 1, Addrs: []string{"a:1"}}, {ID: 300, Addrs: []string{"a:1"}}}}, nil)
	if err == nil {
		t.Fatal("accepted")
	}
	for _, want := range []string{"handler", "listener", "server id 300", "given twice", "no address"} {
		if !bytes.Contains([]byte(err.Error()), []byte(want)) {
			t.Errorf("%q is not said: %v", want, err)
		}
	}
}

var _ peer.Message = note(0)
