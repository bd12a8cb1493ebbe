package store

import (
	"cmp"
	"errors"
	"fmt"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/rs/zerolog"

	"github.com/zkserver/zkserver/zab"
)

// Options configures a Store. Zero values take the defaults in brackets.
type Options struct {
	DataDir string       // holds the state directories; created if missing
	LogDir  string       // holds log/; may be the same as DataDir [DataDir]
	FS      vfs.FS       // [the disk]
	Server  zab.ServerID // of this server; another server's directory is refused
	Log     zerolog.Logger

	// Instance is written into a fresh directory as its instance id; it must be drawn at random by the caller.
	// An existing directory keeps its own (Recovered.Instance).
	Instance zab.ID

	// Rebuild allows a start without the state directory that log/ names: the state is then asked for by SNAP
	// (Recovered.NeedSnap). Without it such a start is refused, because a mount that is missing looks the same.
	Rebuild bool

	// The DIFF window: entries beyond any of these may be cut from the log once the state covers them.
	DiffCount int           // entries [1,000,000]
	DiffBytes int64         // bytes; also the size from which on a slow cursor no longer holds the log [256 MiB]
	DiffAge   time.Duration // since they were written, or since the start for older ones [24 h]

	// Rules for flushing the state, besides FlushState.
	FlushBytes int64 // written since the last flush [64 MiB]
	FlushTxns  int64 // transactions since the last flush [100,000]

	MemTable int64         // bytes of a memtable of log/; the state has twice as much [16 MiB]
	Cache    int64         // bytes of the block cache that both stores share [8 MiB]
	NoSync   bool          // forceSync=no: what was acknowledged since the last WriteState may be lost in a crash
	SlowSync time.Duration // a sync of the log that takes longer is logged [1 s]
	LowWater uint64        // bytes: with less free in either directory snapshots are refused [256 MiB]

	// Fatal is called at most once, from any goroutine, also before Open has returned. After it nothing more becomes
	// durable: the owner cuts all links and connections, logs one line and exits non-zero without calling Close.
	Fatal func(error)

	// Now is the clock of DiffAge and of the metrics [time.Now].
	Now func() time.Time
}

const (
	DefaultDiffCount  = 1_000_000
	DefaultFlushTxns  = 100_000
	defaultDiffBytes  = 256 << 20
	defaultDiffAge    = 24 * time.Hour
	defaultFlushBytes = 64 << 20
	defaultMemTable   = 16 << 20
	defaultCache      = 8 << 20
	defaultSlowSync   = time.Second
	defaultLowWater   = 256 << 20
	minMemTable       = 64 << 10
)

func (o Options) withDefaults() Options {
	if o.LogDir == "" {
		o.LogDir = o.DataDir
	}
	if o.FS == nil {
		o.FS = vfs.Default
	}
	o.DiffCount = cmp.Or(o.DiffCount, DefaultDiffCount)
	o.DiffBytes = cmp.Or(o.DiffBytes, defaultDiffBytes)
	o.DiffAge = cmp.Or(o.DiffAge, defaultDiffAge)
	o.FlushBytes = cmp.Or(o.FlushBytes, defaultFlushBytes)
	o.FlushTxns = cmp.Or(o.FlushTxns, DefaultFlushTxns)
	o.MemTable = cmp.Or(o.MemTable, defaultMemTable)
	o.Cache = cmp.Or(o.Cache, defaultCache)
	o.SlowSync = cmp.Or(o.SlowSync, defaultSlowSync)
	o.LowWater = cmp.Or(o.LowWater, defaultLowWater)
	if o.Fatal == nil {
		o.Fatal = func(error) {}
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	return o
}

// Validate reports every fault at once.
func (o Options) Validate() error {
	var faults []error
	bad := func(format string, args ...any) { faults = append(faults, fmt.Errorf("store: "+format, args...)) }
	if o.DataDir == "" {
		bad("no data directory is given")
	}
	if o.Server == 0 || o.Server > 254 {
		bad("server id %d, want 1..254", o.Server)
	}
	if o.DiffCount < 0 || o.DiffBytes < 0 || o.DiffAge < 0 || o.FlushBytes < 0 || o.FlushTxns < 0 || o.SlowSync < 0 {
		bad("a limit is negative")
	}
	if o.MemTable != 0 && o.MemTable < minMemTable {
		bad("memtable of %d bytes, want at least %d", o.MemTable, minMemTable)
	}
	if o.Cache < 0 {
		bad("cache of %d bytes", o.Cache)
	}
	return errors.Join(faults...)
}
