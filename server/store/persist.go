package store

import (
	"fmt"
	"math"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"github.com/zkserver/zkserver/zab"
)

// batchLimit is the size from which on the rest of a Persist goes into a batch of its own: one op is never split.
const batchLimit = 4 << 20

// Persist executes ops in order and returns when all of them are durable: one batch and one sync (more only beyond
// 4 MiB). Every error is fatal and has been given to Options.Fatal; nothing of ops may be taken for durable then.
func (s *Store) Persist(ops []zab.PersistOp) error {
	if len(ops) == 0 {
		return nil
	}
	s.logMu.Lock()
	defer s.logMu.Unlock()
	c, err := s.beginChange()
	if err != nil {
		return err
	}
	for i := range ops {
		if in := ops[i].Install; in != nil && !s.received(in) {
			return s.failure.fail(fmt.Errorf("%w: op %d: no complete snapshot at %v in %q", ErrInvariant, ops[i].Seq, in.Zxid, in.Dir))
		}
		if err := c.execute(&ops[i]); err != nil {
			return s.failure.fail(fmt.Errorf("%w: op %d: %w", ErrInvariant, ops[i].Seq, err))
		}
		if c.batch.Len() >= batchLimit && i+1 < len(ops) {
			if err := s.commitChange(c); err != nil {
				return err
			}
			if c, err = s.beginChange(); err != nil {
				return err
			}
		}
	}
	return s.commitChange(c)
}

// change is a batch of log/ in the making, and what the log will be with it.
type change struct {
	batch   *pebble.Batch
	next    logState
	window  []windowEdit
	install *zab.Install // the last one
	entries uint64
	bytes   uint64
	value   []byte
}

func (s *Store) beginChange() (*change, error) {
	if err := s.failure.get(); err != nil {
		return nil, err
	}
	if s.writeErr != nil {
		return nil, s.writeErr
	}
	return &change{batch: s.batch, next: *s.durable.Load()}, nil
}

// commitChange writes the batch, waits for its sync and publishes what it made durable.
//
// Invariant (durable): only a nil SyncWait publishes. ApplyNoSyncWait alone already shows the batch to readers of the
// database, so they bound themselves by what is published here.
func (s *Store) commitChange(c *change) error {
	c.value = hardRecord{hard: c.next.hard, commit: c.next.commit, last: c.next.last}.append(c.value[:0])
	if err := c.batch.Set([]byte(keyHard), c.value, nil); err != nil {
		return s.failure.fail(fmt.Errorf("store: log: %w", err))
	}
	size := c.batch.Len()
	start := s.o.Now()
	s.metrics.syncBegin(start)
	err := s.apply(c.batch, !s.o.NoSync || c.install != nil)
	took := s.o.Now().Sub(start)
	s.metrics.syncEnd(took)
	if err != nil {
		s.batch = nil // never reused after an error
		return s.failure.fail(fmt.Errorf("store: log: sync: %w", err))
	}
	if took > s.o.SlowSync {
		s.metrics.slowSyncs.Add(1)
		s.o.Log.Warn().Dur("took", took).Int("bytes", size).Msg("slow sync of the log")
	}
	c.batch.Reset()
	s.metrics.logBytes.Add(uint64(size))
	s.metrics.entries.Add(c.entries)
	s.metrics.entryBytes.Add(c.bytes)
	for _, e := range c.window {
		s.window.edit(e, start)
	}
	next := c.next
	s.durable.Store(&next)
	if c.install != nil {
		return s.switchState(c.install)
	}
	return nil
}

// apply makes the batch durable, or without sync only written.
func (s *Store) apply(b *pebble.Batch, sync bool) error {
	if !sync {
		return s.failure.await(func() error { return s.logDB.Apply(b, pebble.NoSync) })
	}
	return s.failure.await(func() error {
		if err := s.logDB.ApplyNoSyncWait(b, pebble.Sync); err != nil {
			return err
		}
		return b.SyncWait()
	})
}

