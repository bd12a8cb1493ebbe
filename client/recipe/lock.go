package recipe

import (
	"context"
	"strings"

	"github.com/zkserver/zkserver/client"
)

// Mutex is a lock of a path: one Hold at a time, in the order in which they were asked for. Whoever has an ephemeral
// sequential node below the path counts, by the number at the end of its name: so it excludes, and is excluded by,
// Curator's InterProcessMutex and go-zookeeper's Lock on the same path; and kazoo's Lock, when that is made with
// extra_lock_patterns=["-lock-"].
type Mutex struct {
	c    *client.Client
	path string
	o    Options
}

// NewMutex names a lock; it does nothing yet. The path is used for this lock only.
func NewMutex(c *client.Client, path string, o Options) *Mutex {
	return &Mutex{c: c, path: path, o: o}
}

// label is what Curator's and go-zookeeper's locks look for in front of the number.
const label = "lock-"

// owned is the key of a reentrant mutex's Hold in its context.
type owned struct {
	c    *client.Client
	path string
}

// Lock waits until the lock is held, ctx ends, or the session does; through disconnects it keeps its place. Errors: what
// ended ctx, client.ErrSessionExpired, ErrGone, or those of client.Create; when it fails its node is removed, if need be
// in the background, so that nobody waits for it.
func (m *Mutex) Lock(ctx context.Context) (*Hold, error) { return m.lock(ctx, false) }

// TryLock is Lock without waiting for others: ErrBusy.
func (m *Mutex) TryLock(ctx context.Context) (*Hold, error) { return m.lock(ctx, true) }

// Participants lists the holder, then those who wait, of any client. Errors as of Election.Participants.
func (m *Mutex) Participants(ctx context.Context) ([]Participant, error) {
	return participants(ctx, m.c, m.path)
}

func (m *Mutex) lock(ctx context.Context, once bool) (*Hold, error) {
	if !m.o.Reentrant {
		return take(ctx, m.c, m.path, label, m.o, first, once, nil, nil)
	}
	key := owned{m.c, m.path}
	if h, ok := ctx.Value(key).(*Hold); ok && h.enter() {
		return h, nil
	}
	return take(ctx, m.c, m.path, label, m.o, first, once, key, nil)
}

// RWMutex is a lock of a path that many readers, or one writer, hold at a time. A reader waits for the writers that came
// before it, a writer for all: nobody is passed. Curator's InterProcessReadWriteLock on the same path takes part. A Hold
// is of one kind for its life: there is neither upgrade nor downgrade.
type RWMutex struct {
	c    *client.Client
	path string
	o    Options
}

// NewRWMutex names a lock; it does nothing yet. The path is used for this lock only.
func NewRWMutex(c *client.Client, path string, o Options) *RWMutex {
	return &RWMutex{c: c, path: path, o: o}
}

// Lock waits for the lock as a writer. Errors as of Mutex.Lock.
func (m *RWMutex) Lock(ctx context.Context) (*Hold, error) {
	return take(ctx, m.c, m.path, "__WRIT__", m.o, first, false, nil, nil)
}

// RLock waits for the lock as a reader. Errors as of Mutex.Lock.
func (m *RWMutex) RLock(ctx context.Context) (*Hold, error) {
	return take(ctx, m.c, m.path, "__READ__", m.o, noWriter, false, nil, nil)
}

// TryLock is Lock without waiting for others: ErrBusy.
func (m *RWMutex) TryLock(ctx context.Context) (*Hold, error) {
	return take(ctx, m.c, m.path, "__WRIT__", m.o, first, true, nil, nil)
}

// TryRLock is RLock without waiting for others: ErrBusy.
func (m *RWMutex) TryRLock(ctx context.Context) (*Hold, error) {
	return take(ctx, m.c, m.path, "__READ__", m.o, noWriter, true, nil, nil)
}

// Participants lists those who hold and wait, in the order in which they came; which is which the names of their nodes
// say: "__READ__" or "__WRIT__". Errors as of Election.Participants.
func (m *RWMutex) Participants(ctx context.Context) ([]Participant, error) {
	return participants(ctx, m.c, m.path)
}

// noWriter admits a reader: it waits for the last writer before it. What is not a reader by name is a writer.
func noWriter(line []place, me int) (wait string, admitted bool) {
	for i := me - 1; i >= 0; i-- {
		if n := line[i].name; !strings.Contains(n, "__READ__") && !strings.Contains(n, "__rlock__") {
			return n, false
		}
	}
	return "", true
}

// Semaphore is a lock of a path that up to a number of Holds have at a time, in the order in which they were asked for.
type Semaphore struct {
	c    *client.Client
	path string
	max  int
	o    Options
}

// NewSemaphore names a semaphore of so many Holds at a time; it does nothing yet. The path is used for it only, and
// everybody has to give the same max, from 1 on.
func NewSemaphore(c *client.Client, path string, max int, o Options) *Semaphore {
	return &Semaphore{c: c, path: path, max: max, o: o}
}

// Acquire waits for one of the places. All that wait look again whenever somebody comes or goes. Errors as of Mutex.Lock.
func (s *Semaphore) Acquire(ctx context.Context) (*Hold, error) {
	return take(ctx, s.c, s.path, "lease-", s.o, s.among, false, nil, nil)
}

// TryAcquire is Acquire without waiting for others: ErrBusy.
func (s *Semaphore) TryAcquire(ctx context.Context) (*Hold, error) {
	return take(ctx, s.c, s.path, "lease-", s.o, s.among, true, nil, nil)
}

func (s *Semaphore) among(_ []place, me int) (wait string, admitted bool) { return herd, me < s.max }
