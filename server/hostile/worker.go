//go:build linux

package hostile

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"time"

	"github.com/zkserver/zkserver/client"
	"github.com/zkserver/zkserver/server/hostile/history"
)

// A generation of objects is used for a while only, so that the search for an order stays small.
const (
	generation   = 10 * time.Second
	singles      = 3
	opLimit      = 8 * time.Second
	sessionLimit = 8 * time.Second
	root         = "/h"
)

// worker is one client program: it has a session, and makes another when that has expired.
type worker struct {
	s       *Storm
	id      int
	rng     *rand.Rand
	wire    client.Wire
	servers string

	c       *client.Client
	session int       // its number in the history
	heard   time.Time // what was asked then has been answered
	values  int
	known   map[string]int32 // versions of registers, as last told
	longest time.Duration    // without an answer
}

// run works until ctx ends.
func (w *worker) run(ctx context.Context) {
	for ctx.Err() == nil {
		if w.c == nil && !w.dial(ctx) {
			continue
		}
		w.act(ctx)
		w.look()
		pause(ctx, time.Duration(w.rng.Int64N(int64(w.s.o.Think))))
	}
}

// dial makes a session, with an ephemeral node as its sign of life.
func (w *worker) dial(ctx context.Context) bool {
	limit, cancel := context.WithTimeout(ctx, opLimit)
	defer cancel()
	c, err := client.Dial(limit, w.servers, client.Options{
		Wire: w.wire, SessionTimeout: sessionLimit, BackoffMin: 20 * time.Millisecond, BackoffMax: 300 * time.Millisecond,
	})
	if err != nil {
		return false
	}
	w.c, w.session, w.heard, w.known = c, w.s.newSession(), time.Now(), map[string]int32{}
	for {
		_, err := c.Create(limit, w.sign(), nil, client.Ephemeral)
		switch code := client.CodeOf(err); {
		case err == nil || code == client.ErrNodeExists: // the latter: made, and its answer lost
			return true
		case limit.Err() != nil || code == client.ErrSessionExpired:
			c.Abandon() // nobody expects anything of it
			w.s.forget(w.session)
			w.c = nil
			return false
		}
	}
}

// sign is the path of the session's ephemeral node.
func (w *worker) sign() string { return fmt.Sprintf("%s/live-%d", root, w.session) }

// look notes the session's signs of life, and its end: none may end that was heard within its timeout.
func (w *worker) look() {
	if until := w.c.HoldUntil(); !until.IsZero() {
		heard := until.Add(-w.c.Session().Timeout * 2 / 3)
		w.longest = max(w.longest, heard.Sub(w.heard))
		if heard.After(w.heard) {
			w.heard = heard
		}
	}
	if w.c.State() != client.Expired {
		return
	}
	silent := time.Since(w.heard)
	if silent < w.c.Session().Timeout {
		w.s.fault(fmt.Errorf("client %d: a live session has expired, %s after it was heard", w.id, silent))
	}
	w.s.expired(w.session)
	w.c.Abandon()
	w.c = nil
}

func (w *worker) value() string {
	w.values++
	return fmt.Sprintf("%d.%d", w.id, w.values)
}

// path is where a register of an object is.
func path(object string, register int) string {
	return root + "/" + object + string(rune('a'+register))
}

// act is one operation.
func (w *worker) act(ctx context.Context) {
	g := w.s.generation()
	single := fmt.Sprintf("r%d.%d", g, w.rng.IntN(singles))
	pair := fmt.Sprintf("p%d", g)
	limit, cancel := context.WithTimeout(ctx, opLimit)
	defer cancel()
	switch k := w.rng.IntN(100); {
	case k < 25:
		w.set(limit, single, client.AnyVersion)
	case k < 38:
		w.set(limit, single, w.guess(single))
	case k < 53:
		w.get(limit, single, history.Plain)
	case k < 72:
		w.get(limit, single, history.Read)
	case k < 82:
		w.multi(limit, pair)
	case k < 87:
		w.both(limit, pair, history.Read)
	case k < 90:
		w.both(limit, pair, history.Plain)
	case k < 97:
		w.next(limit, sequence(g))
	default:
		w.count(limit, sequence(g))
	}
}

func sequence(g int) string { return fmt.Sprintf("q%d", g) }

// guess is a version that a register may have.
func (w *worker) guess(object string) int32 {
	v, ok := w.known[object]
	if !ok || w.rng.IntN(8) == 0 {
		return int32(w.rng.IntN(5))
	}
	return v
}

func (w *worker) begin(kind history.Kind, object string, parts ...history.Part) *history.Op {
	return w.s.rec.Begin(history.Op{Session: w.session, Object: object, Kind: kind, Parts: parts})
}

// refusals are the answers that say why a tree does not allow a write.
func refused(err error) bool {
	switch client.CodeOf(err) {
	case client.ErrNoNode, client.ErrNodeExists, client.ErrBadVersion:
		return true
	}
	return false
}

// end notes what has become of a write, or of a read that must not fail.
func (w *worker) end(op *history.Op, err error) bool {
	switch {
	case err == nil:
		w.s.rec.End(op, history.OK)
		return true
	case op.Kind == history.Write && refused(err):
		w.s.rec.End(op, history.Refused)
	case op.Kind == history.Write && !client.MaybeApplied(err):
		w.s.rec.End(op, history.Void)
	default:
		w.s.rec.End(op, history.Unknown)
	}
	switch code := client.CodeOf(err); code {
	case client.OK, client.ErrConnectionLoss, client.ErrOperationTimeout, client.ErrSessionExpired, client.ErrClosed, client.ErrLost,
		client.ErrNoNode, client.ErrNodeExists, client.ErrBadVersion, client.ErrSessionMoved, client.ErrNoServer, client.ErrThrottled:
	default:
		w.s.fault(fmt.Errorf("client %d: %w", w.id, err))
	}
	return false
}