// execute adds one op to the batch. An error leaves the batch useless.
func (c *change) execute(op *zab.PersistOp) error {
	l := &c.next
	if op.Install != nil {
		if err := c.doInstall(op.Install); err != nil {
			return err
		}
	}
	if op.Truncate != nil {
		if err := c.doTruncate(*op.Truncate); err != nil {
			return err
		}
	}
	if err := c.doAppend(op.Append); err != nil {
		return err
	}
	if op.Hard != nil {
		if op.Hard.Accepted < l.hard.Accepted || op.Hard.Current < l.hard.Current {
			return fmt.Errorf("hard state %+v after %+v goes back", *op.Hard, l.hard)
		}
		l.hard = *op.Hard
	}
	if op.Unstamp && l.ensemble != 0 {
		if err := c.batch.Delete([]byte(keyEnsemble), nil); err != nil {
			return err
		}
		l.ensemble = 0
	}
	if op.Ensemble != 0 && op.Ensemble != l.ensemble {
		if err := c.batch.Set([]byte(keyEnsemble), order.AppendUint64(nil, uint64(op.Ensemble)), nil); err != nil {
			return err
		}
		l.ensemble = op.Ensemble
	}
	// A commit point of an idle time is stored too; what lies beyond the end is not known to be ours yet.
	l.commit = max(l.commit, min(op.Commit, l.last))
	return l.check()
}

func (c *change) doAppend(entries []zab.Entry) error {
	l := &c.next
	for i := range entries {
		e := &entries[i]
		if !follows(l.last, e.Zxid) {
			return fmt.Errorf("entry %v does not follow the end %v", e.Zxid, l.last)
		}
		if e.Zxid.Epoch() != l.last.Epoch() && l.last != 0 {
			if err := c.endEpoch(l.last); err != nil {
				return err
			}
		}
		d := c.batch.SetDeferred(9, len(e.Data))
		d.Key[0] = keyEntry
		order.PutUint64(d.Key[1:], uint64(e.Zxid))
		copy(d.Value, e.Data)
		if err := d.Finish(); err != nil {
			return err
		}
		l.last = e.Zxid
		c.entries++
		c.bytes += uint64(len(e.Data))
		if n := len(c.window); n > 0 && c.window[n-1].kind == windowGrow && c.window[n-1].count < windowStride {
			c.window[n-1].add(e)
		} else {
			c.window = append(c.window, growEdit(e))
		}
	}
	return nil
}

// endEpoch writes the row of the epoch that last ends.
func (c *change) endEpoch(last zab.Zxid) error {
	l := &c.next
	c.value = order.AppendUint64(c.value[:0], uint64(last))
	if err := c.batch.Set(epochKey(last.Epoch()), c.value, nil); err != nil {
		return err
	}
	l.ended = append(l.ended[:len(l.ended):len(l.ended)], zab.EpochEnd{Epoch: last.Epoch(), Last: last})
	return nil
}

// doTruncate deletes everything beyond to. What is delivered is never cut.
func (c *change) doTruncate(to zab.Zxid) error {
	l := &c.next
	if to == l.last {
		return nil
	}
	if to < l.commit {
		return fmt.Errorf("truncation to %v below the commit point %v", to, l.commit)
	}
	if !l.contains(to) {
		return fmt.Errorf("truncation to %v, which is not in the log (%v, %v]", to, l.base, l.last)
	}
	if err := c.batch.DeleteRange(entryKey(to+1), entriesEnd(), nil); err != nil {
		return err
	}
	if err := c.batch.DeleteRange(epochKey(to.Epoch()), epochsEnd(), nil); err != nil {
		return err
	}
	l.ended = endedBefore(l.ended, to.Epoch())
	l.last = to
	c.window = append(c.window, windowEdit{kind: windowTruncate, zxid: to})
	return nil
}

