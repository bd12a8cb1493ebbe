package front

import (
	"testing"

	"github.com/zkserver/zkserver/proto/jute"
	"github.com/zkserver/zkserver/server/session"
	"github.com/zkserver/zkserver/znode"
)

// stages are requests as they come, with what decoding one may allocate: what the tree and the log keep, and the request.
var stages = []struct {
	name   string
	frame  []byte
	allocs float64
	reply  session.Reply
}{
	{"getData", request(1, jute.OpGetData, get("/services/web/instance-0000000042", false)), 0,
		session.Reply{Op: znode.OpGetData, Xid: 1, Zxid: 9, Data: make([]byte, 100)}},
	{"setData", request(2, jute.OpSetData, set("/services/web/instance-0000000042", string(make([]byte, 100)))), 3,
		session.Reply{Op: znode.OpSetData, Xid: 2, Zxid: 9}},
	{"create", request(3, jute.OpCreate, create("/services/web/instance-", string(make([]byte, 100)), 2)), 5,
		session.Reply{Op: znode.OpCreate, Xid: 3, Zxid: 9, Path: "/services/web/instance-0000000042"}},
}

// TestStagesAllocate: the first and the last stage of a request, from its frame and to its reply.
func TestStagesAllocate(t *testing.T) {
	var d decoder
	var r session.Request
	dst := make([]byte, 0, 1024)
	for _, x := range stages {
		if n := testing.AllocsPerRun(100, func() {
			if k := d.decode(x.frame, &r); k != kindRequest || r.Err != znode.OK {
				t.Fatal(x.name, k, r.Err)
			}
		}); n > x.allocs {
			t.Errorf("%s: decoding allocates %v times, more than %v", x.name, n, x.allocs)
		}
		if n := testing.AllocsPerRun(100, func() { zkWire{}.AppendReply(dst, &x.reply) }); n != 0 {
			t.Errorf("%s: its reply allocates %v times", x.name, n)
		}
	}
}

func BenchmarkDecode(b *testing.B) {
	for _, x := range stages {
		b.Run(x.name, func(b *testing.B) {
			var d decoder
			var r session.Request
			b.ReportAllocs()
			for b.Loop() {
				d.decode(x.frame, &r)
			}
		})
	}
}

func BenchmarkEncode(b *testing.B) {
	dst := make([]byte, 0, 1024)
	for _, x := range stages {
		b.Run(x.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				zkWire{}.AppendReply(dst, &x.reply)
			}
		})
	}
}
