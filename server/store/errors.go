package store

import (
	"errors"
	"fmt"

	"github.com/zkserver/zkserver/zab"
)

// Refusals and failures that callers test for. Each comes wrapped in a text that says what to do.
var (
	// ErrLocked: another process (or another Store of this one) has the directory open.
	ErrLocked = errors.New("store: the directory is in use")
	// ErrJavaData: a data directory of Apache ZooKeeper lies where ours should.
	ErrJavaData = errors.New("store: this is a data directory of Apache ZooKeeper")
	// ErrNewerFormat: written by a newer version.
	ErrNewerFormat = errors.New("store: written by a newer version")
	// ErrMissingState: the state directory that log/ names does not exist and the log does not begin at the beginning.
	ErrMissingState = errors.New("store: the state directory is missing")
	// ErrMissingLog: there is a state but no log that it belongs to.
	ErrMissingLog = errors.New("store: the log is missing")
	// ErrStateDamaged: the applied state can not be read back. LoadTree has set it aside; see Store.Recovered.
	ErrStateDamaged = errors.New("store: the applied state is damaged")
	// ErrNoState: the state waits for a snapshot (Recovered.NeedSnap), so it can be neither written nor sent.
	ErrNoState = errors.New("store: no applied state yet")
	// ErrDiskLow: less space is free than Options.LowWater; snapshots are refused first.
	ErrDiskLow = errors.New("store: the disk is nearly full")
	// ErrClosed: the store, or the state a snapshot reader reads from, is closed.
	ErrClosed = errors.New("store: closed")
	// ErrBadSnapshot: what was received is no well-formed snapshot.
	ErrBadSnapshot = errors.New("store: malformed snapshot")
	// ErrInvariant: what was asked would break an order that everything relies on; nothing was written.
	ErrInvariant = errors.New("store: broken invariant")
)

// ForeignError says that a directory belongs to another server.
type ForeignError struct {
	Dir        string
	Server     zab.ServerID // whose it is
	WantServer zab.ServerID
	Instance   zab.ID // of the directory
	Want       zab.ID // of the log that names it; zero where the server id alone differs
}

func (e *ForeignError) Error() string {
	if e.Server != e.WantServer {
		return fmt.Sprintf("store: %s belongs to server %d, this is server %d: check myid, dataDir and dataLogDir",
			e.Dir, e.Server, e.WantServer)
	}
	return fmt.Sprintf("store: %s belongs to instance %#x, log/ to instance %#x: the directories of two servers are mixed; "+
		"check dataDir and dataLogDir", e.Dir, uint64(e.Instance), uint64(e.Want))
}

// DamageError says what is damaged and what an operator can do about it. Nothing has been changed on the disk.
type DamageError struct {
	File string // the file, or the directory where no file is known
	What string
	Do   string
	Err  error // the cause, may be nil
}

func (e *DamageError) Error() string {
	s := "store: " + e.File + " is damaged: " + e.What
	if e.Err != nil {
		s += " (" + e.Err.Error() + ")"
	}
	return s + ". " + e.Do
}

func (e *DamageError) Unwrap() error { return e.Err }

const (
	doLog = "Nothing was changed. If the other servers of the ensemble are well, move dataDir's state.* and dataLogDir's log " +
		"away and start again: this server then joins as a blank one and gets a snapshot. A server that stands alone needs a backup"
	doWaitSnap = "The state is rebuilt from the leader's snapshot; until then this server neither votes nor serves"
)
