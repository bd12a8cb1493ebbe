package znode

import "strings"

// pendingQuota is the pending state of a quota: absolute, as the transaction zxid leaves it.
type pendingQuota struct {
	quota
	zxid int64
}

// The overlay keeps quotas only where they are enforced.

func (o *overlay) charge(path string, count, bytes int64, content []byte) {
	if o.tree.opts.EnforceQuota && (len(o.tree.quotas) > 0 || len(o.quotas) > 0 || len(o.charges) > 0 || belowQuotas(path)) {
		o.charges = append(o.charges, charge{path: path, count: count, bytes: bytes, content: content})
	}
}

// settleQuotas ends a transaction: what it does to quotas counts from the next request on. So a multi is checked as of
// its start.
func (o *overlay) settleQuotas(zxid int64) {
	settle(o, o.charges)
	o.dropCharges()
	for _, path := range o.touchedQuotas {
		q := o.quotas[path]
		q.zxid = zxid
		q.touched, q.fresh, q.written = false, false, false
	}
	clear(o.touchedQuotas)
	o.touchedQuotas = o.touchedQuotas[:0]
}

func (o *overlay) dropCharges() {
	clear(o.charges)
	o.charges = o.charges[:0]
}

func (o *overlay) quota(path string) *quota {
	if q := o.quotas[path]; q != nil {
		return &q.quota
	}
	return o.tree.quotas[path]
}

func (o *overlay) longestQuota() int { return max(o.tree.quotaLen, o.quotaLen) }

func (o *overlay) touchQuota(path string) *quota {
	q := o.quotas[path]
	if q == nil {
		q = new(pendingQuota)
		if applied := o.tree.quotas[path]; applied != nil {
			q.quota = *applied
		}
		if o.quotas == nil {
			o.quotas = make(map[string]*pendingQuota)
		}
		o.quotas[path] = q
		o.quotaLen = max(o.quotaLen, len(path))
	}
	if !q.touched {
		q.touched = true
		o.touchedQuotas = append(o.touchedQuotas, path)
	}
	return &q.quota
}

// recount counts the tree and corrects it by every pending node: sums, so the order is of no consequence.
func (o *overlay) recount(path string) (count, bytes int64) {
	count, bytes = o.tree.recount(path)
	below := func(p string) bool { return p == path || strings.HasPrefix(p, path) && p[len(path)] == '/' }
	for id := range o.ended {
		for p := range o.tree.ephemerals[id] {
			if below(p) && o.nodes[p] == nil && o.standing(p) == nil {
				count--
				bytes -= int64(len(o.tree.nodes[p].content()))
			}
		}
	}
	for p, r := range o.nodes {
		if !below(p) {
			continue
		}
		if n := o.tree.nodes[p]; n != nil {
			count--
			bytes -= int64(len(n.content()))
		}
		if !r.gone {
			count++
			bytes += int64(max(r.size, 0))
		}
	}
	return count, bytes
}

// dropQuotas drops what transactions up to zxid left.
func (o *overlay) dropQuotas(zxid int64) {
	for path, q := range o.quotas {
		if q.zxid <= zxid {
			delete(o.quotas, path)
		}
	}
	if len(o.quotas) == 0 {
		o.quotaLen = 0
	}
}

// checkQuota says whether an operation may add this much: QuotaExceeded if a hard limit forbids it, MarshallingError if
// the limits cannot be read, which must not count as none. A soft limit forbids nothing.
func (p *Preparer) checkQuota(path string, count, bytes int64) Code {
	if !p.opts.EnforceQuota {
		return OK
	}
	at := deepestQuota(&p.overlay, path)
	if at == "" {
		return OK
	}
	q := p.quota(at)
	switch {
	case q.limits.bad:
		return MarshallingError
	case !q.counted || q.stats.bad: // recounted by the write itself
		return OK
	case count != 0 && q.limits.hardCount > -1 && q.stats.count+count > q.limits.hardCount,
		bytes != 0 && q.limits.hardBytes > -1 && q.stats.bytes+bytes > q.limits.hardBytes:
		return QuotaExceeded
	}
	return OK
}
