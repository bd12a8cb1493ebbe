package replica

import (
	"context"
	"sync"
	"time"

	"github.com/zkserver/zkserver/server/store"
	"github.com/zkserver/zkserver/server/transport"
	"github.com/zkserver/zkserver/zab"
)

// bulk reads the log for cursors and moves snapshots between the store and the links.
type bulk struct {
	r     *Replica
	reads *queue[zab.ReadRange]

	mu    sync.Mutex
	wants map[zab.Link]*want
	wg    sync.WaitGroup
}

// want is a snapshot that the core has asked for, and that has neither arrived nor been given up.
type want struct {
	reader *store.SnapshotReader // once it is ready, until it is streamed
	cancel context.CancelFunc    // of the transfer, once it is streamed
}

func (b *bulk) init(r *Replica) {
	b.r, b.reads, b.wants = r, newQueue[zab.ReadRange](), map[zab.Link]*want{}
}

// run answers the core's reads of the log.
func (b *bulk) run() {
	for {
		select {
		case <-b.r.ctx.Done():
			return
		case <-b.reads.bell:
		}
		for _, rd := range b.reads.take() {
			es, missing, err := b.r.store.ReadLog(rd.After, rd.Upto, rd.Bytes)
			if err != nil {
				b.r.fatal(err)
				return
			}
			b.r.inbox.push(Core{zab.LogRead{ID: rd.ID, Link: rd.Link, After: rd.After, Entries: es, Missing: missing}})
		}
	}
}

// event takes what the core says about snapshots.
func (b *bulk) event(ev zab.Event) {
	switch ev := ev.(type) {
	case zab.NeedSnapshot:
		w := new(want)
		b.giveUp(b.replace(ev.Link, w))
		b.wg.Go(func() { b.prepare(ev, w) }) // ends when the state has reached Min, or after snapshotPatient
	case zab.StreamSnapshot:
		b.stream(ev)
	case zab.CancelSnapshot:
		b.giveUp(b.replace(ev.Link, nil))
	}
}

// prepare opens a snapshot for a learner once the stored state is new enough. When it is not wanted any more by then, it
// says nothing: nobody would close it.
func (b *bulk) prepare(ev zab.NeedSnapshot, w *want) {
	rd := b.open(ev)
	b.mu.Lock()
	wanted := b.wants[ev.Link] == w
	switch {
	case !wanted:
	case rd == nil:
		b.report(ev.Link, w, false)
	default:
		w.reader = rd
		b.r.inbox.push(Core{zab.SnapshotReady{Link: ev.Link, Zxid: rd.Zxid()}})
	}
	b.mu.Unlock()
	if !wanted {
		b.close(rd)
	}
}

// report tells the core how a snapshot has ended, unless it has been given up: what is said of it then would be taken for
// what became of the next one on that link. The caller holds the lock, so that it is said before the next one is asked for.
func (b *bulk) report(l zab.Link, w *want, arrived bool) {
	if b.wants[l] != w {
		return
	}
	delete(b.wants, l)
	b.r.inbox.push(Core{zab.SnapshotSent{Link: l, Failed: !arrived}})
}

// open gives nil when there will be no snapshot.
func (b *bulk) open(ev zab.NeedSnapshot) *store.SnapshotReader {
	if min := ev.Min; min > b.r.store.DurableApplied() && !b.r.state.waitWritten(min) {
		return nil
	}
	rd, err := b.r.store.SnapshotReader()
	if err != nil {
		b.r.log.Warn().Err(err).Uint64("peer", uint64(ev.Link.Peer)).Msg("no snapshot for a learner")
		b.r.pauseIfLow(err)
		return nil
	}
	return rd
}

// replace puts w (nil: nothing) in the place of what was wanted for a link, and gives that.
func (b *bulk) replace(l zab.Link, w *want) *want {
	b.mu.Lock()
	defer b.mu.Unlock()
	old := b.wants[l]
	if w == nil {
		delete(b.wants, l)
	} else {
		b.wants[l] = w
	}
	return old
}

// giveUp ends what is under way of a want that replace has taken out: its reader is closed, or its transfer ends and
// closes it.
func (b *bulk) giveUp(w *want) {
	if w == nil {
		return
	}
	b.close(w.reader)
	if w.cancel != nil {
		w.cancel()
	}
}

// stream sends the snapshot that was offered, and no other.
func (b *bulk) stream(ev zab.StreamSnapshot) {
	l := ev.Link
	b.mu.Lock()
	w := b.wants[l]
	if w == nil || w.reader == nil || w.reader.Zxid() != ev.Zxid {
		b.mu.Unlock()
		b.giveUp(b.replace(l, nil))
		b.r.inbox.push(Core{zab.SnapshotSent{Link: l, Failed: true}})
		return
	}
	rd := w.reader
	ctx, cancel := context.WithCancel(b.r.ctx)
	w.reader, w.cancel = nil, cancel // who streams it closes it
	b.mu.Unlock()
	start := time.Now()
	b.r.log.Info().Uint64("peer", uint64(l.Peer)).Str("zxid", rd.Zxid().String()).Msg("sending a snapshot")
	b.r.links.SendSnapshot(ctx, l, rd, func(err error) {
		cancel()
		b.r.log.Info().Uint64("peer", uint64(l.Peer)).Err(err).Dur("took", time.Since(start)).Msg("snapshot sent")
		b.mu.Lock()
		defer b.mu.Unlock()
		b.report(l, w, err == nil)
	}, func() { b.r.inbox.push(Core{zab.SnapshotProgress{Link: l}}) })
}

// drop removes a received snapshot that will not be installed.
func (b *bulk) drop(dir string) {
	b.r.log.Info().Str("dir", dir).Msg("a received snapshot is not needed any more")
	b.wg.Go(func() { b.r.store.DropSnapshot(dir) }) // ends when the files are removed
}

func (b *bulk) close(rd *store.SnapshotReader) {
	if rd == nil {
		return
	}
	if err := rd.Close(); err != nil {
		b.r.log.Warn().Err(err).Msg("closing a snapshot")
	}
}

// wait ends what is under way, when everything else has ended.
func (b *bulk) wait() {
	b.wg.Wait()
	b.mu.Lock()
	wants := b.wants
	b.wants = map[zab.Link]*want{}
	b.mu.Unlock()
	for _, w := range wants {
		b.giveUp(w)
	}
}

// sink writes a snapshot that arrives.
type sink struct {
	r    *Replica
	link zab.Link
	zxid zab.Zxid
	w    *store.SnapshotWriter
}

var _ transport.SnapshotSink = (*sink)(nil)

func (s *sink) Write(chunk []byte) error {
	s.r.inbox.push(Core{zab.SnapshotProgress{Link: s.link}})
	return s.w.Write(chunk)
}

func (s *sink) Finish() error {
	dir, err := s.w.Finish()
	if err != nil {
		s.w.Abort()
		return err
	}
	s.r.inbox.push(Core{zab.SnapshotReceived{Link: s.link, Zxid: s.zxid, Dir: dir}})
	return nil
}

func (s *sink) Abort(err error) {
	s.r.log.Warn().Err(err).Str("zxid", s.zxid.String()).Msg("snapshot did not arrive")
	s.w.Abort()
}
