package session_test

import (
	"fmt"
	"testing"

	"github.com/zkserver/zkserver/server/session"
	"github.com/zkserver/zkserver/znode"
)

// fixedWire writes the same hundred bytes for every reply, deafSink takes everything.
type fixedWire struct{}

var hundred [100]byte

func (fixedWire) Slot() int                                                           { return 0 }
func (fixedWire) AppendReply(dst []byte, _ *session.Reply) []byte                     { return append(dst, hundred[:]...) }
func (fixedWire) AppendEvent(dst []byte, _ int64, _ znode.EventType, _ string) []byte { return dst }

type deafSink struct{}

func (deafSink) TryWrite(b []byte) (int, error) { return len(b), nil }
func (deafSink) Write(b []byte) (int, error)    { return len(b), nil }
func (deafSink) Close() error                   { return nil }

// BenchmarkOutbox queues a run of replies and writes them, without a wire's encoding and a socket.
func BenchmarkOutbox(b *testing.B) {
	for _, n := range []int{1, 64} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			r := start(b, session.Options{})
			c := r.open(fixedWire{}, deafSink{}, session.Attach{})
			reply := &session.Reply{Op: znode.OpGetData, Xid: 1}
			b.ReportAllocs()
			for b.Loop() {
				for range n {
					c.Answer(reply)
				}
				c.Flush()
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*n), "ns/reply")
		})
	}
}
