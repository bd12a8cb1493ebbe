package znode

import (
	"encoding/binary"
	"hash/crc32"
	"math/bits"
	"strings"
	"unsafe"
)

// castagnoli is a second, independent polynomial, in hardware like the first.
var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// contentSum is kept with every node: both checksums of its path and data, so that the digest of a node whose stat
// changed (a parent's, at every create) costs its stat and not its data.
type contentSum struct{ ieee, castagnoli uint32 }

func sumContent(path string, data []byte) contentSum {
	if path == RootPath {
		path = ""
	}
	p := unsafe.Slice(unsafe.StringData(path), len(path)) // read only
	return contentSum{
		ieee:       crc32.Update(crc32.Update(0, crc32.IEEETable, p), crc32.IEEETable, data),
		castagnoli: crc32.Update(crc32.Update(0, castagnoli, p), castagnoli, data),
	}
}

// digester computes node digests. It holds the buffer that would else be allocated each time.
type digester struct{ stat [60]byte }

// digestOf gives what a node adds to both sums.
//
// Tree is ZooKeeper's: CRC-32 over path, data and 60 bytes of stat; nothing for what lies below /zookeeper. State is
// ours: it covers every node but the configuration node, which each server sets for itself, and of the stats of quotas
// all but the data.
func (g *digester) digestOf(path string, m *meta) (d Digests) {
	if path == ConfigPath {
		return d
	}
	if strings.HasPrefix(path, SystemPath+"/") {
		if _, part := quotaNode(path); part == statsNode {
			without := *m // its data change in place, without a transaction of their own
			without.size, without.sum = 0, sumContent(path, nil)
			m = &without
		}
		d.State = m.stateHash(len(path))
		return d
	}
	d.State = m.stateHash(len(path))
	b, be := &g.stat, binary.BigEndian
	be.PutUint64(b[0:], uint64(m.czxid))
	be.PutUint64(b[8:], uint64(m.mzxid))
	be.PutUint64(b[16:], uint64(m.pzxid))
	be.PutUint64(b[24:], uint64(m.ctime))
	be.PutUint64(b[32:], uint64(m.mtime))
	be.PutUint32(b[40:], uint32(m.version))
	be.PutUint32(b[44:], uint32(m.counter))
	be.PutUint32(b[48:], uint32(m.aversion))
	be.PutUint64(b[52:], uint64(m.owner))
	d.Tree = uint64(crc32.Update(m.sum.ieee, crc32.IEEETable, b[:]))
	return d
}

func (d *Digests) add(x Digests) { d.Tree += x.Tree; d.State += x.State }
func (d *Digests) sub(x Digests) { d.Tree -= x.Tree; d.State -= x.State }

// stateHash covers everything of a node: path and data by their sums and lengths, stat, raw owner, access list.
func (m *meta) stateHash(pathLen int) uint64 {
	h := mix(hashSeed, uint64(m.sum.ieee)<<32|uint64(m.sum.castagnoli))
	h = mix(h, uint64(pathLen)<<32|uint64(uint32(m.size)))
	h = mix(h, uint64(m.czxid))
	h = mix(h, uint64(m.mzxid))
	h = mix(h, uint64(m.pzxid))
	h = mix(h, uint64(m.ctime))
	h = mix(h, uint64(m.mtime))
	h = mix(h, uint64(uint32(m.version))<<32|uint64(uint32(m.counter)))
	h = mix(h, uint64(uint32(m.aversion)))
	h = mix(h, uint64(m.owner))
	return mix(h, m.acl.hash)
}

// stateHash covers what is replicated of a session; the ticket is not, as attaching alone moves it.
func (s *Session) stateHash() uint64 {
	h := mix(hashSeed^1, uint64(s.ID))
	h = mix(h, uint64(uint32(s.Timeout)))
	h = mix(h, binary.BigEndian.Uint64(s.Password[:8]))
	return mix(h, binary.BigEndian.Uint64(s.Password[8:]))
}

// The constants of the state digest. It is stored and compared between servers: changing them changes the format.
const (
	hashSeed   = 0x9e3779b97f4a7c15
	hashFactor = 0xd6e8feb86659fd93
)

func mix(h, w uint64) uint64 {
	hi, lo := bits.Mul64(h^w^hashSeed, hashFactor)
	return hi ^ bits.RotateLeft64(lo, 29)
}

func hashBytes(b []byte) uint64 {
	h := mix(hashSeed^2, uint64(len(b)))
	for ; len(b) >= 8; b = b[8:] {
		h = mix(h, binary.BigEndian.Uint64(b))
	}
	var tail uint64
	for _, c := range b {
		tail = tail<<8 | uint64(c)
	}
	return mix(h, tail)
}
