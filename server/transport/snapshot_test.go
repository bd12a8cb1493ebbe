package transport

import (
	"context"
	"errors"
	"hash/crc32"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	zabv1 "github.com/zkserver/zkserver/proto/zab/v1"
	"github.com/zkserver/zkserver/zab"
)

// syncBuffer is a log that can be read while it is written.
type syncBuffer struct {
	mu sync.Mutex
	b  []byte
}

func (s *syncBuffer) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.b = append(s.b, p...)
	return len(p), nil
}

func (s *syncBuffer) bytes() []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]byte(nil), s.b...)
}

func wait(t *testing.T, done <-chan error) error {
	t.Helper()
	select {
	case err := <-done:
		return err
	case <-time.After(time.Minute):
		t.Fatal("never done")
		return nil
	}
}

func (s *server) snapshot(l zab.Link, src SnapshotSource, progress func()) <-chan error {
	done := make(chan error, 1)
	s.SendSnapshot(context.Background(), l, src, func(err error) { done <- err }, progress)
	return done
}

// TestSnapshot goes from the smaller id to the larger and back: either may lead.
func TestSnapshot(t *testing.T) {
	n := newLan(t, 1, 2)
	a, b := n.start(1), n.start(2)
	for _, d := range []struct{ from, to *server }{{a, b}, {b, a}} {
		l := d.from.waitUp(t, d.to.id)
		d.to.waitUp(t, d.from.id)
		const size = 9<<20 + 17
		src := &memSource{left: size}
		var moved atomic.Int64
		if err := wait(t, d.from.snapshot(l, src, func() { moved.Add(1) })); err != nil {
			t.Fatal(err)
		}
		d.to.recorder.mu.Lock()
		sink := d.to.sinks[0]
		if !sink.finished || sink.aborted != nil || sink.data.Len() != size || sink.zxid != src.Zxid() || !src.closed {
			t.Errorf("finished %v, aborted %v, %d bytes of %v", sink.finished, sink.aborted, sink.data.Len(), sink.zxid)
		}
		d.to.recorder.mu.Unlock()
	}
}

// TestSnapshotBesideProtocol: a receiver that is slow to write holds up its snapshot and nothing else.
func TestSnapshotBesideProtocol(t *testing.T) {
	n := newLan(t, 1, 2)
	a, b := n.start(1), n.start(2)
	gate := make(chan struct{})
	b.sink = func(s *memSink) error {
		s.gate = gate
		return nil
	}
	la, lb := a.waitUp(t, 2), b.waitUp(t, 1)
	done := a.snapshot(la, &memSource{left: 64 << 20}, func() {})
	b.wait(t, "its start", func() bool { return len(b.sinks) == 1 })
	for i := range uint64(200) {
		a.Send(la, note(i))
		b.wait(t, "a message", func() bool { return len(b.msgs[lb]) == int(i)+1 })
	}
	select {
	case err := <-done:
		t.Fatalf("done: %v", err)
	default:
	}
	close(gate)
	if err := wait(t, done); err != nil {
		t.Error(err)
	}
}

// TestSnapshotCut: what is cut in the middle is aborted on both sides, whoever cuts it, and never finished.
func TestSnapshotCut(t *testing.T) {
	broken := errors.New("the source is broken")
	full := errors.New("the disk is full")
	for name, cut := range map[string]func(a, b *server, la, lb zab.Link){
		"sender":   func(a, _ *server, la, _ zab.Link) { a.Cut(la, zab.ReasonStopping, "") },
		"receiver": func(_, b *server, _, lb zab.Link) { b.Cut(lb, zab.ReasonStopping, "") },
		"stop":     func(a, _ *server, _, _ zab.Link) { a.stop() },
		"stopped":  func(_, b *server, _, _ zab.Link) { b.stop() },
		"source":   nil,
		"sink":     nil,
		"refused":  nil,
	} {
		t.Run(name, func(t *testing.T) {
			n := newLan(t, 1, 2)
			a, b := n.start(1), n.start(2)
			gate := make(chan struct{})
			open := sync.OnceFunc(func() { close(gate) })
			defer open()
			b.sink = func(s *memSink) error {
				s.gate = gate
				switch name {
				case "sink":
					s.fail = full
				case "refused":
					return full
				}
				return nil
			}
			la, lb := a.waitUp(t, 2), b.waitUp(t, 1)
			src := &memSource{left: 32 << 20}
			if name == "source" {
				src.fail = broken
			}
			done := a.snapshot(la, src, func() {})
			if name != "refused" {
				b.wait(t, "its start", func() bool { return len(b.sinks) == 1 })
			}
			if cut != nil {
				time.AfterFunc(10*time.Millisecond, open)
				cut(a, b, la, lb)
			}
			open()
			err := wait(t, done)
			if err == nil {
				t.Fatal("no error")
			}
			if name == "source" && !errors.Is(err, broken) || (name == "sink" || name == "refused") && !strings.Contains(err.Error(), full.Error()) {
				t.Errorf("error is %v", err)
			}
			if name == "refused" {
				return
			}
			b.wait(t, "its abort", func() bool { return b.sinks[0].aborted != nil })
			if b.sinks[0].finished {
				t.Error("finished")
			}
		})
	}
}

