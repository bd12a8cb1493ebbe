package zktest

import (
	"bufio"
	"encoding/binary"
	"io"

	"google.golang.org/protobuf/proto"

	"github.com/zkserver/zkserver/proto/jute"
	zkv1 "github.com/zkserver/zkserver/proto/zk/v1"
)

const (
	preface    = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" // an HTTP/2 connection begins so
	largest    = 256 << 20                          // bytes of a frame that is believed
	headerHTTP = 9
)

// wire tells by a client's first bytes what is spoken.
func (k *link) wire(in *bufio.Reader) (up, down units) {
	head, err := in.Peek(4)
	switch n := int32(0); {
	case err != nil:
		return raw{}, raw{}
	case string(head) == preface[:4]:
		return &grpcUnits{begin: len(preface), message: k.commands}, &grpcUnits{message: k.answers}
	default:
		if n = int32(binary.BigEndian.Uint32(head)); n >= 0 && n <= largest {
			return &frames{look: k.request}, &frames{look: k.reply}
		}
		return raw{}, raw{} // a four-letter word
	}
}

// raw passes on what comes as it comes.
type raw struct{}

func (raw) next(in *bufio.Reader) ([]byte, error) {
	if _, err := in.Peek(1); err != nil {
		return nil, err
	}
	b := make([]byte, in.Buffered())
	_, err := io.ReadFull(in, b)
	return b, err
}

// frames are those of the ZooKeeper wire.
type frames struct {
	begun bool // the connect request, or its response, is behind
	look  func(body []byte) error
}

func (f *frames) next(in *bufio.Reader) ([]byte, error) {
	head, err := in.Peek(4)
	if err != nil {
		return nil, err
	}
	n := int32(binary.BigEndian.Uint32(head))
	if n < 0 || n > largest {
		return raw{}.next(in) // the server, or the client, is to see it
	}
	b := make([]byte, 4+int(n))
	if _, err := io.ReadFull(in, b); err != nil {
		return nil, err
	}
	if !f.begun {
		f.begun = true
		return b, nil
	}
	return b, f.look(b[4:])
}

// request looks at a request: xid and operation come first.
func (k *link) request(body []byte) error {
	if len(body) < 8 {
		return nil
	}
	switch jute.OpCode(binary.BigEndian.Uint32(body[4:])) {
	case jute.OpCreate, jute.OpCreate2, jute.OpCreateContainer, jute.OpCreateTTL, jute.OpDelete, jute.OpSetData, jute.OpSetACL, jute.OpMulti, jute.OpReconfig:
		k.sent(int32(binary.BigEndian.Uint32(body)))
	}
	return nil
}

func (k *link) reply(body []byte) error {
	if len(body) < 4 {
		return nil
	}
	return k.replied(int32(binary.BigEndian.Uint32(body)))
}

// grpcUnits are the frames of HTTP/2. What their data carry on the one stream of a client's connection is looked at.
type grpcUnits struct {
	begin   int // bytes before the first frame
	data    []byte
	message func([]byte) error
}

func (g *grpcUnits) next(in *bufio.Reader) ([]byte, error) {
	if n := g.begin; n > 0 {
		g.begin = 0
		b := make([]byte, n)
		_, err := io.ReadFull(in, b)
		return b, err
	}
	head, err := in.Peek(headerHTTP)
	if err != nil {
		return nil, err
	}
	n := int(head[0])<<16 | int(head[1])<<8 | int(head[2])
	b := make([]byte, headerHTTP+n)
	if _, err := io.ReadFull(in, b); err != nil {
		return nil, err
	}
	const typeData = 0
	if b[3] == typeData {
		return b, g.take(b[headerHTTP:])
	}
	return b, nil
}

// take collects data until a message is whole: a flag, a length, the body.
func (g *grpcUnits) take(b []byte) error {
	g.data = append(g.data, b...)
	for len(g.data) >= 5 {
		n := int(binary.BigEndian.Uint32(g.data[1:]))
		if len(g.data) < 5+n {
			return nil
		}
		if err := g.message(g.data[5 : 5+n]); err != nil {
			return err
		}
		g.data = g.data[:copy(g.data, g.data[5+n:])]
	}
	return nil
}

func (k *link) commands(m []byte) error {
	var q zkv1.SessionRequest
	if proto.Unmarshal(m, &q) != nil {
		return nil
	}
	for _, c := range q.GetCommands() {
		switch c.GetOp().(type) {
		case *zkv1.Command_Create, *zkv1.Command_Delete, *zkv1.Command_Set, *zkv1.Command_SetAcl, *zkv1.Command_Multi, *zkv1.Command_Reconfig:
			k.sent(c.GetCxid())
		}
	}
	return nil
}

func (k *link) answers(m []byte) error {
	var r zkv1.SessionResponse
	if proto.Unmarshal(m, &r) != nil {
		return nil
	}
	for _, a := range r.GetAnswers() {
		if rep := a.GetReply(); rep != nil {
			if err := k.replied(rep.GetCxid()); err != nil {
				return err
			}
		}
	}
	return nil
}
