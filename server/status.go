package server

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/zkserver/zkserver/server/config"
	"github.com/zkserver/zkserver/server/front"
	"github.com/zkserver/zkserver/server/replica"
	"github.com/zkserver/zkserver/server/store"
	"github.com/zkserver/zkserver/zab"
	"github.com/zkserver/zkserver/znode"
)

// status answers what the four-letter words ask.
type status struct {
	cfg     *config.Config
	replica *replica.Replica
	version string
}

// Snapshot implements front.Status.
func (s *status) Snapshot() front.Snapshot {
	r := s.replica.Status()
	out := front.Snapshot{
		Version: s.version, Mode: s.mode(r.Role), Zxid: int64(r.Applied), Nodes: r.Nodes, DataSize: r.DataSize,
		Ephemeral: r.Ephemerals, Sessions: r.Sessions,
	}
	if s.cfg.Standalone {
		return out
	}
	out.PeerState = peerState(r.Role, r.Serving)
	for _, m := range s.cfg.Servers {
		if !m.Observer {
			out.Voters++
		}
	}
	if r.Role == zab.Leading {
		out.Leader = &front.LeaderStatus{
			Learners: r.Zab.Followers + r.Zab.Observers, SyncedFollowers: r.Zab.SyncedFollowers, SyncedObservers: r.Zab.SyncedObservers,
			LastProposal: int64(r.Counts.LastProposalBytes), MinProposal: int64(r.Counts.MinProposalBytes), MaxProposal: int64(r.Counts.MaxProposalBytes),
		}
		if r.Counts.Proposals == 0 {
			out.Leader.LastProposal, out.Leader.MinProposal, out.Leader.MaxProposal = -1, -1, -1
		}
	}
	return out
}

// mode is the word that everyone greps in srvr.
func (s *status) mode(r zab.Role) string {
	switch {
	case s.cfg.Standalone:
		return "standalone"
	case r == zab.Leading:
		return "leader"
	case r == zab.Observing:
		return "observer"
	default:
		return "follower"
	}
}

func peerState(r zab.Role, serving bool) string {
	phase := "synchronization"
	if serving {
		phase = "broadcast"
	}
	switch r {
	case zab.Leading:
		return "leading - " + phase
	case zab.Following:
		return "following - " + phase
	case zab.Observing:
		return "observing - " + phase
	default:
		return "looking"
	}
}

// Conf implements front.Status.
func (s *status) Conf() string {
	c := s.cfg
	var b strings.Builder
	_, port, _ := net.SplitHostPort(c.ClientAddr)
	data, log := s.DirSizes()
	fmt.Fprintf(&b, "clientPort=%s\nsecureClientPort=-1\ndataDir=%s\ndataDirSize=%d\ndataLogDir=%s\ndataLogSize=%d\ntickTime=%d\n",
		port, c.DataDir, data, c.DataLogDir, log, c.TickTime.Milliseconds())
	id := uint64(c.ServerID)
	if c.Standalone {
		id = 0
	}
	fmt.Fprintf(&b, "maxClientCnxns=%d\nminSessionTimeout=%d\nmaxSessionTimeout=%d\nclientPortListenBacklog=-1\nserverId=%d\n",
		c.MaxClientCnxns, c.MinSessionTimeout.Milliseconds(), c.MaxSessionTimeout.Milliseconds(), id)
	if c.Standalone {
		return b.String()
	}
	self := c.Self()
	_, quorum, _ := net.SplitHostPort(self.Quorum[0])
	peer := 0
	if self.Observer {
		peer = 1
	}
	fmt.Fprintf(&b, "initLimit=%d\nsyncLimit=%d\nelectionAlg=3\nelectionPort=%d\nquorumPort=%s\npeerType=%d\nmembership: \n%s",
		c.InitLimit, c.SyncLimit, self.ElectionPort[0], quorum, peer, c.MembershipText(0))
	return b.String()
}

// DirSizes implements front.Status.
func (s *status) DirSizes() (data, log int64) {
	data = dirSize(s.cfg.DataDir)
	if s.cfg.DataLogDir == s.cfg.DataDir {
		return data, data
	}
	return data, dirSize(s.cfg.DataLogDir)
}

// dirSize adds up the files below a directory. What disappears meanwhile does not count.
func dirSize(dir string) (n int64) {
	_ = filepath.WalkDir(dir, func(_ string, d os.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			if info, err := d.Info(); err == nil {
				n += info.Size()
			}
		}
		return nil
	})
	return n
}

