package store

import (
	"errors"
	"fmt"
	"io"

	"github.com/cockroachdb/pebble/v2/record"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/wal"
)

// A start whose newest WAL ends torn flushes what it replayed, which takes that WAL out of use, and only then begins
// another one. But a WAL without one complete record gives nothing to flush: it stays in use, and if the next crash
// comes before the flush that follows the opening, it is no longer the newest one. Pebble then takes its torn end for
// damage and refuses, for ever. Such a WAL holds nothing, so it is emptied: for the read-only check as a view, and
// after the check in earnest.

// walEnds is what the newest WALs look like at their ends.
type walEnds struct {
	hollow []string // torn, without a complete record, and no later one holds a record either
	torn   string   // the newest one with records, if it does not end cleanly
	offset int64    // where
}

// lookAtWALs reads from the newest WAL backwards to the first one that holds a record. What reads as certain damage (a
// valid record behind the fault) is left for the check to find.
func lookAtWALs(fs vfs.FS, dir string) (walEnds, error) {
	logs, err := wal.Scan(wal.Dir{FS: fs, Dirname: dir})
	if err != nil {
		return walEnds{}, err
	}
	var ends walEnds
	for i := len(logs) - 1; i >= 0; i-- {
		records, end, file, err := readWAL(logs[i])
		torn := errors.Is(err, record.ErrUnexpectedEOF)
		switch {
		case records > 0 || !torn && !errors.Is(err, io.EOF):
			if torn {
				ends.torn, ends.offset = file, end
			}
			return ends, nil
		case torn:
			ends.hollow = append(ends.hollow, file)
		}
	}
	return ends, nil
}

// readWAL reads as Pebble's replay does: how many records are whole, and how and where they end.
func readWAL(l wal.LogicalLog) (records int, end int64, file string, err error) {
	r := l.OpenForRead()
	defer func() { _ = r.Close() }() // only read
	for {
		rec, offset, err := r.NextRecord()
		if err == nil {
			_, err = io.Copy(io.Discard, rec)
		}
		if err != nil {
			return records, offset.Physical, offset.PhysicalFile, err
		}
		records++
	}
}

// hollowFS shows those files as empty.
type hollowFS struct {
	vfs.FS
	names []string
	empty *vfs.MemFS
}

const emptyName = "empty"

func newHollowFS(fs vfs.FS, names []string) (vfs.FS, error) {
	if len(names) == 0 {
		return fs, nil
	}
	h := hollowFS{FS: fs, names: names, empty: vfs.NewMem()}
	f, err := h.empty.Create(emptyName, vfs.WriteCategoryUnspecified)
	if err != nil {
		return nil, err
	}
	return h, f.Close()
}

// Open shows an empty file in the place of a hollow one.
func (h hollowFS) Open(name string, opts ...vfs.OpenOption) (vfs.File, error) {
	for _, n := range h.names {
		if n == name {
			return h.empty.Open(emptyName)
		}
	}
	return h.FS.Open(name, opts...)
}

// Unwrap is part of vfs.FS.
func (h hollowFS) Unwrap() vfs.FS { return h.FS }

// emptyWALs does it in earnest, before log/ is opened for writing.
func (s *Store) emptyWALs(names []string) error {
	for _, name := range names {
		s.o.Log.Warn().Str("file", name).Msg("a torn WAL without one complete record is emptied")
		f, err := s.o.FS.Create(name, vfs.WriteCategoryUnspecified)
		if err == nil {
			err = errors.Join(f.Sync(), f.Close())
		}
		if err == nil {
			err = syncDir(s.o.FS, s.o.FS.PathDir(name))
		}
		if err != nil {
			return fmt.Errorf("store: empty %s: %w", name, err)
		}
	}
	return nil
}
