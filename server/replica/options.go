package replica

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/rs/zerolog"

	"github.com/zkserver/zkserver/election"
	"github.com/zkserver/zkserver/server/peer"
	"github.com/zkserver/zkserver/server/session"
	"github.com/zkserver/zkserver/server/store"
	"github.com/zkserver/zkserver/server/transport"
	"github.com/zkserver/zkserver/zab"
	"github.com/zkserver/zkserver/znode"
)

// Links is what a replica needs of server/transport. An ensemble of one needs none.
type Links interface {
	Send(l zab.Link, msgs ...peer.Message)
	Cut(l zab.Link, reason zab.Reason, detail string)
	SendSnapshot(ctx context.Context, l zab.Link, src transport.SnapshotSource, done func(err error), progress func())
}

// Options of a Replica. Zero values take the defaults in brackets.
type Options struct {
	Self    zab.ServerID
	Members []zab.Member // with Self

	Store store.Options // Server, Instance, Log and Fatal are filled in
	Tree  znode.Options
	// ConfigNode is the text of /zookeeper/config; nil: the node stays empty.
	ConfigNode []byte

	Zab      zab.Options
	Election election.Options

	MinSessionTimeout time.Duration // as configured [4 s]
	FlushInterval     time.Duration // how often the state is made durable while it changes [60 s]
	Reap              Reap          // of containers and TTL nodes [every 60 s, 10000 a minute; negative interval: never]

	Hub *session.Hub
	Log zerolog.Logger
}

// defaults of the host; tuning, not format.
const (
	defaultFlushInterval     = 60 * time.Second
	defaultReapInterval      = 60 * time.Second
	defaultReapPerMinute     = 10000
	defaultMinSessionTimeout = 4 * time.Second
	defaultSyncLimit         = 5 * time.Second // as zab.Options.SyncLimit

	lockBudget      = 5 * time.Millisecond // of the tree's write lock, for what several transactions add up to
	dirtyPaths      = 4096                 // paths that make the state writer write
	dirtyBytes      = 8 << 20
	gatheredPaths   = 32768 // that make the state writer write what it has copied
	gatheredTxns    = store.DefaultFlushTxns
	dirtyInterval   = 100 * time.Millisecond
	cutInterval     = time.Second
	touchEvery      = 5 * zab.QuantumLength / 2 // between two collections of touched sessions: each third quantum, as a rule
	statusQuanta    = 10                        // quanta between two publications of the status
	waitingFirst    = 2 * time.Second           // without a leader, before it is logged what for it waits
	waitingRepeat   = 15 * time.Second
	readBytes       = 1 << 20
	snapshotPatient = 30 * time.Second // for the state to reach what a snapshot must hold
	lowDiskPause    = 3 * time.Second  // before it is said that a nearly full disk allows no snapshot: it will be asked for again at once
)

func (o Options) withDefaults() Options {
	if o.FlushInterval == 0 {
		o.FlushInterval = defaultFlushInterval
	}
	if o.Reap.Interval == 0 {
		o.Reap.Interval = defaultReapInterval
	}
	if o.Reap.PerMinute == 0 {
		o.Reap.PerMinute = defaultReapPerMinute
	}
	if o.MinSessionTimeout == 0 {
		o.MinSessionTimeout = defaultMinSessionTimeout
	}
	return o
}

// Validate reports every fault at once.
func (o Options) Validate() error {
	var faults []error
	if o.Hub == nil {
		faults = append(faults, errors.New("replica: no hub"))
	}
	found := false
	for _, m := range o.Members {
		found = found || m.ID == o.Self
	}
	if !found {
		faults = append(faults, fmt.Errorf("replica: server %d is not among the members", o.Self))
	}
	if o.FlushInterval < 0 || o.MinSessionTimeout < 0 {
		faults = append(faults, errors.New("replica: a limit is negative"))
	}
	return errors.Join(faults...)
}
