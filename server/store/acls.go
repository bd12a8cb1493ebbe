package store

import (
	"math"

	"github.com/cockroachdb/pebble/v2"

	"github.com/zkserver/zkserver/znode"
)

// aclTable interns lists: a node's value carries a number. Which nodes have a list is not counted, for that would cost
// a read before each write. So once there may be more without a node than with one, a sweep looks for them: it goes
// through the nodes, a part with each batch, and notes which lists they have, while lists that are written meanwhile are
// noted as well; the others go.
type aclTable struct {
	ids  map[string]uint32 // by encoding
	next uint32
	buf  []byte

	fresh int // bytes of the lists that came since the last sweep ended
	limit int // of fresh: with more a sweep begins
	part  int // nodes that a sweep looks at with each batch, at least

	// Of the sweep under way.
	used   map[uint32]struct{} // nil: there is none
	cursor []byte              // key of the first node that has not been looked at
	nodes  int                 // that have been
	paid   int                 // fresh, when the last part was done
}

func newACLTable() aclTable {
	return aclTable{ids: make(map[string]uint32), limit: sweepSlack, part: sweepNodes}
}

const (
	aclOverhead  = 64 // bytes that a list takes beside its encoding, about
	sweepSlack   = 1 << 20
	sweepNodes   = 16 << 10
	sweepPerNode = 32 // bytes of fresh lists that are worth a look at one node
)

// intern returns the number of a list, and whether it is new.
func (t *aclTable) intern(list []znode.ACL) (id uint32, fresh bool) {
	t.buf = appendACL(t.buf[:0], list)
	id, known := t.ids[string(t.buf)]
	if !known {
		id = t.next
		t.next++
		t.ids[string(t.buf)] = id
		t.fresh += len(t.buf) + aclOverhead
	}
	if t.used != nil {
		t.used[id] = struct{}{}
	}
	return id, !known
}

// drop deletes the lists that are not in used; it ends a sweep over that many nodes.
func (t *aclTable) drop(pb *pebble.Batch, used map[uint32]struct{}, nodes int) error {
	live, bytes := make(map[string]uint32, len(used)), 0
	for enc, id := range t.ids {
		if _, ok := used[id]; ok {
			live[enc] = id
			bytes += len(enc) + aclOverhead
		} else if err := pb.Delete(aclKey(id), nil); err != nil {
			return err
		}
	}
	t.ids, t.used, t.fresh = live, nil, 0
	t.limit = sweepSlack + bytes + nodes*sweepPerNode
	return nil
}

// sweep does a part of a sweep if one is needed. It comes before the batch is filled: whatever the database does not
// show yet is interned later, and so noted.
func (d *stateDB) sweep(pb *pebble.Batch) error {
	t := &d.acls
	if t.used == nil {
		if t.fresh <= t.limit {
			return nil
		}
		t.used, t.cursor, t.nodes, t.paid = make(map[uint32]struct{}), []byte{keyNode}, 0, t.fresh
	}
	part := t.part + (t.fresh-t.paid)/sweepPerNode
	t.paid = t.fresh
	done, err := d.look(part)
	if err != nil {
		// The nodes can not be read. That is for the next start to find: what is written does not need them.
		d.store.o.Log.Error().Err(err).Msg("unused ACL lists are not looked for any more")
		t.used, t.limit = nil, math.MaxInt
		return nil
	}
	if !done {
		return nil
	}
	return t.drop(pb, t.used, t.nodes)
}

// look notes the lists of the next n nodes.
func (d *stateDB) look(n int) (done bool, err error) {
	t := &d.acls
	it, err := d.db.NewIter(&pebble.IterOptions{LowerBound: t.cursor, UpperBound: []byte{keyNode + 1}})
	if err != nil {
		return false, err
	}
	noted, last, ok := false, uint32(0), it.First()
	for ; ok && n > 0; n-- {
		v, verr := it.ValueAndErr()
		if verr == nil && len(v) < nodeFixed {
			verr = malformed("node of %d bytes", len(v))
		}
		if verr != nil {
			_ = it.Close() // the error at hand says more
			return false, verr
		}
		if acl := nodeACL(v); acl != last || !noted {
			t.used[acl] = struct{}{}
			noted, last = true, acl
		}
		t.nodes++
		ok = it.Next()
	}
	if ok {
		t.cursor = append(t.cursor[:0:0], it.Key()...)
	}
	return !ok, it.Close()
}
