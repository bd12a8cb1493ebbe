package znode

import "strings"

// Names of the nodes that make a quota of a path: below QuotaPath + path.
const (
	limitsName = "zookeeper_limits"
	statsName  = "zookeeper_stats"
)

// quota is what is known of the quota of one path. It exists while one of its nodes does.
type quota struct {
	limited bool // the limits node exists: the path is charged and checked
	counted bool // the stats node exists
	limits  track
	stats   track

	// Within a transaction:
	touched bool
	fresh   bool // counted anew, as of its end: nothing more is charged
	written bool // the stats have changed
}

// quotaPart is which node of a quota a path is.
type quotaPart uint8

const (
	notQuota quotaPart = iota
	limitsNode
	statsNode
)

// quotaNode tells whether a path is a node of a quota, and of which path's. The root has none: what lies there is
// ordinary.
func quotaNode(path string) (of string, part quotaPart) {
	if !belowQuotas(path) {
		return "", notQuota
	}
	end := strings.LastIndexByte(path, '/')
	if end == len(QuotaPath) {
		return "", notQuota
	}
	switch path[end+1:] {
	case limitsName:
		return path[len(QuotaPath):end], limitsNode
	case statsName:
		return path[len(QuotaPath):end], statsNode
	}
	return "", notQuota
}

func belowQuotas(path string) bool { return strings.HasPrefix(path, QuotaPath+"/") }

// charge is what one operation means to quotas.
type charge struct {
	path    string
	count   int64 // 1: created, -1: deleted, 0: its data changed
	bytes   int64
	content []byte // of a quota's node: what is in it now
}

// ledger keeps quotas: the tree's, or the overlay's over them.
type ledger interface {
	quota(path string) *quota      // not to be changed; nil: none
	touchQuota(path string) *quota // to be changed
	longestQuota() int             // bytes; no path with a quota is longer
	recount(path string) (count, bytes int64)
}

// settle works off the charges of one transaction, in order. The state that is recounted is the one after it, on every
// server and in the overlay alike. (A quota of /zookeeper counts its own stats twice when they are made, as ZooKeeper's
// does.)
func settle(l ledger, charges []charge) {
	for i := range charges {
		c := &charges[i]
		of, part := quotaNode(c.path)
		if part != notQuota {
			l.touchQuota(of).become(l, of, part, c)
		}
		path := deepestQuota(l, c.path)
		if path == "" {
			continue
		}
		switch q := l.touchQuota(path); {
		case !q.counted || q.fresh && !(part == statsNode && of == path && c.count > 0):
		case q.stats.bad:
			q.recount(l, path)
		default:
			q.stats.count += c.count
			q.stats.bytes += c.bytes
			q.written = true
		}
	}
}

// become takes what has happened to one of a quota's own nodes.
func (q *quota) become(l ledger, path string, part quotaPart, c *charge) {
	switch {
	case part == limitsNode && c.count < 0:
		q.limited, q.limits = false, track{}
	case part == limitsNode:
		q.limited, q.limits = true, parseTrack(c.content)
	case c.count > 0: // whatever the client wrote
		q.counted = true
		q.recount(l, path)
	case c.count < 0:
		q.counted, q.stats, q.fresh, q.written = false, track{}, false, false
	default:
		q.stats, q.fresh, q.written = parseTrack(c.content), false, false
	}
}

func (q *quota) recount(l ledger, path string) {
	q.stats = track{hardCount: -1, hardBytes: -1}
	q.stats.count, q.stats.bytes = l.recount(path)
	q.fresh, q.written = true, true
}

// deepestQuota is the nearest path at or above path that has a quota, or "". Only that one is charged and checked.
func deepestQuota(l ledger, path string) string {
	longest := l.longestQuota()
	if longest == 0 {
		return ""
	}
	for end := len(path); end > 1; end = strings.LastIndexByte(path[:end], '/') {
		if end > longest {
			continue
		}
		if q := l.quota(path[:end]); q != nil && q.limited {
			return path[:end]
		}
	}
	return ""
}

// The tree's own ledger.

func (t *Tree) quota(path string) *quota { return t.quotas[path] }

func (t *Tree) longestQuota() int { return t.quotaLen }

func (t *Tree) touchQuota(path string) *quota {
	q := t.quotas[path]
	if q == nil {
		q = new(quota)
		t.quotas[path] = q
		t.quotaLen = max(t.quotaLen, len(path))
	}
	if !q.touched {
		q.touched = true
		t.touched = append(t.touched, path)
	}
	return q
}

func (t *Tree) recount(path string) (count, bytes int64) {
	n := t.nodes[path]
	if n == nil {
		return 0, 0
	}
	for todo := []*node{n}; len(todo) > 0; {
		last := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		count++
		bytes += int64(len(last.content()))
		for _, kid := range last.kids {
			todo = append(todo, kid)
		}
	}
	return count, bytes
}

// charge remembers what an operation means to quotas, if there are any.
func (t *Tree) charge(path string, count, bytes int64, content []byte) {
	if len(t.quotas) > 0 || len(t.charges) > 0 || belowQuotas(path) {
		t.charges = append(t.charges, charge{path: path, count: count, bytes: bytes, content: content})
	}
}

// settle ends a transaction: stats that have changed are written into their nodes in place. That is neither a change
// of the node's stat nor in the digests, and nobody is told.
func (t *Tree) settle(out *Applied) {
	settle(t, t.charges)
	clear(t.charges)
	t.charges = t.charges[:0]
	for _, path := range t.touched {
		q := t.quotas[path]
		if q.written && q.counted {
			stats := QuotaPath + path + "/" + statsName
			n := t.nodes[stats]
			text := q.stats.text()
			t.dataSize += int64(len(text) - len(n.content()))
			n.setContent(text)
			out.Changes = append(out.Changes, Change{Path: stats, Data: true})
		}
		q.touched, q.fresh, q.written = false, false, false
		if !q.limited && !q.counted {
			delete(t.quotas, path)
		}
	}
	clear(t.touched)
	t.touched = t.touched[:0]
	if len(t.quotas) == 0 {
		t.quotaLen = 0
	}
}

// loadQuota notes a stored node of a quota: the stats are what they were, on every server the same.
func (t *Tree) loadQuota(path string, data []byte) {
	of, part := quotaNode(path)
	if part == notQuota {
		return
	}
	q := t.quotas[of]
	if q == nil {
		q = new(quota)
		t.quotas[of] = q
		t.quotaLen = max(t.quotaLen, len(of))
	}
	if part == limitsNode {
		q.limited, q.limits = true, parseTrack(data)
	} else {
		q.counted, q.stats = true, parseTrack(data)
	}
}
