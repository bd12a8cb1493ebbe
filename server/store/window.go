package store

import (
	"sort"
	"time"

	"github.com/zkserver/zkserver/zab"
)

// window remembers, at coarse marks, how much of the log lies up to which zxid and since when, so that a cut needs no
// scan. It is approximate by one stride, and after a truncation by what lay between the cut and the mark before it.
type window struct {
	strideCount int64
	strideBytes int64
	marks       []mark // ascending
	count       int64  // cumulative, also of what was cut
	bytes       int64
	cutCount    int64 // of what is no longer there
	cutBytes    int64
}

// mark says what had been written, cumulatively, when zxid was.
type mark struct {
	zxid         zab.Zxid
	count, bytes int64
	at           time.Time
}

type windowKind uint8

const (
	windowGrow windowKind = iota
	windowTruncate
	windowCut
)

// windowStride bounds the entries that one growing edit stands for.
const windowStride = 1024

// windowEdit is collected while a batch is built and applied when it is durable.
type windowEdit struct {
	kind         windowKind
	zxid         zab.Zxid
	count, bytes int64
}

func growEdit(e *zab.Entry) windowEdit {
	return windowEdit{kind: windowGrow, zxid: e.Zxid, count: 1, bytes: entrySize(e)}
}

func (w *windowEdit) add(e *zab.Entry) {
	w.zxid = e.Zxid
	w.count++
	w.bytes += entrySize(e)
}

// entrySize is what an entry takes of the window: its data, key and framing.
func entrySize(e *zab.Entry) int64 { return int64(len(e.Data)) + 24 }

func newWindow(o *Options) window {
	return window{
		strideCount: min(4096, max(1, int64(o.DiffCount)/16)),
		strideBytes: min(1<<20, max(1, o.DiffBytes/64)),
	}
}

func (w *window) edit(e windowEdit, now time.Time) {
	switch e.kind {
	case windowGrow:
		w.count += e.count
		w.bytes += e.bytes
		var at mark
		if n := len(w.marks); n > 0 {
			at = w.marks[n-1]
		} else {
			at.count, at.bytes = w.cutCount, w.cutBytes
		}
		if w.count-at.count >= w.strideCount || w.bytes-at.bytes >= w.strideBytes {
			w.marks = append(w.marks, mark{zxid: e.zxid, count: w.count, bytes: w.bytes, at: now})
		}
	case windowTruncate:
		n := sort.Search(len(w.marks), func(i int) bool { return w.marks[i].zxid > e.zxid })
		if n == len(w.marks) {
			return
		}
		w.marks = w.marks[:n]
		w.count, w.bytes = w.cutCount, w.cutBytes
		if n > 0 {
			w.count, w.bytes = w.marks[n-1].count, w.marks[n-1].bytes
		}
	case windowCut:
		n := sort.Search(len(w.marks), func(i int) bool { return w.marks[i].zxid > e.zxid })
		if n > 0 {
			w.cutCount, w.cutBytes = w.marks[n-1].count, w.marks[n-1].bytes
			w.marks = append([]mark(nil), w.marks[n:]...)
		}
	}
}

// beyond returns up to where entries lie outside the window, by any of count, bytes and age.
func (w *window) beyond(count, bytes int64, age time.Duration, now time.Time) zab.Zxid {
	n := sort.Search(len(w.marks), func(i int) bool {
		m := &w.marks[i]
		return w.count-m.count < count && w.bytes-m.bytes < bytes && now.Sub(m.at) < age
	})
	if n == 0 {
		return 0
	}
	return w.marks[n-1].zxid
}

// atMost returns the last mark at or below z, or zero.
func (w *window) atMost(z zab.Zxid) zab.Zxid {
	n := sort.Search(len(w.marks), func(i int) bool { return w.marks[i].zxid > z })
	if n == 0 {
		return 0
	}
	return w.marks[n-1].zxid
}
