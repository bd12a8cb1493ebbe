package store

import (
	"bytes"
	"errors"
	"fmt"
	"slices"

	"github.com/cockroachdb/pebble/v2"

	"github.com/zkserver/zkserver/zab"
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
	used, err := scanState(snap, t)
	if cerr := snap.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		return err
	}
	if err := t.Loaded(int64(d.applied.zxid), d.applied.digests); err != nil {
		return fmt.Errorf("%w: %w", errMalformed, err)
	}
	return d.dropUnused(used)
}

func scanState(r pebble.Reader, t tree) (used map[uint32]struct{}, err error) {
	sc, err := newStateScan(r)
	if err != nil {
		return nil, err
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
			return nil, err
		}
		if !ok {
			break
		}
		if acl != last || len(used) == 0 {
			used[acl] = struct{}{}
			last = acl
		}
		if err := t.Load(rec); err != nil {
			return nil, fmt.Errorf("%w: node %q: %w", errMalformed, rec.Path, err)
		}
	}
	for {
		sess, ok, err := sc.session()
		if err != nil {
			return nil, err
		}
		if !ok {
			return used, nil
		}
		if err := t.LoadSession(sess); err != nil {
			return nil, fmt.Errorf("%w: session %#x: %w", errMalformed, uint64(sess.ID), err)
		}
	}
}

// dropUnused deletes lists that no node has any more: they are not counted while writing.
func (d *stateDB) dropUnused(used map[uint32]struct{}) error {
	if len(used) == len(d.acls.ids) {
		return nil
	}
	pb := d.db.NewBatch()
	for enc, id := range d.acls.ids {
		if _, ok := used[id]; ok {
			continue
		}
		if err := pb.Delete(aclKey(id), nil); err != nil {
			return err
		}
		delete(d.acls.ids, enc)
	}
	if err := pb.Commit(pebble.NoSync); err != nil {
		return err
	}
	return pb.Close()
}

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

// openState opens the named state for writing, or what takes the place of one that can not be used.
func (s *Store) openState(found *foundState) error {
	if found == nil { // a fresh directory: log/ names it already
		d, err := s.createState(s.stateName)
		if err != nil {
			return s.failure.fail(fmt.Errorf("store: create state: %w", err))
		}
		s.state = d
		return nil
	}
	if found.damage != nil {
		return s.replaceState(found.damage)
	}
	dir := s.o.FS.PathJoin(s.o.DataDir, s.stateName)
	d, err := s.openStateDB(s.stateName)
	switch {
	case err == nil:
		s.state = d
		return nil
	case isDamage(err):
		return s.replaceState(s.stateDamage(dir, err, "it can not be opened"))
	default:
		return fmt.Errorf("store: open %s: %w", dir, err)
	}
}

// replaceState: a log that is complete from the beginning rebuilds the state in a fresh directory. Else there is none
// until a snapshot is installed, and the directory stays as it is until then.
func (s *Store) replaceState(damage *DamageError) error {
	s.rec.Damage = damage
	if l := s.durable.Load(); l.base > 0 {
		s.rec.NeedSnap = true
		s.o.Log.Error().Err(damage).Msg("no usable state: a snapshot is needed")
		return nil
	}
	s.o.Log.Warn().Err(damage).Msg("the state is rebuilt from the log")
	d, err := s.createState(s.freshState(0))
	if err != nil {
		return s.failure.fail(fmt.Errorf("store: create state: %w", err))
	}
	s.logMu.Lock()
	defer s.logMu.Unlock()
	c, err := s.beginChange()
	if err != nil {
		return err
	}
	if err := c.batch.Set([]byte(keyStateName), []byte(d.name), nil); err != nil {
		return s.failure.fail(fmt.Errorf("store: log: %w", err))
	}
	if err := s.commitChange(c); err != nil {
		return err
	}
	s.state, s.stateName = d, d.name
	return nil
}

// setAside gives up the state that is open.
func (s *Store) setAside(damage *DamageError) error {
	s.endSnapshots()
	s.stateMu.Lock()
	defer s.stateMu.Unlock()
	_ = s.state.db.Close() // it is damaged: nothing of it is used any more
	s.state = nil
	err := s.replaceState(damage)
	s.report()
	return err
}

// createState makes a fresh state directory, durable with its name and identity.
func (s *Store) createState(name string) (*stateDB, error) {
	dir := s.o.FS.PathJoin(s.o.DataDir, name)
	if _, err := s.o.FS.Stat(dir); err == nil {
		return nil, fmt.Errorf("%s exists", dir)
	}
	if err := s.mkdir(dir); err != nil {
		return nil, err
	}
	db, err := s.openEngine(dir, "state", true, false)
	if err != nil {
		return nil, err
	}
	id := identity{format: formatVersion, server: s.o.Server, instance: s.instance}
	err = db.Set([]byte{keyStateID}, id.encode(), pebble.NoSync)
	if err == nil {
		err = db.Flush()
	}
	if err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return &stateDB{name: name, db: db, acls: aclTable{ids: make(map[string]uint32)}}, nil
}

// openStateDB opens an existing state directory at start-up.
func (s *Store) openStateDB(name string) (*stateDB, error) {
	db, err := s.openEngine(s.o.FS.PathJoin(s.o.DataDir, name), "state", true, false)
	if err != nil {
		return nil, err
	}
	d := &stateDB{name: name, db: db, acls: aclTable{ids: make(map[string]uint32)}}
	if d.applied, d.seeded, err = readApplied(db, false); err == nil {
		err = eachACL(db, func(id uint32, enc []byte) error {
			d.acls.ids[string(enc)] = id
			d.acls.next = max(d.acls.next, id+1)
			return nil
		})
	}
	if err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return d, nil
}

// switchState makes the received snapshot the state. log/ names it already, durably. The replaced one goes.
func (s *Store) switchState(in *zab.Install) error {
	s.snapMu.Lock()
	w := s.writers[in.Dir]
	delete(s.writers, in.Dir)
	s.snapMu.Unlock()
	s.endSnapshots()
	s.stateMu.Lock()
	defer s.stateMu.Unlock()
	old, oldName := s.state, s.stateName
	s.state, s.stateName = w.state, in.Dir
	if old != nil {
		if err := old.db.Close(); err != nil {
			s.o.Log.Warn().Err(err).Str("state", oldName).Msg("closing the replaced state")
		}
	}
	if err := s.removeStates([]string{oldName}); err != nil {
		s.o.Log.Warn().Err(err).Msg("the replaced state stays until the next start") // not needed for anything
	}
	return nil
}

// received reports whether a complete snapshot waits in that directory.
func (s *Store) received(in *zab.Install) bool {
	s.snapMu.Lock()
	w := s.writers[in.Dir]
	s.snapMu.Unlock()
	if w == nil {
		return false
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.done && w.at == in.Zxid
}
