package client

import (
	"bytes"
	"errors"
	"io"
	"net"
	"testing"

	"github.com/zkserver/zkserver/proto/jute"
)

// readOnly is a connection that says what it is given.
type readOnly struct {
	net.Conn
	r io.Reader
}

func (c readOnly) Read(p []byte) (int, error) { return c.r.Read(p) }

// FuzzZKLink: nothing that a server says makes the client panic, or allocate what has not arrived.
func FuzzZKLink(f *testing.F) {
	var seed []byte
	seed = jute.AppendEvent(seed, 5, 1, "/a")
	seed = jute.AppendReply(seed, jute.ReplyHeader{Xid: 1, Zxid: 7})
	for _, body := range []jute.Record{
		&jute.GetDataResponse{Data: []byte("x")}, &jute.GetChildren2Response{Children: []string{"a"}},
		&jute.MultiResponse{Results: []jute.OpResult{{Type: jute.OpCreate2, Path: jute.Str("/a")}, {Type: jute.OpError, Err: -101}}},
		&jute.WhoAmIResponse{ClientInfo: []jute.ClientInfo{{AuthScheme: jute.Str("ip"), User: jute.Str("::1")}}},
	} {
		var b []byte
		b, at := jute.BeginFrame(b)
		h := jute.ReplyHeader{Xid: 2, Zxid: 8}
		b = jute.EndFrame(body.Append(h.Append(b)), at)
		f.Add(b, int32(4))
		seed = append(seed, b...)
	}
	f.Add(seed, int32(14))
	f.Add([]byte{0x7f, 0xff, 0xff, 0xff, 0}, int32(4))
	f.Fuzz(func(t *testing.T, b []byte, op int32) {
		l := newZKLink(readOnly{r: bytes.NewReader(b)}, 1<<16)
		for {
			in, err := l.next()
			if err != nil {
				return
			}
			if in.event != 0 || in.code != OK || in.tooLarge {
				continue
			}
			var rep reply
			if err := l.body(jute.OpCode(op), &rep); err != nil && !errors.Is(err, ErrProtocol) {
				t.Fatalf("error %v is not a protocol error", err)
			}
		}
	})
}
