package client

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"

	"github.com/zkserver/zkserver/proto/jute"
)

// zkLink speaks the ZooKeeper wire.
type zkLink struct {
	conn   net.Conn
	limit  int // of a frame
	in     *bufio.Reader
	frames *jute.FrameReader
	out    *bufio.Writer
	dec    jute.Decoder // of the frame that next has read
}

func newZKLink(conn net.Conn, limit int) *zkLink {
	in := bufio.NewReaderSize(conn, 32<<10)
	return &zkLink{conn: conn, limit: limit, in: in, frames: jute.NewFrameReader(in, limit), out: bufio.NewWriterSize(conn, 32<<10)}
}

func (l *zkLink) close() { _ = l.conn.Close() }

func (l *zkLink) connect(ctx context.Context, h hello) (welcome, error) {
	stop := context.AfterFunc(ctx, l.close)
	w, err := l.handshake(h)
	if !stop() {
		return welcome{}, fmt.Errorf("no session in time: %w", ctx.Err())
	}
	return w, err
}

func (l *zkLink) handshake(h hello) (welcome, error) {
	req := jute.ConnectRequest{
		LastZxidSeen: h.lastZxid, TimeOut: h.timeout, SessionID: h.session.ID, Passwd: h.session.Password,
		ReadOnly: h.readOnly, HasReadOnly: true,
	}
	if h.session.ID == 0 {
		req.Passwd = make([]byte, 16)
	}
	b, at := jute.BeginFrame(nil)
	if _, err := l.conn.Write(jute.EndFrame(req.Append(b), at)); err != nil {
		return welcome{}, err
	}
	frame, err := l.frames.Next()
	if err != nil {
		return welcome{}, err
	}
	var rep jute.ConnectResponse
	l.dec.Reset(frame)
	rep.Decode(&l.dec)
	if err := l.dec.Err(); err != nil {
		return welcome{}, fmt.Errorf("%w: connect response: %w", ErrProtocol, err)
	}
	return welcome{timeout: rep.TimeOut, session: rep.SessionID, password: rep.Passwd, readOnly: rep.ReadOnly}, nil
}

func (l *zkLink) write(batch []*call) error {
	for _, cl := range batch {
		binary.BigEndian.PutUint32(cl.frame[4:], uint32(cl.xid))
		if _, err := l.out.Write(cl.frame); err != nil {
			return err
		}
	}
	return l.out.Flush()
}

func (l *zkLink) next() (inbound, error) {
	head, err := l.in.Peek(4)
	if err != nil {
		return inbound{}, err
	}
	if n := int32(binary.BigEndian.Uint32(head)); n >= jute.ReplyHeaderSize && int(n) > l.limit {
		return l.skip(int(n))
	}
	frame, err := l.frames.Next()
	if err != nil {
		return inbound{}, err
	}
	l.dec.Reset(frame)
	var h jute.ReplyHeader
	h.Decode(&l.dec)
	in := inbound{xid: h.Xid, zxid: h.Zxid, code: Code(h.Err)}
	if h.Xid == jute.XidEvent && l.dec.Err() == nil {
		var e jute.WatcherEvent
		e.Decode(&l.dec)
		in.event, in.path = EventType(e.Type), e.Path.Value
		if in.event == 0 && l.dec.Err() == nil {
			return in, errors.New("event of no type")
		}
	}
	if err := l.dec.Err(); err != nil {
		return in, fmt.Errorf("%w: %w", ErrProtocol, err)
	}
	return in, nil
}

// skip reads the head of a reply that is too large, and throws its body away as it comes.
func (l *zkLink) skip(n int) (inbound, error) {
	var head [4 + jute.ReplyHeaderSize]byte
	if _, err := io.ReadFull(l.in, head[:]); err != nil {
		return inbound{}, err
	}
	l.dec.Reset(head[4:])
	var h jute.ReplyHeader
	h.Decode(&l.dec)
	if _, err := io.CopyN(io.Discard, l.in, int64(n-jute.ReplyHeaderSize)); err != nil {
		return inbound{}, err
	}
	return inbound{xid: h.Xid, zxid: h.Zxid, code: Code(h.Err), tooLarge: true}, nil
}

func (l *zkLink) body(op jute.OpCode, into *reply) error { return decodeZK(&l.dec, op, into) }
