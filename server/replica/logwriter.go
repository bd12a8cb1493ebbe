package replica

import (
	"sync"

	"github.com/zkserver/zkserver/zab"
	"github.com/zkserver/zkserver/znode"
)

// persist is what one batch of effects gives to the disk.
type persist struct {
	gen uint64
	ops []zab.PersistOp
}

// logWriter is the one goroutine that writes log/: everything that piled up while the last sync was under way goes
// into the next.
type logWriter struct {
	r     *Replica
	queue *queue[persist]

	mu      sync.Mutex
	cond    sync.Cond
	durable zab.Zxid // end of the durable log
	stopped bool
}

func (w *logWriter) init(r *Replica) {
	w.r, w.queue = r, newQueue[persist]()
	w.cond.L = &w.mu
}

func (w *logWriter) run() {
	defer w.stop()
	_, last := w.r.store.LogBounds()
	w.setDurable(last)
	var ops []zab.PersistOp
	for {
		select {
		case <-w.r.ctx.Done():
			return
		case <-w.queue.bell:
		}
		batch := w.queue.take()
		if len(batch) == 0 {
			continue
		}
		ops = ops[:0]
		for _, p := range batch {
			ops = append(ops, p.ops...)
		}
		if err := w.persist(ops); err != nil {
			w.r.fatal(err)
			return
		}
		for i := range ops {
			if id := ops[i].Ensemble; id != 0 || ops[i].Unstamp {
				w.r.ensemble.Store(uint64(id))
			}
		}
		clear(ops)
		done := make([]Input, 0, 1)
		for i, p := range batch {
			if i+1 < len(batch) && batch[i+1].gen == p.gen {
				continue
			}
			done = append(done, Persisted{Seq: p.ops[len(p.ops)-1].Seq, Gen: p.gen})
		}
		w.r.inbox.push(done...)
	}
}

// persist writes ops in one sync. A switch to a snapshot is written alone: what was issued before it must be durable
// first, because the state writer may be waiting for that, and the applier for the state writer.
func (w *logWriter) persist(ops []zab.PersistOp) error {
	start := 0
	for i := range ops {
		if ops[i].Install == nil {
			continue
		}
		if i > start {
			if err := w.write(ops[start:i]); err != nil {
				return err
			}
		}
		if err := w.install(ops[i : i+1]); err != nil {
			return err
		}
		start = i + 1
	}
	if start == len(ops) {
		return nil
	}
	return w.write(ops[start:])
}

func (w *logWriter) write(ops []zab.PersistOp) error {
	if err := w.r.store.Persist(ops); err != nil {
		return err
	}
	_, last := w.r.store.LogBounds()
	w.setDurable(last)
	return nil
}

// install persists a switch to a received snapshot with the applier and the state writer at rest, and swaps the tree:
// nothing of the old tree may be written into the new state. All client connections have been closed before.
func (w *logWriter) install(ops []zab.PersistOp) error {
	r := w.r
	r.applier.rest.Lock()
	defer r.applier.rest.Unlock()
	r.state.rest.Lock()
	defer r.state.rest.Unlock()
	if err := w.write(ops); err != nil {
		return err
	}
	t := znode.NewTree(r.opts.Tree)
	if err := r.store.LoadTree(t); err != nil {
		return err
	}
	if o := r.opts.ConfigNode; o != nil {
		t.SetConfigNode(o, 0, wallMs())
	}
	r.mu.Lock()
	r.tree = t
	r.state.dirty.Reset()
	r.state.gathered.Reset()
	r.mu.Unlock()
	r.applied.Store(t.Applied())
	r.inbox.push(Applied{Zxid: zab.Zxid(t.Applied())})
	r.log.Info().Str("zxid", zab.Zxid(t.Applied()).String()).Int("nodes", t.NodeCount()).Msg("snapshot installed")
	return nil
}

func (w *logWriter) setDurable(z zab.Zxid) {
	w.mu.Lock()
	w.durable = z
	w.mu.Unlock()
	w.cond.Broadcast()
}

func (w *logWriter) stop() {
	w.mu.Lock()
	w.stopped = true
	w.mu.Unlock()
	w.cond.Broadcast()
}

// waitDurable waits until the log is durable up to z; false when it never will be.
func (w *logWriter) waitDurable(z zab.Zxid) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	for w.durable < z && !w.stopped {
		w.cond.Wait()
	}
	return w.durable >= z
}
