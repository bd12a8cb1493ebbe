package store

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"

	"github.com/zkserver/zkserver/zab"
	"github.com/zkserver/zkserver/znode"
)

// The stream of a snapshot, over the bulk stream or in a backup: blocks of [length u32][crc32c u32][payload], each
// payload whole records of [kind byte][length uvarint][body]. Order: one header, nodes in path order (a node, all
// below it, its next sibling), each ACL list ahead of the first node that has it, sessions ascending by id (as
// unsigned), one trailer. It does not depend on how a state directory is laid out.
const (
	snapMagic   = "zksnap"
	snapVersion = 1

	recHeader  = 'H' // magic, version u8, zxid
	recACL     = 'A' // number u32, list
	recNode    = 'N' // path, node with all its data
	recSession = 'S' // id u64, session
	recTrailer = 'Z' // applied and digests, count of nodes u64, of sessions u64

	blockHead   = 8
	blockTarget = 64 << 10
	blockLimit  = 1 << 30 // a block holds at least one record; no record is near that
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func checksum(b []byte) uint32 { return crc32.Checksum(b, castagnoli) }

// blockBuilder collects records into blocks.
type blockBuilder struct {
	out   []byte // finished blocks and the open one
	open  int    // where the open block begins
	begun bool
}

func (b *blockBuilder) record(kind byte, body []byte) {
	if !b.begun {
		b.begun = true
		b.open = len(b.out)
		b.out = append(b.out, make([]byte, blockHead)...)
	}
	b.out = append(b.out, kind)
	b.out = binary.AppendUvarint(b.out, uint64(len(body)))
	b.out = append(b.out, body...)
	if len(b.out)-b.open >= blockTarget {
		b.seal()
	}
}

// seal ends the open block.
func (b *blockBuilder) seal() {
	if !b.begun {
		return
	}
	b.begun = false
	payload := b.out[b.open+blockHead:]
	order.PutUint32(b.out[b.open:], uint32(len(payload)))
	order.PutUint32(b.out[b.open+4:], checksum(payload))
}

// sealed is how many bytes may leave.
func (b *blockBuilder) sealed() int {
	if b.begun {
		return b.open
	}
	return len(b.out)
}

func headerBody(z zab.Zxid) []byte {
	b := append([]byte(snapMagic), snapVersion)
	return order.AppendUint64(b, uint64(z))
}

func checkHeader(b []byte, z zab.Zxid) error {
	n := len(snapMagic)
	if len(b) != n+9 || string(b[:n]) != snapMagic {
		return fmt.Errorf("%w: it does not begin as one", ErrBadSnapshot)
	}
	if b[n] != snapVersion {
		return fmt.Errorf("%w: snapshot of the version %d, this version knows %d", ErrNewerFormat, b[n], snapVersion)
	}
	if got := zab.Zxid(order.Uint64(b[n+1:])); got != z {
		return fmt.Errorf("%w: it is at %v, announced was %v", ErrBadSnapshot, got, z)
	}
	return nil
}

func appendNodeBody(dst []byte, r *znode.NodeRecord, acl uint32) []byte {
	return appendNode(appendString(dst, r.Path), r, acl, int(^uint(0)>>1))
}

// trailer ends a snapshot.
type trailer struct {
	applied         applied
	nodes, sessions uint64
}

func (t trailer) append(dst []byte) []byte {
	dst = t.applied.append(dst)
	dst = order.AppendUint64(dst, t.nodes)
	return order.AppendUint64(dst, t.sessions)
}

func decodeTrailer(b []byte) (trailer, error) {
	if len(b) != 24+16 {
		return trailer{}, fmt.Errorf("%w: trailer of %d bytes", ErrBadSnapshot, len(b))
	}
	a, err := decodeApplied(b[:24])
	return trailer{applied: a, nodes: order.Uint64(b[24:]), sessions: order.Uint64(b[32:])}, err
}

// splitter cuts a stream of arbitrary pieces into checked blocks. Memory grows only with bytes that arrived.
type splitter struct{ rest []byte }

// take hands every complete block's payload to f.
func (s *splitter) take(chunk []byte, f func(payload []byte) error) error {
	in := chunk
	if len(s.rest) > 0 {
		s.rest = append(s.rest, chunk...)
		in = s.rest
	}
	for len(in) >= blockHead {
		n := order.Uint32(in)
		if n == 0 || n > blockLimit {
			return fmt.Errorf("%w: block of %d bytes", ErrBadSnapshot, n)
		}
		if uint64(len(in)) < blockHead+uint64(n) {
			break
		}
		payload := in[blockHead : blockHead+int(n)]
		if checksum(payload) != order.Uint32(in[4:]) {
			return fmt.Errorf("%w: checksum of a block", ErrBadSnapshot)
		}
		if err := f(payload); err != nil {
			return err
		}
		in = in[blockHead+int(n):]
	}
	s.rest = append(s.rest[:0], in...) // overlapping is fine: append moves
	return nil
}

// eachRecord goes through the records of a payload.
func eachRecord(p []byte, f func(kind byte, body []byte) error) error {
	for len(p) > 0 {
		kind := p[0]
		n, w := binary.Uvarint(p[1:])
		if w <= 0 || n > uint64(len(p)-1-w) {
			return fmt.Errorf("%w: record beyond its block", ErrBadSnapshot)
		}
		body := p[1+w : 1+w+int(n)]
		if err := f(kind, body); err != nil {
			return err
		}
		p = p[1+w+int(n):]
	}
	return nil
}
