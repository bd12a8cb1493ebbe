package store

import (
	"errors"
	"fmt"

	"github.com/cockroachdb/pebble/v2"

	"github.com/zkserver/zkserver/zab"
)

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
	s.stateDamaged.Store(false)
	return nil
}

// setAside gives up the state that is open.
func (s *Store) setAside(damage *DamageError) error {
	s.abortWriters()
	s.stateMu.Lock()
	defer s.stateMu.Unlock()
	s.closeReaders()
	_ = s.state.db.Close() // it is damaged: nothing of it is used any more
	s.state = nil
	err := s.replaceState(damage)
	s.report()
	return err
}

// createState makes a fresh state directory, durable with its name and identity. It takes many syncs.
func (s *Store) createState(name string) (*stateDB, error) {
	var d *stateDB
	err := s.failure.await(func() (err error) {
		d, err = s.makeState(name)
		return err
	})
	if err != nil {
		return nil, err
	}
	return d, nil
}

func (s *Store) makeState(name string) (*stateDB, error) {
	dir := s.o.FS.PathJoin(s.o.DataDir, name)
	if there, err := s.exists(dir); err != nil {
		return nil, err
	} else if there {
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
	return s.newStateDB(name, db), nil
}

// openStateDB opens an existing state directory at start-up.
func (s *Store) openStateDB(name string) (*stateDB, error) {
	db, err := s.openEngine(s.o.FS.PathJoin(s.o.DataDir, name), "state", true, false)
	if err != nil {
		return nil, err
	}
	d := s.newStateDB(name, db)
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

// switchState makes the received snapshot the state. log/ names it already, durably. The replaced one goes, without
// anybody who reads or writes waiting for that.
func (s *Store) switchState(in *zab.Install) error {
	s.snapMu.Lock()
	w := s.writers[in.Dir]
	delete(s.writers, in.Dir)
	s.snapMu.Unlock()
	s.abortWriters()
	s.stateMu.Lock()
	s.closeReaders()
	old, oldName := s.state, s.stateName
	s.state, s.stateName = w.state, in.Dir
	s.stateDamaged.Store(false)
	s.stateMu.Unlock()
	if old != nil {
		if err := s.failure.await(old.db.Close); err != nil {
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
