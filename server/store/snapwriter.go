package store

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/cockroachdb/pebble/v2"

	"github.com/zkserver/zkserver/zab"
	"github.com/zkserver/zkserver/znode"
)

// SnapshotWriter writes a received stream into a fresh state directory, which nothing names until zab.Install does.
// It checks checksums, order, that every node has its parent, that lists exist, and that the end is there. One
// goroutine uses it at a time. It must be ended by Abort, or by Finish and the Install of its directory.
type SnapshotWriter struct {
	s  *Store
	at zab.Zxid

	mu      sync.Mutex
	state   *stateDB
	batch   *pebble.Batch
	split   splitter
	stage   byte // kind of the last record, ACL lists apart
	lists   map[uint32][]znode.ACL
	last    string // path of the last node
	lastID  uint64
	seen    trailer
	end     applied
	err     error // the first one; then it only can be aborted
	done    bool
	aborted bool
}

// writeLimit is the size of the batches that a snapshot is written in.
const writeLimit = 2 << 20

// NewSnapshotWriter begins to receive a snapshot at z, in a directory that never existed.
func (s *Store) NewSnapshotWriter(z zab.Zxid) (*SnapshotWriter, error) {
	if err := s.failure.get(); err != nil {
		return nil, err
	}
	if _, low := s.CheckDisk(); low { // the host may not have looked yet
		return nil, ErrDiskLow
	}
	if !s.beginCreating() {
		return nil, ErrClosed
	}
	defer s.creating.Done()
	d, err := s.createState(s.freshState(z))
	if err != nil {
		return nil, fmt.Errorf("store: receive snapshot: %w", err)
	}
	w := &SnapshotWriter{s: s, at: z, state: d, batch: d.db.NewBatchWithSize(writeLimit), lists: make(map[uint32][]znode.ACL)}
	s.snapMu.Lock()
	defer s.snapMu.Unlock()
	s.writers[d.name] = w
	return w, nil
}

// beginCreating is false when the store is closed; if not, Close waits for creating.
func (s *Store) beginCreating() bool {
	s.snapMu.Lock()
	defer s.snapMu.Unlock()
	if !s.closed {
		s.creating.Add(1)
	}
	return !s.closed
}

// Write takes the next bytes of the stream, cut anywhere. After an error only Abort makes sense. What is left of a disk
// that is nearly full belongs to the log: ErrDiskLow.
func (w *SnapshotWriter) Write(chunk []byte) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.aborted || w.done {
		return ErrClosed
	}
	if w.err == nil && w.s.diskLow.Load() {
		w.err = ErrDiskLow
	}
	if w.err == nil {
		w.err = w.split.take(chunk, func(payload []byte) error { return eachRecord(payload, w.record) })
	}
	return w.err
}

func bad(format string, args ...any) error {
	return fmt.Errorf("%w: "+format, append([]any{ErrBadSnapshot}, args...)...)
}

func (w *SnapshotWriter) record(kind byte, body []byte) error {
	if w.stage == recTrailer || (w.stage == 0) != (kind == recHeader) {
		return bad("record %q in the wrong place", kind)
	}
	var err error
	switch kind {
	case recHeader:
		err = checkHeader(body, w.at)
		w.stage = recHeader
	case recACL:
		err = w.takeList(body)
	case recNode:
		err = w.takeNode(body)
		w.stage = recNode
	case recSession:
		err = w.takeSession(body)
		w.stage = recSession
	case recTrailer:
		err = w.takeTrailer(body)
		w.stage = recTrailer
	default:
		err = bad("record of kind %q", kind)
	}
	if err != nil {
		return err
	}
	if w.batch.Len() < writeLimit {
		return nil
	}
	if err := w.state.write(w.batch); err != nil {
		return fmt.Errorf("store: receive snapshot: %w", err)
	}
	w.batch.Reset()
	if _, low := w.s.CheckDisk(); low { // a snapshot comes faster than the host looks
		return ErrDiskLow
	}
	return nil
}

func (w *SnapshotWriter) takeList(body []byte) error {
	if len(body) < 4 {
		return bad("ACL list of %d bytes", len(body))
	}
	id := order.Uint32(body)
	list, err := decodeACL(body[4:])
	if _, twice := w.lists[id]; err != nil || twice {
		return bad("ACL list %d", id)
	}
	w.lists[id] = list
	return nil
}

