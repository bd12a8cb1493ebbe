package store

import (
	"fmt"

	"github.com/cockroachdb/pebble/v2"

	"github.com/zkserver/zkserver/znode"
)

// tree is what the store needs of *znode.Tree.
type tree interface {
	Load(znode.NodeRecord) error
	LoadSession(znode.Session) error
	Loaded(applied int64, d znode.Digests) error
	Digests() znode.Digests
	Walk(func(znode.NodeRecord) bool)
}

// LoadTree fills a fresh tree from the state in one ordered scan and checks its digests; the host then applies the log
// up to the commit point. Into a state that never held a tree it writes the initial nodes of t instead, and without a
// state (Recovered.NeedSnap) it does nothing. After ErrStateDamaged t is to be thrown away; the state is set aside and
// Recovered says what now: LoadTree with another fresh tree goes on from there.
func (s *Store) LoadTree(t *znode.Tree) error { return s.load(t) }

func (s *Store) load(t tree) error {
	s.stateMu.RLock()
	d := s.state
	s.stateMu.RUnlock()
	if d == nil {
		return nil
	}
	if !d.seeded {
		return s.seed(d, t)
	}
	err := d.loadInto(t)
	switch {
	case err == nil:
		return nil
	case !isDamage(err):
		return fmt.Errorf("store: load state: %w", err)
	}
	damage := s.stateDamage(s.o.FS.PathJoin(s.o.DataDir, d.name), err, "it can not be read back")
	if err := s.setAside(damage); err != nil {
		return err
	}
	return fmt.Errorf("%w: %w", ErrStateDamaged, damage)
}

// seed writes what a fresh tree holds, so that a state is always complete by itself.
func (s *Store) seed(d *stateDB, t tree) error {
	pb := d.db.NewBatch()
	var err error
	t.Walk(func(r znode.NodeRecord) bool {
		err = d.putNode(pb, r.Path, &r, true)
		return err == nil
	})
	if err == nil {
		err = d.commit(pb, applied{digests: t.Digests()})
	}
	if err != nil {
		return s.failure.fail(fmt.Errorf("store: state: %w", err))
	}
	return nil
}

// loadInto scans nodes in path order, long data beside them, then sessions.
func (d *stateDB) loadInto(t tree) error {
	snap := d.db.NewSnapshot()
	used, nodes, err := d.scan(snap, t)
	if cerr := snap.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		return err
	}
	if err := t.Loaded(int64(d.applied.zxid), d.applied.digests); err != nil {
		return fmt.Errorf("%w: %w", errMalformed, err)
	}
	return d.dropUnused(used, nodes)
}

// scan also learns which nodes have long data, which lists have a node, and how many nodes there are.
func (d *stateDB) scan(r pebble.Reader, t tree) (used map[uint32]struct{}, nodes int, err error) {
	sc, err := newStateScan(r)
	if err != nil {
		return nil, 0, err
	}
	defer func() {
		if cerr := sc.close(); err == nil {
			err = cerr
		}
	}()
	used = make(map[uint32]struct{})
	last := uint32(0)
	for {
		rec, acl, ok, err := sc.node()
		if err != nil {
			return nil, 0, err
		}
		if !ok {
			break
		}
		nodes++
		if acl != last || len(used) == 0 {
			used[acl] = struct{}{}
			last = acl
		}
		if len(rec.Data) > inlineLimit {
			d.long[rec.Path] = struct{}{}
		}
		if err := t.Load(rec); err != nil {
			return nil, 0, fmt.Errorf("%w: node %q: %w", errMalformed, rec.Path, err)
		}
	}
	for {
		sess, ok, err := sc.session()
		if err != nil {
			return nil, 0, err
		}
		if !ok {
			return used, nodes, nil
		}
		if err := t.LoadSession(sess); err != nil {
			return nil, 0, fmt.Errorf("%w: session %#x: %w", errMalformed, uint64(sess.ID), err)
		}
	}
}

// dropUnused deletes lists that no node has any more.
func (d *stateDB) dropUnused(used map[uint32]struct{}, nodes int) error {
	pb := d.db.NewBatch()
	if err := d.acls.drop(pb, used, nodes); err != nil {
		return err
	}
	if err := d.write(pb); err != nil {
		return err
	}
	return pb.Close()
}
