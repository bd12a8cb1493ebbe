package store

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
)

// engineOptions are Pebble's for one of the stores. Memory belongs to the tree: small memtables, one small cache. The
// state's are larger than the log's: changes come from all over the tree, so each of its tables overlaps the others, and
// fewer, larger ones are compacted less often (a third of the CPU of creates went into that with 8 MiB).
func (s *Store) engineOptions(fs vfs.FS, part string, state, readOnly bool) *pebble.Options {
	memTable, stop := uint64(s.o.MemTable), 4
	if state {
		memTable, stop = 2*memTable, 3 // its writer may wait, nobody waits for it
	}
	return &pebble.Options{
		Cache:                       s.cache,
		FS:                          fs,
		FormatMajorVersion:          pebbleFormat,
		MemTableSize:                memTable,
		MemTableStopWritesThreshold: stop,
		L0CompactionThreshold:       4,
		L0StopWritesThreshold:       48,
		LBaseMaxBytes:               64 << 20,
		MaxOpenFiles:                512,
		CompactionConcurrencyRange:  func() (int, int) { return 1, 1 },
		DisableWAL:                  state,
		ReadOnly:                    readOnly,
		Logger:                      pebbleLogger{s: s, part: part},
		EventListener:               s.listener(part, state),
	}
}

func (s *Store) listener(part string, state bool) *pebble.EventListener {
	log := s.o.Log.With().Str("store", part).Logger()
	return &pebble.EventListener{
		// The default would be Fatalf: the reader would hang. So it gets an error, and the file's name is kept.
		DataCorruption: func(i pebble.DataCorruptionInfo) {
			s.noteDamage(i.Path)
			if state {
				s.stateDamaged.Store(true)
			}
			log.Error().Str("file", i.Path).AnErr("detail", i.Details).Msg("damage found on disk")
		},
		BackgroundError: func(err error) { log.Error().Err(err).Msg("background error of the store") },
		WriteStallBegin: func(i pebble.WriteStallBeginInfo) {
			s.metrics.stalls.Add(1)
			log.Warn().Str("reason", i.Reason).Msg("writes stall")
		},
		FlushEnd: func(i pebble.FlushInfo) {
			if i.Err == nil {
				s.metrics.flushes.Add(1)
			}
		},
	}
}

// openEngine opens one store and turns whatever Pebble makes of a damaged directory, panics included, into an error.
func (s *Store) openEngine(dir, part string, state, readOnly bool) (*pebble.DB, error) {
	fs := s.o.FS
	if !readOnly {
		fs = engineFS{FS: fs, f: s.failure}
	}
	return s.openEngineOn(fs, dir, part, state, readOnly)
}

func (s *Store) openEngineOn(fs vfs.FS, dir, part string, state, readOnly bool) (db *pebble.DB, err error) {
	defer func() {
		if r := recover(); r != nil {
			db, err = nil, fmt.Errorf("%w: %v", errEnginePanic, r)
		}
	}()
	return pebble.Open(dir, s.engineOptions(fs, part, state, readOnly))
}

var errEnginePanic = errors.New("unreadable")

// isDamage tells what is wrong on the disk from what is wrong with the machine (permissions, I/O errors, memory):
// only the former may ever lead to a state being rebuilt.
func isDamage(err error) bool {
	return pebble.IsCorruptionError(err) || errors.Is(err, errEnginePanic) || errors.Is(err, errMalformed) ||
		errors.Is(err, fs.ErrNotExist) ||
		errors.Is(err, pebble.ErrDBDoesNotExist)
}

// damagedFile finds out which file an error of Pebble is about.
func (s *Store) damagedFile(dir string, err error) string {
	if i := pebble.ExtractDataCorruptionInfo(err); i != nil && i.Path != "" {
		return i.Path
	}
	if f := s.takeDamage(); f != "" {
		return f
	}
	if f := fileIn(fmt.Sprintf("%+v", err)); f != "" { // %+v: with the details that Pebble hung on it
		return s.o.FS.PathJoin(dir, f)
	}
	return dir
}

// fileIn finds the name of a file of Pebble in a text: "000012.sst", "MANIFEST-000001", "replaying wal 12",
// "file 000012 (type sstable)".
func fileIn(text string) string {
	var n int
	if i := strings.Index(text, "replaying wal "); i >= 0 {
		if _, err := fmt.Sscanf(text[i:], "replaying wal %d", &n); err == nil {
			return fmt.Sprintf("%06d.log", n)
		}
	}
	if i, j := strings.Index(text, "file "), strings.Index(text, " (type sstable)"); i >= 0 && j > i {
		if _, err := fmt.Sscanf(text[i:], "file %d (type sstable)", &n); err == nil {
			return fmt.Sprintf("%06d.sst", n)
		}
	}
	for _, w := range strings.FieldsFunc(text, func(r rune) bool { return strings.ContainsRune(" /\\:,;()\"'\n", r) }) {
		if strings.HasPrefix(w, "MANIFEST-") || strings.HasSuffix(w, ".sst") || strings.HasSuffix(w, ".log") {
			return w
		}
	}
	return ""
}
