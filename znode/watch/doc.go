// Package watch keeps who is to be told of which change. A Table is one shard of the watches on single nodes, a Subtree
// holds the recursive ones, which ancestors of a changed node may carry; both are pure and unlocked: the host shards the
// first by path, and locks. It imports znode for the event values only. Begin reading at table.go.
package watch
