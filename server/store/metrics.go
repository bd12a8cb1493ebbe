package store

import (
	"errors"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// Metrics are counters since the start and sizes now.
type Metrics struct {
	Syncs        uint64 // of the log
	SyncTime     time.Duration
	SyncMax      time.Duration
	SlowSyncs    uint64 // longer than Options.SlowSync
	LogBytes     uint64 // written into log/
	Entries      uint64 // appended
	EntryBytes   uint64 // their data
	LogDisk      uint64 // bytes that log/ takes on the disk
	StateDisk    uint64 // bytes that the state directory takes
	StateBatches uint64
	StateBytes   uint64 // written into the state
	Flushes      uint64 // memtables of both stores
	Stalls       uint64 // writes delayed by Pebble
	DiskLow      uint64 // times that the disk was found nearly full
	MemTables    uint64 // bytes of both stores
	CacheBytes   int64
}

type counters struct {
	syncs, syncNanos, syncMax     atomic.Uint64
	slowSyncs                     atomic.Uint64
	syncSince                     atomic.Pointer[time.Time] // of the sync under way, or nil
	logBytes, entries, entryBytes atomic.Uint64
	stateBatches, stateBytes      atomic.Uint64
	flushes, stalls, diskLow      atomic.Uint64
}

func (c *counters) syncBegin(now time.Time) { c.syncSince.Store(&now) }

func (c *counters) syncEnd(took time.Duration) {
	c.syncSince.Store(nil)
	c.syncs.Add(1)
	c.syncNanos.Add(uint64(max(took, 0)))
	if n := uint64(max(took, 0)); n > c.syncMax.Load() { // one writer
		c.syncMax.Store(n)
	}
}

// syncing goes by monotonic time: a step of the wall clock is neither a disk that hangs nor the end of one.
func (c *counters) syncing(now time.Time) time.Duration {
	if t := c.syncSince.Load(); t != nil {
		return max(0, now.Sub(*t))
	}
	return 0
}

// Metrics returns them.
func (s *Store) Metrics() Metrics {
	c := &s.metrics
	m := Metrics{
		Syncs: c.syncs.Load(), SyncTime: time.Duration(c.syncNanos.Load()), SyncMax: time.Duration(c.syncMax.Load()), SlowSyncs: c.slowSyncs.Load(),
		LogBytes: c.logBytes.Load(), Entries: c.entries.Load(), EntryBytes: c.entryBytes.Load(),
		StateBatches: c.stateBatches.Load(), StateBytes: c.stateBytes.Load(),
		Flushes: c.flushes.Load(), Stalls: c.stalls.Load(), DiskLow: c.diskLow.Load(),
	}
	s.stateMu.RLock()
	defer s.stateMu.RUnlock()
	if s.isClosed() {
		return m
	}
	l := s.logDB.Metrics()
	m.LogDisk, m.MemTables, m.CacheBytes = l.DiskSpaceUsage(), l.MemTable.Size, l.BlockCache.Size
	if s.state != nil {
		d := s.state.db.Metrics()
		m.StateDisk = d.DiskSpaceUsage()
		m.MemTables += d.MemTable.Size
	}
	return m
}

// CheckDisk measures the free space of both directories; the host calls it every few seconds. Below Options.LowWater
// it logs once, counts, and snapshots are refused until there is room again: they are what can wait.
func (s *Store) CheckDisk() (free uint64, low bool) {
	free = ^uint64(0)
	for _, dir := range []string{s.o.DataDir, s.o.LogDir} {
		u, err := s.o.FS.GetDiskUsage(dir)
		if errors.Is(err, vfs.ErrUnsupported) {
			continue
		}
		if err != nil {
			s.o.Log.Warn().Err(err).Str("dir", dir).Msg("free space is unknown")
			continue
		}
		free = min(free, u.AvailBytes)
	}
	low = free < s.o.LowWater
	if was := s.diskLow.Swap(low); low && !was {
		s.metrics.diskLow.Add(1)
		s.o.Log.Warn().Uint64("free", free).Uint64("low_water", s.o.LowWater).Msg("the disk is nearly full: no snapshots")
	} else if was && !low {
		s.o.Log.Info().Uint64("free", free).Msg("the disk has room again")
	}
	return free, low
}
