package transport

import (
	"context"
	"errors"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/zkserver/zkserver/election"
	zabv1 "github.com/zkserver/zkserver/proto/zab/v1"
	"github.com/zkserver/zkserver/server/peer"
	"github.com/zkserver/zkserver/zab"
)

// frameSize is what a frame carries at most, unless one message alone is larger.
const frameSize = 256 << 10

// maxFrame is the longest frame that is taken: one transaction of the largest jute.maxbuffer, and what is added to it.
const maxFrame = 512 << 20

// grace is how long a link that is cut may take to flush what was queued before.
const grace = 250 * time.Millisecond

// Reasons that only links have.
const (
	reasonLost   zab.Reason = "link lost"
	reasonSilent zab.Reason = "link silent"
)

// frames is a stream as both ends of a link see it.
type frames interface {
	Send(*zabv1.Frame) error
	Recv() (*zabv1.Frame, error)
}

// identity is what a peer's Hello said.
type identity struct {
	instance zab.ID
	process  zab.ID
	link     uint64 // the peer's number of the link
}

// ending is why a link ended.
type ending struct {
	reason  zab.Reason
	detail  string
	refused bool // the peer's process is known to be down
	tell    bool // flush what is queued, then say Bye
}

type item struct {
	msg  peer.Message
	size int
}

// link is one incarnation of the connection with a peer. Three goroutines serve it: run, which its owner calls, a
// reader and a sender, which end with run.
type link struct {
	t      *Transport
	peer   *remote
	id     zab.Link
	remote identity
	stream frames
	rtt    atomic.Int64

	mu      sync.Mutex
	queue   []item
	bytes   int
	note    *election.Notification // the newest one that waits
	ahead   int                    // how much of the queue was there before it: it overtakes nothing
	ping    uint64                 // to be sent; zero: none
	pong    uint64
	bye     *zabv1.Bye // the last frame; nothing is queued behind it
	probes  []probe
	wake    chan struct{}
	stopped bool
	end     ending
	stop    chan struct{} // closed when the link has ended

	// deliver is held during calls of the handler: nothing is delivered after LinkDown.
	deliver sync.Mutex
	down    bool
	gone    chan struct{} // closed after LinkDown
	flushed chan struct{} // closed when the sender has ended
	drained chan struct{} // closed when the reader has ended
	over    chan struct{} // closed when run has done all it waits for

	heardAt atomic.Int64 // in the transport's monotonic nanoseconds
	busy    atomic.Bool  // a frame is being dealt with: not reading is not silence of the peer
}

// probe waits for a pong.
type probe struct {
	number uint64
	done   chan struct{}
}

func newLink(t *Transport, p *remote, who identity, stream frames, number uint64) *link {
	l := &link{
		t: t, peer: p, id: zab.Link{Peer: p.ID, Incarnation: number}, remote: who, stream: stream,
		wake: make(chan struct{}, 1), stop: make(chan struct{}), gone: make(chan struct{}),
		flushed: make(chan struct{}), drained: make(chan struct{}), over: make(chan struct{}),
	}
	l.heardAt.Store(t.now())
	return l
}

// run serves a link that was admitted, until it ends. close ends the stream; it is told whether all was flushed.
func (l *link) run(closeStream func(flushed bool)) {
	defer close(l.over)
	l.t.opts.Log.Info().Uint64("peer", uint64(l.id.Peer)).Uint64("link", l.id.Incarnation).Dur("rtt", time.Duration(l.rtt.Load())).Msg("link up")
	l.t.handler.LinkUp(l.id, time.Duration(l.rtt.Load()))
	l.t.spawn(func() { defer close(l.flushed); l.send() }) // ends with the link
	l.t.spawn(func() { defer close(l.drained); l.read() }) // ends with the stream
	<-l.stop
	l.deliver.Lock()
	l.down = true
	l.t.handler.LinkDown(l.id, l.end.refused)
	l.deliver.Unlock()
	l.peer.set(l, nil)
	close(l.gone)
	closeStream(l.end.tell && within(grace, l.flushed))
}

