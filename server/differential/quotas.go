package differential

import (
	"slices"
	"strings"

	"github.com/zkserver/zkserver/proto/jute"
)

// quotaTexts are what a zookeeper_limits is given; the last ones do not parse, and refuse every write below.
var quotaTexts = []string{
	"count=3,bytes=-1", "count=-1,bytes=10", "count=-1,bytes=-1=;byteHardLimit=20;countHardLimit=-1",
	"count=-1,bytes=-1=;byteHardLimit=40;countHardLimit=5", "count=2,bytes=5=;byteHardLimit=30;countHardLimit=9",
	"count=4", "", "count=x,bytes=1",
}

const quotaRoot = "/zookeeper/quota"

// setQuotas begins a program with a quota on a node and one further down.
func (g *generator) setQuotas() {
	one := func(path, data string) {
		g.burst(0, Request{Op: OpName(jute.OpCreate), Path: path, Data: data, ACL: "open"})
	}
	for _, p := range []string{"~/q", "~/q/in"} {
		one(p, "x")
		g.known = append(g.known, p)
	}
	for _, p := range []string{quotaRoot + "~", quotaRoot + "~/q", quotaRoot + "~/q/in"} {
		one(p, "")
	}
	for _, p := range []string{quotaRoot + "~/q", quotaRoot + "~/q/in"} {
		if p == quotaRoot+"~/q/in" && g.IntN(2) == 0 {
			break
		}
		one(p+"/zookeeper_limits", quotaTexts[2+g.IntN(3)])
		one(p+"/zookeeper_stats", "count=7,bytes=7")
	}
	// Most of what the program makes stands below the quota.
	g.known = slices.DeleteFunc(g.known, func(p string) bool { return p == "~" })
	g.last = "~/q"
	g.made["~"], g.made["~/q"] = 1, 1
}

// quotaRequest reads or changes a quota.
func (g *generator) quotaRequest() Request {
	p := quotaRoot + pick(g, []string{"~/q", "~/q/in"})
	limits, stats := p+"/zookeeper_limits", p+"/zookeeper_stats"
	r := Request{Path: stats, ACL: "open", Version: -1}
	switch n := g.IntN(21); {
	case n < 11:
		r.Op = OpName(jute.OpGetData)
	case n < 16:
		r.Op, r.Path = OpName(jute.OpSetData), limits
		r.Data = pick(g, quotaTexts[2:5])
		if g.IntN(5) == 0 {
			r.Data = pick(g, quotaTexts)
		}
	case n < 17:
		r.Op, r.Path = OpName(jute.OpDelete), limits
	case n < 20:
		r.Op, r.Path, r.Data = OpName(jute.OpCreate), limits, pick(g, quotaTexts[2:5])
	default:
		r.Op, r.Data = OpName(jute.OpCreate), "count=1,bytes=1"
	}
	return r
}

// overQuota is a write that no hard limit on bytes lets through.
func (g *generator) overQuota() Request {
	long := strings.Repeat("x", 60)
	if g.IntN(3) == 0 {
		return Request{Op: OpName(jute.OpSetData), Path: pick(g, g.known), Data: long, Version: -1}
	}
	r := g.anyCreate(Request{Op: OpName(jute.OpCreate), Path: pick(g, []string{"~/q", "~/q/in"}) + "/over", Data: long, ACL: "open"})
	if r.Op == OpName(jute.OpCreate2) && g.IntN(2) == 0 {
		r.Op, r.Flags = OpName(jute.OpCreateContainer), jute.FlagsContainer
	}
	return r
}

// overQuotaInMulti is overQuota with the four creates alike.
func (g *generator) overQuotaInMulti() Request {
	r := g.overQuota()
	if r.Op == OpName(jute.OpSetData) {
		return r
	}
	if r.Op, r.Flags, r.TTL = OpName(pick(g, []jute.OpCode{jute.OpCreate, jute.OpCreate2})), 0, 0; g.IntN(2) == 0 {
		return g.extended(r)
	}
	return r
}
