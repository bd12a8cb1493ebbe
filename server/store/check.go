package store

import (
	"fmt"

	"github.com/cockroachdb/pebble/v2"

	"github.com/zkserver/zkserver/zab"
)

// checkLog opens log/ read-only and believes nothing of it before everything fits: Pebble itself opens a store whose
// MANIFEST or newest WAL is damaged without an error, with a hole, and a read-write open then deletes tables.
func (s *Store) checkLog(dir string) error {
	if err := s.checkFormat(dir); err != nil {
		return err
	}
	var err error
	if s.ends, err = lookAtWALs(s.o.FS, dir); err != nil {
		return fmt.Errorf("store: look at %s: %w", dir, err)
	}
	view, err := newHollowFS(s.o.FS, s.ends.hollow)
	if err != nil {
		return fmt.Errorf("store: look at %s: %w", dir, err)
	}
	db, err := s.openEngineOn(view, dir, logName, false, true)
	if err != nil {
		if !isDamage(err) {
			return fmt.Errorf("store: open %s: %w", dir, err)
		}
		return &DamageError{File: s.damagedFile(dir, err), What: "it can not be opened", Do: doLog, Err: err}
	}
	err = s.scanLog(db, dir)
	if cerr := db.Close(); err == nil && cerr != nil {
		err = fmt.Errorf("store: check %s: %w", dir, cerr)
	}
	return err
}

// checkFormat refuses a newer format of Pebble before Pebble writes anything into the directory.
func (s *Store) checkFormat(dir string) error {
	d, err := pebble.Peek(dir, s.o.FS)
	if err != nil {
		return fmt.Errorf("store: look at %s: %w", dir, err)
	}
	if d.Exists && d.FormatMajorVersion > pebbleFormat {
		return fmt.Errorf("%w: %s has the storage format %d, this version knows up to %d; run the version that wrote it",
			ErrNewerFormat, dir, d.FormatMajorVersion, pebbleFormat)
	}
	return nil
}

// scanLog reads all of log/ once: meta, then every entry with its checksum.
func (s *Store) scanLog(db *pebble.DB, dir string) error {
	damaged := func(err error, format string, args ...any) error {
		return &DamageError{File: s.damagedFile(dir, err), What: fmt.Sprintf(format, args...), Do: doLog, Err: err}
	}
	meta, err := readMeta(db)
	if err != nil {
		return damaged(err, "its meta data can not be read")
	}
	if meta.id.format > formatVersion {
		return fmt.Errorf("%w: %s has the format %d, this version knows up to %d; run the version that wrote it",
			ErrNewerFormat, dir, meta.id.format, formatVersion)
	}
	if !meta.has[keyIdentity] || !meta.has[keyHard] || !meta.has[keyBase] || !meta.has[keyStateName] {
		return damaged(nil, "identity, hard state, base or the name of the state are missing")
	}
	if meta.id.server != s.o.Server {
		return &ForeignError{Dir: dir, Server: meta.id.server, WantServer: s.o.Server}
	}
	l := &meta.log
	if err := l.check(); err != nil {
		return damaged(err, "its hard state is broken")
	}
	if last, err := s.scanEntries(db, l); err != nil {
		return damaged(err, "its entries do not run from base %v to end %v", l.base, l.last)
	} else if last != l.last {
		return damaged(nil, "entries (%v, %v] are missing", last, l.last)
	}
	s.instance, s.stateName = meta.id.instance, meta.stateName
	if n, ok := parseStateDir(meta.stateName); ok {
		s.lastDir = max(s.lastDir, n)
	}
	s.durable.Store(l)
	return nil
}

// scanEntries checks that the entries run from base to end without a hole and turn from epoch to epoch exactly where
// the epoch table says. It returns how far they do.
func (s *Store) scanEntries(db *pebble.DB, l *logState) (zab.Zxid, error) {
	it, err := db.NewIter(&pebble.IterOptions{LowerBound: entryKey(0), UpperBound: entriesEnd()})
	if err != nil {
		return 0, err
	}
	now := s.o.Now()
	before := l.base
	for ok := it.First(); ok; ok = it.Next() {
		z, err := entryZxid(it.Key())
		var value []byte
		if err == nil {
			value, err = it.ValueAndErr()
		}
		if err == nil && !l.continues(before, z) {
			err = malformed("entry %v comes behind %v", z, before)
		}
		if err != nil {
			_ = it.Close() // the error at hand says more
			return before, err
		}
		s.window.edit(growEdit(&zab.Entry{Zxid: z, Data: value}), now)
		before = z
	}
	return before, it.Close()
}

// logMeta is everything of log/ but the entries.
type logMeta struct {
	has       map[string]bool
	id        identity
	stateName string
	log       logState
}

func readMeta(db *pebble.DB) (*logMeta, error) {
	m := &logMeta{has: make(map[string]bool)}
	it, err := db.NewIter(&pebble.IterOptions{LowerBound: []byte{keyMeta}})
	if err != nil {
		return nil, err
	}
	for ok := it.First(); ok; ok = it.Next() {
		v, err := it.ValueAndErr()
		if err == nil {
			err = m.take(string(it.Key()), v)
		}
		if err != nil {
			_ = it.Close() // the error at hand says more
			return nil, err
		}
		if m.id.format > formatVersion {
			break // nothing else is known to mean what it did
		}
	}
	return m, it.Close()
}

