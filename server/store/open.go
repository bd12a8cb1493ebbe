package store

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/zkserver/zkserver/zab"
	"github.com/zkserver/zkserver/znode"
)

// Open starts: it refuses what it must not touch, checks log/ and the state read-only, and only then opens both for
// writing. Refusals are the Err… values, *ForeignError and *DamageError; nothing has been changed on the disk then.
func Open(o Options) (*Store, Recovered, error) {
	if err := o.Validate(); err != nil {
		return nil, Recovered{}, err
	}
	s := &Store{
		o:       o.withDefaults(),
		readers: make(map[*SnapshotReader]struct{}),
		writers: make(map[string]*SnapshotWriter),
	}
	s.failure = newFailure(s.o.Fatal)
	s.window = newWindow(&s.o)
	s.cache = pebble.NewCache(s.o.Cache)
	done := make(chan error, 1)
	go func() { done <- s.open() }() // ends with start-up; stays parked if Pebble calls Fatalf in it
	select {
	case err := <-done:
		switch {
		case err == nil:
			return s, s.rec, nil
		case s.failure.get() == nil:
			s.abandon()
		}
		return nil, Recovered{}, err
	case <-s.failure.failed:
		return nil, Recovered{}, s.failure.err
	}
}

// OpenTree is Open and LoadTree. A state that proves damaged only while it is loaded is set aside as one that was
// found so by Open: the tree comes empty, and Recovered says whether the log can rebuild it or a SNAP is needed.
func OpenTree(o Options, newTree func() *znode.Tree) (*Store, Recovered, *znode.Tree, error) {
	s, _, err := Open(o)
	if err != nil {
		return nil, Recovered{}, nil, err
	}
	t := newTree()
	err = s.LoadTree(t)
	if errors.Is(err, ErrStateDamaged) {
		t = newTree()
		err = s.LoadTree(t)
	}
	if err != nil {
		_ = s.Close() // the error at hand is the one to report
		return nil, Recovered{}, nil, err
	}
	return s, s.rec, t, nil
}

// abandon undoes a start that was refused.
func (s *Store) abandon() {
	if s.state != nil {
		_ = s.state.db.Close() // nothing was written to it
		s.state = nil
	}
	if s.logDB != nil {
		_ = s.logDB.Close()
		s.logDB = nil
	}
	s.release()
}

func (s *Store) open() error {
	logDir := s.o.FS.PathJoin(s.o.LogDir, logName)
	if there, err := s.exists(logDir); err != nil {
		return err
	} else if !there {
		if err := s.refuseJava(); err != nil {
			return err
		}
	}
	if err := s.lock(); err != nil {
		return err
	}
	states, err := s.listStates()
	if err != nil {
		return err
	}
	exists, err := s.logExists(logDir, len(states) > 0)
	if err != nil {
		return err
	}
	var found *foundState
	if exists {
		if err := s.checkLog(logDir); err != nil {
			return err
		}
		if found, err = s.checkState(); err != nil {
			return err
		}
	} else if err := s.createLog(logDir); err != nil {
		return err
	}
	// From here on the disk may be changed.
	if e := s.ends; e.torn != "" {
		s.o.Log.Warn().Str("file", e.torn).Int64("offset", e.offset).Msg("the log ended uncleanly: what lies behind is no whole record")
	}
	if err := s.emptyWALs(s.ends.hollow); err != nil {
		return err
	}
	if s.logDB, err = s.openEngine(logDir, logName, false, false); err != nil {
		return fmt.Errorf("store: open %s: %w", logDir, err)
	}
	// A WAL that ended torn must never be followed by another one that matters: the flush makes it obsolete. It also
	// takes the first WAL of a fresh store out of use, which was begun before its format was ratcheted.
	if err := s.logDB.Flush(); err != nil {
		return fmt.Errorf("store: open %s: %w", logDir, err)
	}
	if !exists {
		if err := s.stampLog(); err != nil {
			return err
		}
	}
	s.batch = s.logDB.NewBatch()
	if err := s.openState(found); err != nil {
		return err
	}
	s.report()
	return s.removeStates(states)
}

