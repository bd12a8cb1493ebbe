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

	mu    sync.Mutex
	wants map[zab.Link]*want
	wg    sync.WaitGroup
}

// want is a snapshot that the core has asked for and neither streamed nor given up.
type want struct {
	reader *store.SnapshotReader // once it is ready
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
		b.close(b.replace(ev.Link, w))
		b.wg.Go(func() { b.prepare(ev, w) }) // ends when the state has reached Min, or after snapshotPatient
	case zab.StreamSnapshot:
		b.stream(ev.Link)
	case zab.CancelSnapshot:
		b.close(b.replace(ev.Link, nil))
	}
}

// prepare opens a snapshot for a learner once the stored state is new enough. When it is not wanted any more by then, it
// says nothing: nobody would close it.
func (b *bulk) prepare(ev zab.NeedSnapshot, w *want) {
	rd := b.open(ev)
	b.mu.Lock()
	wanted := b.wants[ev.Link] == w
	if wanted {
		w.reader = rd
	}
	b.mu.Unlock()
	switch {
	case !wanted:
		b.close(rd)
	case rd == nil:
		b.r.inbox.push(Core{zab.SnapshotSent{Link: ev.Link, Failed: true}})
	default:
		b.r.inbox.push(Core{zab.SnapshotReady{Link: ev.Link, Zxid: rd.Zxid()}})
	}
}

// open gives nil when there will be no snapshot.
func (b *bulk) open(ev zab.NeedSnapshot) *store.SnapshotReader {
	if min := ev.Min; min > b.r.store.DurableApplied() && !b.r.state.waitWritten(min) {
		return nil
	}
	rd, err := b.r.store.SnapshotReader()
	if err != nil {
		b.r.log.Warn().Err(err).Uint64("peer", uint64(ev.Link.Peer)).Msg("no snapshot for a learner")
		return nil
	}
	return rd
}

// replace takes out what was wanted for a link, and gives its reader if there is one.
func (b *bulk) replace(l zab.Link, w *want) *store.SnapshotReader {
	b.mu.Lock()
	defer b.mu.Unlock()
	old := b.wants[l]
	if w == nil {
		delete(b.wants, l)
	} else {
		b.wants[l] = w
	}
	if old == nil {
		return nil
	}
	return old.reader
}

func (b *bulk) stream(l zab.Link) {
	rd := b.replace(l, nil)
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
		b.close(w.reader)
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
