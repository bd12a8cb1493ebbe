package znode

import "slices"

// Reapable gives the paths, in order and at most limit, of what is due for removal at the time nowMs: containers
// without children that had one once or, unless neverUsedMs is 0, never had one for longer than that; TTL nodes without
// children whose time is over. The leader submits an OpDeleteContainer for each. It visits every container and TTL node.
func (t *Tree) Reapable(nowMs, neverUsedMs int64, limit int) []string {
	var due []string
	for path := range t.mortals {
		n := t.nodes[path]
		if n.children > 0 {
			continue
		}
		age := nowMs - n.mtime
		if t.opts.ownerKind(n.owner) == ownerTTL {
			if age > ttlOf(n.owner) {
				due = append(due, path)
			}
		} else if n.counter > 0 || neverUsedMs != 0 && age > neverUsedMs {
			due = append(due, path)
		}
	}
	slices.Sort(due)
	return due[:min(max(limit, 0), len(due))]
}

// ttlOf is the life of a TTL node, in ms.
func ttlOf(owner int64) int64 { return owner & MaxTTL }