// refuseJava refuses a directory of Apache ZooKeeper: nothing here may look as if its data were ours.
func (s *Store) refuseJava() error {
	for _, dir := range []string{s.o.DataDir, s.o.LogDir} {
		for _, sub := range []string{s.o.FS.PathJoin(dir, "version-2"), dir} {
			names, err := s.list(sub)
			if err != nil {
				return err
			}
			for _, n := range names {
				if javaFile(n) {
					return fmt.Errorf("%w: %s holds %s. Its import is not available yet: start with empty directories "+
						"and copy the tree over as a client, or keep Apache ZooKeeper on this directory", ErrJavaData, sub, n)
				}
			}
		}
	}
	return nil
}

// exists and list tell a file or directory that is not there from one that can not be looked at: what is taken for
// absent is made anew.
func (s *Store) exists(name string) (bool, error) {
	_, err := s.o.FS.Stat(name)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("store: look at %s: %w", name, err)
	}
	return true, nil
}

func (s *Store) list(dir string) ([]string, error) {
	names, err := s.o.FS.List(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("store: list %s: %w", dir, err)
	}
	return names, nil
}

// javaFile knows log.<hex> and snapshot.<hex> with an optional compression suffix.
func javaFile(name string) bool {
	rest, ok := strings.CutPrefix(name, "log.")
	if !ok {
		if rest, ok = strings.CutPrefix(name, "snapshot."); !ok {
			return false
		}
	}
	rest, _, _ = strings.Cut(rest, ".")
	return rest != "" && strings.Trim(rest, "0123456789abcdefABCDEF") == ""
}

// lock creates the directories and takes them for this process. Each has a lock of its own, so that two servers can
// share neither.
func (s *Store) lock() error {
	dirs := []string{s.o.DataDir}
	if s.o.LogDir != s.o.DataDir {
		dirs = append(dirs, s.o.LogDir)
	}
	for _, dir := range dirs {
		if err := s.mkdir(dir); err != nil {
			return err
		}
		var l io.Closer
		l, err := s.o.FS.Lock(s.o.FS.PathJoin(dir, lockName))
		if errors.Is(err, fs.ErrPermission) {
			return fmt.Errorf("store: %s cannot be written: give this process's user the right to, or name another directory (%w)", dir, err)
		}
		if err != nil {
			return fmt.Errorf("%w: %s: another server runs on it; stop that one or give this one its own directory (%w)",
				ErrLocked, dir, err)
		}
		s.locks = append(s.locks, l)
	}
	return nil
}

// mkdir creates a directory and makes its name durable.
func (s *Store) mkdir(dir string) error {
	if there, err := s.exists(dir); err != nil || there {
		return err
	}
	if err := s.o.FS.MkdirAll(dir, 0o750); err != nil {
		return fmt.Errorf("store: create %s: %w", dir, err)
	}
	for d := s.o.FS.PathDir(dir); ; d = s.o.FS.PathDir(d) {
		if err := syncDir(s.o.FS, d); err != nil {
			return fmt.Errorf("store: create %s: %w", dir, err)
		}
		if d == s.o.FS.PathDir(d) || d == "." || d == "" {
			return nil
		}
	}
}