// within waits, but not for ever; false: in vain.
func within(d time.Duration, done <-chan struct{}) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-done:
		return true
	case <-timer.C:
		return false
	}
}

// cut ends the link; the first reason counts.
func (l *link) cut(e ending) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.stopped {
		return
	}
	l.stopped, l.end = true, e
	if e.tell {
		l.bye = &zabv1.Bye{Reason: text(string(e.reason)), Detail: text(e.detail)}
	}
	close(l.stop)
	l.bell()
	l.t.opts.Log.Info().Uint64("peer", uint64(l.id.Peer)).Uint64("link", l.id.Incarnation).Str("reason", string(e.reason)).
		Str("detail", e.detail).Bool("refused", e.refused).Msg("link down")
}

func (l *link) bell() {
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

// push queues messages.
func (l *link) push(msgs []peer.Message) {
	l.mu.Lock()
	if l.stopped {
		l.mu.Unlock()
		return
	}
	for _, m := range msgs {
		if n, ok := m.(*election.Notification); ok {
			l.note, l.ahead = n, len(l.queue)
			continue
		}
		n := size(m)
		l.queue = append(l.queue, item{msg: m, size: n})
		l.bytes += n
	}
	// A message of any length passes when its turn comes: what is in the log must go through, or no server could ever get it.
	over := len(l.queue) > 0 && l.bytes-l.queue[0].size > l.t.opts.QueueSize
	l.bell()
	l.mu.Unlock()
	if over {
		l.cut(ending{reason: zab.ReasonNoProgress, detail: "too much waits to be sent"})
	}
}

// next takes what fits into a frame; ok is false when nothing is ready, last when the link ends behind it.
func (l *link) next() (msgs []item, f *zabv1.Frame, last, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.stopped && !l.end.tell {
		return nil, nil, true, false
	}
	f = &zabv1.Frame{Ping: l.ping, Pong: l.pong}
	l.ping, l.pong = 0, 0
	n, total := 0, 0
	for n < len(l.queue) && (n == 0 || total+l.queue[n].size <= frameSize) {
		total += l.queue[n].size
		n++
	}
	switch {
	case l.note == nil:
		msgs = l.queue[:n:n]
	case l.ahead > n:
		msgs = l.queue[:n:n]
		l.ahead -= n
	default:
		msgs = append(msgs, l.queue[:l.ahead]...)
		msgs = append(msgs, item{msg: l.note})
		msgs = append(msgs, l.queue[l.ahead:n]...)
		l.note = nil
	}
	if l.queue = l.queue[n:]; len(l.queue) == 0 {
		l.queue = nil
		if l.bye != nil {
			f.Bye, last = l.bye, true
		}
	}
	l.bytes -= total
	return msgs, f, last, last || len(msgs) > 0 || f.GetPing() != 0 || f.GetPong() != 0
}

func (l *link) send() {
	for {
		msgs, f, last, ok := l.next()
		switch {
		case !ok && last:
			return
		case !ok:
			<-l.wake // rung by cut too
			continue
		}
		f.Envelope = l.t.envelope(l.id.Peer, l.id.Incarnation)
		if len(msgs) > 0 {
			f.Messages = make([]*zabv1.Message, len(msgs))
			for i, m := range msgs {
				var err error
				if f.Messages[i], err = encode(m.msg); err != nil {
					l.cut(ending{reason: zab.ReasonBadMessage, detail: err.Error()})
					return
				}
			}
		}
		if err := l.stream.Send(f); err != nil {
			if !errors.Is(err, io.EOF) { // else the stream has ended, and the reader learns why
				l.cut(lost(err))
			}
			return
		}
		if last {
			return
		}
	}
}

func (l *link) read() {
	for {
		f, err := l.stream.Recv()
		if err != nil {
			l.cut(lost(err))
			return
		}
		l.busy.Store(true)
		e, ok := l.take(f)
		l.heardAt.Store(l.t.now())
		l.busy.Store(false)
		if !ok {
			l.cut(e)
			for err == nil { // nothing more is taken; the peer may still be reading what is flushed
				_, err = l.stream.Recv()
			}
			return
		}
	}
}

// lost judges the end of a stream that nobody announced.
func lost(err error) ending {
	e := ending{reason: reasonLost, detail: err.Error()}
	switch status.Code(err) {
	case codes.Unavailable, codes.Canceled: // its end is closed or reset
		e.refused = true
	default:
		e.refused = errors.Is(err, io.EOF)
	}
	return e
}

// take does what a frame says; false: the link ends.
func (l *link) take(f *zabv1.Frame) (ending, bool) {
	env := f.GetEnvelope()
	if env.GetFrom() != uint64(l.id.Peer) || env.GetTo() != uint64(l.t.opts.Self) ||
		env.GetInstance() != uint64(l.remote.instance) || env.GetLink() != l.remote.link {
		return ending{reason: zab.ReasonBadMessage, detail: "a frame of another link", tell: true}, false
	}
	if own := l.t.opts.Ensemble(); foreign(own, zab.ID(env.GetEnsemble())) {
		return ending{reason: zab.ReasonForeignEnsemble, tell: true}, false
	}
	l.probed(f.GetPing(), f.GetPong())
	if n := len(f.GetMessages()); n > 0 {
		msgs := make([]peer.Message, n)
		for i, m := range f.GetMessages() {
			var err error
			if msgs[i], err = decode(m); err != nil {
				return ending{reason: zab.ReasonBadMessage, detail: err.Error(), tell: true}, false
			}
		}
		l.deliver.Lock()
		if !l.down {
			l.t.handler.Messages(l.id, msgs)
		}
		l.deliver.Unlock()
	}
	if bye := f.GetBye(); bye != nil {
		reason := zab.Reason(bye.GetReason())
		return ending{reason: reason, detail: bye.GetDetail(), refused: reason == zab.ReasonStopping}, false
	}
	return ending{}, true
}

// probed answers a ping and takes in a pong.
func (l *link) probed(ping, pong uint64) {
	if ping == 0 && pong == 0 {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if ping != 0 {
		l.pong = ping
		l.bell()
	}
	if pong == 0 {
		return
	}
	if rtt := l.t.now() - int64(pong); rtt > 0 && rtt < int64(time.Minute) {
		l.rtt.Store(rtt)
	}
	rest := l.probes[:0]
	for _, p := range l.probes {
		if p.number <= pong {
			close(p.done)
		} else {
			rest = append(rest, p)
		}
	}
	l.probes = rest
}

// sendPing asks for a pong, numbered by the time it is sent at.
func (l *link) sendPing() uint64 {
	n := uint64(l.t.now())
	l.mu.Lock()
	l.ping = n
	l.bell()
	l.mu.Unlock()
	return n
}

// answers reports whether the peer at the other end lives: it answers a ping within the silence limit.
func (l *link) answers(ctx context.Context) bool {
	p := probe{number: l.sendPing(), done: make(chan struct{})}
	l.mu.Lock()
	l.probes = append(l.probes, p)
	l.mu.Unlock()
	timer := time.NewTimer(l.t.opts.Silence)
	defer timer.Stop()
	select {
	case <-p.done:
		return true
	case <-l.stop:
	case <-timer.C:
	case <-ctx.Done():
	}
	return false
}

// watch is called at each beat of the transport's monitor. The limit is twice the one at which zab gives up a leader
// or a learner: here it frees what a dead host holds, and a false alarm on a loaded machine would cost a link.
func (l *link) watch(now int64) {
	if silent := time.Duration(now - l.heardAt.Load()); silent > 2*l.t.opts.Silence && !l.busy.Load() {
		l.cut(ending{reason: reasonSilent, detail: silent.String()})
		return
	}
	l.sendPing()
}

// forgive is called after a pause of this process: it was not the peer that was silent.
func (l *link) forgive(now int64) { l.heardAt.Store(now) }

func foreign(a, b zab.ID) bool { return a != 0 && b != 0 && a != b }