// set writes a register, or makes it where it is not known to be there.
func (w *worker) set(ctx context.Context, object string, expect int32) {
	v := w.value()
	p := history.Part{Do: history.Set, Expect: expect, Value: v}
	if _, there := w.known[object]; !there && w.rng.IntN(2) == 0 {
		p.Do = history.Create
	}
	op := w.begin(history.Write, object, p)
	var st client.Stat
	var err error
	if p.Do == history.Create {
		_, st, err = w.c.Create2(ctx, path(object, 0), []byte(v), client.Persistent)
	} else {
		st, err = w.c.Set(ctx, path(object, 0), []byte(v), expect)
	}
	if err == nil {
		op.Parts[0].Version, op.Parts[0].Zxid = st.Version, st.Mzxid
		w.known[object] = st.Version
	}
	w.end(op, err)
}

// sync comes before a read that is to be linearizable.
func (w *worker) sync(ctx context.Context, kind history.Kind, path string) error {
	if kind != history.Read {
		return nil
	}
	return w.c.Sync(ctx, path)
}

// saw notes what a read shows of a register.
func (w *worker) saw(p *history.Part, object string, code client.Code, data []byte, st client.Stat) {
	if code == client.ErrNoNode {
		p.Version = history.Missing
		return
	}
	p.Value, p.Version, p.Zxid = string(data), st.Version, st.Mzxid
	w.known[object] = st.Version
}

func (w *worker) get(ctx context.Context, object string, kind history.Kind) {
	op := w.begin(kind, object, history.Part{})
	err := w.sync(ctx, kind, path(object, 0))
	if err == nil {
		var data []byte
		var st client.Stat
		data, st, err = w.c.Get(ctx, path(object, 0))
		if code := client.CodeOf(err); code == client.OK || code == client.ErrNoNode {
			w.saw(&op.Parts[0], object, code, data, st)
			err = nil
		}
	}
	w.end(op, err)
}

func (w *worker) both(ctx context.Context, object string, kind history.Kind) {
	op := w.begin(kind, object, history.Part{}, history.Part{Register: 1})
	err := w.sync(ctx, kind, path(object, 0))
	if err == nil {
		var rs []client.ReadResult
		rs, err = w.c.MultiRead(ctx, client.GetOp{Path: path(object, 0)}, client.GetOp{Path: path(object, 1)})
		for i := range rs {
			if err == nil {
				w.saw(&op.Parts[i], object, rs[i].Code, rs[i].Data, rs[i].Stat)
			}
		}
	}
	w.end(op, err)
}

// multi writes both registers of an object, or makes them.
func (w *worker) multi(ctx context.Context, object string) {
	v := w.value()
	var ops []client.Op
	var parts []history.Part
	version, there := w.known[object]
	if there && w.rng.IntN(2) == 0 {
		ops = append(ops, client.CheckOp{Path: path(object, 1), Version: version})
		parts = append(parts, history.Part{Do: history.Check, Register: 1, Expect: version})
	}
	for r := range history.Registers {
		p := history.Part{Do: history.Set, Register: r, Expect: history.AnyVersion, Value: v}
		var o client.Op = client.SetOp{Path: path(object, r), Data: []byte(v), Version: client.AnyVersion}
		if !there && w.rng.IntN(3) > 0 {
			p.Do, o = history.Create, client.CreateOp{Path: path(object, r), Data: []byte(v)}
		}
		ops, parts = append(ops, o), append(parts, p)
	}
	op := w.begin(history.Write, object, parts...)
	rs, err := w.c.Multi(ctx, ops...)
	for i := range rs {
		if p := &op.Parts[i]; err == nil && p.Do != history.Check {
			p.Version, p.Zxid = rs[i].Stat.Version, rs[i].Stat.Mzxid
			w.known[object] = p.Version
		}
	}
	w.end(op, err)
}

// next makes a sequential node; its name has the value, for the case that the answer gets lost.
func (w *worker) next(ctx context.Context, object string) {
	v := w.value()
	op := w.begin(history.Write, object, history.Part{Do: history.Next, Value: v})
	name, st, err := w.c.Create2(ctx, path(object, 0)+"/"+v+"-", nil, client.PersistentSequential)
	if err == nil {
		var got string
		if got, op.Parts[0].Version, err = child(name); err == nil && got != v {
			err = fmt.Errorf("%s was made for %s", name, v)
		}
		op.Parts[0].Zxid = st.Czxid
		w.s.fault(err)
	}
	w.end(op, err)
}

// child takes the name of a sequential node apart.
func child(name string) (value string, number int32, err error) {
	name = name[strings.LastIndexByte(name, '/')+1:]
	value, digits, ok := strings.Cut(name, "-")
	n, err := strconv.ParseInt(digits, 10, 32)
	if !ok || err != nil {
		return "", 0, fmt.Errorf("%q is not the name of a sequential node", name)
	}
	return value, int32(n), nil
}

func (w *worker) count(ctx context.Context, object string) {
	op := w.begin(history.Read, object, history.Part{Do: history.Count})
	err := w.sync(ctx, history.Read, path(object, 0))
	if err == nil {
		var names []string
		var st client.Stat
		if names, st, err = w.c.Children(ctx, path(object, 0)); err == nil {
			op.Parts[0].Version, op.Parts[0].Zxid = int32(len(names))-1, st.Pzxid
		}
	}
	w.end(op, err)
}
