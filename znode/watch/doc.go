// Package watch keeps who is to be told of which change. A Table is one shard, pure and unlocked: the host shards by
// path and locks. It imports znode for the event values only. Begin reading at table.go.
package watch
