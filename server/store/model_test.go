package store

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"hash/fnv"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/zkserver/zkserver/zab"
	"github.com/zkserver/zkserver/znode"
)

// model is a naive tree: what a state must hold, and what LoadTree fills. Its transactions are random bytes.
type model struct {
	nodes    map[string]znode.NodeRecord
	sessions map[int64]znode.Session
	applied  zab.Zxid
	sorted   []string // paths; nil: to be made
}

var _ tree = (*model)(nil)

func newModel() *model {
	m := &model{nodes: make(map[string]znode.NodeRecord), sessions: make(map[int64]znode.Session)}
	for _, p := range []string{"/", "/zookeeper"} {
		m.nodes[p] = znode.NodeRecord{Path: p, ACL: openACL, Data: []byte{}}
	}
	return m
}

var openACL = []znode.ACL{{Perms: znode.PermAll, Scheme: "world", ID: "anyone"}}

func (m *model) Load(r znode.NodeRecord) error {
	if r.Path == "/mustfail" {
		return fmt.Errorf("refused by the test")
	}
	m.nodes[r.Path] = r
	m.sorted = nil
	return nil
}

func (m *model) LoadSession(s znode.Session) error {
	m.sessions[s.ID] = s
	return nil
}

func (m *model) Loaded(z int64, d znode.Digests) error {
	if got := m.Digests(); got != d {
		return fmt.Errorf("digests %x, want %x", got, d)
	}
	m.applied = zab.Zxid(z)
	return nil
}

func (m *model) Walk(f func(znode.NodeRecord) bool) {
	for _, p := range slices.Sorted(maps.Keys(m.nodes)) {
		if !f(m.nodes[p]) {
			return
		}
	}
}

func (m *model) Digests() znode.Digests {
	var d znode.Digests
	for _, r := range m.nodes {
		h := fnv.New64a()
		fmt.Fprintf(h, "%s %d %d %d %d %d %d %d %d %d %v %t ", r.Path, r.Czxid, r.Mzxid, r.Ctime, r.Mtime, r.Pzxid,
			r.Version, r.CreateCounter, r.Aversion, r.Owner, r.ACL, r.Data == nil)
		h.Write(r.Data)
		d.Tree += h.Sum64()
	}
	for _, s := range m.sessions {
		h := fnv.New64a()
		fmt.Fprint(h, s)
		d.State += h.Sum64()
	}
	return d
}

// equal tells where two models differ.
func (m *model) equal(o *model) error {
	for p, r := range m.nodes {
		q, ok := o.nodes[p]
		if !ok {
			return fmt.Errorf("%q is missing", p)
		}
		if !bytes.Equal(r.Data, q.Data) || (r.Data == nil) != (q.Data == nil) || !slices.Equal(r.ACL, q.ACL) {
			return fmt.Errorf("%q: data of %d bytes, ACL %v, want %d bytes, %v", p, len(q.Data), q.ACL, len(r.Data), r.ACL)
		}
		r.Data, q.Data, r.ACL, q.ACL = nil, nil, nil, nil
		if fmt.Sprint(r) != fmt.Sprint(q) {
			return fmt.Errorf("%q: %v, want %v", p, q, r)
		}
	}
	if len(m.nodes) != len(o.nodes) {
		return fmt.Errorf("%d nodes, want %d", len(o.nodes), len(m.nodes))
	}
	if !maps.Equal(m.sessions, o.sessions) {
		return fmt.Errorf("sessions %v, want %v", o.sessions, m.sessions)
	}
	return nil
}

// changes collects what a run of transactions touched.
type changes struct {
	paths    map[string]bool // whether the data changed too
	sessions map[int64]bool
}

func newChanges() *changes {
	return &changes{paths: make(map[string]bool), sessions: make(map[int64]bool)}
}