// TestSnapshotGivenUp: a transfer that is not wanted any more ends, on both sides; its link goes on.
func TestSnapshotGivenUp(t *testing.T) {
	n := newLan(t, 1, 2)
	a, b := n.start(1), n.start(2)
	gate := make(chan struct{})
	b.sink = func(s *memSink) error {
		s.gate = gate
		return nil
	}
	la, lb := a.waitUp(t, 2), b.waitUp(t, 1)
	ctx, cancel := context.WithCancel(context.Background())
	src, done := &memSource{left: 64 << 20}, make(chan error, 1)
	a.SendSnapshot(ctx, la, src, func(err error) { done <- err }, func() {})
	b.wait(t, "its start", func() bool { return len(b.sinks) == 1 })
	cancel()
	if err := wait(t, done); !errors.Is(err, context.Canceled) || !src.closed {
		t.Errorf("%v, closed %v", err, src.closed)
	}
	close(gate)
	b.wait(t, "its abort", func() bool { return b.sinks[0].aborted != nil })
	a.Send(la, note(1))
	b.wait(t, "a message", func() bool { return len(b.msgs[lb]) == 1 })
}

// TestSnapshotOfThePast: a link that has ended, or a transport that has, takes none.
func TestSnapshotOfThePast(t *testing.T) {
	n := newLan(t, 1, 2)
	a, b := n.start(1), n.start(2)
	la := a.waitUp(t, 2)
	b.waitUp(t, 1)
	a.Cut(la, zab.ReasonStopping, "")
	a.waitDown(t, la)
	if err := wait(t, a.snapshot(la, &memSource{left: 5}, func() {})); !errors.Is(err, ErrLinkGone) {
		t.Errorf("%v", err)
	}
	a.stop()
	src := &memSource{left: 5}
	if err := wait(t, a.snapshot(la, src, func() {})); !errors.Is(err, ErrStopped) || !src.closed {
		t.Errorf("%v, closed %v", err, src.closed)
	}
}

func TestAssembly(t *testing.T) {
	chunk := func(offset uint64, data string, sum uint32) *zabv1.SnapshotFrame {
		return &zabv1.SnapshotFrame{Part: &zabv1.SnapshotFrame_Chunk{Chunk: &zabv1.SnapshotChunk{Offset: offset, Data: []byte(data), Crc32C: sum}}}
	}
	end := func(total uint64, sum uint32) *zabv1.SnapshotFrame {
		return &zabv1.SnapshotFrame{Part: &zabv1.SnapshotFrame_End{End: &zabv1.SnapshotEnd{Total: total, Crc32C: sum}}}
	}
	sum := func(s string) uint32 { return crc32.Checksum([]byte(s), castagnoli) }
	for _, tt := range []struct {
		name  string
		parts []*zabv1.SnapshotFrame
		want  string
	}{
		{"right", []*zabv1.SnapshotFrame{chunk(0, "ab", sum("ab")), chunk(2, "c", sum("c")), end(3, sum("abc"))}, ""},
		{"empty", []*zabv1.SnapshotFrame{end(0, 0)}, ""},
		{"flipped bit", []*zabv1.SnapshotFrame{chunk(0, "ab", sum("aa"))}, "checksum of the chunk at 0"},
		{"hole", []*zabv1.SnapshotFrame{chunk(0, "ab", sum("ab")), chunk(3, "c", sum("c"))}, "chunk at 3, expected at 2"},
		{"repeated", []*zabv1.SnapshotFrame{chunk(0, "ab", sum("ab")), chunk(0, "ab", sum("ab"))}, "chunk at 0, expected at 2"},
		{"short", []*zabv1.SnapshotFrame{chunk(0, "ab", sum("ab")), end(3, sum("abc"))}, "sent were 3"},
		{"another", []*zabv1.SnapshotFrame{chunk(0, "ab", sum("ab")), end(2, sum("ba"))}, "sent were 2"},
		{"unknown", []*zabv1.SnapshotFrame{{}}, "unknown part"},
		{"begun twice", []*zabv1.SnapshotFrame{{Part: &zabv1.SnapshotFrame_Begin{}}}, "unknown part"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var a assembly
			var err error
			var done bool
			for _, p := range tt.parts {
				if _, done, err = a.take(p); err != nil {
					break
				}
			}
			if tt.want == "" && (err != nil || !done) || tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)) {
				t.Errorf("done %v, %v", done, err)
			}
		})
	}
}
