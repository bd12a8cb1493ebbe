//go:build linux

package hostile

import (
	"context"
	"fmt"
	"math/rand/v2"
	"syscall"
	"time"
)

// nemesis brings the faults, one after another and some at once. Its random stream decides the kinds, the victims and
// the lengths; who leads by then is the ensemble's affair.
type nemesis struct {
	s     *Storm
	rng   *rand.Rand
	count map[string]int
}

// fault is one kind; do begins it, lets it last, and may leave it behind for others to meet.
type fault struct {
	name  string
	do    func(n *nemesis, ctx context.Context, p *process)
	means func(p *process) bool // what the victim must have; nil: nothing
}

func obeys(p *process) bool   { return p.binary == "" }
func fills(p *process) bool   { return p.ballast != nil || obeys(p) }
func bounded(p *process) bool { return p.memory != nil }

// faults are all kinds.
var faults = []fault{
	{name: "kill -9", do: func(n *nemesis, ctx context.Context, p *process) {
		p.kill()
		n.wait(ctx, 1500*time.Millisecond)
	}},
	{name: "kill -9 of two", do: func(n *nemesis, ctx context.Context, p *process) {
		q := n.any()
		p.kill()
		q.kill()
		n.wait(ctx, time.Second)
	}},
	{name: "kill -9 of all", do: func(n *nemesis, _ context.Context, _ *process) {
		for _, q := range n.s.servers {
			q.signal(syscall.SIGKILL)
		}
		for _, q := range n.s.servers {
			q.kill()
		}
	}},
	{name: "SIGTERM", do: func(n *nemesis, ctx context.Context, p *process) {
		n.term(p)
		n.wait(ctx, 500*time.Millisecond)
	}},
	{name: "kill -9 in a hand-over", do: func(n *nemesis, ctx context.Context, _ *process) {
		p := n.leader()
		p.signal(syscall.SIGTERM)
		n.wait(ctx, 60*time.Millisecond)
		p.kill()
		n.wait(ctx, time.Second)
	}},
	{name: "SIGSTOP", do: func(n *nemesis, ctx context.Context, p *process) {
		p.signal(syscall.SIGSTOP)
		n.wait(ctx, 4*time.Second)
		p.signal(syscall.SIGCONT)
	}},
	{name: "SIGSTOP of a leader", do: func(n *nemesis, ctx context.Context, _ *process) {
		p := n.leader()
		p.signal(syscall.SIGSTOP)
		n.wait(ctx, 4*time.Second)
		p.signal(syscall.SIGCONT)
	}},
	{name: "SIGSTOP of a quorum", do: func(n *nemesis, ctx context.Context, p *process) {
		for _, q := range n.s.servers[:n.s.o.Voters/2+1] {
			q.signal(syscall.SIGSTOP)
		}
		n.wait(ctx, 2*time.Second)
		for _, q := range n.s.servers {
			q.signal(syscall.SIGCONT)
		}
	}},
	{name: "cut off", do: func(n *nemesis, ctx context.Context, p *process) {
		n.isolate(p, true, true)
		n.wait(ctx, 4*time.Second)
	}},
	{name: "deaf", do: func(n *nemesis, ctx context.Context, p *process) {
		n.isolate(p, true, false)
		n.wait(ctx, 3*time.Second)
	}},
	{name: "mute", do: func(n *nemesis, ctx context.Context, p *process) {
		n.isolate(p, false, true)
		n.wait(ctx, 3*time.Second)
	}},
	{name: "one way between two", do: func(n *nemesis, ctx context.Context, p *process) {
		if q := n.any(); q != p {
			n.s.net.Hold(p.id, q.id)
		}
		n.wait(ctx, 3*time.Second)
	}},
	{name: "split", do: func(n *nemesis, ctx context.Context, _ *process) {
		side := map[int]bool{}
		for _, q := range n.s.servers {
			side[q.id] = n.rng.IntN(2) == 0
		}
		for _, a := range n.s.servers {
			for _, b := range n.s.servers {
				if side[a.id] != side[b.id] {
					n.s.net.Hold(a.id, b.id)
				}
			}
		}
		n.wait(ctx, 4*time.Second)
	}},
	{name: "leader cut off, another paused", do: func(n *nemesis, ctx context.Context, _ *process) {
		q := n.any()
		n.isolate(n.leader(), true, true)
		q.signal(syscall.SIGSTOP)
		n.wait(ctx, 2*time.Second)
		q.signal(syscall.SIGCONT)
		n.wait(ctx, time.Second)
	}},
	{name: "links reset", do: func(n *nemesis, ctx context.Context, p *process) {
		for _, q := range n.s.servers {
			n.s.net.Reset(p.id, q.id)
		}
		n.wait(ctx, 500*time.Millisecond)
	}},
	{name: "delay", do: func(n *nemesis, ctx context.Context, p *process) {
		for _, q := range n.s.servers {
			n.s.net.Delay(p.id, q.id, n.span(500*time.Millisecond))
			n.s.net.Delay(q.id, p.id, n.span(500*time.Millisecond))
		}
		n.wait(ctx, 4*time.Second)
	}},
	{name: "clients cut off from one", do: func(n *nemesis, ctx context.Context, p *process) {
		if n.rng.IntN(2) == 0 {
			n.s.net.Hold(Clients, p.id)
		}
		n.s.net.Hold(p.id, Clients)
		n.wait(ctx, 4*time.Second)
	}},
	{name: "clients' connections reset", do: func(n *nemesis, ctx context.Context, p *process) {
		n.s.net.Reset(Clients, p.id)
		n.wait(ctx, 300*time.Millisecond)
	}},
	{name: "slow disk", do: func(n *nemesis, ctx context.Context, p *process) {
		p.tell(n.span(600 * time.Millisecond).String())
		n.wait(ctx, 4*time.Second)
		p.tell(diskWell)
	}, means: obeys},
	{name: "stuck disk", do: func(n *nemesis, ctx context.Context, p *process) {
		p.tell((2*time.Second + n.span(4*time.Second)).String())
		n.wait(ctx, 5*time.Second)
		p.tell(diskWell)
	}, means: obeys},
	{name: "failing disk", do: func(n *nemesis, ctx context.Context, p *process) {
		p.doomed = true
		p.tell(diskFail)
		n.wait(ctx, 2*time.Second)
		p.kill()
	}, means: obeys},
	{name: "full disk", do: func(n *nemesis, ctx context.Context, p *process) {
		p.doomed = true
		if p.ballast != nil {
			n.s.fault(p.ballast.fill())
		} else {
			p.tell(diskFull)
		}
		n.wait(ctx, 3*time.Second)
		p.kill()
		if p.ballast != nil {
			n.s.fault(p.ballast.empty())
		}
	}, means: fills},
	{name: "short memory", do: func(n *nemesis, ctx context.Context, p *process) {
		p.doomed = true
		if p.memory.squeeze(n.rng.Int64N(4<<20)) == nil { // it fails where nothing can be taken back
			n.wait(ctx, 3*time.Second)
		}
		n.s.fault(p.memory.release())
	}, means: bounded},
}