func syncDir(fs vfs.FS, dir string) error {
	d, err := fs.OpenDir(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// listStates returns the names of the state directories and remembers the highest number, so that no name comes twice.
func (s *Store) listStates() ([]string, error) {
	names, err := s.list(s.o.DataDir)
	if err != nil {
		return nil, err
	}
	var states []string
	for _, name := range names {
		if n, ok := parseStateDir(name); ok {
			states = append(states, name)
			s.lastDir = max(s.lastDir, n)
		}
	}
	return states, nil
}

// logExists reports whether there is a log to check. A creation that a crash cut short is cleared away: it has neither
// a table (the identity is flushed before Open returns, so from then on there is one) nor a state beside it.
func (s *Store) logExists(logDir string, states bool) (bool, error) {
	names, err := s.list(logDir)
	if err != nil {
		return false, err
	}
	for _, n := range names {
		if strings.HasSuffix(n, ".sst") {
			return true, nil
		}
	}
	if states && len(names) > 0 {
		return true, nil
	}
	if states {
		return false, s.missingLog(s.o.DataDir + " holds a state")
	}
	if s.o.LogDir != s.o.DataDir {
		there, err := s.exists(s.o.FS.PathJoin(s.o.DataDir, logName))
		if err != nil {
			return false, err
		}
		if there {
			return false, s.missingLog(s.o.DataDir + " holds a log")
		}
		beside, err := s.list(s.o.LogDir)
		if err != nil {
			return false, err
		}
		for _, n := range beside {
			if _, ok := parseStateDir(n); ok {
				return false, s.missingLog(s.o.LogDir + " holds a state")
			}
		}
	}
	if len(names) == 0 {
		return false, nil
	}
	s.o.Log.Warn().Str("dir", logDir).Msg("a first start was cut short: begun anew")
	if err := s.o.FS.RemoveAll(logDir); err != nil {
		return false, fmt.Errorf("store: remove %s: %w", logDir, err)
	}
	return false, syncDir(s.o.FS, s.o.LogDir)
}

func (s *Store) missingLog(what string) error {
	return fmt.Errorf("%w: there is none in %s, but %s. Check dataDir and dataLogDir: exchanged, one of them not mounted, "+
		"or changed since the last start? If the log is lost, remove dataDir's state.* as well to join as a blank server",
		ErrMissingLog, s.o.LogDir, what)
}

// createLog makes the directory; Pebble fills it when it is opened.
func (s *Store) createLog(logDir string) error {
	if s.o.Instance == 0 {
		return errors.New("store: a fresh directory needs Options.Instance")
	}
	s.instance = s.o.Instance
	s.stateName = s.freshState(0)
	s.durable.Store(&logState{})
	return s.mkdir(logDir)
}

// stampLog writes the identity of a fresh log and flushes it into a table, which tells a log that once was complete
// from a first start that was cut short.
func (s *Store) stampLog() error {
	b := s.logDB.NewBatch()
	id := identity{format: formatVersion, server: s.o.Server, instance: s.instance}
	err := errors.Join(
		b.Set([]byte(keyIdentity), id.encode(), nil),
		b.Set([]byte(keyStateName), []byte(s.stateName), nil),
		b.Set([]byte(keyBase), order.AppendUint64(nil, 0), nil),
		b.Set([]byte(keyHard), hardRecord{}.append(nil), nil))
	if err == nil {
		err = s.apply(b, true)
	}
	if err != nil {
		return s.failure.fail(fmt.Errorf("store: create log: %w", err))
	}
	return errors.Join(b.Close(), s.logDB.Flush())
}

// freshState draws the name of a state directory that never existed.
func (s *Store) freshState(z zab.Zxid) string {
	s.snapMu.Lock()
	defer s.snapMu.Unlock()
	s.lastDir++
	return stateDirName(z, s.lastDir)
}

// removeStates removes every state directory but the one that log/ names.
func (s *Store) removeStates(states []string) error {
	removed := false
	for _, name := range states {
		if name == s.stateName {
			continue
		}
		dir := s.o.FS.PathJoin(s.o.DataDir, name)
		if err := s.o.FS.RemoveAll(dir); err != nil {
			return fmt.Errorf("store: remove %s: %w", dir, err)
		}
		s.o.Log.Info().Str("dir", dir).Str("named", s.stateName).Msg("left-over state removed")
		removed = true
	}
	if !removed {
		return nil
	}
	return syncDir(s.o.FS, s.o.DataDir)
}

// report fills Recovered.
func (s *Store) report() {
	l := s.durable.Load()
	s.rec.Hard, s.rec.Base, s.rec.Last, s.rec.Commit = l.hard, l.base, l.last, l.commit
	s.rec.Epochs, s.rec.Ensemble, s.rec.Instance = l.table(), l.ensemble, s.instance
	s.rec.Applied = 0
	if s.state != nil {
		s.rec.Applied = s.state.applied.zxid
	}
}
