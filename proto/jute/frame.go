package jute

import (
	"encoding/binary"
	"errors"
	"io"
	"slices"
)

// DefaultMaxBuffer is ZooKeeper's default of jute.maxbuffer, in bytes: the longest frame that is read.
const DefaultMaxBuffer = 0xfffff

// ErrFrameLength says that a frame's length is negative or above the limit: the connection cannot go on.
var ErrFrameLength = errors.New("jute: length of a frame is negative or above the limit")

// SplitFrame takes the first frame off buf. ok is false while it is incomplete; err is ErrFrameLength as soon as the length is
// known to be bad. frame aliases buf and is without its length.
func SplitFrame(buf []byte, limit int) (frame, rest []byte, ok bool, err error) {
	if len(buf) < 4 {
		return nil, buf, false, nil
	}
	n := int32(binary.BigEndian.Uint32(buf))
	if n < 0 || int(n) > limit {
		return nil, buf, false, ErrFrameLength
	}
	if len(buf)-4 < int(n) {
		return nil, buf, false, nil
	}
	end := 4 + int(n)
	return buf[4:end:end], buf[end:], true, nil
}

// BeginFrame appends room for a frame's length and returns where it is, for EndFrame.
func BeginFrame(dst []byte) (out []byte, at int) {
	return append(dst, 0, 0, 0, 0), len(dst)
}

// EndFrame fills in the length of the frame that BeginFrame began at.
func EndFrame(dst []byte, at int) []byte {
	binary.BigEndian.PutUint32(dst[at:], uint32(len(dst)-at-4))
	return dst
}

// AppendReply appends a whole frame with a header and no body.
func AppendReply(dst []byte, h ReplyHeader) []byte {
	return h.Append(AppendInt(dst, ReplyHeaderSize))
}

// AppendEvent appends the whole frame of a watch event.
func AppendEvent(dst []byte, zxid int64, t EventType, path string) []byte {
	dst = AppendInt(dst, int32(ReplyHeaderSize+12+len(path)))
	h := ReplyHeader{Xid: XidEvent, Zxid: zxid}
	e := WatcherEvent{Type: t, State: StateSyncConnected, Path: Str(path)}
	return e.Append(h.Append(dst))
}

// FrameReader reads frames from a stream into a buffer of its own. Its memory follows what has arrived: a length alone
// makes it allocate about firstRead, then as much again as has come.
type FrameReader struct {
	r     io.Reader
	limit int
	head  [4]byte
	buf   []byte
}

// NewFrameReader reads frames of at most limit bytes; DefaultMaxBuffer if limit is 0. Hand it a buffered reader.
func NewFrameReader(r io.Reader, limit int) *FrameReader {
	if limit == 0 {
		limit = DefaultMaxBuffer
	}
	return &FrameReader{r: r, limit: limit}
}

// firstRead is what is allocated on the word of a length alone, in bytes.
const firstRead = 16 << 10

// keepBuffer is the largest buffer that is kept for the next frame, in bytes.
const keepBuffer = 64 << 10

// Next returns the next frame, valid until the next call. At the end between two frames the error is io.EOF, inside one it
// is io.ErrUnexpectedEOF; ErrFrameLength if the length is bad.
func (f *FrameReader) Next() ([]byte, error) {
	if _, err := io.ReadFull(f.r, f.head[:]); err != nil {
		return nil, err
	}
	n := int32(binary.BigEndian.Uint32(f.head[:]))
	if n < 0 || int(n) > f.limit {
		return nil, ErrFrameLength
	}
	if cap(f.buf) > keepBuffer {
		f.buf = nil
	}
	size, buf := int(n), f.buf[:0]
	for len(buf) < size {
		step := min(size-len(buf), max(firstRead, len(buf), cap(buf)-len(buf)))
		buf = slices.Grow(buf, step)
		m, err := io.ReadFull(f.r, buf[len(buf):len(buf)+step])
		buf = buf[:len(buf)+m]
		if err != nil {
			if errors.Is(err, io.EOF) {
				err = io.ErrUnexpectedEOF
			}
			return nil, err
		}
	}
	f.buf = buf
	return buf, nil
}
