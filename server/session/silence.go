package session

import (
	"context"
	"time"
)

// sweepEvery is how often the hub looks for connections whose client has gone without a word.
const sweepEvery = 2 * time.Second

// sweep ends such connections, until ctx ends.
func (h *Hub) sweep(ctx context.Context) {
	tick := time.NewTicker(sweepEvery)
	defer tick.Stop()
	for last := h.backend.Now(); ; {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		now := h.backend.Now()
		if now-last < int64(2*sweepEvery) { // else this process stood still: what its clients said meanwhile is unread yet
			h.endSilent(now)
		}
		last = now
	}
}

// endSilent ends the connections whose client was not heard for twice its session's timeout. The end of the session
// has mostly done that before. What is left belongs to sessions that live on: their clients have moved to another
// server, and something between (a frozen machine, a proxy) holds their old connections open, for ever if nobody here
// ends them (I13).
func (h *Hub) endSilent(now int64) {
	h.Each(func(c *Conn) bool {
		if now-c.heard.Load() > 2*c.lifetime() {
			c.Close(ReasonSilent)
		}
		return true
	})
}