// apply executes an entry: everything is drawn from its bytes, so it is the same everywhere.
func (m *model) apply(e zab.Entry, c *changes) {
	var seed [32]byte
	copy(seed[:], e.Data)
	binary.BigEndian.PutUint64(seed[24:], uint64(e.Zxid))
	rng := rand.New(rand.NewChaCha8(seed))
	z := int64(e.Zxid)
	touch := func(p string, data bool) { c.paths[p] = c.paths[p] || data }
	if m.sorted == nil {
		m.sorted = slices.Sorted(maps.Keys(m.nodes))
	}
	for range 1 + rng.IntN(3) {
		switch k := rng.IntN(10); {
		case k < 4:
			parent := m.sorted[rng.IntN(len(m.sorted))]
			p := strings.TrimSuffix(parent, "/") + "/" + []string{"a", "a-b", "b", "é", "c."}[rng.IntN(5)]
			pr := m.nodes[parent]
			if _, exists := m.nodes[p]; exists || strings.Count(p, "/") > 4 {
				continue
			}
			pr.CreateCounter++
			pr.Pzxid = z
			m.nodes[parent] = pr
			touch(parent, false)
			acl := openACL
			if rng.IntN(3) == 0 {
				acl = []znode.ACL{{Perms: 1, Scheme: "digest", ID: fmt.Sprint("u", rng.IntN(20))}}
			}
			m.nodes[p] = znode.NodeRecord{
				Path: p, Czxid: z, Mzxid: z, Pzxid: z, Ctime: z * 3, Mtime: z * 3, ACL: acl, Data: drawData(rng), Owner: rng.Int64N(3),
			}
			i, _ := slices.BinarySearch(m.sorted, p)
			m.sorted = slices.Insert(m.sorted, i, p)
			touch(p, true)
		case k < 6:
			p := m.sorted[rng.IntN(len(m.sorted))]
			r := m.nodes[p]
			r.Data, r.Mzxid, r.Version = drawData(rng), z, r.Version+1
			m.nodes[p] = r
			touch(p, true)
		case k < 8:
			p := m.sorted[rng.IntN(len(m.sorted))]
			if p == "/" || p == "/zookeeper" {
				continue
			}
			m.sorted = slices.DeleteFunc(m.sorted, func(q string) bool {
				if q != p && !strings.HasPrefix(q, p+"/") {
					return false
				}
				delete(m.nodes, q)
				touch(q, true)
				return true
			})
		case k < 9:
			id := rng.Int64N(8) - 4
			m.sessions[id] = znode.Session{ID: id, Timeout: int32(z), Ticket: znode.Ticket{Epoch: uint32(rng.IntN(9)), Number: 7}}
			c.sessions[id] = true
		default:
			id := rng.Int64N(8) - 4
			delete(m.sessions, id)
			c.sessions[id] = true
		}
	}
	m.applied = e.Zxid
}

func drawData(rng *rand.Rand) []byte {
	switch rng.IntN(5) {
	case 0:
		return nil
	case 1:
		return []byte{}
	case 2:
		return bytes.Repeat([]byte{byte(rng.Uint32())}, inlineLimit+rng.IntN(3)-1)
	case 3:
		return bytes.Repeat([]byte{byte(rng.Uint32())}, 1+rng.IntN(4000))
	}
	return []byte("short")
}

// batchOf is what the host would copy for these changes.
func (m *model) batchOf(c *changes) *StateBatch {
	b := &StateBatch{Applied: m.applied, Digests: m.Digests()}
	for _, p := range slices.Sorted(maps.Keys(c.paths)) {
		r, ok := m.nodes[p]
		b.Nodes = append(b.Nodes, StateNode{Path: p, Deleted: !ok, Record: r, DataToo: c.paths[p]})
	}
	for _, id := range slices.Sorted(maps.Keys(c.sessions)) {
		if sess, ok := m.sessions[id]; ok {
			b.Sessions = append(b.Sessions, sess)
		} else {
			b.EndedSessions = append(b.EndedSessions, id)
		}
	}
	return b
}

// stream is the snapshot that a leader in this state would send.
func (m *model) stream() []byte {
	var b blockBuilder
	b.record(recHeader, headerBody(m.applied))
	acls := aclTable{ids: make(map[string]uint32)}
	var t trailer
	t.applied = applied{zxid: m.applied, digests: m.Digests()}
	paths := slices.SortedFunc(maps.Keys(m.nodes), func(x, y string) int {
		return strings.Compare(strings.ReplaceAll(x, "/", "\x00"), strings.ReplaceAll(y, "/", "\x00"))
	})
	for _, p := range paths {
		r := m.nodes[p]
		id, fresh := acls.intern(r.ACL)
		if fresh {
			b.record(recACL, append(order.AppendUint32(nil, id), acls.buf...))
		}
		b.record(recNode, appendNodeBody(nil, &r, id))
		t.nodes++
	}
	ids := slices.SortedFunc(maps.Keys(m.sessions), func(x, y int64) int {
		return bytes.Compare(sessionKey(x), sessionKey(y))
	})
	for _, id := range ids {
		sess := m.sessions[id]
		b.record(recSession, appendSession(order.AppendUint64(nil, uint64(id)), &sess))
		t.sessions++
	}
	b.record(recTrailer, t.append(nil))
	b.seal()
	return b.out
}