func (n *nemesis) span(most time.Duration) time.Duration {
	return time.Duration(n.rng.Int64N(int64(most)))
}

func (n *nemesis) wait(ctx context.Context, most time.Duration) {
	pause(ctx, n.span(most))
}

// pause waits, or until ctx ends.
func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

func (n *nemesis) any() *process { return n.s.servers[n.rng.IntN(len(n.s.servers))] }

func (n *nemesis) leader() *process {
	other := n.any() // drawn always: the seed's order does not hang on who leads
	for _, p := range n.s.servers {
		if p.running() && p.mode() == "leader" {
			return p
		}
	}
	return other
}

func (n *nemesis) isolate(p *process, in, out bool) {
	for _, q := range n.s.servers {
		if q == p {
			continue
		}
		if in {
			n.s.net.Hold(q.id, p.id)
		}
		if out {
			n.s.net.Hold(p.id, q.id)
		}
	}
}

// having is p, or the next server that has what a fault needs; nil: none has.
func (n *nemesis) having(p *process, means func(*process) bool) *process {
	for range n.s.servers {
		if means == nil || means(p) {
			return p
		}
		p = n.s.servers[p.id%len(n.s.servers)]
	}
	return nil
}

// term stops a server politely and waits for its end.
func (n *nemesis) term(p *process) {
	if !p.running() {
		return
	}
	p.doomed = true
	p.signal(syscall.SIGTERM)
	timer := time.NewTimer(time.Minute)
	defer timer.Stop()
	select {
	case <-p.exited:
		state := p.cmd.ProcessState
		// A process that has only just begun has no handler yet.
		if w, ok := state.Sys().(syscall.WaitStatus); state.ExitCode() != 0 && !(ok && w.Signal() == syscall.SIGTERM) {
			n.s.fault(fmt.Errorf("server %d after SIGTERM: %s", p.id, state))
		}
	case <-timer.C:
		n.s.fault(fmt.Errorf("server %d did not end within a minute of SIGTERM", p.id))
	}
	p.kill()
}

// strike is one fault.
func (n *nemesis) strike(ctx context.Context) {
	p := n.any()
	if n.rng.IntN(2) == 0 {
		p = n.leader()
	}
	f := faults[n.rng.IntN(len(faults))]
	if p = n.having(p, f.means); p == nil {
		return
	}
	keep, calm := n.rng.IntN(3) == 0, n.rng.IntN(3) > 0
	n.count[f.name]++
	n.s.logf("%s: server %d", f.name, p.id)
	f.do(n, ctx, p)
	if !keep {
		n.s.net.Heal()
	}
	n.restart()
	if calm {
		n.s.net.Heal()
		n.wait(ctx, 2*time.Second)
	}
}

// restart starts what does not run, in any order.
func (n *nemesis) restart() {
	for _, i := range n.rng.Perm(len(n.s.servers)) {
		p := n.s.servers[i]
		n.s.fault(p.ended())
		if p.cmd == nil {
			n.s.fault(p.start())
		}
	}
}

// settle ends all faults; soon every server must take a write.
func (n *nemesis) settle(ctx context.Context) {
	n.s.net.Heal()
	for _, p := range n.s.servers {
		p.signal(syscall.SIGCONT)
		p.tell(diskWell)
		if p.ballast != nil {
			n.s.fault(p.ballast.empty())
		}
		if p.memory != nil {
			n.s.fault(p.memory.release())
		}
	}
	n.restart()
	began := time.Now()
	if err := n.s.progress(ctx); err != nil {
		n.s.fault(fmt.Errorf("no progress after the faults: %w", err))
	}
	n.s.report.Progress = max(n.s.report.Progress, time.Since(began))
}