func (m *logMeta) take(key string, v []byte) (err error) {
	m.has[key] = true
	switch {
	case key == keyIdentity:
		m.id, err = decodeIdentity(v)
	case key == keyBase:
		m.log.base, err = decodeZxid(v)
	case key == keyEnsemble:
		var z zab.Zxid
		z, err = decodeZxid(v)
		m.log.ensemble = zab.ID(z)
	case key == keyStateName:
		m.stateName = string(v)
		if _, ok := parseStateDir(m.stateName); !ok {
			err = malformed("%q is no name of a state directory", m.stateName)
		}
	case key == keyHard:
		var h hardRecord
		h, err = decodeHard(v)
		m.log.hard, m.log.commit, m.log.last = h.hard, h.commit, h.last
	case len(key) == len(keyEpochTable)+4 && key[:len(keyEpochTable)] == keyEpochTable:
		row := zab.EpochEnd{Epoch: zab.Epoch(order.Uint32([]byte(key[len(keyEpochTable):])))}
		row.Last, err = decodeZxid(v)
		m.log.ended = append(m.log.ended, row)
	default:
		err = malformed("unknown key %q", key)
	}
	return err
}

// foundState is what the read-only look at the state directory gave.
type foundState struct {
	missing bool
	damage  *DamageError
}

// checkState looks at the named state directory read-only. What may be rebuilt is returned, the rest refused.
func (s *Store) checkState() (*foundState, error) {
	l := s.durable.Load()
	dir := s.o.FS.PathJoin(s.o.DataDir, s.stateName)
	damaged := func(err error, format string, args ...any) *foundState {
		return &foundState{damage: s.stateDamage(dir, err, format, args...)}
	}
	d, err := pebble.Peek(dir, s.o.FS)
	if err != nil && !isDamage(err) {
		return nil, fmt.Errorf("store: look at %s: %w", dir, err)
	}
	if err != nil || !d.Exists {
		return s.missingState(dir)
	}
	if err := s.checkFormat(dir); err != nil {
		return nil, err
	}
	db, err := s.openEngine(dir, "state", true, true)
	if err != nil {
		if !isDamage(err) {
			return nil, fmt.Errorf("store: open %s: %w", dir, err)
		}
		return damaged(err, "it can not be opened"), nil
	}
	id, a, err := readStateHead(db)
	if cerr := db.Close(); err == nil && cerr != nil {
		return nil, fmt.Errorf("store: check %s: %w", dir, cerr)
	}
	switch {
	case err != nil && !isDamage(err):
		return nil, fmt.Errorf("store: check %s: %w", dir, err)
	case err != nil:
		return damaged(err, "its head can not be read"), nil
	case id.format > formatVersion:
		return nil, fmt.Errorf("%w: %s has the format %d, this version knows up to %d; run the version that wrote it",
			ErrNewerFormat, dir, id.format, formatVersion)
	case id.server != s.o.Server || id.instance != s.instance:
		return nil, &ForeignError{Dir: dir, Server: id.server, WantServer: s.o.Server, Instance: id.instance, Want: s.instance}
	case a.zxid < l.base:
		return damaged(nil, "it ends at %v, below the log's base %v", a.zxid, l.base), nil
	case a.zxid > l.last:
		return nil, &DamageError{
			File: s.o.FS.PathJoin(s.o.LogDir, logName), Do: doLog,
			What: fmt.Sprintf("it ends at %v but the state has applied %v: entries (%v, %v] are missing", l.last, a.zxid, l.last, a.zxid),
		}
	case !l.contains(a.zxid):
		return nil, &DamageError{
			File: s.o.FS.PathJoin(s.o.LogDir, logName), Do: doLog,
			What: fmt.Sprintf("the state has applied %v, which is not in the log (%v, %v]", a.zxid, l.base, l.last),
		}
	}
	return &foundState{}, nil
}

// missingState: a log that begins at the beginning rebuilds the state; else an operator must say that it is really
// gone, for a mount that is missing looks the same.
func (s *Store) missingState(dir string) (*foundState, error) {
	l := s.durable.Load()
	if l.base > 0 && !s.o.Rebuild {
		return nil, fmt.Errorf("%w: log/ names %s and begins behind %v. Is dataDir mounted? If the state is lost, start with "+
			"--rebuild-state: this server then waits for a leader's snapshot and does not vote until it has it",
			ErrMissingState, dir, l.base)
	}
	return &foundState{missing: true, damage: s.stateDamage(dir, nil, "it is missing")}, nil
}

// stateDamage words what is wrong with the state by what the log still allows.
func (s *Store) stateDamage(dir string, err error, format string, args ...any) *DamageError {
	l := s.durable.Load()
	do := "The log is complete from the beginning: the state is rebuilt from it"
	if l.base > 0 {
		do = fmt.Sprintf("Transactions up to %v are in no log any more. %s", l.base, doWaitSnap)
	}
	return &DamageError{File: s.damagedFile(dir, err), What: fmt.Sprintf(format, args...), Do: do, Err: err}
}

// readStateHead reads what stands outside the tree.
func readStateHead(db *pebble.DB) (id identity, a applied, err error) {
	v, c, err := db.Get([]byte{keyStateID})
	if err != nil {
		if err == pebble.ErrNotFound { //nolint:errorlint // Get documents the bare value
			err = malformed("no identity")
		}
		return id, a, err
	}
	id, err = decodeIdentity(v)
	if cerr := c.Close(); err == nil {
		err = cerr
	}
	if err != nil || id.format > formatVersion {
		return id, a, err
	}
	a, _, err = readApplied(db, false)
	return id, a, err
}
