package sim

// kind of an event.
type kind uint8

const (
	evQuantum kind = iota
	evLoop
	evDisk
	evApply
	evState
	evReads
	evSnapReady
	evFlush
	evReopen
	evNet
	evDial
	evSilence
	evChunk
	evRead
	evConnFlush
	evConnEnd
	evOpen
	evDown
	evClient
	evFault
	evBoot
	evHeal
	evProbe
	evExit
	evCutLogs
	evMend
	evLate
)

// event is something that will happen. gen names the run of the process that it belongs to, where it belongs to one.
type event struct {
	at   int64
	seq  uint64
	kind kind
	gen  uint32
	a, b int32
}

func (e *event) before(o *event) bool { return e.at < o.at || e.at == o.at && e.seq < o.seq }

// agenda is a heap of events. What pop has taken leaves a hole at its top, into which the next push goes: most events
// bring about another one soon.
type agenda struct {
	heap []event
	hole bool
	seq  uint64
}

func (g *agenda) push(e event) {
	g.seq++
	e.seq = g.seq
	if g.hole {
		g.hole = false
		g.sink(e)
		return
	}
	h := append(g.heap, e)
	i := len(h) - 1
	for i > 0 {
		p := (i - 1) / 4
		if !e.before(&h[p]) {
			break
		}
		h[i] = h[p]
		i = p
	}
	h[i] = e
	g.heap = h
}

func (g *agenda) pop() event {
	if g.hole {
		n := len(g.heap) - 1
		e := g.heap[n]
		g.heap = g.heap[:n]
		g.sink(e)
	}
	g.hole = true
	return g.heap[0]
}

// sink puts an event into the hole at the top, and from there to its place.
func (g *agenda) sink(e event) {
	h := g.heap
	i := 0
	for {
		c := 4*i + 1
		if c >= len(h) {
			break
		}
		m := c
		for k := c + 1; k < min(c+4, len(h)); k++ {
			if h[k].before(&h[m]) {
				m = k
			}
		}
		if !h[m].before(&e) {
			break
		}
		h[i] = h[m]
		i = m
	}
	h[i] = e
}
