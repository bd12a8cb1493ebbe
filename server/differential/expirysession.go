package differential

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/zkserver/zkserver/proto/jute"
)

// liveSession is a session that is read all the time, and kept until it is hushed.
type liveSession struct {
	conn
	r       *endingRun
	ticks   int
	reading atomic.Bool // it is kept by reads instead of pings
	write   sync.Mutex  // of frames, and heard
	heard   time.Duration
	replies chan frame
	ended   chan struct{} // closed at the end of the connection
	quiet   chan struct{} // closed by hush
	seen    []Moment      // events; the reader's until ended is closed
}

// keepXid is the xid of reads that keep a session; their replies are passed over.
const keepXid = 1 << 30

// session opens a session and keeps it.
func (r *endingRun) session(name string, ticks int) (*liveSession, error) {
	s := &liveSession{r: r, ticks: ticks}
	r.all = append(r.all, s)
	if err := s.attach(); err != nil {
		return nil, err
	}
	r.sessions[s.session] = name
	return s, nil
}

func (s *liveSession) timeout() time.Duration { return time.Duration(s.ticks) * s.r.p.Tick }

// attach takes up the session on a new connection, or opens it, and keeps it.
func (s *liveSession) attach() error {
	s.heard = time.Since(s.r.start)
	resp, err := s.dial(s.r.addr, int32(s.timeout().Milliseconds()), s.session, s.passwd)
	if err != nil {
		return err
	}
	if resp.TimeOut <= 0 {
		s.hangUp()
		return errRefused
	}
	if int64(resp.TimeOut) != s.timeout().Milliseconds() {
		return fmt.Errorf("a timeout of %d", resp.TimeOut)
	}
	s.session, s.passwd = resp.SessionID, append([]byte(nil), resp.Passwd...)
	_ = s.c.SetDeadline(time.Time{})
	s.replies, s.ended, s.quiet = make(chan frame, 16), make(chan struct{}), make(chan struct{})
	frames, replies, ended, quiet := s.frames, s.replies, s.ended, s.quiet
	s.r.reads.Go(func() { s.read(frames, replies, ended) }) // ends with the connection
	s.r.reads.Go(func() { s.keep(quiet) })                  // ends when the session is hushed
	return nil
}

// keep keeps the session until it is hushed.
func (s *liveSession) keep(quiet chan struct{}) {
	t := time.NewTicker(s.r.p.Tick / 2)
	defer t.Stop()
	for {
		select {
		case <-quiet:
			return
		case <-t.C:
			s.alive(quiet)
		}
	}
}

// alive sends a sign of life, unless the session is quiet.
func (s *liveSession) alive(quiet chan struct{}) {
	s.write.Lock()
	defer s.write.Unlock()
	select {
	case <-quiet:
		return
	default:
	}
	q := Request{Op: OpName(jute.OpPing)}
	xid := jute.XidPing
	if s.reading.Load() {
		q, xid = Request{Op: OpName(jute.OpExists), Path: "~"}, keepXid
	}
	s.heard = time.Since(s.r.start)
	_, _ = s.c.Write(s.r.appendRequest(nil, xid, &q)) // an end shows at the read
}

// hush gives a last sign of life and then no more.
func (s *liveSession) hush() {
	if s.quiet == nil {
		return
	}
	select {
	case <-s.quiet:
	default:
		s.alive(s.quiet)
		s.write.Lock()
		close(s.quiet)
		s.write.Unlock()
	}
}

// read takes what comes until the connection ends.
func (s *liveSession) read(frames *jute.FrameReader, replies chan<- frame, ended chan<- struct{}) {
	defer close(ended)
	defer close(replies)
	for {
		f, err := nextFrame(frames)
		if err != nil {
			return
		}
		switch {
		case f.event != nil:
			text := fmt.Sprintf("%s %q", f.event.Type, s.r.text(f.event.Path.Value))
			s.seen = append(s.seen, Moment{At: time.Since(s.r.start), Zxid: f.header.Zxid, Text: text})
		case f.header.Xid != jute.XidPing && f.header.Xid != keepXid:
			replies <- f
		}
	}
}

// call sends a request and waits for its reply, which must not be an error.
func (s *liveSession) call(q Request) (frame, error) {
	s.write.Lock()
	s.xid++
	xid := s.xid
	s.heard = time.Since(s.r.start)
	_, err := s.c.Write(s.r.appendRequest(nil, xid, &q))
	s.write.Unlock()
	if err != nil {
		return frame{}, err
	}
	select {
	case f, ok := <-s.replies:
		switch {
		case !ok:
			return f, errors.New("closed")
		case f.header.Xid != xid:
			return f, fmt.Errorf("reply to %d, not %d", f.header.Xid, xid)
		case f.header.Err != 0:
			return f, f.header.Err
		}
		return f, nil
	case <-time.After(patience):
		return frame{}, errors.New("no answer")
	}
}
