package front

import (
	"fmt"
	"io"
	"time"
)

// mntr writes zk_<key><tab><value> lines. Readers match keys by name; each value is a number or one word without
// spaces, zk_version and zk_peer_state apart.
func (f *Front) mntr(w io.Writer, _ []byte) {
	s := f.opts.Status.Snapshot()
	h := f.hub.Stats()
	line := func(key string, value any) { putf(w, "zk_%s\t%v\n", key, value) }

	line("version", s.Version)
	line("server_state", s.Mode)
	if s.PeerState != "" {
		line("peer_state", s.PeerState)
	}
	line("uptime", time.Since(f.started).Milliseconds())
	line("min_latency", h.MinLatency)
	line("avg_latency", javaDouble(h.AvgLatency))
	line("max_latency", h.MaxLatency)
	line("packets_received", h.Received)
	line("packets_sent", h.Sent)
	line("num_alive_connections", h.Connections)
	line("outstanding_requests", h.Outstanding)
	line("znode_count", s.Nodes)
	line("watch_count", f.hub.WatchCount())
	line("ephemerals_count", s.Ephemeral)
	line("approximate_data_size", s.DataSize)
	line("global_sessions", s.Sessions)
	line("local_sessions", 0)
	if open, limit, ok := fileDescriptors(); ok {
		line("open_file_descriptor_count", open)
		line("max_file_descriptor_count", limit)
	}
	line("last_client_response_size", h.LastSize)
	line("min_client_response_size", h.MinSize)
	line("max_client_response_size", h.MaxSize)
	line("connection_rejected", f.rejected.Load())
	line("connection_drop_count", h.Dropped)
	line("connection_drop_probability", "0.0")
	line("auth_failed_count", f.authFailed.Load())
	line("non_mtls_remote_conn_count", 0)
	line("non_mtls_local_conn_count", 0)
	line("throttled_ops", 0)
	line("stale_requests", 0)
	line("large_requests_rejected", 0)
	if s.Voters > 0 {
		line("quorum_size", s.Voters)
	}
	if l := s.Leader; l != nil {
		line("leader_uptime", s.Leading.Milliseconds())
		line("learners", l.Learners)
		line("followers", l.Learners) // the name until 3.4
		line("synced_followers", l.SyncedFollowers)
		line("synced_non_voting_followers", 0)
		line("synced_observers", l.SyncedObservers)
		line("pending_syncs", l.PendingSyncs)
		line("last_proposal_size", l.LastProposal)
		line("min_proposal_size", l.MinProposal)
		line("max_proposal_size", l.MaxProposal)
	}
	f.opts.Status.Metrics(func(key, value string) {
		_, _ = fmt.Fprintf(w, "zk_%s\t%s\n", key, value) // memory
	})
}
