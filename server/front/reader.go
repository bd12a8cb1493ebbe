package front

import (
	"encoding/binary"
	"io"
	"sync"

	"github.com/zkserver/zkserver/proto/jute"
)

const (
	readBuffer = 16 << 10 // bytes of a pooled buffer
	keptBuffer = 64 << 10 // longer ones are left to the collector
)

// readPool holds buffers of connections that are being read; an idle connection has none.
type readPool struct{ p sync.Pool }

type readBuf struct{ b []byte }

func (p *readPool) get() *readBuf {
	if b, ok := p.p.Get().(*readBuf); ok {
		return b
	}
	return &readBuf{b: make([]byte, readBuffer)}
}

func (p *readPool) put(b *readBuf) {
	if len(b.b) <= keptBuffer {
		p.p.Put(b)
	}
}

// reader cuts frames out of a connection.
type reader struct {
	*socket
	f *Front

	buf        *readBuf // nil while nothing is half read
	start, end int      // buf.b[start:end] is unread

	try func(fd uintptr) bool
	n   int
	err error
}

func (r *reader) init(so *socket, f *Front) {
	r.socket, r.f = so, f
	r.try = r.tryRead
}

// tryRead reads what is there. While there is nothing it gives its buffer back, and is called again when there is.
func (r *reader) tryRead(fd uintptr) bool {
	if r.buf == nil {
		r.buf, r.start, r.end = r.f.buffers.get(), 0, 0
	}
	n, again, err := tryRead(fd, r.buf.b[r.end:])
	if again {
		r.release()
		return false
	}
	r.n, r.err = n, err
	return true
}

// release gives the buffer back if it holds nothing.
func (r *reader) release() {
	if r.buf != nil && r.start == r.end {
		r.f.buffers.put(r.buf)
		r.buf = nil
	}
}

// fill waits for more bytes.
func (r *reader) fill() error {
	if r.buf != nil {
		r.makeRoom()
	}
	r.n, r.err = 0, nil
	if r.raw != nil {
		if err := r.raw.Read(r.try); err != nil {
			return err
		}
	} else {
		if r.buf == nil {
			r.buf, r.start, r.end = r.f.buffers.get(), 0, 0
		}
		r.n, r.err = r.nc.Read(r.buf.b[r.end:])
	}
	r.end += r.n
	if r.n > 0 {
		return nil
	}
	if r.err == nil {
		r.err = io.EOF
	}
	return r.err
}

// makeRoom makes space behind what is unread. The buffer grows as bytes arrive, at most twofold at a time and never
// beyond the frame that is being read: a length alone allocates nothing.
func (r *reader) makeRoom() {
	unread := r.end - r.start
	if r.start > 0 {
		copy(r.buf.b, r.buf.b[r.start:r.end])
		r.start, r.end = 0, unread
	}
	if r.end < len(r.buf.b) {
		return
	}
	size := 2 * len(r.buf.b)
	if unread >= 4 {
		size = min(size, 4+int(binary.BigEndian.Uint32(r.buf.b))) // next has checked the length
	}
	bigger := &readBuf{b: make([]byte, size)}
	copy(bigger.b, r.buf.b[:unread])
	r.f.buffers.put(r.buf)
	r.buf = bigger
}

// next cuts off the next complete frame, without its length; it is valid until fill. ok is false while there is none.
func (r *reader) next() (frame []byte, ok bool, err error) {
	if r.buf == nil {
		return nil, false, nil
	}
	frame, rest, ok, err := jute.SplitFrame(r.buf.b[r.start:r.end], r.f.opts.MaxBuffer)
	if ok {
		r.start = r.end - len(rest)
	}
	return frame, ok, err
}

// length is the announced length of the frame that next has refused.
func (r *reader) length() int32 { return int32(binary.BigEndian.Uint32(r.buf.b[r.start:])) }

// prefix hands bytes to the reader that were read before it was made.
func (r *reader) prefix(p []byte) {
	r.buf = r.f.buffers.get()
	r.start, r.end = 0, copy(r.buf.b, p)
}