// Digests implements front.Status: the present one; a history is not kept.
func (s *status) Digests() []front.Digest {
	r := s.replica.Status()
	return []front.Digest{{Zxid: int64(r.Applied), Digest: r.Digests.Tree}}
}

// dumpLimit bounds how long dump waits for the loop.
const dumpLimit = time.Second

// Dump implements front.Status. The tree is locked for one session at a time.
func (s *status) Dump() front.Dump {
	var d front.Dump
	ctx, stop := context.WithTimeout(context.Background(), dumpLimit)
	defer stop()
	if list, known := s.replica.Expiries(ctx); known {
		now := time.Now()
		d.Expiring = make([]front.SessionEnd, len(list))
		for i, x := range list {
			d.Expiring[i] = front.SessionEnd{ID: x.Session, Timeout: x.Timeout, Ends: now.Add(x.Left)}
		}
	}
	s.replica.RLock().Sessions(func(x znode.Session) bool {
		d.Sessions = append(d.Sessions, front.SessionEnd{ID: x.ID, Timeout: x.Timeout})
		return true
	})
	s.replica.RUnlock()
	for _, x := range d.Sessions {
		paths := s.replica.RLock().Ephemerals(x.ID, "", true)
		s.replica.RUnlock()
		if paths.Len() > 0 {
			d.Owners = append(d.Owners, front.SessionNodes{ID: x.ID, Paths: slices.Collect(paths.All())})
		}
	}
	return d
}

// Metrics implements front.Status.
func (s *status) Metrics(line func(key, value string)) {
	r := s.replica.Status()
	number := func(key string, v uint64) { line(key, strconv.FormatUint(v, 10)) }
	number("proposal_count", r.Zab.Proposals)
	number("commit_count", r.Counts.Commits)
	number("looking_count", r.Counts.Looking)
	// An election's time is all of the time without service: the loss of the leader, the vote, the synchronization.
	number("cnt_election_time", r.Counts.Outages)
	line("avg_election_time", milliseconds(r.Counts.OutageTime, r.Counts.Outages))
	line("min_election_time", strconv.FormatInt(r.Counts.OutageMin.Milliseconds(), 10))
	line("max_election_time", strconv.FormatInt(r.Counts.OutageMax.Milliseconds(), 10))
	line("sum_election_time", strconv.FormatInt(r.Counts.OutageTime.Milliseconds(), 10))
	number("diff_count", r.Zab.Diffs)
	number("snap_count", r.Zab.Snapshots)
	number("stale_sessions_expired", r.Counts.Expired)
	number("digest_mismatches_count", r.DigestMismatches)
	number("unrecoverable_error_count", 0)
	number("cnt_fsynctime", r.Store.Syncs)
	line("avg_fsynctime", milliseconds(r.Store.SyncTime, r.Store.Syncs))
	line("max_fsynctime", strconv.FormatInt(r.Store.SyncMax.Milliseconds(), 10))
	number("fsync_threshold_exceed_count", r.Store.SlowSyncs)
	number("last_processed_zxid", uint64(r.Applied))
	number("log_end_zxid", uint64(r.Zab.Last))
	number("log_base_zxid", uint64(r.Zab.Base))
	number("epoch", uint64(r.Epoch))
	number("leader_id", uint64(r.Leader))
	number("pending_requests", uint64(r.Pending))
	number("log_bytes", r.Store.LogDisk)
	number("state_bytes", r.Store.StateDisk)
	number("disk_low_count", r.Store.DiskLow)
	number("diff_window", uint64(s.diffWindow()))
	line("tree_digest", fmt.Sprintf("%016x", r.Digests.Tree))
	line("state_digest", fmt.Sprintf("%016x", r.Digests.State))
	runtimeLines(line)
}

// diffWindow is how many transactions are kept for a DIFF at least.
func (s *status) diffWindow() int {
	if s.cfg.CommitLogCount > 0 {
		return s.cfg.CommitLogCount
	}
	return store.DefaultDiffCount
}

func milliseconds(total time.Duration, n uint64) string {
	if n == 0 {
		return "0.0"
	}
	return strconv.FormatFloat(float64(total.Microseconds())/1000/float64(n), 'f', 4, 64)
}