// doInstall makes the snapshot the base of the log. Entries at or below it and beyond the common point go; those
// between stay, for they were acked (interleavings 2).
func (c *change) doInstall(in *zab.Install) error {
	l := &c.next
	if in.Zxid < l.base {
		return fmt.Errorf("snapshot at %v below the log's base %v", in.Zxid, l.base)
	}
	if in.Zxid.Epoch() > zab.MaxEpoch {
		return fmt.Errorf("snapshot at %v: epochs from 2^31 on are refused", in.Zxid)
	}
	if n, ok := parseStateDir(in.Dir); !ok || n == 0 {
		return fmt.Errorf("snapshot in %q: no name of a state directory", in.Dir)
	}
	ended, last := endedBefore(in.Epochs, in.Zxid.Epoch()), in.Zxid
	if keep := min(in.Common, l.last); keep > in.Zxid {
		if !l.contains(keep) || !l.contains(in.Zxid) {
			return fmt.Errorf("snapshot at %v, common point %v: not in the log (%v, %v]", in.Zxid, keep, l.base, l.last)
		}
		ended, last = endedBefore(l.table(), keep.Epoch()), keep
	}
	ended = append([]zab.EpochEnd(nil), ended...)
	if !rowsSound(ended, last) {
		return fmt.Errorf("snapshot at %v: epoch table %v", in.Zxid, in.Epochs)
	}
	b := c.batch
	if err := b.DeleteRange(entryKey(0), entryKey(in.Zxid+1), nil); err != nil {
		return err
	}
	if err := b.DeleteRange(entryKey(last+1), entriesEnd(), nil); err != nil {
		return err
	}
	if err := b.DeleteRange(epochKey(0), epochsEnd(), nil); err != nil {
		return err
	}
	for _, r := range ended {
		if err := b.Set(epochKey(r.Epoch), order.AppendUint64(nil, uint64(r.Last)), nil); err != nil {
			return err
		}
	}
	if err := b.Set([]byte(keyBase), order.AppendUint64(nil, uint64(in.Zxid)), nil); err != nil {
		return err
	}
	if err := b.Set([]byte(keyStateName), []byte(in.Dir), nil); err != nil {
		return err
	}
	l.base, l.last, l.ended = in.Zxid, last, ended
	l.commit = max(l.commit, in.Zxid)
	c.window = append(c.window, windowEdit{kind: windowTruncate, zxid: last}, windowEdit{kind: windowCut, zxid: in.Zxid})
	c.install = in
	return nil
}

func epochsEnd() []byte { return append(epochKey(math.MaxUint32), 0) }

// cutBatch moves the base up in one synced batch of its own.
func (s *Store) cutBatch(to zab.Zxid) error {
	c, err := s.beginChange()
	if err != nil {
		return err
	}
	if err := c.batch.DeleteRange(entryKey(0), entryKey(to+1), nil); err != nil {
		return s.failure.fail(fmt.Errorf("store: log: %w", err))
	}
	if err := c.batch.Set([]byte(keyBase), order.AppendUint64(nil, uint64(to)), nil); err != nil {
		return s.failure.fail(fmt.Errorf("store: log: %w", err))
	}
	c.next.base = to
	c.next.commit = max(c.next.commit, to) // what the state holds was delivered
	if err := c.next.check(); err != nil {
		return s.failure.fail(fmt.Errorf("%w: log cut at %v: %w", ErrInvariant, to, err))
	}
	c.window = append(c.window, windowEdit{kind: windowCut, zxid: to})
	return s.commitChange(c)
}

// settleLog makes durable what NoSync has only written: also then the state must never be ahead of the durable log, or
// the next start takes the log for damaged. The state writer is slow enough for it to cost little.
func (s *Store) settleLog() error {
	if !s.o.NoSync {
		return nil
	}
	s.logMu.Lock()
	defer s.logMu.Unlock()
	if s.writeErr != nil {
		return s.writeErr
	}
	b := s.logDB.NewBatch()
	err := b.LogData(nil, nil)
	if err == nil {
		err = s.apply(b, true)
	}
	if err != nil {
		return s.failure.fail(fmt.Errorf("store: log: sync: %w", err))
	}
	return b.Close()
}

// Syncing returns for how long the sync under way has lasted; zero when there is none. A host that must not wait for
// a hung disk for ever looks at it now and then.
func (s *Store) Syncing() time.Duration { return s.metrics.syncing(s.o.Now()) }
