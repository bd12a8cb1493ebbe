package recipe

import (
	"context"
	"errors"
	"iter"

	"github.com/zkserver/zkserver/client"
)

// Election is an election of one leader among those that campaign on the same path, in the order in which they came.
// Curator's LeaderLatch on the same path takes part in it.
type Election struct {
	c    *client.Client
	path string
	o    Options
}

// NewElection names an election; it does nothing yet. The path is used for this election only.
func NewElection(c *client.Client, path string, o Options) *Election {
	return &Election{c: c, path: path, o: o}
}

// first admits the first of a line; everybody else waits for the one before, so that the end of one wakes one.
func first(line []place, me int) (wait string, admitted bool) {
	if me == 0 {
		return "", true
	}
	return line[me-1].name, false
}

// Campaign takes part until it leads, ctx ends, or the session does. Release resigns. Through disconnects it keeps its
// place. Errors: what ended ctx, client.ErrSessionExpired, ErrGone, or those of client.Create; when it fails its node is
// removed, if need be in the background.
func (e *Election) Campaign(ctx context.Context) (*Hold, error) {
	return take(ctx, e.c, e.path, "latch-", e.o, first, false, nil, nil)
}

// Participant is one that takes part in an election, or stands in a lock's line.
type Participant struct {
	ID      string // its Options.ID; "__REVOKE__" once it was asked to make way (Revoke)
	Token   int64  // its fencing token, once it leads or holds
	Session int64  // the session that it lives as long as
	Path    string // its node
}

// Participants lists those who take part, the leader first, each as it was when it was read. Errors: those of client.Get
// but ErrNoNode, with client.ErrConnectionLoss when the connection breaks meanwhile.
func (e *Election) Participants(ctx context.Context) ([]Participant, error) {
	return participants(ctx, e.c, e.path)
}

// participants reads a line.
func participants(ctx context.Context, c *client.Client, dir string) ([]Participant, error) {
	names, _, err := c.Children(ctx, dir)
	if errors.Is(err, client.ErrNoNode) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var all []Participant
	for _, p := range line(names) {
		path := dir + "/" + p.name
		data, st, err := c.Get(ctx, path)
		if errors.Is(err, client.ErrNoNode) {
			continue
		}
		if err != nil {
			return nil, err
		}
		all = append(all, participant(path, data, st))
	}
	return all, nil
}

func participant(path string, data []byte, st client.Stat) Participant {
	return Participant{ID: string(data), Token: st.Czxid, Session: st.EphemeralOwner, Path: path}
}

// Leader tells who leads, if anybody does: whoever is first. It may not have noticed yet, or have given up for a broken
// connection. Errors as of Participants.
func (e *Election) Leader(ctx context.Context) (leader Participant, ok bool, err error) {
	leader, w, err := e.look(ctx)
	if w != nil {
		w.Stop()
	}
	return leader, leader.Path != "", err
}

// Observe yields the leader, then every change, the zero Participant while there is none, until ctx or the session ends:
// the last pair has the error. It does not take part, goes on through disconnects, and may leave out leaders that came
// and went between two looks.
func (e *Election) Observe(ctx context.Context) iter.Seq2[Participant, error] {
	return func(yield func(Participant, error) bool) {
		var told *Participant
		for {
			var leader Participant
			var w *client.Watch
			err := do(ctx, e.c, func() (err error) {
				leader, w, err = e.look(ctx)
				return err
			})
			if err != nil {
				yield(Participant{}, err)
				return
			}
			if told == nil || leader != *told {
				told = &leader
				if !yield(leader, nil) {
					w.Stop()
					return
				}
			}
			select {
			case ev := <-w.C:
				if ev.Err != nil {
					yield(Participant{}, ev.Err)
					return
				}
			case <-ctx.Done():
				w.Stop()
				yield(Participant{}, ctx.Err())
				return
			}
		}
	}
}

// look reads the leader, and watches for its end: its node, or where there is none the directory, or its creation.
func (e *Election) look(ctx context.Context) (leader Participant, w *client.Watch, err error) {
	for {
		names, _, w, err := e.c.ChildrenW(ctx, e.path)
		if errors.Is(err, client.ErrNoNode) {
			_, there, w, err := e.c.ExistsW(ctx, e.path)
			if !there || err != nil {
				return Participant{}, w, err
			}
			w.Stop()
			continue
		}
		if err != nil {
			return Participant{}, nil, err
		}
		all := line(names)
		if len(all) == 0 {
			return Participant{}, w, nil
		}
		w.Stop()
		path := e.path + "/" + all[0].name
		data, st, w, err := e.c.GetW(ctx, path)
		if !errors.Is(err, client.ErrNoNode) {
			return participant(path, data, st), w, err
		}
	}
}
