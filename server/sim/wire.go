package sim

import (
	"encoding/binary"

	"github.com/zkserver/zkserver/server/session"
	"github.com/zkserver/zkserver/server/sim/check"
	"github.com/zkserver/zkserver/znode"
)

// frame is what a client is sent.
type frame struct {
	kind  frameKind
	op    znode.Op
	xid   int32
	zxid  int64
	code  int32
	node  check.Node
	read  bool // node is set
	path  string
	event znode.EventType

	versions [3]int32 // of what a write has written, in its order

	ok       bool // of a connect response
	session  int64
	password [16]byte
	timeout  int32
}

type frameKind uint8

const (
	frameReply frameKind = iota
	frameEvent
	frameConnect
)

// wire keeps what is said on a server's client connections; on the way it is the number of a frame.
type wire struct {
	pages [][]frame
	n     int
}

const framePage = 256

const frameSize = 4

func (w *wire) reset() { w.pages, w.n = nil, 0 }

// at is the frame that begins b, and what is behind it.
func (w *wire) at(b []byte) (*frame, []byte) {
	i := int(binary.LittleEndian.Uint32(b))
	return &w.pages[i/framePage][i%framePage], b[frameSize:]
}

func (w *wire) add(dst []byte, f *frame) []byte {
	if w.n%framePage == 0 {
		w.pages = append(w.pages, make([]frame, framePage))
	}
	w.pages[w.n/framePage][w.n%framePage] = *f
	w.n++
	return binary.LittleEndian.AppendUint32(dst, uint32(w.n-1))
}

// Slot is the place of encoded events.
func (w *wire) Slot() int { return 0 }

// AppendReply encodes a reply.
func (w *wire) AppendReply(dst []byte, r *session.Reply) []byte {
	f := frame{kind: frameReply, op: r.Op, xid: r.Xid, zxid: r.Zxid, code: int32(r.Err), path: r.Path}
	if r.Err == znode.OK {
		switch r.Op {
		case znode.OpExists:
			f.node, f.read = nodeOf(&r.Stat), true
			f.node.NoData, f.node.NoKidsInRead = true, true
		case znode.OpGetData:
			f.node, f.read = nodeOf(&r.Stat), true
			f.node.Data, f.node.NoKidsInRead = check.Hash(r.Data), true
		case znode.OpGetChildren2:
			f.node, f.read = nodeOf(&r.Stat), true
			f.node.NoData = true
			f.node.Kids = r.Names.Len()
			for n := range r.Names.All() {
				f.node.KidSum += check.NameHash(n)
			}
		case znode.OpSetData:
			f.versions[0] = r.Stat.Version
		case znode.OpMulti:
			for i := range r.Multi {
				if r.Multi[i].Code != znode.OK {
					f.code = multiFailed
				}
				if i < len(f.versions) {
					f.versions[i] = r.Multi[i].Stat.Version
				}
			}
		}
	}
	return w.add(dst, &f)
}

// AppendEvent encodes a watch event.
func (w *wire) AppendEvent(dst []byte, zxid int64, t znode.EventType, path string) []byte {
	return w.add(dst, &frame{kind: frameEvent, zxid: zxid, event: t, path: path})
}