func (w *SnapshotWriter) takeNode(body []byte) error {
	var r znode.NodeRecord
	path, rest, ok := takeString(body)
	if !ok || w.stage == recSession {
		return bad("node in the wrong place, or malformed")
	}
	acl, external, err := decodeNode(rest, &r)
	if err != nil || external {
		return bad("node %q is malformed", path)
	}
	if r.ACL, ok = w.lists[acl]; !ok {
		return bad("node %q has the ACL list %d, which does not exist", path, acl)
	}
	if !comesNext(w.last, path) {
		return bad("node %q behind %q: out of order, or without its parent", path, w.last)
	}
	w.last = path
	w.seen.nodes++
	if err := w.state.putNode(w.batch, path, &r, len(r.Data) > inlineLimit); err != nil {
		return bad("node %q: %v", path, err)
	}
	return nil
}

// comesNext reports whether path may follow last in a walk: it comes behind it, and its parent is last or an ancestor
// of last (those have all been there). The first one is the root.
func comesNext(last, path string) bool {
	if last == "" {
		return path == "/"
	}
	if len(path) < 2 || path[0] != '/' || path[len(path)-1] == '/' {
		return false
	}
	parent := path[:strings.LastIndexByte(path, '/')] // "" for a child of the root
	switch {
	case last == "/":
		return parent == ""
	case last == parent:
		return true
	case !strings.HasPrefix(last, parent+"/"):
		return false
	}
	sibling, _, _ := strings.Cut(last[len(parent)+1:], "/")
	return sibling < path[len(parent)+1:]
}

func (w *SnapshotWriter) takeSession(body []byte) error {
	if len(body) < 8 || w.last == "" {
		return bad("session in the wrong place, or malformed")
	}
	id := order.Uint64(body)
	sess, err := decodeSession(int64(id), body[8:])
	if err != nil || w.stage == recSession && id <= w.lastID {
		return bad("session %#x", id)
	}
	w.lastID = id
	w.seen.sessions++
	if err := w.state.putSession(w.batch, &sess); err != nil {
		return fmt.Errorf("store: receive snapshot: %w", err)
	}
	return nil
}

func (w *SnapshotWriter) takeTrailer(body []byte) error {
	t, err := decodeTrailer(body)
	if err != nil {
		return err
	}
	if t.applied.zxid != w.at || t.nodes != w.seen.nodes || t.sessions != w.seen.sessions || w.last == "" {
		return bad("its end says %d nodes and %d sessions at %v, received were %d and %d for %v",
			t.nodes, t.sessions, t.applied.zxid, w.seen.nodes, w.seen.sessions, w.at)
	}
	w.end = t.applied
	return nil
}

// Finish checks that the stream is complete, makes the directory durable and returns its name for zab.Install.
func (w *SnapshotWriter) Finish() (dir string, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case w.aborted || w.done:
		return "", ErrClosed
	case w.err != nil:
		return "", w.err
	case w.stage != recTrailer || len(w.split.rest) > 0:
		w.err = bad("its end is missing")
		return "", w.err
	}
	if w.err = w.state.commit(w.batch, w.end); w.err == nil {
		w.batch = nil
		w.err = w.state.flush()
	}
	if w.err == nil {
		w.err = syncDir(w.s.o.FS, w.s.o.DataDir)
	}
	if w.err != nil {
		w.err = fmt.Errorf("store: receive snapshot: %w", w.err)
		return "", w.err
	}
	w.done = true
	return w.state.name, nil
}

// DropSnapshot aborts the snapshot that is received in a directory; one that was installed or aborted is none.
func (s *Store) DropSnapshot(dir string) {
	s.snapMu.Lock()
	w := s.writers[dir]
	s.snapMu.Unlock()
	if w != nil {
		w.Abort()
	}
}

// abortWriters aborts every snapshot that is received.
func (s *Store) abortWriters() {
	s.snapMu.Lock()
	writers := slices.Collect(maps.Values(s.writers))
	s.snapMu.Unlock()
	for _, w := range writers {
		w.Abort()
	}
}

// Abort removes what was written; also after Finish, as long as it was not installed. More than once is fine.
func (w *SnapshotWriter) Abort() {
	w.s.snapMu.Lock()
	mine := w.s.writers[w.state.name] == w
	delete(w.s.writers, w.state.name)
	w.s.snapMu.Unlock()
	if !mine || w.s.failure.get() != nil {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.aborted = true
	dir := w.s.o.FS.PathJoin(w.s.o.DataDir, w.state.name)
	if w.batch != nil {
		_ = w.batch.Close() // nothing of it is kept
		w.batch = nil
	}
	if err := w.s.failure.await(w.state.db.Close); err != nil {
		w.s.o.Log.Warn().Err(err).Str("dir", dir).Msg("closing an aborted snapshot")
	}
	if err := w.s.o.FS.RemoveAll(dir); err != nil {
		w.s.o.Log.Warn().Err(err).Str("dir", dir).Msg("removing an aborted snapshot") // the next start does
	}
}
