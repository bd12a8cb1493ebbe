package store

import (
	"github.com/zkserver/zkserver/zab"
	"github.com/zkserver/zkserver/znode"
)

// Recovered is what a start found.
type Recovered struct {
	Hard     zab.HardState
	Base     zab.Zxid       // the log holds (Base, Last]
	Last     zab.Zxid       // durable end of the log
	Commit   zab.Zxid       // stored commit point, at least Base
	Applied  zab.Zxid       // of the state that LoadTree loads
	Epochs   []zab.EpochEnd // ascending; the last row is the log's end
	Ensemble zab.ID         // zero: blank
	Instance zab.ID
	NeedSnap bool         // the state is damaged or missing, the log does not reach back to the beginning: get a SNAP
	Damage   *DamageError // why NeedSnap is set, or why the state is rebuilt from the complete log
}

// Store is the handle of both stores. Which goroutine may call what:
// Persist: the log writer only. WriteState, FlushState: the state writer only, never while an op with Install is in
// Persist. Everything else: any goroutine.
type Store struct{}

// Open starts.
func Open(o Options) (*Store, Recovered, error) { panic("stub") }

// OpenTree is Open and LoadTree; a state that proves damaged while it is loaded is set aside, and the tree comes empty.
func OpenTree(o Options, newTree func() *znode.Tree) (*Store, Recovered, *znode.Tree, error) {
	panic("stub")
}

// Recovered is what Open returned, or after an ErrStateDamaged of LoadTree, what holds now.
func (s *Store) Recovered() Recovered { panic("stub") }

// LoadTree fills an empty tree from the state in one ordered scan.
func (s *Store) LoadTree(t *znode.Tree) error { panic("stub") }

// Persist executes ops in order and returns when all are durable. An error is fatal.
func (s *Store) Persist(ops []zab.PersistOp) error { panic("stub") }

// ReadLog returns entries of (after, upto], at most maxBytes of data but at least one.
func (s *Store) ReadLog(after, upto zab.Zxid, maxBytes int) (entries []zab.Entry, missing bool, err error) {
	panic("stub")
}

// LogBounds returns what the durable log holds: (base, last].
func (s *Store) LogBounds() (base, last zab.Zxid) { panic("stub") }

// StateNode is one changed path.
type StateNode struct {
	Path    string
	Deleted bool
	Record  znode.NodeRecord // unless Deleted
	DataToo bool             // the data changed as well; set it for a created node
}

// StateBatch is a copy of what changed up to Applied, taken under one read lock.
type StateBatch struct {
	Applied       zab.Zxid
	Digests       znode.Digests
	Nodes         []StateNode
	Sessions      []znode.Session
	EndedSessions []int64
}

// WriteState commits one batch without a WAL.
func (s *Store) WriteState(b *StateBatch) error { panic("stub") }

// FlushState makes everything written durable; without changes it does nothing.
func (s *Store) FlushState() error { panic("stub") }

// DurableApplied is up to where the state is on the disk.
func (s *Store) DurableApplied() zab.Zxid { panic("stub") }

// CutLog drops what the DIFF window no longer needs.
func (s *Store) CutLog(minCursor zab.Zxid) (base zab.Zxid, cut bool, err error) { panic("stub") }

// SnapshotReader streams the state at a known zxid.
type SnapshotReader struct{}

// SnapshotReader begins a snapshot.
func (s *Store) SnapshotReader() (*SnapshotReader, error) { panic("stub") }

// Zxid of the snapshot.
func (r *SnapshotReader) Zxid() zab.Zxid { panic("stub") }

// Digests of the snapshot.
func (r *SnapshotReader) Digests() znode.Digests { panic("stub") }

// Next returns up to maxBytes of the stream; the chunk is valid until the next call.
func (r *SnapshotReader) Next(maxBytes int) (chunk []byte, done bool, err error) { panic("stub") }

// Close ends it.
func (r *SnapshotReader) Close() error { panic("stub") }

// SnapshotWriter writes a received stream into a fresh state directory.
type SnapshotWriter struct{}

// NewSnapshotWriter begins.
func (s *Store) NewSnapshotWriter(z zab.Zxid) (*SnapshotWriter, error) { panic("stub") }

// Write takes the next bytes of the stream.
func (w *SnapshotWriter) Write(chunk []byte) error { panic("stub") }

// Finish checks the end, flushes, syncs and returns the directory's name for zab.Install.
func (w *SnapshotWriter) Finish() (dir string, err error) { panic("stub") }

// Abort removes what was written; also after Finish, as long as it is not installed.
func (w *SnapshotWriter) Abort() { panic("stub") }

// Metrics are counters since the start, and sizes now.
type Metrics struct {
	Syncs     uint64
	SyncNanos uint64
}

// Metrics returns them.
func (s *Store) Metrics() Metrics { panic("stub") }

// CheckDisk measures.
func (s *Store) CheckDisk() (free uint64, low bool) { panic("stub") }

// Close flushes the state and closes both stores.
func (s *Store) Close() error { panic("stub") }
