package sim

import (
	"fmt"
	"strconv"
	"time"

	"github.com/zkserver/zkserver/server/hostile/history"
	"github.com/zkserver/zkserver/server/session"
	"github.com/zkserver/zkserver/server/sim/check"
	"github.com/zkserver/zkserver/znode"
)

// Under Limits.Histories clients also write and read registers, whose history must be linearizable, as server/hostile has
// it of real processes. The checker knows the ensemble from within; this knows only what clients were told.

// verify checks the history of a run that has one.
func (w *World) verify() history.Report {
	r := history.Verify(w.rec.Ops(), searchTime)
	if len(r.Faults) > 0 {
		w.fail("history", "%s", r.Faults[0])
	}
	return r
}

const (
	searchTime = 3 * time.Second
	pairs      = 3 // objects of two registers
)

// turn is act, or some operations on registers.
func (c *client) turn() {
	if c.w.rec == nil || c.pin >= 0 || c.xid == 0 || len(c.waiting) > 20 || c.w.lim.Ops > 0 && c.ops >= c.w.lim.Ops || c.rnd.n(3) == 0 {
		c.act()
		return
	}
	for range 1 + c.rnd.n(3) {
		c.register()
	}
}

func registerPath(object string, register int) string {
	return "/" + object + string(rune('a'+register))
}

// note begins an operation in the history; the next request sent has its answer.
func (c *client) note(kind history.Kind, object string, parts ...history.Part) *history.Op {
	return c.w.rec.Begin(history.Op{Session: int(c.session), Object: object, Kind: kind, Parts: parts})
}

// answers says that the request just sent is that of an operation.
func (c *client) answers(op *history.Op) { c.waiting[len(c.waiting)-1].note = op }

// shownAs is a value as a read shows it, whose data frames do not carry.
func shownAs(data []byte) string { return strconv.FormatUint(check.Hash(data), 16) }

// register is one operation on a register, on two at once, or on a sequence.
func (c *client) register() {
	object := fmt.Sprintf("h%d", c.rnd.n(pairs))
	data := fmt.Appendf(nil, "%d.%d.%d", c.i, c.ordinal, c.xid)
	value := shownAs(data)
	create := func(r int) (history.Part, znode.Request) {
		return history.Part{Do: history.Create, Register: r, Value: value},
			znode.Request{Op: znode.OpCreate, Path: registerPath(object, r), Data: data, ACL: openACL, TTL: -1}
	}
	set := func(r int, expect int32) (history.Part, znode.Request) {
		return history.Part{Do: history.Set, Register: r, Expect: expect, Value: value},
			znode.Request{Op: znode.OpSetData, Path: registerPath(object, r), Data: data, Version: expect, TTL: -1}
	}
	switch k := c.rnd.n(20); {
	case k < 1:
		c.single(object, create)
	case k < 5:
		c.single(object, func(r int) (history.Part, znode.Request) { return set(r, -1) })
	case k < 7:
		version := int32(c.rnd.n(12))
		c.single(object, func(r int) (history.Part, znode.Request) { return set(r, version) })
	case k < 10:
		build := create
		if c.rnd.n(4) > 0 {
			build = func(r int) (history.Part, znode.Request) { return set(r, -1) }
		}
		m := &znode.Request{TTL: -1}
		var parts []history.Part
		if c.rnd.n(2) == 0 {
			p := history.Part{Do: history.Check, Register: 1, Expect: int32(c.rnd.n(12)) - 1}
			parts, m.Multi = append(parts, p), append(m.Multi, znode.Request{Op: znode.OpCheck, Path: registerPath(object, 1), Version: p.Expect, TTL: -1})
		}
		for r := range history.Registers {
			p, q := build(r)
			parts, m.Multi = append(parts, p), append(m.Multi, q)
		}
		op := c.note(history.Write, object, parts...)
		c.write(znode.OpMulti, m)
		c.answers(op)
	case k < 12:
		c.sequence(data)
	case k < 16:
		c.look(object, history.Plain)
	default:
		c.look(object, history.Read)
	}
}

// single is a write of one register.
func (c *client) single(object string, what func(r int) (history.Part, znode.Request)) {
	p, q := what(c.rnd.n(history.Registers))
	op := c.note(history.Write, object, p)
	c.write(q.Op, &q)
	c.answers(op)
}

// sequence creates a sequential node, or the parent of all: a register whose children are counted by the other one.
func (c *client) sequence(data []byte) {
	const object = "hq"
	parent := registerPath(object, 1)
	if c.rnd.n(8) == 0 {
		op := c.note(history.Write, object, history.Part{Do: history.Create, Register: 1, Value: shownAs(data)})
		c.create(parent, 0)
		c.answers(op)
		return
	}
	op := c.note(history.Write, object, history.Part{Do: history.Check, Register: 1, Expect: history.AnyVersion}, history.Part{Do: history.Next, Value: string(data)})
	c.create(parent+"/n-", 2)
	c.answers(op)
}

func (c *client) look(object string, kind history.Kind) {
	r := c.rnd.n(history.Registers)
	op := c.note(kind, object, history.Part{Register: r})
	path := registerPath(object, r)
	if kind == history.Read {
		c.send(session.Request{Op: znode.OpSync, Path: path, Write: &znode.Request{Path: path}}, check.Request{Kind: check.Sync})
	}
	c.send(session.Request{Op: znode.OpGetData, Path: path}, check.Request{Kind: check.GetData})
	c.answers(op)
}

// tell fills an answer into the history.
func (c *client) tell(op *history.Op, f *frame) {
	last := &op.Parts[len(op.Parts)-1]
	noNode := f.code == int32(znode.NoNode)
	switch {
	case op.Kind != history.Write && noNode:
		last.Version = history.Missing
	case op.Kind != history.Write && f.code == 0:
		last.Value, last.Version, last.Zxid = strconv.FormatUint(f.node.Data, 16), f.node.Version, int64(f.node.Mzxid)
	case op.Kind != history.Write:
		c.w.rec.End(op, history.Unknown)
		return
	case f.code == multiFailed || noNode || f.code == int32(znode.NodeExists) || f.code == int32(znode.BadVersion):
		c.w.rec.End(op, history.Refused)
		return
	case f.code != 0:
		c.w.rec.End(op, history.Void)
		return
	case last.Do == history.Next:
		n, err := strconv.ParseInt(f.path[len(f.path)-10:], 10, 32)
		if err != nil {
			c.w.fail("history", "%q is no sequential node", f.path)
		}
		last.Version, last.Zxid = int32(n), f.zxid
	default:
		for i := range op.Parts {
			if p := &op.Parts[i]; p.Do != history.Check {
				p.Version, p.Zxid = f.versions[i], f.zxid
			}
		}
	}
	c.w.rec.End(op, history.OK)
}
