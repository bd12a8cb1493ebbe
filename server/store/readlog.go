package store

import (
	"fmt"

	"github.com/cockroachdb/pebble/v2"

	"github.com/zkserver/zkserver/zab"
)

// readChunk is the unit in which ReadLog allocates for what it returns.
const readChunk = 64 << 10

// ReadLog returns the entries of (after, upto], at most maxBytes of data but at least one entry; never one that is
// not durable. missing says that the log does not (or no longer) continue from after. No entry and no missing: there
// is nothing durable there yet.
func (s *Store) ReadLog(after, upto zab.Zxid, maxBytes int) (entries []zab.Entry, missing bool, err error) {
	s.stateMu.RLock()
	defer s.stateMu.RUnlock()
	if s.isClosed() {
		return nil, false, ErrClosed
	}
	l := s.durable.Load()
	if !l.contains(after) {
		return nil, true, nil
	}
	upto = min(upto, l.last)
	if upto <= after {
		return nil, false, nil
	}
	it, err := s.logDB.NewIter(&pebble.IterOptions{LowerBound: entryKey(after + 1), UpperBound: entryKey(upto + 1)})
	if err != nil {
		return nil, false, fmt.Errorf("store: read log: %w", err)
	}
	var chunk []byte
	size, before := 0, after
	for ok := it.First(); ok; ok = it.Next() {
		z, kerr := entryZxid(it.Key())
		value, verr := it.ValueAndErr()
		if kerr != nil || verr != nil {
			_ = it.Close() // the error at hand says more
			return nil, false, fmt.Errorf("store: read log behind %v: %w", before, firstError(verr, kerr))
		}
		// A truncation or cut that is being written may already show: stop at the seam.
		if !l.continues(before, z) {
			break
		}
		if size += len(value); size > maxBytes && len(entries) > 0 {
			break
		}
		if cap(chunk)-len(chunk) < len(value) {
			chunk = make([]byte, 0, max(len(value), min(readChunk, maxBytes)))
		}
		n := len(chunk)
		chunk = append(chunk, value...)
		entries = append(entries, zab.Entry{Zxid: z, Data: chunk[n:len(chunk):len(chunk)]})
		before = z
	}
	if err := it.Close(); err != nil {
		return nil, false, fmt.Errorf("store: read log behind %v: %w", before, err)
	}
	return entries, len(entries) == 0, nil
}

func firstError(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}
