package replica

import (
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

	mu      sync.Mutex
	readers map[zab.Link]*store.SnapshotReader // ready, not yet streamed
	wg      sync.WaitGroup
}

func (b *bulk) init(r *Replica) {
	b.r, b.reads, b.readers = r, newQueue[zab.ReadRange](), map[zab.Link]*store.SnapshotReader{}
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
		b.wg.Go(func() { b.prepare(ev) }) // ends when the state has reached Min, or after snapshotPatient
	case zab.StreamSnapshot:
		b.stream(ev.Link)
	case zab.CancelSnapshot:
		b.cancel(ev.Link)
	}
}

// prepare opens a snapshot for a learner once the stored state is new enough.
func (b *bulk) prepare(ev zab.NeedSnapshot) {
	failed := Core{zab.SnapshotSent{Link: ev.Link, Failed: true}}
	if min := ev.Min; min > b.r.store.DurableApplied() && !b.r.state.waitWritten(min) {
		b.r.inbox.push(failed)
		return
	}
	rd, err := b.r.store.SnapshotReader()
	if err != nil {
		b.r.log.Warn().Err(err).Uint64("peer", uint64(ev.Link.Peer)).Msg("no snapshot for a learner")
		b.r.inbox.push(failed)
		return
	}
	b.mu.Lock()
	old := b.readers[ev.Link]
	b.readers[ev.Link] = rd
	b.mu.Unlock()
	b.close(old)
	b.r.inbox.push(Core{zab.SnapshotReady{Link: ev.Link, Zxid: rd.Zxid()}})
}

func (b *bulk) take(l zab.Link) *store.SnapshotReader {
	b.mu.Lock()
	defer b.mu.Unlock()
	rd := b.readers[l]
	delete(b.readers, l)
	return rd
}

func (b *bulk) stream(l zab.Link) {
	rd := b.take(l)
	if rd == nil {
		b.r.inbox.push(Core{zab.SnapshotSent{Link: l, Failed: true}})
		return
	}
	start := time.Now()
	b.r.log.Info().Uint64("peer", uint64(l.Peer)).Str("zxid", rd.Zxid().String()).Msg("sending a snapshot")
	b.r.links.SendSnapshot(l, rd, func(err error) {
		b.r.log.Info().Uint64("peer", uint64(l.Peer)).Err(err).Dur("took", time.Since(start)).Msg("snapshot sent")
		b.r.inbox.push(Core{zab.SnapshotSent{Link: l, Failed: err != nil}})
	}, func() { b.r.inbox.push(Core{zab.SnapshotProgress{Link: l}}) })
}

// drop removes a received snapshot that will not be installed.
func (b *bulk) drop(dir string) {
	b.r.log.Info().Str("dir", dir).Msg("a received snapshot is not needed any more")
	b.wg.Go(func() { b.r.store.DropSnapshot(dir) }) // ends when the files are removed
}

func (b *bulk) cancel(l zab.Link) { b.close(b.take(l)) }

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
	readers := b.readers
	b.readers = map[zab.Link]*store.SnapshotReader{}
	b.mu.Unlock()
	for _, rd := range readers {
		b.close(rd)
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
