package store

import (
	"bytes"
	"errors"
	"slices"

	"github.com/cockroachdb/pebble/v2"

	"github.com/zkserver/zkserver/znode"
)

// stateScan reads a state in order: nodes, then sessions. It is what loading and sending share.
type stateScan struct {
	nodes, data, sessions *pebble.Iterator
	lists                 map[uint32][]znode.ACL
	begun, dataBegun      bool
	sessionsBegun         bool
	dataKey, scratch      []byte
}

func bounds(prefix byte) *pebble.IterOptions {
	return &pebble.IterOptions{LowerBound: []byte{prefix}, UpperBound: []byte{prefix + 1}}
}

func newStateScan(r pebble.Reader) (*stateScan, error) {
	sc := &stateScan{lists: make(map[uint32][]znode.ACL)}
	err := eachACL(r, func(id uint32, enc []byte) (err error) {
		sc.lists[id], err = decodeACL(enc)
		return err
	})
	if err != nil {
		return nil, err
	}
	for _, i := range []struct {
		it     **pebble.Iterator
		prefix byte
	}{{&sc.nodes, keyNode}, {&sc.data, keyData}, {&sc.sessions, keySession}} {
		it, err := r.NewIter(bounds(i.prefix))
		if err != nil {
			return nil, errors.Join(err, sc.close())
		}
		*i.it = it
	}
	return sc, nil
}

func (sc *stateScan) close() error {
	var errs []error
	for _, it := range []*pebble.Iterator{sc.nodes, sc.data, sc.sessions} {
		if it != nil {
			errs = append(errs, it.Close())
		}
	}
	return errors.Join(errs...)
}

// step moves an iterator that may not have begun.
func step(it *pebble.Iterator, begun *bool) bool {
	if *begun {
		return it.Next()
	}
	*begun = true
	return it.First()
}

// node returns the next node with its data; lists are shared between nodes.
func (sc *stateScan) node() (r znode.NodeRecord, acl uint32, ok bool, err error) {
	if !step(sc.nodes, &sc.begun) {
		return r, 0, false, sc.nodes.Error()
	}
	v, err := sc.nodes.ValueAndErr()
	if err != nil {
		return r, 0, false, err
	}
	var external bool
	if acl, external, err = decodeNode(v, &r); err != nil {
		return r, 0, false, err
	}
	key := sc.nodes.Key()
	if sc.scratch, r.Path, err = pathOfKey(sc.scratch, key); err != nil {
		return r, 0, false, err
	}
	list, known := sc.lists[acl]
	if !known {
		return r, 0, false, malformed("node %q has the ACL list %d, which does not exist", r.Path, acl)
	}
	r.ACL = list
	if external {
		if r.Data, err = sc.longData(key); err != nil {
			return r, 0, false, err
		}
	}
	return r, acl, true, nil
}

// longData finds the data of a node; keys come in the order of the nodes, left-overs between them are skipped.
func (sc *stateScan) longData(nodeKey []byte) ([]byte, error) {
	sc.dataKey = append(append(sc.dataKey[:0], keyData), nodeKey[1:]...)
	ok := sc.dataBegun && sc.data.Valid()
	if !sc.dataBegun {
		ok = step(sc.data, &sc.dataBegun)
	}
	for tries := 0; ok; tries++ {
		switch c := bytes.Compare(sc.data.Key(), sc.dataKey); {
		case c == 0:
			v, err := sc.data.ValueAndErr()
			return slices.Clone(v), err
		case c > 0:
			return nil, malformed("the data of a node is missing: %q", sc.dataKey)
		case tries < 8:
			ok = sc.data.Next()
		default:
			ok = sc.data.SeekGE(sc.dataKey)
		}
	}
	if err := sc.data.Error(); err != nil {
		return nil, err
	}
	return nil, malformed("the data of a node is missing: %q", sc.dataKey)
}

func (sc *stateScan) session() (znode.Session, bool, error) {
	if !step(sc.sessions, &sc.sessionsBegun) {
		return znode.Session{}, false, sc.sessions.Error()
	}
	key := sc.sessions.Key()
	v, err := sc.sessions.ValueAndErr()
	if err == nil && len(key) != 9 {
		err = malformed("session with the key %x", key)
	}
	if err != nil {
		return znode.Session{}, false, err
	}
	sess, err := decodeSession(int64(order.Uint64(key[1:])), v)
	return sess, err == nil, err
}

// eachACL goes through the interned lists. The encoding is valid during the call.
func eachACL(r pebble.Reader, f func(id uint32, enc []byte) error) error {
	it, err := r.NewIter(bounds(keyACL))
	if err != nil {
		return err
	}
	for ok := it.First(); ok && err == nil; ok = it.Next() {
		var v []byte
		if v, err = it.ValueAndErr(); err != nil {
			break
		}
		if key := it.Key(); len(key) != 5 {
			err = malformed("ACL list with the key %x", key)
		} else {
			err = f(order.Uint32(key[1:]), v)
		}
	}
	if cerr := it.Close(); err == nil {
		err = cerr
	}
	return err
}
