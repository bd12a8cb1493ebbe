package grpcfront

import (
	"context"
	"sync"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	zkv1 "github.com/zkserver/zkserver/proto/zk/v1"
	"github.com/zkserver/zkserver/server/session"
)

// gatewayTimeout is the session timeout that the gateway wants.
const gatewayTimeout = 30 * time.Second

// errFate is told to a caller whose write was handed over and not answered.
var errFate = status.Error(codes.Unknown, "the connection to the leader was lost: the write may have been applied")

// gateway is the one session behind all unary writes of this server. It is made when it is first needed, and again
// after it was lost. Its goroutine owns the connection; callers give it writes and wait.
type gateway struct {
	opts *Options
	in   chan *unaryWrite
	// xid is of the last write, of whichever session: an answer of one that was lost may still be on its way (I7).
	xid int32

	mu      sync.Mutex
	waiting map[int32]*unaryWrite // by xid
}

// unaryWrite is one write on its way.
type unaryWrite struct {
	req  session.Request
	done chan struct{} // closed when rep or err is set
	rep  *zkv1.Reply
	err  error
}

func newGateway(o *Options) *gateway {
	return &gateway{opts: o, in: make(chan *unaryWrite), waiting: map[int32]*unaryWrite{}}
}

// write executes one write. Its request carries the caller's identities.
func (g *gateway) write(ctx context.Context, r session.Request) (*zkv1.Reply, error) {
	w := &unaryWrite{req: r, done: make(chan struct{})}
	select {
	case g.in <- w: // unbuffered: while the session layer makes the gateway wait, so do its callers
	case <-ctx.Done():
		return nil, status.FromContextError(ctx.Err()).Err()
	}
	select {
	case <-w.done:
		return w.rep, w.err
	case <-ctx.Done():
		return nil, status.FromContextError(ctx.Err()).Err()
	}
}

// run serves until ctx ends.
func (g *gateway) run(ctx context.Context) {
	for ctx.Err() == nil {
		select {
		case w := <-g.in:
			g.serve(ctx, w)
		case <-ctx.Done():
		}
	}
	for { // callers that come now are told by their context: their connections end too
		select {
		case w := <-g.in:
			w.err = ended(session.ReasonShutdown)
			close(w.done)
		default:
			return
		}
	}
}

// serve makes a session and executes writes on it, the first and all that come, until it is lost.
func (g *gateway) serve(ctx context.Context, first *unaryWrite) {
	conn := g.opts.Hub.Open(wire{}, inbox{take: g.answer}, "", "unary calls")
	defer func() {
		conn.ReleaseFor(session.ReasonShutdown)
		g.fail(errFate)
	}()
	timeout := g.opts.clamp(int32(gatewayTimeout.Milliseconds()))
	res, err := conn.Attach(ctx, session.Attach{Timeout: timeout})
	if err != nil || !res.OK {
		first.err = ended(session.ReasonNotServing)
		close(first.done)
		return
	}
	alive := time.NewTicker(time.Duration(res.Timeout) * time.Millisecond / 4)
	defer alive.Stop()
	run := []*unaryWrite{first}
	var reqs []session.Request
	for {
		reqs = reqs[:0]
		for _, w := range run {
			g.xid++
			w.req.Xid = g.xid
			reqs = append(reqs, w.req)
			g.mu.Lock()
			g.waiting[g.xid] = w
			g.mu.Unlock()
		}
		if conn.Heard(ctx) != nil || conn.Do(reqs) != nil {
			return
		}
		clear(reqs)
		clear(run)
		run = run[:0]
		select {
		case w := <-g.in:
			run = append(run, w)
		case <-alive.C:
		case <-conn.Done():
			return
		}
		for len(run) > 0 && len(run) < runCommands {
			select {
			case w := <-g.in:
				run = append(run, w)
				continue
			default:
			}
			break
		}
	}
}

// answer ends a write. It is the inbox's: one goroutine at a time calls it, but that of a lost session may be late.
func (g *gateway) answer(r *zkv1.Reply) {
	g.mu.Lock()
	w := g.waiting[r.GetCxid()]
	delete(g.waiting, r.GetCxid())
	g.mu.Unlock()
	if w != nil {
		w.rep = r
		close(w.done)
	}
}

// fail ends all writes that have no answer.
func (g *gateway) fail(err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for xid, w := range g.waiting {
		delete(g.waiting, xid)
		w.err = err
		close(w.done)
	}
}
