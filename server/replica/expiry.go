package replica

import (
	"cmp"
	"context"
	"slices"
	"time"
)

// Expiry says when a session ends if nothing more is heard from it.
type Expiry struct {
	Session int64
	Timeout int32 // ms
	Left    time.Duration
}

// query is a question to the loop: it comes to no effect and changes nothing.
type query struct{ reply chan expiries }

type expiries struct {
	list  []Expiry
	known bool
}

func (query) isInput() {}

// Expiries lists the sessions by their end, the next one first. Only the leader knows; known is false elsewhere.
func (r *Replica) Expiries(ctx context.Context) (list []Expiry, known bool) {
	q := query{reply: make(chan expiries, 1)}
	r.inbox.push(q)
	var x expiries
	select {
	case x = <-q.reply:
	case <-ctx.Done():
	case <-r.ctx.Done():
	}
	slices.SortFunc(x.list, func(a, b Expiry) int {
		return cmp.Or(cmp.Compare(a.Left, b.Left), cmp.Compare(a.Session, b.Session))
	})
	return x.list, x.known
}

func (m *Machine) expiries() expiries {
	if m.lead == nil || !m.lead.ready {
		return expiries{}
	}
	list := make([]Expiry, 0, len(m.lead.sessions))
	for id, s := range m.lead.sessions {
		if !s.closing {
			// What is heard between two ticks is stamped ahead of the clock.
			left := min(s.deadline()-m.lead.present(), time.Duration(s.Timeout)*time.Millisecond)
			list = append(list, Expiry{Session: id, Timeout: s.Timeout, Left: left})
		}
	}
	return expiries{list: list, known: true}
}
